package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"golang.org/x/crypto/bcrypt"

	"edge.internal/gateway/internal/app"
	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/backups"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/schema"
	"edge.internal/gateway/internal/setup"
)

const (
	adminEmail = "admin@example.net"
	secretWord = "correct horse battery"
	// loopback makes a request come from the machine itself.
	loopback = "127.0.0.1:4711"
)

// house is the whole service on a machine in memory.
type house struct {
	*kittest.Bench
	routes []*httpd.Route
}

func build(t *testing.T, b *kittest.Bench) house {
	t.Helper()
	store, err := setup.OpenStore(b.Paths)
	if err != nil {
		t.Fatal(err)
	}
	h, err := app.Build(b.Kit, store, password.New(bcrypt.MinCost))
	if err != nil {
		t.Fatal(err)
	}
	if b.Machine != nil {
		b.Machine.LendPostgreSQL(backups.New(home.Home{}, nil, dbtest.Address(b.DB), nil))
	}
	b.Start(t)
	return house{b, h.Router.Routes()}
}

// call makes a request with a session's token, or none.
func (h house) call(t *testing.T, token, method, path string, body any) *kittest.Answer {
	t.Helper()
	headers := []string{"X-Test-Client", loopback}
	if token != "" {
		headers = append(headers, "Authorization", "Bearer "+token)
	}
	return kittest.Call(t, h.Handler(), method, path, body, headers...)
}

func (h house) setUp(t *testing.T) (adminToken string) {
	t.Helper()
	h.call(t, "", http.MethodPost, "/setup/complete", map[string]any{
		"admin_email": adminEmail, "admin_password": secretWord, "fqdn": "gateway.example.net", "acme_email": adminEmail, "acme_enabled": false, "ipv6_enabled": true,
	}).Want(t, 200)
	return h.login(t, adminEmail)
}

func (h house) login(t *testing.T, email string) (token string) {
	t.Helper()
	var out struct{ Token string }
	h.call(t, "", http.MethodPost, "/auth/login", map[string]any{"email": email, "password": secretWord, "issue_token": true}).Want(t, 200).Into(t, &out)
	if out.Token == "" {
		t.Fatal("no token")
	}
	return out.Token
}

func (h house) user(t *testing.T, admin, email, role string) (id, token string) {
	t.Helper()
	var out struct{ ID string }
	h.call(t, admin, http.MethodPost, "/users", map[string]any{"email": email, "role": role, "password": secretWord}).Want(t, 201).Into(t, &out)
	return out.ID, h.login(t, email)
}

// token creates an API token for the user of a session.
func (h house) token(t *testing.T, session, role string) (token string) {
	t.Helper()
	var out struct{ Token string }
	h.call(t, session, http.MethodPost, "/api-tokens", map[string]any{"name": role, "role": role}).Want(t, 201).Into(t, &out)
	return out.Token
}

// path fills the parameters of a route's path with ids that do not exist.
func path(r *httpd.Route) string {
	p := r.Path
	for _, name := range []string{"{id}", "{parent}", "{name}"} {
		p = strings.ReplaceAll(p, name, uuid.NewString())
	}
	return p
}

// enveloped removes routes whose answers have no envelope.
func enveloped(routes []*httpd.Route) []*httpd.Route {
	return slices.DeleteFunc(slices.Clone(routes), func(r *httpd.Route) bool { return !r.Enveloped() })
}

// refusing removes public routes whose answers have no envelope.
func refusing(routes []*httpd.Route) []*httpd.Route {
	return slices.DeleteFunc(slices.Clone(routes), func(r *httpd.Route) bool { return !r.Enveloped() && r.Policy.IsPublic() })
}

// inUse removes routes that are closed once the setup is complete.
func inUse(routes []*httpd.Route) []*httpd.Route {
	return slices.DeleteFunc(slices.Clone(routes), func(r *httpd.Route) bool { return r.Policy.IsOwner() })
}

