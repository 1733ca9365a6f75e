package firewall

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/value"
)

// A gate asks about the side that says more, no rule moves past another, and what a gate cannot know stands outside.
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
		rs.Rules = append(rs.Rules, Policy{ID: uuid.MustParse(fmt.Sprintf("00000000-0000-7000-8000-%012d", len(rs.Rules))), Src: lan, Dst: wan, From: from, To: to, Services: Services{Any: true}, Action: "drop"})
	}
	for i := range blockRules { // a full block: one network to many servers
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

	table := table(rs)
	text := string(table.Bytes())
	at := -1
	for _, part := range []string{
		"chain seg/0/0 {", "...000000000000\"", "...000000000031\"", "}",
		"chain seg/0/1 {", "...000000000032\"", "...000000000048\"", "}",
		"chain seg/0 {", "ip daddr { 192.0.2.0, 192.0.2.2, ", "192.0.2.62 } jump seg/0/0\n", "ip saddr 10.0.0.0/28 jump seg/0/1\n", "ip6 saddr 2001:db8::1 jump seg/0/1\n",
		"...000000000049\"", "...000000000050\"", "...000000000064\"", "}",
	} {
		part = strings.Replace(part, "...", "gid:00000000-0000-7000-8000-", 1)
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
