package host

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Connections reads the kernel's connection tracking table: forwarded connections and those of the machine itself.
type Connections interface {
	// Connections reads one page of the table. It holds no more than a page in memory, however long the table is.
	Connections(ctx context.Context, q ConnectionQuery) (ConnectionPage, error)
	// Traffic sums the bytes that tracked connections carry from and to these addresses. Addresses without a connection are left
	// out.
	Traffic(ctx context.Context, of []netip.Addr) (Traffic, error)
	// EndConnection removes a connection from the table. It returns fs.ErrNotExist if the connection is gone, even if another one
	// has taken its place.
	EndConnection(ctx context.Context, k ConnectionKey) error
}

var connectionsVerbs = daemon.Verbs{
	"Connections": daemon.Repeatable, "Traffic": daemon.Repeatable,
	"EndConnection": daemon.Served,
}

// ConnectionKey identifies a connection: the direction of its first packet, and the kernel's id, which tells apart connections that
// reuse the ports.
type ConnectionKey struct {
	Flow
	Protocol           uint8 // IP protocol number
	ICMPType, ICMPCode uint8 // zero unless it is ICMP, whose id is in SourcePort
	Zone               uint16
	ID                 uint32
}

type Flow struct {
	Source, Destination         netip.Addr
	SourcePort, DestinationPort uint16
}

// Compare orders keys independently of traffic, so that pages do not shift.
func (k ConnectionKey) Compare(other ConnectionKey) int {
	return cmp.Or(
		k.Source.Compare(other.Source), k.Destination.Compare(other.Destination), cmp.Compare(k.Protocol, other.Protocol),
		cmp.Compare(k.DestinationPort, other.DestinationPort), cmp.Compare(k.SourcePort, other.SourcePort),
		cmp.Compare(k.ICMPType, other.ICMPType), cmp.Compare(k.ICMPCode, other.ICMPCode), cmp.Compare(k.Zone, other.Zone),
		cmp.Compare(k.ID, other.ID),
	)
}

type Connection struct {
	ConnectionKey
	// Reply is the direction of the answers. With NAT it is not simply the reverse.
	Reply Flow
	State ConnectionState
	// Replied is set once there was an answer, and Assured if the kernel does not drop this entry first when the table is full.
	Replied, Assured bool
	// SourceNAT and DestinationNAT say which addresses were rewritten.
	SourceNAT, DestinationNAT bool
	// Seconds is how long the entry stays without further packets.
	Seconds uint32
	// These are zero unless the kernel counts.
	SentPackets, SentBytes, ReceivedPackets, ReceivedBytes uint64
}

// ConnectionState is the kernel's number of a TCP state; zero for other protocols.
type ConnectionState uint8

var connectionStates = []string{"", "syn_sent", "syn_recv", "established", "fin_wait", "close_wait", "last_ack", "time_wait", "close", "syn_sent2"}

// String returns conntrack's name of the state in lower case, or nothing.
func (s ConnectionState) String() string {
	if int(s) < len(connectionStates) {
		return connectionStates[s]
	}
	return ""
}

// ConnectionQuery filters connections. Zero values match everything.
type ConnectionQuery struct {
	Source      netip.Prefix // of the client
	Destination netip.Prefix // before or after NAT
	Port        uint16       // of either end, before or after NAT
	Protocol    uint8
	States      []ConnectionState
	Unreplied   bool // only connections without an answer
	// After is the last key of the previous page; nil for the first page.
	After *ConnectionKey
	Limit int
}

type ConnectionPage struct {
	List []Connection
	// Matching counts the matches on all pages, and Total all connections.
	Matching, Total int
	// More is set if another page follows.
	More bool
}

// Matches reports whether the query selects a connection. It ignores After and Limit.
func (q *ConnectionQuery) Matches(c *Connection) bool {
	switch {
	case q.Protocol != 0 && c.Protocol != q.Protocol,
		q.Source.IsValid() && !q.Source.Contains(c.Source),
		q.Destination.IsValid() && !q.Destination.Contains(c.Destination) && !q.Destination.Contains(c.Reply.Source),
		q.Unreplied && c.Replied:
		return false
	case q.Port != 0 && q.Port != c.SourcePort && q.Port != c.DestinationPort && q.Port != c.Reply.SourcePort && q.Port != c.Reply.DestinationPort:
		return false
	}
	for _, s := range q.States {
		if s == c.State {
			return true
		}
	}
	return len(q.States) == 0
}

type Traffic struct {
	// Counted is set if the kernel counts bytes. It may do so only for connections that began after counting was turned on.
	Counted bool
	List    []AddressTraffic
}

// AddressTraffic sums the connections that have the address at either end, before or after NAT.
type AddressTraffic struct {
	Address        netip.Addr
	Connections    int
	Sent, Received uint64 // bytes, from the address's point of view
}

// TrafficOf sums traffic by address. Machines feed it the table one connection at a time.
type TrafficOf map[netip.Addr]*AddressTraffic

// NewTrafficOf sums only what these addresses send and receive.
func NewTrafficOf(of []netip.Addr) TrafficOf {
	t := make(TrafficOf, len(of))
	for _, a := range of {
		t[a] = &AddressTraffic{Address: a}
	}
	return t
}

func (t TrafficOf) Add(c *Connection) {
	if x := t[c.Source]; x != nil {
		x.Connections++
		x.Sent, x.Received = x.Sent+c.SentBytes, x.Received+c.ReceivedBytes
	}
	// The destination after NAT is the one that answers.
	if x := t[c.Reply.Source]; x != nil && c.Reply.Source != c.Source {
		x.Connections++
		x.Sent, x.Received = x.Sent+c.ReceivedBytes, x.Received+c.SentBytes
	}
}

func (t TrafficOf) List() []AddressTraffic {
	list := []AddressTraffic{}
	for _, x := range t {
		if x.Connections > 0 {
			list = append(list, *x)
		}
	}
	slices.SortFunc(list, func(a, b AddressTraffic) int { return a.Address.Compare(b.Address) })
	return list
}
