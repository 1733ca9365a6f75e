package firewall

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	helperguard "edge.internal/gateway/internal/kit/host/helper/guard"
	"edge.internal/gateway/internal/kit/host/hosttest"
	"edge.internal/gateway/internal/kit/host/machine/filter/nfnl"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/parts"
	"edge.internal/gateway/internal/kit/value"
)

// rendering returns the file of a configuration.
func rendering(t testing.TB, c Config) string {
	t.Helper()
	files, err := Render(c)
	if err != nil {
		t.Fatal(err)
	}
	text := string(files[0].Content)
	if split := split(t, text); split.Sum() != files[0].Parts.Sum() {
		t.Fatalf("%s\nhas other parts when it is read: %v", text, split)
	}
	return text
}

func split(t testing.TB, text string) parts.Text {
	t.Helper()
	p, err := nft.Split(tableName, text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// listed returns the table as nft lists it, without handles, and with chains and sets sorted.
func listed(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("nft", "-j", "list", "table", "inet", "gateway").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Nftables []json.RawMessage }
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	var names []string
	for _, raw := range list.Nftables {
		var x struct {
			Chain, Set *struct{ Name string }
			Rule       *struct{ Chain string }
		}
		if err := json.Unmarshal(raw, &x); err != nil {
			t.Fatal(err)
		}
		name := ""
		switch {
		case x.Chain != nil:
			name = "chain " + x.Chain.Name
		case x.Set != nil:
			name = "set " + x.Set.Name
		case x.Rule != nil:
			name = "rules of " + x.Rule.Chain
		}
		if _, known := parts[name]; !known {
			names = append(names, name)
		}
		parts[name] += string(handles.ReplaceAll(raw, nil)) + "\n"
	}
	slices.Sort(names)
	var b strings.Builder
	for _, n := range names {
		b.WriteString(n + "\n" + parts[n])
	}
	return b.String()
}

var counts = regexp.MustCompile(`"packets": \d+, "bytes": \d+`)

var handles = regexp.MustCompile(`, "handle": \d+`)

// another replaces a rule by a copy.
func another(m *maker, c *Config) *Rule {
	at := m.IntN(len(c.Rules))
	r := *c.Rules[at]
	c.Rules[at] = &r
	return &r
}

// edits change a configuration the way operators do.
var edits = map[string]func(m *maker, c *Config){
	"rule is made": func(m *maker, c *Config) {
		c.Rules = slices.Insert(slices.Clone(c.Rules), m.IntN(len(c.Rules)+1), m.rule())
	},
	"rule is deleted": func(m *maker, c *Config) {
		at := m.IntN(len(c.Rules))
		c.Rules = slices.Delete(slices.Clone(c.Rules), at, at+1)
	},
	"rule is switched": func(m *maker, c *Config) {
		c.Rules = slices.Clone(c.Rules)
		r := another(m, c)
		r.Enabled = !r.Enabled
	},
	"rule is changed": func(m *maker, c *Config) {
		c.Rules = slices.Clone(c.Rules)
		r := another(m, c)
		r.Action, r.Log = pick(m, "accept", "drop", "reject"), !r.Log
	},
	"rule moves": func(m *maker, c *Config) {
		from := m.IntN(len(c.Rules))
		moved := c.Rules[from]
		c.Rules = slices.Delete(slices.Clone(c.Rules), from, from+1)
		c.Rules = slices.Insert(c.Rules, m.IntN(len(c.Rules)+1), moved)
	},
	"run of rules comes": func(m *maker, c *Config) {
		c.Rules = slices.Insert(slices.Clone(c.Rules), m.IntN(len(c.Rules)+1), m.run()...)
	},
	"object is another": func(m *maker, c *Config) {
		c.Addresses = slices.Clone(c.Addresses)
		at := m.IntN(len(c.Addresses))
		o := m.object()
		o.ID = c.Addresses[at].ID
		c.Addresses[at] = o
	},
	"name resolves to something else": func(m *maker, c *Config) {
		c.Addresses = slices.Clone(c.Addresses)
		for i := range c.Addresses {
			if c.Addresses[i].Kind == kindFQDN {
				c.Addresses[i].Resolved = []value.Addr{value.Must[value.Addr](m.address(m.family()).String())}
			}
		}
	},
	"group has other members": func(m *maker, c *Config) {
		c.AddressGroups = slices.Clone(c.AddressGroups)
		c.AddressGroups[m.IntN(len(c.AddressGroups))].Members = m.members(6, len(c.Addresses), func(i int) uuid.UUID { return c.Addresses[i].ID })
	},
	"service is another": func(m *maker, c *Config) {
		c.Services = slices.Clone(c.Services)
		at := m.IntN(len(c.Services))
		s := m.service()
		s.ID = c.Services[at].ID
		c.Services[at] = s
	},
	"NAT rule is made":    func(m *maker, c *Config) { c.NAT = append(slices.Clone(c.NAT), m.natRule()) },
	"NAT rule is deleted": func(m *maker, c *Config) { c.NAT = c.NAT[min(1, len(c.NAT)):] },
	"interface changes its zone": func(m *maker, c *Config) {
		zones := map[value.Zone][]value.IfName{}
		for zone, links := range c.Interfaces {
			for _, l := range links {
				if m.chance(30) {
					zone = pick(m, zoneNames...)
				}
				zones[zone] = append(zones[zone], l)
			}
		}
		c.Interfaces = zones
	},
	"service of the gateway opens": func(m *maker, c *Config) { c.Openings = append(slices.Clone(c.Openings), m.opening()) },
	"tunnels change":               func(m *maker, c *Config) { c.Tunnels = append(c.Tunnels[:0:0], m.tunnel()) },
	"everything through a tunnel": func(m *maker, c *Config) {
		if c.Defaults == nil {
			c.Defaults = []value.IfName{m.tunnel().Interface}
		} else {
			c.Defaults = nil
		}
	},
	"peer comes": func(m *maker, c *Config) { c.Peers = append(slices.Clone(c.Peers), m.address(m.family())) },
}

// counting starts every counter of a tagged rule at its own number.
func counting(text string) (string, map[string]uint64) {
	want := map[string]uint64{}
	n := uint64(0)
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if _, tag, ok := strings.Cut(line, `comment "gid:`); ok && strings.Contains(line, " counter ") {
			n += 7
			tag, _, _ = strings.Cut(tag, `"`)
			want[tag] += n
			lines[i] = strings.Replace(line, " counter ", fmt.Sprintf(" counter packets %d bytes %d ", n, 10*n), 1)
		}
	}
	return strings.Join(lines, ""), want
}

