package firewall

import (
	"slices"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/value"
)

// dispatch leads a packet to the rules of its zones, so that its cost does not grow with the number of other rules.
//
// Each rule exists once, in a segment: a run of rules with the same scope, which is a pair of zones. A packet's chain jumps to the
// segments whose scope matches, in the order of the rules. Where there are many, gates skip most of them.
type dispatch struct {
	segments []*segment
	list     []*nft.Chain // of all rules
	taken    []*stand
	*chains
	was map[nft.Name]*stand
	// The rules of the base chains.
	input, forward []nft.Rule
}

// scope is a pair of zones; both may be any.
type scope struct{ src, dst value.Zone }

type segment struct {
	scope scope
	name  nft.Name
	parts []*part
}

// pair is a scope while rules are divided into segments.
type pair struct {
	scope
	// open is the segment that the next rule joins; nil if the rule begins one.
	open  *segment
	begun int
	of    *chains // the chains that have its rules
}

// chains holds the chains of rules, which the next table reuses where nothing changes.
type chains struct {
	stands map[nft.Name]*stand
	pairs  map[scope]*pair
	first  *chains // of the first in a series of tables
}

// stand is a chain that checks parts in order.
type stand struct {
	parts []*part
	chain *nft.Chain
	// gate is the part that leads to it; nil if only a branch does.
	gate *part
	// all lists the parts that it checks directly, behind gates, and in the stands behind those gates. A block has none.
	all    []*part
	behind []*stand
}

// covers reports whether traffic between two zones is in the scope. Interfaces without a zone are in the zero zone.
func (s scope) covers(src, dst value.Zone) bool {
	return (s.src == anywhere || s.src == src) && (s.dst == anywhere || s.dst == dst)
}

// meets reports whether some traffic is in both scopes.
func (s scope) meets(o scope) bool {
	return (s.src == anywhere || o.src == anywhere || s.src == o.src) && (s.dst == anywhere || o.dst == anywhere || s.dst == o.dst)
}

var self = value.Must[value.Zone](zoneSelf)

// newDispatch makes the chains of rules, reusing earlier ones.
func newDispatch(rs Ruleset, was *chains) *dispatch {
	if was == nil {
		was = &chains{pairs: map[scope]*pair{}}
		was.first = was
	}
	d := &dispatch{was: was.stands, chains: &chains{make(map[nft.Name]*stand, len(was.stands)), was.pairs, was.first}}
	d.cut(rs.Rules)
	jumps := make([]*part, len(d.segments))
	for i, s := range d.segments {
		x := d.gated(s.name, s.parts)
		if x.gate == nil {
			x.gate = &part{id: x.parts[0].id, lines: []nft.Rule{{Exprs: []nft.Expr{nft.Jump(s.name)}}}, sides: reaches(x.parts)}
		}
		jumps[i] = x.gate
	}
	// The zones that a packet can come from or go to. The first one, the zero zone, stands for all other interfaces.
	zones := append([]ZoneLinks{{}}, rs.Zones...)
	d.input = d.enter(nft.Named("rules_in"), d.branch(nft.From, nft.Named("rules_in"), zones, func(src value.Zone, name nft.Name) nft.Name {
		return d.between(name, scope{src, self}, jumps)
	}))
	d.forward = d.enter(nft.Named("rules_fwd"), d.branch(nft.From, nft.Named("rules_fwd"), zones, func(src value.Zone, name nft.Name) nft.Name {
		return d.chain(name, d.branch(nft.To, name, zones, func(dst value.Zone, name nft.Name) nft.Name {
			return d.between(name, scope{src, dst}, jumps)
		}))
	}))
	return d
}

