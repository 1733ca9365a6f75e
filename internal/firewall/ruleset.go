package firewall

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/value"
)

// Ruleset is the stored policy with every reference resolved, in the order in which it decides. The renderer, the explanation and the
// insights are based on it.
type Ruleset struct {
	// Zones lists the zones that have interfaces, by name.
	Zones []ZoneLinks
	Rules []*Policy
	// Destination and Source are the NAT rules of each kind.
	Destination, Source []Translation
	// Skipped lists the NAT rules that cannot be applied.
	Skipped  []uuid.UUID
	Openings []policy.Opening
	Tunnels  []policy.Tunnel
	Defaults []value.IfName
	Peers    []nft.Span
	// Sets lists the address sets that rules refer to by name.
	Sets []*nft.Set
	// Off has the rules that are off. Only the explanation includes them.
	Off map[uuid.UUID]bool
}

type ZoneLinks struct {
	Zone  value.Zone
	Links []value.IfName
}

// Skipped is an enabled rule without effect.
type Skipped struct {
	ID     uuid.UUID `json:"id" doc:"Which rule."`
	Name   string    `json:"name" doc:"Name of the rule."`
	Reason string    `json:"reason" doc:"Why it has no effect."`
}

// Policy is an enabled rule with its references resolved.
type Policy struct {
	ID       uuid.UUID
	Name     string
	Src, Dst value.Zone
	From, To Addresses
	Services Services
	Action   string
	Log      bool
	// part is its part of a table, and pair its pair of zones; nil until there is a table. named means that it refers to a set.
	part  *part
	pair  *pair
	named bool
}

// Addresses is a resolved address selector.
type Addresses struct {
	// Any stands for every address of both families; nothing else is set then.
	Any bool
	// Spans are the addresses by family: sorted, merged, not overlapping.
	Spans [2][]nft.Span
	// Set names the set with the addresses of each family; if zero, they are in the rule itself.
	Set [2]nft.Name
}

// has reports whether an address of the family can match, now or when a name resolves to more.
func (a *Addresses) has(f nft.Family) bool {
	return a.Any || len(a.Spans[f]) > 0 || !a.Set[f].IsZero()
}

func (a *Addresses) contains(ip netip.Addr) bool {
	if a.Any {
		return true
	}
	list := a.Spans[nft.FamilyOf(ip)]
	i, found := slices.BinarySearchFunc(list, ip, func(s nft.Span, ip netip.Addr) int { return s.First.Compare(ip) })
	return found || i > 0 && ip.Compare(list[i-1].Last) <= 0
}

// Services is a resolved service or group.
type Services struct {
	// Any stands for every protocol; nothing else is set then.
	Any   bool
	Ports []nft.Ports // sorted, merged, not overlapping
}

// in returns the services of one family: ICMP belongs to IPv4, ICMPv6 to IPv6.
func (s *Services) in(f nft.Family) []nft.Ports {
	other := uint8(nft.ICMPv6)
	if f == nft.V6 {
		other = nft.ICMP
	}
	return slices.DeleteFunc(slices.Clone(s.Ports), func(p nft.Ports) bool { return p.Proto == other })
}

// families reports whether the services differ between the families.
func (s *Services) families() bool {
	return slices.ContainsFunc(s.Ports, func(p nft.Ports) bool { return p.Proto == nft.ICMP || p.Proto == nft.ICMPv6 })
}

// contains reports whether the protocol and destination port match. A protocol without ports has port 0.
func (s *Services) contains(proto uint8, port uint16, f nft.Family) bool {
	if proto == nft.ICMP && f != nft.V4 || proto == nft.ICMPv6 && f != nft.V6 {
		return s.Any
	}
	return s.Any || slices.ContainsFunc(s.Ports, func(p nft.Ports) bool { return p.Proto == proto && p.First <= port && port <= p.Last })
}

