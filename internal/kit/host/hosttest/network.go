package hosttest

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"edge.internal/gateway/internal/kit/host"
)

// network stands in for the kernel's links, addresses and routes.
type network struct {
	links      []host.Link
	routes     []host.Route
	neighbours []host.Neighbour
	tables     map[string]uint32
	forwarding host.Forwarding
	ways       func(dst, src netip.Addr, in string) (host.Way, error)
	writes     []string
	refused    map[string]error
	unmanaged  error
	unread     error
}

func newNetwork() network {
	return network{
		links: []host.Link{{
			Index: 1, Name: "lo", Flags: []string{"LOOPBACK", "UP", "LOWER_UP"}, MTU: 65536, Type: "loopback", Address: "00:00:00:00:00:00", Kind: "device", AcceptRA: 1,
			Addrs: []host.LinkAddr{{Family: "inet", Local: "127.0.0.1", PrefixLen: 8, Scope: "host"}},
		}},
		tables:  map[string]uint32{"main": 254, "local": 255, "default": 253},
		refused: map[string]error{},
	}
}

func (m *Machine) SetLinks(links ...host.Link) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.network.links = links
}

func (m *Machine) SetRoutes(routes ...host.Route) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.network.routes = routes
}

func (m *Machine) SetNeighbours(list ...host.Neighbour) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.network.neighbours = list
}

func (m *Machine) SetRouteTables(tables map[string]uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.network.tables = tables
}

func (m *Machine) SetWays(ways func(dst, src netip.Addr, in string) (host.Way, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.network.ways = ways
}

// RefuseNetwork makes a verb fail for one subject, such as "add-route" and "198.51.100.0/24"; nil ends that.
func (m *Machine) RefuseNetwork(verb, subject string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.network.refused[verb+" "+subject] = err
}

// LeaveNetwork makes every change of the network fail, as on a machine whose network is not the gateway's.
func (m *Machine) LeaveNetwork() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.network.unmanaged = fmt.Errorf("the network is not managed here (%w)", host.ErrNotInstalled)
}

// FailNetwork makes links and routes unreadable; nil ends that.
func (m *Machine) FailNetwork(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.network.unread = err
}

// NetworkWrites lists all requested changes of the network in order, including failed ones.
func (m *Machine) NetworkWrites() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.network.writes)
}

func (m *Machine) Links(context.Context) ([]host.Link, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	links := slices.Clone(m.network.links)
	for i := range links {
		links[i].Flags, links[i].Addrs = slices.Clone(links[i].Flags), slices.Clone(links[i].Addrs)
	}
	return links, m.network.unread
}

// write records a change, and returns an error if it is refused. It requires m.mu.
func (m *Machine) write(verb, subject string) error {
	m.network.writes = append(m.network.writes, verb+" "+subject)
	if m.network.unmanaged != nil {
		return m.network.unmanaged
	}
	return m.network.refused[verb+" "+subject]
}

func (m *Machine) link(name string) (*host.Link, error) {
	for i := range m.network.links {
		if m.network.links[i].Name == name {
			return &m.network.links[i], nil
		}
	}
	return nil, fmt.Errorf("there is no link %s: %w", name, syscall.ENODEV)
}

// LinkKinds returns all kinds, except those that RefuseNetwork refuses with the verb link-kind.
func (m *Machine) LinkKinds(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kinds := []string{"vlan", "bridge", "bond", "wireguard"}
	return slices.DeleteFunc(kinds, func(kind string) bool { return m.network.refused["link-kind "+kind] != nil }), m.network.unmanaged
}

func (m *Machine) CreateLink(_ context.Context, n host.NewLink) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("create-link", n.Name); err != nil {
		return err
	}
	if _, err := m.link(n.Name); err == nil {
		return syscall.EEXIST
	}
	if n.Parent != "" {
		if _, err := m.link(n.Parent); err != nil {
			return err
		}
	}
	index := 1
	for _, l := range m.network.links {
		index = max(index, l.Index+1)
	}
	m.network.links = append(m.network.links, host.Link{
		Index: index, Name: n.Name, Flags: []string{"BROADCAST", "MULTICAST"}, MTU: 1500, Type: "ether", Address: fmt.Sprintf("02:00:00:00:00:%02x", index),
		Kind: n.Kind, Alias: n.Alias, Parent: n.Parent, VLANID: n.VLANID, BondMode: n.BondMode, AcceptRA: 1,
	})
	return nil
}

func (m *Machine) ChangeLink(_ context.Context, name string, c host.LinkChange) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("change-link", name); err != nil {
		return err
	}
	l, err := m.link(name)
	if err != nil {
		return err
	}
	if c.Alias != nil {
		l.Alias = *c.Alias
	}
	if c.MTU != nil {
		l.MTU = *c.MTU
	}
	if c.Master != nil {
		if *c.Master != "" {
			if _, err := m.link(*c.Master); err != nil {
				return err
			}
		}
		l.Master = *c.Master
	}
	if c.Up != nil {
		l.Flags = slices.DeleteFunc(slices.Clone(l.Flags), func(f string) bool { return f == "UP" || f == "LOWER_UP" })
		if *c.Up {
			l.Flags = append(l.Flags, "UP", "LOWER_UP")
		}
	}
	return nil
}

func (m *Machine) RemoveLink(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("remove-link", name); err != nil {
		return err
	}
	l, err := m.link(name)
	if err != nil {
		return nil
	}
	if !strings.HasPrefix(l.Alias, host.OwnAlias) {
		return fmt.Errorf("link %s was not made by the gateway", name)
	}
	m.network.links = slices.DeleteFunc(m.network.links, func(x host.Link) bool { return x.Name == name || x.Parent == name })
	for i := range m.network.links {
		if m.network.links[i].Master == name {
			m.network.links[i].Master = ""
		}
	}
	m.network.routes = slices.DeleteFunc(m.network.routes, func(r host.Route) bool { return r.Dev == name })
	return nil
}

