package app_test

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"edge.internal/gateway/internal/backup"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/wire"
	"edge.internal/gateway/internal/schema"
)

var placeholder = regexp.MustCompile(`\{([a-z_]+)\}`)

// Every operation that answers 201 has a location: a path of the API with parameters from the answer or the route's path.
func TestEveryOperationThatCreatesHasALocation(t *testing.T) {
	h := build(t, kittest.New(t))
	shape := func(path string) string { return placeholder.ReplaceAllString(path, "{}") }
	paths := map[string]bool{}
	for _, r := range h.routes {
		paths[shape(r.Path)] = true
	}
	n := 0
	for _, r := range h.routes {
		if (r.Status == http.StatusCreated) != (r.Creates != "") {
			t.Errorf("%s %s answers %d, and makes %q", r.Method, r.Path, r.Status, r.Creates)
		}
		if r.Creates == "" {
			continue
		}
		n++
		if !paths[shape(r.Creates)] {
			t.Errorf("%s %s makes %s, which is no path of the API", r.Method, r.Path, r.Creates)
		}
		for _, name := range placeholder.FindAllStringSubmatch(r.Creates, -1) {
			if !strings.Contains(r.Path, name[0]) && !slices.ContainsFunc(wire.Fields(r.Out.Type), func(f wire.Field) bool { return f.Name == name[1] }) {
				t.Errorf("%s %s: the answer has no %s", r.Method, r.Path, name[1])
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d operations create something", n)
	}
}

// A switch of a service is a change of settings: the answer says how far the components got, and what cannot be stored is neither
// done nor audited.
func TestServiceToggle(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	for service, component := range map[string]string{"ids-agent": "ids=", "ids-firewall-bouncer": "ids-firewall-bouncer=", "waf": "waf="} {
		a := h.call(t, admin, http.MethodPost, "/system/service-toggle", map[string]any{"service": service, "enabled": true}).Want(t, 200)
		if !strings.Contains(a.Header.Get("Gateway-Apply"), component) {
			t.Errorf("%s: %q", service, a.Header)
		}
	}
	audited := h.Audited(t, "system.service-toggle")
	if audited != 3 {
		t.Errorf("%d entries", audited)
	}
	dbtest.Exec(t, h.DB, "ALTER TABLE waf_settings RENAME TO waf_settings_away")
	if a := h.call(t, admin, http.MethodPost, "/system/service-toggle", map[string]any{"service": "waf", "enabled": false}); a.Status < 500 {
		t.Errorf("it cannot be stored, and the answer is %d: %s", a.Status, a.Body)
	}
	if n := h.Audited(t, "system.service-toggle"); n != audited {
		t.Errorf("what was not done has an entry: %d instead of %d", n, audited)
	}
}

// Without a database it is refused, like other changes of what is stored there.
func TestServiceToggleWithoutTheDatabase(t *testing.T) {
	d, err := db.Open(dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	h := build(t, kittest.NewOn(t, d))
	admin := h.setUp(t)
	h.call(t, admin, http.MethodPost, "/system/service-toggle", map[string]any{"service": "waf", "enabled": true}).Want(t, 503)
	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Audit.Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := h.Audited(t, "system.service-toggle"); n != 0 {
		t.Errorf("what was not done has %d entries", n)
	}
}

// What was created or changed just now has a recent time.
func TestUpdatedAt(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	recent := func(what string, at time.Time) {
		t.Helper()
		if time.Since(at) > time.Hour {
			t.Errorf("%s was updated at %s", what, at)
		}
	}
	var made backup.Backup
	h.call(t, admin, http.MethodPost, "/backups", nil).Want(t, 201).Into(t, &made)
	recent("a backup", made.UpdatedAt)
	h.call(t, admin, http.MethodPost, "/backups/"+made.ID.String()+"/verify", nil).Want(t, 200).Into(t, &made)
	recent("a proven backup", made.UpdatedAt)
	h.call(t, admin, http.MethodPost, "/backups/scheduled", nil).Want(t, 200).Into(t, &made)
	recent("a scheduled backup", made.UpdatedAt)
	var domain, config struct {
		ID        string    `json:"id"`
		CreatedAt time.Time `json:"created_at"`
		UpdatedAt time.Time `json:"updated_at"`
	}
	h.call(t, admin, http.MethodPost, "/domains", map[string]any{"name": "a.example.net", "backend_id": h.backend(t, admin)}).Want(t, 201).Into(t, &domain)
	h.call(t, admin, http.MethodGet, "/waf/configs/"+domain.ID, nil).Want(t, 200).Into(t, &config)
	recent("a default configuration", config.CreatedAt)
	recent("a default configuration", config.UpdatedAt)
}

// backend creates a backend, and returns its id.
func (h house) backend(t *testing.T, admin string) string {
	t.Helper()
	var made struct{ ID string }
	h.call(t, admin, http.MethodPost, "/backends", `{"name":"web"}`).Want(t, 201).Into(t, &made)
	return made.ID
}

// Lists without priorities are ordered by name, whatever was created first.
func TestListsAreOrderedByName(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	sftp := map[string]any{"host": "backup.example.net", "username": "backup", "password": "secret-word"}
	domains, behind := map[string]string{}, h.backend(t, admin)
	for _, name := range []string{"b", "c", "a"} {
		h.call(t, admin, http.MethodPost, "/alerts", map[string]any{"name": name, "kind": "webhook", "target": "https://" + name + ".example.net/"}).Want(t, 201)
		h.call(t, admin, http.MethodPost, "/backup-remotes", map[string]any{"name": name, "kind": "sftp", "settings": sftp}).Want(t, 201)
		var d struct{ ID string }
		h.call(t, admin, http.MethodPost, "/domains", map[string]any{"name": name + ".example.net", "backend_id": behind}).Want(t, 201).Into(t, &d)
		domains[d.ID] = name
	}
	for id := range domains {
		h.call(t, admin, http.MethodPut, "/waf/configs/"+id, map[string]any{"enabled": false}).Want(t, 200)
	}
	for _, path := range []string{"/alerts", "/backup-remotes", "/waf/configs"} {
		var list []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		}
		h.call(t, admin, http.MethodGet, path, nil).Want(t, 200).Into(t, &list)
		var names []string
		for _, row := range list {
			if row.Name == "" {
				row.Name = domains[row.ID]
			}
			names = append(names, row.Name)
		}
		if strings.Join(names, "") != "abc" {
			t.Errorf("%s: %q", path, names)
		}
	}
}

// Archives are for people who have logged in: no API token can download or upload one. Downloads are audited, and contain no
// session.
func TestArchivesAreForPeople(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	token := h.token(t, admin, "admin")
	var made backup.Backup
	h.call(t, token, http.MethodPost, "/backups", nil).Want(t, 201).Into(t, &made)
	at := "/backups/" + made.ID.String()
	for path, method := range map[string]string{at + "/download": http.MethodGet, "/backups/upload": http.MethodPost, at + "/restore": http.MethodPost} {
		if w := h.answer(t, token, method, path); w.Code != http.StatusForbidden {
			t.Errorf("%s %s by a token: %d", method, path, w.Code)
		}
	}
	if n := h.Audited(t, "backup.download"); n != 0 {
		t.Errorf("%d downloads", n)
	}
	w := h.answer(t, admin, http.MethodGet, at+"/download")
	if w.Code != 200 || h.Audited(t, "backup.download") != 1 {
		t.Fatalf("%d, %d entries", w.Code, h.Audited(t, "backup.download"))
	}
	plain, err := zstd.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	content, err := io.ReadAll(plain)
	if err != nil && !bytes.Contains(content, []byte(adminEmail)) { // the stream is followed by the archive's own footer
		t.Fatal(err)
	}
	var session string
	if err := h.DB.QueryRow(t.Context(), "SELECT id::text FROM account_sessions").Scan(&session); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(content, []byte(adminEmail)) || bytes.Contains(content, []byte(session)) {
		t.Error("the archive has no users, or a session")
	}
	h.call(t, admin, http.MethodPost, at+"/verify", nil).Want(t, 200).Into(t, &made)
	if made.Proof == nil || made.Proof.Status != "proven" {
		t.Errorf("%+v", made.Proof)
	}
}
