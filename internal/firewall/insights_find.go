package firewall

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/value"
)

// findings holds the insights that depend only on the stored state.
type findings struct {
	shadowed   []Shadowed
	duplicates []Duplicate
	skipped    []Skipped
	empty      []Skipped
	wideOpen   []WideOpen
	// enabled lists the rules that are checked for hits, by id.
	enabled map[uuid.UUID]string
}

var (
	outside = value.Must[value.Zone]("wan")
	inside  = value.Must[value.Zone]("lan")
)

// wideOpen reports whether the rule lets everyone outside reach something inside.
func (p *Policy) wideOpen() bool {
	return p.Action == "accept" && p.From.Any && (scope{p.Src, p.Dst}).covers(outside, inside)
}

// find compares every rule with the earlier ones.
func find(c Config) *findings {
	rs := compile(c)
	f := &findings{shadowed: []Shadowed{}, duplicates: []Duplicate{}, skipped: skipped(c), empty: empties(c, &rs), wideOpen: []WideOpen{}, enabled: make(map[uuid.UUID]string, len(rs.Rules))}
	sets := &containment{known: map[[2]*nft.Span]bool{}}
	lanes := map[scope][]outline{}
	twins := map[string]int{}
	var groups [][]RuleRef
	for i := range rs.Rules {
		r := rs.Rules[i]
		f.enabled[r.ID] = r.Name
		o := outlineOf(r, i)
		if !o.live() {
			continue
		}
		ref := RuleRef{r.ID, r.Name}
		if r.wideOpen() {
			f.wideOpen = append(f.wideOpen, WideOpen{ref, r.Src, r.Dst})
		}
		if by := shadow(rs.Rules, lanes, &o, sets); by != nil {
			f.shadowed = append(f.shadowed, Shadowed{ref, []RuleRef{{by.ID, by.Name}}, by.Action == r.Action})
		}
		s := scope{r.Src, r.Dst}
		lanes[s] = append(lanes[s], o)
		same := fingerprintOf(r)
		if at, known := twins[same]; known {
			groups[at] = append(groups[at], ref)
		} else {
			twins[same] = len(groups)
			groups = append(groups, []RuleRef{ref})
		}
	}
	for _, g := range groups {
		if len(g) > 1 {
			f.duplicates = append(f.duplicates, Duplicate{g})
		}
	}
	return f
}

// outline holds the bounds of what a rule matches, which settle most comparisons. The rest is only compared when the bounds of one rule
// are within those of another.
type outline struct {
	at   int // index of the rule
	rule *Policy
	// sides bounds the addresses, by family and side.
	sides [2][2]bounds
	on    [2]bool // whether it matches anything of the family
	// first and last bound the services, with the protocol in the upper bits; protos has a bit for each protocol.
	first, last uint32
	protos      uint8
}

// bounds holds the leading 64 bits of the first and the last address.
type bounds struct{ first, last uint64 }

// whole bounds every address.
var whole = [...]bounds{nft.V4: {0, 1<<32 - 1}, nft.V6: {0, 1<<64 - 1}}

func leading(ip netip.Addr) uint64 {
	if ip.Is4() {
		b := ip.As4()
		return uint64(binary.BigEndian.Uint32(b[:]))
	}
	b := ip.As16()
	return binary.BigEndian.Uint64(b[:8])
}

func outlineOf(r *Policy, at int) outline {
	o := outline{at: at, rule: r, last: ^uint32(0), protos: 0xff}
	if !r.Services.Any {
		o.first, o.last, o.protos = ^uint32(0), 0, 0
		for _, p := range r.Services.Ports {
			o.first = min(o.first, uint32(p.Proto)<<16|uint32(p.First))
			o.last = max(o.last, uint32(p.Proto)<<16|uint32(p.Last))
			o.protos |= protoBit(p.Proto)
		}
	}
	for _, f := range nft.Families {
		o.on[f] = r.matches(f)
		for side, a := range []*Addresses{&r.From, &r.To} {
			b := whole[f]
			if list := a.Spans[f]; !a.Any && len(list) > 0 {
				b = bounds{leading(list[0].First), leading(list[len(list)-1].Last)}
			}
			o.sides[f][side] = b
		}
	}
	return o
}

// portedBits has the bits of the protocols with ports.
const portedBits = 1 | 2

func protoBit(proto uint8) uint8 {
	return map[uint8]uint8{nft.TCP: 1, nft.UDP: 2, nft.ICMP: 4, nft.ICMPv6: 8}[proto]
}

// matches reports whether the rule can match a packet of the family now.
func (p *Policy) matches(f nft.Family) bool {
	some := func(a *Addresses) bool { return a.Any || len(a.Spans[f]) > 0 }
	return some(&p.From) && some(&p.To) && (p.Services.Any || len(p.Services.in(f)) > 0)
}

func (o *outline) live() bool { return o.on[nft.V4] || o.on[nft.V6] }

