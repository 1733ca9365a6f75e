package firewall

import (
	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/value"
)

func (rs *Ruleset) links(zone value.Zone) []value.IfName {
	for _, z := range rs.Zones {
		if z.Zone == zone {
			return z.Links
		}
	}
	return nil
}

// zoneOf returns the zone of an interface; the zero zone if it has none.
func (rs *Ruleset) zoneOf(link value.IfName) value.Zone {
	for _, z := range rs.Zones {
		for _, l := range z.Links {
			if l == link {
				return z.Zone
			}
		}
	}
	return value.Zone{}
}

var openingProtos = map[policy.Proto]uint8{policy.TCP: nft.TCP, policy.UDP: nft.UDP}

func openingService(o policy.Opening) Services {
	return Services{Ports: []nft.Ports{{Proto: openingProtos[o.Proto], First: uint16(o.Port), Last: uint16(o.Port)}}}
}

// lockout lists the services that stay open whatever the rules say, management the one that no NAT rule takes, and peering those between
// the nodes of a cluster.
var (
	lockout    = ownService(policy.AntiLockout...)
	management = ownService(policy.Port{Proto: policy.TCP, Number: policy.ManagementPort})
	peering    = ownService(policy.Peering...)
)

// ownService returns a service with some of the gateway's own ports.
func ownService(ports ...policy.Port) (s Services) {
	for _, p := range ports {
		s.Ports = append(s.Ports, nft.Ports{Proto: openingProtos[p.Proto], First: p.Number, Last: p.Number})
	}
	return s
}

func openingAddresses(o policy.Opening) Addresses {
	if len(o.Addresses) == 0 {
		return Addresses{Any: true}
	}
	var a Addresses
	for _, addr := range o.Addresses {
		ip := addr.Netip()
		if ip.IsUnspecified() {
			return Addresses{Any: true}
		}
		f := nft.FamilyOf(ip)
		a.Spans[f] = merge(append(a.Spans[f], nft.Span{First: ip, Last: ip}))
	}
	return a
}

// opening accepts traffic to a service of the gateway.
func opening(o policy.Opening) []nft.Rule {
	var rules []nft.Rule
	var links []nft.Expr
	if len(o.Interfaces) > 0 {
		links = append(links, nft.Link(nft.From, o.Interfaces))
	}
	to, services := openingAddresses(o), openingService(o)
	for _, exprs := range match(&Addresses{Any: true}, &to, &services) {
		rules = append(rules, rule(nft.For("auto:opening-", o.Service), append(append(links[:len(links):len(links)], exprs...), nft.Counter, nft.Accept)...))
	}
	return rules
}

func prerouting(rs Ruleset) *nft.Chain {
	c := &nft.Chain{Name: nft.Named("prerouting"), Hook: "type nat hook prerouting priority dstnat; policy accept;"}
	if len(rs.Destination) > 0 {
		c.Rules = append(c.Rules, rule(nft.Auto("auto:management"), nft.Do("fib daddr type local"), nft.Service(management.Ports), nft.Accept))
	}
	for i := range rs.Destination {
		t := &rs.Destination[i]
		if exprs, ok := rs.translation(t); ok {
			c.Rules = append(c.Rules, rule(nft.IDTag("gid:", t.ID), append(exprs, nft.Counter, nft.NAT(nft.To, t.Target))...))
		}
	}
	return c
}

func postrouting(rs Ruleset) *nft.Chain {
	c := &nft.Chain{Name: nft.Named("postrouting"), Hook: "type nat hook postrouting priority srcnat; policy accept;"}
	for i := range rs.Source {
		t := &rs.Source[i]
		do := nft.Masquerade
		if t.Kind == natSource {
			do = nft.NAT(nft.From, t.Target)
		}
		if exprs, ok := rs.translation(t); ok {
			c.Rules = append(c.Rules, rule(nft.IDTag("gid:", t.ID), append(exprs, nft.Counter, do)...))
		}
	}
	for _, t := range rs.Tunnels {
		for _, n := range t.Networks {
			p := n.Netip()
			network := []nft.Span{{First: p.Addr(), Last: value.Last(p)}}
			c.Rules = append(c.Rules, rule(nft.Auto("auto:tunnel"), nft.Link(nft.To, []value.IfName{t.Interface}), nft.Addr(nft.From, network), nft.Counter, nft.Masquerade))
		}
	}
	return c
}

// notes lists the rules that are not in the table. Because a skipped rule thus changes the table, it causes an apply of its own.
func (rs *Ruleset) notes() (notes []nft.Note) {
	for _, id := range rs.Skipped {
		notes = append(notes, nft.IDNote("skipped: NAT rule", id))
	}
	return notes
}

// answers keeps answers to clients outside of a tunnel out of the tunnels that take all traffic: what an inside machine answers on a
// redirected connection must return the way it came.
func answers(rs Ruleset) *nft.Chain {
	const tag = "auto:answers"
	return &nft.Chain{Name: nft.Named("answers"), Hook: "type filter hook prerouting priority mangle; policy accept;", Rules: []nft.Rule{
		rule(nft.Auto(tag), nft.Link(nft.From, rs.Defaults), nft.Accept),
		rule(nft.Auto(tag), nft.Do("ct state new"), nft.MarkConnection(host.DirectMark)),
		rule(nft.Auto(tag), nft.Do("ct direction reply"), nft.OfConnection(host.DirectMark), nft.Mark(host.DirectMark)),
	}}
}

// translation returns what a NAT rule checks in a packet; ok is false if it cannot match, because its zone has no interface.
func (rs *Ruleset) translation(t *Translation) (exprs []nft.Expr, ok bool) {
	for _, x := range []struct {
		side nft.Side
		zone value.Zone
	}{{nft.From, t.In}, {nft.To, t.Out}} {
		if x.zone == anywhere {
			continue
		}
		links := rs.links(x.zone)
		if len(links) == 0 {
			return nil, false
		}
		exprs = append(exprs, nft.Link(x.side, links))
	}
	if t.Family != nil && len(t.Src)+len(t.Dst) == 0 {
		exprs = append(exprs, nft.Only(*t.Family))
	}
	if len(t.Src) > 0 {
		exprs = append(exprs, nft.Addr(nft.From, t.Src))
	}
	switch {
	case len(t.Dst) > 0:
		exprs = append(exprs, nft.Addr(nft.To, t.Dst))
	case t.Kind == natDestination:
		exprs = append(exprs, nft.Do("fib daddr type local"))
	}
	return append(exprs, serviceExpr(t.Services.Any, t.Services.Ports)...), true
}