// furniture is a row of each kind, in order of creation. Text in braces is replaced by the id of an earlier one.
var furniture = []struct{ path, body string }{
	{"/backups", `{}`},
	{"/backup-remotes", `{"kind":"s3","active":false,"settings":{"endpoint":"s3.example.net","bucket":"backups","access_key":"k","secret_key":"s3cret"}}`},
	{"/backends", `{"name":"b","scheme":"http"}`},
	{"/backends/{/backends}/servers", `{"name":"s","address":"192.0.2.1","port":80}`},
	{"/domains", `{"name":"shop.example.net","backend_id":"{/backends}"}`},
	{"/domains/{/domains}/headers", `{"name":"X-A","value":"a","operation":"set"}`},
	{"/routing-rules", `{"domain_id":"{/domains}","path_prefix":"/a","backend_id":"{/backends}"}`},
	{"/certificates", `{"source":"self-signed","names":["shop.example.net"]}`},
	{"/dns-providers", `{"name":"p","kind":"desec","secret":"t"}`},
	{"/firewall/address-objects", `{"name":"o","kind":"host","value":"192.0.2.1"}`},
	{"/firewall/address-groups", `{"name":"g","members":["{/firewall/address-objects}"]}`},
	{"/nat-rules", `{"name":"n","kind":"masquerade","out_zone":"wan"}`},
	{"/network-interfaces", `{"name":"lan0","type":"ethernet","role":"lan"}`},
	{"/network-interfaces/{/network-interfaces}/ip-addresses", `{"address":"10.10.0.1","prefix":24}`},
	{"/routes", `{"destination":"203.0.113.0/24","gateway":"10.10.0.9"}`},
	{"/tunnel/interfaces", `{"name":"wg0","mode":"server","address_cidr":"10.8.0.1/24","listen_port":51820,"endpoint_host":"vpn.example.net"}`},
	{"/tunnel/interfaces/{/tunnel/interfaces}/peers", `{"name":"phone"}`},
	{"/dns/zones", `{"name":"corp.example.net"}`},
	{"/dns/records", `{"zone_id":"{/dns/zones}","name":"a","type":"A","value":"10.10.0.9"}`},
	{"/forward-proxy/acls", `{"name":"a","type":"src","value":"10.0.0.0/8","action":"allow"}`},
	{"/dhcp/subnets", `{"interface":"lan0","cidr":"10.10.0.0/24","range_start":"10.10.0.100","range_end":"10.10.0.200"}`},
	{"/dhcp/reservations", `{"subnet_id":"{/dhcp/subnets}","mac":"02:00:00:00:00:01","ip":"10.10.0.50"}`},
	{"/radius/clients", `{"name":"ap","address":"192.0.2.7","secret":"s3cret"}`},
	{"/radius/users", `{"name":"u","password":"s3cret"}`},
	{"/alerts", `{"kind":"email","target":"ann@example.net","active":false,"settings":{"smtp_host":"mail.example.net","smtp_port":587,"username":"u","password":"s3cret","from":"gateway@example.net","use_tls":true}}`},
	{"/alert-mutes", `{"kind":"system.disk","until":"` + time.Now().AddDate(0, 0, 7).UTC().Format(time.RFC3339) + `"}`},
}

