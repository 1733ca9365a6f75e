package firewall_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/firewall"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// office is the room on a machine in memory, with a network defined by the test.
type office struct {
	*kittest.Bench
	room      *firewall.Room
	ways      map[string]firewall.Way // by destination
	wayErr    error
	addresses func(q db.Querier) []netip.Addr
	carrier   func(q db.Querier, a netip.Addr) policy.Carrier
	detour    firewall.Detour
}

func newOffice(t *testing.T) *office { return newOfficeAt(t, clock.Real) }

func newOfficeAt(t *testing.T, now clock.Clock) *office {
	t.Helper()
	o := &office{Bench: kittest.New(t), ways: map[string]firewall.Way{
		"192.0.2.1": {Local: true}, "10.1.0.1": {Local: true},
		"10.1.0.9":     {Interface: "lan0", Source: netip.MustParseAddr("10.1.0.1")},
		"198.51.100.7": {Interface: "wan0", Source: netip.MustParseAddr("192.0.2.1")},
		"172.16.0.1":   {Reason: "there is no route"},
	}}
	o.Kit.Clock = now
	o.addresses = func(db.Querier) []netip.Addr {
		return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.1.0.1")}
	}
	o.carrier = func(db.Querier, netip.Addr) policy.Carrier { return policy.Carrier{} }
	o.room = firewall.New(o.Kit, firewall.Deps{
		Interfaces: func(context.Context, db.Querier) (map[value.Zone][]value.IfName, error) {
			return map[value.Zone][]value.IfName{
				value.Must[value.Zone]("wan"): {value.Must[value.IfName]("wan0")}, value.Must[value.Zone]("lan"): {value.Must[value.IfName]("lan0"), value.Must[value.IfName]("lan1")},
			}, nil
		},
		ZoneUsers: func(context.Context, db.Querier, value.Zone) ([]resource.User, error) { return nil, nil },
		Standing:  func() []policy.Opening { return nil },
		Tunnels:   func(context.Context, db.Querier) ([]policy.Tunnel, error) { return nil, nil },
		Defaults:  func(context.Context, db.Querier) ([]value.IfName, error) { return nil, nil },
		Peers:     func(context.Context, db.Querier) ([]netip.Addr, error) { return nil, nil },
		Resolve:   func(context.Context, string) ([]netip.Addr, error) { return nil, nil },
		Way: func(_ context.Context, _, destination netip.Addr, _ string) (firewall.Way, error) {
			return o.ways[destination.String()], o.wayErr
		},
		Network:   func(context.Context, db.Querier) (firewall.Network, error) { return network{o.detour}, nil },
		Addresses: func(_ context.Context, q db.Querier) ([]netip.Addr, error) { return o.addresses(q), nil },
		Carrier: func(_ context.Context, q db.Querier, a netip.Addr) (policy.Carrier, error) {
			return o.carrier(q, a), nil
		},
	})
	o.room.Mount()
	o.Resources.MountChangeSets()
	o.Start(t)
	if _, failed := o.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatalf("not live at start: %v", failed)
	}
	return o
}

func (o *office) make(t testing.TB, path string, body any) string {
	t.Helper()
	var row struct{ ID string }
	o.Do(t, "admin", http.MethodPost, path, body).Want(t, 201).Into(t, &row)
	return row.ID
}

func (o *office) ask(t testing.TB, body map[string]any, headers ...string) firewall.Explanation {
	t.Helper()
	var x firewall.Explanation
	o.Do(t, "viewer", http.MethodPost, "/firewall/explain", body, headers...).Want(t, 200).Into(t, &x)
	return x
}

func question(more ...any) map[string]any {
	q := map[string]any{"in_interface": "lan1", "source": "10.1.0.5", "destination": "198.51.100.7", "protocol": "tcp", "destination_port": 443}
	for i := 0; i < len(more); i += 2 {
		q[more[i].(string)] = more[i+1]
	}
	return q
}

func step(t testing.TB, x firewall.Explanation, title string) firewall.Step {
	t.Helper()
	i := slices.IndexFunc(x.Steps, func(s firewall.Step) bool { return s.Title == title })
	if i < 0 {
		t.Fatalf("no step %q in %+v", title, x.Steps)
	}
	return x.Steps[i]
}

