package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Bound is an address of the gateway with the length of its network.
type Bound struct{ value.Text[boundGrammar] }

type boundGrammar struct{}

func (boundGrammar) Example() string { return "192.0.2.1/24" }

func (boundGrammar) Parse(s string) (string, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return "", errors.New("must be an address with the length of its network, for example 192.0.2.1/24")
	}
	return p.String(), nil
}

// Netip returns the address with its length.
func (b Bound) Netip() netip.Prefix {
	p, _ := netip.ParsePrefix(b.String())
	return p
}

// Network is an interface with everything that belongs to it: its zone and addresses, and the gateway's services for the machines there.
type Network struct {
	Name       value.IfName   `json:"name" doc:"Name of the interface. If it is already managed, only what is missing is added."`
	Type       string         `json:"type" enum:"ethernet,vlan,bond,bridge,wireguard" doc:"Type of the interface; ethernet by default, or vlan if there is a vlan_id."`
	Parent     value.IfName   `json:"parent" doc:"The interface that carries a VLAN."`
	VLANID     *int           `json:"vlan_id" doc:"VLAN ID on the parent interface."`
	Members    []value.IfName `json:"members" doc:"The interfaces of a bond or a bridge."`
	BondMode   *string        `json:"bond_mode" doc:"How a bond uses its members."`
	Role       value.Zone     `json:"role" doc:"The zone it belongs to, which is created if it does not exist."`
	Addresses  []Bound        `json:"addresses" doc:"Addresses of the gateway there, with the length of the network. Empty keeps what the system has, for example by DHCP or PPPoE: the gateway runs no client for them."`
	Gateway    value.Addr     `json:"gateway" doc:"Next hop of the default route; empty keeps the routes as they are."`
	DHCP       bool           `json:"dhcp" doc:"Hand out addresses in the network of the first IPv4 address, with the gateway as router, and as DNS and NTP server if it is one."`
	RangeStart value.Addr     `json:"range_start" doc:"First address to hand out. By default, the half of the network without the gateway is handed out."`
	RangeEnd   value.Addr     `json:"range_end" doc:"Last address to hand out."`
	DNS        bool           `json:"dns" doc:"Answer DNS queries from the network."`
	NTP        bool           `json:"ntp" doc:"Serve time to the network."`
	Internet   bool           `json:"internet" doc:"Let its zone reach the internet, by a rule to the zone wan and, unless masquerade is off, behind the gateway's address."`
	LAN        bool           `json:"lan" doc:"Let its zone and the zone lan reach each other. When off, no rule is created, so the zones are isolated from each other unless you have such rules."`
}

// Proposal is a configuration that would make the machine a working gateway.
type Proposal struct {
	Networks         []Network    `json:"networks" doc:"One for each interface that is not managed yet."`
	UpstreamForwards []string     `json:"upstream_forwards" doc:"The resolvers that the gateway asks; empty if it asks the root servers."`
	TimeServers      []value.Host `json:"time_servers" doc:"The gateway's time sources."`
}

// Setup sets up networks with one change set.
type Setup struct {
	Networks         []Network     `json:"networks" doc:"The networks. By default those that GET /network/setup proposes."`
	UpstreamForwards *[]string     `json:"upstream_forwards" doc:"Resolvers that the gateway asks: addresses, with @port if it is not 53. By default they stay as they are."`
	TimeServers      *[]value.Host `json:"time_servers" doc:"The gateway's time sources: addresses of servers, or names of pools. By default they stay as they are."`
	Site             *Site         `json:"site" doc:"A site to publish: its domain, and a backend with one server. By default none."`
	VPN              *VPN          `json:"vpn" doc:"A WireGuard tunnel that lets devices into the zone lan: the tunnel, its first peer, the zone vpn, and a rule from there to lan. By default none."`
	Masquerade       *bool         `json:"masquerade" doc:"Give traffic to the internet the gateway's own address. On by default; not needed if your networks have public addresses."`
	Preview          bool          `json:"preview" doc:"Save nothing; return what would change."`
	Reason           string        `json:"reason" maxLength:"500" doc:"Why, for the history and the audit log."`
	ConfirmWithin    int           `json:"confirm_within" doc:"Seconds (10 to 600) to confirm the change set before it is reverted; 0 if it does not have to be confirmed."`
}