// furnish creates a row of each kind, and returns a function that fills a route's path with ids that exist.
func (h house) furnish(t *testing.T, admin string) func(r *httpd.Route) string {
	t.Helper()
	ids := map[string]string{}
	fill := func(text string) string {
		for path, id := range ids {
			text = strings.ReplaceAll(text, "{"+path+"}", id)
		}
		return text
	}
	for _, x := range furniture {
		var made struct{ ID string }
		h.call(t, admin, http.MethodPost, fill(x.path), fill(x.body)).Want(t, 201).Into(t, &made)
		ids[x.path] = made.ID
	}
	h.token(t, admin, "viewer")
	dbtest.Exec(t, h.DB, `
		INSERT INTO account_passkeys (id, created_at, user_id, name, rp_id, credential_id, credential, sign_count)
		SELECT gen_random_uuid(), now(), id, 'key', 'gateway.example.net', id::text::bytea, '{}', 0 FROM account_users`)
	dbtest.Exec(t, h.DB, `INSERT INTO waf_configs (domain_id, created_at, updated_at) SELECT id, now(), now() FROM proxy_domains`)
	dbtest.Exec(t, h.DB, `INSERT INTO waf_alerts (id, request_id, domain_id, rule_id, action, client_ip) SELECT gen_random_uuid(), 'r', id, 942100, 'detected', '192.0.2.1' FROM proxy_domains`)
	h.call(t, admin, http.MethodPut, "/ids/settings", `{"enabled":true}`).Want(t, 200)
	h.Machine.SetDetectionAlerts(`{"id":1,"scenario":"crowdsecurity/ssh-bf"}`)
	const differences = "differences-20260101T000000.000000Z.jsonl"
	if err := os.WriteFile(h.Paths.State(cluster.Folder+"/"+differences), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var kept cluster.Differences
	h.call(t, admin, http.MethodGet, "/cluster/differences", nil).Want(t, 200).Into(t, &kept)
	const neighbour = "02:00:00:00:00:09"
	h.Machine.SetNeighbours(host.Neighbour{Address: netip.MustParseAddr("10.10.0.9"), MAC: neighbour, Link: "lan0"})
	named := strings.NewReplacer("/ids/alerts/{id}", "/ids/alerts/1", // CrowdSec uses numbers
		"/radius/clients/{id}", "/radius/clients/{id}", "/clients/{id}", "/clients/"+neighbour,
		"/cluster/differences/{node}/{name}", "/cluster/differences/"+kept.Files[0].NodeID+"/"+differences)
	return func(r *httpd.Route) string {
		t.Helper()
		at := named.Replace(r.Path)
		for strings.Contains(at, "{") {
			before, after, _ := strings.Cut(at, "{")
			_, after, _ = strings.Cut(after, "}")
			var list []struct{ ID string }
			if h.call(t, admin, http.MethodGet, strings.TrimSuffix(before, "/"), nil).Want(t, 200).Into(t, &list); len(list) == 0 {
				t.Fatalf("%s has no row: furnish one", before)
			}
			at = before + list[0].ID + after
		}
		return at
	}
}

// read makes a request whose answer may have no envelope.
func (h house) read(t *testing.T, token, method, at string) int {
	t.Helper()
	return h.answer(t, token, method, at).Code
}

func (h house) answer(t *testing.T, token, method, at string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(method, httpd.Prefix+at, nil).WithContext(t.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, req)
	return w
}

func TestEveryRouteBeforeSetup(t *testing.T) {
	h := build(t, kittest.New(t))
	open := 0
	for _, r := range refusing(h.routes) {
		a := h.call(t, "", r.Method, path(r), `{}`)
		gated := a.Status == 503 && a.Error.Code == "setup_required"
		if gated == r.Policy.IsBeforeSetup() {
			t.Errorf("%s %s answers %d before setup: %s", r.Method, r.Path, a.Status, a.Body)
		}
		if !gated {
			open++
			if area, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/"); !slices.Contains([]string{"setup", "auth"}, area) && r.Path != "/system/health" {
				t.Errorf("%s answers before setup", r.Path)
			}
		}
	}
	if open < 5 {
		t.Errorf("only %d routes answer before setup", open)
	}
}

// A broken database connection is nobody's mistake: readers are asked to try again.
func TestEveryReadSurvivesABrokenConnection(t *testing.T) {
	t.Parallel()
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	at := h.furnish(t, admin)
	var paths []string
	for _, r := range h.routes {
		if r.Method == http.MethodGet && !r.WebSock && r.Enveloped() {
			paths = append(paths, at(r))
		}
	}
	later := 0
	for _, path := range paths {
		h.read(t, admin, http.MethodGet, path) // with a connection that is then recent enough to be reused
		dbtest.Exec(t, h.DB, `
			SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'idle' AND query NOT LIKE 'LISTEN%'`)
		switch h.read(t, admin, http.MethodGet, path) {
		case http.StatusServiceUnavailable:
			later++
		case http.StatusInternalServerError:
			t.Errorf("%s fails", path)
		}
	}
	if later == 0 {
		t.Error("no connection broke while it was in use")
	}
}

