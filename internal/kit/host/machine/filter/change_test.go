package filter

import (
	"errors"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/parts"
)

// ownFile is a table in the form that the gateway writes.
const ownFile = `table inet gateway
delete table inet gateway
table inet gateway {
	set group_4 {
		type ipv4_addr
		flags interval
		elements = { 192.0.2.0/24, 198.51.100.7 }
	}
	chain seg/lan/wan/0 {
	 ip saddr @group_4 counter accept comment "gid:` + ruleA + `"
	 ip saddr 10.0.0.1 counter drop comment "gid:` + ruleB + `"
	}
	chain input {
		type filter hook input priority filter; policy drop;
	 ct state established,related accept comment "auto:established"
	 jump seg/lan/wan/0
	}
}
`

func ownTableFile(text string) host.File {
	return host.File{Place: nftables.Table, Content: []byte(text)}
}

// loadOwn loads ownFile without nft.
func loadOwn(t testing.TB, s machine) (generation uint32) {
	t.Helper()
	generation, err := s.FilterLoad(t.Context(), ownTableFile(ownFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nftRun(t, "flush", "ruleset") })
	return generation
}

func generation(t testing.TB, s machine) uint32 {
	t.Helper()
	state, err := s.FilterState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state.Generation
}

// FilterLoad creates the same table as nft, and returns the new generation.
func TestFilterLoad(t *testing.T) {
	s := at("")
	for range 2 { // first without a table, then with one
		if got := loadOwn(t, s); got != generation(t, s) {
			t.Errorf("generation %d instead of %d", got, generation(t, s))
		}
	}
	want, err := s.FilterDigestOf(t.Context(), ownTableFile(ownFile))
	if err != nil || digest(t, s) != want {
		t.Errorf("%v: nft creates another table from the file", err)
	}
	nftRun(t, "add table ip foreign")
	loadOwn(t, s)
	if list := nftRun(t, "list tables"); !strings.Contains(list, "table ip foreign") {
		t.Errorf("the foreign table is gone: %s", list)
	}
}

