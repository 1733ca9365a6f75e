package firewall

import "edge.internal/gateway/internal/kit/conf/nft"

const (
	// blockRules is how many rules stand behind one gate, at the most: with more, more packets find an address of theirs
	// among those of the gate; with fewer, there are more gates to ask.
	blockRules = 48
	// blockEnds says that of as many rules one begins a block, when the one before is worth a gate. Which ones do, their ids say: so a
	// rule that comes or goes moves only the rules near it to another block.
	blockEnds = 16
	// blockWorth is how many rules a gate must be able to spare a packet. It costs as much as a few of them.
	blockWorth = 16
)

// rendered is a rule and its lines.
type rendered struct {
	*Policy
	lines []nft.Rule
}

// segmentChain makes the chain of a segment. Runs of its rules stand in chains of their own behind a gate: a question about
// all their addresses on one side, so that a packet passes by most of the rules that cannot match it.
func (d *dispatch) segmentChain(s *segment) {
	c := nft.Chain{Name: s.name}
	// A block has the name of the rule that begins it, where that does so by its id, and else a number.
	blocks := 0
	for rest := s.rules; len(rest) > 0; {
		n, side := run(rest)
		var lines []nft.Rule
		for _, r := range rest[:n] {
			lines = append(lines, r.lines...)
		}
		if n < blockWorth {
			c.Rules = append(c.Rules, lines...)
		} else {
			name := s.name.At(blocks)
			if rest[0].begins() {
				name = s.name.By(rest[0].ID)
			} else {
				blocks++
			}
			block := d.chain(name, lines)
			for _, f := range nft.Families {
				if spans := union(rest[:n], side, f); len(spans) > 0 {
					c.Rules = append(c.Rules, nft.Rule{Exprs: []nft.Expr{nft.Addr(side, spans), nft.Jump(block)}})
				}
			}
		}
		rest = rest[n:]
	}
	d.chains = append(d.chains, c)
}

// run is how many of the next rules can stand behind one gate, and the side that it asks about: the one with fewer
// addresses. A rule that can stand behind none is a run of one.
func run(rules []rendered) (n int, side nft.Side) {
	from, to := true, true
	for n < min(len(rules), blockRules) && (n < blockWorth || !rules[n].begins()) {
		a, b := from && rules[n].From.fixed(), to && rules[n].To.fixed()
		if !a && !b {
			break
		}
		from, to = a, b
		n++
	}
	if from && (!to || extent(rules[:n], nft.From) <= extent(rules[:n], nft.To)) {
		return max(n, 1), nft.From
	}
	return max(n, 1), nft.To
}

// begins tells whether a rule begins a block, when it can.
func (r *rendered) begins() bool { return r.ID[15]%blockEnds == 0 }

// fixed tells whether the addresses are some, and the same for as long as the table is.
func (a *Addresses) fixed() bool { return !a.Any && a.Set[nft.V4].IsZero() && a.Set[nft.V6].IsZero() }

// union are the addresses that rules have on a side.
func union(rules []rendered, s nft.Side, f nft.Family) []nft.Span {
	var all []nft.Span
	for _, r := range rules {
		a := &r.From
		if s == nft.To {
			a = &r.To
		}
		all = append(all, a.Spans[f]...)
	}
	return merge(all)
}

// extent is how much of each family's addresses rules have on a side.
func extent(rules []rendered, s nft.Side) (sum float64) {
	for _, f := range nft.Families {
		for _, span := range union(rules, s, f) {
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