// Every status with which a route refuses a request is documented. Routes without a session say so.
func TestEveryRefusalIsDocumented(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	_, viewer := h.user(t, admin, "viewer@example.net", "viewer")
	paths := h.Router.Spec("test").Paths
	seen := map[int]int{}
	for _, r := range h.routes {
		item := paths[r.Path]
		op := map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
		}[r.Method]
		if op.Security == nil || (len(op.Security) == 0) != (r.Policy.IsPublic() || r.Policy.IsOwner()) {
			t.Errorf("%s %s: security %v", r.Method, r.Path, op.Security)
		}
		if r.WebSock || !r.Enveloped() {
			continue
		}
		for _, x := range []struct {
			token, body string
			headers     []string
		}{
			{"", "{}", nil}, {viewer, "{", nil}, {admin, "{", nil}, {admin, "{}", []string{"If-Match", `"none"`}}, {admin, "a", []string{"Content-Type", "text/plain"}},
			{admin, "{}", []string{"Sec-Fetch-Site", "cross-site"}},
		} {
			if r.Method == http.MethodGet {
				x.body = ""
			}
			headers := append([]string{"X-Test-Client", loopback, "Authorization", "Bearer " + x.token}, x.headers...)
			if x.token == "" {
				headers = headers[:2]
			}
			status := kittest.Call(t, h.Handler(), r.Method, path(r), x.body, headers...).Status
			if seen[status]++; status >= 400 && status < 500 && op.Responses[strconv.Itoa(status)] == nil && op.Responses["4XX"] == nil {
				t.Errorf("%s %s answers %d to %+v, which is not documented", r.Method, r.Path, status, x)
			}
		}
	}
	for _, status := range []int{400, 401, 403, 404, 412, 415} {
		if seen[status] == 0 {
			t.Errorf("nothing was refused with %d: %v", status, seen)
		}
	}
}

// Routes of a new machine's owner are closed to callers without the setup token, and to everyone once the setup is complete.
func TestEveryRouteOfTheOwner(t *testing.T) {
	h := build(t, kittest.New(t))
	owned := slices.DeleteFunc(slices.Clone(h.routes), func(r *httpd.Route) bool { return !r.Policy.IsOwner() })
	if len(owned) == 0 {
		t.Fatal("there are none")
	}
	call := func(r *httpd.Route, headers ...string) int {
		return kittest.Call(t, h.Handler(), r.Method, r.Path, nil, headers...).Status
	}
	const away = "192.0.2.9:4711"
	token, err := setup.Token(h.Paths)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range owned {
		if !strings.HasPrefix(r.Path, "/setup/") {
			t.Errorf("%s is none of the setup's", r.Path)
		}
		for _, headers := range [][]string{{"X-Test-Client", away}, {"X-Test-Client", away, httpd.SetupTokenHeader, strings.Repeat("0", len(token))}} {
			if s := call(r, headers...); s != 403 {
				t.Errorf("%s %s answers a stranger %d", r.Method, r.Path, s)
			}
		}
		for _, headers := range [][]string{{"X-Test-Client", loopback}, {"X-Test-Client", away, httpd.SetupTokenHeader, token}} {
			if s := call(r, headers...); s == 401 || s == 403 || s >= 500 {
				t.Errorf("%s %s answers the owner %d", r.Method, r.Path, s)
			}
		}
	}
	admin := h.setUp(t)
	for _, r := range owned {
		for _, headers := range [][]string{{"X-Test-Client", loopback}, {"X-Test-Client", away, httpd.SetupTokenHeader, token}, {"X-Test-Client", loopback, "Authorization", "Bearer " + admin}} {
			if s := call(r, headers...); s != 409 {
				t.Errorf("%s %s answers %d when the setup is complete", r.Method, r.Path, s)
			}
		}
	}
}

