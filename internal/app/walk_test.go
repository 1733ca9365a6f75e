package app_test

import (
	"bytes"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/crypto/bcrypt"

	"edge.internal/gateway/internal/app"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
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

// token makes an API token for the user of a session.
func (h house) token(t *testing.T, session, role string) (token string) {
	t.Helper()
	var out struct{ Token string }
	h.call(t, session, http.MethodPost, "/api-tokens", map[string]any{"name": role, "role": role}).Want(t, 201).Into(t, &out)
	return out.Token
}

// path fills the parameters of a route's path with ids that do not exist.
func path(r *httpd.Route) string {
	p := r.Path
	for _, name := range []string{"{id}", "{parent}"} {
		p = strings.ReplaceAll(p, name, uuid.NewString())
	}
	return p
}

// enveloped leaves out what answers with something else than the envelope.
func enveloped(routes []*httpd.Route) []*httpd.Route {
	return slices.DeleteFunc(slices.Clone(routes), func(r *httpd.Route) bool { return !r.Enveloped() })
}

func TestEveryRouteBeforeSetup(t *testing.T) {
	h := build(t, kittest.New(t))
	open := 0
	for _, r := range enveloped(h.routes) {
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

	for _, r := range enveloped(h.routes) {
		name := r.Method + " " + r.Path
		status := func(token string) int {
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

// state is a fingerprint of every row in the database.
func state(t *testing.T, b *kittest.Bench) (sum string) {
	t.Helper()
	err := b.DB.QueryRow(t.Context(), `
		SELECT md5(string_agg(query_to_xml(format('SELECT * FROM %I ORDER BY 1', table_name), true, true, '')::text, '' ORDER BY table_name))
		FROM information_schema.tables WHERE table_schema = 'public'`).Scan(&sum)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestAU21ReadingChangesNothing(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	h.Engine.ApplyAll(t.Context())
	before := state(t, h.Bench)
	for _, r := range enveloped(h.routes) {
		if r.Method != http.MethodGet || r.WebSock {
			continue
		}
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if a := h.call(t, admin, method, path(r), nil); a.Status >= 500 {
				t.Errorf("%s %s: %d", method, r.Path, a.Status)
			}
		}
	}
	if state(t, h.Bench) != before {
		t.Error("a read changed the database")
	}
}

func TestAU16ViewerReadsEverythingElse(t *testing.T) {
	h := build(t, kittest.New(t))
	_, viewer := h.user(t, h.setUp(t), "viewer@example.net", "viewer")
	token := h.token(t, viewer, "viewer")
	h.call(t, token, http.MethodGet, "/auth/me", nil).Want(t, 200) // its last use is written down once a minute
	before := state(t, h.Bench)
	for _, r := range enveloped(h.routes) {
		if r.Method == http.MethodGet && !r.WebSock && !r.Policy.IsAdmin() && !strings.Contains(r.Path, "{") {
			p := r.Path
			if p == "/system/config-preview" {
				p += "?generator=ntp"
			}
			for _, caller := range []string{viewer, token} {
				h.call(t, caller, http.MethodGet, p, nil).Want(t, 200)
			}
		}
	}
	if state(t, h.Bench) != before {
		t.Error("a viewer changed the database")
	}
}

func TestEveryMutationIsAudited(t *testing.T) {
	for _, r := range build(t, kittest.New(t)).routes {
		if r.Policy.String() == "write" && r.Audit == "" {
			t.Errorf("%s %s does not say under which name it is audited", r.Method, r.Path)
		}
		// The browser comes back from the identity provider by a GET, which begins a session.
		if r.Method == http.MethodGet && r.Audit != "" && r.Path != "/auth/oidc/callback" {
			t.Errorf("%s %s reads and is audited", r.Method, r.Path)
		}
	}
}

// What a kind declares is what its table has.
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

// SY04: without the database at start, health, setup, login and system routes answer, resources do not, and all of it
// heals by itself.
func TestSY04DatabaseAwayAtStart(t *testing.T) {
	d, err := db.Open(dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	h := build(t, kittest.NewOn(t, d)) // not attached
	h.call(t, "", http.MethodGet, "/system/health", nil).Want(t, 200)
	h.call(t, "", http.MethodGet, "/setup/status", nil).Want(t, 200)
	offline := h.setUp(t)
	for _, r := range enveloped(h.routes) {
		if r.Policy.IsPublic() || r.Path == "/auth/logout" || r.WebSock {
			continue
		}
		body := map[string]string{"/system/service-restart": `{"kind":"ntp"}`, "/system/service-toggle": `{"service":"waf"}`, "/system/retention": `{"audit_days":1}`}[r.Path]
		if body == "" {
			body = `{"enabled":true}`
		}
		a := h.call(t, offline, r.Method, path(r), body)
		switch {
		case !r.Policy.IsOffline() && (a.Status != 503 || a.Error.Code != "unavailable"):
			t.Errorf("%s %s answers %d without a database: %s", r.Method, r.Path, a.Status, a.Body)
		case r.Policy.IsOffline() && a.Status != 200:
			t.Errorf("%s %s answers %d without a database: %s", r.Method, r.Path, a.Status, a.Body)
		}
	}
	h.call(t, "", http.MethodPost, "/auth/login", map[string]any{"email": "somebody@example.net", "password": secretWord}).Want(t, 503)

	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	h.call(t, offline, http.MethodGet, "/ntp/pools", nil).Want(t, 200) // as the user whom the admin has become
	admin := h.login(t, adminEmail)
	h.call(t, admin, http.MethodGet, "/ntp/pools", nil).Want(t, 200)
	h.call(t, admin, http.MethodPost, "/ntp/pools", `{"address":"a.example"}`).Want(t, 201)
}
