package nfnl

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// followers are the connections that are subscribed to changes of tables, with what they call.
type followers struct {
	mu   sync.Mutex
	list map[*conn]func()
}

// FollowChanges calls changed once it has subscribed, and then after every transaction on any table of the network namespace, until the
// context ends or reading fails.
func (s *Socket) FollowChanges(ctx context.Context, changed func()) error {
	c, err := dial(dumpBuffer)
	if err != nil {
		return err
	}
	defer c.file.Close()
	defer c.until(ctx)()
	if err := s.followers.add(c, changed); err != nil {
		return fmt.Errorf("listening for changes of the tables: %w", err)
	}
	defer s.followers.remove(c)
	changed()
	for {
		// An overflow means that there were changes.
		if _, err := c.read(ctx); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("listening for changes of the tables: %w", err)
		}
		changed()
	}
}

// add subscribes a connection. The kernel reports every rule of a transaction and, at its end, the new generation in a datagram of its
// own. Only that is needed; a socket filter drops the rest.
func (f *followers) add(c *conn, changed func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var failed error
	err := c.raw.Control(func(fd uintptr) {
		program := unix.SockFprog{Len: uint16(len(onlyGenerations)), Filter: &onlyGenerations[0]}
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	})
	if err := errors.Join(err, failed, c.option(unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_NFTABLES)); err != nil {
		return err
	}
	if f.list == nil {
		f.list = map[*conn]func(){}
	}
	f.list[c] = changed
	return nil
}

func (f *followers) remove(c *conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.list, c)
}

// without runs a transaction while no connection is subscribed, and then calls all followers: as long as one is subscribed, the kernel
// writes a message about each rule and each element, which takes a third of the time of a large transaction.
func (f *followers) without(transaction func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.list {
		// If this fails, the transaction takes longer.
		_ = c.option(unix.SOL_NETLINK, unix.NETLINK_DROP_MEMBERSHIP, unix.NFNLGRP_NFTABLES)
	}
	defer func() {
		for c, changed := range f.list {
			if c.option(unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_NFTABLES) != nil {
				c.file.Close() // ends FollowChanges, so that its caller notices
			}
			changed()
		}
	}()
	return transaction()
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
