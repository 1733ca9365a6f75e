package network

import (
	"context"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Site is a site to publish, on an existing server.
type Site struct {
	Name    value.SiteName `json:"name" required:"true" doc:"Host name that visitors use, for example www.example.net."`
	Scheme  string         `json:"scheme" enum:"http,https" doc:"Protocol to the server; http by default."`
	Address value.Host     `json:"address" required:"true" doc:"Host name or IP address of the server that the site runs on."`
	Port    int            `json:"port" minimum:"0" maximum:"65535" doc:"Port of the server. By default, and with 0, that of the protocol: 80 or 443."`
}

// VPN is a tunnel into the zone lan, with its first device.
type VPN struct {
	Peer     value.Line `json:"peer" required:"true" maxLength:"120" doc:"Name of the first device."`
	Endpoint value.Host `json:"endpoint" doc:"Name or address at which devices reach the gateway; empty for its host name."`
}

// vpn is the zone of devices behind a tunnel.
var vpn = value.Must[value.Zone]("vpn")

// Tunnelled is what the tunnel room needs to create a VPN.
type Tunnelled struct {
	Peer     value.Line
	Endpoint value.Host
	Reach    []netip.Prefix // the networks behind the gateway
}

// checkBeyond checks the site and the VPN of a setup.
func (in *Setup) checkBeyond(c *check.List, away bool) {
	if s := in.Site; s != nil {
		c.That(!s.Name.IsZero(), "site.name", "is required")
		c.That(!s.Address.IsZero(), "site.address", "is required")
		c.That(!away, "site", elsewhere)
	}
	if v := in.VPN; v != nil {
		c.That(!v.Peer.IsZero(), "vpn.peer", "is required")
		c.That(!away, "vpn", elsewhere)
	}
}

// bundleBeyond adds the first site and the first VPN device.
func (r *Room) bundleBeyond(ctx context.Context, d *resource.Bundle, networks []Network, in Setup) error {
	if s := in.Site; s != nil {
		scheme, port := "http", 80
		if s.Scheme == "https" {
			scheme, port = s.Scheme, 443
		}
		if s.Port != 0 {
			port = s.Port
		}
		r.deps.Services.Publish(d, s.Name, scheme, s.Address, port)
	}
	if in.VPN == nil {
		return nil
	}
	return r.bundleVPN(ctx, d, *in.VPN, networks)
}

// bundleVPN adds a tunnel with its first device, and a rule that lets devices reach the zone lan.
func (r *Room) bundleVPN(ctx context.Context, d *resource.Bundle, v VPN, networks []Network) error {
	reach, err := r.inside(ctx, networks)
	if err != nil {
		return err
	}
	declared, err := r.interfaces.All(ctx, r.DB)
	if err != nil {
		return err
	}
	zones, err := r.deps.Services.Zones(ctx, r.DB)
	if err != nil {
		return err
	}
	name, err := r.deps.Services.Tunnel(ctx, r.DB, d, Tunnelled{Peer: v.Peer, Endpoint: v.Endpoint, Reach: reach})
	if err != nil {
		return err
	}
	if !slices.Contains(zones, vpn) && !slices.ContainsFunc(networks, func(n Network) bool { return n.Role == vpn }) {
		r.deps.Services.AddZone(d, vpn)
	}
	r.bundleInterface(d, Network{Name: name, Type: wireguard, Role: vpn}, declared)
	return r.deps.Services.Pass(ctx, r.DB, d, vpn, lan)
}

// inside returns the IPv4 networks of the zone lan, both existing and planned.
func (r *Room) inside(ctx context.Context, networks []Network) (list []netip.Prefix, err error) {
	add := func(bound netip.Prefix) {
		if bound.Addr().Is4() && !slices.Contains(list, bound.Masked()) {
			list = append(list, bound.Masked())
		}
	}
	declared, err := r.interfaces.All(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	addresses, err := r.addresses.All(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if slices.ContainsFunc(declared, func(i Interface) bool { return i.ID == a.InterfaceID && i.Active && i.Role == lan }) {
			add(a.bound())
		}
	}
	for _, n := range networks {
		for _, b := range n.Addresses {
			if n.Role == lan {
				add(b.Netip())
			}
		}
	}
	return list, nil
}