func (m *Machine) SetAddress(_ context.Context, link string, a host.NewAddr) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("set-address", a.Prefix.String()); err != nil {
		return err
	}
	l, err := m.link(link)
	if err != nil {
		return err
	}
	l.Addrs = slices.DeleteFunc(l.Addrs, func(x host.LinkAddr) bool { return x.Prefix() == a.Prefix })
	family := "inet6"
	if a.Prefix.Addr().Is4() {
		family = "inet"
	}
	l.Addrs = append(l.Addrs, host.LinkAddr{Family: family, Local: a.Prefix.Addr().String(), PrefixLen: a.Prefix.Bits(), Scope: "global", Protocol: host.Owner(a.Protocol)})
	return nil
}

func (m *Machine) RemoveAddress(_ context.Context, link string, a netip.Prefix) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("remove-address", a.String()); err != nil {
		return err
	}
	l, err := m.link(link)
	if err != nil {
		return nil
	}
	l.Addrs = slices.DeleteFunc(l.Addrs, func(x host.LinkAddr) bool { return x.Prefix() == a })
	return nil
}

func (m *Machine) Routes(context.Context) ([]host.Route, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.network.routes), m.network.unread
}

func (m *Machine) Neighbours(context.Context) ([]host.Neighbour, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.network.neighbours), m.network.unread
}

func sameKey(a host.Route, b host.NewRoute) bool {
	return a.Destination == b.Destination && a.Metric == b.Metric && a.Table == b.Table
}

func (m *Machine) AddRoute(_ context.Context, r host.NewRoute) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("add-route", r.Destination.String()); err != nil {
		return err
	}
	if slices.ContainsFunc(m.network.routes, func(x host.Route) bool { return sameKey(x, r) }) {
		return syscall.EEXIST
	}
	return m.put(r)
}

func (m *Machine) ReplaceRoute(_ context.Context, r host.NewRoute) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("replace-route", r.Destination.String()); err != nil {
		return err
	}
	m.network.routes = slices.DeleteFunc(m.network.routes, func(x host.Route) bool { return sameKey(x, r) })
	return m.put(r)
}

// put adds a route. As in the kernel, the gateway must be in the network of an address.
func (m *Machine) put(r host.NewRoute) error {
	if r.Dev != "" {
		if _, err := m.link(r.Dev); err != nil {
			return err
		}
	}
	dev, reachable := r.Dev, !r.Gateway.IsValid()
	for _, l := range m.network.links {
		for _, a := range l.Addrs {
			if r.Gateway.IsValid() && a.Prefix().Masked().Contains(r.Gateway) && (r.Dev == "" || r.Dev == l.Name) {
				dev, reachable = l.Name, true
			}
		}
	}
	if !reachable {
		return syscall.ENETUNREACH
	}
	m.network.routes = append(m.network.routes, host.Route{
		Destination: r.Destination, Gateway: r.Gateway, Dev: dev, Metric: r.Metric, Table: r.Table, TableName: m.tableName(r.Table),
		Protocol: host.Owner(r.Protocol), ProtocolName: protocols[host.Owner(r.Protocol)], Scope: "global", Type: "unicast",
	})
	return nil
}

var protocols = map[uint8]string{host.RouteProtocol: "gateway", host.TunnelProtocol: "gateway-tunnel"}

func (m *Machine) tableName(n uint32) string {
	for name, number := range m.network.tables {
		if number == n {
			return name
		}
	}
	return ""
}

func (m *Machine) RemoveRoute(_ context.Context, r host.NewRoute) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("remove-route", r.Destination.String()); err != nil {
		return err
	}
	m.network.routes = slices.DeleteFunc(m.network.routes, func(x host.Route) bool {
		return sameKey(x, r) && x.Protocol == host.Owner(r.Protocol) && x.Gateway == r.Gateway
	})
	return nil
}

func (m *Machine) RouteTables() map[string]uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.network.tables)
}

func (m *Machine) RouteTo(_ context.Context, dst, src netip.Addr, in string) (host.Way, error) {
	m.mu.Lock()
	ways := m.network.ways
	m.mu.Unlock()
	if ways == nil {
		return host.Way{Unreachable: "there is no route to it"}, nil
	}
	return ways(dst, src, in)
}

func (m *Machine) Forwarding(context.Context) (host.Forwarding, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.network.forwarding, nil
}

func (m *Machine) Forward(_ context.Context, on bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("forward", strconv.FormatBool(on)); err != nil {
		return err
	}
	m.network.forwarding = host.Forwarding{IPv4: on, IPv6: on, KeepsSecondaries: true}
	return nil
}

func (m *Machine) AcceptRouters(_ context.Context, link string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("accept-routers", link); err != nil {
		return err
	}
	l, err := m.link(link)
	if err != nil {
		return err
	}
	l.AcceptRA = 2
	return nil
}

// SetVendors sets the makers of network cards by the first three bytes of their MAC addresses, such as 52:54:00; nil for a machine
// without a list.
func (m *Machine) SetVendors(byPrefix map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.vendors = byPrefix
}

func (m *Machine) Vendors(macs []string) (map[string]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.vendors == nil {
		return nil, host.ErrNotInstalled
	}
	found := map[string]string{}
	for _, mac := range macs {
		if name := m.vendors[mac[:8]]; name != "" {
			found[mac] = name
		}
	}
	return found, nil
}
