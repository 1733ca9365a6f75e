package setup

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/value"
)

const (
	onTheBox  = "127.0.0.1:40000"
	elsewhere = "192.0.2.7:40000"
	plain     = "correct horse battery"
)

// house is the setup on a kit, with a toy area that is closed until the setup is complete.
type house struct {
	*kittest.Bench
	room  *Room
	store *Store
	clock *clock.Fake
	// joins returns the result of a join.
	joins func(in Join) error
}

func (h *house) join(_ context.Context, in Join) error {
	if err := h.joins(in); err != nil {
		return err
	}
	return h.store.Update(func(s *State) error { s.FQDN = value.Must[value.DomainName]("node2.example.net"); return nil })
}

func newHouse(t *testing.T) *house {
	t.Helper()
	return start(t, kittest.New(t))
}

// start builds the room on a bench; calling it again restarts the service.
func start(t *testing.T, b *kittest.Bench) *house {
	t.Helper()
	h := &house{Bench: b, clock: clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	b.Kit.Clock = h.clock
	b.Router = httpd.NewRouter(b.Log)
	b.Router.Sessions = kittest.Roles{}
	var err error
	if h.store, err = OpenStore(b.Paths); err != nil {
		t.Fatal(err)
	}
	if h.room, err = New(b.Kit, Deps{Store: h.store, Passwords: password.New(bcrypt.MinCost), Join: h.join}); err != nil {
		t.Fatal(err)
	}
	b.Router.SetupDone = h.room.Completed
	h.room.Mount()
	for path, policy := range map[string]httpd.Policy{"/toys": httpd.Read, "/health": httpd.Public.BeforeSetup()} {
		httpd.Handle(b.Router, http.MethodGet, path, policy, httpd.Doc{ID: path, Tag: "toy", Summary: "a toy"},
			func(*httpd.Call, struct{}) (string, error) { return "toy", nil })
	}
	b.Start(t)
	return h
}

func (h *house) post(t *testing.T, from, path string, body any) *kittest.Answer {
	t.Helper()
	return h.Do(t, "", http.MethodPost, path, body, "X-Test-Client", from)
}

func gateway(changes ...any) map[string]any {
	body := map[string]any{"admin_email": "admin@example.net", "admin_password": plain, "fqdn": "gw.example.net", "acme_email": "", "acme_enabled": false, "ipv6_enabled": true}
	for i := 0; i < len(changes); i += 2 {
		body[changes[i].(string)] = changes[i+1]
	}
	return body
}

func (h *house) content(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(h.Paths.State("setup.json"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

func TestSU01SetupGate(t *testing.T) {
	h := newHouse(t)
	if a := h.Get(t, "/toys").Want(t, http.StatusServiceUnavailable); a.Error.Code != "setup_required" {
		t.Errorf("code %s", a.Error.Code)
	}
	h.Get(t, "/health").Want(t, http.StatusOK)
	var before Status
	h.Do(t, "", http.MethodGet, "/setup/status", nil, "X-Test-Client", onTheBox).Want(t, http.StatusOK).Into(t, &before)
	if before != (Status{}) {
		t.Errorf("status %+v", before)
	}

	var after Status
	h.post(t, onTheBox, "/setup/complete", gateway()).Want(t, http.StatusOK).Into(t, &after)
	if want := (Status{Completed: true, FQDN: "gw.example.net"}); after != want {
		t.Errorf("status %+v", after)
	}
	h.Get(t, "/toys").Want(t, http.StatusOK)
	if n := h.Audited(t, "setup.complete"); n != 1 {
		t.Errorf("%d audit entries", n)
	}

	settled := h.content(t)
	for _, path := range []string{"/setup/complete", "/setup/complete-node", "/setup/join-cluster"} {
		for _, body := range []any{gateway("fqdn", "other.example.net"), `{"nonsense": `, `[]`, nil} {
			for _, from := range []string{onTheBox, elsewhere} {
				h.post(t, from, path, body).Want(t, http.StatusConflict)
			}
		}
	}
	if now := h.content(t); now != settled {
		t.Errorf("the store has changed: %s", now)
	}
	// The decision outlives the process.
	again := start(t, h.Bench)
	again.Get(t, "/toys").Want(t, http.StatusOK)
	again.post(t, onTheBox, "/setup/complete", gateway()).Want(t, http.StatusConflict)
}

// SU-03: before the setup, every route is unreachable unless it is declared otherwise, even for administrators.
func TestSU03NothingElseAnswersBeforeSetup(t *testing.T) {
	h := newHouse(t)
	for _, route := range h.Router.Routes() {
		if route.Policy.IsBeforeSetup() != (strings.HasPrefix(route.Path, "/setup/") || route.Path == "/health") {
			t.Errorf("%s %s", route.Method, route.Path)
		}
	}
	for _, role := range []string{"", "viewer", "admin"} {
		h.Do(t, role, http.MethodGet, "/toys", nil).Want(t, http.StatusServiceUnavailable)
	}
}

func TestSU04NodeAndBadNames(t *testing.T) {
	h := newHouse(t)
	for _, fqdn := range []string{`gw".example.net`, "gw\n.example.net", strings.Repeat("a.", 126) + "ab" /* 254 characters */, "gw", "", "192.0.2.1"} {
		body := map[string]any{"fqdn": fqdn, "acme_enabled": false, "ipv6_enabled": false}
		h.post(t, onTheBox, "/setup/complete-node", body).WantField(t, "fqdn")
		h.post(t, onTheBox, "/setup/complete", gateway("fqdn", fqdn)).WantField(t, "fqdn")
	}
	h.post(t, onTheBox, "/setup/complete-node", gateway()).WantField(t, "admin_email")
	node := map[string]any{"fqdn": "node2.example.net", "acme_email": "ops@example.net", "acme_enabled": true, "ipv6_enabled": true}
	h.post(t, onTheBox, "/setup/complete-node", node).Want(t, http.StatusConflict) // it has joined no cluster, and would have no accounts
	if h.content(t) != "" {
		t.Error("something was stored")
	}
	h.joins = func(Join) error { return nil }
	h.post(t, onTheBox, "/setup/join-cluster", joinBody).Want(t, http.StatusOK)
	h.post(t, onTheBox, "/setup/complete", gateway()).Want(t, http.StatusConflict)
	h.post(t, onTheBox, "/setup/join-cluster", joinBody).Want(t, http.StatusConflict)
	node["fqdn"] = "node3.example.net"
	h.post(t, onTheBox, "/setup/complete-node", node).WantField(t, "fqdn")
	node["fqdn"] = "node2.example.net"
	h.post(t, onTheBox, "/setup/complete-node", node).Want(t, http.StatusOK)
	s := h.store.View()
	if !s.Completed || !s.IsClusterNode || !s.Admin.Email.IsZero() || s.Admin.Hash != "" || s.FQDN.String() != "node2.example.net" || !s.ACMEEnabled || !s.IPv6Enabled {
		t.Errorf("state %+v", s)
	}
	if s.Retention != (Retention{AuditDays: 90, BackupKeep: 14, HistoryDays: 365, HistorySets: 10000}) {
		t.Errorf("retention %+v", s.Retention)
	}
}

func TestCompleteComplainsAboutEveryField(t *testing.T) {
	h := newHouse(t)
	a := h.post(t, onTheBox, "/setup/complete", map[string]any{
		"admin_email": "nobody", "admin_password": "short", "fqdn": "x", "acme_enabled": true, "acme_directory_url": "http://x", "ipv6_enabled": "yes", "extra": 1,
	}).Want(t, http.StatusBadRequest)
	for _, field := range []string{"admin_email", "admin_password", "fqdn", "acme_email", "acme_directory_url", "ipv6_enabled", "extra"} {
		if a.Error.Fields[field] == "" {
			t.Errorf("no complaint about %s: %s", field, a.Body)
		}
	}
	h.post(t, onTheBox, "/setup/complete", gateway("admin_password", strings.Repeat("x", 73))).WantField(t, "admin_password")
	h.post(t, onTheBox, "/setup/complete", gateway("admin_password", nil)).WantField(t, "admin_password")
	if h.room.Completed() || h.content(t) != "" {
		t.Error("something was stored")
	}
}

var joinBody = map[string]any{"primary_fqdn": "node1.example.net", "join_token": "t", "ca_fingerprint": strings.Repeat("aB:", 31) + "cd"}

// A machine joins a cluster only if its owner asks, one join at a time, and becomes a node when that has succeeded.
func TestJoinCluster(t *testing.T) {
	h := newHouse(t)
	h.post(t, onTheBox, "/setup/join-cluster", map[string]any{"primary_fqdn": "x", "ca_fingerprint": "y"}).WantField(t, "join_token").WantField(t, "primary_fqdn").WantField(t, "ca_fingerprint")
	h.joins = func(Join) error { t.Error("it joins"); return nil }
	h.post(t, elsewhere, "/setup/join-cluster", joinBody).Want(t, http.StatusForbidden)
	h.joins = func(Join) error { return fault.Field("join_token", "is spent") }
	h.post(t, onTheBox, "/setup/join-cluster", joinBody).WantField(t, "join_token")
	if s := h.store.View(); s.IsClusterNode || s.Completed {
		t.Errorf("%+v", s)
	}
	h.joins = func(in Join) error {
		if token, _ := in.JoinToken.Fresh(); token != "t" || in.PrimaryFQDN.String() != "node1.example.net" {
			t.Errorf("%+v", in)
		}
		for _, path := range []string{"/setup/join-cluster", "/setup/complete", "/setup/complete-node"} { // during the join
			body := map[string]any{"fqdn": "node2.example.net"}
			switch path {
			case "/setup/complete":
				body = gateway()
			case "/setup/join-cluster":
				body = joinBody
			}
			h.post(t, onTheBox, path, body).Want(t, http.StatusConflict)
		}
		return nil
	}
	h.post(t, onTheBox, "/setup/join-cluster", joinBody).Want(t, http.StatusOK)
	if s := h.store.View(); !s.IsClusterNode || s.Completed || s.PrimaryFQDN.String() != "node1.example.net" {
		t.Errorf("%+v", s)
	}
}

func TestSetupTokenStaysOutOfTheJournal(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "8:1")
	h := newHouse(t)
	token, err := Token(h.Paths)
	if err != nil {
		t.Fatal(err)
	}
	if logs := h.Logs.String(); strings.Contains(logs, token) || !strings.Contains(logs, "gateway-ctl setup-token") {
		t.Errorf("the log says %s", logs)
	}
}

func TestSetupTokenProvesOwnership(t *testing.T) {
	h := newHouse(t)
	token, err := Token(h.Paths)
	if err != nil || len(token) < 32 {
		t.Fatalf("token %q, %v", token, err)
	}
	if info, err := os.Stat(h.Paths.State("setup-token")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("token file %v, %v", info, err)
	}
	if !strings.Contains(h.Logs.String(), token) {
		t.Error("the token is not printed at start")
	}
	var s Status
	h.Do(t, "", http.MethodGet, "/setup/status", nil, "X-Test-Client", elsewhere).Into(t, &s)
	if !s.SetupTokenRequired {
		t.Error("the status does not ask for the token")
	}
	for _, given := range []any{nil, "", token[:31], token + "0", strings.ToUpper(token) + "x", 7} {
		for _, body := range []map[string]any{gateway("setup_token", given), {"setup_token": given}} {
			// Strangers do not learn what else is wrong.
			a := h.post(t, elsewhere, "/setup/complete", body).Want(t, http.StatusForbidden)
			if a.Error.Fields["setup_token"] == "" || len(a.Error.Fields) != 1 {
				t.Errorf("fields %v", a.Error.Fields)
			}
			h.clock.Move(2 * time.Minute)
		}
	}
	if h.room.Completed() {
		t.Fatal("completed")
	}
	h.clock.Move(time.Hour)
	// Without a token on disk, nothing proves ownership.
	if err := os.Rename(h.Paths.State("setup-token"), h.Paths.State("away")); err != nil {
		t.Fatal(err)
	}
	for _, given := range []string{"", token} {
		h.post(t, elsewhere, "/setup/complete", gateway("setup_token", given)).Want(t, http.StatusForbidden)
	}
	if err := os.Rename(h.Paths.State("away"), h.Paths.State("setup-token")); err != nil {
		t.Fatal(err)
	}

	// A restart keeps the token.
	h = start(t, h.Bench)
	if again, err := Token(h.Paths); err != nil || again != token {
		t.Errorf("token %q, %v", again, err)
	}
	h.post(t, elsewhere, "/setup/complete", gateway("setup_token", token)).Want(t, http.StatusOK)
	if _, err := os.Stat(h.Paths.State("setup-token")); !os.IsNotExist(err) {
		t.Errorf("the token is still there: %v", err)
	}
	if _, err := Token(h.Paths); err == nil {
		t.Error("a token after the setup")
	}
	h.Do(t, "", http.MethodGet, "/setup/status", nil, "X-Test-Client", elsewhere).Into(t, &s)
	if s.SetupTokenRequired {
		t.Error("the status still asks for the token")
	}
}

func TestSetupTokenCannotBeGuessed(t *testing.T) {
	h := newHouse(t)
	token, err := Token(h.Paths)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		h.post(t, elsewhere, "/setup/complete", gateway("setup_token", "guess")).Want(t, http.StatusForbidden)
	}
	a := h.post(t, elsewhere, "/setup/complete", gateway("setup_token", token)).Want(t, http.StatusTooManyRequests)
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	h.post(t, "192.0.2.8:1", "/setup/complete", gateway("setup_token", "guess")).Want(t, http.StatusForbidden)
	h.clock.Move(15 * time.Minute)
	h.post(t, elsewhere, "/setup/complete", gateway("setup_token", token)).Want(t, http.StatusOK)
}

func TestParallelSetupHasOneWinner(t *testing.T) {
	h := newHouse(t)
	token, err := Token(h.Paths)
	if err != nil {
		t.Fatal(err)
	}
	var won, lost atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			path, body := "/setup/complete", gateway("setup_token", token, "admin_email", string(rune('a'+i))+"@example.net")
			if i%4 == 0 {
				path, body = "/setup/complete-node", map[string]any{"setup_token": token, "fqdn": "node.example.net"}
			}
			switch a := h.post(t, []string{onTheBox, elsewhere}[i%2], path, body); a.Status {
			case http.StatusOK:
				won.Add(1)
			case http.StatusConflict:
				lost.Add(1)
			default:
				t.Errorf("status %d: %s", a.Status, a.Body)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || lost.Load() != 19 {
		t.Errorf("%d won, %d lost", won.Load(), lost.Load())
	}
	if n := h.Audited(t, "setup.complete"); n != 1 {
		t.Errorf("%d audit entries", n)
	}
}

func TestSetupWithoutDatabase(t *testing.T) {
	d, err := db.Open("postgres:///none?host=" + t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	h := start(t, kittest.NewOn(t, d))
	h.post(t, onTheBox, "/setup/complete", gateway()).Want(t, http.StatusOK)
	if a := h.store.View().Admin; a.Email.String() != "admin@example.net" || a.Hash == "" {
		t.Errorf("admin %s", a.Email)
	}
}

// No password, hash or token is revealed to anyone but the one who starts the service.
func TestNoSecretIsRevealed(t *testing.T) {
	h := newHouse(t)
	token, err := Token(h.Paths)
	if err != nil {
		t.Fatal(err)
	}
	h.Logs.Reset()
	var output strings.Builder
	for _, body := range []any{gateway("setup_token", token, "fqdn", "x"), gateway("setup_token", "wrong"), gateway("setup_token", token), gateway("setup_token", token)} {
		output.Write(h.post(t, elsewhere, "/setup/complete", body).Body)
	}
	output.Write(h.Do(t, "", http.MethodGet, "/setup/status", nil).Body)
	output.WriteString(h.Logs.String())
	entries, err := h.Audit.Search(t.Context(), audit.Filter{Limit: 100})
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d audit entries, %v", len(entries), err)
	}
	for _, e := range entries {
		output.WriteString(e.Actor + e.Subject + string(e.Details))
	}
	hash := h.store.View().Admin.Hash
	for _, canary := range []string{plain, string(hash), token} {
		if strings.Contains(output.String(), canary) {
			t.Errorf("a secret was told: %s", output.String())
		}
	}
}

func TestDamagedTokenIsNotReplaced(t *testing.T) {
	b := kittest.New(t)
	paths := kit.Paths{Root: b.Paths.Root}
	if err := os.MkdirAll(paths.State(""), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(paths.State("setup-token"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := OpenStore(paths)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(b.Kit, Deps{Store: store, Passwords: password.New(bcrypt.MinCost)}); err == nil {
		t.Error("an empty token is accepted")
	}
}