func TestEveryRouteByEveryCaller(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	_, viewer := h.user(t, admin, "viewer@example.net", "viewer")
	inactiveID, inactive := h.user(t, admin, "inactive@example.net", "admin")
	inactiveToken := h.token(t, inactive, "admin")
	h.call(t, admin, http.MethodPut, "/users/"+inactiveID, `{"active":false}`).Want(t, 200)
	deletedID, deleted := h.user(t, admin, "deleted@example.net", "admin")
	deletedToken := h.token(t, deleted, "admin")
	h.call(t, admin, http.MethodDelete, "/users/"+deletedID, nil).Want(t, 200)
	adminToken, readerToken, viewerToken := h.token(t, admin, "admin"), h.token(t, admin, "viewer"), h.token(t, viewer, "viewer")
	demotedID, demoted := h.user(t, admin, "demoted@example.net", "admin")
	demotedToken := h.token(t, demoted, "admin")
	h.call(t, admin, http.MethodPut, "/users/"+demotedID, `{"role":"viewer"}`).Want(t, 200)

	for _, r := range inUse(refusing(h.routes)) {
		name := r.Method + " " + r.Path
		status := func(token string) int {
			if !r.Enveloped() && r.Method == http.MethodGet {
				return h.read(t, token, r.Method, path(r))
			}
			a := h.call(t, token, r.Method, path(r), `{"`)
			if a.Status >= 500 && a.Status != 501 {
				t.Errorf("%s answers %d: %s", name, a.Status, a.Body)
			}
			return a.Status
		}
		if r.Policy.IsPublic() {
			if s := status(""); s == 403 || s == 404 {
				t.Errorf("%s refuses the anonymous caller with %d", name, s)
			}
			continue
		}
		if r.Path == "/auth/logout" {
			if s := status(""); s != 401 {
				t.Errorf("%s: anonymous gets %d", name, s)
			}
			continue // it would end the sessions of the walk
		}
		for caller, want := range map[string]int{"": 401, inactive: 403, inactiveToken: 403, deleted: 401, deletedToken: 401, "nonsense": 401, "gwt_nonsense": 401} {
			if s := status(caller); s != want {
				t.Errorf("%s: %.12q gets %d instead of %d", name, caller, s, want)
			}
		}
		for _, caller := range []struct {
			name, token    string
			admin, machine bool
		}{
			{"an admin", admin, true, false}, {"a viewer", viewer, false, false},
			{"the API token of an admin", adminToken, true, true}, {"the API token of a viewer", viewerToken, false, true},
			{"the viewer's token of an admin", readerToken, false, true}, {"the token of an admin who is a viewer now", demotedToken, false, true},
		} {
			refused := r.Policy.IsAdmin() && !caller.admin || r.Policy.IsBySession() && caller.machine
			if s := status(caller.token); refused && s != 403 || !refused && (s == 401 || s == 403) {
				t.Errorf("%s: %s gets %d", name, caller.name, s)
			}
		}
		if r.Method != http.MethodGet && r.Policy.String() == "read" {
			t.Errorf("%s changes something and is open to readers", name)
		}
		if strings.Contains(r.Path, "{") && r.Method != http.MethodPost {
			if a := h.call(t, admin, r.Method, path(r), `{}`); a.Status != 404 {
				t.Errorf("AU24 %s: an unknown id answers %d", name, a.Status)
			}
		}
	}
}

// state is a fingerprint of every row in the database, except how components applied earlier changes, which is recorded a moment
// later.
func state(t *testing.T, b *kittest.Bench) (sum string) {
	t.Helper()
	err := b.DB.QueryRow(t.Context(), `
		SELECT md5(string_agg(query_to_xml(format('SELECT * FROM %I ORDER BY 1', table_name), true, true, '')::text, '' ORDER BY table_name))
		FROM information_schema.tables WHERE table_schema = 'public' AND table_name <> 'change_applies'`).Scan(&sum)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestAU21ReadingChangesNothing(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	at := h.furnish(t, admin)
	h.Engine.ApplyAll(t.Context())
	var paths []string
	for _, r := range inUse(refusing(h.routes)) {
		if r.Method == http.MethodGet && !r.WebSock && r.Audit == "" {
			paths = append(paths, at(r))
		}
	}
	before := state(t, h.Bench)
	for _, p := range paths {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if status := h.read(t, admin, method, p); status != 200 && !strings.HasPrefix(p, "/system/config-preview") && !strings.HasSuffix(p, "/archives") {
				t.Errorf("%s %s: %d", method, p, status)
			}
		}
	}
	if state(t, h.Bench) != before {
		t.Error("a read changed the database")
	}
}