// SetUp is the result of a setup, or its preview.
type SetUp struct {
	Operations []resource.Operation `json:"operations" doc:"The operations of the change set, as POST /change-sets takes them."`
	resource.Result
}

// Served is a network for services of other rooms.
type Served struct {
	Interface value.IfName
	Bound     netip.Prefix // the gateway's first IPv4 address there
	// RangeStart and RangeEnd bound the addresses to hand out.
	RangeStart, RangeEnd netip.Addr
	DNS, NTP             bool
}

// Services are the parts of a setup in other rooms. Each adds what is missing to the bundle.
type Services struct {
	// Zones returns the existing zones.
	Zones func(ctx context.Context, q db.Querier) ([]value.Zone, error)
	// AddZone creates a zone.
	AddZone func(d *resource.Bundle, zone value.Zone)
	// HandOut hands out addresses.
	HandOut func(ctx context.Context, q db.Querier, d *resource.Bundle, networks []Served) error
	// Forwards returns the present resolvers.
	Forwards func(ctx context.Context, q db.Querier) ([]string, error)
	// Answer answers DNS queries on addresses, from their networks, and sets the resolvers if forwards is not nil.
	Answer func(ctx context.Context, q db.Querier, d *resource.Bundle, bound []netip.Prefix, forwards *[]string) error
	// Sources returns the present time sources.
	Sources func(ctx context.Context, q db.Querier) ([]value.Host, error)
	// Time does the same as Answer for the time.
	Time func(ctx context.Context, q db.Querier, d *resource.Bundle, bound []netip.Prefix, sources *[]value.Host) error
	// Pass lets one zone reach another.
	Pass func(ctx context.Context, q db.Querier, d *resource.Bundle, from, to value.Zone) error
	// Masquerade gives traffic to a zone the gateway's address.
	Masquerade func(ctx context.Context, q db.Querier, d *resource.Bundle, to value.Zone) error
	// Publish publishes a site on a server.
	Publish func(d *resource.Bundle, name value.SiteName, scheme string, address value.Host, port int)
	// Tunnel creates a tunnel with its first device, and returns the name of its interface.
	Tunnel func(ctx context.Context, q db.Querier, d *resource.Bundle, v Tunnelled) (value.IfName, error)
}

// The zones that matter here.
var (
	lan = value.Must[value.Zone]("lan")
	wan = value.Must[value.Zone]("wan")
)

func (r *Room) mountSetup() {
	httpd.Handle(r.Router, http.MethodGet, "/network/setup", httpd.Read, httpd.Doc{ID: "network.setup.get", Tag: "network", Summary: "Propose a setup for the interfaces that are not managed yet"},
		func(c *httpd.Call, _ struct{}) (Proposal, error) { return r.propose(c) })
	doc := httpd.Doc{
		ID: "network.setup", Tag: "network", Audit: "<kind>.<verb>",
		Summary: "Set up networks with their zone, addresses, DHCP, DNS, NTP and internet access, and the first site and VPN device, as one change set, or preview it. An empty object sets up what is proposed",
	}
	httpd.Handle(r.Router, http.MethodPost, "/network/setup", httpd.Write.Here(), doc, func(c *httpd.Call, in struct{ Body Setup }) (SetUp, error) {
		d, err := r.bundle(c, in.Body)
		if err != nil {
			return SetUp{}, err
		}
		result, err := r.Resources.Submit(c, resource.Set{Operations: d.Operations, Reason: in.Body.Reason}, in.Body.Preview, in.Body.ConfirmWithin)
		return SetUp{d.Operations, result}, err
	})
}

// look reads the links and routes of the kernel.
func (r *Room) look(ctx context.Context) (Live, error) {
	return host.Ask(ctx, func(ctx context.Context) (live Live, err error) {
		if live.Links, err = r.Host.Links(ctx); err == nil {
			live.Routes, err = r.Host.Routes(ctx)
		}
		return live, err
	})
}

