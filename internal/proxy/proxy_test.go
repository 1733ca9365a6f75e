package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/proxy"
)

// bench is the room on a machine in memory, whose HAProxy accepts everything and reports nothing. The real one is tested in test/machine.
func bench(t *testing.T) *kittest.Bench {
	t.Helper()
	b := kittest.New(t)
	certificate := pem(t, "gw.example.net")
	proxy.New(b.Kit, proxy.Deps{
		FQDN:         func() string { return "gw.example.net" },
		IPv6:         func(context.Context, db.Querier) (bool, error) { return false, nil },
		Maintenance:  func() bool { return false },
		Certificates: func(context.Context, db.Querier) ([]proxy.Certificate, error) { return nil, nil },
		Default:      func() ([]byte, error) { return certificate, nil },
		Changed:      func(apply.Row) (was, now *proxy.Certificate, ok bool) { return nil, nil, false },
		SitesChanged: func() {},
		Inspections:  func(context.Context, db.Querier) ([]proxy.Inspection, error) { return nil, nil },
		InspectionOf: func(context.Context, db.Querier, uuid.UUID) (*proxy.Inspection, error) { return nil, nil },
		InspectionChanged: func(apply.Row) (domain uuid.UUID, was, now *proxy.Inspection, ok bool) {
			return uuid.Nil, nil, nil, false
		},
		Management: func() string { return "service" },
	}).Mount()
	b.Resources.MountChangeSets()
	b.Start(t)
	return b
}

// made creates a row and returns its id.
func made(t *testing.T, b *kittest.Bench, path string, body any) string {
	t.Helper()
	a := b.Do(t, "admin", http.MethodPost, path, body).Want(t, 201)
	var row struct{ ID string }
	if err := json.Unmarshal(a.Data, &row); err != nil {
		t.Fatal(err)
	}
	return row.ID
}

type body = map[string]any

// conflict expects a refusal because the value of a field is taken.
func conflict(t *testing.T, a *kittest.Answer, field string) {
	t.Helper()
	if a.Want(t, 409); !strings.Contains(string(a.Body), `"fields":{"`+field+`":`) {
		t.Errorf("the conflict is not about %s: %s", field, a.Body)
	}
}

func TestDefaults(t *testing.T) {
	b := bench(t)
	backend := made(t, b, "/backends", body{"name": "app"})
	a := b.Get(t, "/backends/"+backend).Want(t, 200)
	for _, want := range []string{`"scheme":"http"`, `"lb_algorithm":"roundrobin"`, `"active":true`, `"health_check_enabled":true`, `"health_check_path":"/"`, `"health_check_method":"GET"`,
		`"health_check_expect":"200-399"`, `"health_check_interval_seconds":5`, `"verify_tls":false`, `"force_http1":false`, `"websocket":false`, `"servers":[]`} {
		if !strings.Contains(string(a.Data), want) {
			t.Errorf("no %s in %s", want, a.Data)
		}
	}
	domain := made(t, b, "/domains", body{"name": "Shop.Example.NET.", "backend_id": backend})
	a = b.Get(t, "/domains/"+domain).Want(t, 200)
	for _, want := range []string{`"name":"shop.example.net"`, `"active":true`, `"http_to_https":true`, `"disable_h3":false`, `"hsts_enabled":false`, `"hsts_max_age":31536000`, `"maintenance":false`,
		`"max_body_size_bytes":0`, `"www_redirect":"none"`, `"certificate_id":null`} {
		if !strings.Contains(string(a.Data), want) {
			t.Errorf("no %s in %s", want, a.Data)
		}
	}
	server := made(t, b, "/backends/"+backend+"/servers", body{"name": "web 1.a", "address": "192.0.2.10", "port": 8080})
	a = b.Get(t, "/backend-servers/"+server).Want(t, 200)
	if !strings.Contains(string(a.Data), `"weight":100`) || !strings.Contains(string(a.Data), `"active":true`) {
		t.Errorf("%s", a.Data)
	}
	for _, path := range []string{"/backends", "/backends/" + backend} {
		if a := b.Get(t, path).Want(t, 200); strings.Count(string(a.Data), `"name":"web 1.a"`) != 1 {
			t.Errorf("%s shows no server: %s", path, a.Data)
		}
	}
	b.Do(t, "admin", http.MethodPut, "/backend-servers/"+server, body{"weight": 7}).Want(t, 200)
	if a := b.Get(t, "/backends").Want(t, 200); !strings.Contains(string(a.Data), `"weight":7`) {
		t.Errorf("the list of backends is old: %s", a.Data)
	}
	rule := made(t, b, "/routing-rules", body{"domain_id": domain, "path_prefix": "/api", "backend_id": backend})
	if a := b.Get(t, "/routing-rules/"+rule).Want(t, 200); !strings.Contains(string(a.Data), `"priority":10`) || !strings.Contains(string(a.Data), `"active":true`) {
		t.Errorf("%s", a.Data)
	}
}

