package network

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

// LiveRoute is a route of the kernel.
type LiveRoute struct {
	Family      string `json:"family" enum:"inet,inet6" doc:"Address family."`
	Destination string `json:"destination" doc:"The network it leads to."`
	Gateway     string `json:"gateway" doc:"The next router; empty where the destination is on the link."`
	Dev         string `json:"dev" doc:"The link it leaves by."`
	Metric      uint32 `json:"metric" doc:"Among routes to the same network, the lowest wins."`
	Table       uint32 `json:"table" doc:"Number of the routing table."`
	TableName   string `json:"table_name" doc:"Name of the routing table; empty when it has none."`
	Protocol    uint8  `json:"protocol" doc:"Number that says who made it; 250 is the gateway."`
	Proto       string `json:"protocol_name" doc:"Name of the protocol; empty when it has none."`
	Scope       string `json:"scope" doc:"How far the destination is: global, link or host."`
	Type        string `json:"type" doc:"What happens to packets: unicast, local, broadcast, blackhole and others."`
	PrefSrc     string `json:"prefsrc" doc:"The address that the gateway's own packets get; empty when none is preferred."`
	Error       string `json:"error,omitzero" doc:"Why the routes are missing, when the kernel does not tell them. Then this is the only entry, and nothing else in it counts."`
}

// Adoptable is a link of the machine that no interface declares yet, in the words of an interface.
type Adoptable struct {
	Name      string             `json:"name" doc:"Name of the link."`
	Kind      string             `json:"kind" doc:"The kernel's word for it, such as device, veth or bridge."`
	MAC       string             `json:"mac" doc:"Hardware address."`
	Up        bool               `json:"up" doc:"Whether it is set up."`
	Carrier   bool               `json:"carrier" doc:"Whether it is connected to something."`
	MTU       int                `json:"mtu" doc:"Largest packet in bytes."`
	Addresses []AdoptableAddress `json:"addresses" doc:"Its global addresses."`
	Type      string             `json:"type" enum:"ethernet,vlan,bond,bridge,wireguard" doc:"The type of interface that it would be."`
	Parent    string             `json:"parent" doc:"The link that carries a vlan."`
	VLANID    *int               `json:"vlan_id" doc:"Number of a vlan."`
	Members   []string           `json:"members" doc:"The links that make up a bond or a bridge."`
	BondMode  *string            `json:"bond_mode" doc:"How a bond uses its members."`
	Error     string             `json:"error,omitzero" doc:"Why the links are missing, when the kernel does not tell them. Then this is the only entry, and nothing else in it counts."`
	Role      string             `json:"suggested_role" doc:"A zone that fits: wan for the link of the default route or, where no link has one, for a link with a public IPv4 address; otherwise lan."`
}

// AdoptableAddress is an address of a link that no interface declares.
type AdoptableAddress struct {
	Address string `json:"address" doc:"IPv4 or IPv6 address."`
	Prefix  int    `json:"prefix" doc:"Length of its network's prefix."`
	Dynamic bool   `json:"dynamic" doc:"Whether it was leased or learned. Such an address belongs to whoever renews it, and is better left alone."`
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/routes/live", httpd.Read, httpd.Doc{ID: "network.route.live", Tag: "network", Summary: "The kernel's routes of all tables"},
		func(c *httpd.Call, _ struct{}) ([]LiveRoute, error) {
			routes, err := host.Ask(c, r.Host.Routes)
			if err != nil {
				r.Log.Warn("reading routes", "component", "network", "err", err)
				return []LiveRoute{{Error: "The kernel's routes cannot be read."}}, nil
			}
			list := make([]LiveRoute, len(routes))
			for i, x := range routes {
				list[i] = LiveRoute{
					Family: x.Family(), Destination: x.Destination.String(), Dev: x.Dev, Metric: x.Metric, Table: x.Table, TableName: x.TableName,
					Protocol: x.Protocol, Proto: x.ProtocolName, Scope: x.Scope, Type: x.Type,
				}
				if x.Gateway.IsValid() {
					list[i].Gateway = x.Gateway.String()
				}
				if x.PrefSrc.IsValid() {
					list[i].PrefSrc = x.PrefSrc.String()
				}
			}
			return list, nil
		})
	httpd.Handle(r.Router, http.MethodGet, "/network/adoptable", httpd.Read, httpd.Doc{ID: "network.adoptable", Tag: "network", Summary: "Links of the machine that no interface declares yet"},
		func(c *httpd.Call, _ struct{}) ([]Adoptable, error) {
			declared, err := r.interfaces.All(c, r.DB)
			if err != nil {
				return nil, err
			}
			live, err := host.Ask(c, func(ctx context.Context) (live Live, err error) {
				if live.Links, err = r.Host.Links(ctx); err == nil {
					live.Routes, err = r.Host.Routes(ctx)
				}
				return live, err
			})
			if err != nil {
				r.Log.Warn("reading links", "component", "network", "err", err)
				return []Adoptable{{Error: "The kernel's links cannot be read."}}, nil
			}
			return adoptable(declared, live.Links, live.Routes), nil
		})
}

// leadsOut guesses whether a link leads to the internet.
func leadsOut(l host.Link, routes []host.Route) bool {
	isDefault := func(r host.Route) bool { return r.Destination.Bits() == 0 && r.Type == "unicast" }
	if slices.ContainsFunc(routes, isDefault) {
		return slices.ContainsFunc(routes, func(r host.Route) bool { return isDefault(r) && r.Dev == l.Name })
	}
	return slices.ContainsFunc(l.Addrs, func(a host.LinkAddr) bool {
		ip := a.Prefix().Addr()
		return a.Scope == "global" && ip.Is4() && !ip.IsPrivate()
	})
}

// adoptable lists what an operator may want to declare: not the loopback, not what the gateway has made, tunnels included, and
// not what is a member.
func adoptable(declared []Interface, links []host.Link, routes []host.Route) []Adoptable {
	list := []Adoptable{}
	for _, l := range links {
		known := slices.ContainsFunc(declared, func(i Interface) bool {
			return i.Name.String() == l.Name || slices.ContainsFunc(i.Members, func(m value.IfName) bool { return m.String() == l.Name })
		})
		if known || l.Type == "loopback" || ours(l) || strings.HasPrefix(l.Alias, host.OwnTunnel) {
			continue
		}
		a := Adoptable{Name: l.Name, Kind: l.Kind, MAC: l.Address, Up: l.Up(), Carrier: l.Carrier(), MTU: l.MTU, Type: ethernet, Role: "lan"}
		switch l.Kind {
		case vlan:
			a.Type, a.Parent, a.VLANID = vlan, l.Parent, &l.VLANID
		case bond:
			a.Type, a.BondMode = bond, &l.BondMode
		case bridge, wireguard:
			a.Type = l.Kind
		}
		for _, m := range links {
			if m.Master == l.Name {
				a.Members = append(a.Members, m.Name)
			}
		}
		for _, x := range l.Addrs {
			if x.Scope == "global" {
				a.Addresses = append(a.Addresses, AdoptableAddress{x.Local, x.PrefixLen, x.Dynamic})
			}
		}
		if leadsOut(l, routes) {
			a.Role = "wan"
		}
		list = append(list, a)
	}
	return list
}