// propose derives networks from the undeclared interfaces.
func (r *Room) propose(ctx context.Context) (Proposal, error) {
	p := Proposal{Networks: []Network{}}
	declared, err := r.interfaces.All(ctx, r.DB)
	if err != nil {
		return p, err
	}
	live, err := r.look(ctx)
	if err != nil {
		r.Log.Warn("reading links", "component", "network", "err", err)
		return p, fault.Wrap(fault.Unavailable, err, "The kernel's interfaces cannot be read.")
	}
	away, err := r.deps.Away(ctx)
	if err != nil {
		return p, err
	}
	found := adoptable(declared, live.Links, live.Routes)
	for _, a := range found {
		if slices.ContainsFunc(found, func(o Adoptable) bool { return slices.Contains(o.Members, a.Name) }) {
			continue
		}
		p.Networks = append(p.Networks, a.network(live.Routes))
	}
	if !slices.ContainsFunc(declared, func(i Interface) bool { return i.Role == lan }) {
		giveAddress(p.Networks, found, live)
	}
	for i := range p.Networks {
		p.Networks[i].serve(away)
	}
	if p.UpstreamForwards, err = r.deps.Services.Forwards(ctx, r.DB); err != nil {
		return p, err
	}
	p.TimeServers, err = r.deps.Services.Sources(ctx, r.DB)
	return p, err
}

// network declares a link with the addresses that are not leased, and with its static default route.
func (a Adoptable) network(routes []host.Route) Network {
	n := Network{
		Name: value.Must[value.IfName](a.Name), Type: a.Type, VLANID: a.VLANID, BondMode: a.BondMode, Role: value.Must[value.Zone](a.Role),
		Members: []value.IfName{}, Addresses: []Bound{},
	}
	if a.Parent != "" {
		n.Parent = value.Must[value.IfName](a.Parent)
	}
	for _, m := range a.Members {
		n.Members = append(n.Members, value.Must[value.IfName](m))
	}
	for _, x := range a.Addresses {
		if !x.Dynamic {
			n.Addresses = append(n.Addresses, value.Must[Bound](fmt.Sprintf("%s/%d", x.Address, x.Prefix)))
		}
	}
	if _, ok := n.first4(); ok {
		for _, route := range routes {
			if route.Dev == a.Name && static(route) {
				n.Gateway = value.Must[value.Addr](route.Gateway.String())
			}
		}
	}
	return n
}

// The protocols of configured routes, as opposed to learned ones.
const (
	protocolBoot   = 3
	protocolStatic = 4
)

// static reports whether a route is an IPv4 default route that does not come from a lease.
func static(r host.Route) bool {
	return r.Destination == netip.PrefixFrom(netip.IPv4Unspecified(), 0) && r.Gateway.Is4() && r.Type == "unicast" && r.TableName == "main" &&
		(r.Protocol == protocolBoot || r.Protocol == protocolStatic)
}

// first4 returns the first IPv4 address.
func (n *Network) first4() (netip.Prefix, bool) {
	i := slices.IndexFunc(n.Addresses, func(b Bound) bool { return b.Netip().Addr().Is4() })
	if i < 0 {
		return netip.Prefix{}, false
	}
	return n.Addresses[i].Netip(), true
}

// giveAddress gives one internal interface a network of its own if none has one, preferably one with a cable.
func giveAddress(networks []Network, found []Adoptable, live Live) {
	inside := -1
	for i, n := range networks {
		a := found[slices.IndexFunc(found, func(a Adoptable) bool { return a.Name == n.Name.String() })]
		if n.Role != lan || n.Type == wireguard {
			continue
		}
		if slices.ContainsFunc(a.Addresses, func(x AdoptableAddress) bool { ip, _ := netip.ParseAddr(x.Address); return ip.Is4() }) {
			return
		}
		if inside < 0 || a.Carrier && !slices.ContainsFunc(found, func(o Adoptable) bool { return o.Name == networks[inside].Name.String() && o.Carrier }) {
			inside = i
		}
	}
	if inside < 0 {
		return
	}
	for third := byte(1); third < 255; third++ {
		bound := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, third, 1}), 24)
		taken := slices.ContainsFunc(live.Routes, func(r host.Route) bool { return r.Destination.Bits() > 0 && r.Destination.Overlaps(bound) })
		for _, l := range live.Links {
			taken = taken || slices.ContainsFunc(l.Addrs, func(a host.LinkAddr) bool { return a.Prefix().Overlaps(bound) })
		}
		if !taken {
			networks[inside].Addresses = append(networks[inside].Addresses, value.Must[Bound](bound.String()))
			return
		}
	}
}

