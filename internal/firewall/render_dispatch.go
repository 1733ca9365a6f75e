package firewall

import (
	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/value"
)

// dispatch leads a packet to the rules of its zones, so that what it costs does not grow with the rules of others.
//
// Each rule stands once, in a segment: a run of rules with the same scope, which is a pair of zones. A packet's chain
// jumps to the segments whose scope it is in, in the order of the rules. Where there are many, gates spare it most of them.
type dispatch struct {
	segments []*segment
	chains   []nft.Chain
	// What the base chains do for the rules.
	input, forward []nft.Rule
}

// scope is a pair of zones; both may be any.
type scope struct{ src, dst value.Zone }

type segment struct {
	scope scope
	name  nft.Name
	parts []part
}

// covers tells whether traffic between two zones is in the scope. The absent zone is that of interfaces without one.
func (s scope) covers(src, dst value.Zone) bool {
	return (s.src == anywhere || s.src == src) && (s.dst == anywhere || s.dst == dst)
}

// meets tells whether some traffic is in both scopes.
func (s scope) meets(o scope) bool {
	return (s.src == anywhere || o.src == anywhere || s.src == o.src) && (s.dst == anywhere || o.dst == anywhere || s.dst == o.dst)
}

var self = value.Must[value.Zone](zoneSelf)

func newDispatch(rs Ruleset) *dispatch {
	d := &dispatch{}
	d.cut(rs.Rules)
	jumps := make([]part, len(d.segments))
	for i, s := range d.segments {
		d.chain(s.name, d.gated(s.name, s.parts))
		jumps[i] = part{s.parts[0].id, []nft.Rule{{Exprs: []nft.Expr{nft.Jump(s.name)}}}, reaches(s.parts)}
	}
	// The zones that a packet can come from or leave by; the absent one, first, is that of all other interfaces.
	zones := append([]ZoneLinks{{}}, rs.Zones...)
	d.input = d.enter(nft.Named("rules_in"), d.branch(nft.From, nft.Named("rules_in"), zones, func(src value.Zone, name nft.Name) nft.Name {
		return d.pair(name, scope{src, self}, jumps)
	}))
	d.forward = d.enter(nft.Named("rules_fwd"), d.branch(nft.From, nft.Named("rules_fwd"), zones, func(src value.Zone, name nft.Name) nft.Name {
		return d.chain(name, d.branch(nft.To, name, zones, func(dst value.Zone, name nft.Name) nft.Name {
			return d.pair(name, scope{src, dst}, jumps)
		}))
	}))
	return d
}

// cut puts each rule into a segment: the newest one of its scope, unless a rule of a scope that meets it has begun one
// since, which has to be asked before.
func (d *dispatch) cut(rules []Policy) {
	newest, begun := map[scope]int{}, map[scope]int{}
	for i := range rules {
		lines := rules[i].lines()
		if len(lines) == 0 {
			continue
		}
		s := scope{rules[i].Src, rules[i].Dst}
		at, open := newest[s]
		if open {
			for other, since := range newest {
				if since > at && other.meets(s) {
					open = false
					break
				}
			}
		}
		if !open {
			at = len(d.segments)
			// Its name is the same whatever rules of other scopes there are, so that they can come and go while it stays.
			d.segments = append(d.segments, &segment{scope: s, name: nft.Named("seg").Of(s.src).Of(s.dst).At(begun[s])})
			begun[s]++
			newest[s] = at
		}
		d.segments[at].parts = append(d.segments[at].parts, rulePart(&rules[i], lines))
	}
}

// branch leads packets by the interface on a side to the chain of its zone, and those of other interfaces to the chain
// of the absent zone. A rule that asks for the absent zone asks for every zone: where that has a chain, all have.
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

// pair is the chain of traffic between two zones: the jumps to its segments, in order.
func (d *dispatch) pair(name nft.Name, zones scope, jumps []part) nft.Name {
	var parts []part
	var only nft.Name
	for i, s := range d.segments {
		if s.scope.covers(zones.src, zones.dst) {
			only = s.name
			parts = append(parts, jumps[i])
		}
	}
	if len(parts) == 1 {
		return only
	}
	return d.chain(name, d.gated(name, parts))
}

// chain makes a chain, unless it would be empty.
func (d *dispatch) chain(name nft.Name, rules []nft.Rule) nft.Name {
	if len(rules) == 0 {
		return nft.Name{}
	}
	d.chains = append(d.chains, nft.Chain{Name: name, Rules: rules})
	return name
}

// enter is how a base chain gets to a chain, from which whatever is not decided comes back.
func (d *dispatch) enter(name nft.Name, rules []nft.Rule) []nft.Rule {
	if d.chain(name, rules).IsZero() {
		return nil
	}
	return []nft.Rule{{Exprs: []nft.Expr{nft.Jump(name)}}}
}
