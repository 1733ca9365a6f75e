package host

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host/daemon"
)

// Filter reads and changes the table inet gateway in the kernel's packet filter, and reads the packets that rules log to group 0.
type Filter interface {
	// FilterState is cheap enough to poll.
	FilterState(ctx context.Context) (FilterState, error)
	// FilterDigest is a fingerprint of everything configured in the gateway's table; equal tables have equal ones. Counters and
	// dynamic sets, which change with the traffic, do not count. It is empty if the table is missing.
	FilterDigest(ctx context.Context) (string, error)
	// FilterDigestOf returns the digest that the table has right after this file was loaded. It costs as much as loading the file.
	FilterDigestOf(ctx context.Context, f File) (string, error)
	// FilterChanges calls changed once it is subscribed, and then after every change of the packet filter, whoever made it, until
	// the context ends or the subscription fails.
	FilterChanges(ctx context.Context, changed func()) error
	// FilterCounters reads the counters of all rules in the gateway's table with a comment gid:…, summed by comment. A missing
	// table has none.
	FilterCounters(ctx context.Context) (FilterCounters, error)
	// FilterLoad replaces the table with the one in a file of the gateway's own renderer, in one kernel transaction, and returns
	// the new generation. If it fails, nothing has changed, and nft may still be able to load the file.
	FilterLoad(ctx context.Context, f File) (generation uint32, err error)
	// FilterChange changes parts of the table in one kernel transaction. The rest keeps its counters. It fails with ErrFilterMoved
	// if anything has changed since the generation that the change is for. It returns what the removed rules had counted.
	FilterChange(ctx context.Context, c nft.Change) ([]FilterCounter, error)
	// PacketLog passes logged packets to the sink until the context ends or the log cannot be read. The sink gets an empty batch as
	// soon as the log is open. It may keep the packets, but not the slice, which is reused. lost is how many packets the kernel
	// dropped before the batch because they were not read fast enough.
	PacketLog(ctx context.Context, sink func(batch []LoggedPacket, lost uint64)) error
}

var filterVerbs = daemon.Verbs{
	"FilterState": daemon.Repeatable, "FilterDigest": daemon.Repeatable, "FilterDigestOf": daemon.Repeatable, "FilterCounters": daemon.Repeatable,
	"FilterChanges": daemon.Served, "FilterLoad": daemon.Served, "FilterChange": daemon.Served, "PacketLog": daemon.Served,
}

type FilterState struct {
	Present bool
	// Generation changes with every transaction on any table in the network namespace.
	Generation uint32
}

// ErrFilterMoved means that the packet filter has changed since the generation that a change is for.
var ErrFilterMoved = errors.New("the packet filter has changed in the meantime")

// FilterCounters are the rule counters of the gateway's table, by tag.
type FilterCounters struct {
	// Table identifies this load of the table, also across reboots: the same file loaded twice gives two. Counters of different
	// tables must not be compared.
	Table string
	List  []FilterCounter
}

// FilterCounter sums the rules with one tag.
type FilterCounter struct {
	// Tag follows gid: in the rules' comment.
	Tag            string
	Packets, Bytes uint64
}

type LoggedPacket struct {
	// Time is when the kernel saw the packet, or when we read it if the kernel does not say.
	Time   time.Time
	Prefix string
	// InIndex and OutIndex are interface indexes; zero for none.
	InIndex, OutIndex uint32
	// Proto is the IP protocol number. IPv6 extension headers are skipped.
	Proto    uint8
	Src, Dst netip.Addr
	// These are zero for protocols without ports and for fragments that do not carry them.
	SrcPort, DstPort uint16
	// Size is the length of the whole IP packet in bytes.
	Size int
}