func TestExplainForwarded(t *testing.T) {
	o := newOffice(t)
	object := o.make(t, "/firewall/address-objects", map[string]any{"name": "Boss", "kind": "host", "value": "10.1.0.7"})
	group := o.make(t, "/firewall/address-groups", map[string]any{"name": "Office", "members": []string{object}})
	first := o.make(t, "/firewall/rules", map[string]any{"name": "the boss", "src_zone": "lan", "dst_zone": "wan", "src_kind": "group", "src_group_id": group, "action": "accept"})
	o.make(t, "/firewall/rules", map[string]any{"name": "from outside", "src_zone": "wan", "action": "drop"})
	off := o.make(t, "/firewall/rules", map[string]any{"name": "off", "src_zone": "lan", "action": "drop", "enabled": false})
	o.make(t, "/firewall/rules", map[string]any{"name": "off and elsewhere", "src_kind": "cidr", "src_cidr": "10.9.0.0/16", "action": "drop", "enabled": false})
	web := o.make(t, "/firewall/rules", map[string]any{"name": "web", "src_zone": "lan", "dst_zone": "any", "service_group_id": "00000000-0000-7000-8000-000000000301", "action": "reject"})
	mask := o.make(t, "/nat-rules", map[string]any{"name": "out", "kind": "masquerade", "out_zone": "wan"})

	x := o.ask(t, question())
	if x.Verdict != "reject" || x.Path != "forward" || x.InZone != "lan" || x.OutInterface != "wan0" || x.OutZone != "wan" {
		t.Fatalf("%+v", x)
	}
	if d := x.DecidedBy; d.Kind != "rule" || d.RuleID.String() != web || d.Name != "web" || d.Text != "the rule web rejects it: tcp port 443 is in service group Web" {
		t.Errorf("%+v", d)
	}
	if s := step(t, x, "the boss"); s.Outcome != "not_matched" || s.Stage != "forward" || s.RuleID.String() != first || s.Reason != "source 10.1.0.5 is not in group Office" {
		t.Errorf("%+v", s)
	}
	if s := step(t, x, "off"); s.Outcome != "skipped_disabled" || s.RuleID.String() != off {
		t.Errorf("%+v", s)
	}
	if s := step(t, x, "web"); s.Outcome != "matched" || s.Verdict == nil || *s.Verdict != "reject" {
		t.Errorf("%+v", s)
	}
	for _, s := range x.Steps {
		if s.Title == "from outside" || s.Title == "off and elsewhere" || s.Title == "out" {
			t.Errorf("%+v does not belong here", s)
		}
	}

	// The answer is as if the rule were different, and nothing is stored.
	audited, rules := o.Audited(t, "firewall.rule.update"), o.Rows(t, "firewall_rules")
	x = o.ask(t, question("operations", []any{
		map[string]any{"kind": "firewall.rule", "verb": "update", "id": web, "body": map[string]any{"action": "accept"}},
		map[string]any{"kind": "firewall.rule", "verb": "create", "body": map[string]any{"name": "x", "action": "drop"}},
	}))
	if x.Verdict != "accept" || len(x.NAT) != 1 || x.NAT[0].Kind != "masquerade" || x.NAT[0].RuleID.String() != mask || x.NAT[0].From != "10.1.0.5" || x.NAT[0].To != "192.0.2.1" {
		t.Fatalf("%+v", x)
	}
	if x.Packet.Source != "192.0.2.1" || x.Packet.Destination != "198.51.100.7" || *x.Packet.DestinationPort != 443 || x.Packet.SourcePort != nil {
		t.Errorf("%+v", x.Packet)
	}
	if o.Audited(t, "firewall.rule.update") != audited || o.Rows(t, "firewall_rules") != rules || o.ask(t, question()).Verdict != "reject" {
		t.Error("something was stored")
	}
	if x := o.ask(t, question("in_interface", nil, "in_zone", "lan")); x.InInterface != "lan0" || x.Verdict != "reject" {
		t.Errorf("%+v", x)
	}
	if x := o.ask(t, question("destination", "203.0.113.9", "out_interface", "eth9")); x.OutInterface != "eth9" || x.OutZone != "" || x.Verdict != "reject" {
		t.Errorf("%+v", x)
	}
	if x := o.ask(t, question("destination", "172.16.0.1")); x.Path != "unroutable" || x.Verdict != "drop" || x.DecidedBy.Kind != "default" || x.DecidedBy.Text != "there is no route" {
		t.Errorf("%+v", x)
	}
}

