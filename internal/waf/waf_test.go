package waf

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/waf/agent"
	"edge.internal/gateway/internal/waf/engine"
)

type body = map[string]any

// set is shared, because building an engine takes long.
var set = sync.OnceValues(engine.New)

// names stands in for the reverse proxy's domains.
func names(ctx context.Context, q db.Querier) (map[uuid.UUID]string, error) {
	rows, err := q.Query(ctx, "SELECT id, name FROM proxy_domains")
	if err != nil {
		return nil, err
	}
	found := map[uuid.UUID]string{}
	var id uuid.UUID
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error { found[id] = name; return nil })
	return found, err
}

// bench is the room with two domains.
func bench(t *testing.T) (r *Room, b *kittest.Bench, shop, blog uuid.UUID) {
	t.Helper()
	b = kittest.New(t)
	r = New(b.Kit, Deps{DomainTable: "proxy_domains", Domains: names})
	r.engines = set
	r.Mount()
	b.Resources.MountChangeSets()
	b.Start(t)
	shop, blog = uuid.New(), uuid.New()
	backend := uuid.New()
	dbtest.Exec(t, b.DB, `INSERT INTO proxy_backends VALUES ($1, now(), now(), 'app', 'http', 'roundrobin', false, false, true, false, '/', 'GET', '', '200-399', 5, false)`, backend)
	for id, name := range map[uuid.UUID]string{shop: "shop.example.net", blog: "blog.example.net"} {
		dbtest.Exec(t, b.DB, `INSERT INTO proxy_domains VALUES ($1, now(), now(), $2, $3, true, true, false, false, 0, false, false, false, 1, 1, false, 0, 'none', '', NULL)`, id, name, backend)
	}
	return r, b, shop, blog
}

func at(domain uuid.UUID) string { return "/waf/configs/" + domain.String() }

