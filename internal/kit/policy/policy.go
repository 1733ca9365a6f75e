// Package policy is what a room asks of the packet filter without knowing it.
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

// The protocols of openings.
const (
	TCP Proto = "tcp"
	UDP Proto = "udp"
)

// Port is one of the gateway's own.
type Port struct {
	Proto  Proto
	Number uint16
}

// ManagementPort is where the console is, whatever becomes of the gateway's name.
const ManagementPort = 3443

// AntiLockout are the ports that stay open whatever the rules say, so that nobody locks himself out: SSH, and the console by the gateway's name
// and on the management port.
var AntiLockout = []Port{{TCP, 22}, {TCP, 443}, {TCP, ManagementPort}, {UDP, 443}}

// Peering are the ports between the nodes of a cluster: database, cache, agent.
var Peering = []Port{{TCP, 5432}, {TCP, 6379}, {TCP, 8443}}

// metrics is where the gateway's programs are measured.
var metrics = Port{TCP, 9464}

// Own are the ports by which the gateway itself is managed, with those between nodes and of the stores behind them.
func Own() []Port { return append(slices.Concat(AntiLockout, Peering), metrics) }

// Opening asks that traffic to the gateway itself is accepted.
type Opening struct {
	// Service says for whom, such as ntp.
	Service string
	Proto   Proto
	Port    int
	// Addresses of the gateway that are open; none means every address.
	Addresses []value.Addr
	// Interfaces that are open; none means every interface.
	Interfaces []value.IfName
}

// Same tells whether two openings ask for the same.
func (o Opening) Same(p Opening) bool {
	return o.Service == p.Service && o.Proto == p.Proto && o.Port == p.Port && slices.Equal(o.Addresses, p.Addresses) && slices.Equal(o.Interfaces, p.Interfaces)
}

// Without are those of the openings that are not among others.
func Without(list, others []Opening) []Opening {
	return slices.DeleteFunc(slices.Clone(list), func(o Opening) bool { return slices.ContainsFunc(others, o.Same) })
}

// Reachable are those of the addresses that others can reach.
func Reachable(addresses []value.Addr) []value.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(a value.Addr) bool { return a.Netip().IsLoopback() })
}

// Listening are the addresses to listen on so that the bound ones are among them. All addresses, if it is that, stay all.
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

// Admitting are the networks to admit so that those of the bound addresses are among them.
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

// Carrier is who at the other end of a tunnel has an address; the zero one is nobody. Two that are equal are reached in the
// same way.
type Carrier struct {
	Interface value.IfName
	Name      string
	// Agreed is what both ends have to know of one another to talk.
	Agreed string
}

// Tunnel asks that traffic that comes from a tunnel is forwarded, to other peers too, and that what its networks send
// out through it carries the gateway's own address.
type Tunnel struct {
	Interface value.IfName
	Networks  []value.Prefix
}