// Translation is an enabled NAT rule with its references resolved.
type Translation struct {
	ID      uuid.UUID
	Name    string
	Kind    string
	In, Out value.Zone
	// Family is the family of its addresses; nil if it has none.
	Family   *nft.Family
	Src, Dst []nft.Span // at most one each
	Services Services
	Target   nft.Target
}

func compile(c Config) Ruleset { return compiled(c, resolve(&c, nil)) }

// compiled returns the ruleset of resolved rules.
func compiled(c Config, r *resolved) Ruleset {
	rs := Ruleset{Openings: c.Openings, Tunnels: c.Tunnels, Defaults: c.Defaults}
	for zone, links := range c.Interfaces {
		rs.Zones = append(rs.Zones, ZoneLinks{zone, links})
	}
	slices.SortFunc(rs.Zones, func(a, b ZoneLinks) int { return cmp.Compare(a.Zone.String(), b.Zone.String()) })
	for _, p := range c.Peers {
		rs.Peers = append(rs.Peers, nft.Span{First: p, Last: p})
	}
	rs.Rules = slices.DeleteFunc(slices.Clone(r.policies), func(p *Policy) bool { return p == nil })
	rs.Sets = setsOf(rs.Rules)
	for i := range c.NAT {
		if !c.NAT[i].Enabled {
			continue
		}
		switch t, why := translate(&c.NAT[i]); {
		case why != "":
			rs.Skipped = append(rs.Skipped, t.ID)
		case t.Kind == natDestination:
			rs.Destination = append(rs.Destination, t)
		default:
			rs.Source = append(rs.Source, t)
		}
	}
	return rs
}

// compileAll is compile including the rules that are off, which are listed in Off.
func compileAll(c Config) Ruleset {
	off := map[uuid.UUID]bool{}
	c.Rules, c.NAT = slices.Clone(c.Rules), slices.Clone(c.NAT)
	for i, r := range c.Rules {
		off[r.ID] = !r.Enabled
		on := *r
		on.Enabled = true
		c.Rules[i] = &on
	}
	for i := range c.NAT {
		off[c.NAT[i].ID] = !c.NAT[i].Enabled
		c.NAT[i].Enabled = true
	}
	rs := compile(c)
	rs.Off = off
	return rs
}

// skipped lists the enabled NAT rules that cannot be applied, and why.
func skipped(c Config) []Skipped {
	list := []Skipped{}
	for i := range c.NAT {
		if _, why := translate(&c.NAT[i]); why != "" && c.NAT[i].Enabled {
			list = append(list, Skipped{c.NAT[i].ID, c.NAT[i].Name.String(), why})
		}
	}
	return list
}

// book resolves the references of rules.
type book struct {
	objects  map[uuid.UUID]*Address
	groups   map[uuid.UUID]*AddressGroup
	services map[uuid.UUID]*Service
	bundles  map[uuid.UUID]*ServiceGroup
	// Caches.
	selected map[uuid.UUID]Addresses
	offered  map[uuid.UUID]Services
}

func newBook(c Config) *book {
	b := &book{
		objects: map[uuid.UUID]*Address{}, groups: map[uuid.UUID]*AddressGroup{}, services: map[uuid.UUID]*Service{}, bundles: map[uuid.UUID]*ServiceGroup{},
		selected: map[uuid.UUID]Addresses{}, offered: map[uuid.UUID]Services{},
	}
	for i := range c.Addresses {
		b.objects[c.Addresses[i].ID] = &c.Addresses[i]
	}
	for i := range c.AddressGroups {
		b.groups[c.AddressGroups[i].ID] = &c.AddressGroups[i]
	}
	for i := range c.Services {
		b.services[c.Services[i].ID] = &c.Services[i]
	}
	for i := range c.ServiceGroups {
		b.bundles[c.ServiceGroups[i].ID] = &c.ServiceGroups[i]
	}
	return b
}