// serve proposes the services of an internal network. A node that is not the primary does not change what all nodes share.
func (n *Network) serve(away bool) {
	bound, ok := n.first4()
	if n.Role != lan || n.Type == wireguard || !ok {
		return
	}
	n.DNS, n.NTP, n.Internet = true, true, !away
	if start, end, ok := half(bound); ok && !away {
		n.DHCP, n.RangeStart, n.RangeEnd = true, value.Must[value.Addr](start.String()), value.Must[value.Addr](end.String())
	}
}

// half returns the half of a network without the gateway's address, excluding addresses that no machine can have.
func half(bound netip.Prefix) (start, end netip.Addr, ok bool) {
	if bound.Bits() > 30 || bound.Bits() < 8 {
		return start, end, false
	}
	number := func(a netip.Addr) uint32 { b := a.As4(); return binary.BigEndian.Uint32(b[:]) }
	address := func(n uint32) netip.Addr { return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n))) }
	first, last := number(bound.Masked().Addr()), number(value.Last(bound.Masked()))
	middle := first + (last-first)/2 + 1
	if number(bound.Addr()) < middle {
		return address(middle), address(last - 1), true
	}
	return address(first + 1), address(middle - 1), true
}

// bundle builds the change set of a setup.
func (r *Room) bundle(ctx context.Context, in Setup) (*resource.Bundle, error) {
	networks := in.Networks
	if networks == nil {
		p, err := r.propose(ctx)
		if err != nil {
			return nil, err
		}
		networks = p.Networks
	}
	if err := r.checkNetworks(ctx, networks, &in); err != nil {
		return nil, err
	}
	d := new(resource.Bundle)
	if err := r.bundleInterfaces(ctx, d, networks); err != nil {
		return nil, err
	}
	if err := r.bundleServices(ctx, d, networks, in); err != nil {
		return nil, err
	}
	if err := r.bundleBeyond(ctx, d, networks, in); err != nil {
		return nil, err
	}
	if len(d.Operations) == 0 {
		return nil, fault.New(fault.Conflict, "There is nothing to set up: every interface is managed, and has what you ask for.")
	}
	return d, d.Err()
}

// elsewhere is the answer of a cluster node that is not the primary.
const elsewhere = "Zones, rules, DHCP subnets, time sources, sites and tunnels belong to all nodes of the cluster. Set them up on the primary."

// checkNetworks refuses what no row would: the rows refuse the rest.
func (r *Room) checkNetworks(ctx context.Context, networks []Network, in *Setup) error {
	away, err := r.deps.Away(ctx)
	if err != nil {
		return err
	}
	zones, err := r.deps.Services.Zones(ctx, r.DB)
	if err != nil {
		return err
	}
	var c check.List
	c.That(!away || in.TimeServers == nil, "time_servers", elsewhere)
	in.checkBeyond(&c, away)
	for i, n := range networks {
		at := func(field string) string { return fmt.Sprintf("networks.%d.%s", i, field) }
		bound, has4 := n.first4()
		_, _, halves := half(bound)
		c.That(!n.Name.IsZero(), at("name"), "is required")
		c.That(!n.Role.IsZero(), at("role"), "is required")
		c.That(!n.DHCP || has4, at("addresses"), "must contain an IPv4 address, because addresses are handed out in its network")
		c.That(!n.DHCP || !has4 || halves, at("addresses"), "must be in a network from /8 to /30, because addresses are handed out there")
		c.That(!n.DNS && !n.NTP || len(n.Addresses) > 0, at("addresses"), "must contain an address for the gateway to be reached at")
		c.That(n.Role != wan || !n.DHCP && !n.DNS && !n.NTP && !n.Internet && !n.LAN, at("role"), "must not be wan for a network that the gateway serves")
		c.That(!away || !n.DHCP && !n.Internet && !n.LAN && slices.Contains(zones, n.Role), at("name"), elsewhere)
	}
	return c.Err()
}