func TestAU16ViewerReadsEverythingElse(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	at := h.furnish(t, admin)
	_, viewer := h.user(t, admin, "viewer@example.net", "viewer")
	token := h.token(t, viewer, "viewer")
	h.call(t, token, http.MethodGet, "/auth/me", nil).Want(t, 200) // its last use is recorded once a minute
	h.Engine.ApplyAll(t.Context())
	paths := map[string]int{}
	for _, r := range inUse(refusing(h.routes)) {
		if r.Method != http.MethodGet || r.WebSock {
			continue
		}
		p := at(r)
		if p == "/system/config-preview" {
			p += "?generator=ntp"
		}
		switch paths[p] = 200; {
		case r.Policy.IsAdmin():
			paths[p] = 403
		case r.Path == "/api-tokens/{id}" || r.Path == "/auth/passkeys/{id}":
			paths[p] = 404 // the administrator's own
		}
	}
	before := state(t, h.Bench)
	for p, want := range paths {
		for _, caller := range []string{viewer, token} {
			if status := h.read(t, caller, http.MethodGet, p); status != want {
				t.Errorf("GET %s answers a viewer %d instead of %d", p, status, want)
			}
		}
	}
	if state(t, h.Bench) != before {
		t.Error("a viewer changed the database")
	}
}

// Error messages of daemons and the kernel are for administrators: no answer to a viewer contains them, but every read is
// answered.
func TestDaemonsWordsAreForAdministrators(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	at := h.furnish(t, admin)
	_, viewer := h.user(t, admin, "viewer@example.net", "viewer")
	h.call(t, admin, http.MethodPut, "/dhcp/settings", `{"enabled":true}`).Want(t, 200)
	h.call(t, admin, http.MethodPut, "/radius/settings", `{"enabled":true}`).Want(t, 200)
	h.Engine.ApplyAll(t.Context())
	paths := map[string]bool{}
	for _, r := range inUse(refusing(h.routes)) {
		if r.Method == http.MethodGet && !r.WebSock && !r.Policy.IsAdmin() {
			paths[at(r)] = true
		}
	}
	const marker = "/etc/gateway/marker"
	h.Machine.Break(errors.New("open " + marker + ": no such file"))
	found := 0
	for p := range paths {
		if w := h.answer(t, viewer, http.MethodGet, p); strings.Contains(w.Body.String(), marker) {
			t.Errorf("GET %s tells a viewer %s", p, w.Body)
		}
		if strings.Contains(h.answer(t, admin, http.MethodGet, p).Body.String(), marker) {
			found++
		}
	}
	if found < 10 {
		t.Errorf("an administrator is told by %d answers", found)
	}
	// Reports go to viewers and to webhooks.
	h.Machine.LendPostgreSQL(failing{marker})
	h.call(t, admin, http.MethodPost, "/backups/scheduled", nil).Want(t, 200)
	for _, p := range []string{"/alerts/events", "/alerts/open", "/backups"} {
		if w := h.answer(t, viewer, http.MethodGet, p); strings.Contains(w.Body.String(), marker) {
			t.Errorf("GET %s tells a viewer %s", p, w.Body)
		}
	}
}

// failing is a PostgreSQL whose programs fail.
type failing struct{ with string }

func (f failing) DumpDatabase(context.Context, string, []string, *os.File) error {
	return errors.New("pg_dump: " + f.with)
}
func (f failing) ReadDump(context.Context, *os.File, *os.File) error { return errors.New(f.with) }

