package network

import (
	"net/http"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

type LiveRoute struct {
	Family      string `json:"family" enum:"inet,inet6" doc:"Address family."`
	Destination string `json:"destination" doc:"Destination network."`
	Gateway     string `json:"gateway" doc:"Address of the next hop; empty if the destination is directly connected."`
	Dev         string `json:"dev" doc:"Outgoing interface."`
	Metric      uint32 `json:"metric" doc:"Among routes to the same network, the lowest wins."`
	Table       uint32 `json:"table" doc:"Number of the routing table."`
	TableName   string `json:"table_name" doc:"Name of the routing table; empty when it has none."`
	Protocol    uint8  `json:"protocol" doc:"Protocol number of the program that added it; 250 is the gateway."`
	Proto       string `json:"protocol_name" doc:"Name of the protocol; empty when it has none."`
	Scope       string `json:"scope" doc:"Scope: global, link or host."`
	Type        string `json:"type" doc:"What happens to packets: unicast, local, broadcast, blackhole and others."`
	PrefSrc     string `json:"prefsrc" doc:"Preferred source address of the gateway's own packets; empty if none."`
	Error       string `json:"error,omitzero" doc:"Why the routes cannot be read from the kernel. This is then the only entry, and its other fields are meaningless."`
}

// Adoptable is an undeclared link of the machine, in the form of an interface.
type Adoptable struct {
	Name      string             `json:"name" doc:"Name of the interface."`
	Kind      string             `json:"kind" doc:"Kind in the kernel, for example device, veth or bridge."`
	MAC       string             `json:"mac" doc:"MAC address."`
	Up        bool               `json:"up" doc:"Whether it is set up."`
	Carrier   bool               `json:"carrier" doc:"Whether it is connected to something."`
	MTU       int                `json:"mtu" doc:"Largest packet in bytes."`
	Addresses []AdoptableAddress `json:"addresses" doc:"Its global addresses."`
	Type      string             `json:"type" enum:"ethernet,vlan,bond,bridge,wireguard" doc:"The type of interface that it would be."`
	Parent    string             `json:"parent" doc:"The interface that carries a VLAN."`
	VLANID    *int               `json:"vlan_id" doc:"VLAN ID."`
	Members   []string           `json:"members" doc:"The interfaces of a bond or a bridge."`
	BondMode  *string            `json:"bond_mode" doc:"How a bond uses its members."`
	Error     string             `json:"error,omitzero" doc:"Why the interfaces cannot be read from the kernel. This is then the only entry, and its other fields are meaningless."`
	Role      string             `json:"suggested_role" doc:"Suggested zone: wan for the interface with the default route or, if there is none, for an interface with a public IPv4 address; otherwise lan."`
}

// AdoptableAddress is an address of a link that no interface declares.
type AdoptableAddress struct {
	Address string `json:"address" doc:"IPv4 or IPv6 address."`
	Prefix  int    `json:"prefix" doc:"Prefix length."`
	Dynamic bool   `json:"dynamic" doc:"Whether it was assigned by DHCP or router advertisement. Leave it unmanaged."`
}

// InterfaceTypes lists the types of interface that this machine supports.
type InterfaceTypes struct {
	Types []string `json:"types" doc:"Types that the kernel supports. All of them if the kernel cannot be asked."`
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/network/interface-types", httpd.Read, httpd.Doc{ID: "network.interface-types", Tag: "network", Summary: "Types of interface that the kernel of this machine supports"},
		func(c *httpd.Call, _ struct{}) (InterfaceTypes, error) {
			kinds, err := host.Ask(c, r.Host.LinkKinds)
			if err != nil {
				r.Log.Warn("asking for the kinds of links", "component", "network", "err", err)
				kinds = []string{vlan, bridge, bond, wireguard}
			}
			return InterfaceTypes{append([]string{ethernet}, kinds...)}, nil
		})
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
	httpd.Handle(r.Router, http.MethodGet, "/network/adoptable", httpd.Read, httpd.Doc{ID: "network.adoptable", Tag: "network", Summary: "List the interfaces of the machine that are not managed yet"},
		func(c *httpd.Call, _ struct{}) ([]Adoptable, error) {
			declared, err := r.interfaces.All(c, r.DB)
			if err != nil {
				return nil, err
			}
			live, err := r.look(c)
			if err != nil {
				r.Log.Warn("reading links", "component", "network", "err", err)
				return []Adoptable{{Error: "The kernel's interfaces cannot be read."}}, nil
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

// adoptable lists what an operator may want to declare: not the loopback, nothing that the gateway has created, including tunnels, and no
// members.
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
