package firewall

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/value"
)

// maker generates random configurations.
type maker struct {
	*rand.Rand
	w *world
	c Config
	n int // of ids handed out
}

func (m *maker) id() uuid.UUID {
	m.n++
	var id uuid.UUID
	id[6], id[8] = 0x70, 0x80
	binary.BigEndian.PutUint32(id[12:], uint32(m.n))
	return id
}

func (m *maker) chance(percent int) bool { return m.IntN(100) < percent }

func pick[T any](m *maker, list ...T) T { return list[m.IntN(len(list))] }

func pointer[T any](v T) *T { return &v }

var (
	zoneNames = []value.Zone{value.Must[value.Zone]("wan"), value.Must[value.Zone]("lan"), value.Must[value.Zone]("dmz"), value.Must[value.Zone]("guest")}
	// void is a zone without interfaces.
	void = value.Must[value.Zone]("void")
	// wellKnown lists ports that often coincide.
	wellKnown = []int{22, 53, 80, 123, 443, 1194, 3443, 5432, 6379, 8080, 8085, 8090, 8443}
)

func (m *maker) port() int {
	if m.chance(70) {
		return pick(m, wellKnown...)
	}
	return 1 + m.IntN(65535)
}

// zone returns a zone for a selector.
func (m *maker) zone(more ...value.Zone) value.Zone {
	return pick(m, append([]value.Zone{anywhere, anywhere, anywhere, void}, append(zoneNames, append(more, more...)...)...)...)
}

func (m *maker) family() nft.Family { return pick(m, nft.V4, nft.V4, nft.V6) }

// network returns a network that packets come from or go to.
func (m *maker) network(f nft.Family) netip.Prefix {
	c := &m.w.links[m.IntN(cables)]
	outside := [2]netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8:1::/48")}
	if m.chance(7) {
		return nowhere[f]
	}
	return pick(m, c.near[f], c.far[f], c.far[f], outside[f])
}

// within returns a random address of a span.
func (m *maker) within(s nft.Span) netip.Addr {
	a, b := s.First.As16(), s.Last.As16()
	// The last 32 bits suffice: spans here are small, or begin at a network.
	low, high := uint64(binary.BigEndian.Uint32(a[12:])), uint64(binary.BigEndian.Uint32(b[12:]))
	switch {
	case m.chance(25):
		return s.First
	case m.chance(25):
		return s.Last
	case high < low:
		high = 0xffffffff
	}
	binary.BigEndian.PutUint32(a[12:], uint32(low+m.Uint64N(high-low+1)))
	ip := netip.AddrFrom16(a)
	if s.First.Is4() {
		ip = ip.Unmap()
	}
	return ip
}

// address returns an address that a packet may have.
func (m *maker) address(f nft.Family) netip.Addr {
	for {
		n := m.network(f)
		if ip := m.within(nft.Span{First: n.Addr(), Last: value.Last(n)}); m.w.usable(ip) {
			return ip
		}
	}
}

// usable reports whether a packet to the address is an ordinary one to a single machine.
func (w *world) usable(ip netip.Addr) bool {
	if !ip.IsGlobalUnicast() || ip.Is4() && (ip.As4()[0] == 0 || ip.As4()[0] >= 224) || ip.Is6() && ip.As16()[0] == 0 {
		return false
	}
	for i := range w.links {
		for _, n := range w.links[i].near {
			// All hosts of the network, and all routers.
			if ip == n.Addr() || ip.Is4() && ip == value.Last(n) {
				return false
			}
		}
	}
	return true
}

// mine reports whether an address is the gateway's.
func (w *world) mine(ip netip.Addr) bool { return w.way(ip).Local }

// config generates a whole configuration.
func (m *maker) config() Config {
	m.c = Config{Interfaces: map[value.Zone][]value.IfName{}}
	for i := range m.w.links {
		if m.chance(80) {
			z := pick(m, zoneNames...)
			m.c.Interfaces[z] = append(m.c.Interfaces[z], m.w.links[i].name)
		}
	}
	for range 6 + m.IntN(8) {
		m.c.Addresses = append(m.c.Addresses, m.object())
	}
	for range 4 {
		g := AddressGroup{Name: m.line("group")}
		g.ID = m.id()
		g.Members = m.members(6, len(m.c.Addresses), func(i int) uuid.UUID { return m.c.Addresses[i].ID })
		m.c.AddressGroups = append(m.c.AddressGroups, g)
	}
	for range 8 {
		m.c.Services = append(m.c.Services, m.service())
	}
	for range 4 {
		g := ServiceGroup{Name: m.line("bundle")}
		g.ID = m.id()
		g.Members = m.members(4, len(m.c.Services), func(i int) uuid.UUID { return m.c.Services[i].ID })
		m.c.ServiceGroups = append(m.c.ServiceGroups, g)
	}
	for range 8 + m.IntN(24) {
		m.c.Rules = append(m.c.Rules, m.rule())
	}
	if m.chance(30) {
		m.c.Rules = append(m.run(), m.c.Rules...)
	}
	// Where much is accepted, there is much to translate.
	for range m.IntN(4) {
		r := &Rule{Name: m.line("rule"), SrcZone: m.zone(), DstZone: pick(m, zoneNames...), SrcKind: selectAny, DstKind: selectAny, Action: "accept", Enabled: true}
		r.ID = m.id()
		m.c.Rules = append(m.c.Rules, r)
	}
	for range 3 + m.IntN(9) {
		m.c.NAT = append(m.c.NAT, m.natRule())
	}
	for range 1 + m.IntN(3) {
		m.c.Openings = append(m.c.Openings, m.opening())
	}
	for range m.IntN(3) {
		m.c.Tunnels = append(m.c.Tunnels, m.tunnel())
	}
	if m.IntN(2) == 0 {
		m.c.Defaults = append(m.c.Defaults, m.tunnel().Interface)
	}
	for range m.IntN(4) {
		m.c.Peers = append(m.c.Peers, m.address(m.family()))
	}
	return m.c
}