// WF-01: a domain without a row has the defaults, and a domain that does not exist has none.
func TestConfigWithoutARow(t *testing.T) {
	_, b, shop, _ := bench(t)
	a := b.Get(t, at(shop)).Want(t, 200)
	for _, want := range []string{`"domain_id":"` + shop.String() + `"`, `"domain":"shop.example.net"`, `"enabled":false`, `"mode":"detection"`, `"paranoia_level":1`, `"rule_exclusions":[]`, `"exclusion_notes":{}`,
		`"exclusions":[]`, `"trusted_proxies":[]`, `"custom_rules":""`, `"fail_open":null`, `"max_body_bytes":131072`, `"oversized":"refuse"`} {
		if !strings.Contains(string(a.Data), want) {
			t.Errorf("no %s in %s", want, a.Data)
		}
	}
	if a := b.Get(t, "/waf/configs").Want(t, 200); string(a.Data) != "[]" {
		t.Errorf("what is not stored is listed: %s", a.Data)
	}
	b.Get(t, at(uuid.New())).Want(t, 404)
	b.Do(t, "admin", http.MethodPut, at(uuid.New()), body{"enabled": true}).Want(t, 404)
	b.Do(t, "viewer", http.MethodPut, at(shop), body{"enabled": true}).Want(t, 403)
	if n := b.Rows(t, "waf_configs"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestConfigIsStoredAndAnnounced(t *testing.T) {
	_, b, shop, _ := bench(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, heard := make(chan struct{}), make(chan string, 8)
	go func() {
		_ = b.DB.Listen(ctx, "waf_configs", func() { close(ready) }, func(payload string) error { heard <- payload; return nil })
	}()
	<-ready
	tag := b.Get(t, at(shop)).Header.Get("ETag")
	first := b.Do(t, "admin", http.MethodPut, at(shop), body{"enabled": true, "rule_exclusions": []int{942100}, "exclusion_notes": body{"942100": "the search field"},
		"exclusions":      []body{{"rule_id": 941100, "path": "/editor", "variable": "ARGS", "parameter": "text", "note": "people write HTML"}},
		"trusted_proxies": []string{"192.0.2.7", "2001:db8::/32"}, "custom_rules": "SecRule ARGS:x \"@streq y\" \"id:100,phase:2,deny\"\n", "fail_open": false}, "If-Match", tag).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, at(shop), body{"mode": "blocking"}, "If-Match", tag).Want(t, 412)
	second := b.Do(t, "admin", http.MethodPut, at(shop), body{"paranoia_level": 3}).Want(t, 200)
	for _, want := range []string{`"paranoia_level":3`, `"rule_exclusions":[942100]`, `"942100":"the search field"`, `"parameter":"text"`, `"192.0.2.7/32"`, `"fail_open":false`} {
		if !strings.Contains(string(second.Data), want) {
			t.Errorf("no %s in %s", want, second.Data)
		}
	}
	if got := b.Get(t, at(shop)); string(got.Data) != string(second.Data) || got.Header.Get("ETag") == first.Header.Get("ETag") {
		t.Errorf("it is read as %s", got.Data)
	}
	if list := b.Get(t, "/waf/configs"); !strings.Contains(string(list.Data), `"domain":"shop.example.net"`) {
		t.Errorf("list: %s", list.Data)
	}
	for range 2 {
		if got := <-heard; got != shop.String() {
			t.Errorf("announced %q", got)
		}
	}
	if n := b.Audited(t, "waf.config.update"); n != 2 {
		t.Errorf("%d audit entries", n)
	}
	dbtest.Exec(t, b.DB, "DELETE FROM proxy_domains WHERE id = $1", shop)
	if got := <-heard; got != shop.String() {
		t.Errorf("announced %q when the domain went", got)
	}
}

// The first stored configuration can be reverted to the defaults, but not over someone's later edit.
func TestRevertOfTheFirstConfigLosesNoLaterEdit(t *testing.T) {
	_, b, shop, _ := bench(t)
	first := b.Do(t, "admin", http.MethodPut, at(shop), body{"enabled": true, "paranoia_level": 2}).Want(t, 200).Header.Get(httpd.ChangeSetHeader)
	b.Do(t, "admin", http.MethodPut, at(shop), body{"paranoia_level": 3, "mode": "blocking"}).Want(t, 200)
	revert := "/change-sets/" + first + "/revert"
	var out resource.Reverted
	b.Do(t, "admin", http.MethodPost, revert, body{"preview": true}).Want(t, 200).Into(t, &out)
	if len(out.Conflicts) != 1 || out.Conflicts[0].Field != "paranoia_level" || string(out.Conflicts[0].Then) != "1" || string(out.Conflicts[0].Now) != "3" {
		t.Errorf("%+v", out.Conflicts)
	}
	b.Do(t, "admin", http.MethodPost, revert, nil).Want(t, 409)
	b.Do(t, "admin", http.MethodPost, revert, body{"take": "now"}).Want(t, 200)
	for _, want := range []string{`"enabled":false`, `"enabled_since":null`, `"paranoia_level":3`, `"mode":"blocking"`} {
		if a := b.Get(t, at(shop)); !strings.Contains(string(a.Data), want) {
			t.Errorf("no %s in %s", want, a.Data)
		}
	}
	b.Do(t, "admin", http.MethodPost, revert, body{"take": "then"}).Want(t, 200)
	if a := b.Get(t, at(shop)); !strings.Contains(string(a.Data), `"paranoia_level":1`) || !strings.Contains(string(a.Data), `"mode":"blocking"`) {
		t.Errorf("%s", a.Data)
	}
}

func TestConfigInChangeSets(t *testing.T) {
	_, b, shop, _ := bench(t)
	op := func(verb, rules string) body {
		return body{"preview": verb == "preview", "operations": []body{{"kind": "waf.config", "verb": strings.Replace(verb, "preview", "update", 1), "id": shop, "body": body{"custom_rules": rules}}}}
	}
	b.Do(t, "admin", http.MethodPost, "/change-sets", op("create", "")).WantField(t, "operations.0.verb")
	b.Do(t, "admin", http.MethodPost, "/change-sets", op("delete", "")).WantField(t, "operations.0.verb")
	b.Do(t, "admin", http.MethodPost, "/change-sets", op("preview", "Include /etc/passwd")).WantField(t, "operations.0.body.custom_rules")
	b.Do(t, "viewer", http.MethodPost, "/change-sets", op("preview", "")).Want(t, 200)
	if n := b.Rows(t, "waf_configs"); n != 0 {
		t.Errorf("a preview stored %d rows", n)
	}
	b.Do(t, "admin", http.MethodPost, "/change-sets", op("update", "")).Want(t, 200)
	if n := b.Rows(t, "waf_configs"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// WF-01: paranoia levels are 1 to 4, and each bad value is refused at its field.
func TestConfigRefusesBadInput(t *testing.T) {
	_, b, shop, _ := bench(t)
	for _, x := range []struct {
		field string
		value any
	}{
		{"paranoia_level", 0}, {"paranoia_level", 5}, {"mode", "off"}, {"max_body_bytes", 100}, {"max_body_bytes", 1 << 20}, {"oversized", "pass"},
		{"trusted_proxies", []string{"example.net"}}, {"rule_exclusions", []int{949110}}, {"rule_exclusions", []int{200002}}, {"rule_exclusions", []int{901100}}, {"rule_exclusions", []int{942100, 942100}},
		{"rule_exclusions", []int{948999}}, {"exclusion_notes", body{"942100": "x"}}, {"exclusion_notes", body{"x": "x"}},
		{"exclusions", []body{{"rule_id": 942100, "path": "admin"}}}, {"exclusions", []body{{"rule_id": 942100, "path": "/a/../b"}}}, {"exclusions", []body{{"rule_id": 942100, "parameter": "x"}}},
		{"exclusions", []body{{"rule_id": 942100, "variable": "TX", "parameter": "x"}}}, {"exclusions", []body{{"rule_id": 980170}}}, {"exclusions", []body{{"rule_id": 943999}}},
		{"exclusions", []body{{"rule_id": 942100, "surprise": 1}}}, {"exclusions", []body{{"rule_id": 942100, "note": "a\x00b"}}}, {"exclusions", []body{{"rule_id": 942100}, {"rule_id": 942100, "note": "again"}}},
		{"inspect_responses", "yes"}, {"fail_open", "yes"}, {"rule_exclusions", []int{959100}},
	} {
		b.Do(t, "admin", http.MethodPut, at(shop), body{x.field: x.value}).WantField(t, x.field)
	}
	if n := b.Rows(t, "waf_configs"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// Rules that would read files, run programs or change the engine are refused, with the line and the cause and no content of a file.
func TestCustomRulesRefuseWhatIsNoRule(t *testing.T) {
	_, b, shop, _ := bench(t)
	secret := filepath.Join(t.TempDir(), "secret.conf")
	if err := os.WriteFile(secret, []byte("SecRule ARGS \"@streq sesame\" \"id:7,deny\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	written := filepath.Join(t.TempDir(), "written")
	for _, hostile := range []string{
		"Include " + secret, "SecDebugLog " + written, "SecAuditLog " + written, "SecRuleEngine Off", "SecRule\\\nEngine Off",
		`SecRule ARGS "@pmFromFile ` + secret + `" "id:1,deny"`, `SecRule ARGS "@inspectFile /bin/true" "id:1,deny"`, `SecAction "id:1,exec:/bin/true"`, `SecAction "id:1,setenv:PATH=/tmp"`,
		`SecRule ARGS "@rx (" "id:1,deny"`, `SecAction "id:942100,deny"`, `SecRuleRemoveById 1-999999`, `SecRuleRemoveById 943999`, "nonsense",
	} {
		a := b.Do(t, "admin", http.MethodPut, at(shop), body{"custom_rules": "# a remark\n" + hostile + "\n"}).WantField(t, "custom_rules")
		if message := a.Error.Fields["custom_rules"]; !strings.HasPrefix(message, "Line 2: ") || strings.Contains(message, "sesame") {
			t.Errorf("%s: %s", hostile, message)
		}
	}
	if _, err := os.Stat(written); err == nil {
		t.Error("a log was made")
	}
	if n := b.Rows(t, "waf_configs"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// insert creates records like the agent.
func insert(t *testing.T, b *kittest.Bench, a Alert) uuid.UUID {
	t.Helper()
	if a.ID == uuid.Nil {
		a.ID = uuid.Must(uuid.NewV7())
	}
	if a.CreatedAt.IsZero() {
		a.CreatedAt = time.Now()
	}
	if a.Data == nil {
		a.Data = []Datum{}
	}
	dbtest.Exec(t, b.DB, `INSERT INTO waf_alerts (id, created_at, request_id, domain_id, domain, rule_id, severity, action, message, method, uri, client_ip, score, data, deciding) VALUES ($1, $2, $3, $4, $5, $6, 'critical', $7, $8, 'GET', $9, $10, $11, $12, $13)`,
		a.ID, a.CreatedAt, a.RequestID, a.DomainID, a.Domain, a.RuleID, a.Action, a.Message, a.URI, a.ClientIP, a.Score, a.Data, a.Deciding)
	return a.ID
}

func TestAlerts(t *testing.T) {
	_, b, shop, blog := bench(t)
	old := time.Now().Add(-48 * time.Hour)
	insert(t, b, Alert{ID: uuid.MustParse("01800000-0000-7000-8000-000000000001"), CreatedAt: old, RequestID: "r0", DomainID: &blog, Domain: "blog.example.net", RuleID: 941100, Action: detected, Message: "XSS", URI: "/old", ClientIP: "2001:db8::1", Score: 5})
	one := insert(t, b, Alert{RequestID: "r1", DomainID: &shop, Domain: "shop.example.net", RuleID: 942100, Action: blocked, Message: "SQL Injection", URI: "/search?q=%27", ClientIP: "192.0.2.7", Score: 10})
	two := insert(t, b, Alert{RequestID: "r1", DomainID: &shop, Domain: "shop.example.net", RuleID: 942190, Action: blocked, Message: "MSSQL", URI: "/search?q=%27", ClientIP: "192.0.2.7", Score: 10})
	for query, want := range map[string]int{
		"": 3, "?domain_id=" + shop.String(): 2, "?rule_id=942100": 1, "?client=192.0.2.7": 2, "?client=192.0.2.0/24": 2, "?client=2001:db8::/32": 1, "?client=10.0.0.0/8": 0,
		"?action=blocked": 2, "?action=unavailable": 0, "?since=" + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339): 2, "?until=" + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339): 1,
		"?q=SEARCH": 2, "?q=sql+injection": 1, "?q=r0": 1, "?limit=1": 1, "?before=" + two.String(): 2,
	} {
		var list []Alert
		if b.Do(t, "viewer", http.MethodGet, "/waf/alerts"+query, nil).Want(t, 200).Into(t, &list); len(list) != want {
			t.Errorf("%s: %d instead of %d", query, len(list), want)
		}
	}
	for query, field := range map[string]string{"?client=x": "client", "?action=x": "action", "?limit=0x": "limit", "?limit=5000": "limit", "?domain_id=x": "domain_id"} {
		b.Get(t, "/waf/alerts"+query).WantField(t, field)
	}
	dbtest.Exec(t, b.DB, `INSERT INTO waf_requests (request_id, domain_id, method, uri, version, headers, body, masked) VALUES ('r1', $1, 'GET', '/search?q=%27', 'HTTP/1.1', '[{"name":"host","value":"shop.example.net"}]', 'a' || '\xff'::bytea, true)`, shop)
	var d AlertDetail
	if b.Get(t, "/waf/alerts/"+one.String()).Want(t, 200).Into(t, &d); d.Request == nil || len(d.Records) != 2 || d.Request.Body != "a\ufffd" || d.Request.Headers[0].Name != "host" || !d.Request.Masked {
		t.Errorf("%+v", d)
	}
	b.Get(t, "/waf/alerts/"+uuid.NewString()).Want(t, 404)

	var s Summary
	b.Get(t, "/waf/summary").Want(t, 200).Into(t, &s)
	if len(s.Actions) != 1 || s.Actions[0].Name != blocked || s.Actions[0].Records != 2 || s.Actions[0].Requests != 1 || len(s.Rules) != 2 || len(s.Domains) != 1 || s.Domains[0].Name != "shop.example.net" || len(s.Clients) != 1 || len(s.Series) < 24 || s.Agent.State != "down" || s.Agent.Reason == "" {
		t.Errorf("%+v", s)
	}
	if last := s.Series[len(s.Series)-1]; last.Blocked+s.Series[len(s.Series)-2].Blocked != 1 {
		t.Errorf("%+v", s.Series)
	}
	b.Get(t, "/waf/summary?hours=1000").WantField(t, "hours")

	b.Do(t, "viewer", http.MethodDelete, "/waf/alerts", nil).Want(t, 403)
	var p Purged
	if b.Do(t, "admin", http.MethodDelete, "/waf/alerts?before="+time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), nil).Want(t, 200).Into(t, &p); p.Deleted != 1 || b.Rows(t, "waf_requests") != 1 {
		t.Errorf("%d are gone", p.Deleted)
	}
	if b.Do(t, "admin", http.MethodDelete, "/waf/alerts", nil).Want(t, 200).Into(t, &p); p.Deleted != 2 || b.Rows(t, "waf_requests") != 0 || b.Audited(t, "waf.alert.purge") != 2 {
		t.Errorf("%d are gone", p.Deleted)
	}
}

// A stream begins with the newest records and continues with each new one, once.
func TestAlertsLive(t *testing.T) {
	r, b, shop, _ := bench(t)
	first := insert(t, b, Alert{RequestID: "r1", DomainID: &shop, RuleID: 942100, Action: blocked, ClientIP: "192.0.2.7"})
	server := httptest.NewServer(b.Handler())
	defer server.Close()
	conn, _, err := websocket.Dial(t.Context(), server.URL+httpd.Prefix+"/waf/alerts/live", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer viewer"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	next := func() (a Alert) {
		t.Helper()
		_, text, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := next(); a.ID != first || a.ClientIP != "192.0.2.7" {
		t.Errorf("%+v", a)
	}
	announce := func(payload string) {
		t.Helper()
		if err := r.DB.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(t.Context(), "SELECT pg_notify('waf_alerts', $1)", payload)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	second := insert(t, b, Alert{RequestID: "r2", DomainID: &shop, RuleID: 942100, Action: detected, ClientIP: "192.0.2.8"})
	announce(second.String())
	third := insert(t, b, Alert{RequestID: "r3", DomainID: &shop, RuleID: 942100, Action: detected, ClientIP: "192.0.2.8"})
	announce(second.String() + "," + third.String())
	fourth := insert(t, b, Alert{RequestID: "r4", DomainID: &shop, RuleID: 942100, Action: detected, ClientIP: "192.0.2.8"})
	announce("")
	for _, want := range []uuid.UUID{second, third, fourth} {
		if a := next(); a.ID != want {
			t.Errorf("%s instead of %s", a.ID, want)
		}
	}
}

// A stream accepts the filters of the list, with the same result.
func TestAlertsLiveAreFiltered(t *testing.T) {
	r, b, shop, blog := bench(t)
	for _, a := range []Alert{
		{RequestID: "r1", DomainID: &shop, Domain: "shop.example.net", RuleID: 942100, Action: blocked, ClientIP: "192.0.2.7", URI: "/Find?q=1", Message: "SQL"},
		{RequestID: "r2", DomainID: &shop, Domain: "shop.example.net", RuleID: 941100, Action: detected, ClientIP: "2001:db8::7", URI: "/a", Message: "XSS"},
		{RequestID: "r3", DomainID: &blog, Domain: "blog.example.net", RuleID: 942100, Action: unavailable, ClientIP: "198.51.100.9", URI: "/b"},
		{RequestID: "r4", Action: unavailable, ClientIP: "192.0.2.7", CreatedAt: time.Now().Add(-2 * time.Hour)},
	} {
		insert(t, b, a)
	}
	all, err := r.alerts(t.Context(), r.DB, AlertFilter{})
	if err != nil || len(all) != 4 {
		t.Fatal(all, err)
	}
	hour := time.Now().Add(-time.Hour)
	for _, f := range []AlertFilter{
		{}, {DomainID: shop}, {RuleID: 942100}, {Client: "192.0.2.0/24"}, {Client: "192.0.2.7"}, {Client: "2001:db8::/32"}, {Action: unavailable}, {Q: "find"}, {Q: "SHOP.example"}, {Q: "r3"}, {Q: "nothing"},
		{Since: hour}, {Until: hour}, {DomainID: shop, RuleID: 942100, Action: blocked}, {DomainID: blog, Action: blocked},
	} {
		listed, err := r.alerts(t.Context(), r.DB, f)
		if err != nil {
			t.Fatal(err)
		}
		taken := slices.DeleteFunc(slices.Clone(all), func(a Alert) bool { return !f.takes(&a) })
		if fmt.Sprint(taken) != fmt.Sprint(listed) {
			t.Errorf("%+v: %+v, and the list has %+v", f, taken, listed)
		}
	}

	server := httptest.NewServer(b.Handler())
	defer server.Close()
	dial := func(query string) (*websocket.Conn, *http.Response, error) {
		return websocket.Dial(t.Context(), server.URL+httpd.Prefix+"/waf/alerts/live"+query, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer viewer"}}})
	}
	conn, _, err := dial("?action=blocked&limit=10&domain_id=" + shop.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	next := func(want string) {
		t.Helper()
		var a Alert
		_, text, err := conn.Read(t.Context())
		if err == nil {
			err = json.Unmarshal(text, &a)
		}
		if err != nil || a.RequestID != want {
			t.Errorf("%s instead of %s, %v", text, want, err)
		}
	}
	next("r1")
	ids := insert(t, b, Alert{RequestID: "r5", DomainID: &blog, RuleID: 942100, Action: blocked, ClientIP: "192.0.2.7"}).String() + "," +
		insert(t, b, Alert{RequestID: "r6", DomainID: &shop, RuleID: 942100, Action: blocked, ClientIP: "192.0.2.7"}).String()
	dbtest.Exec(t, b.DB, "SELECT pg_notify('waf_alerts', $1)", ids)
	next("r6")
	for query, field := range map[string]string{"?client=x": "client", "?action=x": "action", "?limit=1001": "limit", "?before=" + shop.String(): "before"} {
		_, res, err := dial(query)
		if err == nil || res == nil || res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %v", query, err)
			continue
		}
		if text, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(text), `"`+field+`"`) {
			t.Errorf("%s: %s, %v", query, text, err)
		}
	}
}

// An outage, which is a record per domain and second, does not displace what rules found before.
func TestOutagesDoNotPruneAlerts(t *testing.T) {
	_, b, shop, _ := bench(t)
	insert := func(action string, first, last int) {
		t.Helper()
		dbtest.Exec(t, b.DB, `INSERT INTO waf_alerts (id, created_at, request_id, domain_id, domain, rule_id, severity, action, message, method, uri, client_ip, data)
			SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, now(), '', $1, 'shop.example.net', 0, 'critical', $2, '', 'GET', '/', '192.0.2.1', '[]'
			FROM generate_series($3::int, $4::int) n`, shop, action, first, last)
	}
	insert(blocked, 1, 1)
	insert(unavailable, 2, alertsMost+2)
	if n, err := Prune(t.Context(), b.DB, b.Clock); err != nil || n != alertsMost+1-gapsMost {
		t.Fatal(n, err)
	}
	var list []Alert
	if b.Get(t, "/waf/alerts?action=blocked").Want(t, 200).Into(t, &list); len(list) != 1 {
		t.Errorf("%d alerts are left", len(list))
	}
}

func TestPrune(t *testing.T) {
	_, b, shop, _ := bench(t)
	insert(t, b, Alert{CreatedAt: time.Now().Add(-31 * 24 * time.Hour), RequestID: "r1", DomainID: &shop, RuleID: 942100, Action: blocked, ClientIP: "192.0.2.7"})
	insert(t, b, Alert{CreatedAt: time.Now().Add(-29 * 24 * time.Hour), RequestID: "r2", DomainID: &shop, RuleID: 942100, Action: blocked, ClientIP: "192.0.2.7"})
	dbtest.Exec(t, b.DB, `INSERT INTO waf_requests (request_id, created_at, method, uri) VALUES ('r1', now() - interval '8 days', 'GET', '/')`)
	dbtest.Exec(t, b.DB, `INSERT INTO waf_requests (request_id, created_at, method, uri) SELECT 'n' || n, now() - n * interval '1 second', 'GET', '/' FROM generate_series(1, 5010) n`)
	n, err := Prune(t.Context(), b.DB, b.Clock)
	if err != nil || n != 1 || b.Rows(t, "waf_alerts") != 1 || b.Rows(t, "waf_requests") != 5000 {
		t.Errorf("%d, %v: %d alerts and %d requests are left", n, err, b.Rows(t, "waf_alerts"), b.Rows(t, "waf_requests"))
	}
	dbtest.Exec(t, b.DB, `INSERT INTO waf_alerts (id, request_id, rule_id, action) SELECT gen_random_uuid(), 'r', 942100, 'detected' FROM generate_series(1, 100009)`)
	if n, err = Prune(t.Context(), b.DB, b.Clock); err != nil || n != 10 || b.Rows(t, "waf_alerts") != alertsMost {
		t.Errorf("%d, %v: %d alerts are left", n, err, b.Rows(t, "waf_alerts"))
	}
}

// The agent's status is passed on as it is, but nonsense is not.
func TestStatus(t *testing.T) {
	_, b, _, _ := bench(t)
	answer := `{"version":"1.2.3","since":"2026-01-02T03:04:05Z","domains":3,"engines":2,"builds":4,"inspected":100,"denied":5,"failed":{"busy":7},"dropped":1,"source":"file"}`
	b.FakeDaemon(t, host.WAFSocket, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) })
	var a Agent
	if b.Get(t, "/waf/status").Want(t, 200).Into(t, &a); a.State != "up" || a.Version != "1.2.3" || a.Failed["busy"] != 7 || a.Dropped != 1 || a.Source != "file" {
		t.Errorf("%+v", a)
	}
	answer = "<html>"
	if b.Get(t, "/waf/status").Want(t, 200).Into(t, &a); a.State != "down" || a.Reason == "" {
		t.Errorf("%+v", a)
	}
}

func TestRules(t *testing.T) {
	_, b, _, _ := bench(t)
	for q, want := range map[string]int{"942100": 942100, "libinjection+sqli": 942100, "XSS+libinjection": 941100} {
		var list []Rule
		b.Get(t, "/waf/rules?q="+q).Want(t, 200).Into(t, &list)
		if len(list) == 0 || list[0].ID != want || list[0].Severity != "critical" || list[0].ParanoiaLevel != 1 || len(list[0].Tags) == 0 || list[0].Message == "" {
			t.Errorf("%s: %+v", q, list)
		}
	}
	var list []Rule
	if b.Get(t, "/waf/rules").Want(t, 200).Into(t, &list); len(list) != mostRules {
		t.Errorf("%d rules", len(list))
	}
	if b.Get(t, "/waf/rules?q=nosuchword").Want(t, 200).Into(t, &list); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// fakeAgent answers for the agent until the test ends or it is stopped.
func fakeAgent(t *testing.T, b *kittest.Bench, status func() agent.Status) (stop func()) {
	t.Helper()
	return b.FakeDaemon(t, host.WAFSocket, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(status()) })
}

// stored returns the fingerprint of the domains' configuration.
func stored(t *testing.T, b *kittest.Bench) (fingerprint string) {
	t.Helper()
	if err := b.DB.QueryRow(t.Context(), agent.Fingerprint).Scan(&fingerprint); err != nil {
		t.Error(err)
	}
	return fingerprint
}

// A change is live when the agent uses it, not before, and never if the agent cannot use it.
func TestAChangeIsLiveWhenTheAgentHasTakenItOver(t *testing.T) {
	_, b, shop, blog := bench(t)
	var asked, late atomic.Int32
	var unusable atomic.Bool
	fakeAgent(t, b, func() (s agent.Status) {
		if s.Configuration = "that from before"; asked.Add(1) > late.Load() {
			s.Configuration = stored(t, b)
		}
		if unusable.Load() {
			s.Unusable = 1
		}
		return s
	})
	change := func(domain uuid.UUID, change body, want string) {
		t.Helper()
		a := b.Do(t, "admin", http.MethodPut, at(domain), change).Want(t, 200)
		if got := a.Header.Get("Gateway-Apply"); !strings.HasSuffix(got, "waf="+want) {
			t.Errorf("%v: %s", change, got)
		}
	}
	for _, x := range []body{{"enabled": true}, {"mode": "blocking"}, {"paranoia_level": 2}, {"enabled": false}, {"enabled": true}} {
		before := asked.Load()
		late.Store(before + 5)
		change(shop, x, "live")
		if n := asked.Load() - before; n <= 5 {
			t.Errorf("%v is live after %d questions", x, n)
		}
	}
	unusable.Store(true)
	change(blog, body{"enabled": true}, "degraded")
	unusable.Store(false)
	change(blog, body{"paranoia_level": 3}, "live")
}

// When another change is stored while one waits for the agent, the agent applies the later one, and nobody waits for the one that it
// skipped.
func TestAChangeIsLiveWhenTheAgentHasTakenOverALaterOne(t *testing.T) {
	_, b, shop, blog := bench(t)
	b.Do(t, "admin", http.MethodPut, at(blog), body{"enabled": true})
	var asked atomic.Int32
	fakeAgent(t, b, func() (s agent.Status) {
		switch n := asked.Add(1); {
		case n < 3:
			s.Configuration = "that from before"
			return s
		case n == 3:
			dbtest.Exec(t, b.DB, "UPDATE waf_configs SET updated_at = updated_at + interval '1 second' WHERE domain_id = '"+blog.String()+"'")
		}
		s.Configuration = stored(t, b)
		return s
	})
	a := b.Do(t, "admin", http.MethodPut, at(shop), body{"enabled": true}).Want(t, 200)
	if got := a.Header.Get("Gateway-Apply"); !strings.HasSuffix(got, "waf=live") {
		t.Error(got)
	}
}

// The agent is a component: it is live when it answers, degraded when it does not, and stopped when it is switched off.
func TestAgentIsAComponent(t *testing.T) {
	r, b, _, _ := bench(t)
	state := func() apply.Status {
		for _, s := range r.Engine.Statuses() {
			if s.Name == apply.WAF {
				return s
			}
		}
		return apply.Status{}
	}
	stop := fakeAgent(t, b, func() agent.Status { return agent.Status{Configuration: stored(t, b)} })
	toggle := func(on bool, unit string) {
		t.Helper()
		a := b.Do(t, "admin", http.MethodPut, "/waf/settings", body{"enabled": on}).Want(t, 200)
		now, err := b.Machine.State(t.Context(), host.WAF)
		if got := a.Header.Get("Gateway-Apply"); err != nil || got != "waf=live" || now.Active != unit {
			t.Errorf("%v: %s, %+v, %v: %+v", on, got, now, err, state())
		}
	}
	toggle(false, "inactive")
	if s := state(); s.Daemon != apply.Off {
		t.Errorf("%+v", s)
	}
	toggle(true, "active")
	if err := r.Switch(httpd.NewCall(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil).WithContext(t.Context())), resource.Alias{}, false); err != nil {
		t.Fatal(err)
	}
	toggle(true, "active")

	stop()
	if err := r.verifyAgent(t.Context(), wanted{}, nil); err == nil {
		t.Error("an agent that does not answer is verified")
	}
}
