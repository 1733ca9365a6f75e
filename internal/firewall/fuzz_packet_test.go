package firewall

import (
	"cmp"
	"net/netip"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/value"
)

// packet generates a packet. Half of them are aimed at something in the rules.
func (m *maker) packet(rs *Ruleset) Packet {
	for {
		p := m.anyPacket()
		if m.chance(70) {
			m.aim(rs, &p)
		}
		if p.Proto == nft.ICMP && p.family() == nft.V6 || p.Proto == nft.ICMPv6 && p.family() == nft.V4 {
			continue
		}
		if m.w.usable(p.Source) && m.w.usable(p.Destination) && !m.w.mine(p.Source) && p.Source.Is4() == p.Destination.Is4() {
			return p
		}
	}
}

func (m *maker) anyPacket() Packet {
	f := m.family()
	p := Packet{In: m.w.links[m.IntN(cables)].name, Source: m.address(f), Destination: m.address(f), SourcePort: uint16(1024 + m.IntN(64000))}
	if m.chance(40) {
		p.Destination = m.w.links[m.IntN(cables)].own[f]
	}
	m.speak(&p, pick[uint8](m, nft.TCP, nft.TCP, nft.TCP, nft.UDP, nft.UDP, nft.UDP, nft.ICMP), uint16(m.port()))
	return p
}

func (m *maker) speak(p *Packet, proto uint8, port uint16) {
	p.Proto, p.DestinationPort, p.ICMPType = proto, port, 0
	if ported(proto) {
		return
	}
	p.DestinationPort = 0
	p.Proto, p.ICMPType = nft.ICMP, pick[uint8](m, echoRequest, echoRequest, echoRequest, 13, 0, 3)
	if p.family() == nft.V6 {
		p.Proto, p.ICMPType = nft.ICMPv6, pick[uint8](m, echoRequest6, echoRequest6, echoRequest6, 2, 129, 135)
	}
}

// aim makes a packet likely to match one element of the rules.
func (m *maker) aim(rs *Ruleset, p *Packet) {
	switch m.IntN(20) {
	default:
		m.aimAtRule(rs.Rules[m.IntN(len(rs.Rules))], rs, p)
	case 5, 6, 7:
		if len(rs.Destination) > 0 {
			m.aimAtNAT(&rs.Destination[m.IntN(len(rs.Destination))], rs, p)
		}
	case 8, 12, 13:
		if len(rs.Source) > 0 {
			m.aimAtNAT(&rs.Source[m.IntN(len(rs.Source))], rs, p)
		}
	case 9:
		o := rs.Openings[m.IntN(len(rs.Openings))]
		m.toGateway(p)
		if len(o.Interfaces) > 0 {
			p.In = pick(m, o.Interfaces...)
		}
		m.speak(p, openingProtos[o.Proto], uint16(o.Port))
	case 10:
		if len(rs.Tunnels) > 0 {
			t := pick(m, rs.Tunnels...)
			if m.chance(50) && len(t.Networks) > 0 { // out through it
				n := pick(m, t.Networks...).Netip()
				p.Source = m.within(nft.Span{First: n.Addr(), Last: value.Last(n)})
				p.Destination = m.behind([]value.IfName{t.Interface}, nft.FamilyOf(p.Source))
			}
			p.In = t.Interface
		}
	case 11:
		m.toGateway(p)
		ports := pick(m, lockout, management, peering).Ports
		service := pick(m, ports...)
		m.speak(p, service.Proto, service.First)
		if len(rs.Peers) > 0 {
			p.Source = pick(m, rs.Peers...).First
			p.Destination = m.w.links[m.IntN(cables)].own[p.sourceFamily()]
		}
	}
}

func (p *Packet) sourceFamily() nft.Family { return nft.FamilyOf(p.Source) }

func (m *maker) toGateway(p *Packet) { p.Destination = m.w.links[m.IntN(cables)].own[p.family()] }

// behind returns an address reached through one of the interfaces.
func (m *maker) behind(links []value.IfName, f nft.Family) netip.Addr {
	c := m.w.cable(pick(m, links...))
	n := pick(m, c.near[f], c.far[f])
	for {
		if ip := m.within(nft.Span{First: n.Addr(), Last: value.Last(n)}); m.w.usable(ip) {
			return ip
		}
	}
}

// tries is how often a packet is aimed before any packet will do.
const tries = 20

func (m *maker) aimAtRule(r *Policy, rs *Ruleset, p *Packet) {
	f := pick(m, nft.V4, nft.V6)
	if !r.matches(f) {
		f = 1 - f
	}
	if !r.matches(f) {
		return
	}
	for range tries {
		*p = m.anyPacketOf(f)
		if links := rs.links(r.Src); len(links) > 0 {
			p.In = pick(m, links...)
		}
		if links := rs.links(r.Dst); len(links) > 0 {
			p.Destination = m.behind(links, f)
		} else if r.Dst == self {
			m.toGateway(p)
		}
		if !r.From.Any {
			p.Source = m.within(pick(m, r.From.Spans[f]...))
		}
		if !r.To.Any && !r.To.contains(p.Destination) {
			p.Destination = m.within(pick(m, r.To.Spans[f]...))
		}
		m.serve(&r.Services, p)
		to := self
		if way := m.w.way(p.Destination); !way.Local {
			to = rs.zoneOf(value.Must[value.IfName](cmp.Or(way.Interface, "none")))
		}
		if m.w.usable(p.Source) && m.w.usable(p.Destination) && !m.w.mine(p.Source) && (scope{r.Src, r.Dst}).covers(rs.zoneOf(p.In), to) {
			return
		}
	}
}

func (m *maker) anyPacketOf(f nft.Family) Packet {
	for {
		if p := m.anyPacket(); p.family() == f {
			return p
		}
	}
}

// serve gives the packet a protocol and a port of the services.
func (m *maker) serve(s *Services, p *Packet) {
	ports := s.in(p.family())
	if s.Any || len(ports) == 0 {
		return
	}
	x := pick(m, ports...)
	m.speak(p, x.Proto, x.First+uint16(m.IntN(int(x.Last-x.First)+1)))
}

func (m *maker) aimAtNAT(t *Translation, rs *Ruleset, p *Packet) {
	if t.Family != nil {
		*p = m.anyPacketOf(*t.Family)
	}
	if links := rs.links(t.In); len(links) > 0 {
		p.In = pick(m, links...)
	}
	if links := rs.links(t.Out); len(links) > 0 {
		p.Destination = m.behind(links, p.family())
	}
	if len(t.Src) > 0 {
		p.Source = m.within(t.Src[0])
	}
	switch {
	case len(t.Dst) > 0:
		p.Destination = m.within(t.Dst[0])
	case t.Kind == natDestination:
		m.toGateway(p)
	}
	m.serve(&t.Services, p)
}
