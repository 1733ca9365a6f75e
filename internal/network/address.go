package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Address is an address that the gateway binds to one of its interfaces.
type Address struct {
	resource.Meta
	InterfaceID uuid.UUID  `json:"interface_id" doc:"The interface that has it; left out below an interface's own path."`
	Address     value.Addr `json:"address" required:"true" doc:"IPv4 or IPv6 address."`
	Prefix      int        `json:"prefix" required:"true" minimum:"1" maximum:"128" doc:"Prefix length: at most 32 for IPv4, 128 for IPv6."`
	IsVIP       bool       `json:"is_vip" doc:"Whether it is a virtual address, which moves between the nodes of a cluster."`
	VIPPriority int        `json:"vip_priority" minimum:"1" maximum:"254" doc:"Priority of this node for the virtual addresses. The healthy node with the highest number holds them; with equal numbers they stay where they are. They move together, so the highest number on a node counts for all of them."`
	Description string     `json:"description" maxLength:"500" doc:"What it is for."`
}

// bound returns the address with its length, as the kernel binds it.
func (a *Address) bound() netip.Prefix { return netip.PrefixFrom(a.Address.Netip(), a.Prefix) }

func (a *Address) Validate() error {
	var c check.List
	c.That(a.InterfaceID != uuid.Nil, "interface_id", "is required")
	ip := a.Address.Netip()
	if !ip.IsValid() {
		return c.Err()
	}
	c.That(!ip.IsUnspecified(), "address", "must not be the unspecified address")
	c.That(!ip.IsLoopback(), "address", "must not be a loopback address")
	c.That(!ip.IsMulticast(), "address", "must not be a multicast address")
	if !ip.Is4() {
		return c.Err()
	}
	c.That(ip.As4()[0] != 0 && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255}), "address", "must be the address of one host")
	c.That(a.Prefix <= 32, "prefix", "must be between 1 and 32 for an IPv4 address")
	if network := a.bound().Masked(); network.IsValid() && a.Prefix < 31 {
		c.That(ip != network.Addr(), "address", "must not be the network address of %s", network)
		c.That(ip != value.Last(network), "address", "must not be the broadcast address of %s", network)
	}
	return c.Err()
}

func (a *Address) Label() string { return fmt.Sprintf("%s/%d", a.Address, a.Prefix) }

func (r *Room) addressKind() resource.Child[Address] {
	return resource.Child[Address]{
		Kind: resource.Kind[Address]{
			Name: "network.ip-address", Title: "IP address", Path: "/ip-addresses", Table: "network_addresses", Order: "address::inet", Local: true, Natural: []string{"interface_id", "address"},
			Feeds: []apply.ID{apply.Network, apply.VRRP},
			New:   func() Address { return Address{VIPPriority: 100} },
			Check: r.checkAddress,
		},
		Under: "/network-interfaces/{parent}/ip-addresses", Column: "interface_id", Parent: interfaceTable,
	}
}

// checkAddress checks an address against the interfaces and routes.
func (r *Room) checkAddress(ctx context.Context, tx *db.Tx, _, now *Address) error {
	if now == nil {
		return nil
	}
	interfaces, err := r.interfaces.All(ctx, tx)
	if err != nil {
		return err
	}
	own := slices.IndexFunc(interfaces, func(i Interface) bool { return i.ID == now.InterfaceID })
	if own < 0 {
		return fault.Field("interface_id", "has an id that does not exist")
	}
	var c check.List
	for _, i := range interfaces {
		c.That(!slices.Contains(i.Members, interfaces[own].Name), "interface_id", "%s is a member of %s. Add the address to that interface instead.", interfaces[own].Name, i.Name)
	}
	routes, err := r.routes.All(ctx, tx)
	if err != nil {
		return err
	}
	for _, route := range routes {
		c.That(route.Gateway != now.Address, "address", "is the next hop of the route to %s, so it cannot be an address of this gateway", route.Destination)
	}
	return c.Err()
}
