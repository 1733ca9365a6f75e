package host

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host/daemon"
)

// Filter is the kernel's packet filter: the table inet gateway, and the packets that rules log to group 0.
type Filter interface {
	// FilterState tells whether the gateway's table is there. It is cheap.
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
	// FilterLoad puts the table of a file, which the gateway's own renderer has written, in the place of the one that is there, in one
	// transaction of the kernel, and returns the generation that this makes. Where it fails, nothing has changed, and nft may know how.
	FilterLoad(ctx context.Context, f File) (generation uint32, err error)
	// FilterChange changes parts of the gateway's table, in one transaction of the kernel, and leaves the rest as it is, with its
	// counters. It fails with ErrFilterMoved if anything was changed since the generation that the change is for. It returns what the
	// rules had counted that it took away.
	FilterChange(ctx context.Context, c nft.Change) ([]FilterCounter, error)
	// PacketLog hands logged packets to the sink until the context ends, or until the log cannot be read, and then says why.
	// The sink gets an empty batch as soon as the log is open. It must not keep a batch, which is used again, but may keep
	// what is in it. lost tells how many packets the kernel dropped before the batch because they were not read fast enough.
	PacketLog(ctx context.Context, sink func(batch []LoggedPacket, lost uint64)) error
}

var filterVerbs = daemon.Verbs{
	"FilterState": daemon.Repeatable, "FilterDigest": daemon.Repeatable, "FilterDigestOf": daemon.Repeatable, "FilterCounters": daemon.Repeatable,
	"FilterChanges": daemon.Served, "FilterLoad": daemon.Served, "FilterChange": daemon.Served, "PacketLog": daemon.Served,
}

// FilterState says what the kernel has.
type FilterState struct {
	// Present tells whether the table exists.
	Present bool
	// Generation changes with every transaction on any table of the network namespace.
	Generation uint32
}

// ErrFilterMoved says that the packet filter is no longer what a change was made for.
var ErrFilterMoved = errors.New("the packet filter has been changed since")

// FilterCounters are the counters of one table.
type FilterCounters struct {
	// Table tells one table from another, also across reboots. Equal tables that were loaded one after the other differ.
	Table string
	List  []FilterCounter
}

// FilterCounter counts the packets of the rules with one tag.
type FilterCounter struct {
	// Tag is what follows gid: in the comment of the rules.
	Tag            string
	Packets, Bytes uint64
}

// LoggedPacket is one packet that a rule logged.
type LoggedPacket struct {
	// Time is when the kernel saw the packet; when it does not say, when it was read.
	Time time.Time
	// Prefix is the text that the rule gave.
	Prefix string
	// InIndex and OutIndex are the interfaces it came by and leaves by; zero where there is none.
	InIndex, OutIndex uint32
	// Proto is the number of the protocol above IP. IPv6 extension headers are not one.
	Proto    uint8
	Src, Dst netip.Addr
	// SrcPort and DstPort are zero for protocols without ports and for fragments that do not carry them.
	SrcPort, DstPort uint16
	// Size is the length of the whole IP packet.
	Size int
}