func (m *maker) line(kind string) value.Line {
	return value.Must[value.Line](fmt.Sprintf("%s %d", kind, m.IntN(1_000_000)))
}

func (m *maker) members(most, of int, id func(int) uuid.UUID) []uuid.UUID {
	var list []uuid.UUID
	for _, i := range m.Perm(of)[:m.IntN(most+1)] {
		list = append(list, id(i))
	}
	return list
}

func (m *maker) object() Address {
	o := Address{Name: m.line("object"), Kind: pick(m, kindHost, kindNetwork, kindRange, kindFQDN)}
	o.ID = m.id()
	f := m.family()
	switch ip := m.address(f); o.Kind {
	case kindHost:
		o.Value = ip.String()
	case kindNetwork:
		bits := ip.BitLen() - m.IntN(17)
		o.Value = netip.PrefixFrom(ip, bits).Masked().String()
	case kindRange:
		last := ip
		for range m.IntN(40) {
			last = last.Next()
		}
		o.Value = ip.String() + "-" + last.String()
	case kindFQDN:
		o.Value = fmt.Sprintf("host%d.example.net", m.n)
		for range m.IntN(4) {
			o.Resolved = append(o.Resolved, value.Must[value.Addr](m.address(m.family()).String()))
		}
	}
	return o
}

func (m *maker) service() Service {
	s := Service{Name: m.line("service"), Protocol: pick(m, "tcp", "udp", "tcp+udp", "tcp", "udp", "icmp", "icmpv6", "any")}
	s.ID = m.id()
	if s.Protocol[0] != 'i' && s.Protocol != "any" {
		s.PortStart, s.PortEnd = m.ports()
	}
	return s
}

// ports returns no port, one, or a range.
func (m *maker) ports() (start, end *int) {
	switch m.IntN(6) {
	case 0:
		return nil, nil
	case 1, 2, 3:
		return pointer(m.port()), nil
	}
	first := m.port()
	return &first, pointer(min(65535, first+m.IntN(20)))
}

func (m *maker) rule() *Rule {
	r := &Rule{
		Name: m.line("rule"), SrcZone: m.zone(), DstZone: m.zone(self, self), Action: pick(m, "accept", "accept", "drop", "reject"), Log: m.chance(30), Enabled: m.chance(85),
	}
	r.ID = m.id()
	// Rules that differ only in their zones and their action reveal the order in which they are checked.
	if n := len(m.c.Rules); n > 0 && m.chance(35) {
		twin := *m.c.Rules[m.IntN(n)]
		twin.Name, twin.Action, twin.Enabled, twin.Log, twin.ID = r.Name, r.Action, true, r.Log, r.ID
		twin.SrcZone, twin.DstZone = pick(m, twin.SrcZone, anywhere, r.SrcZone), pick(m, twin.DstZone, anywhere, r.DstZone)
		return &twin
	}
	r.SrcKind, r.SrcObjectID, r.SrcGroupID, r.SrcCIDR = m.selector()
	r.DstKind, r.DstObjectID, r.DstGroupID, r.DstCIDR = m.selector()
	switch m.IntN(5) {
	case 0, 1:
		r.ServiceObjectID = &m.c.Services[m.IntN(len(m.c.Services))].ID
	case 2, 3:
		r.ServiceGroupID = &m.c.ServiceGroups[m.IntN(len(m.c.ServiceGroups))].ID
	}
	// An early rule for everything would leave nothing to the others.
	if r.SrcKind == selectAny && r.DstKind == selectAny && r.ServiceObjectID == nil && r.ServiceGroupID == nil {
		r.SrcKind, r.SrcCIDR = selectCIDR, m.cidr(m.family())
	}
	return r
}

