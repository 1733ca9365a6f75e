package dns_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/dns"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
)

// resolver is one in memory: it reads its file at its start or on request, and accepts commands in between.
type resolver struct {
	machine  *kittest.Bench
	mu       sync.Mutex
	started  int
	options  map[string][]string
	zones    map[string]string
	records  []string
	commands []string
	refuses  string // commands that contain this
}

func (u *resolver) answer(q unbound.Question) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := u.machine.Machine.Restarts(unbound.Unit); n != u.started {
		u.started = n
		u.read()
	}
	line := strings.Join(q, " ")
	if q[0] != "get_option" && !strings.HasPrefix(q[0], "list") {
		u.commands = append(u.commands, line)
	}
	if u.refuses != "" && strings.Contains(line, u.refuses) {
		return "error refused", nil
	}
	switch q[0] {
	case "get_option":
		return strings.Join(u.options[q[1]], "\n"), nil
	case "reload_keep_cache":
		u.read()
	case "list_local_zones":
		list := []string{"localhost. redirect", "test. static"}
		for name, kind := range u.zones {
			list = append(list, name+" "+kind)
		}
		return strings.Join(list, "\n"), nil
	case "list_local_data":
		return strings.ReplaceAll(strings.Join(u.records, "\n\n"), `\034`, `\"`), nil
	case "local_zone":
		u.zones[q[1]] = q[2]
	case "local_zone_remove":
		delete(u.zones, q[1])
		u.forget(q[1])
	case "local_data":
		u.add(q[1])
	case "local_data_remove":
		u.forget(q[1])
	}
	return "ok", nil
}

func (u *resolver) add(record string) {
	u.records = append(u.records, strings.Replace(record, " ", "\t", 4))
}

func (u *resolver) forget(name string) {
	u.records = slices.DeleteFunc(u.records, func(r string) bool { return strings.HasPrefix(r, name+"\t") })
}

func (u *resolver) read() {
	content, err := u.machine.Machine.Read(unbound.DropIn)
	if err != nil {
		panic(err)
	}
	u.options = map[string][]string{"interface-automatic": {"no"}, "ip-freebind": {"no"}}
	u.zones, u.records = map[string]string{}, nil
	for line := range strings.Lines(string(content)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "local-zone":
			zone, kind, _ := strings.Cut(text, " ")
			u.zones[strings.Trim(zone, `"`)] = kind
		case "local-data":
			u.add(text[1 : len(text)-1])
		case "interface":
			u.options[name] = append(u.options[name], strings.Trim(text, `"`))
		default:
			u.options[name] = []string{text}
		}
	}
}

// newCommands returns the commands since the last call.
func (u *resolver) newCommands() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.commands
	u.commands = nil
	return list
}

func bench(t *testing.T) (*kittest.Bench, *dns.Room, *resolver) {
	t.Helper()
	b := kittest.New(t)
	u := &resolver{machine: b}
	b.Machine.AnswerResolver(u.answer)
	room := dns.New(b.Kit)
	room.Mount()
	b.Resources.MountChangeSets()
	b.Start(t)
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatalf("not live at start: %v", failed)
	}
	u.newCommands()
	return b, room, u
}