// cut puts each rule into a segment: the newest one of its scope, unless a rule of an overlapping scope has begun a segment since, which
// must be checked first.
func (d *dispatch) cut(rules []*Policy) {
	for _, p := range d.pairs {
		p.open, p.begun = nil, 0
	}
	for _, p := range rules {
		if p.part == nil || p.pair.of != d.first {
			p.part, p.pair = rulePart(p), d.pairOf(p)
		}
		if len(p.part.lines) == 0 {
			continue
		}
		s := p.pair
		if s.open == nil {
			for _, other := range d.pairs {
				if other.meets(s.scope) {
					other.open = nil
				}
			}
			// Its name does not depend on rules of other scopes, so that they can come and go while it stays.
			s.open = &segment{scope: s.scope, name: nft.Named("seg").Of(s.src).Of(s.dst).At(s.begun)}
			if was := d.was[s.open.name]; was != nil {
				s.open.parts = make([]*part, 0, len(was.all)+1)
			}
			d.segments = append(d.segments, s.open)
			s.begun++
		}
		s.open.parts = append(s.open.parts, p.part)
	}
}

// pairOf returns the pair of zones of a rule.
func (d *dispatch) pairOf(p *Policy) *pair {
	s := scope{p.Src, p.Dst}
	if d.pairs[s] == nil {
		d.pairs[s] = &pair{scope: s, of: d.first}
	}
	return d.pairs[s]
}

// branch leads packets by the interface on a side to the chain of its zone, and those of other interfaces to the chain of the zero zone.
// A rule for the zero zone applies to every zone: if that zone has a chain, all have.
func (d *dispatch) branch(side nft.Side, name nft.Name, zones []ZoneLinks, leaf func(value.Zone, nft.Name) nft.Name) (rules []nft.Rule) {
	var ways []nft.Way
	var rest nft.Name
	for _, z := range zones {
		to := leaf(z.Zone, name.Of(z.Zone))
		if z.Zone.IsZero() {
			rest = to
		}
		if to == rest {
			continue // where all others go
		}
		for _, link := range z.Links {
			ways = append(ways, nft.Way{Link: link, To: to})
		}
	}
	if len(ways) > 0 {
		rules = append(rules, nft.Rule{Exprs: []nft.Expr{nft.Dispatch(side, ways)}})
	}
	if !rest.IsZero() {
		rules = append(rules, nft.Rule{Exprs: []nft.Expr{nft.Goto(rest)}})
	}
	return rules
}

// between returns the chain for traffic between two zones: the jumps to its segments, in order.
func (d *dispatch) between(name nft.Name, zones scope, jumps []*part) nft.Name {
	var parts []*part
	var only nft.Name
	for i, s := range d.segments {
		if s.scope.covers(zones.src, zones.dst) {
			only = s.name
			parts = append(parts, jumps[i])
		}
	}
	switch len(parts) {
	case 0:
		return nft.Name{}
	case 1:
		return only
	}
	d.gated(name, parts)
	return name
}

// stand returns the chain that checks the parts, reusing an earlier one.
func (d *dispatch) stand(name nft.Name, parts []*part) *stand {
	x := d.was[name]
	if x == nil || !slices.Equal(x.parts, parts) {
		x = &stand{parts: parts, chain: &nft.Chain{Name: name}}
		for _, p := range parts {
			x.chain.Rules = append(x.chain.Rules, p.lines...)
		}
	}
	d.take(x)
	return x
}

// take adds a stand to the table.
func (d *dispatch) take(x *stand) {
	d.stands[x.chain.Name] = x
	d.list = append(d.list, x.chain)
	d.taken = append(d.taken, x)
}

// sets returns the sets of all gates.
func (d *dispatch) sets() (sets []*nft.Set) {
	for _, x := range d.taken {
		if x.gate != nil {
			sets = append(sets, x.gate.sets...)
		}
	}
	return sets
}

// chain adds a chain, unless it would be empty.
func (d *dispatch) chain(name nft.Name, rules []nft.Rule) nft.Name {
	if len(rules) == 0 {
		return nft.Name{}
	}
	d.list = append(d.list, &nft.Chain{Name: name, Rules: rules})
	return name
}

// enter returns the rules by which a base chain jumps to a chain, from which undecided packets return.
func (d *dispatch) enter(name nft.Name, rules []nft.Rule) []nft.Rule {
	if d.chain(name, rules).IsZero() {
		return nil
	}
	return []nft.Rule{{Exprs: []nft.Expr{nft.Jump(name)}}}
}
