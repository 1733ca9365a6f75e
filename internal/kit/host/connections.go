package host

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Connections is the kernel's table of the connections that pass the machine or end at it.
type Connections interface {
	// Connections reads a page of the table. However long the table is, no more than the page is kept.
	Connections(ctx context.Context, q ConnectionQuery) (ConnectionPage, error)
	// Traffic adds up what connections carry from and to addresses. Those without a connection are left out.
	Traffic(ctx context.Context, of []netip.Addr) (Traffic, error)
	// EndConnection removes a connection from the table, and answers fs.ErrNotExist when it is not there, or another has its place.
	EndConnection(ctx context.Context, k ConnectionKey) error
}

var connectionsVerbs = daemon.Verbs{
	"Connections": daemon.Repeatable, "Traffic": daemon.Repeatable,
	"EndConnection": daemon.Served,
}

// ConnectionKey tells connections apart: the packets that began it, and the kernel's own number of it.
type ConnectionKey struct {
	Flow
	Protocol           uint8 // number above IP
	ICMPType, ICMPCode uint8 // of ICMP, which has no ports; its id is the source port
	Zone               uint16
	ID                 uint32
}

// Flow is one direction of a connection.
type Flow struct {
	Source, Destination         netip.Addr
	SourcePort, DestinationPort uint16
}

// Compare puts keys in an order that does not depend on the traffic.
func (k ConnectionKey) Compare(other ConnectionKey) int {
	return cmp.Or(
		k.Source.Compare(other.Source), k.Destination.Compare(other.Destination), cmp.Compare(k.Protocol, other.Protocol),
		cmp.Compare(k.DestinationPort, other.DestinationPort), cmp.Compare(k.SourcePort, other.SourcePort),
		cmp.Compare(k.ICMPType, other.ICMPType), cmp.Compare(k.ICMPCode, other.ICMPCode), cmp.Compare(k.Zone, other.Zone), cmp.Compare(k.ID, other.ID),
	)
}

// Connection is one connection that the kernel keeps track of.
type Connection struct {
	ConnectionKey
	// Reply is how the answers come: where NAT is at work, it is not the flow turned round.
	Reply Flow
	State ConnectionState
	// Replied tells whether there was an answer, and Assured that the kernel does not drop it first when the table is full.
	Replied, Assured bool
	// SourceNAT and DestinationNAT tell what was rewritten.
	SourceNAT, DestinationNAT bool
	// Seconds is when it is forgotten, unless there are packets.
	Seconds uint32
	// Sent and Received count what went either way, where the kernel counts.
	SentPackets, SentBytes, ReceivedPackets, ReceivedBytes uint64
}

// ConnectionState is the state of a TCP connection, as the kernel numbers it; zero for other protocols.
type ConnectionState uint8

var connectionStates = []string{"", "syn_sent", "syn_recv", "established", "fin_wait", "close_wait", "last_ack", "time_wait", "close", "syn_sent2"}

// String is the state in a word; empty where there is none.
func (s ConnectionState) String() string {
	if int(s) < len(connectionStates) {
		return connectionStates[s]
	}
	return ""
}

// ConnectionQuery says which connections are wanted. What is zero does not matter.
type ConnectionQuery struct {
	Source      netip.Prefix // of who began it
	Destination netip.Prefix // as the sender wrote it, or after NAT
	Port        uint16       // of either end, before or after NAT
	Protocol    uint8
	States      []ConnectionState
	Unreplied   bool // only those without an answer
	// After is the last one of the page before; nil for the first page.
	After *ConnectionKey
	Limit int
}

// ConnectionPage is a part of the table, in the order of the keys.
type ConnectionPage struct {
	List []Connection
	// Matching is how many the query matches on all pages, and Total how many there are.
	Matching, Total int
	// More tells whether there is a page after this one.
	More bool
}

// Matches tells whether a connection is wanted, on whichever page.
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

// Traffic is what connections carry.
type Traffic struct {
	// Counted tells whether the kernel counts bytes. It may count only connections that began since it was told to.
	Counted bool
	List    []AddressTraffic
}

// AddressTraffic is what the connections of one address carry, whichever end of them it is, before or after NAT.
type AddressTraffic struct {
	Address        netip.Addr
	Connections    int
	Sent, Received uint64 // bytes, as the address sees them
}

// TrafficOf adds up what the connections of some addresses carry.
type TrafficOf map[netip.Addr]*AddressTraffic

// NewTrafficOf counts for the addresses.
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
	// Who answers is the destination after NAT.
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