func TestPX07ServerNames(t *testing.T) {
	b := bench(t)
	one, two := made(t, b, "/backends", body{"name": "one"}), made(t, b, "/backends", body{"name": "two"})
	server := func(backend, name string) *kittest.Answer {
		return b.Do(t, "admin", http.MethodPost, "/backends/"+backend+"/servers", body{"name": name, "address": "192.0.2.10", "port": 80})
	}
	server(one, "web 1").Want(t, 201)
	for _, same := range []string{"web.1", "web_1", "web 1", "web\t1", "web\n1"} {
		conflict(t, server(one, same), "name")
	}
	server(two, "web.1").Want(t, 201)
	for _, good := range []string{"a\tb", "c\nd", " e", "f "} {
		server(two, good).Want(t, 201)
	}
	for _, bad := range []string{"", "a/b", "a;b", "a'b", `a"b`, "ä", strings.Repeat("a", 101), "a%b", "a#b", "-\x00"} {
		server(two, bad).WantField(t, "name")
	}
}

func TestPX10PathPrefixes(t *testing.T) {
	b := bench(t)
	backend := made(t, b, "/backends", body{"name": "app"})
	domain := made(t, b, "/domains", body{"name": "a.example.net", "backend_id": backend})
	for _, bad := range []string{"", "x", "/a b", `/a" if TRUE`, "/a\n", "/ä", "/a?b", "/a#b", "/a|b", `/a\b`, "/%zz", "/" + strings.Repeat("a", 500)} {
		b.Do(t, "admin", http.MethodPost, "/routing-rules", body{"domain_id": domain, "backend_id": backend, "path_prefix": bad}).WantField(t, "path_prefix")
	}
	for _, good := range []string{"/", "/a", "/a/b/", "/a%20b", "/a;b=c", "/~x", "/'"} {
		b.Do(t, "admin", http.MethodPost, "/routing-rules", body{"domain_id": domain, "backend_id": backend, "path_prefix": good}).Want(t, 201)
	}
}

func TestPX11BackendInUse(t *testing.T) {
	b := bench(t)
	backend, spare := made(t, b, "/backends", body{"name": "app"}), made(t, b, "/backends", body{"name": "spare"})
	domain := made(t, b, "/domains", body{"name": "a.example.net", "backend_id": backend})
	rule := made(t, b, "/routing-rules", body{"domain_id": domain, "path_prefix": "/api", "backend_id": spare})
	a := b.Do(t, "admin", http.MethodDelete, "/backends/"+spare, nil).Want(t, 409)
	if !strings.Contains(string(a.Body), rule) || !strings.Contains(string(a.Body), "a.example.net/api") {
		t.Errorf("the user is not named: %s", a.Body)
	}
	b.Do(t, "admin", http.MethodDelete, "/backends/"+backend, nil).Want(t, 409)
	b.Get(t, "/backends/"+spare).Want(t, 200)
	b.Do(t, "admin", http.MethodDelete, "/routing-rules/"+rule, nil).Want(t, 200)
	b.Do(t, "admin", http.MethodDelete, "/backends/"+spare, nil).Want(t, 200)
	b.Get(t, "/backends/"+spare).Want(t, 404)
	b.Do(t, "admin", http.MethodDelete, "/domains/"+domain, nil).Want(t, 200)
	b.Do(t, "admin", http.MethodDelete, "/backends/"+backend, nil).Want(t, 200)
}

