// Package filter reads and changes the kernel's packet filter.
package filter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/machine/command"
	"edge.internal/gateway/internal/kit/host/machine/filter/nfnl"
)

const (
	// tag is the prefix of the comments of rules whose counters are read.
	tag = "gid:"
	// logGroup is the netlink group that rules log packets to.
	logGroup      = 0
	answersWithin = 2 * time.Second
)

const packetLog = "the packet log"

type Filter struct {
	home      home.Home
	commands  *command.Commands
	netfilter nfnl.Socket
}

func New(h home.Home, c *command.Commands) *Filter { return &Filter{home: h, commands: c} }

func (s *Filter) FilterState(ctx context.Context) (host.FilterState, error) {
	return ask(ctx, s, "state", func(ctx context.Context) (host.FilterState, error) {
		return s.netfilter.ReadState(ctx, nftables.Name)
	})
}

func (s *Filter) FilterDigest(ctx context.Context) (string, error) {
	return ask(ctx, s, "rules", func(ctx context.Context) (string, error) { return s.netfilter.Digest(ctx, nftables.Name) })
}

// FilterDigestOf loads the file in a new network namespace, where it affects no packets.
func (s *Filter) FilterDigestOf(ctx context.Context, f host.File) (digest string, err error) {
	if err := s.home.Here(nftables.PacketFilter); err != nil {
		return "", err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread stays locked, so that it ends with the goroutine: no other goroutine must run in this namespace.
		runtime.LockOSThread()
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("making a network namespace: %w", err)
			return
		}
		if _, err = s.commands.Run(ctx, nftables.Load, host.Input{Staged: []host.File{f}}); err != nil {
			return
		}
		var socket nfnl.Socket
		defer socket.Close()
		digest, err = socket.Digest(ctx, nftables.Name)
	}()
	<-done
	if err != nil {
		return "", fmt.Errorf("loading the packet filter in a network namespace of its own: %w", err)
	}
	return digest, nil
}

func (s *Filter) FilterChanges(ctx context.Context, changed func()) error {
	if err := s.home.Here(nftables.PacketFilter); err != nil {
		return err
	}
	return s.netfilter.FollowChanges(ctx, changed)
}

func (s *Filter) FilterCounters(ctx context.Context) (host.FilterCounters, error) {
	return ask(ctx, s, "counters", func(ctx context.Context) (host.FilterCounters, error) {
		read, err := s.netfilter.ReadCounters(ctx, nftables.Name, tag)
		if err != nil {
			return host.FilterCounters{}, err
		}
		// The kernel numbers its tables from one at each boot.
		boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		return host.FilterCounters{Table: fmt.Sprintf("%s/%d", bytes.TrimSpace(boot), read.Table), List: read.List}, err
	})
}

func (s *Filter) FilterLoad(ctx context.Context, f host.File) (uint32, error) {
	if err := s.home.Here(nftables.PacketFilter); err != nil {
		return 0, err
	}
	generation, err := s.netfilter.Load(ctx, nftables.Name, string(f.Content))
	if err != nil {
		return 0, fmt.Errorf("loading the packet filter: %w", err)
	}
	return generation, nil
}

func (s *Filter) FilterChange(ctx context.Context, c nft.Change) ([]host.FilterCounter, error) {
	if err := s.home.Here(nftables.PacketFilter); err != nil {
		return nil, err
	}
	removed, err := s.netfilter.Change(ctx, nftables.Name, tag, &c)
	if errors.Is(err, unix.ERESTART) {
		return nil, host.ErrFilterMoved
	}
	if err != nil {
		return nil, fmt.Errorf("changing the packet filter: %w", err)
	}
	return removed, nil
}

// ask bounds a query of the kernel and adds its subject to an error.
func ask[T any](ctx context.Context, s *Filter, what string, ask func(context.Context) (T, error)) (T, error) {
	var none T
	if err := s.home.Here(nftables.PacketFilter); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	answer, err := ask(ctx)
	if err != nil {
		return none, fmt.Errorf("reading the packet filter's %s: %w", what, err)
	}
	return answer, nil
}

func (s *Filter) PacketLog(ctx context.Context, sink func(batch []host.LoggedPacket, lost uint64)) error {
	if err := s.home.Here(packetLog); err != nil {
		return err
	}
	return nfnl.FollowLog(ctx, logGroup, sink)
}
