package firewall

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/parts"
	"edge.internal/gateway/internal/kit/value"
)

// A gate checks both sides where it can, the more selective one first; no rule moves past another, and parts that cannot be gated stay
// outside.
func TestGates(t *testing.T) {
	fixed := func(first, last string) (a Addresses) {
		span := nft.Span{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}
		a.Spans[nft.FamilyOf(span.First)] = []nft.Span{span}
		return a
	}
	lan, wan := value.Must[value.Zone]("lan"), value.Must[value.Zone]("wan")
	named := Addresses{Set: [2]nft.Name{nft.Named("group_4"), nft.Named("group_6")}}
	var rs Ruleset
	rs.Zones = []ZoneLinks{{lan, []value.IfName{value.Must[value.IfName]("lan0")}}, {wan, []value.IfName{value.Must[value.IfName]("wan0")}}}
	add := func(from, to Addresses) {
		rs.Rules = append(rs.Rules, &Policy{ID: uuid.MustParse(fmt.Sprintf("00000000-0000-7000-8000-%010d01", len(rs.Rules))), Src: lan, Dst: wan, From: from, To: to, Services: Services{Any: true}, Action: "drop"})
	}
	for i := range blockParts { // a full block: one network to many servers
		add(fixed("10.0.0.0", "10.0.255.255"), fixed(fmt.Sprintf("192.0.2.%d", 2*i), fmt.Sprintf("192.0.2.%d", 2*i)))
	}
	for i := range blockWorth { // of both families, from few
		add(fixed(fmt.Sprintf("10.0.0.%d", i), fmt.Sprintf("10.0.0.%d", i)), Addresses{Any: true})
	}
	add(fixed("2001:db8::1", "2001:db8::1"), Addresses{Any: true})
	add(named, named)
	for range blockWorth - 1 { // too few for a gate
		add(fixed("10.1.0.0", "10.1.0.255"), Addresses{Any: true})
	}

	table := table(rs, newDispatch(rs, nil))
	text := string(table.Parts().Bytes())
	at := -1
	for _, part := range []string{
		"set seg/lan/wan/0/0/to4 {", "{ 192.0.2.0, 192.0.2.2, ", "192.0.2.94 }",
		"chain seg/lan/wan/0/0 {", "...0000000000\"", "...0000000047\"", "}",
		"chain seg/lan/wan/0/1 {", "...0000000048\"", "...0000000064\"", "}",
		"chain seg/lan/wan/0 {", "ip daddr @seg/lan/wan/0/0/to4 ip saddr 10.0.0.0/16 jump seg/lan/wan/0/0\n", "ip saddr 10.0.0.0/28 jump seg/lan/wan/0/1\n", "ip6 saddr 2001:db8::1 jump seg/lan/wan/0/1\n",
		"...0000000065\"", "...0000000066\"", "...0000000080\"", "}",
	} {
		part = regexp.MustCompile(`^\.\.\.(\d+)`).ReplaceAllString(part, "gid:00000000-0000-7000-8000-${1}01")
		next := strings.Index(text[at+1:], part)
		if next < 0 {
			t.Fatalf("no %q after %q", part, text[max(0, at):])
		}
		at += 1 + next
	}
	for i := range rs.Rules {
		want := 1
		if rs.Rules[i].From.has(nft.V4) && rs.Rules[i].From.has(nft.V6) {
			want = 2
		}
		if n := strings.Count(text, rs.Rules[i].ID.String()); n != want {
			t.Errorf("rule %d stands %d times", i, n)
		}
	}
}

// Gates are nested, in a long segment and where rules for any zone cut segments short, so that a packet that matches nothing is checked
// little.
func TestManyGatesStandBehindAnother(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	lan, wan, dmz := value.Must[value.Zone]("lan"), value.Must[value.Zone]("wan"), value.Must[value.Zone]("dmz")
	rs := Ruleset{Zones: []ZoneLinks{
		{lan, []value.IfName{value.Must[value.IfName]("lan0")}}, {wan, []value.IfName{value.Must[value.IfName]("wan0")}}, {dmz, []value.IfName{value.Must[value.IfName]("dmz0")}},
	}}
	add := func(src, dst value.Zone) {
		p := &Policy{ID: uuid.UUID{0, 14: byte(chance.UintN(256)), 15: byte(chance.UintN(256))}, Src: src, Dst: dst, Services: Services{Any: true}, Action: "drop"}
		binary.BigEndian.PutUint32(p.ID[:], uint32(len(rs.Rules)))
		for _, a := range []*Addresses{&p.From, &p.To} {
			ip := netip.AddrFrom4([4]byte{10, byte(chance.UintN(256)), byte(chance.UintN(256)), byte(chance.UintN(256))})
			a.Spans[nft.V4] = []nft.Span{{First: ip, Last: ip}}
		}
		rs.Rules = append(rs.Rules, p)
	}
	for range 2000 {
		add(lan, wan)
	}
	for range 1000 {
		add(anywhere, anywhere)
		add(dmz, wan)
	}
	table := table(rs, newDispatch(rs, nil))
	for name, most := range map[string]int{"seg/lan/wan/0": blockWorth, "rules_fwd/dmz/wan": blockParts} {
		at := slices.IndexFunc(table.Chains, func(c *nft.Chain) bool { return c.Name.String() == name })
		if at < 0 {
			t.Fatalf("there is no chain %s", name)
		}
		if n := len(table.Chains[at].Rules); n >= most {
			t.Errorf("%s asks %d times", name, n)
		}
	}
}

// A rule added to many others, or removed, moves few of them to another chain.
func TestRulesNearAChangeMove(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	lan, wan := value.Must[value.Zone]("lan"), value.Must[value.Zone]("wan")
	policy := func() *Policy {
		var id uuid.UUID
		for i := range id {
			id[i] = byte(chance.UintN(256))
		}
		ip := netip.AddrFrom4([4]byte{10, id[0], id[1], id[2]})
		p := &Policy{ID: id, Src: lan, Dst: wan, To: Addresses{Any: true}, Services: Services{Any: true}, Action: "drop"}
		p.From.Spans[nft.V4] = []nft.Span{{First: ip, Last: ip}}
		return p
	}
	rs := Ruleset{Zones: []ZoneLinks{{lan, []value.IfName{value.Must[value.IfName]("lan0")}}, {wan, []value.IfName{value.Must[value.IfName]("wan0")}}}}
	for range 2000 {
		rs.Rules = append(rs.Rules, policy())
	}
	text := func() parts.Text { t := table(rs, newDispatch(rs, nil)); return t.Parts() }
	const edits = 200
	moved := 0
	was := text()
	for range edits {
		if at := chance.IntN(len(rs.Rules)); chance.IntN(2) == 0 {
			rs.Rules = slices.Insert(rs.Rules, at, policy())
		} else {
			rs.Rules = slices.Delete(rs.Rules, at, at+1)
		}
		now := text()
		change, ok := nft.Difference(was, now)
		if !ok {
			t.Fatal("all rules move")
		}
		for _, e := range change.Edits {
			moved += len(e.Add)
		}
		for _, c := range change.NewChains {
			moved += len(c.Rules())
		}
		was = now
	}
	if moved > 30*edits {
		t.Errorf("%d rules were written for %d edits", moved, edits)
	}
	t.Logf("%.1f rules were written for an edit", float64(moved)/edits)
}
