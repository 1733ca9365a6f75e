package firewall_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"edge.internal/gateway/internal/firewall"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/nettest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
)

func TestMain(m *testing.M) { nettest.Main(m) }

// house is the room on the real kernel, with test doubles for other rooms.
type house struct {
	*kittest.Bench
	Room       *firewall.Room
	interfaces map[string][]string
	openings   []policy.Opening
	standing   []policy.Opening // under mu
	tunnels    []policy.Tunnel
	defaults   []value.IfName
	peers      []netip.Addr

	mu    sync.Mutex
	names map[string][]netip.Addr
	// dead, if not nil, blocks lookups of names with a certain prefix.
	dead    chan struct{}
	failure error
}

// answer sets what a name resolves to.
func (h *house) answer(name string, addrs ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names[name] = nil
	for _, a := range addrs {
		h.names[name] = append(h.names[name], netip.MustParseAddr(a))
	}
}

// fail makes every lookup fail.
func (h *house) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure = err
}

func newHouse(t *testing.T) *house {
	h := &house{Bench: kittest.NewReal(t), interfaces: map[string][]string{"wan": {"wan0"}, "lan": {"lan0", "lan1"}}, names: map[string][]netip.Addr{}}
	h.Room = firewall.New(h.Kit, firewall.Deps{
		Interfaces: func(context.Context, db.Querier) (map[value.Zone][]value.IfName, error) {
			zones := map[value.Zone][]value.IfName{}
			for zone, names := range h.interfaces {
				for _, n := range names {
					z := value.Must[value.Zone](zone)
					zones[z] = append(zones[z], value.Must[value.IfName](n))
				}
			}
			return zones, nil
		},
		ZoneUsers: func(context.Context, db.Querier, value.Zone) ([]resource.User, error) { return nil, nil },
		Network:   func(context.Context, db.Querier) (firewall.Network, error) { return network{}, nil },
		Openings:  []policy.Source{func(context.Context, db.Querier) ([]policy.Opening, error) { return h.openings, nil }},
		Standing: func() []policy.Opening {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.standing
		},
		Tunnels:  func(context.Context, db.Querier) ([]policy.Tunnel, error) { return h.tunnels, nil },
		Defaults: func(context.Context, db.Querier) ([]value.IfName, error) { return h.defaults, nil },
		Peers:    func(context.Context, db.Querier) ([]netip.Addr, error) { return h.peers, nil },
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			h.mu.Lock()
			dead := h.dead
			h.mu.Unlock()
			if dead != nil && strings.HasPrefix(name, "dead") {
				<-dead
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			return slices.Clone(h.names[name]), h.failure
		},
		Addresses: func(context.Context, db.Querier) ([]netip.Addr, error) { return nil, nil },
	})
	h.Room.Mount()
	h.Resources.MountChangeSets()
	h.Start(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { h.Room.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return h
}

func run(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// provide changes what other rooms provide, with the revision that a change of theirs gives to the packet filter.
func (h *house) provide(t testing.TB, change func()) {
	t.Helper()
	_, err := h.Engine.Commit(t.Context(), []apply.ID{apply.PacketFilter}, func(*db.Tx) ([]apply.Row, error) {
		change()
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// create creates a row and returns its id. The packet filter must be live afterwards.
func (h *house) create(t testing.TB, path string, body map[string]any) string {
	t.Helper()
	var row struct{ ID string }
	a := h.Do(t, "admin", http.MethodPost, path, body).Want(t, 201)
	if live := a.Header.Get("Gateway-Apply"); live != "packet-filter=live" {
		t.Fatalf("%s: %s", path, live)
	}
	a.Into(t, &row)
	return row.ID
}

func (h *house) rule(t testing.TB, body map[string]any) string {
	t.Helper()
	for field, v := range map[string]any{"name": "rule", "action": "accept"} {
		if body[field] == nil {
			body[field] = v
		}
	}
	return h.create(t, "/firewall/rules", body)
}

// kernelRule is a rule of the kernel as nft lists it.
type kernelRule struct {
	Chain, Comment string
	Expr           []map[string]any
}

// kernelTable is the gateway's table as nft lists it.
type kernelTable struct {
	Policies map[string]string // of the base chains
	Rules    []kernelRule
	Sets     map[string][]any
}

func readTable(t testing.TB) kernelTable {
	t.Helper()
	var list struct {
		Nftables []struct {
			Chain *struct{ Name, Policy string }
			Rule  *kernelRule
			Set   *struct {
				Name string
				Elem []any
			}
		}
	}
	if err := json.Unmarshal([]byte(run(t, "nft", "-j", "list", "table", "inet", "gateway")), &list); err != nil {
		t.Fatal(err)
	}
	k := kernelTable{Policies: map[string]string{}, Sets: map[string][]any{}}
	for _, x := range list.Nftables {
		switch {
		case x.Chain != nil:
			k.Policies[x.Chain.Name] = x.Chain.Policy
		case x.Rule != nil:
			k.Rules = append(k.Rules, *x.Rule)
		case x.Set != nil:
			k.Sets[x.Set.Name] = x.Set.Elem
		}
	}
	return k
}

// with returns the rules with this comment.
func (k kernelTable) with(comment string) (list []kernelRule) {
	for _, r := range k.Rules {
		if r.Comment == comment {
			list = append(list, r)
		}
	}
	return list
}

// text returns the rule as JSON, to search in.
func (r kernelRule) text() string {
	b, _ := json.Marshal(r.Expr)
	return string(b)
}

func (r kernelRule) has(t testing.TB, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(r.text(), p) {
			t.Errorf("no %s in %s", p, r.text())
		}
	}
}

func TestFW01PoliciesAndDefaultLogs(t *testing.T) {
	h := newHouse(t)
	h.rule(t, map[string]any{})
	k := readTable(t)
	for _, chain := range []string{"input", "forward"} {
		if k.Policies[chain] != "drop" {
			t.Errorf("policy of %s is %q", chain, k.Policies[chain])
		}
		log := k.with("auto:drop-" + chain)
		if len(log) != 1 || log[0].Chain != chain {
			t.Fatalf("%+v", log)
		}
		log[0].has(t, `"rate":10`, `"per":"second"`, `"burst":5`, `"prefix":"gateway:drop-`+chain+`"`, `"group":0`)
		if last := slices.DeleteFunc(slices.Clone(k.Rules), func(r kernelRule) bool { return r.Chain != chain }); last[len(last)-1].Comment != "auto:drop-"+chain {
			t.Errorf("the last rule of %s is %q", chain, last[len(last)-1].Comment)
		}
	}
	if e := k.with("auto:established"); len(e) != 2 {
		t.Errorf("%d rules for established traffic", len(e))
	} else {
		e[0].has(t, "established", "related", "accept")
	}
}

func TestFW03CounterTagAndLog(t *testing.T) {
	h := newHouse(t)
	quiet := h.rule(t, map[string]any{"src_zone": "lan", "dst_zone": "wan"})
	loud := h.rule(t, map[string]any{"src_zone": "lan", "dst_zone": "wan", "log": true, "action": "reject"})
	off := h.rule(t, map[string]any{"src_zone": "lan", "dst_zone": "wan", "enabled": false})
	k := readTable(t)
	if q := k.with("gid:" + quiet); len(q) != 1 || strings.Contains(q[0].text(), `"log"`) {
		t.Fatalf("%+v", q)
	} else {
		q[0].has(t, `"counter"`, `"accept"`)
	}
	if l := k.with("gid:" + loud); len(l) != 1 {
		t.Fatalf("%+v", l)
	} else {
		l[0].has(t, `"counter"`, `"reject"`, `"prefix":"gateway:`+loud+`"`, `"group":0`)
	}
	if o := k.with("gid:" + off); len(o) != 0 {
		t.Errorf("a disabled rule is rendered: %+v", o)
	}
}

func TestFW04OneLinePerFamily(t *testing.T) {
	h := newHouse(t)
	v4 := h.create(t, "/firewall/address-objects", map[string]any{"name": "v4", "kind": "network", "value": "10.1.0.0/16"})
	v6 := h.create(t, "/firewall/address-objects", map[string]any{"name": "v6", "kind": "range", "value": "2001:db8::1-2001:db8::9"})
	both := h.create(t, "/firewall/address-groups", map[string]any{"name": "both", "members": []string{v4, v6}})
	empty := h.create(t, "/firewall/address-groups", map[string]any{"name": "empty"})
	for _, x := range []struct {
		name string
		body map[string]any
		want []string // a part of each line
	}{
		{"no address", map[string]any{}, []string{`"accept"`}},
		{"both families", map[string]any{"src_kind": "group", "src_group_id": both}, []string{`"protocol":"ip"`, `"protocol":"ip6"`}},
		{"one family", map[string]any{"src_kind": "cidr", "src_cidr": "192.0.2.0/24"}, []string{`"protocol":"ip"`}},
		{"the family they share", map[string]any{"src_kind": "group", "src_group_id": both, "dst_kind": "object", "dst_object_id": v6}, []string{`"protocol":"ip6"`}},
		{"no family they share", map[string]any{"src_kind": "object", "src_object_id": v4, "dst_kind": "object", "dst_object_id": v6}, nil},
		{"nothing", map[string]any{"src_kind": "group", "src_group_id": empty}, nil},
		{"FW-05 icmp", map[string]any{"src_kind": "group", "src_group_id": both, "service_object_id": builtinID(t, h, "services", "Ping")}, []string{`"protocol":"ip"`}},
		{"FW-05 icmpv6", map[string]any{"src_kind": "group", "src_group_id": both, "service_object_id": builtinID(t, h, "services", "Ping-v6")}, []string{`"protocol":"ip6"`}},
		{"FW-05 both", map[string]any{"service_group_id": builtinID(t, h, "service-groups", "Ping")}, []string{`"icmp"`, `"ipv6-icmp"`}},
	} {
		t.Run(x.name, func(t *testing.T) {
			id := h.rule(t, x.body)
			lines := readTable(t).with("gid:" + id)
			if len(lines) != len(x.want) {
				t.Fatalf("%d lines instead of %d: %+v", len(lines), len(x.want), lines)
			}
			for i, want := range x.want {
				lines[i].has(t, want)
			}
			if x.name == "no address" && (strings.Contains(lines[0].text(), "payload") || strings.Contains(lines[0].text(), "nfproto")) {
				t.Errorf("a family in %s", lines[0].text())
			}
		})
	}
}

// builtinID returns the id of a built-in row.
func builtinID(t testing.TB, h *house, kind, name string) string {
	t.Helper()
	var list []struct {
		ID, Name string
		Builtin  bool
	}
	h.Get(t, "/firewall/"+kind).Want(t, 200).Into(t, &list)
	for _, x := range list {
		if x.Name == name && x.Builtin {
			return x.ID
		}
	}
	t.Fatalf("no builtin %s among the %s", name, kind)
	return ""
}

func TestFW09Zones(t *testing.T) {
	h := newHouse(t)
	guest := h.create(t, "/firewall/zones", map[string]any{"name": "guest"})
	h.Do(t, "admin", http.MethodPost, "/firewall/zones", map[string]any{"name": "guest"}).Want(t, 409)
	for _, name := range []string{"any", "self", "a b", "a/b", `a"`, "-x", "", strings.Repeat("a", 32)} {
		h.Do(t, "admin", http.MethodPost, "/firewall/zones", map[string]any{"name": name}).WantField(t, "name")
	}
	for field, zone := range map[string]string{"src_zone": "nowhere", "dst_zone": "nowhere"} {
		h.Do(t, "admin", http.MethodPost, "/firewall/rules", map[string]any{"name": "x", "action": "drop", field: zone}).WantField(t, field)
	}
	h.Do(t, "admin", http.MethodPost, "/firewall/rules", map[string]any{"name": "x", "action": "drop", "src_zone": "self"}).WantField(t, "src_zone")
	for _, field := range []string{"in_zone", "out_zone"} {
		h.Do(t, "admin", http.MethodPost, "/nat-rules", map[string]any{"name": "x", "kind": "masquerade", field: "nowhere"}).WantField(t, field)
	}

	wan := builtinID(t, h, "zones", "wan")
	h.Do(t, "admin", http.MethodPut, "/firewall/zones/"+wan, map[string]any{"name": "internet"}).Want(t, 409)
	h.Do(t, "admin", http.MethodDelete, "/firewall/zones/"+wan, nil).Want(t, 409)
	h.Do(t, "admin", http.MethodPut, "/firewall/zones/"+wan, map[string]any{"description": "uplink"}).Want(t, 200)

	// FW-10: a zone in use cannot be deleted, and the error says why; a rename updates its users.
	rule := h.rule(t, map[string]any{"name": "from guests", "src_zone": "guest"})
	nat := h.create(t, "/nat-rules", map[string]any{"name": "guests out", "kind": "masquerade", "in_zone": "guest", "out_zone": "wan"})
	a := h.Do(t, "admin", http.MethodDelete, "/firewall/zones/"+guest, nil).Want(t, 409)
	for _, part := range []string{"used_by", rule, nat, "from guests", "firewall.nat-rule"} {
		if !strings.Contains(string(a.Body), part) {
			t.Errorf("no %s in %s", part, a.Body)
		}
	}
	h.Do(t, "admin", http.MethodPut, "/firewall/zones/"+guest, map[string]any{"name": "visitors"}).Want(t, 200)
	if body := string(h.Get(t, "/firewall/rules/"+rule).Body) + string(h.Get(t, "/nat-rules/"+nat).Body); strings.Count(body, `"visitors"`) != 2 {
		t.Error(body)
	}
	h.Do(t, "admin", http.MethodDelete, "/firewall/rules/"+rule, nil).Want(t, 200)
	h.Do(t, "admin", http.MethodDelete, "/nat-rules/"+nat, nil).Want(t, 200)
	h.Do(t, "admin", http.MethodDelete, "/firewall/zones/"+guest, nil).Want(t, 200)
}

func TestFW12Ranges(t *testing.T) {
	h := newHouse(t)
	for _, x := range []struct {
		path, field string
		body        map[string]any
	}{
		{"/firewall/services", "port_start", map[string]any{"protocol": "tcp", "port_start": 0}},
		{"/firewall/services", "port_start", map[string]any{"protocol": "tcp", "port_start": 65536}},
		{"/firewall/services", "port_end", map[string]any{"protocol": "tcp", "port_start": 80, "port_end": 79}},
		{"/firewall/services", "port_end", map[string]any{"protocol": "tcp", "port_end": 79}},
		{"/firewall/services", "port_start", map[string]any{"protocol": "icmp", "port_start": 80}},
		{"/firewall/services", "protocol", map[string]any{"protocol": "sctp"}},
		{"/firewall/address-objects", "value", map[string]any{"kind": "network", "value": "10.0.0.0/33"}},
		{"/firewall/address-objects", "value", map[string]any{"kind": "network", "value": "2001:db8::/129"}},
		{"/firewall/address-objects", "value", map[string]any{"kind": "host", "value": "10.0.0.0/8"}},
		{"/firewall/address-objects", "value", map[string]any{"kind": "host", "value": "fe80::1%eth0"}},
		{"/firewall/address-objects", "value", map[string]any{"kind": "range", "value": "10.0.0.9-10.0.0.1"}},
		{"/firewall/address-objects", "value", map[string]any{"kind": "range", "value": "10.0.0.9-2001:db8::1"}},
		{"/firewall/address-objects", "value", map[string]any{"kind": "fqdn", "value": "10.0.0.9"}},
		{"/firewall/address-objects", "value", map[string]any{"kind": "fqdn", "value": "a b.example"}},
		{"/firewall/address-objects", "kind", map[string]any{"kind": "galaxy", "value": "10.0.0.9"}},
		{"/firewall/address-groups", "members", map[string]any{"members": []string{"00000000-0000-7000-8000-000000009999"}}},
		{"/firewall/rules", "src_cidr", map[string]any{"action": "drop", "src_kind": "cidr", "src_cidr": "10.0.0.0/33"}},
		{"/firewall/rules", "src_cidr", map[string]any{"action": "drop", "src_kind": "cidr"}},
		{"/firewall/rules", "src_cidr", map[string]any{"action": "drop", "src_cidr": "10.0.0.0/8"}},
		{"/firewall/rules", "dst_object_id", map[string]any{"action": "drop", "dst_object_id": "00000000-0000-7000-8000-000000009999"}},
		{"/firewall/rules", "dst_object_id", map[string]any{"action": "drop", "dst_kind": "object", "dst_object_id": "00000000-0000-7000-8000-000000009999"}},
		{"/firewall/rules", "action", map[string]any{"action": "allow"}},
		{"/nat-rules", "dst_port", map[string]any{"kind": "dnat", "target_address": "10.0.0.1", "protocol": "tcp", "dst_port": 65536}},
		{"/nat-rules", "dst_port_end", map[string]any{"kind": "dnat", "target_address": "10.0.0.1", "protocol": "tcp", "dst_port": 80, "dst_port_end": 79}},
		{"/nat-rules", "target_port_end", map[string]any{"kind": "dnat", "target_address": "10.0.0.1", "protocol": "tcp", "dst_port": 80, "target_port": 80, "target_port_end": 79}},
		{"/nat-rules", "dst_port", map[string]any{"kind": "dnat", "target_address": "10.0.0.1", "dst_port": 80}},
		{"/nat-rules", "target_address", map[string]any{"kind": "dnat", "protocol": "tcp", "dst_port": 80}},
		{"/nat-rules", "target_address", map[string]any{"kind": "masquerade", "target_address": "10.0.0.1"}},
		{"/nat-rules", "out_zone", map[string]any{"kind": "dnat", "target_address": "10.0.0.1", "out_zone": "lan"}},
		{"/nat-rules", "kind", map[string]any{"kind": "xnat"}},
		{"/nat-rules", "src_cidr", map[string]any{"kind": "masquerade", "src_cidr": "2001:db8::/129"}},
	} {
		x.body["name"] = "x"
		h.Do(t, "admin", http.MethodPost, x.path, x.body).WantField(t, x.field)
	}
	h.create(t, "/firewall/services", map[string]any{"name": "one port", "protocol": "udp", "port_start": 7, "port_end": 7})
	h.create(t, "/nat-rules", map[string]any{"name": "one port", "kind": "dnat", "target_address": "10.0.0.1", "protocol": "tcp", "dst_port": 80, "dst_port_end": 80, "target_port": 81, "target_port_end": 81})
}

func TestFW13NAT(t *testing.T) {
	h := newHouse(t)
	v6 := h.create(t, "/nat-rules", map[string]any{"name": "v6", "kind": "dnat", "in_zone": "wan", "protocol": "tcp", "dst_port": 443, "target_address": "2001:db8::5", "target_port": 8443, "takes_management_ports": true})
	mixed := h.create(t, "/nat-rules", map[string]any{"name": "mixed", "kind": "dnat", "in_zone": "wan", "protocol": "tcp", "dst_port": 25, "src_cidr": "192.0.2.0/24", "target_address": "2001:db8::5"})
	shift := h.create(t, "/nat-rules", map[string]any{"name": "shift", "kind": "dnat", "in_zone": "wan", "protocol": "tcp+udp", "dst_port": 8000, "dst_port_end": 8002, "target_address": "10.0.0.9", "target_port": 9000, "target_port_end": 9002})
	out := h.create(t, "/nat-rules", map[string]any{"name": "out", "kind": "masquerade", "out_zone": "wan"})
	snat := h.create(t, "/nat-rules", map[string]any{"name": "snat", "kind": "snat", "in_zone": "lan", "out_zone": "wan", "src_cidr": "10.0.0.0/8", "target_address": "198.51.100.7"})
	nowhere := h.create(t, "/nat-rules", map[string]any{"name": "a zone without interfaces", "kind": "masquerade", "out_zone": "dmz"})
	k := readTable(t)
	one := func(id, chain string) kernelRule {
		t.Helper()
		r := k.with("gid:" + id)
		if len(r) != 1 || r[0].Chain != chain {
			t.Fatalf("%+v", r)
		}
		return r[0]
	}
	one(v6, "prerouting").has(t, `"counter"`, `"dnat"`, `"addr":"2001:db8::5"`, `"port":8443`, `"wan0"`)
	one(shift, "prerouting").has(t, `8000`, `9000`, `8002`, `9002`)
	one(out, "postrouting").has(t, `"masquerade"`, `"wan0"`)
	one(snat, "postrouting").has(t, `"snat"`, `"addr":"198.51.100.7"`, `"lan0"`, `"lan1"`)
	for _, id := range []string{mixed, nowhere} {
		if r := k.with("gid:" + id); len(r) != 0 {
			t.Errorf("%+v", r)
		}
	}
	if !strings.Contains(run(t, "nft", "list", "table", "inet", "gateway"), "[2001:db8::5]:8443") {
		t.Error("the target is not in brackets")
	}
	if logs := h.Logs.String(); !strings.Contains(logs, mixed) || !strings.Contains(logs, "mixes ipv4 and ipv6") {
		t.Errorf("the log lacks it: %s", logs)
	}
}

func TestFW16Tunnels(t *testing.T) {
	h := newHouse(t)
	h.provide(t, func() {
		h.tunnels = []policy.Tunnel{{Interface: value.Must[value.IfName]("wg0"), Networks: []value.Prefix{value.Must[value.Prefix]("10.99.0.0/24"), value.Must[value.Prefix]("fd99::/64")}}}
	})
	h.rule(t, map[string]any{})
	auto := readTable(t).with("auto:tunnel")
	if len(auto) != 3 || auto[0].Chain != "forward" {
		t.Fatalf("%+v", auto)
	}
	auto[0].has(t, `"iifname"`, `"wg0"`, `"accept"`)
	auto[1].has(t, `"oifname"`, `"wg0"`, `"10.99.0.0"`, `"masquerade"`)
	auto[2].has(t, `"oifname"`, `"wg0"`, `"fd99::"`, `"masquerade"`)
	h.provide(t, func() { h.tunnels = nil })
	h.rule(t, map[string]any{})
	if auto := readTable(t).with("auto:tunnel"); len(auto) != 0 {
		t.Errorf("%+v", auto)
	}
	// A client tunnel that takes all traffic: answers to other clients are kept out of it.
	h.provide(t, func() { h.defaults = []value.IfName{value.Must[value.IfName]("wg1")} })
	h.rule(t, map[string]any{})
	auto = readTable(t).with("auto:answers")
	if len(auto) != 3 {
		t.Fatalf("%+v", auto)
	}
	auto[0].has(t, `"iifname"`, `"wg1"`, `"accept"`)
	auto[1].has(t, `"new"`, `"mangle"`, `51251`)
	auto[2].has(t, `"reply"`, `51251`, `"mangle"`)
}

func TestFW17OpeningsAndPeers(t *testing.T) {
	h := newHouse(t)
	h.openings = []policy.Opening{
		{Service: "dns", Proto: policy.TCP, Port: 53}, {Service: "dns", Proto: policy.UDP, Port: 53},
		{Service: "ntp", Proto: policy.UDP, Port: 123, Addresses: []value.Addr{value.Must[value.Addr]("10.10.0.1"), value.Must[value.Addr]("fd00::1")}},
		{Service: "dhcp", Proto: policy.UDP, Port: 67, Interfaces: []value.IfName{value.Must[value.IfName]("lan0")}},
		{Service: "all", Proto: policy.TCP, Port: 9, Addresses: []value.Addr{value.Must[value.Addr]("0.0.0.0")}},
	}
	h.provide(t, func() { h.peers = []netip.Addr{netip.MustParseAddr("192.0.2.8"), netip.MustParseAddr("2001:db8::8")} })
	h.rule(t, map[string]any{})
	k := readTable(t)
	if dns := k.with("auto:opening-dns"); len(dns) != 2 || !strings.Contains(dns[0].text(), `"tcp"`) || !strings.Contains(dns[1].text(), `"udp"`) {
		t.Errorf("%+v", dns)
	}
	if ntp := k.with("auto:opening-ntp"); len(ntp) != 2 {
		t.Errorf("%+v", ntp)
	} else {
		ntp[0].has(t, "10.10.0.1", "123")
		ntp[1].has(t, "fd00::1", "123")
	}
	if dhcp := k.with("auto:opening-dhcp"); len(dhcp) != 1 {
		t.Errorf("%+v", dhcp)
	} else {
		dhcp[0].has(t, "lan0", "67")
	}
	if all := k.with("auto:opening-all"); len(all) != 1 || strings.Contains(all[0].text(), "daddr") {
		t.Errorf("%+v", all)
	}
	if len(k.Sets["cluster_peers_4"]) != 1 || len(k.Sets["cluster_peers_6"]) != 1 {
		t.Errorf("%+v", k.Sets)
	}
	for _, r := range k.with("auto:cluster") {
		r.has(t, "8443", "5432", "6379")
	}
	if vrrp := k.with("auto:vrrp"); len(vrrp) != 2 {
		t.Errorf("%+v", vrrp)
	} else {
		vrrp[0].has(t, "cluster_peers_4", "l4proto", "accept")
		vrrp[1].has(t, "cluster_peers_6", "l4proto", "accept")
	}

	// They are listed in the order of the table, with the remainder at the end.
	var listed []struct {
		Name, Action                 string
		Last                         bool
		Ports, Interfaces, Addresses []string
	}
	h.Get(t, "/firewall/built-in").Into(t, &listed)
	var lines []string
	for _, s := range listed {
		lines = append(lines, fmt.Sprint(s.Name, " ", s.Action, " ", s.Last, " ", s.Ports, s.Interfaces, s.Addresses))
	}
	want := []string{
		"Established connections accept false [] [] []", "Loopback accept false [] [] []", "ICMPv6 that IPv6 needs accept false [] [] []",
		"Anti-lockout accept false [tcp/22 tcp/443 tcp/3443 udp/443] [] []", "Cluster peers accept false [tcp/5432 tcp/6379 tcp/8443] [] []",
		"Redirected connections accept false [] [] []",
		"Service dns accept true [tcp/53] [] []", "Service dns accept true [udp/53] [] []", "Service ntp accept true [udp/123] [] [10.10.0.1 fd00::1]",
		"Service dhcp accept true [udp/67] [lan0] []", "Service all accept true [tcp/9] [] [0.0.0.0]",
		"Default drop true [] [] []",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("built-in rules:\n%s", strings.Join(lines, "\n"))
	}
}

func TestFW21PatchTouchesNoKernel(t *testing.T) {
	h := newHouse(t)
	id := h.rule(t, map[string]any{"action": "drop"})
	before, err := h.Host.FilterState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file, _ := os.Stat(h.Host.Path(nftables.Table))
	status := h.Engine.Statuses()
	a := h.Do(t, "admin", http.MethodPatch, "/firewall/rules/"+id, map[string]any{"note": "why", "labels": []string{"a", "<img onerror=x>"}}).Want(t, 200)
	if a.Header.Get("Gateway-Apply") != "" {
		t.Error(a.Header.Get("Gateway-Apply"))
	}
	for field, body := range map[string]map[string]any{"action": {"action": "accept"}, "enabled": {"note": "x", "enabled": false}} {
		h.Do(t, "admin", http.MethodPatch, "/firewall/rules/"+id, body).WantField(t, field)
	}
	h.Do(t, "admin", http.MethodPatch, "/firewall/rules/"+id, map[string]any{"labels": []string{"a", "a"}}).WantField(t, "labels")
	h.Do(t, "viewer", http.MethodPatch, "/firewall/rules/"+id, map[string]any{"note": "x"}).Want(t, 403)
	var row struct {
		Action, Note string
		Labels       []string
	}
	h.Get(t, "/firewall/rules/"+id).Into(t, &row)
	if row.Action != "drop" || row.Note != "why" || len(row.Labels) != 2 {
		t.Errorf("%+v", row)
	}
	after, err := h.Host.FilterState(t.Context())
	if err != nil || after.Generation != before.Generation {
		t.Errorf("the kernel was touched: %+v %+v %v", before, after, err)
	}
	if now, _ := os.Stat(h.Host.Path(nftables.Table)); !now.ModTime().Equal(file.ModTime()) {
		t.Error("the file was written")
	}
	if now := h.Engine.Statuses(); now[0].Revision != status[0].Revision {
		t.Error("the component was asked")
	}
	if h.Audited(t, "firewall.rule.update") != 1 {
		t.Error("not audited")
	}
}

func TestFW02ForeignTablesSurvive(t *testing.T) {
	h := newHouse(t)
	run(t, "nft", "add table inet foreign; add chain inet foreign c { type filter hook input priority -300; }; add rule inet foreign c counter packets 7 bytes 700 comment mine")
	t.Cleanup(func() { run(t, "nft", "delete table inet foreign") })
	for range 20 {
		h.rule(t, map[string]any{})
	}
	if text := run(t, "nft", "list", "table", "inet", "foreign"); !strings.Contains(text, `comment "mine"`) || strings.Contains(text, "packets 0") {
		t.Error(text)
	}
}

func TestFW23TableDeletedByHandComesBack(t *testing.T) {
	h := newHouse(t)
	h.rule(t, map[string]any{"src_zone": "lan", "dst_zone": "wan"})
	// The order of chains does not matter.
	chains := func(listing []byte) string {
		parts := strings.Split(strings.TrimRight(string(listing), "}\n"), "\n\n")
		for i := range parts {
			parts[i] = strings.TrimSpace(strings.TrimRight(parts[i], "\t}\n"))
		}
		slices.Sort(parts)
		return strings.Join(parts, "\n")
	}
	want := chains([]byte(run(t, "nft", "-s", "list", "table", "inet", "gateway")))
	same := func(what string) {
		t.Helper()
		waittest.UntilNil(t, what+": the table is back", func() error {
			out, _ := exec.Command("nft", "-s", "list", "table", "inet", "gateway").Output()
			if chains(out) == want {
				return nil
			}
			h.Engine.Converge() // the timer handles a change within the table
			return errors.New(string(out))
		})
	}
	run(t, "nft", "delete table inet gateway")
	same("deleted")
	run(t, "nft", "flush chain inet gateway input")
	same("a chain flushed by hand")
	run(t, "nft", "insert rule inet gateway forward accept")
	same("a rule added by hand")
}

func TestFW25FreshInstall(t *testing.T) {
	h := newHouse(t)
	for _, name := range []string{"wan", "lan", "dmz", "mgmt", "cluster"} {
		builtinID(t, h, "zones", name)
	}
	for _, name := range []string{"Web", "Mail-Submit", "Mail-Receive", "DNS", "Ping"} {
		builtinID(t, h, "service-groups", name)
	}
	if n := h.Rows(t, "firewall_services"); n != 18 {
		t.Errorf("%d services", n)
	}
	ssh := builtinID(t, h, "services", "SSH")
	h.Do(t, "admin", http.MethodPut, "/firewall/services/"+ssh, map[string]any{"port_start": 2222}).Want(t, 409)
	h.Do(t, "admin", http.MethodDelete, "/firewall/services/"+ssh, nil).Want(t, 409)
	web := builtinID(t, h, "service-groups", "Web")
	h.Do(t, "admin", http.MethodPut, "/firewall/service-groups/"+web, map[string]any{"members": []string{ssh}}).Want(t, 409)
	var rules []struct{ Name, Action string }
	h.Get(t, "/firewall/rules").Into(t, &rules)
	if len(rules) != 1 || rules[0].Action != "accept" {
		t.Errorf("%+v", rules)
	}
}

func TestObjectsInUseStay(t *testing.T) {
	h := newHouse(t)
	host := h.create(t, "/firewall/address-objects", map[string]any{"name": "host", "kind": "host", "value": "10.0.0.5"})
	group := h.create(t, "/firewall/address-groups", map[string]any{"name": "group", "members": []string{host}})
	service := h.create(t, "/firewall/services", map[string]any{"name": "service", "protocol": "tcp", "port_start": 9})
	bundle := h.create(t, "/firewall/service-groups", map[string]any{"name": "bundle", "members": []string{service}})
	rule := h.rule(t, map[string]any{"name": "user", "src_kind": "group", "src_group_id": group, "service_group_id": bundle})
	for path, user := range map[string]string{
		"/firewall/address-objects/" + host: group, "/firewall/address-groups/" + group: rule,
		"/firewall/services/" + service: bundle, "/firewall/service-groups/" + bundle: rule,
	} {
		a := h.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 409)
		if !strings.Contains(string(a.Body), user) {
			t.Errorf("%s: %s", path, a.Body)
		}
	}
	var usage []struct {
		ID     string
		UsedBy []struct{ Kind, ID, Name string } `json:"used_by"`
	}
	h.Get(t, "/firewall/usage").Into(t, &usage)
	found := false
	for _, u := range usage {
		found = found || u.ID == host && len(u.UsedBy) == 1 && u.UsedBy[0].ID == group && u.UsedBy[0].Kind == "firewall.address-group"
	}
	if !found {
		t.Errorf("%+v", usage)
	}
	h.Do(t, "admin", http.MethodDelete, "/firewall/rules/"+rule, nil).Want(t, 200)
	for _, path := range []string{"/firewall/address-groups/" + group, "/firewall/address-objects/" + host, "/firewall/service-groups/" + bundle, "/firewall/services/" + service} {
		h.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 200)
	}
}

func TestReorderIsOneCall(t *testing.T) {
	h := newHouse(t)
	var ids []string
	for range 3 {
		ids = append(ids, h.rule(t, map[string]any{"src_zone": "lan", "dst_zone": "wan"}))
	}
	var rules []struct{ ID string }
	h.Get(t, "/firewall/rules").Into(t, &rules)
	order := []string{ids[2], rules[0].ID, ids[0], ids[1]}
	a := h.Do(t, "admin", http.MethodPost, "/firewall/rules/reorder", map[string]any{"ids": order}).Want(t, 200)
	if a.Header.Get("Gateway-Apply") != "packet-filter=live" {
		t.Error(a.Header.Get("Gateway-Apply"))
	}
	loaded := func() (got []string) {
		for _, r := range readTable(t).Rules {
			if id, ok := strings.CutPrefix(r.Comment, "gid:"); ok && id != rules[0].ID {
				got = append(got, id)
			}
		}
		return got
	}
	if got, want := loaded(), []string{ids[2], ids[0], ids[1]}; !slices.Equal(got, want) {
		t.Errorf("%v instead of %v", got, want)
	}
	a = h.Do(t, "admin", http.MethodPost, "/firewall/rules/"+ids[1]+"/move", map[string]any{"after": ids[2]}).Want(t, 200)
	if got, want := loaded(), []string{ids[2], ids[1], ids[0]}; !slices.Equal(got, want) || a.Header.Get("Gateway-Apply") != "packet-filter=live" {
		t.Errorf("%v instead of %v, %s", got, want, a.Header.Get("Gateway-Apply"))
	}
	h.Do(t, "admin", http.MethodPost, "/firewall/rules/reorder", map[string]any{"ids": ids}).WantField(t, "ids")
}

// After a change of a row, for which no other rows are read, the table equals the one made from all stored rows.
func TestTableAfterAChangeIsThatOfAllRows(t *testing.T) {
	h := newHouse(t)
	whole := func(what string) {
		t.Helper()
		if _, diffs, err := h.Engine.Render(t.Context(), apply.PacketFilter); err != nil || diffs[0].Diff != "" {
			t.Fatalf("after %s: %v\n%s", what, err, diffs[0].Diff)
		}
	}
	change := func(method, path string, body any) {
		t.Helper()
		if a := h.Do(t, "admin", method, path, body).Want(t, 200); a.Header.Get("Gateway-Apply") != "packet-filter=live" {
			t.Fatalf("%s %s: %s", method, path, a.Header.Get("Gateway-Apply"))
		}
		whole(method + " " + path)
	}
	host := h.create(t, "/firewall/address-objects", map[string]any{"name": "host", "kind": "host", "value": "192.0.2.7"})
	other := h.create(t, "/firewall/address-objects", map[string]any{"name": "a host", "kind": "host", "value": "192.0.2.8"})
	group := h.create(t, "/firewall/address-groups", map[string]any{"name": "group", "members": []string{host}})
	service := h.create(t, "/firewall/services", map[string]any{"name": "service", "protocol": "tcp", "port_start": 8000})
	services := h.create(t, "/firewall/service-groups", map[string]any{"name": "services", "members": []string{service}})
	var rules []string
	for i := range 40 {
		body := map[string]any{"src_zone": "lan", "dst_zone": "wan", "src_kind": "cidr", "src_cidr": fmt.Sprintf("10.%d.0.0/16", i), "priority": 100 + i/4}
		switch i % 4 {
		case 1:
			body["dst_kind"], body["dst_object_id"], body["service_object_id"] = "object", host, service
		case 2:
			body["dst_kind"], body["dst_group_id"], body["service_group_id"] = "group", group, services
		case 3:
			body["src_zone"] = "any"
		}
		rules = append(rules, h.rule(t, body))
		whole("a new rule")
	}
	nat := h.create(t, "/nat-rules", map[string]any{"name": "nat", "kind": "masquerade", "in_zone": "any", "out_zone": "wan", "protocol": "any", "src_cidr": "10.0.0.0/8"})
	whole("a new NAT rule")
	change(http.MethodPut, "/firewall/address-objects/"+host, map[string]any{"value": "192.0.2.0/28", "kind": "network"})
	change(http.MethodPut, "/firewall/address-groups/"+group, map[string]any{"members": []string{host, other}})
	change(http.MethodPut, "/firewall/services/"+service, map[string]any{"port_start": 9000})
	change(http.MethodPut, "/firewall/service-groups/"+services, map[string]any{"members": []string{}})
	for i, id := range rules {
		switch i % 5 {
		case 0:
			change(http.MethodDelete, "/firewall/rules/"+id, nil)
		case 1:
			change(http.MethodPut, "/firewall/rules/"+id, map[string]any{"priority": 1000 - i, "action": "drop"})
		case 2:
			change(http.MethodPut, "/firewall/rules/"+id, map[string]any{"enabled": false})
		case 3:
			change(http.MethodPost, "/firewall/rules/"+id+"/move", map[string]any{"after": nil})
		}
	}
	change(http.MethodPut, "/nat-rules/"+nat, map[string]any{"src_cidr": "10.9.0.0/16"})
	change(http.MethodDelete, "/nat-rules/"+nat, nil)
	h.provide(t, func() { h.interfaces["lan"] = []string{"lan0", "lan2"} })
	h.rule(t, map[string]any{"src_zone": "wan", "dst_zone": "lan"})
	whole("another interface")
	h.provide(t, func() { h.openings = []policy.Opening{{Service: "dns", Proto: policy.UDP, Port: 53}} })
	for _, runs := range [][]policy.Opening{{{Service: "dns", Proto: policy.UDP, Port: 53}, {Service: "ntp", Proto: policy.UDP, Port: 123}}, nil} {
		h.mu.Lock()
		h.standing = runs // which has no revision
		h.mu.Unlock()
		h.rule(t, map[string]any{"src_zone": "wan", "dst_zone": "lan"})
		whole("an opening of what runs")
	}
}

func TestWhatTheDatabaseRefusesTheKernelDoesNotSee(t *testing.T) {
	h := newHouse(t)
	h.rule(t, map[string]any{})
	before, err := h.Host.FilterState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.Do(t, "admin", http.MethodPost, "/firewall/rules", map[string]any{"name": "rule", "action": "accept", "dst_kind": "object", "dst_object_id": "00000000-0000-7000-8000-00000000ffff"}).Want(t, 400)
	if after, err := h.Host.FilterState(t.Context()); err != nil || after != before {
		t.Errorf("%+v, %v instead of %+v", after, err, before)
	}
}

func TestAChangeThatIsNotStoredIsNotLive(t *testing.T) {
	h := newHouse(t)
	kept := h.rule(t, map[string]any{"name": "kept"})
	// The second operation is refused after the packet filter has checked the first.
	h.Do(t, "admin", http.MethodPost, "/change-sets", map[string]any{"operations": []any{
		map[string]any{"kind": "firewall.rule", "verb": "delete", "id": kept},
		map[string]any{"kind": "firewall.zone", "verb": "create", "body": map[string]any{"name": "wan"}},
	}}).Want(t, 409)
	if len(readTable(t).with("gid:"+kept)) != 1 {
		t.Error("the rule is gone from the kernel")
	}
	preview := h.Do(t, "admin", http.MethodPost, "/change-sets", map[string]any{"preview": true, "operations": []any{
		map[string]any{"kind": "firewall.rule", "verb": "delete", "id": kept},
	}}).Want(t, 200)
	if !strings.Contains(string(preview.Data), "gid:"+kept) {
		t.Errorf("no diff: %s", preview.Data)
	}
	if len(readTable(t).with("gid:"+kept)) != 1 {
		t.Error("a preview was applied")
	}
}