// The kernel gets the same table from us as from nft, whether loaded whole or changed step by step, and no rule loses its counts: it
// keeps counting, or its counts are handed over.
func TestKernelIsToldWhatNftWouldTell(t *testing.T) {
	seed, rulesets := number(t, "GATEWAY_FUZZ_SEED", uint64(time.Now().UnixNano())), longtest.Number(t, "GATEWAY_FUZZ_TABLES", 12, 40)
	t.Logf("GATEWAY_FUZZ_SEED=%d GATEWAY_FUZZ_TABLES=%d", seed, rulesets)
	w := paper(t)
	var s nfnl.Socket
	t.Cleanup(func() {
		s.Close()
		_ = exec.Command("nft", "delete", "table", "inet", tableName).Run()
	})
	digest := func() string {
		t.Helper()
		d, err := s.Digest(t.Context(), tableName)
		if err != nil || d == "" {
			t.Fatalf("%q %v", d, err)
		}
		return d
	}
	names := slices.Sorted(maps.Keys(edits))
	seen, small := coverage{}, 0
	for i := range rulesets {
		m := &maker{Rand: rand.New(rand.NewPCG(seed, uint64(i))), w: w}
		c := m.config()
		drawn := draw(c, nil)
		text := rendering(t, c)
		if _, err := s.Load(t.Context(), tableName, text); err != nil {
			t.Fatalf("seed %d, ruleset %d: %v\n%s", seed, i, err, text)
		}
		ours, oursListed := digest(), listed(t)
		counted, want := counting(text)
		if err := loadText(counted); err != nil {
			t.Fatal(err)
		}
		if digest() != ours || zeroed(listed(t)) != oursListed {
			t.Fatalf("seed %d, ruleset %d: nft makes another table of it\n%s\nours: %s\nnft's: %s", seed, i, text, oursListed, listed(t))
		}
		// Removed counts, by tag.
		gone := map[string]uint64{}
		for range 8 {
			name := names[m.IntN(len(names))]
			m.c = c
			edits[name](m, &c)
			now := draw(c, drawn)
			next := string(now.text.Bytes())
			change, ok := nft.Difference(drawn.text, now.text)
			if !ok {
				t.Fatalf("seed %d, ruleset %d: %s is too much", seed, i, name)
			}
			state, err := s.ReadState(t.Context(), tableName)
			if err != nil {
				t.Fatal(err)
			}
			change.Generation = state.Generation
			removed, err := s.Change(t.Context(), tableName, ruleTag, &change)
			if err != nil {
				t.Fatalf("seed %d, ruleset %d, %s: %v\n%s\n%s", seed, i, name, err, text, next)
			}
			for _, r := range removed {
				gone[r.Tag] += r.Packets
			}
			if len(removed) <= 2 {
				small++
			}
			seen[name]++
			text, drawn = next, now
		}
		text = rendering(t, c)
		read, err := s.ReadCounters(t.Context(), tableName, ruleTag)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range read.List {
			gone[r.Tag] += r.Packets
		}
		for id, n := range want {
			if gone[id] != n {
				t.Fatalf("seed %d, ruleset %d: rule %s had counted %d, and now that is %d", seed, i, id, n, gone[id])
			}
		}
		stepped, steppedListed := digest(), zeroed(listed(t))
		if err := loadText(text); err != nil {
			t.Fatal(err)
		}
		if digest() != stepped || listed(t) != steppedListed {
			t.Fatalf("seed %d, ruleset %d: step by step it becomes another table\n%s\nstep by step: %s\nat once: %s", seed, i, text, steppedListed, listed(t))
		}
	}
	for _, name := range names {
		t.Logf("%4d %s", seen[name], name)
		if seen[name] == 0 && rulesets >= 40 {
			t.Errorf("never: %s", name)
		}
	}
	t.Logf("%d of %d changes took away the counters of two rules at the most", small, 8*rulesets)
	if rulesets >= 40 && small < 8*rulesets/3 {
		t.Error("most changes take counters away")
	}
}

