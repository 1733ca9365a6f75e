package host

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host/nfnl"
)

const (
	// filterTable is the packet filter's table of the gateway, of the family inet.
	filterTable = "gateway"
	// filterTag is how the comment of a rule begins whose counter is read.
	filterTag = "gid:"
	// filterLogGroup is the netlink group that rules log packets to.
	filterLogGroup = 0
	// filterWithin is how long the kernel may take to answer.
	filterWithin = 2 * time.Second
)

// Filter is the kernel's packet filter: the table inet gateway, and the packets that rules log to group 0.
type Filter interface {
	// FilterState tells whether the gateway's table is there and which one it is. It is cheap.
	FilterState(ctx context.Context) (FilterState, error)
	// FilterDigest is a fingerprint of all that is configured in the gateway's table. Equal tables have equal ones; what moves
	// with the traffic (counters, dynamic sets) does not change it. A missing table has the empty one.
	FilterDigest(ctx context.Context) (string, error)
	// FilterDigestOf is the digest that the gateway's table has when a file was loaded and nothing else was done. It costs as much
	// as loading the file.
	FilterDigestOf(ctx context.Context, f File) (string, error)
	// FilterChanges calls changed once it listens, and then after every change of the packet filter, the gateway's own and those
	// of others, until the context ends or the kernel can no longer be heard.
	FilterChanges(ctx context.Context, changed func()) error
	// FilterCounters reads the counters of all rules of the gateway's table with a comment gid:…, summed by comment. A missing
	// table has none.
	FilterCounters(ctx context.Context) (FilterCounters, error)
	// PacketLog hands logged packets to the sink until the context ends, or until the log cannot be read, and then says why.
	// The sink gets an empty batch as soon as the log is open. It must not keep a batch, which is used again, but may keep
	// what is in it. lost tells how many packets the kernel dropped before the batch because they were not read fast enough.
	PacketLog(ctx context.Context, sink func(batch []LoggedPacket, lost uint64)) error
}

type (
	// FilterState says which table the kernel has.
	FilterState = nfnl.State
	// FilterCounters are the counters of one table.
	FilterCounters struct {
		// Table tells one table from another, also across reboots. Equal tables that were loaded one after the other differ.
		Table string
		List  []FilterCounter
	}
	// FilterCounter counts the packets of the rules with one tag: what follows gid: in their comment.
	FilterCounter = nfnl.Counter
	// LoggedPacket is one packet that a rule logged.
	LoggedPacket = nfnl.Packet
)

// Whom commands and verbs talk to that ask the kernel. Under a root folder the kernel is the machine's own.
const (
	packetFilter = "the packet filter"
	packetLog    = "the packet log"
)

// here refuses to talk to the machine's own daemons and kernel under a root folder: they are none of our business.
func (s *System) here(whom string) error {
	if s.foreign {
		return notHere(whom)
	}
	return nil
}

// notHere is ErrNotInstalled in other words: what is there is not ours.
type notHere string

func (n notHere) Error() string { return string(n) + " does not run here" }

func (notHere) Is(target error) bool { return target == ErrNotInstalled }

func (s *System) FilterState(ctx context.Context) (FilterState, error) {
	return askFilter(ctx, s, "state", func(ctx context.Context) (FilterState, error) { return s.netfilter.ReadState(ctx, filterTable) })
}

func (s *System) FilterDigest(ctx context.Context) (string, error) {
	return askFilter(ctx, s, "rules", func(ctx context.Context) (string, error) { return s.netfilter.Digest(ctx, filterTable) })
}

// FilterDigestOf loads the file in a network namespace of its own, where there is nothing else and no packet passes.
func (s *System) FilterDigestOf(ctx context.Context, f File) (digest string, err error) {
	if err := s.here(packetFilter); err != nil {
		return "", err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread stays locked, so that it ends with the goroutine: nothing else must run in this namespace.
		runtime.LockOSThread()
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("making a network namespace: %w", err)
			return
		}
		if _, err = s.Run(ctx, NftLoad, Input{Staged: []File{f}}); err != nil {
			return
		}
		var apart nfnl.Socket
		defer apart.Close()
		digest, err = apart.Digest(ctx, filterTable)
	}()
	<-done
	if err != nil {
		return "", fmt.Errorf("loading the packet filter aside: %w", err)
	}
	return digest, nil
}

func (s *System) FilterChanges(ctx context.Context, changed func()) error {
	if err := s.here(packetFilter); err != nil {
		return err
	}
	return nfnl.FollowChanges(ctx, changed)
}

func (s *System) FilterCounters(ctx context.Context) (FilterCounters, error) {
	return askFilter(ctx, s, "counters", func(ctx context.Context) (FilterCounters, error) {
		read, err := s.netfilter.ReadCounters(ctx, filterTable, filterTag)
		if err != nil {
			return FilterCounters{}, err
		}
		// The kernel counts its tables from one at each boot.
		boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		return FilterCounters{fmt.Sprintf("%s/%d", bytes.TrimSpace(boot), read.Table), read.List}, err
	})
}

// askFilter bounds a question to the kernel, and says what it was about when it fails.
func askFilter[T any](ctx context.Context, s *System, what string, ask func(context.Context) (T, error)) (T, error) {
	var none T
	if err := s.here(packetFilter); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, filterWithin)
	defer cancel()
	answer, err := ask(ctx)
	if err != nil {
		return none, fmt.Errorf("reading the packet filter's %s: %w", what, err)
	}
	return answer, nil
}

func (s *System) PacketLog(ctx context.Context, sink func(batch []LoggedPacket, lost uint64)) error {
	if err := s.here(packetLog); err != nil {
		return err
	}
	return nfnl.FollowLog(ctx, filterLogGroup, sink)
}