// AU-16, AU-21 and AU-24 for every route: callers who lack the permission, whose browser was sent by another site, or who use a
// malformed id are refused, whether or not the row exists and whatever the body is, and nothing has changed.
func TestRefusedRequestsChangeNothing(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	at := h.furnish(t, admin)
	_, viewer := h.user(t, admin, "viewer@example.net", "viewer")
	h.Engine.ApplyAll(t.Context())
	type attempt struct {
		method, path, body string
		headers            []string
		want               int // 0 for any refusal
	}
	var all []attempt
	rows := map[string]*httpd.Route{}
	for _, r := range h.routes {
		if r.Method == http.MethodGet {
			rows[r.Path] = r
		}
	}
	for _, r := range inUse(refusing(h.routes)) {
		if r.Method == http.MethodGet {
			continue
		}
		known := path(r)
		if row, rest, of := strings.Cut(r.Path, "{id}"); of && rows[row+"{id}"] != nil {
			known = at(rows[row+"{id}"]) + rest
		}
		for _, p := range []string{path(r), known} {
			for _, body := range []string{`{}`, `{"`} {
				if !r.Policy.IsPublic() && r.Policy.String() != "own" {
					all = append(all, attempt{r.Method, p, body, []string{"Authorization", "Bearer " + viewer}, 403})
				}
				for _, site := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}} {
					all = append(all, attempt{r.Method, p, body, append(site, "Cookie", "gateway_session="+admin), 403})
				}
			}
		}
	}
	for _, r := range inUse(enveloped(h.routes)) {
		if !strings.Contains(r.Path, "{") {
			continue
		}
		for _, id := range []string{"x", "%00", "..%2f..%2fetc%2fpasswd", "%27%20OR%201=1", strings.Repeat("a", 300), "00000000-0000-0000-0000-00000000000g"} {
			p := strings.NewReplacer("{id}", id, "{parent}", id, "{name}", id, "{node}", id).Replace(r.Path)
			all = append(all, attempt{r.Method, p, "", []string{"Authorization", "Bearer " + admin}, 0})
		}
	}
	before := state(t, h.Bench)
	for _, x := range all {
		a := kittest.Call(t, h.Handler(), x.method, x.path, x.body, x.headers...)
		if x.want != 0 && a.Status != x.want || a.Status < 400 || a.Status > 499 {
			t.Errorf("%s %s %q %.60q: %d %s", x.method, x.path, x.body, x.headers, a.Status, a.Body)
		}
	}
	if state(t, h.Bench) != before {
		t.Error("something has changed")
	}
}

func TestEveryMutationIsAudited(t *testing.T) {
	for _, r := range build(t, kittest.New(t)).routes {
		if r.Policy.String() == "write" && r.Audit == "" {
			t.Errorf("%s %s does not say under which name it is audited", r.Method, r.Path)
		}
		// The browser returns from the identity provider by a GET, which begins a session, and an archive contains every secret.
		if r.Method == http.MethodGet && r.Audit != "" && r.Path != "/auth/oidc/callback" && r.Path != "/backups/{id}/download" {
			t.Errorf("%s %s reads and is audited", r.Method, r.Path)
		}
	}
}

// The table of a kind has the columns that the kind declares.
func TestKindsFitTheSchema(t *testing.T) {
	h := build(t, kittest.New(t))
	for _, table := range h.Resources.Tables() {
		rows, err := h.DB.Query(t.Context(), `SELECT column_name::text FROM information_schema.columns WHERE table_name = $1`, table.Name)
		if err != nil {
			t.Fatal(err)
		}
		var columns []string
		for rows.Next() {
			var c string
			if err := rows.Scan(&c); err != nil {
				t.Fatal(err)
			}
			columns = append(columns, c)
		}
		for _, c := range table.Columns {
			if !slices.Contains(columns, c) {
				t.Errorf("%s: table %s has no column %s", table.Kind, table.Name, c)
			}
		}
	}
}

func TestDocumentationIsUpToDateAndComplete(t *testing.T) {
	var fresh bytes.Buffer
	if err := app.WriteSpec(&fresh); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("../../api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(fresh.Bytes(), kept) {
		t.Error("api/openapi.json is stale: run make generate")
	}
	h := build(t, kittest.New(t))
	for name, s := range h.Router.Spec("x").Components.Schemas.Map() {
		for field, property := range s.Properties {
			if property.Ref == "" && property.Description == "" && name != "Error" {
				t.Errorf("%s.%s is not documented", name, field)
			}
		}
	}
}