func TestPX12BadBackends(t *testing.T) {
	b := bench(t)
	for field, bad := range map[string][]any{
		"lb_algorithm": {"random", "", 1}, "scheme": {"ftp", "h2"}, "name": {"", "a\nb"}, "health_check_path": {"x", "/a b", ""},
		"health_check_expect": {"", "abc", "99", "600", "300-200", "200;x"}, "health_check_method": {"TRACE", "GET /x"},
		"health_check_interval_seconds": {0, 3601, "5"}, "health_check_host": {"a b", "a\r\nX: y"},
	} {
		for _, v := range bad {
			full := body{"name": "app"}
			full[field] = v
			b.Do(t, "admin", http.MethodPost, "/backends", full).WantField(t, field)
		}
	}
	backend := made(t, b, "/backends", body{"name": "app"})
	conflict(t, b.Do(t, "admin", http.MethodPost, "/backends", body{"name": "app"}), "name")
	for field, bad := range map[string][]any{"port": {0, 65536, "80"}, "weight": {-1, 257}, "address": {"", "a b", "192.0.2.1\nserver x", "fe80::1%eth0", "http://x"}} {
		for _, v := range bad {
			full := body{"name": "s", "address": "192.0.2.10", "port": 80}
			full[field] = v
			b.Do(t, "admin", http.MethodPost, "/backends/"+backend+"/servers", full).WantField(t, field)
		}
	}
	b.Do(t, "admin", http.MethodPost, "/backends/0190a000-0000-7000-8000-000000000000/servers", body{"name": "s", "address": "192.0.2.10", "port": 80}).Want(t, 404)
}

func TestPX13HeaderThroughTheWrongDomain(t *testing.T) {
	b := bench(t)
	backend := made(t, b, "/backends", body{"name": "app"})
	mine, other := made(t, b, "/domains", body{"name": "a.example.net", "backend_id": backend}), made(t, b, "/domains", body{"name": "b.example.net", "backend_id": backend})
	header := made(t, b, "/domains/"+mine+"/headers", body{"name": "X-Test", "value": "1"})
	b.Do(t, "admin", http.MethodPut, "/domains/"+other+"/headers/"+header, body{"value": "2"}).Want(t, 404)
	b.Do(t, "admin", http.MethodDelete, "/domains/"+other+"/headers/"+header, nil).Want(t, 404)
	if a := b.Get(t, "/domains/"+mine+"/headers/"+header).Want(t, 200); !strings.Contains(string(a.Data), `"value":"1"`) {
		t.Errorf("%s", a.Data)
	}
	if a := b.Get(t, "/domains/"+other+"/headers").Want(t, 200); string(a.Data) != "[]" {
		t.Errorf("%s", a.Data)
	}
}

func TestHeaders(t *testing.T) {
	b := bench(t)
	backend := made(t, b, "/backends", body{"name": "app"})
	path := "/domains/" + made(t, b, "/domains", body{"name": "a.example.net", "backend_id": backend}) + "/headers"
	for field, bad := range map[string][]any{
		"name":      {"", "a b", "a:b", "X\r\nY", "Content-Length", "transfer-encoding", "Host", "-x", "ä"},
		"value":     {"", "a\r\nSet-Cookie: x", "a\x00", " a", "ä", strings.Repeat("a", 4001)},
		"operation": {"replace", ""},
	} {
		for _, v := range bad {
			full := body{"name": "X-Test", "value": "1"}
			full[field] = v
			b.Do(t, "admin", http.MethodPost, path, full).WantField(t, field)
		}
	}
	b.Do(t, "admin", http.MethodPost, path, body{"name": "X-Test", "value": "1", "operation": "remove"}).WantField(t, "value")
	made(t, b, path, body{"name": "X-Test", "value": `%[env(PATH)] "quoted" 'single' $HOME \x0a; #`})
	conflict(t, b.Do(t, "admin", http.MethodPost, path, body{"name": "x-test", "value": "2"}), "name")
	made(t, b, path, body{"name": "X-Test", "value": "2", "operation": "add"})
	made(t, b, path, body{"name": "X-Test", "value": "2", "operation": "add"})
}