func dropIn(t *testing.T, b *kittest.Bench) string {
	t.Helper()
	content, err := b.Machine.Read(unbound.DropIn)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// create creates a row that is live at once.
func create(t *testing.T, b *kittest.Bench, path string, body any) string {
	t.Helper()
	a := b.Do(t, "admin", http.MethodPost, path, body).Want(t, 201)
	if got := a.Header.Get("Gateway-Apply"); got != "dns=live" {
		t.Fatalf("apply: %q", got)
	}
	var row struct{ ID string }
	a.Into(t, &row)
	return row.ID
}

func zone(t *testing.T, b *kittest.Bench, name string) string {
	t.Helper()
	return create(t, b, "/dns/zones", map[string]any{"name": name})
}

type fields = map[string]any

func record(t *testing.T, b *kittest.Bench, zone, name, kind, value string) string {
	t.Helper()
	return create(t, b, "/dns/records", fields{"zone_id": zone, "name": name, "type": kind, "value": value})
}

func wantSaid(t *testing.T, u *resolver, want ...string) {
	t.Helper()
	if got := u.newCommands(); !slices.Equal(got, want) {
		t.Fatalf("unbound got\n%s\ninstead of\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDN01(t *testing.T) {
	b, _, _ := bench(t)
	for body, field := range map[string]string{
		`{"upstream_forwards":["8.8.8.8@70000"]}`:                            "upstream_forwards",
		`{"upstream_forwards":["8.8.8.8@0"]}`:                                "upstream_forwards",
		`{"upstream_forwards":["8.8.8.8@053"]}`:                              "upstream_forwards",
		`{"upstream_forwards":["8.8.8.8@"]}`:                                 "upstream_forwards",
		`{"upstream_forwards":["dns.example.net"]}`:                          "upstream_forwards",
		`{"upstream_forwards":["0.0.0.0"]}`:                                  "upstream_forwards",
		`{"upstream_forwards":["224.0.0.251"]}`:                              "upstream_forwards",
		`{"upstream_forwards":["fe80::1%eth0"]}`:                             "upstream_forwards",
		`{"upstream_forwards":["127.0.0.1"]}`:                                "upstream_forwards",
		`{"upstream_forwards":["::1@53"]}`:                                   "upstream_forwards",
		`{"upstream_forwards":["10.0.0.1"],"listen_addresses":["10.0.0.1"]}`: "upstream_forwards",
		`{"upstream_forwards":[""]}`:                                         "upstream_forwards",
		`{"access_acl":["10.0.0.0/33"]}`:                                     "access_acl",
		`{"access_acl":["lan"]}`:                                             "access_acl",
		`{"listen_addresses":["x"]}`:                                         "listen_addresses",
		`{"listen_addresses":["10.0.0.0/8"]}`:                                "listen_addresses",
		`{"cache_min_ttl":100,"cache_max_ttl":99}`:                           "cache_max_ttl",
		`{"cache_min_ttl":-1}`:                                               "cache_min_ttl",
		`{"cache_max_ttl":604801}`:                                           "cache_max_ttl",
		`{"dnssec_validation":"yes"}`:                                        "dnssec_validation",
		`{"qname_minimisation":1}`:                                           "qname_minimisation",
		`{"forwards":[]}`:                                                    "forwards",
	} {
		b.Do(t, "admin", http.MethodPut, "/dns/settings", body).WantField(t, field)
	}
	if b.Audited(t, "dns.settings.update") != 0 {
		t.Fatal("a refused change is audited")
	}
}

func TestSettings(t *testing.T) {
	b, room, u := bench(t)
	var s dns.Settings
	b.Get(t, "/dns/settings").Want(t, 200).Into(t, &s)
	if len(s.UpstreamForwards) != 2 || !s.DNSSECValidation || !s.QNAMEMinimisation || s.CacheMaxTTL != 86400 || len(s.ListenAddresses) != 2 {
		t.Fatalf("%+v", s)
	}
	if openings, err := room.Openings(t.Context(), b.DB); err != nil || len(openings) != 0 {
		t.Fatalf("loopback is opened: %+v, %v", openings, err)
	}
	restarts := b.Machine.Restarts(unbound.Unit)
	a := b.Do(t, "admin", http.MethodPut, "/dns/settings", `{"upstream_forwards":["192.0.2.1@5353","2001:DB8::1"],"access_acl":["10.0.0.7/8"],"dnssec_validation":false,"qname_minimisation":false,"cache_min_ttl":5}`).Want(t, 200)
	if a.Header.Get("Gateway-Apply") != "dns=live" {
		t.Fatalf("%v", a.Header)
	}
	wantSaid(t, u, "reload_keep_cache")
	for _, line := range []string{`forward-addr: "192.0.2.1@5353"`, `forward-addr: "2001:db8::1"`, `access-control: "10.0.0.0/8" allow`, `module-config: "iterator"`, "qname-minimisation: no", "cache-min-ttl: 5"} {
		if !strings.Contains(dropIn(t, b), "\n  "+line+"\n") {
			t.Errorf("no %q in\n%s", line, dropIn(t, b))
		}
	}
	// Another address needs another process.
	b.Do(t, "admin", http.MethodPut, "/dns/settings", `{"listen_addresses":["10.10.0.1","127.0.0.1"]}`).Want(t, 200)
	if b.Machine.Restarts(unbound.Unit) != restarts+1 {
		t.Fatal("not started anew")
	}
	openings, err := room.Openings(t.Context(), b.DB)
	if err != nil || len(openings) != 2 || openings[0].Port != 53 || openings[1].Port != 53 || openings[0].Proto == openings[1].Proto || len(openings[0].Addresses) != 1 {
		t.Fatalf("openings: %+v, %v", openings, err)
	}
	got := b.Do(t, "admin", http.MethodPut, "/dns/settings", `{"listen_addresses":["::"]}`).Want(t, 200)
	if openings, _ := room.Openings(t.Context(), b.DB); len(openings) != 2 || len(openings[0].Addresses) != 0 {
		t.Fatalf("openings: %+v", openings)
	}
	if !strings.Contains(dropIn(t, b), "\n  interface-automatic: yes\n") || b.Machine.Restarts(unbound.Unit) != restarts+2 {
		t.Fatalf("not everywhere:\n%s", dropIn(t, b))
	}
	// What GET returned can be sent back unchanged.
	installs := b.Machine.Installs(unbound.DropIn)
	u.newCommands()
	b.Do(t, "admin", http.MethodPut, "/dns/settings", string(got.Data)).Want(t, 200)
	wantSaid(t, u)
	if b.Machine.Installs(unbound.DropIn) != installs {
		t.Fatal("a change that alters no byte touched the machine")
	}
	b.Do(t, "admin", http.MethodPut, "/dns/settings", `{"upstream_forwards":[]}`).Want(t, 200)
	if strings.Contains(dropIn(t, b), "forward-zone") {
		t.Fatal("it still asks others")
	}
}

func TestZones(t *testing.T) {
	b, _, u := bench(t)
	for _, name := range []string{``, `.`, `a..b`, `-a`, `a-`, `a b`, `192.0.2.1`, `1.2.3`, `::1`, `x.invalid`, `invalid`, `*.a`, `ä`, `a\n`, strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a"} {
		b.Do(t, "admin", http.MethodPost, "/dns/zones", fields{"name": strings.ReplaceAll(name, `\n`, "\n")}).WantField(t, "name")
	}
	for body, field := range map[string]string{
		`{}`:                                "name",
		`{"name":"lan","forward_to":["x"]}`: "forward_to",
		`{"name":"lan","forward_to":["127.0.0.1"]}`: "forward_to",
		`{"name":"lan","active":1}`:                 "active",
		`{"name":"lan","description":"a\nb"}`:       "description",
	} {
		b.Do(t, "admin", http.MethodPost, "/dns/zones", body).WantField(t, field)
	}
	if b.Rows(t, "dns_zones") != 0 {
		t.Fatal("a refused zone is stored")
	}
	id := create(t, b, "/dns/zones", `{"name":"Corp.Example.NET.","forward_to":["10.0.0.53","127.0.0.1@5353"],"description":"x'\"y"}`)
	wantSaid(t, u, "reload_keep_cache")
	for _, line := range []string{`local-zone: "corp.example.net." transparent`, `domain-insecure: "corp.example.net."`, `forward-addr: "10.0.0.53"`, "do-not-query-localhost: no"} {
		if !strings.Contains(dropIn(t, b), "\n  "+line+"\n") {
			t.Errorf("no %q in\n%s", line, dropIn(t, b))
		}
	}
	b.Do(t, "admin", http.MethodPost, "/dns/zones", `{"name":"corp.example.net"}`).Want(t, 409)
	for _, name := range []string{"lan", "10.in-addr.arpa", "8.b.d.0.1.0.0.2.ip6.arpa", "_msdcs.corp.example.net"} {
		zone(t, b, name)
	}
	record(t, b, id, "www", "A", "10.0.0.1")
	u.newCommands()
	// A description is only for the operator.
	b.Do(t, "admin", http.MethodPatch, "/dns/zones/"+id, `{"description":"z"}`).Want(t, 200)
	wantSaid(t, u)
	b.Do(t, "admin", http.MethodPut, "/dns/zones/"+id, `{"forward_to":[],"name":"corp.example.org"}`).Want(t, 200)
	if file := dropIn(t, b); !strings.Contains(file, `"www.corp.example.org. 3600 IN A 10.0.0.1"`) || strings.Contains(file, "domain-insecure") {
		t.Fatalf("not moved:\n%s", file)
	}
	b.Do(t, "admin", http.MethodPut, "/dns/zones/"+id, `{"active":false}`).Want(t, 200)
	if strings.Contains(dropIn(t, b), "corp.example.org") {
		t.Fatal("still active")
	}
	b.Do(t, "admin", http.MethodDelete, "/dns/zones/"+id, nil).Want(t, 200)
	if b.Rows(t, "dns_records") != 0 {
		t.Fatal("the records are still there")
	}
	for action, n := range map[string]int{"dns.zone.create": 5, "dns.zone.update": 3, "dns.zone.delete": 1} {
		if got := b.Audited(t, action); got != n {
			t.Errorf("%s audited %d times", action, got)
		}
	}
}

// A zone cannot get a name at which its records collide with others.
func TestZoneThatMovesOntoAnother(t *testing.T) {
	b, _, _ := bench(t)
	lan, sub := zone(t, b, "lan"), zone(t, b, "sub.other")
	record(t, b, lan, "www.sub", "CNAME", "x.example.net")
	record(t, b, sub, "www", "A", "10.0.0.1")
	b.Do(t, "admin", http.MethodPut, "/dns/zones/"+sub, `{"name":"sub.lan"}`).WantField(t, "name")
	long := record(t, b, sub, strings.Repeat("a.", 100)+"b", "A", "10.0.0.1")
	b.Do(t, "admin", http.MethodPut, "/dns/zones/"+sub, fields{"name": strings.Repeat("b.", 30) + "c"}).WantField(t, "name")
	b.Do(t, "admin", http.MethodDelete, "/dns/records/"+long, nil).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, "/dns/zones/"+sub, fields{"name": strings.Repeat("b.", 30) + "c"}).Want(t, 200)
}

func TestRecordLife(t *testing.T) {
	b, _, u := bench(t)
	lan := zone(t, b, "lan")
	runs := b.Machine.Runs(unbound.Check)
	u.newCommands()
	id := record(t, b, lan, "www", "A", "10.0.0.1")
	wantSaid(t, u, "local_zone www.lan. transparent", "local_data www.lan. 3600 IN A 10.0.0.1")
	second := record(t, b, lan, "WWW.lan", "AAAA", "2001:DB8::1")
	wantSaid(t, u, "local_data www.lan. 3600 IN AAAA 2001:db8::1")
	b.Do(t, "admin", http.MethodPut, "/dns/records/"+id, `{"ttl":60}`).Want(t, 200)
	wantSaid(t, u, "local_zone www.lan. deny", "local_data_remove www.lan.", "local_data www.lan. 3600 IN AAAA 2001:db8::1", "local_data www.lan. 60 IN A 10.0.0.1", "local_zone www.lan. transparent")
	b.Do(t, "admin", http.MethodDelete, "/dns/records/"+second, nil).Want(t, 200)
	wantSaid(t, u, "local_zone www.lan. deny", "local_data_remove www.lan.", "local_data www.lan. 60 IN A 10.0.0.1", "local_zone www.lan. transparent")
	b.Do(t, "admin", http.MethodDelete, "/dns/records/"+id, nil).Want(t, 200)
	wantSaid(t, u, "local_zone_remove www.lan.")
	// The zone itself stays when its last record is deleted.
	apex := record(t, b, lan, "", "A", "10.0.0.1")
	u.newCommands()
	b.Do(t, "admin", http.MethodDelete, "/dns/records/"+apex, nil).Want(t, 200)
	wantSaid(t, u, "local_data_remove lan.")
	// Several at once.
	b.Do(t, "admin", http.MethodPost, "/change-sets", fields{"operations": []fields{
		{"kind": "dns.record", "verb": "create", "body": fields{"zone_id": lan, "name": "a", "type": "A", "value": "10.0.0.1"}},
		{"kind": "dns.record", "verb": "create", "body": fields{"zone_id": lan, "name": "a", "type": "A", "value": "10.0.0.2"}},
	}}).Want(t, 200)
	wantSaid(t, u, "local_zone a.lan. transparent", "local_data a.lan. 3600 IN A 10.0.0.1", "local_data a.lan. 3600 IN A 10.0.0.2")
	if b.Machine.Runs(unbound.Check) != runs {
		t.Error("the checker was asked about a record")
	}
	// The files follow, and unbound has what is stored.
	waittest.UntilNil(t, "the files follow", func() error {
		if file := dropIn(t, b); !strings.Contains(file, `"a.lan. 3600 IN A 10.0.0.2"`) {
			return errors.New(file)
		}
		return nil
	})
	for action, n := range map[string]int{"dns.record.create": 5, "dns.record.update": 1, "dns.record.delete": 3} {
		if got := b.Audited(t, action); got != n {
			t.Errorf("%s audited %d times", action, got)
		}
	}
	if n := b.Machine.Restarts(unbound.Unit); n != 1 {
		t.Errorf("%d restarts", n)
	}
}

// Records of a zone that is off are stored, and unbound gets nothing.
func TestRecordOfAnInactiveZone(t *testing.T) {
	b, _, u := bench(t)
	id := create(t, b, "/dns/zones", `{"name":"lan","active":false}`)
	u.newCommands()
	record(t, b, id, "www", "A", "10.0.0.1")
	wantSaid(t, u)
	b.Do(t, "admin", http.MethodPut, "/dns/zones/"+id, `{"active":true}`).Want(t, 200)
	wantSaid(t, u, "reload_keep_cache")
	if !strings.Contains(dropIn(t, b), "www.lan.") {
		t.Fatal("not there")
	}
}

func TestDN02(t *testing.T) {
	b, _, _ := bench(t)
	lan := zone(t, b, "corp.lan")
	for i, x := range [][2]string{
		{"@", "@"}, {"", "@"}, {"corp.lan", "@"}, {"CORP.lan.", "@"}, {"a", "a"}, {"a.corp.lan.", "a"}, {"A.corp.LAN", "a"}, {"a.b", "a.b"}, {"_sip._tcp", "_sip._tcp"},
		{"*.x", "*.x"}, {"*.y.corp.lan.", "*.y"}, {"z.corp.lan.corp.lan.", "z.corp.lan.corp.lan."},
		{"a.lan", "a.lan"}, {"corp.lan.corp.lan.", "corp.lan.corp.lan."}, {"a.", "a."}, {"www.Example.net.", "www.example.net."},
	} {
		a := b.Do(t, "admin", http.MethodPost, "/dns/records", fields{"zone_id": lan, "name": x[0], "type": "TXT", "value": fmt.Sprint(i)}).Want(t, 201)
		var r dns.Record
		if a.Into(t, &r); r.Name != x[1] {
			t.Errorf("%q is stored as %q", x[0], r.Name)
		}
		// What was returned can be sent back.
		if again := b.Do(t, "admin", http.MethodPut, "/dns/records/"+r.ID.String(), string(a.Data)).Want(t, 200); !strings.Contains(string(again.Data), fmt.Sprintf(`"name":%q`, x[1])) {
			t.Errorf("%q moves: %s", x[1], again.Data)
		}
	}
	for _, name := range []string{"1.2.3.4.", "a.invalid.", "corp.lan..", ".", "a..b", "a b", "-a", "a/b", "ä", "x.*", "*.*", "a*", strings.Repeat("a", 64), strings.Repeat("a.", 123) + "a", "@.a", "a\\046b", "a\"b", "a'b", "#a"} {
		b.Do(t, "admin", http.MethodPost, "/dns/records", fields{"zone_id": lan, "name": name, "type": "A", "value": "10.0.0.1"}).WantField(t, "name")
	}
	b.Do(t, "admin", http.MethodPost, "/dns/records", fields{"zone_id": "00000000-0000-7000-8000-000000000000", "name": "a", "type": "A", "value": "10.0.0.1"}).WantField(t, "zone_id")
	b.Do(t, "admin", http.MethodPost, "/dns/records", fields{"name": "a", "type": "A", "value": "10.0.0.1"}).WantField(t, "zone_id")
}

func TestValues(t *testing.T) {
	b, _, _ := bench(t)
	lan := zone(t, b, "lan")
	number := func(p *int) string {
		if p == nil {
			return "-"
		}
		return fmt.Sprint(*p)
	}
	for i, x := range []struct{ kind, value, stored, numbers, written string }{
		{"A", "192.0.2.1", "192.0.2.1", "- - -", "A 192.0.2.1"},
		{"AAAA", "2001:DB8:0::1", "2001:db8::1", "- - -", "AAAA 2001:db8::1"},
		{"CNAME", "Web", "web.lan.", "- - -", "CNAME web.lan."},
		{"CNAME", "web.example.NET", "web.example.net.", "- - -", "CNAME web.example.net."},
		{"NS", "ns.", "ns.", "- - -", "NS ns."},
		{"PTR", "@", "lan.", "- - -", "PTR lan."},
		{"MX", " 10  mail ", "mail.lan.", "10 - -", "MX 10 mail.lan."},
		{"MX", "0 .", ".", "0 - -", "MX 0 ."},
		{"SRV", "1 2 5060 sip.lan.", "sip.lan.", "1 2 5060", "SRV 1 2 5060 sip.lan."},
		{"TXT", `it's "so" \ ä`, `it's "so" \ ä`, "- - -", `TXT "it\039s \034so\034 \092 \195\164"`},
		{"TXT", " ", " ", "- - -", `TXT " "`},
		{"CAA", `0 issue "ca.example.net"`, `0 issue "ca.example.net"`, "- - -", `CAA 0 issue "ca.example.net"`},
		{"CAA", `128 IssueWild ;`, `128 issuewild ";"`, "- - -", `CAA 128 issuewild ";"`},
		{"CAA", `0 iodef "mailto:o'neil@example.net"`, `0 iodef "mailto:o'neil@example.net"`, "- - -", `CAA 0 iodef "mailto:o\039neil@example.net"`},
	} {
		name := fmt.Sprintf("v%d", i)
		a := b.Do(t, "admin", http.MethodPost, "/dns/records", fields{"zone_id": lan, "name": name, "type": x.kind, "value": x.value}).Want(t, 201)
		var r dns.Record
		a.Into(t, &r)
		if numbers := number(r.Priority) + " " + number(r.Weight) + " " + number(r.Port); r.Value != x.stored || numbers != x.numbers {
			t.Errorf("%s %q is stored as %q with %s", x.kind, x.value, r.Value, numbers)
		}
		b.Do(t, "admin", http.MethodPut, "/dns/records/"+r.ID.String(), string(a.Data)).Want(t, 200)
		if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 || !strings.Contains(dropIn(t, b), name+".lan. 3600 IN "+x.written) {
			t.Errorf("no %s in\n%s%v", x.written, dropIn(t, b), failed)
		}
	}
}

func TestDN04(t *testing.T) {
	b, _, u := bench(t)
	lan := zone(t, b, "lan")
	u.newCommands()
	for _, x := range [][2]string{
		{"A", "x"}, {"A", "2001:db8::1"}, {"A", "192.0.2.1 "}, {"A", "192.0.2.01"}, {"A", "192.0.2.1/24"}, {"AAAA", "192.0.2.1"}, {"AAAA", "::ffff:192.0.2.1"}, {"AAAA", "fe80::1%eth0"},
		{"CNAME", "."}, {"CNAME", "a b"}, {"CNAME", strings.Repeat("a", 64)}, {"NS", "a_-"}, {"PTR", "a..b"}, {"MX", "mail"}, {"MX", "x mail"}, {"MX", "65536 mail"}, {"MX", "-1 mail"},
		{"MX", "10 mail x"}, {"MX", "10 a;b"}, {"SRV", "sip"}, {"SRV", "1 2 sip"}, {"SRV", "1 2 65536 sip"}, {"CAA", "issue ca"}, {"CAA", "256 issue \"ca\""}, {"CAA", "0 isue \"ca\""},
		{"CAA", `0 issue "a"b"`}, {"CAA", `0 issue "a`}, {"CAA", "0 issue \"ä\""}, {"CAA", `0 issue "` + strings.Repeat("a", 256) + `"`}, {"TXT", ""}, {"TXT", "a\x00b"}, {"TXT", strings.Repeat("a", 4097)},
	} {
		b.Do(t, "admin", http.MethodPost, "/dns/records", fields{"zone_id": lan, "name": "x", "type": x[0], "value": x[1]}).WantField(t, "value")
	}
	for body, field := range map[string]string{
		`"type":"HINFO","value":"x"`:                       "type",
		`"type":"a","value":"192.0.2.1"`:                   "type",
		`"type":"A","value":"192.0.2.1","ttl":-1`:          "ttl",
		`"type":"A","value":"192.0.2.1","ttl":2147483648`:  "ttl",
		`"type":"A","value":"192.0.2.1","priority":1`:      "priority",
		`"type":"MX","value":"1 a","port":1`:               "port",
		`"type":"MX","value":"1 a","priority":2`:           "priority",
		`"type":"MX","value":"a","priority":65536`:         "priority",
		`"type":"SRV","value":"a","priority":1,"weight":1`: "value",
		`"type":"SRV","value":"1 2 3 a","weight":3`:        "weight",
		`"value":"192.0.2.1"`:                              "type",
		`"type":"A"`:                                       "value",
	} {
		b.Do(t, "admin", http.MethodPost, "/dns/records", `{"zone_id":"`+lan+`","name":"x",`+body+`}`).WantField(t, field)
	}
	if b.Rows(t, "dns_records") != 0 || len(u.newCommands()) != 0 {
		t.Fatal("something was stored or sent")
	}
}

// Numbers may be in the value or in their fields, and the newer one counts.
func TestNumbers(t *testing.T) {
	b, _, u := bench(t)
	lan := zone(t, b, "lan")
	mx := create(t, b, "/dns/records", fields{"zone_id": lan, "type": "MX", "value": "mail", "priority": 10})
	u.newCommands()
	for body, want := range map[string]string{`{"value":"20 mail"}`: "20 mail", `{"priority":30}`: "30 mail", `{"value":"other"}`: "30 other", `{"value":"40 mail","priority":40}`: "40 mail"} {
		b.Do(t, "admin", http.MethodPut, "/dns/records/"+mx, `{"value":"mail","priority":30}`).Want(t, 200)
		u.newCommands()
		b.Do(t, "admin", http.MethodPut, "/dns/records/"+mx, body).Want(t, 200)
		if got := u.newCommands(); body != `{"priority":30}` && !slices.Contains(got, "local_data lan. 3600 IN MX "+want+".lan.") {
			t.Errorf("%s: %v", body, got)
		}
	}
	b.Do(t, "admin", http.MethodPut, "/dns/records/"+mx, `{"value":"50 mail","priority":51}`).WantField(t, "priority")
	// Another type does not use them.
	var r dns.Record
	b.Do(t, "admin", http.MethodPut, "/dns/records/"+mx, `{"type":"A","value":"192.0.2.1"}`).Want(t, 200).Into(t, &r)
	if r.Priority != nil {
		t.Fatal("an address with a priority")
	}
}

func TestRecordsBesideOthers(t *testing.T) {
	b, _, _ := bench(t)
	lan, sub := zone(t, b, "lan"), zone(t, b, "sub.lan")
	taken := func(zone, name, value string) {
		t.Helper()
		b.Do(t, "admin", http.MethodPost, "/dns/records", fields{"zone_id": zone, "name": name, "type": "A", "value": value}).WantTaken(t, "value")
	}
	refused := func(field, zone, name, kind, value string) {
		t.Helper()
		b.Do(t, "admin", http.MethodPost, "/dns/records", fields{"zone_id": zone, "name": name, "type": kind, "value": value}).WantField(t, field)
	}
	a := record(t, b, lan, "a", "A", "10.0.0.1")
	taken(lan, "A.lan.", "10.0.0.1")
	refused("type", lan, "a", "CNAME", "b")
	alias := record(t, b, lan, "alias", "CNAME", "a")
	refused("name", lan, "alias", "A", "10.0.0.1")
	refused("type", lan, "alias", "CNAME", "b")
	refused("type", lan, "@", "CNAME", "b")
	refused("value", lan, "self", "CNAME", "self")
	refused("value", lan, "chain", "CNAME", "alias")
	record(t, b, lan, "*.many", "CNAME", "far.example.net")
	refused("value", lan, "chain", "CNAME", "many")
	refused("type", lan, "*", "CNAME", "b")
	b.Do(t, "admin", http.MethodPut, "/dns/records/"+a, `{"type":"CNAME","value":"b"}`).WantField(t, "type") // an alias points to it
	b.Do(t, "admin", http.MethodPut, "/dns/records/"+alias, `{"value":"b"}`).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, "/dns/records/"+a, `{"type":"CNAME","value":"b"}`).Want(t, 200)
	// In any zone.
	record(t, b, sub, "x", "A", "10.0.0.1")
	taken(lan, "x.sub", "10.0.0.1")
	refused("type", lan, "x.sub", "CNAME", "b")
	// A wildcard answers for its name, too.
	record(t, b, lan, "*.w", "A", "10.0.0.1")
	refused("name", lan, "w", "A", "10.0.0.1")
	record(t, b, lan, "x.w", "A", "10.0.0.1")
	record(t, b, lan, "v", "A", "10.0.0.1")
	refused("name", lan, "*.v", "A", "10.0.0.1")
}

// An alias of a local name needs a link to it, as long as the name is local.
func TestLinks(t *testing.T) {
	b, _, u := bench(t)
	lan := zone(t, b, "lan")
	linked := func() bool { return strings.Contains(dropIn(t, b), "stub-zone:\n  name: \"web.lan.\"") }
	record(t, b, lan, "www", "CNAME", "web")
	if linked() {
		t.Fatal("linked to nothing")
	}
	u.newCommands()
	web := record(t, b, lan, "web", "A", "10.0.0.1")
	wantSaid(t, u, "reload_keep_cache", "flush web.lan.", "flush_type web.lan. TXT", "flush_type web.lan. CAA")
	if !linked() {
		t.Fatalf("not linked:\n%s", dropIn(t, b))
	}
	second := record(t, b, lan, "web", "A", "10.0.0.2")
	b.Do(t, "admin", http.MethodDelete, "/dns/records/"+second, nil).Want(t, 200)
	if got := u.newCommands(); slices.Contains(got, "reload_keep_cache") {
		t.Fatalf("%v", got)
	}
	b.Do(t, "admin", http.MethodDelete, "/dns/records/"+web, nil).Want(t, 200)
	wantSaid(t, u, "reload_keep_cache")
	if linked() {
		t.Fatal("still linked")
	}
}

func TestRefusedByTheChecker(t *testing.T) {
	b, _, _ := bench(t)
	before := dropIn(t, b)
	b.Machine.Reject(unbound.Check, "error: bad zone")
	a := b.Do(t, "admin", http.MethodPost, "/dns/zones", `{"name":"lan"}`).Want(t, 400)
	if !strings.Contains(a.Error.Message, "bad zone") || dropIn(t, b) != before || b.Rows(t, "dns_zones") != 0 || b.Audited(t, "dns.zone.create") != 0 {
		t.Fatalf("%s\n%s", a.Body, dropIn(t, b))
	}
}

// When unbound refuses a command, it reads its file instead.
func TestRefusedCommand(t *testing.T) {
	b, _, u := bench(t)
	lan := zone(t, b, "lan")
	u.refuses = "local_data www.lan."
	u.newCommands()
	record(t, b, lan, "www", "A", "10.0.0.1")
	if got := u.newCommands(); !slices.Contains(got, "reload_keep_cache") {
		t.Fatalf("%v", got)
	}
	if !strings.Contains(dropIn(t, b), "www.lan.") {
		t.Fatal("not in the file")
	}
}

// A change made by someone else is found and undone.
func TestDrift(t *testing.T) {
	b, _, u := bench(t)
	lan := zone(t, b, "lan")
	record(t, b, lan, "www", "A", "10.0.0.1")
	record(t, b, lan, "text", "TXT", strings.Repeat("long'", 600))
	for name, drift := range map[string][]string{
		"a record less": {"local_data_remove", "www.lan."}, "a record more": {"local_data", "www.lan. 3600 IN A 10.0.0.2"}, "one of no name": {"local_data", "x.lan. 3600 IN A 10.0.0.2"},
		"another kind": {"local_zone", "www.lan.", "deny"}, "a name less": {"local_zone_remove", "www.lan."}, "a name more": {"local_zone", "x.example.net.", "transparent"},
		"another text": {"local_data_remove", "text.lan."}, "no mark": {"local_data_remove", "mark.gateway.invalid."},
	} {
		if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 {
			t.Fatal(failed)
		}
		u.newCommands()
		if s := b.Engine.Refresh(t.Context(), apply.DNS, false); s.State != apply.Live {
			t.Fatalf("%+v", s)
		}
		wantSaid(t, u) // nothing is missing
		if _, err := u.answer(drift); err != nil {
			t.Fatal(err)
		}
		if s := b.Engine.Refresh(t.Context(), apply.DNS, false); s.State != apply.Live {
			t.Fatalf("%+v", s)
		}
		if got := u.newCommands(); !slices.Contains(got, "reload_keep_cache") {
			t.Errorf("%s goes unnoticed", name)
		}
	}
}

func TestDaemonThatWillNotStart(t *testing.T) {
	b, _, _ := bench(t)
	before := dropIn(t, b)
	b.Machine.Refuse(unbound.Unit, errors.New("could not bind"))
	a := b.Do(t, "admin", http.MethodPut, "/dns/settings", `{"listen_addresses":["10.0.0.1"]}`).Want(t, 200)
	if a.Header.Get("Gateway-Apply") != "dns=degraded" || dropIn(t, b) != before {
		t.Fatalf("%v\n%s", a.Header, dropIn(t, b))
	}
	b.Machine.Refuse(unbound.Unit, nil)
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 || !strings.Contains(dropIn(t, b), "10.0.0.1") {
		t.Fatalf("does not converge: %v", failed)
	}
}

func TestDaemonThatIsNotInstalled(t *testing.T) {
	b, _, _ := bench(t)
	b.Machine.Uninstall(unbound.Unit)
	b.Machine.Missing(unbound.Check)
	a := b.Do(t, "admin", http.MethodPost, "/dns/zones", `{"name":"lan"}`).Want(t, 201)
	if a.Header.Get("Gateway-Apply") != "dns=not_installed" {
		t.Fatalf("%v", a.Header)
	}
	var s dns.Stats
	if b.Get(t, "/dns/stats").Want(t, 200).Into(t, &s); s.Error == "" {
		t.Fatalf("%+v", s)
	}
	var f dns.Flushed
	if b.Do(t, "admin", http.MethodPost, "/dns/flush-cache", nil).Want(t, 200).Into(t, &f); f.Error == "" || b.Audited(t, "dns.flush-cache") != 1 {
		t.Fatalf("%+v", f)
	}
}

func TestStatsAndFlush(t *testing.T) {
	b, _, u := bench(t)
	b.Machine.AnswerResolver(func(q unbound.Question) (string, error) {
		if q[0] != "stats_noreset" {
			return u.answer(q)
		}
		return "thread0.num.queries=7\ntotal.num.queries=200\ntotal.num.queries_ip_ratelimited=1\ntotal.num.cachehits=150\ntotal.num.cachemiss=50\ntotal.num.prefetch=3\n" +
			"total.num.recursivereplies=49\nnum.query.ratelimited=2\nunwanted.queries=9\nunwanted.replies=4\nmem.cache.rrset=1000\nmem.cache.message=500\ntime.up=12.5\n", nil
	})
	var s dns.Stats
	b.Get(t, "/dns/stats").Want(t, 200).Into(t, &s)
	if want := (dns.Stats{Queries: 200, CacheHits: 150, CacheMisses: 50, HitRate: 0.75, RecursiveReplies: 49, Prefetch: 3, RateLimited: 3, Unwanted: 4, CacheMemoryBytes: 1500, UptimeSeconds: 12.5, Reloads: s.Reloads}); s != want || s.Reloads == 0 {
		t.Fatalf("%+v", s)
	}
	var h dns.History
	if b.Get(t, "/dns/stats/history").Want(t, 200).Into(t, &h); h.StepSeconds != 5 || h.Points == nil {
		t.Fatalf("%+v", h)
	}
	u.newCommands()
	var f dns.Flushed
	b.Do(t, "admin", http.MethodPost, "/dns/flush-cache", nil).Want(t, 200).Into(t, &f)
	if f.Error != "" || b.Audited(t, "dns.flush-cache") != 1 {
		t.Fatalf("%+v", f)
	}
	wantSaid(t, u, "flush_zone .", "flush_bogus", "flush_negative")
	b.Do(t, "viewer", http.MethodPost, "/dns/flush-cache", nil).Want(t, 403)
}

func TestTraffic(t *testing.T) {
	at := time.Now()
	got := dns.TrafficBetween(at, dns.NewTotals(100, 50), dns.NewTotals(150, 90), 5)
	if got.Queries != 10 || got.HitRate != 0.8 || got.At != at {
		t.Errorf("%+v", got)
	}
	if got := dns.TrafficBetween(at, dns.NewTotals(100, 50), dns.NewTotals(10, 5), 5); got.Queries != 2 || got.HitRate != 0.5 {
		t.Errorf("after a new beginning: %+v", got)
	}
	if got := dns.TrafficBetween(at, dns.NewTotals(100, 50), dns.NewTotals(100, 50), 5); got.Queries != 0 || got.HitRate != 0 {
		t.Errorf("without questions: %+v", got)
	}
}
