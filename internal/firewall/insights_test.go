package firewall_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/firewall"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
)

func (o *office) insights(t testing.TB, query string) firewall.Insights {
	t.Helper()
	var in firewall.Insights
	o.Do(t, "viewer", http.MethodGet, "/firewall/insights"+query, nil).Want(t, 200).Into(t, &in)
	return in
}

func ids[T any](list []T, id func(T) uuid.UUID) []string {
	found := []string{}
	for _, x := range list {
		found = append(found, id(x).String())
	}
	return found
}

func TestInsightsOfTheStoredRules(t *testing.T) {
	o := newOffice(t)
	rule := func(name string, more ...any) string {
		t.Helper()
		body := map[string]any{"name": name, "action": "accept", "src_zone": "lan", "dst_zone": "wan"}
		for i := 0; i < len(more); i += 2 {
			body[more[i].(string)] = more[i+1]
		}
		return o.make(t, "/firewall/rules", body)
	}
	empty := o.make(t, "/firewall/address-groups", map[string]any{"name": "nobody"})
	name := o.make(t, "/firewall/address-objects", map[string]any{"name": "cloud", "kind": "fqdn", "value": "cloud.example.net"})
	bundle := o.make(t, "/firewall/service-groups", map[string]any{"name": "nothing"})
	const web, dns, ping6 = "00000000-0000-7000-8000-000000000301", "00000000-0000-7000-8000-000000000304", "00000000-0000-7000-8000-000000000218"

	wide := rule("wide", "src_kind", "cidr", "src_cidr", "10.0.0.0/8", "service_group_id", web)
	narrow := rule("narrow", "src_kind", "cidr", "src_cidr", "10.1.0.0/16", "service_group_id", web, "action", "drop")
	rule("wider", "src_kind", "cidr", "src_cidr", "10.0.0.0/7", "service_group_id", web)
	rule("other service", "src_kind", "cidr", "src_cidr", "10.1.0.0/16", "service_group_id", dns)
	rule("other zone", "src_zone", "wan", "dst_zone", "lan", "src_kind", "cidr", "src_cidr", "10.1.0.0/16", "service_group_id", web)
	twin := rule("twin", "src_kind", "cidr", "src_cidr", "10.0.0.0/8", "service_group_id", web)
	rule("off", "src_kind", "cidr", "src_cidr", "10.1.0.0/16", "service_group_id", web, "enabled", false)
	nobody := rule("nobody", "dst_kind", "group", "dst_group_id", empty)
	unresolved := rule("unresolved", "src_kind", "object", "src_object_id", name)
	noService := rule("no service", "service_group_id", bundle)
	noZone := rule("no zone", "src_zone", "dmz")
	families := rule("families", "src_kind", "cidr", "src_cidr", "10.0.0.0/8", "service_object_id", ping6)
	mixed := o.make(t, "/nat-rules", map[string]any{"name": "mixed", "kind": "snat", "src_cidr": "10.0.0.0/8", "target_address": "2001:db8::1"})
	nowhere := o.make(t, "/nat-rules", map[string]any{"name": "nowhere", "kind": "masquerade", "out_zone": "dmz"})

	in := o.insights(t, "")
	shadowed := ids(in.Shadowed, func(s firewall.Shadowed) uuid.UUID { return s.ID })
	if want := []string{narrow, twin}; !slices.Equal(shadowed, want) {
		t.Errorf("shadowed: %+v", in.Shadowed)
	}
	for _, s := range in.Shadowed {
		if len(s.By) != 1 || s.By[0].ID.String() != wide || s.By[0].Name != "wide" || s.SameAction != (s.Name == "twin") {
			t.Errorf("%+v", s)
		}
	}
	if len(in.Duplicates) != 1 || !slices.Equal(ids(in.Duplicates[0].Rules, func(r firewall.RuleRef) uuid.UUID { return r.ID }), []string{wide, twin}) {
		t.Errorf("duplicates: %+v", in.Duplicates)
	}
	if len(in.Skipped) != 1 || in.Skipped[0].ID.String() != mixed || in.Skipped[0].Reason != "it mixes ipv4 and ipv6" {
		t.Errorf("skipped: %+v", in.Skipped)
	}
	reasons := map[string]string{
		nobody: "its destination is the group nobody, which has no members", unresolved: "its source is the object cloud, whose name cloud.example.net resolves to nothing now",
		noService: "the service group nothing has no members", noZone: "no interface is in zone dmz", nowhere: "no interface is in zone dmz",
		families: "its source, its destination and its service have no family of addresses in common",
	}
	for _, e := range in.Empty {
		if reasons[e.ID.String()] != e.Reason {
			t.Errorf("empty: %+v", e)
		}
		delete(reasons, e.ID.String())
	}
	if len(reasons) > 0 {
		t.Errorf("not empty: %v", reasons)
	}

	o.Do(t, "admin", http.MethodDelete, "/firewall/rules/"+wide, nil).Want(t, 200)
	if in := o.insights(t, ""); len(in.Duplicates) != 0 || !slices.Equal(ids(in.Shadowed, func(s firewall.Shadowed) uuid.UUID { return s.ID }), []string{twin}) {
		t.Errorf("an answer of yesterday: %+v", in)
	}
	for _, days := range []string{"-1", "3651", "x"} {
		o.Do(t, "viewer", http.MethodGet, "/firewall/insights?unused_days="+days, nil).WantField(t, "unused_days")
	}
}

