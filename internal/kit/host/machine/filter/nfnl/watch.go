package nfnl

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// FollowChanges calls changed once it listens, and then after every transaction on any table of the network namespace, until
// the context ends or the kernel can no longer be heard.
func FollowChanges(ctx context.Context, changed func()) error {
	c, err := dial(dumpBuffer)
	if err != nil {
		return err
	}
	defer c.file.Close()
	defer c.until(ctx)()
	if err := c.join(); err != nil {
		return fmt.Errorf("listening for changes of the tables: %w", err)
	}
	changed()
	for {
		// What overflowed was news of changes too.
		if _, err := c.read(ctx); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("listening for changes of the tables: %w", err)
		}
		changed()
	}
}

// join subscribes to the changes of tables. The kernel reports every rule of a transaction, and at its end the new generation in
// a datagram of its own. That one is enough, and a filter keeps the rest away.
func (c *conn) join() error {
	var failed error
	err := c.raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(onlyGenerations)), Filter: &onlyGenerations[0]})
		if failed == nil {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_NFTABLES)
		}
	})
	return errors.Join(err, failed)
}

// onlyGenerations passes the kind NFT_MSG_NEWGEN. The kind of a message is in the bytes 4 and 5 of its header: the message and
// the subsystem, in the order of the machine. No message of the packet filter has the number of the subsystem, so that either
// byte will do.
var onlyGenerations = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 4},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 2, K: unix.NFT_MSG_NEWGEN},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 5},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.NFT_MSG_NEWGEN},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
}