func TestDomainNames(t *testing.T) {
	b := bench(t)
	backend := made(t, b, "/backends", body{"name": "app"})
	domain := func(name string, more ...any) *kittest.Answer {
		full := body{"name": name, "backend_id": backend}
		for i := 0; i < len(more); i += 2 {
			full[more[i].(string)] = more[i+1]
		}
		return b.Do(t, "admin", http.MethodPost, "/domains", full)
	}
	for _, bad := range []string{"", "localhost", "a b.example.net", "*", "*.", "*.*.example.net", "a.*.example.net", "-a.example.net", "a..example.net", "example.net/x", "a.example.net:80",
		"a_b.example.net", "192.0.2.1", "a.example.net\nbind :1", strings.Repeat("a", 64) + ".example.net", "www.net\x00"} {
		domain(bad).WantField(t, "name")
	}
	domain("gw.example.net").WantField(t, "name")
	domain("example.org", "www_redirect", "to_www").Want(t, 201)
	conflict(t, domain("www.example.org"), "name")
	conflict(t, domain("example.org"), "name")
	domain("www.example.com").Want(t, 201)
	conflict(t, domain("example.com", "www_redirect", "to_apex"), "www_redirect")
	domain("www.com", "www_redirect", "to_apex").WantField(t, "www_redirect")
	domain("*.example.com", "www_redirect", "to_www").WantField(t, "www_redirect")
	domain("*.example.com").Want(t, 201)
	for field, bad := range map[string][]any{
		"rate_limit_requests": {0, 1000001}, "rate_limit_period_seconds": {0, 3601}, "hsts_max_age": {-1}, "max_body_size_bytes": {-1}, "www_redirect": {"x"}, "backend_id": {"x", "0190a000-0000-7000-8000-000000000000", nil},
		"certificate_id": {"0190a000-0000-7000-8000-000000000000"}, "active": {"yes"},
	} {
		for _, v := range bad {
			domain("x.example.com", field, v).WantField(t, field)
		}
	}
	domain("x.example.com", "hsts_preload", true).WantField(t, "hsts_preload")
}

func TestNotesFeedNothing(t *testing.T) {
	b := bench(t)
	backend := made(t, b, "/backends", body{"name": "app"})
	domain := made(t, b, "/domains", body{"name": "a.example.net", "backend_id": backend})
	a := b.Do(t, "admin", http.MethodPatch, "/domains/"+domain, body{"notes": "call Ann first"}).Want(t, 200)
	if a.Header.Get("Gateway-Apply") != "" || !strings.Contains(string(a.Data), "call Ann first") {
		t.Errorf("%q %s", a.Header.Get("Gateway-Apply"), a.Data)
	}
	b.Do(t, "admin", http.MethodPatch, "/domains/"+domain, body{"active": false}).WantField(t, "active")
}

func TestPX16SocketGone(t *testing.T) {
	b := bench(t)
	// It would be started again at once.
	b.Machine.Refuse(haproxy.Unit, errors.New("no memory"))
	b.Machine.SetUnit(host.UnitState{Unit: haproxy.Unit, Installed: true, Active: "inactive"})
	a := b.Get(t, "/proxy/stats").Want(t, 200)
	if !strings.Contains(string(a.Data), `"backends":[]`) || !strings.Contains(string(a.Data), "not running") {
		t.Errorf("%s", a.Data)
	}
	b.Get(t, "/proxy/stats/history").Want(t, 200)
	b.Get(t, "/proxy/status").Want(t, 200)
}

// A backend without a usable server is down, whatever HAProxy reports.
func TestStatisticsOfBackends(t *testing.T) {
	b := bench(t)
	b.Machine.SetUnit(host.UnitState{Unit: haproxy.Unit, Installed: true, Active: "active"})
	rows := []struct{ backend, server, says, want string }{
		{"1", "BACKEND", "UP", "DOWN"},
		{"2", "web", "MAINT", "MAINT"}, {"2", "BACKEND", "UP", "DOWN"},
		{"3", "web", "UP", "UP"}, {"3", "BACKEND", "UP", "UP"},
		{"4", "web", "no check", "NO CHECK"}, {"4", "BACKEND", "UP", "UP"},
		{"5", "web", "DOWN", "DOWN"}, {"5", "app", "UP", "UP"}, {"5", "BACKEND", "UP", "DEGRADED"},
		{"6", "web", "DOWN", "DOWN"}, {"6", "BACKEND", "DOWN", "DOWN"},
	}
	b.Machine.AnswerProxy(func(haproxy.Question) (string, error) {
		table := "# pxname,svname,status,\n"
		for _, x := range rows {
			table += fmt.Sprintf("gateway_backend_%s,%s,%s,\n", x.backend, x.server, x.says)
		}
		return table, nil
	})
	var stats struct {
		Backends []struct{ Server, Status string }
		Error    string
	}
	b.Get(t, "/proxy/stats").Want(t, 200).Into(t, &stats)
	if len(stats.Backends) != len(rows) {
		t.Fatalf("%+v", stats)
	}
	for i, x := range rows {
		if got := stats.Backends[i]; got.Status != x.want {
			t.Errorf("%s of backend %s: %s instead of %s", x.server, x.backend, got.Status, x.want)
		}
	}
}
