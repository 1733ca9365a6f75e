package firewall

import (
	"slices"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/conf/nft"
)

const (
	// blockParts is the maximum number of parts behind one gate: with more, more packets match the gate's addresses; with fewer, there
	// are more gates to check.
	blockParts = 48
	// blockEnds is the average block length: one in this many parts begins a block, if the previous block is worth a gate. The ids decide
	// which ones, so that a rule that comes or goes only moves nearby rules to another block.
	blockEnds = 16
	// blockWorth is the minimum number of parts behind a gate, because a gate costs as much as a few parts.
	blockWorth = 16
	// gateLevels is the maximum depth of gates. Each level has at most a sixteenth of the gates of the level below.
	gateLevels = 3
)

// part is one element of a chain: a rule, or a jump to a chain of rules.
type part struct {
	id    uuid.UUID // of its first rule
	lines []nft.Rule
	sides [2]reach // by nft.Side
	sets  []*nft.Set
}

// reach is the set of addresses on one side that a part can match.
type reach struct {
	// fixed means that the set is limited, and constant for the life of the table.
	fixed bool
	spans [2][]nft.Span // by family
}

// extent sums up the share of each family's addresses.
func (r *reach) extent() (sum float64) {
	for _, spans := range r.spans {
		for _, span := range spans {
			first, last := span.First.AsSlice(), span.Last.AsSlice()
			part := 0.0
			for i := len(first) - 1; i >= 0; i-- {
				part = (part + float64(last[i]) - float64(first[i])) / 256
			}
			sum += part
		}
	}
	return sum
}

func rulePart(p *Policy) *part {
	x := &part{id: p.ID, lines: p.lines()}
	for side, a := range [2]*Addresses{nft.From: &p.From, nft.To: &p.To} {
		if !a.Any && a.Set[nft.V4].IsZero() && a.Set[nft.V6].IsZero() {
			x.sides[side] = reach{true, a.Spans}
		}
	}
	return x
}

// reaches returns the addresses that any of the parts can match.
func reaches(parts []*part) (sides [2]reach) {
	if len(parts) == 1 {
		return parts[0].sides
	}
	for side := range sides {
		if slices.ContainsFunc(parts, func(p *part) bool { return !p.sides[side].fixed }) {
			continue
		}
		sides[side].fixed = true
		for f := range nft.Families {
			all := make([]nft.Span, 0, len(parts))
			for _, p := range parts {
				all = append(all, p.sides[side].spans[f]...)
			}
			sides[side].spans[f] = merge(all)
		}
	}
	return sides
}

// gated returns the chain that checks the parts in order. Runs of parts are in chains of their own behind a gate, which checks for all of
// their addresses at once, so that a packet skips most of the rules that cannot match it. Runs of gates are nested in the same way.
func (d *dispatch) gated(name nft.Name, parts []*part) *stand {
	if x := d.was[name]; x != nil && slices.Equal(x.all, parts) {
		for _, behind := range x.behind {
			d.take(behind)
		}
		d.take(x)
		return x
	}
	all := parts
	var behind []*stand
	for level := range gateLevels {
		before := len(parts)
		if parts = d.gates(name, parts, level, &behind); len(parts) == before {
			break
		}
	}
	x := d.stand(name, parts)
	x.all, x.behind = all, behind
	return x
}

// gates replaces each run of parts that is worth it by a gate.
func (d *dispatch) gates(name nft.Name, parts []*part, level int, stands *[]*stand) (gated []*part) {
	// A block is named after its first rule if that rule's id begins a block, and numbered otherwise.
	blocks := 0
	for rest := parts; len(rest) > 0; {
		n := run(rest, level)
		behind := rest[:n]
		rest = rest[n:]
		if n < blockWorth {
			gated = append(gated, behind...)
			continue
		}
		block := name.At(blocks)
		if behind[0].begins(level) {
			block = name.By(behind[0].id)
		} else {
			blocks++
		}
		if level > 0 {
			block = block.At(level)
		}
		x := d.stand(block, behind)
		if x.gate == nil {
			x.gate = gate(behind, block)
		}
		*stands = append(*stands, x)
		gated = append(gated, x.gate)
	}
	return gated
}

// gate leads packets to a block that some of its parts can match. It checks the side with fewer addresses first.
//
// Its addresses are in named sets, so that they can change while the rule stays. Of each anonymous set, the kernel looks through the whole
// transaction.
func gate(behind []*part, block nft.Name) *part {
	x := &part{id: behind[0].id, sides: reaches(behind)}
	order := []nft.Side{nft.From, nft.To}
	if x.sides[nft.To].extent() < x.sides[nft.From].extent() {
		slices.Reverse(order)
	}
	order = slices.DeleteFunc(order, func(s nft.Side) bool { return !x.sides[s].fixed })
	for _, f := range nft.Families {
		var asks []nft.Expr
		var sets []*nft.Set
		for _, side := range order {
			switch spans := x.sides[side].spans[f]; len(spans) {
			case 0:
			case 1:
				asks = append(asks, nft.Addr(side, spans))
			default:
				sets = append(sets, &nft.Set{Name: block.On(side, f), Family: f, Elements: spans})
				asks = append(asks, nft.InSet(side, f, block.On(side, f)))
			}
		}
		if len(asks) == len(order) {
			x.sets = append(x.sets, sets...)
			x.lines = append(x.lines, nft.Rule{Exprs: append(asks, nft.Jump(block))})
		}
	}
	return x
}

// run returns how many of the next parts can share a gate: those whose addresses are known on the same side. A part that cannot be behind
// a gate is a run of one.
func run(parts []*part, level int) (n int) {
	sides := [2]bool{true, true}
	for n < min(len(parts), blockParts) && (n < blockWorth || !parts[n].begins(level)) {
		known := [2]bool{sides[0] && parts[n].sides[0].fixed, sides[1] && parts[n].sides[1].fixed}
		if known == [2]bool{} {
			break
		}
		sides = known
		n++
	}
	return max(n, 1)
}

// begins reports whether a part may begin a block of a level.
func (p *part) begins(level int) bool { return p.id[15-level]%blockEnds == 0 }