func split(t *testing.T, text string) parts.Text {
	t.Helper()
	p, err := nft.Split("gateway", text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A change affects only what it names, and returns the counters of the removed rules.
func TestFilterChange(t *testing.T) {
	s := at("")
	loadOwn(t, s)
	next := strings.NewReplacer(
		"192.0.2.0/24, 198.51.100.7", "203.0.113.9",
		"ip saddr 10.0.0.1 counter drop", "tcp dport { 22, 80-90 } counter reject",
		"jump seg/lan/wan/0\n", "iifname vmap { \"lan0\" : goto other }\n\t goto seg/lan/wan/0\n",
		"\tchain input", "\tchain other {\n\t accept\n\t}\n\tchain input",
	).Replace(ownFile)
	change, ok := nft.Difference(split(t, ownFile), split(t, next))
	if !ok {
		t.Fatal("no difference")
	}
	// One of the removed rules has counted packets.
	nftRun(t, "add rule inet gateway seg/lan/wan/0 counter packets 5 bytes 50 accept comment \"gid:"+ruleC+"\"")
	change.Edits[0].Rules++
	change.Edits[0].Remove = append(change.Edits[0].Remove, 2)
	change.Generation = generation(t, s)
	removed, err := s.FilterChange(t.Context(), change)
	if err != nil || generation(t, s) != change.Generation+1 {
		t.Fatalf("%v, generation %d after %d", err, generation(t, s), change.Generation)
	}
	if len(removed) != 2 || removed[0] != (host.FilterCounter{Tag: ruleB}) ||
		removed[1] != (host.FilterCounter{Tag: ruleC, Packets: 5, Bytes: 50}) {
		t.Errorf("removed: %+v", removed)
	}
	want, err := s.FilterDigestOf(t.Context(), ownTableFile(next))
	if err != nil || digest(t, s) != want {
		t.Errorf("%v: the table is not the next one\n%s", err, nftRun(t, "list", "table", "inet", "gateway"))
	}
	// The change back removes a chain.
	change, _ = nft.Difference(split(t, next), split(t, ownFile))
	change.Generation = generation(t, s)
	if _, err := s.FilterChange(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if want, err = s.FilterDigestOf(t.Context(), ownTableFile(ownFile)); err != nil || digest(t, s) != want {
		t.Errorf("%v: the change back does not restore the table", err)
	}
}

// A change for another state than the current one is refused.
func TestOutdatedFilterChange(t *testing.T) {
	s := at("")
	loadOwn(t, s)
	add := func(rules int) nft.Change {
		edit := nft.Edit{Chain: "input", Rules: rules, Add: []nft.Addition{{Before: rules, Rule: "accept"}}}
		return nft.Change{Generation: generation(t, s), Edits: []nft.Edit{edit}}
	}
	late := add(2)
	nftRun(t, "add table ip foreign")
	before := digest(t, s)
	if _, err := s.FilterChange(t.Context(), late); !errors.Is(err, host.ErrFilterMoved) {
		t.Errorf("after a change by another program: %v", err)
	}
	for name, c := range map[string]nft.Change{
		"too many rules": add(3), "too few rules": add(1),
		"no such chain":  {Generation: generation(t, s), GoneChains: []string{"nothing"}},
		"a chain in use": {Generation: generation(t, s), GoneChains: []string{"seg/lan/wan/0"}},
		"no such rule":   {Generation: generation(t, s), Edits: []nft.Edit{{Chain: "input", Rules: 2, Remove: []int{2}}}},
		"before no rule": {
			Generation: generation(t, s), Edits: []nft.Edit{{Chain: "input", Rules: 2, Add: []nft.Addition{{Before: -1, Rule: "accept"}}}},
		},
	} {
		if _, err := s.FilterChange(t.Context(), c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if digest(t, s) != before {
		t.Error("the table was changed")
	}
}

// The client may be compromised: only what the gateway's own tables use is passed to the kernel, and nothing about other tables.
func TestFilterRefusesForeignText(t *testing.T) {
	s := at("")
	loadOwn(t, s)
	nftRun(t, "add table inet other; add chain inet other c")
	was := generation(t, s)
	for _, file := range []string{
		"", "flush ruleset\n", "nonsense", ownFile + "flush ruleset\n", ownFile + "table inet other {\n}\n", "flush ruleset\n" + ownFile,
		strings.ReplaceAll(ownFile, "gateway", "other"), strings.Replace(ownFile, "delete table inet gateway", "delete table inet other", 1),
		strings.Replace(ownFile, "\tchain input", "\tinclude \"/etc/shadow\"\n\tchain input", 1),
		strings.Replace(ownFile, "hook input priority filter; policy drop;", "hook input priority -400; policy accept;", 1),
		strings.Replace(ownFile, "flags interval", "flags dynamic", 1), ownFile[:len(ownFile)/2],
	} {
		if _, err := s.FilterLoad(t.Context(), ownTableFile(file)); err == nil {
			t.Errorf("loaded:\n%s", file)
		}
	}
	for _, rule := range []string{
		"queue num 1", "xt match state", "meta skuid 0 accept", "add @group_4 { ip saddr }", "tproxy to :80", "dup to 192.0.2.1",
		"ip saddr != 10.0.0.1 accept", "notrack", "log prefix \"x\" group 1", "log prefix \"x\" level emerg", "ct helper set \"ftp\"",
		"counter packets 7 bytes 9", "limit rate 1/day burst 5 packets", "jump ../input", "jump Input", "goto", "ip saddr @other/../x;",
		"ip saddr {", "ip saddr { }", "ip saddr { 10.0.0.2, 10.0.0.1 }", "ip saddr { 10.0.0.0/8, 10.1.0.0/16 }", "ip saddr 10.0.0.1/8",
		"ip saddr ::1", "ip6 saddr ::ffff:10.0.0.1/100", "ip saddr 10.0.0.9-10.0.0.1", "ip saddr fe80::1%lo", "tcp dport 65536",
		"tcp dport 9-1", "tcp dport 007", "tcp sport 1", "meta mark set 0x1", "meta mark set -1", "iifname \"a/b\"", "iifname \"eth0",
		"iifname eth0", "iifname \"" + strings.Repeat("x", 16) + "\"", "comment \"" + strings.Repeat("x", 200) + "\"", "comment \"a\"b\"",
		"dnat ip to ::1", "dnat ip6 to [::1]80", "dnat ip to 10.0.0.1:0x50", "snat to 10.0.0.1", "accept\nflush ruleset",
		"accept; flush ruleset", "accept # x", "accept\x00", strings.Repeat("counter ", 4000),
	} {
		c := nft.Change{Generation: was, Edits: []nft.Edit{{Chain: "input", Rules: 2, Add: []nft.Addition{{Before: 2, Rule: rule}}}}}
		if _, err := s.FilterChange(t.Context(), c); err == nil {
			t.Errorf("accepted: %.100q", rule)
		}
	}
	for name, c := range map[string]nft.Change{
		"a set of another type": {NewSets: []nft.ListedSet{{Name: "x", Type: "ifname"}}},
		"a set without a name":  {NewSets: []nft.ListedSet{{Type: "ipv4_addr"}}},
		"an element twice":      {Refills: []nft.Refill{{Name: "group_4", Type: "ipv4_addr", Add: "10.0.0.1, 10.0.0.1"}}},
		"another kind":          {Refills: []nft.Refill{{Name: "group_4", Type: "ipv6_addr", Add: "::1"}}},
		"a chain's name":        {NewChains: []nft.ListedChain{{Name: "a b"}}},
		"no name":               {GoneChains: []string{""}},
		"a name with a NUL":     {GoneSets: []string{"group_4\x00"}},
		"a long name":           {NewChains: []nft.ListedChain{{Name: strings.Repeat("x", 5000)}}},
	} {
		c.Generation = was
		if _, err := s.FilterChange(t.Context(), c); err == nil {
			t.Errorf("accepted: %s", name)
		}
	}
	if generation(t, s) != was {
		t.Error("the packet filter was changed")
	}
}
