package nfnl

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// FollowChanges calls changed once it has subscribed, and then after every transaction on any table of the network namespace, until the
// context ends or reading fails.
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
		// An overflow means that there were changes.
		if _, err := c.read(ctx); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("listening for changes of the tables: %w", err)
		}
		changed()
	}
}

// join subscribes to changes of tables. The kernel reports every rule of a transaction and, at its end, the new generation in a datagram
// of its own. Only that is needed; a socket filter drops the rest.
func (c *conn) join() error {
	var failed error
	err := c.raw.Control(func(fd uintptr) {
		program := unix.SockFprog{Len: uint16(len(onlyGenerations)), Filter: &onlyGenerations[0]}
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
		if failed == nil {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_NFTABLES)
		}
	})
	return errors.Join(err, failed)
}

// onlyGenerations accepts NFT_MSG_NEWGEN. Bytes 4 and 5 of a message's header are its type and its subsystem, in the machine's byte order.
// The number of the subsystem is not NFT_MSG_NEWGEN, so that either byte may be compared.
var onlyGenerations = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 4},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 2, K: unix.NFT_MSG_NEWGEN},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 5},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.NFT_MSG_NEWGEN},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
}