func TestExplainRedirected(t *testing.T) {
	o := newOffice(t)
	nat := o.make(t, "/nat-rules", map[string]any{"name": "mail", "kind": "dnat", "in_zone": "wan", "protocol": "tcp", "dst_port": 25, "target_address": "10.1.0.9", "target_port": 2525})
	x := o.ask(t, question("in_interface", "wan0", "source", "198.51.100.7", "destination", "192.0.2.1", "destination_port", 25, "source_port", 4000))
	if x.Verdict != "accept" || x.Path != "forward" || x.OutInterface != "lan0" || x.DecidedBy.Kind != "automatic" || x.DecidedBy.Name != "Redirected connections" {
		t.Fatalf("%+v", x)
	}
	if x.NAT[0].RuleID.String() != nat || x.NAT[0].From != "192.0.2.1:25" || x.NAT[0].To != "10.1.0.9:2525" || *x.Packet.DestinationPort != 2525 || *x.Packet.SourcePort != 4000 {
		t.Errorf("%+v %+v", x.NAT, x.Packet)
	}
	if s := step(t, x, "mail"); s.Stage != "prerouting" || s.Outcome != "matched" || s.Reason != "destination 192.0.2.1 is an address of the gateway, tcp port 25 is tcp port 25; 192.0.2.1:25 becomes 10.1.0.9:2525" {
		t.Errorf("%+v", s)
	}
	stages := []string{}
	for _, s := range x.Steps {
		stages = append(stages, s.Stage)
	}
	if want := []string{"prerouting", "routing", "forward"}; !slices.Equal(slices.Compact(stages), want) {
		t.Errorf("%v", stages)
	}
	if x := o.ask(t, question("in_interface", "wan0", "source", "198.51.100.7", "destination", "192.0.2.1", "destination_port", 26)); x.Path != "input" || x.Verdict != "drop" || x.DecidedBy.Kind != "default" {
		t.Errorf("%+v", x)
	}
}

func TestExplainMine(t *testing.T) {
	o := newOffice(t)
	here := []string{"X-Test-Client", "10.1.0.9:50000", "X-Test-Server", "192.0.2.1:3443"}
	x := o.ask(t, map[string]any{"mine": true}, here...)
	if x.Verdict != "accept" || x.Path != "input" || x.InInterface != "lan0" || x.InZone != "lan" || x.DecidedBy.Name != "Anti-lockout" || x.DecidedBy.RuleID != nil {
		t.Fatalf("%+v", x)
	}
	if p := x.Packet; p.Source != "10.1.0.9" || *p.SourcePort != 50000 || p.Destination != "192.0.2.1" || *p.DestinationPort != 3443 || p.Protocol != "tcp" {
		t.Errorf("%+v", p)
	}
	// The address disappears with the change set.
	id := o.make(t, "/firewall/zones", map[string]any{"name": "guest"})
	o.addresses = func(q db.Querier) []netip.Addr {
		var n int
		if err := q.QueryRow(t.Context(), `SELECT count(*) FROM firewall_zones WHERE name = 'guest'`).Scan(&n); err != nil {
			t.Error(err)
		}
		if n == 0 {
			return []netip.Addr{netip.MustParseAddr("198.51.100.7")}
		}
		return []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	}
	gone := []any{map[string]any{"kind": "firewall.zone", "verb": "delete", "id": id}}
	x = o.ask(t, map[string]any{"mine": true, "operations": gone}, here...)
	if x.Verdict != "drop" || x.Path != "unroutable" || x.DecidedBy.Text != "192.0.2.1 is no longer an address of the gateway" {
		t.Errorf("%+v", x)
	}
	// The same with a draft.
	dbtest.Exec(t, o.DB, fmt.Sprintf(`INSERT INTO account_users (id, created_at, updated_at, email, name, role, active, password, totp_enabled, oidc_subject)
		VALUES ('%s', now(), now(), 'admin@example.net', '', 'admin', true, '', false, '')`, uuid.NewSHA1(uuid.Nil, []byte("admin"))))
	o.Do(t, "admin", http.MethodPost, "/firewall/explain", map[string]any{"mine": true, "draft": true}, here...).Want(t, 409)
	o.Do(t, "admin", http.MethodPost, "/draft/operations", map[string]any{"operations": gone}).Want(t, 200)
	o.Do(t, "admin", http.MethodPost, "/firewall/explain", map[string]any{"mine": true, "draft": true}, here...).Want(t, 200).Into(t, &x)
	if x.Verdict != "drop" || x.Path != "unroutable" {
		t.Errorf("%+v", x)
	}
	o.Do(t, "admin", http.MethodPost, "/firewall/explain", map[string]any{"mine": true, "draft": true, "operations": gone}, here...).WantField(t, "operations")
	if x := o.ask(t, question("operations", gone)); x.Path != "input" || step(t, x, "Routing").Reason != "198.51.100.7 becomes an address of the gateway" {
		t.Errorf("%+v", x)
	}
	if x := o.ask(t, map[string]any{"mine": true}, "X-Test-Client", "[::1]:50000", "X-Test-Server", "[::1]:3443"); x.InInterface != "lo" || x.DecidedBy.Name != "Loopback" {
		t.Errorf("%+v", x)
	}
	o.Do(t, "viewer", http.MethodPost, "/firewall/explain", map[string]any{"mine": true}, "X-Test-Client", "10.1.0.9:50000").WantField(t, "mine")
}