// within quickly rules out that the other matches everything that o matches; true means maybe.
func (o *outline) within(other *outline) bool {
	// ICMP and ICMPv6 only count in their own family: the exact check sees to that.
	if o.protos&^other.protos&portedBits != 0 || (o.protos|other.protos)&^portedBits == 0 && (o.first < other.first || o.last > other.last) {
		return false
	}
	for f := range o.sides {
		if !o.on[f] {
			continue
		}
		if !other.on[f] {
			return false
		}
		for side := range o.sides[f] {
			a, b := &o.sides[f][side], &other.sides[f][side]
			if a.first < b.first || a.last > b.last {
				return false
			}
		}
	}
	return true
}

// shadow returns the first rule whose scope and match include the whole outlined rule.
func shadow(rules []*Policy, lanes map[scope][]outline, o *outline, sets *containment) *Policy {
	first := len(rules)
	r := o.rule
	wider := func(z value.Zone) []value.Zone { return slices.Compact([]value.Zone{z, anywhere}) }
	for _, src := range wider(r.Src) {
		for _, dst := range wider(r.Dst) {
			lane := lanes[scope{src, dst}]
			for i := range lane {
				other := &lane[i]
				if other.at >= first {
					break
				}
				if o.within(other) && sets.covers(other, o) {
					first = other.at
					break
				}
			}
		}
	}
	if first == len(rules) {
		return nil
	}
	return rules[first]
}

// containment caches which long lists of addresses include which: rules share the lists of a group.
type containment struct{ known map[[2]*nft.Span]bool }

// covers reports whether one rule matches everything that the other matches, apart from the zones.
func (c *containment) covers(outer, inner *outline) bool {
	a, b := outer.rule, inner.rule
	for _, f := range nft.Families {
		if inner.on[f] && !(c.holds(&a.From, &b.From, f) && c.holds(&a.To, &b.To, f) && holdsServices(&a.Services, &b.Services, f)) {
			return false
		}
	}
	return true
}

const longList = 4

func (c *containment) holds(a, b *Addresses, f nft.Family) bool {
	switch {
	case a.Any:
		return true
	case b.Any:
		return len(a.Spans[f]) == 1 && isWhole(a.Spans[f][0])
	}
	outer, inner := a.Spans[f], b.Spans[f]
	if len(outer) <= longList && len(inner) <= longList || len(outer) == 0 || len(inner) == 0 {
		return holdsSpans(outer, inner)
	}
	key := [2]*nft.Span{&outer[0], &inner[0]}
	held, known := c.known[key]
	if !known {
		held = holdsSpans(outer, inner)
		c.known[key] = held
	}
	return held
}

// isWhole reports whether a span is every address of its family.
func isWhole(s nft.Span) bool { return !s.First.Prev().IsValid() && !s.Last.Next().IsValid() }

// holdsSpans reports whether sorted, merged spans include others: each is then within one of them.
func holdsSpans(outer, inner []nft.Span) bool {
	at := 0
	for _, s := range inner {
		for at < len(outer) && outer[at].Last.Less(s.First) {
			at++
		}
		if at == len(outer) || s.First.Less(outer[at].First) || outer[at].Last.Less(s.Last) {
			return false
		}
	}
	return true
}

func holdsServices(a, b *Services, f nft.Family) bool {
	if a.Any || b.Any {
		return a.Any
	}
	for _, p := range b.in(f) {
		if !slices.ContainsFunc(a.Ports, func(q nft.Ports) bool { return q.Proto == p.Proto && q.First <= p.First && p.Last <= q.Last }) {
			return false
		}
	}
	return true
}

// fingerprintOf returns the same text for rules with the same match and action.
func fingerprintOf(r *Policy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s>%s %s", r.Src, r.Dst, r.Action)
	for _, a := range []*Addresses{&r.From, &r.To} {
		fmt.Fprintf(&b, "|%t", a.Any)
		for _, list := range a.Spans {
			for _, s := range list {
				first, last := s.First.As16(), s.Last.As16()
				b.Write(first[:])
				b.Write(last[:])
			}
			b.WriteByte('/')
		}
	}
	fmt.Fprintf(&b, "|%t%v", r.Services.Any, r.Services.Ports)
	return b.String()
}

// empties lists the enabled rules that cannot match anything now, and why.
func empties(c Config, rs *Ruleset) []Skipped {
	list := []Skipped{}
	why := newReasons(c, rs)
	byID := make(map[uuid.UUID]*Policy, len(rs.Rules))
	for i := range rs.Rules {
		byID[rs.Rules[i].ID] = rs.Rules[i]
	}
	for i := range c.Rules {
		if r := c.Rules[i]; r.Enabled {
			if text := why.rule(r, byID[r.ID]); text != "" {
				list = append(list, Skipped{r.ID, r.Name.String(), text})
			}
		}
	}
	for i := range c.NAT {
		n := &c.NAT[i]
		if _, impossible := translate(n); !n.Enabled || impossible != "" {
			continue
		}
		if text := cmp.Or(why.zone(n.InZone), why.zone(n.OutZone)); text != "" {
			list = append(list, Skipped{n.ID, n.Name.String(), text})
		}
	}
	return list
}
