package network

import (
	"context"
	"net/netip"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/value"
)

// Config is the desired state of the kernel's network, without anything inactive.
type Config struct {
	Links  []WantedLink  `json:"links"`
	Routes []WantedRoute `json:"routes"`
	// Unzoned lists the links whose zone does not exist, by name. That is possible because zones are deleted on the primary of a cluster,
	// which does not know the interfaces of the other nodes.
	Unzoned map[string]string `json:"unzoned,omitempty"`
}

// WantedLink is a desired link with its addresses.
type WantedLink struct {
	ID        uuid.UUID       `json:"id"`
	Name      string          `json:"name"`
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Parent    string          `json:"parent,omitempty"`
	VLANID    int             `json:"vlan_id,omitempty"`
	Members   []string        `json:"members,omitempty"`
	MTU       int             `json:"mtu,omitempty"`
	BondMode  string          `json:"bond_mode,omitempty"`
	Addresses []WantedAddress `json:"addresses"`
}

// made reports whether the gateway creates and removes the link.
func (l *WantedLink) made() bool { return l.Type == vlan || l.Type == bond || l.Type == bridge }

// WantedAddress is a desired address of a link.
type WantedAddress struct {
	Address netip.Prefix `json:"address"`
	VIP     bool         `json:"vip,omitempty"`
}

type WantedRoute struct {
	ID          uuid.UUID    `json:"id"`
	Destination netip.Prefix `json:"destination"`
	Gateway     netip.Addr   `json:"gateway,omitzero"`
	Dev         string       `json:"dev,omitempty"`
	Metric      uint32       `json:"metric"`
	Table       Table        `json:"table"`
}

func (r *Room) load(ctx context.Context, q db.Querier) (Config, error) {
	interfaces, err := r.interfaces.All(ctx, q)
	if err != nil {
		return Config{}, err
	}
	addresses, err := r.addresses.All(ctx, q)
	if err != nil {
		return Config{}, err
	}
	routes, err := r.routes.All(ctx, q)
	if err != nil {
		return Config{}, err
	}
	elsewhere, err := r.deps.VIPsElsewhere(ctx, q)
	if err != nil {
		return Config{}, err
	}
	if elsewhere {
		addresses = slices.DeleteFunc(addresses, func(a Address) bool { return a.IsVIP })
	}
	c := configure(interfaces, addresses, routes)
	c.Unzoned, err = unzoned(ctx, q)
	return c, err
}

// unzoned returns the active interfaces whose zone does not exist.
func unzoned(ctx context.Context, q db.Querier) (map[string]string, error) {
	rows, err := q.Query(ctx, `SELECT name, role FROM network_interfaces i WHERE active AND NOT EXISTS (SELECT FROM firewall_zones z WHERE z.name = i.role)`)
	if err != nil {
		return nil, err
	}
	var links map[string]string
	var name, role string
	_, err = pgx.ForEachRow(rows, []any{&name, &role}, func() error {
		if links == nil {
			links = map[string]string{}
		}
		links[name] = role
		return nil
	})
	return links, err
}

// configure leaves out what is inactive, and what depends on it.
func configure(interfaces []Interface, addresses []Address, routes []Route) Config {
	declared := map[value.IfName]*Interface{}
	for n := range interfaces {
		declared[interfaces[n].Name] = &interfaces[n]
	}
	// A vlan disappears with a parent that the gateway removes; one on an Ethernet port or on a foreign link stays.
	var takesPart func(i *Interface) bool
	takesPart = func(i *Interface) bool {
		parent := declared[i.Parent]
		return i.Active && (parent == nil || !parent.made() || takesPart(parent))
	}
	out := func(name value.IfName) bool { i := declared[name]; return i != nil && !takesPart(i) }

	c := Config{Links: []WantedLink{}, Routes: []WantedRoute{}}
	for n := range interfaces {
		if i := &interfaces[n]; takesPart(i) {
			c.Links = append(c.Links, i.wanted(addresses, out))
		}
	}
	for _, route := range routes {
		dev := route.Dev
		if dev.IsZero() {
			dev = deviceOf(route.Gateway.Netip(), interfaces, addresses)
		}
		if !route.Active || out(dev) {
			continue
		}
		c.Routes = append(c.Routes, WantedRoute{
			ID: route.ID, Destination: route.Destination.Netip(), Gateway: route.Gateway.Netip(), Dev: dev.String(), Metric: route.metric(), Table: route.TableName,
		})
	}
	return c
}

func (i *Interface) wanted(addresses []Address, out func(value.IfName) bool) WantedLink {
	l := WantedLink{ID: i.ID, Name: i.Name.String(), Type: i.Type, Role: i.Role.String(), Parent: i.Parent.String(), Addresses: []WantedAddress{}}
	if i.VLANID != nil {
		l.VLANID = *i.VLANID
	}
	if i.MTU != nil {
		l.MTU = *i.MTU
	}
	if i.BondMode != nil {
		l.BondMode = *i.BondMode
	}
	for _, m := range i.Members {
		if !out(m) {
			l.Members = append(l.Members, m.String())
		}
	}
	for _, a := range addresses {
		if a.InterfaceID == i.ID {
			l.Addresses = append(l.Addresses, WantedAddress{a.bound(), a.IsVIP})
		}
	}
	return l
}

// deviceOf returns the interface whose own network contains the router, if any. Stored with the route, it makes the route follow the
// address to another interface.
func deviceOf(router netip.Addr, interfaces []Interface, addresses []Address) (dev value.IfName) {
	longest := -1
	for _, a := range addresses {
		if network := a.bound(); network.Bits() > longest && network.Contains(router) {
			if n := slices.IndexFunc(interfaces, func(i Interface) bool { return i.ID == a.InterfaceID }); n >= 0 {
				longest, dev = network.Bits(), interfaces[n].Name
			}
		}
	}
	return dev
}