// addresses resolves a selector. If it cannot be resolved it matches nothing, never everything.
func (b *book) addresses(kind string, object, group *uuid.UUID, cidr value.Prefix) Addresses {
	switch {
	case kind == selectAny:
		return Addresses{Any: true}
	case kind == selectObject && object != nil:
		return b.cached(*object, func() Addresses {
			o := b.objects[*object]
			if o == nil {
				return Addresses{}
			}
			a := gather([]*Address{o})
			if o.Kind == kindFQDN {
				a.name(nft.Named("object"), o.ID)
			}
			return a
		})
	case kind == selectGroup && group != nil:
		return b.cached(*group, func() Addresses {
			g := b.groups[*group]
			if g == nil {
				return Addresses{}
			}
			var list []*Address
			live := false
			for _, id := range g.Members {
				if o := b.objects[id]; o != nil {
					list = append(list, o)
					live = live || o.Kind == kindFQDN
				}
			}
			a := gather(list)
			if live || len(a.Spans[nft.V4])+len(a.Spans[nft.V6]) > 2 {
				a.name(nft.Named("group"), g.ID)
			}
			return a
		})
	case kind == selectCIDR && !cidr.IsZero():
		n := cidr.Netip()
		var a Addresses
		f := nft.FamilyOf(n.Addr())
		a.Spans[f] = []nft.Span{{First: n.Addr(), Last: value.Last(n)}}
		return a
	}
	return Addresses{}
}

func (b *book) cached(id uuid.UUID, look func() Addresses) Addresses {
	a, known := b.selected[id]
	if !known {
		a = look()
		b.selected[id] = a
	}
	return a
}

// name puts the addresses into sets, whose content can change while the rules stay. Both families get a set, because a name may later
// resolve to either.
func (a *Addresses) name(prefix nft.Name, id uuid.UUID) {
	for _, f := range nft.Families {
		a.Set[f] = prefix.ID(id, f)
	}
}

// setsOf returns the sets of the rules, in their order.
func setsOf(rules []*Policy) (sets []*nft.Set) {
	known := map[nft.Name]bool{}
	for _, p := range rules {
		if !p.named {
			continue
		}
		for _, a := range [...]*Addresses{&p.From, &p.To} {
			for _, f := range nft.Families {
				if name := a.Set[f]; !name.IsZero() && !known[name] {
					known[name] = true
					sets = append(sets, &nft.Set{Name: name, Family: f, Elements: a.Spans[f]})
				}
			}
		}
	}
	return sets
}

// gather merges the addresses of objects.
func gather(list []*Address) (a Addresses) {
	add := func(first, last netip.Addr) {
		if first.IsValid() && last.IsValid() {
			f := nft.FamilyOf(first)
			a.Spans[f] = append(a.Spans[f], nft.Span{First: first, Last: last})
		}
	}
	for _, o := range list {
		if o.Kind == kindFQDN {
			for _, ip := range o.Resolved {
				add(ip.Netip(), ip.Netip())
			}
			continue
		}
		// A value that no longer parses matches nothing.
		if r, err := value.Parse[value.Range](o.Value); err == nil {
			add(r.Bounds())
		}
	}
	for _, f := range nft.Families {
		a.Spans[f] = merge(a.Spans[f])
	}
	return a
}

// merge sorts spans and joins those that touch.
func merge(list []nft.Span) []nft.Span {
	slices.SortFunc(list, func(a, b nft.Span) int { return a.First.Compare(b.First) })
	var merged []nft.Span
	for _, s := range list {
		if n := len(merged); n > 0 {
			last := &merged[n-1]
			if next := last.Last.Next(); !next.IsValid() || s.First.Compare(next) <= 0 {
				if last.Last.Less(s.Last) {
					last.Last = s.Last
				}
				continue
			}
		}
		merged = append(merged, s)
	}
	return merged
}