// run returns so many rules of one pair of zones, for few addresses each, that they are put behind gates.
func (m *maker) run() (rules []*Rule) {
	src, dst := pick(m, append(zoneNames, anywhere)...), pick(m, append(zoneNames, anywhere, self)...)
	narrow := func() value.Prefix {
		ip := m.address(m.family())
		return value.Must[value.Prefix](netip.PrefixFrom(ip, ip.BitLen()-m.IntN(9)).Masked().String())
	}
	sides := m.IntN(3)
	for range blockWorth + m.IntN(2*blockParts) {
		r := m.rule()
		r.SrcZone, r.DstZone = src, dst
		if sides != 0 {
			r.SrcKind, r.SrcObjectID, r.SrcGroupID, r.SrcCIDR = selectCIDR, nil, nil, narrow()
		}
		if sides != 1 {
			r.DstKind, r.DstObjectID, r.DstGroupID, r.DstCIDR = selectCIDR, nil, nil, narrow()
		}
		rules = append(rules, r)
	}
	return rules
}

func (m *maker) selector() (kind string, object, group *uuid.UUID, cidr value.Prefix) {
	switch kind = pick(m, selectAny, selectAny, selectObject, selectObject, selectGroup, selectGroup, selectCIDR); kind {
	case selectObject:
		object = &m.c.Addresses[m.IntN(len(m.c.Addresses))].ID
	case selectGroup:
		group = &m.c.AddressGroups[m.IntN(len(m.c.AddressGroups))].ID
	case selectCIDR:
		cidr = m.cidr(m.family())
	}
	return kind, object, group, cidr
}

func (m *maker) cidr(f nft.Family) value.Prefix {
	n := m.network(f)
	switch m.IntN(8) {
	case 0:
		n = netip.PrefixFrom(m.address(f), n.Addr().BitLen())
	case 1:
		n = [2]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}[f]
	}
	return value.Must[value.Prefix](n.String())
}

func (m *maker) natRule() NATRule {
	f := m.family()
	n := NATRule{
		Name: m.line("nat"), Kind: pick(m, natDestination, natSource, natSource, natMasquerade), InZone: m.zone(anywhere), OutZone: m.zone(anywhere),
		Protocol: pick(m, "tcp", "udp", "tcp+udp", "tcp+udp", "any"), Enabled: m.chance(85),
	}
	n.ID = m.id()
	if m.chance(30) {
		n.SrcCIDR = m.cidr(f)
	}
	if m.chance(30) {
		n.DstCIDR = m.cidr(f)
		if n.Kind == natDestination && m.chance(50) {
			own := m.w.links[m.IntN(cables)].own[f]
			n.DstCIDR = value.Must[value.Prefix](own.String())
		}
	}
	if n.Protocol != "any" {
		n.DstPort, n.DstPortEnd = m.ports()
	}
	if n.Kind == natDestination {
		n.OutZone = anywhere
	}
	if n.Kind != natMasquerade {
		target := m.address(f)
		switch {
		case m.chance(8):
			target = m.address(1 - f) // such a rule is skipped
		case n.Kind == natDestination && m.chance(20):
			target = m.w.links[m.IntN(cables)].own[f]
		case n.Kind == natDestination && m.chance(20): // onto itself
			n.DstCIDR = value.Must[value.Prefix](target.String())
		}
		n.TargetAddress = value.Must[value.Addr](target.String())
		if n.Protocol != "any" {
			n.TargetPort, n.TargetPortEnd = m.ports()
			if n.DstPortEnd != nil && m.chance(50) { // of equal length
				n.TargetPort = pointer(1 + m.IntN(60000))
				n.TargetPortEnd = pointer(*n.TargetPort + *n.DstPortEnd - *n.DstPort)
			}
		}
	}
	return n
}

func (m *maker) opening() policy.Opening {
	o := policy.Opening{Service: pick(m, "ntp", "dns", "tunnel"), Proto: pick(m, policy.TCP, policy.UDP), Port: m.port()}
	for range m.IntN(3) {
		o.Addresses = append(o.Addresses, value.Must[value.Addr](m.w.links[m.IntN(cables)].own[m.family()].String()))
	}
	if m.chance(10) {
		o.Addresses = append(o.Addresses, value.Must[value.Addr]("0.0.0.0"))
	}
	for _, i := range m.Perm(cables)[:m.IntN(3)] {
		o.Interfaces = append(o.Interfaces, m.w.links[i].name)
	}
	return o
}

func (m *maker) tunnel() policy.Tunnel {
	i := m.IntN(cables)
	t := policy.Tunnel{Interface: m.w.links[i].name}
	for f := range nft.Families {
		if m.chance(70) {
			t.Networks = append(t.Networks, value.Must[value.Prefix](pick(m, m.w.links[i].near[f], m.w.links[m.IntN(cables)].far[f]).String()))
		}
	}
	return t
}