func TestHitsAreCountedAcrossTables(t *testing.T) {
	now := clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	o := newOfficeAt(t, now)
	used := o.make(t, "/firewall/rules", map[string]any{"name": "used", "action": "accept"})
	idle := o.make(t, "/firewall/rules", map[string]any{"name": "idle", "action": "accept"})
	off := o.make(t, "/firewall/rules", map[string]any{"name": "off", "action": "accept"})
	const gone = "01890000-0000-7000-8000-00000000000a"
	table := "one"
	count := func(n uint64) {
		o.Machine.SetCounters(table, host.FilterCounter{Tag: used, Packets: n, Bytes: n * 100}, host.FilterCounter{Tag: idle}, host.FilterCounter{Tag: off}, host.FilterCounter{Tag: gone, Packets: n})
	}
	type row struct {
		packets, bytes int64
		last           *time.Time
	}
	stored := func(id string) (r row) {
		t.Helper()
		if err := o.DB.QueryRow(t.Context(), `SELECT packets, bytes, last_hit_at FROM firewall_rule_hits WHERE rule_id = $1`, id).Scan(&r.packets, &r.bytes, &r.last); err != nil {
			t.Fatal(err)
		}
		return r
	}
	sample := func() {
		t.Helper()
		if err := o.room.SampleHits(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	count(0)
	sample()
	if r := stored(used); r.packets != 0 || r.last != nil {
		t.Fatalf("%+v", r)
	}
	now.Move(time.Minute)
	count(7)
	sample()
	hit := now.Now()
	if r := stored(used); r.packets != 7 || r.bytes != 700 || !r.last.Equal(hit) {
		t.Fatalf("%+v", r)
	}
	if n := o.Rows(t, "firewall_rule_hits"); n != 3 {
		t.Errorf("%d rows", n)
	}
	now.Move(time.Minute)
	count(7)
	sample()
	if r := stored(used); r.packets != 7 || !r.last.Equal(hit) {
		t.Errorf("%+v", r)
	}

	// Another table: the counts of the old one are kept, and the new one begins at zero.
	now.Move(time.Minute)
	count(10)
	o.make(t, "/firewall/rules", map[string]any{"name": "new", "action": "accept"})
	table = "two"
	count(2000)
	sample()
	if r := stored(used); r.packets != 7+3+2000 {
		t.Errorf("%+v", r)
	}
	// A table that was reset by others, with its counters.
	table = "three"
	count(5)
	sample()
	if r := stored(used); r.packets != 7+3+2000+5 {
		t.Errorf("%+v", r)
	}
	if n := o.Audited(t, "firewall.rule.update"); n != 0 {
		t.Errorf("%d entries in the audit log", n)
	}

	o.Do(t, "admin", http.MethodPut, "/firewall/rules/"+off, map[string]any{"enabled": false}).Want(t, 200)
	if in := o.insights(t, ""); len(in.Unused) != 0 {
		t.Errorf("unused too early: %+v", in.Unused)
	}
	now.Move(31 * 24 * time.Hour)
	count(6)
	sample()
	in := o.insights(t, "")
	if len(in.Unused) != 1 || in.Unused[0].ID.String() != idle || in.Unused[0].LastHitAt != nil || in.Unused[0].Since.After(hit) {
		t.Errorf("unused: %+v", in.Unused)
	}
	now.Move(2 * 24 * time.Hour)
	if in := o.insights(t, "?unused_days=1"); len(in.Unused) != 2 || in.Unused[1].ID.String() != used || in.Unused[1].LastHitAt == nil {
		t.Errorf("unused: %+v", in.Unused)
	}
	if in := o.insights(t, "?unused_days=40"); len(in.Unused) != 0 {
		t.Errorf("unused: %+v", in.Unused)
	}
}

// lockRule calls do while a transaction holds a rule.
func (o *office) lockRule(ctx context.Context, id string, do func() error) error {
	return o.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM firewall_rules WHERE id = $1 FOR UPDATE`, id); err != nil {
			return err
		}
		return do()
	})
}

// The totals do not wait for transactions that hold rules, and no transaction waits for the totals.
func TestHitsDoNotWaitForTransactions(t *testing.T) {
	o := newOffice(t)
	busy := o.make(t, "/firewall/rules", map[string]any{"name": "busy", "action": "accept"})
	free := o.make(t, "/firewall/rules", map[string]any{"name": "free", "action": "accept"})
	o.Machine.SetCounters("one", host.FilterCounter{Tag: busy, Packets: 4, Bytes: 4}, host.FilterCounter{Tag: free, Packets: 2, Bytes: 2})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := o.lockRule(ctx, busy, func() error { return o.room.SampleHits(ctx) })
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	if err := o.DB.QueryRow(t.Context(), `SELECT coalesce(sum(packets), 0) FROM firewall_rule_hits`).Scan(&n); err != nil || n != 6 {
		t.Fatalf("%d packets while a rule is held, %v", n, err)
	}
}

// TestWideOpenRules checks that rules which let everyone outside reach something inside are reported.
func TestWideOpenRules(t *testing.T) {
	o := newOffice(t)
	rule := func(name, from, to string, more ...any) {
		body := map[string]any{"name": name, "src_zone": from, "dst_zone": to, "action": "accept"}
		for i := 0; i < len(more); i += 2 {
			body[more[i].(string)] = more[i+1]
		}
		o.make(t, "/firewall/rules", body)
	}
	rule("everything", "any", "any")
	rule("wan to lan", "wan", "lan")
	rule("any to lan, one machine", "any", "lan", "dst_kind", "cidr", "dst_cidr", "10.1.0.9/32")
	rule("from one network", "wan", "lan", "src_kind", "cidr", "src_cidr", "198.51.100.0/24")
	rule("lan to wan", "lan", "wan")
	rule("wan to the gateway", "wan", "self")
	rule("dropped", "wan", "lan", "action", "drop")
	rule("off", "wan", "lan", "enabled", false)
	var names []string
	for _, w := range o.insights(t, "").WideOpen {
		names = append(names, w.Name+": "+w.SrcZone.String()+" to "+w.DstZone.String())
	}
	want := []string{"everything: any to any", "wan to lan: wan to lan", "any to lan, one machine: any to lan"}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}
