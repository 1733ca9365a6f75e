// Package policy defines what rooms ask of the packet filter, independent of its room.
package policy

import (
	"context"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/value"
)

// Proto is a transport protocol.
type Proto string

// Protocols of openings.
const (
	TCP Proto = "tcp"
	UDP Proto = "udp"
)

// Port is one of the gateway's own ports.
type Port struct {
	Proto  Proto
	Number uint16
}

// ManagementPort is where the console is always reachable, whatever the gateway's name.
const ManagementPort = 3443

// AntiLockout are the ports that stay open whatever the rules are, so that operators cannot lock themselves out: SSH, and the
// console by the gateway's name and on the management port.
var AntiLockout = []Port{{TCP, 22}, {TCP, 443}, {TCP, ManagementPort}, {UDP, 443}}

// Peering are the ports between the nodes of a cluster: database, cache, agent.
var Peering = []Port{{TCP, 5432}, {TCP, 6379}, {TCP, 8443}}

var metrics = Port{TCP, 9464}

// Own returns the ports through which the gateway itself is managed, including those between nodes and of its metrics.
func Own() []Port { return append(slices.Concat(AntiLockout, Peering), metrics) }

// Opening asks to accept traffic to the gateway itself.
type Opening struct {
	// Service says for whom, such as ntp.
	Service string
	Proto   Proto
	Port    int
	// Addresses of the gateway that are open; if empty, all.
	Addresses []value.Addr
	// Interfaces that are open; if empty, all.
	Interfaces []value.IfName
}

func (o Opening) Same(p Opening) bool {
	return o.Service == p.Service && o.Proto == p.Proto && o.Port == p.Port && slices.Equal(o.Addresses, p.Addresses) && slices.Equal(o.Interfaces, p.Interfaces)
}

func Without(list, others []Opening) []Opening {
	return slices.DeleteFunc(slices.Clone(list), func(o Opening) bool { return slices.ContainsFunc(others, o.Same) })
}

// Reachable returns the addresses that other machines can reach.
func Reachable(addresses []value.Addr) []value.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(a value.Addr) bool { return a.Netip().IsLoopback() })
}

// Listening adds the bound addresses to those to listen on, unless these include an unspecified address.
func Listening(addresses []value.Addr, bound []netip.Prefix) []value.Addr {
	list := slices.Clone(addresses)
	for _, b := range bound {
		a := value.Must[value.Addr](b.Addr().String())
		if !slices.ContainsFunc(list, func(o value.Addr) bool { return o == a || o.Netip().IsUnspecified() }) {
			list = append(list, a)
		}
	}
	return list
}

// Admitting adds the networks of the bound addresses to those to admit, unless one of these contains them.
func Admitting(networks []value.Prefix, bound []netip.Prefix) []value.Prefix {
	list := slices.Clone(networks)
	for _, b := range bound {
		within := func(o value.Prefix) bool { n := o.Netip(); return n.Bits() <= b.Bits() && n.Contains(b.Addr()) }
		if !slices.ContainsFunc(list, within) {
			list = append(list, value.Must[value.Prefix](b.Masked().String()))
		}
	}
	return list
}

// Source lists the openings that a room needs for the stored state.
type Source func(ctx context.Context, q db.Querier) ([]Opening, error)

// Carrier is the peer at the other end of a tunnel that has an address; the zero one is none. Equal carriers are reached in the
// same way.
type Carrier struct {
	Interface value.IfName
	Name      string
	// Agreed is what both ends must agree on to communicate.
	Agreed string
}

// Tunnel asks to forward traffic from a tunnel, also to other peers, and to masquerade what its networks send through it.
type Tunnel struct {
	Interface value.IfName
	Networks  []value.Prefix
}