// A client behind a tunnel learns what takes the tunnel away, even if the packet filter would still admit it.
func TestExplainMineThroughATunnel(t *testing.T) {
	o := newOffice(t)
	here := []string{"X-Test-Client", "10.1.0.9:50000", "X-Test-Server", "192.0.2.1:3443"}
	id := o.make(t, "/firewall/zones", map[string]any{"name": "guest"})
	link := "lan0"
	o.carrier = func(q db.Querier, a netip.Addr) policy.Carrier {
		if a.String() != "10.1.0.9" {
			t.Errorf("asked for %s", a)
		}
		var n int
		if err := q.QueryRow(t.Context(), `SELECT count(*) FROM firewall_zones WHERE name = 'guest'`).Scan(&n); err != nil {
			t.Error(err)
		}
		if n == 0 {
			return policy.Carrier{}
		}
		return policy.Carrier{Interface: value.Must[value.IfName](link), Name: "Anna's laptop", Agreed: "keys"}
	}
	if x := o.ask(t, map[string]any{"mine": true}, here...); x.Verdict != "accept" || x.Path != "input" {
		t.Fatalf("%+v", x)
	}
	gone := map[string]any{"mine": true, "operations": []any{map[string]any{"kind": "firewall.zone", "verb": "delete", "id": id}}}
	if x := o.ask(t, gone, here...); x.Verdict != "drop" || x.Path != "unroutable" || x.DecidedBy.Text != "it comes through Anna's laptop of the tunnel lan0, which could no longer connect" {
		t.Errorf("%+v", x)
	}
	// A tunnel that has the address, too, but that the client does not use.
	link = "lan1"
	if x := o.ask(t, gone, here...); x.Verdict != "accept" || x.Path != "input" {
		t.Errorf("%+v", x)
	}
}

// A route that leads the answers elsewhere cuts a connection that is still admitted.
func TestExplainMineGoesAstray(t *testing.T) {
	o := newOffice(t)
	here := []string{"X-Test-Client", "10.1.0.9:50000", "X-Test-Server", "192.0.2.1:3443"}
	mine := map[string]any{"mine": true, "operations": []any{map[string]any{"kind": "firewall.zone", "verb": "create", "body": map[string]any{"name": "guest"}}}}
	var failed error
	leads := map[string]firewall.Way{}
	o.detour = func(to netip.Addr, is firewall.Way) (firewall.Way, error) {
		if way, changed := leads[to.String()]; changed {
			is = way
		}
		return is, failed
	}
	if x := o.ask(t, mine, here...); x.Verdict != "accept" || x.Path != "input" {
		t.Fatalf("%+v", x)
	}
	for want, way := range map[string]firewall.Way{
		"answers to 10.1.0.9 would leave through wan0 instead of lan0":                  {Interface: "wan0"},
		"answers to 10.1.0.9 would go to the router 10.1.0.7 instead of there directly": {Interface: "lan0", Via: netip.MustParseAddr("10.1.0.7")},
		"answers would not get back: there is no route to 10.1.0.9":                     {Reason: "there is no route to 10.1.0.9"},
		"answers would stay here: 10.1.0.9 becomes the gateway's address":               {Local: true},
	} {
		leads["10.1.0.9"] = way
		if x := o.ask(t, mine, here...); x.Verdict != "drop" || x.Path != "unroutable" || x.DecidedBy.Text != want {
			t.Errorf("%+v", x)
		}
	}
	// Nothing is claimed about what cannot be foreseen, and a question without a change is about the present.
	failed = errors.New("nobody knows")
	if x := o.ask(t, mine, here...); x.Verdict != "accept" || x.Path != "input" {
		t.Errorf("%+v", x)
	}
	failed = nil
	if x := o.ask(t, map[string]any{"mine": true}, here...); x.Verdict != "accept" || x.Path != "input" {
		t.Errorf("%+v", x)
	}
}