// ruleTag is the prefix of the comments of counted rules.
const ruleTag = "gid:"

// zeroed is a listing with all counters at zero.
func zeroed(listing string) string {
	return counts.ReplaceAllString(listing, `"packets": 0, "bytes": 0`)
}

// After each change, a table derived from the previous one, and a file changed part by part, equal those made as a whole, and the helper
// accepts them.
func TestFileIsAmendedToTheSame(t *testing.T) {
	seed, rulesets := number(t, "GATEWAY_FUZZ_SEED", uint64(time.Now().UnixNano())), longtest.Number(t, "GATEWAY_FUZZ_TABLES", 12, 40)
	t.Logf("GATEWAY_FUZZ_SEED=%d GATEWAY_FUZZ_TABLES=%d", seed, rulesets)
	w := paper(t)
	names := slices.Sorted(maps.Keys(edits))
	whole, written := 0, 0
	for i := range rulesets {
		m := &maker{Rand: rand.New(rand.NewPCG(seed, uint64(i))), w: w}
		c := m.config()
		drawn := draw(c, nil)
		text := rendering(t, c)
		machine := helperguard.Around(hosttest.New())
		if err := machine.Install(nftables.Table, []byte(text)); err != nil {
			t.Fatal(err)
		}
		for range 25 {
			name := names[m.IntN(len(names))]
			m.c = c
			edits[name](m, &c)
			next, now := rendering(t, c), draw(c, drawn)
			change, ok := parts.Between(drawn.text, now.text)
			if !ok {
				t.Fatalf("seed %d, ruleset %d: %s takes another frame", seed, i, name)
			}
			if err := machine.Amend(nftables.Table, change); err != nil {
				t.Fatalf("seed %d, ruleset %d, %s: %v", seed, i, name, err)
			}
			if got, err := machine.Read(nftables.Table); err != nil || string(got) != next {
				t.Fatalf("seed %d, ruleset %d, %s: %v\n%s\ninstead of\n%s", seed, i, name, err, got, next)
			}
			for _, a := range change.Add {
				written += len(a.Text)
			}
			whole += len(next)
			drawn = now
		}
	}
	t.Logf("%d bytes were sent for %d", written, whole)
}