// bundleInterfaces adds the interfaces with their zones, addresses and default routes.
func (r *Room) bundleInterfaces(ctx context.Context, d *resource.Bundle, networks []Network) error {
	declared, err := r.interfaces.All(ctx, r.DB)
	if err != nil {
		return err
	}
	addresses, err := r.addresses.All(ctx, r.DB)
	if err != nil {
		return err
	}
	zones, err := r.deps.Services.Zones(ctx, r.DB)
	if err != nil {
		return err
	}
	live, err := r.look(ctx)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "The kernel's interfaces cannot be read.")
	}
	for _, n := range networks {
		if !slices.Contains(zones, n.Role) {
			r.deps.Services.AddZone(d, n.Role)
			zones = append(zones, n.Role)
		}
	}
	for _, n := range networks {
		id := r.bundleInterface(d, n, declared)
		for _, b := range n.Addresses {
			if !slices.ContainsFunc(addresses, func(a Address) bool { return a.InterfaceID == id && a.bound() == b.Netip() }) {
				d.Create(r.addresses.Name, map[string]any{"interface_id": id, "address": b.Netip().Addr(), "prefix": b.Netip().Bits()})
			}
		}
		if !n.Gateway.IsZero() {
			route := map[string]any{"destination": wordDefault, "gateway": n.Gateway, "dev": n.Name}
			for _, x := range live.Routes {
				if x.Dev == n.Name.String() && static(x) && x.Gateway == n.Gateway.Netip() {
					route["metric"] = x.Metric // or it would be another route beside it
				}
			}
			d.Create(r.routes.Name, route)
		}
	}
	return nil
}

// bundleInterface declares an interface, or sets the zone of a declared one.
func (r *Room) bundleInterface(d *resource.Bundle, n Network, declared []Interface) uuid.UUID {
	if i := slices.IndexFunc(declared, func(i Interface) bool { return i.Name == n.Name }); i >= 0 {
		if declared[i].Role != n.Role {
			d.Update(r.interfaces.Name, declared[i].ID, map[string]any{"role": n.Role})
		}
		return declared[i].ID
	}
	if n.Type == "" {
		n.Type = ethernet
		if n.VLANID != nil {
			n.Type = vlan
		}
	}
	members := append([]value.IfName{}, n.Members...)
	return d.Create(r.interfaces.Name, map[string]any{
		"name": n.Name, "type": n.Type, "role": n.Role, "parent": n.Parent, "vlan_id": n.VLANID, "members": members, "bond_mode": n.BondMode,
	})
}

// bundleServices adds the other rooms' services for the networks.
func (r *Room) bundleServices(ctx context.Context, d *resource.Bundle, networks []Network, in Setup) error {
	s := r.deps.Services
	var leased []Served
	var named, timed []netip.Prefix
	for _, n := range networks {
		if n.DHCP {
			leased = append(leased, n.served())
		}
		for _, b := range n.Addresses {
			if n.DNS {
				named = append(named, b.Netip())
			}
			if n.NTP {
				timed = append(timed, b.Netip())
			}
		}
	}
	for _, add := range []func() error{
		func() error { return s.Answer(ctx, r.DB, d, named, in.UpstreamForwards) },
		func() error { return s.Time(ctx, r.DB, d, timed, in.TimeServers) },
		func() error { return s.HandOut(ctx, r.DB, d, leased) },
	} {
		if err := add(); err != nil {
			return err
		}
	}
	return r.bundleRules(ctx, d, networks, in.Masquerade == nil || *in.Masquerade)
}

// served converts a network for other rooms.
func (n *Network) served() Served {
	bound, _ := n.first4()
	s := Served{Interface: n.Name, Bound: bound, DNS: n.DNS, NTP: n.NTP}
	s.RangeStart, s.RangeEnd, _ = half(bound)
	if !n.RangeStart.IsZero() {
		s.RangeStart = n.RangeStart.Netip()
	}
	if !n.RangeEnd.IsZero() {
		s.RangeEnd = n.RangeEnd.Netip()
	}
	return s
}

// bundleRules adds the firewall and NAT rules.
func (r *Room) bundleRules(ctx context.Context, d *resource.Bundle, networks []Network, masquerade bool) error {
	s := r.deps.Services
	out := false
	type passage struct{ from, to value.Zone }
	var passages []passage
	add := func(from, to value.Zone) {
		if p := (passage{from, to}); !slices.Contains(passages, p) {
			passages = append(passages, p)
		}
	}
	for _, n := range networks {
		if n.Internet {
			out = true
			add(n.Role, wan)
		}
		if n.LAN {
			add(n.Role, lan)
			add(lan, n.Role)
		}
	}
	for _, p := range passages {
		if err := s.Pass(ctx, r.DB, d, p.from, p.to); err != nil {
			return err
		}
	}
	if !out || !masquerade {
		return nil
	}
	return s.Masquerade(ctx, r.DB, d, wan)
}