// ofBackup reports whether a route that works without the database is about one backup.
func ofBackup(r *httpd.Route) bool {
	return r.Policy.IsOffline() && (strings.HasPrefix(r.Path, "/backups/{id}") || r.Path == "/backups/upload")
}

// SY04: without the database at start, health, setup, login and system routes answer, resources do not, and everything recovers
// automatically.
func TestSY04DatabaseAwayAtStart(t *testing.T) {
	t.Parallel() // it mostly waits
	d, err := db.Open(dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	h := build(t, kittest.NewOn(t, d)) // not attached
	h.call(t, "", http.MethodGet, "/system/health", nil).Want(t, 200)
	h.call(t, "", http.MethodGet, "/setup/status", nil).Want(t, 200)
	offline := h.setUp(t)
	h.Machine.SetPackages(host.PackageVersions{Packages: []host.PackageVersion{{Name: host.GatewayPackage, Installed: "1.0.0", Available: "1.1.0", Newer: []string{"1.1.0"}}}}, nil)
	for _, r := range inUse(enveloped(h.routes)) {
		if r.Policy.IsPublic() || r.Path == "/auth/logout" || r.WebSock {
			continue
		}
		body := map[string]string{
			"/system/service-restart": `{"kind":"ntp"}`, "/system/service-toggle": `{"service":"waf","enabled":true}`, "/system/retention": `{"audit_days":1}`,
			"/license/key": fmt.Sprintf(`{"key":%q}`, canaryLicense), "/system/upgrade": `{"version":"1.1.0"}`,
			"/backups/{id}/restore-plan": `{}`, "/backups/{id}/restore": `{}`,
		}[r.Path]
		switch {
		case r.Body == nil:
			body = ""
		case body == "":
			body = `{"enabled":true}`
		}
		a := h.call(t, offline, r.Method, path(r), body)
		switch {
		case !r.Policy.IsOffline() && (a.Status != 503 || a.Error.Code != "unavailable"):
			t.Errorf("%s %s answers %d without a database: %s", r.Method, r.Path, a.Status, a.Body)
		case ofBackup(r):
			if a.Status != 404 && a.Status != 409 { // there is none, and none can be made while an upgrade runs
				t.Errorf("%s %s answers %d without a database: %s", r.Method, r.Path, a.Status, a.Body)
			}
		case r.Policy.IsOffline() && a.Status != 200:
			t.Errorf("%s %s answers %d without a database: %s", r.Method, r.Path, a.Status, a.Body)
		}
	}
	h.call(t, "", http.MethodPost, "/auth/login", map[string]any{"email": "somebody@example.net", "password": secretWord}).Want(t, 503)

	away := time.Now()
	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	// Actions in the meantime are in the log now, with their original times.
	if _, err := h.Audit.Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := h.Audited(t, "setup.complete"); n != 1 {
		t.Errorf("the setup has %d entries", n)
	}
	for _, r := range h.routes {
		if r.Policy.IsOffline() && r.Audit != "" && r.Path != "/auth/logout" && !ofBackup(r) && h.Audited(t, r.Audit) != 1 {
			t.Errorf("%s %s, done without a database, has %d entries", r.Method, r.Path, h.Audited(t, r.Audit))
		}
	}
	if list, err := h.Audit.Search(t.Context(), audit.Filter{Action: "system.", To: away, Limit: 100}); err != nil || len(list) == 0 || list[0].Actor != adminEmail {
		t.Errorf("%+v %v", list, err)
	}
	h.call(t, offline, http.MethodGet, "/ntp/pools", nil).Want(t, 200) // as the user that the administrator has become
	admin := h.login(t, adminEmail)
	h.call(t, admin, http.MethodGet, "/ntp/pools", nil).Want(t, 200)
	h.call(t, admin, http.MethodPost, "/ntp/pools", `{"address":"a.example"}`).Want(t, 201)
}
