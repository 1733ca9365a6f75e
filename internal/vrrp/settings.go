package vrrp

import (
	"context"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Settings are the virtual address of the cluster, and the identity of the nodes' virtual router.
type Settings struct {
	resource.Meta
	VIPAddress   value.Addr   `json:"vip_address" doc:"Virtual address of the cluster, which one of its nodes has at any time; empty for none. It belongs to the network of the interface that has it, if one of the interface's own addresses does. A node without a cluster does not bind it."`
	VIPInterface value.IfName `json:"vip_interface" doc:"The interface of this node that the virtual address is on."`
	VRRPRouterID int          `json:"vrrp_router_id" minimum:"1" maximum:"255" doc:"VRRP router id. It must be the same on all nodes of the cluster, and unique in the network. After a change, the virtual addresses are unavailable for a few seconds."`
}

func (s *Settings) Label() string { return "VIP settings" }

func (s *Settings) Validate() error {
	var c check.List
	ip := s.VIPAddress.Netip()
	c.That(ip.IsValid() || s.VIPInterface.IsZero(), "vip_address", "is required with an interface; leave both empty for no virtual address")
	c.That(!ip.IsValid() || !s.VIPInterface.IsZero(), "vip_interface", "is required with a virtual address")
	c.That(!ip.IsUnspecified() && !ip.IsLoopback() && !ip.IsMulticast() && !ip.IsLinkLocalUnicast() && ip != broadcast && !(ip.Is4() && ip.As4()[0] == 0),
		"vip_address", "must be an address that one machine can have and others can reach")
	return c.Err()
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

func (r *Room) settingsKind() resource.Singleton[Settings] {
	return resource.Singleton[Settings]{
		Name: "cluster.vip-settings", Title: "VIP settings", Path: "/cluster/vip-settings", Table: "vrrp_settings", Local: true,
		Unforeseen: map[resource.Area]string{resource.Connections: "Who uses the virtual address, on this node or another one, is not looked up."},
		Feeds:      []apply.ID{apply.VRRP}, Check: r.checkSettings,
	}
}

// checkSettings checks the settings against the machine, its other addresses and those of the other nodes.
func (r *Room) checkSettings(ctx context.Context, tx *db.Tx, was, now *Settings) error {
	ip := now.VIPAddress.Netip()
	if !ip.IsValid() {
		return nil
	}
	var c check.List
	declared, err := r.deps.Interfaces(ctx, tx)
	if err != nil {
		return err
	}
	known := false
	for _, i := range declared {
		known = known || i.Name == now.VIPInterface
		for _, a := range i.Addresses {
			c.That(a.VIP || a.Prefix.Addr() != ip, "vip_address", "is an address of this node alone, on %s", i.Name)
		}
	}
	own, peers, err := r.deps.Members(ctx, tx)
	if err != nil {
		return err
	}
	for _, a := range append(peers, own) {
		c.That(a != ip, "vip_address", "is the address of a node of the cluster")
	}
	// A missing interface does not block other changes.
	if !known && now.VIPInterface != was.VIPInterface {
		links, err := r.Host.Links(ctx)
		if err != nil {
			return err
		}
		known = slices.ContainsFunc(links, func(l host.Link) bool { return l.Name == now.VIPInterface.String() && l.Type != "loopback" })
		c.That(known, "vip_interface", "must be an interface of this node")
	}
	return c.Err()
}
