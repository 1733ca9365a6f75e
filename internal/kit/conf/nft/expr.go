package nft

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/value"
)

// Expr is one expression of a rule.
type Expr interface{ print(b *bytes.Buffer) }

type text string

func (t text) print(b *bytes.Buffer) { b.WriteString(string(t)) }

// Do returns an expression that is a constant of the program.
func Do(expr constant) Expr { return text(expr) }

// Expressions without arguments.
var (
	Counter    = Do("counter")
	Accept     = Do("accept")
	Drop       = Do("drop")
	Reject     = Do("reject")
	Masquerade = Do("masquerade")
)

// Jump jumps to a chain and returns if that decides nothing.
func Jump(to Name) Expr { return text("jump " + to.text) }

// Goto goes to a chain; if that decides nothing, the chain that jumped to this one continues.
func Goto(to Name) Expr { return text("goto " + to.text) }

// Log sends the packet to the readers of log group 0.
func Log(prefix constant) Expr { return text(`log prefix "` + string(prefix) + `" group 0`) }

// LogID is Log with an id in the prefix.
func LogID(prefix constant, id uuid.UUID) Expr {
	return text(`log prefix "` + string(prefix) + id.String() + `" group 0`)
}

// Only restricts a rule to one family.
func Only(f Family) Expr { return text("meta nfproto " + f.String()) }

// Mark sets the mark of the packet, which routing rules can match.
func Mark(n uint32) Expr { return text(fmt.Sprintf("meta mark set %d", n)) }

// MarkConnection sets the mark of the packet's connection.
func MarkConnection(n uint32) Expr { return text(fmt.Sprintf("ct mark set %d", n)) }

// OfConnection matches packets of connections with the mark.
func OfConnection(n uint32) Expr { return text(fmt.Sprintf("ct mark %d", n)) }

// Side is a direction of a packet: where it comes from, or where it goes to.
type Side int

// Sides of a packet.
const (
	From Side = iota
	To
)

// Link matches the interface on a side.
func Link(s Side, names []value.IfName) Expr {
	var b bytes.Buffer
	b.WriteString([...]string{"iifname ", "oifname "}[s])
	many(&b, names, func(n value.IfName) { fmt.Fprintf(&b, `"%s"`, n) })
	return text(b.String())
}

// Way says where packets of an interface go.
type Way struct {
	Link value.IfName
	To   Name
}

// Dispatch sends packets to chains by the interface on a side.
func Dispatch(s Side, ways []Way) Expr {
	var b bytes.Buffer
	b.WriteString([...]string{"iifname", "oifname"}[s])
	b.WriteString(" vmap { ")
	for i, w := range ways {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `"%s" : goto %s`, w.Link, w.To)
	}
	b.WriteString(" }")
	return text(b.String())
}

type addresses struct {
	side Side
	list []Span
}

func (e addresses) print(b *bytes.Buffer) {
	b.WriteString(FamilyOf(e.list[0].First).keyword())
	b.WriteString([...]string{" saddr ", " daddr "}[e.side])
	many(b, e.list, func(s Span) { s.print(b) })
}

// Addr matches the address on a side. The spans, at least one, are of one family.
func Addr(s Side, list []Span) Expr { return addresses{s, list} }

// InSet matches the address on a side against a named set.
func InSet(s Side, f Family, set Name) Expr {
	return text(f.keyword() + [...]string{" saddr @", " daddr @"}[s] + set.text)
}

// Ports is a protocol and a range of its destination ports.
type Ports struct {
	Proto       uint8
	First, Last uint16
}

// All reports whether the range includes every port, as for a protocol without ports.
func (p Ports) All() bool { return p.First == 0 && p.Last == 65535 }

// Protocol numbers.
const (
	ICMP   = 1
	TCP    = 6
	UDP    = 17
	ICMPv6 = 58
)

var protoNames = map[uint8]string{ICMP: "icmp", TCP: "tcp", UDP: "udp", ICMPv6: "ipv6-icmp"}

func portRange(b *bytes.Buffer, first, last uint16) {
	number(b, int(first))
	if last != first {
		b.WriteByte('-')
		number(b, int(last))
	}
}

type service []Ports

// Service matches protocols and destination ports: at least one, sorted by protocol and port.
func Service(list []Ports) Expr { return service(list) }

func (list service) print(b *bytes.Buffer) {
	// Count the ports of the first protocol, and check whether all others have the same.
	n := 1
	for n < len(list) && list[n].Proto == list[0].Proto {
		n++
	}
	for i, p := range list {
		if q := list[i%n]; len(list)%n != 0 || p.First != q.First || p.Last != q.Last || p.Proto != list[i-i%n].Proto {
			list.mixed(b)
			return
		}
	}
	whole, several := list[0].All(), len(list) > n
	if whole || several {
		b.WriteString("meta l4proto ")
		var protos []uint8
		for i := 0; i < len(list); i += n {
			protos = append(protos, list[i].Proto)
		}
		many(b, protos, func(p uint8) { b.WriteString(protoNames[p]) })
		if whole {
			return
		}
		b.WriteString(" th")
	} else {
		b.WriteString(protoNames[list[0].Proto])
	}
	b.WriteString(" dport ")
	many(b, list[:n], func(p Ports) { portRange(b, p.First, p.Last) })
}

func (list service) mixed(b *bytes.Buffer) {
	b.WriteString("meta l4proto . th dport ")
	many(b, list, func(p Ports) {
		b.WriteString(protoNames[p.Proto])
		b.WriteString(" . ")
		portRange(b, p.First, p.Last)
	})
}

// many prints one item as it is, and several as a set.
func many[T any](b *bytes.Buffer, list []T, print func(T)) {
	if len(list) == 1 {
		print(list[0])
		return
	}
	b.WriteString("{ ")
	for i, x := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		print(x)
	}
	b.WriteString(" }")
}

// Target is where NAT sends a packet, or makes it appear to come from.
type Target struct {
	Addr netip.Addr
	// First and Last are its ports; zero keeps the port.
	First, Last uint16
	// Shift, if not zero, is the first port of the destination's range: each of its ports is mapped to the one at the same
	// position in the target's range.
	Shift uint16
}

// NAT rewrites the address on a side.
func NAT(s Side, t Target) Expr {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s to ", [...]string{"snat", "dnat"}[s], FamilyOf(t.Addr).keyword())
	if t.Shift != 0 {
		fmt.Fprintf(&b, "%s : th dport map { ", t.Addr)
		for i := uint16(0); ; i++ {
			fmt.Fprintf(&b, "%d : %d", t.Shift+i, t.First+i)
			if t.First+i == t.Last {
				break
			}
			b.WriteString(", ")
		}
		b.WriteString(" }")
		return text(b.String())
	}
	if t.Addr.Is6() && t.First != 0 {
		fmt.Fprintf(&b, "[%s]", t.Addr)
	} else {
		b.WriteString(t.Addr.String())
	}
	if t.First != 0 {
		b.WriteByte(':')
		portRange(&b, t.First, t.Last)
	}
	return text(b.String())
}
