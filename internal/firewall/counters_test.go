package firewall_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"edge.internal/gateway/internal/firewall"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/waittest"
)

// counts returns the counters by rule.
func (o *office) counts(t testing.TB) map[string]firewall.Count {
	t.Helper()
	var list []firewall.Count
	// Requests within a moment share one answer.
	time.Sleep(300 * time.Millisecond)
	o.Do(t, "viewer", http.MethodGet, "/firewall/counters", nil).Want(t, 200).Into(t, &list)
	byID := map[string]firewall.Count{}
	for _, c := range list {
		byID[c.RuleID.String()] = c
	}
	if len(byID) != len(list) {
		t.Errorf("a rule is there twice: %+v", list)
	}
	return byID
}

func (o *office) count(table string, counts ...any) {
	var list []host.FilterCounter
	for i := 0; i < len(counts); i += 2 {
		n := uint64(counts[i+1].(int))
		list = append(list, host.FilterCounter{Tag: counts[i].(string), Packets: n, Bytes: 10 * n})
	}
	o.Machine.SetCounters(table, list...)
}

func TestCountersAreShared(t *testing.T) {
	o := newOffice(t)
	asked := o.Machine.Asked("counters")
	for range 5 {
		o.Do(t, "viewer", http.MethodGet, "/firewall/counters", nil).Want(t, 200)
	}
	if n := o.Machine.Asked("counters") - asked; n > 2 {
		t.Errorf("the kernel was asked %d times", n)
	}
}