func (b *book) servicesOf(service, group *uuid.UUID) Services {
	id := service
	if id == nil {
		id = group
	}
	if id == nil {
		return Services{Any: true}
	}
	s, known := b.offered[*id]
	if !known {
		members := []uuid.UUID{*id}
		if service == nil {
			members = nil
			if g := b.bundles[*id]; g != nil {
				members = g.Members
			}
		}
		s = b.unite(members)
		b.offered[*id] = s
	}
	return s
}

func (b *book) unite(ids []uuid.UUID) Services {
	var all []nft.Ports
	for _, id := range ids {
		s := b.services[id]
		switch {
		case s == nil:
		case s.Protocol == "any":
			return Services{Any: true}
		default:
			all = append(all, portsOf(s.Protocol, s.PortStart, s.PortEnd)...)
		}
	}
	slices.SortFunc(all, func(a, b nft.Ports) int { return cmp.Or(cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.First, b.First)) })
	var merged []nft.Ports
	for _, p := range all {
		if n := len(merged); n > 0 && merged[n-1].Proto == p.Proto && int(p.First) <= int(merged[n-1].Last)+1 {
			merged[n-1].Last = max(merged[n-1].Last, p.Last)
			continue
		}
		merged = append(merged, p)
	}
	return Services{Ports: merged}
}

var protocols = map[string][]uint8{"tcp": {nft.TCP}, "udp": {nft.UDP}, "tcp+udp": {nft.TCP, nft.UDP}, "icmp": {nft.ICMP}, "icmpv6": {nft.ICMPv6}}

func portsOf(protocol string, start, end *int) []nft.Ports {
	first, last := 0, 65535
	if start != nil {
		first, last = *start, *start
	}
	if end != nil {
		last = *end
	}
	var list []nft.Ports
	for _, p := range protocols[protocol] {
		list = append(list, nft.Ports{Proto: p, First: uint16(first), Last: uint16(last)})
	}
	return list
}

// translate resolves a NAT rule, or says why it cannot be applied.
func translate(n *NATRule) (t Translation, why string) {
	t = Translation{ID: n.ID, Name: n.Name.String(), Kind: n.Kind, In: n.InZone, Out: n.OutZone, Services: Services{Any: n.Protocol == "any"}}
	if !t.Services.Any {
		t.Services.Ports = portsOf(n.Protocol, n.DstPort, n.DstPortEnd)
	}
	var families []nft.Family
	for _, x := range []struct {
		network value.Prefix
		into    *[]nft.Span
	}{{n.SrcCIDR, &t.Src}, {n.DstCIDR, &t.Dst}} {
		if !x.network.IsZero() {
			p := x.network.Netip()
			*x.into = []nft.Span{{First: p.Addr(), Last: value.Last(p)}}
			families = append(families, nft.FamilyOf(p.Addr()))
		}
	}
	if !n.TargetAddress.IsZero() {
		t.Target.Addr = n.TargetAddress.Netip()
		families = append(families, nft.FamilyOf(t.Target.Addr))
	}
	for _, f := range families {
		if f != families[0] {
			return t, fmt.Sprintf("it mixes %s and %s", families[0], f)
		}
		t.Family = &families[0]
	}
	if n.TargetPort != nil {
		t.Target.First, t.Target.Last = uint16(*n.TargetPort), uint16(*n.TargetPort)
		if n.TargetPortEnd != nil {
			t.Target.Last = uint16(*n.TargetPortEnd)
		}
		if p := t.Services.Ports[0]; t.Kind == natDestination && t.Target.Last > t.Target.First && !p.All() && t.Target.Last-t.Target.First == p.Last-p.First {
			// Ranges of equal length are mapped port by port; a range onto itself needs no mapping. The source's ports do not depend on
			// those of the destination.
			t.Target.Shift = p.First
			if p.First == t.Target.First {
				t.Target = nft.Target{Addr: t.Target.Addr}
			}
		}
	}
	return t, ""
}