func TestExplainRefusals(t *testing.T) {
	o := newOffice(t)
	for _, x := range []struct {
		field string
		body  map[string]any
	}{
		{"in_interface", question("in_interface", nil)},
		{"in_zone", question("in_zone", "lan")},
		{"in_zone", question("in_interface", nil, "in_zone", "any")},
		{"in_zone", question("in_interface", nil, "in_zone", "self")},
		{"in_zone", question("in_interface", nil, "in_zone", "nowhere")},
		{"source", question("source", nil)},
		{"source", question("source", "10.1.0.0/24")},
		{"destination", question("destination", "2001:db8::1")},
		{"protocol", question("protocol", nil)},
		{"protocol", question("protocol", "sctp")},
		{"protocol", question("protocol", "icmpv6", "destination_port", nil)},
		{"destination_port", question("destination_port", nil)},
		{"destination_port", question("destination_port", 65536)},
		{"destination_port", question("protocol", "icmp")},
		{"source_port", question("protocol", "icmp", "destination_port", nil, "source_port", 4)},
		{"icmp_type", question("icmp_type", 8)},
		{"icmp_type", question("protocol", "icmp", "destination_port", nil, "icmp_type", 256)},
		{"source", question("mine", true)},
		{"out_interface", map[string]any{"mine": true, "out_interface": "wan0"}},
		{"hops", question("hops", 3)},
		{"operations.0.verb", question("operations", []any{map[string]any{"kind": "firewall.rule", "verb": "destroy"}})},
		{"operations.0.kind", question("operations", []any{map[string]any{"kind": "firewall.nothing", "verb": "create"}})},
		{"operations.0.body.action", question("operations", []any{map[string]any{"kind": "firewall.rule", "verb": "create", "body": map[string]any{"name": "x", "action": "allow"}}})},
		{"operations.1.body.src_zone", question("operations", []any{
			map[string]any{"kind": "firewall.zone", "verb": "create", "body": map[string]any{"name": "guest"}},
			map[string]any{"kind": "firewall.rule", "verb": "create", "body": map[string]any{"name": "x", "action": "drop", "src_zone": "guests"}},
		})},
	} {
		a := o.Do(t, "viewer", http.MethodPost, "/firewall/explain", x.body)
		if a.Status != 400 || a.Error.Fields[x.field] == "" {
			t.Errorf("%s: %d %s", x.field, a.Status, a.Body)
		}
	}
	if o.Rows(t, "firewall_zones") != 5 {
		t.Error("a zone was stored")
	}
	o.Do(t, "", http.MethodPost, "/firewall/explain", question()).Want(t, 401)
	o.wayErr = errors.New("the kernel does not answer")
	if a := o.Do(t, "viewer", http.MethodPost, "/firewall/explain", question()).Want(t, 503); !strings.Contains(a.Error.Message, "the kernel does not answer") {
		t.Error(a.Error.Message)
	}
}

func TestExplainLeavesOutTheRest(t *testing.T) {
	o := newOffice(t)
	var ops []any
	for i := range 230 {
		ops = append(ops, map[string]any{"kind": "firewall.rule", "verb": "create", "body": map[string]any{"name": fmt.Sprint("rule ", i), "action": "drop", "src_kind": "cidr", "src_cidr": "10.77.0.0/16"}})
	}
	o.Do(t, "viewer", http.MethodPost, "/firewall/explain", question("operations", ops)).WantField(t, "operations") // so many operations are only for admins
	var x firewall.Explanation
	o.Do(t, "admin", http.MethodPost, "/firewall/explain", question("operations", ops)).Want(t, 200).Into(t, &x)
	misses := 0
	for _, s := range x.Steps {
		if s.Outcome == "not_matched" && s.RuleID != nil {
			misses++
		}
	}
	if s := step(t, x, "More rules"); misses != 200 || s.Stage != "forward" || s.Outcome != "info" || !strings.HasPrefix(s.Reason, "30 more rules") {
		t.Errorf("%d, %+v", misses, s)
	}
	if last := x.Steps[len(x.Steps)-1]; last.Title != "Default" || *last.Verdict != "drop" {
		t.Errorf("%+v", last)
	}
}