// TestTotalsAddUp checks that the totals of rules and NAT rules survive every table and every process, to the packet, and that the counts
// since the last apply are listed beside them.
func TestTotalsAddUp(t *testing.T) {
	o := newOffice(t)
	rule := o.make(t, "/firewall/rules", map[string]any{"name": "rule", "action": "accept"})
	nat := o.make(t, "/nat-rules", map[string]any{"name": "nat", "kind": "masquerade", "in_zone": "any", "out_zone": "wan", "protocol": "any"})
	off := o.make(t, "/firewall/rules", map[string]any{"name": "off", "action": "accept", "enabled": false})
	want := func(id string, packets, total int64) {
		t.Helper()
		c, listed := o.counts(t)[id]
		if !listed || c.Packets != packets || c.Bytes != 10*packets || c.TotalPackets != total || c.TotalBytes != 10*total || c.Error != "" {
			t.Errorf("%t %+v, and not %d and %d", listed, c, packets, total)
		}
	}
	o.count("one", rule, 5, nat, 3)
	want(rule, 5, 5)
	want(nat, 3, 3)
	want(off, 0, 0)
	if err := o.room.SampleHits(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.count("one", rule, 7, nat, 3)
	want(rule, 7, 7)
	// Another table, which has counted more by the next read.
	o.count("two", rule, 9, nat, 1)
	want(rule, 9, 16)
	want(nat, 1, 4)

	// Another process, which knows only what this one has stored. It finds the same table with higher counts.
	if err := o.room.SampleHits(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.count("two", rule, 10, nat, 1)
	o.room.ForgetHits()
	want(rule, 10, 17)
	want(nat, 1, 4)
	// Another process, which finds a table that nobody has read.
	if err := o.room.SampleHits(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.count("three", rule, 2)
	o.room.ForgetHits()
	want(rule, 2, 19)
	want(nat, 0, 4)

	// A rule that is off keeps its totals.
	o.Do(t, "admin", http.MethodPut, "/firewall/rules/"+rule, map[string]any{"enabled": false}).Want(t, 200)
	o.count("four")
	want(rule, 0, 19)
}

// TestTotalsWithoutTheKernel checks that missing kernel counters are reported as missing, and the totals are still there.
func TestTotalsWithoutTheKernel(t *testing.T) {
	o := newOffice(t)
	rule := o.make(t, "/firewall/rules", map[string]any{"name": "rule", "action": "accept"})
	o.count("one", rule, 5)
	o.counts(t)
	o.Machine.FailFilter(errors.New("no netlink today"))
	got := o.counts(t)
	if c := got[rule]; c.Packets != 0 || c.Bytes != 0 || c.TotalPackets != 5 || c.TotalBytes != 50 || c.Error != "The firewall's counters cannot be read." {
		t.Errorf("%+v", c)
	}
	if len(got) != 2 { // including the default one
		t.Errorf("%+v", got)
	}
}

func TestCountersAreReset(t *testing.T) {
	o := newOffice(t)
	one := o.make(t, "/firewall/rules", map[string]any{"name": "one", "action": "accept"})
	two := o.make(t, "/firewall/rules", map[string]any{"name": "two", "action": "accept"})
	o.count("one", one, 5, two, 6)
	totals := func(wantOne, wantTwo int64) {
		t.Helper()
		if got := o.counts(t); got[one].TotalPackets != wantOne || got[two].TotalPackets != wantTwo || got[one].Packets < 5 {
			t.Errorf("%+v %+v", got[one], got[two])
		}
	}
	totals(5, 6)
	o.Do(t, "viewer", http.MethodPost, "/firewall/counters/reset", map[string]any{}).Want(t, 403)
	o.Do(t, "admin", http.MethodPost, "/firewall/counters/reset", map[string]any{"rule_id": one}).Want(t, 200)
	totals(0, 6)
	o.count("one", one, 8, two, 6)
	totals(3, 6)
	if err := o.room.SampleHits(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.Do(t, "admin", http.MethodPost, "/firewall/counters/reset", nil).Want(t, 200)
	totals(0, 0)
	o.room.ForgetHits()
	totals(0, 0)
	if n := o.Audited(t, "firewall.counters.reset"); n != 2 {
		t.Errorf("%d entries", n)
	}
	o.Do(t, "admin", http.MethodPost, "/firewall/counters/reset", map[string]any{"rule_id": "01890000-0000-7000-8000-00000000000a"}).Want(t, 404)
}

// TestHitsOfDeletedRulesAreForgotten checks that neither the table nor the process keeps the totals of deleted rules.
func TestHitsOfDeletedRulesAreForgotten(t *testing.T) {
	o := newOffice(t)
	for i := range 20 {
		id := o.make(t, "/firewall/rules", map[string]any{"name": "short-lived", "action": "accept"})
		table := "the same"
		if i%2 == 0 {
			table = id
		}
		o.count(table, id, 5)
		if err := o.room.SampleHits(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.Do(t, "admin", http.MethodDelete, "/firewall/rules/"+id, nil).Want(t, 200)
	}
	o.count("the same")
	for range 2 {
		if err := o.room.SampleHits(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if rows, known := o.Rows(t, "firewall_rule_hits"), o.room.KnownHits(); rows != 0 || known != 0 {
		t.Errorf("%d rows, %d in memory", rows, known)
	}
}

// TestHitsAreCountedUntilTheTableIsReplaced checks that packets counted by the old table while nft works are not lost.
func TestHitsAreCountedUntilTheTableIsReplaced(t *testing.T) {
	o := newOffice(t)
	rule := o.make(t, "/firewall/rules", map[string]any{"name": "rule", "action": "accept"})
	o.count("one", rule, 5)
	o.counts(t)
	o.Machine.Script(nftables.Load, func(ctx context.Context, in host.Input) (host.Output, error) {
		o.count("one", rule, 100)
		asked := o.Machine.Asked("counters")
		waittest.Until(t, "the old table is read once more", func() bool { return o.Machine.Asked("counters") > asked+1 })
		o.count("two", rule, 0)
		return o.Machine.Load(ctx, in)
	})
	o.make(t, "/firewall/rules", map[string]any{"name": "another", "action": "accept"})
	if c := o.counts(t)[rule]; c.Packets != 0 || c.TotalPackets != 100 {
		t.Errorf("%+v", c)
	}
}

// TestRulesGoOnCounting checks that a change edits the kernel's table instead of replacing it, so that all other rules keep counting, and
// that no packet of a changed rule is lost.
func TestRulesGoOnCounting(t *testing.T) {
	h := newHouse(t)
	table := func() string {
		t.Helper()
		c, err := h.Host.FilterCounters(t.Context())
		if err != nil || c.Table == "" {
			t.Fatalf("%+v, %v", c, err)
		}
		return c.Table
	}
	// Each new flow over the loopback passes the NAT rules once.
	flow := func(n int) {
		t.Helper()
		for range n {
			conn, err := net.Dial("udp", "127.0.0.1:9")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
	}
	nat := h.create(t, "/nat-rules", map[string]any{"name": "counted", "kind": "snat", "in_zone": "any", "out_zone": "any", "protocol": "udp", "target_address": "127.0.0.1"})
	counted := func(what string, packets, total int64) {
		t.Helper()
		time.Sleep(300 * time.Millisecond) // requests within a moment share one answer
		var list []firewall.Count
		h.Get(t, "/firewall/counters").Into(t, &list)
		for _, c := range list {
			if c.RuleID.String() == nat && (c.Packets != packets || c.TotalPackets != total) {
				t.Errorf("%s: %+v, and not %d and %d", what, c, packets, total)
			}
		}
	}
	live := func(method, path string, body any) {
		t.Helper()
		if a := h.Do(t, "admin", method, path, body).Want(t, 200); a.Header.Get("Gateway-Apply") != "packet-filter=live" {
			t.Errorf("%s %s: %s", method, path, a.Header.Get("Gateway-Apply"))
		}
	}
	first := table()
	flow(3)
	counted("at first", 3, 3)

	object := h.create(t, "/firewall/address-objects", map[string]any{"name": "host", "kind": "host", "value": "10.0.0.5"})
	group := h.create(t, "/firewall/address-groups", map[string]any{"name": "group", "members": []string{object}})
	one := h.rule(t, map[string]any{"name": "one", "src_zone": "lan", "dst_zone": "wan"})
	two := h.rule(t, map[string]any{"name": "two", "src_zone": "lan", "src_kind": "group", "src_group_id": group})
	live(http.MethodPut, "/firewall/address-objects/"+object, map[string]any{"value": "10.0.0.6"})
	live(http.MethodPut, "/firewall/rules/"+one, map[string]any{"enabled": false})
	live(http.MethodPut, "/firewall/rules/"+one, map[string]any{"enabled": true, "action": "drop"})
	live(http.MethodPost, "/firewall/rules/"+two+"/move", map[string]any{"after": nil})
	live(http.MethodDelete, "/firewall/rules/"+one, nil)
	flow(2)
	counted("after changes of others", 5, 5)

	live(http.MethodPut, "/nat-rules/"+nat, map[string]any{"src_cidr": "127.0.0.0/8"})
	counted("after a change of its own", 0, 5)
	flow(4)
	counted("as the rule that it is now", 4, 9)
	if table() != first {
		t.Error("the table was replaced")
	}
	live(http.MethodPut, "/nat-rules/"+nat, map[string]any{"enabled": false})
	counted("switched off", 0, 9)
}
