package account

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/bcrypt"

	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
)

const (
	admin = "admin@example.net"
	plain = "correct horse battery"
	other = "another long password"
	fqdn  = "gateway.example.net"
	here  = "192.0.2.1:40000"
	there = "198.51.100.1:40000"
)

// setupStore stands in for the setup store of another room.
type setupStore struct {
	mu     sync.Mutex
	admin  StoreAdmin
	breaks bool // the disk becomes read-only after some more writes
	writes int
}

func (s *setupStore) get() StoreAdmin {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admin
}

func (s *setupStore) update(change func(*StoreAdmin) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.admin
	if err := change(&next); err != nil {
		return err
	}
	if s.breaks && s.writes == 0 {
		return errors.New("read-only file system")
	}
	s.writes--
	s.admin = next
	return nil
}

// breakAfter makes the disk fail after some writes.
func (s *setupStore) breakAfter(writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaks, s.writes = true, writes
}

func (s *setupStore) mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaks = false
}

// house is the accounts on a kit, with a setup store that has an admin.
type house struct {
	*kittest.Bench
	room   *Room
	hasher *password.Hasher
	store  *setupStore
	clock  *clock.Fake
	// primary is the cluster's; nil without a cluster.
	primary Primary
}

func newHouse(t *testing.T) *house {
	t.Helper()
	return newHouseOn(t, kittest.New(t), bcrypt.MinCost)
}

func newHouseOn(t *testing.T, b *kittest.Bench, cost int) *house {
	t.Helper()
	h := &house{Bench: b, hasher: password.New(cost), store: &setupStore{admin: StoreAdmin{Email: value.Must[value.Email](admin)}}, clock: clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	h.Kit.Clock = h.clock
	turn, err := h.hasher.Turn(t.Context(), password.Place{Lane: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer turn.End()
	chosen, err := password.Choose(plain)
	if err != nil {
		t.Fatal(err)
	}
	if h.store.admin.Hash, err = turn.Hash(chosen); err != nil {
		t.Fatal(err)
	}
	h.restart(t)
	return h
}

// restart starts a new process on the same database and files.
func (h *house) restart(t *testing.T) {
	t.Helper()
	h.Router = httpd.NewRouter(h.Log)
	h.Resources = resource.NewRegistry(h.DB, h.Audit, h.Changes, h.Alarms, h.Engine, h.Router, h.clock, h.Secrets, h.Log)
	var err error
	if h.room, err = New(h.Kit, Deps{Passwords: h.hasher, StoreAdmin: h.store.get, UpdateStoreAdmin: h.store.update, FQDN: func() string { return fqdn }, Primary: h.primary}); err != nil {
		t.Fatal(err)
	}
	h.Router.SetupDone = func() bool { return true }
	h.Router.Sessions = h.room
	h.room.Mount()
	h.Resources.MountChangeSets()
	for path, policy := range map[string]httpd.Policy{"/toys": httpd.Read, "/system/toys": httpd.Read.Offline(), "/system/health": httpd.Public} {
		httpd.Handle(h.Router, http.MethodGet, path, policy, httpd.Doc{ID: path, Tag: "toy", Summary: "a toy"},
			func(*httpd.Call, struct{}) (string, error) { return "toy", nil })
	}
	h.Start(t)
}

// login tries credentials from an address.
func (h *house) login(t *testing.T, email, plain, from string) *kittest.Answer {
	t.Helper()
	return kittest.Call(t, h.Handler(), http.MethodPost, "/auth/login", map[string]any{"email": email, "password": plain}, "X-Test-Client", from)
}

// enter logs in and returns the session's cookie.
func (h *house) enter(t *testing.T, email, plain string) string {
	t.Helper()
	return cookieOf(t, h.login(t, email, plain, here).Want(t, http.StatusOK))
}

func cookieOf(t *testing.T, a *kittest.Answer) string {
	t.Helper()
	c, err := http.ParseSetCookie(a.Header.Get("Set-Cookie"))
	if err != nil {
		t.Fatal(err)
	}
	return c.Name + "=" + c.Value
}

// do makes a request with a session's cookie.
func (h *house) do(t *testing.T, session, method, path string, body any) *kittest.Answer {
	t.Helper()
	return kittest.Call(t, h.Handler(), method, path, body, "Cookie", session, "X-Test-Client", here)
}

// add creates a user with the password plain, and returns the id.
func (h *house) add(t *testing.T, session, email, role string) string {
	t.Helper()
	var u struct{ ID string }
	h.do(t, session, http.MethodPost, "/users", map[string]any{"email": email, "role": role, "password": plain}).Want(t, http.StatusCreated).Into(t, &u)
	return u.ID
}

// entries returns the audit entries of an action, newest first.
func (h *house) entries(t *testing.T, action string) []audit.Entry {
	t.Helper()
	list, err := h.Audit.Search(t.Context(), audit.Filter{Action: action, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (h *house) me(t *testing.T, session string) *kittest.Answer {
	t.Helper()
	return h.do(t, session, http.MethodGet, "/auth/me", nil)
}

// hashOf returns a user's stored hash.
func (h *house) hashOf(t *testing.T, email string) (hash string) {
	t.Helper()
	if err := h.DB.QueryRow(t.Context(), "SELECT password FROM account_users WHERE email = $1", email).Scan(&hash); err != nil {
		t.Fatal(err)
	}
	return hash
}

// AU-07 and AU-16 for the routes of this room.
func TestAU07AU16RoutesByRole(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	h.add(t, root, "viewer@example.net", "viewer")
	viewer := h.enter(t, "viewer@example.net", plain)
	users := string(h.do(t, root, http.MethodGet, "/users", nil).Body)
	for _, route := range h.Router.Routes() {
		if route.Policy.IsPublic() {
			continue
		}
		path := strings.ReplaceAll(route.Path, "{id}", uuid.NewString())
		var body any
		if route.Method != http.MethodGet {
			body = `{"bad": `
		}
		kittest.Call(t, h.Handler(), route.Method, path, body).Want(t, http.StatusUnauthorized)
		if route.Policy.IsAdmin() {
			h.do(t, viewer, route.Method, path, body).Want(t, http.StatusForbidden)
		}
		if mutation := route.Method != http.MethodGet; mutation && !route.Policy.IsAdmin() && route.Policy.String() != "own" {
			t.Errorf("%s %s is open to viewers", route.Method, route.Path)
		}
	}
	for _, path := range []string{"/users", "/toys", "/auth/me"} {
		h.do(t, viewer, http.MethodGet, path, nil).Want(t, http.StatusOK)
	}
	if now := string(h.do(t, root, http.MethodGet, "/users", nil).Body); now != users {
		t.Errorf("users have changed: %s", now)
	}
}

// No output of this room contains a password, a hash, a token or the signing secret.
func TestNothingSecretIsTold(t *testing.T) {
	h := newHouse(t)
	var output strings.Builder
	say := func(a *kittest.Answer) *kittest.Answer {
		output.Write(a.Body)
		return a
	}
	session := cookieOf(t, say(h.login(t, admin, plain, here)))
	say(h.login(t, admin, "a wrong password", here))
	say(h.login(t, "nobody@example.net", plain, here))
	id := h.add(t, session, "b@example.net", "admin")
	for _, path := range []string{"/users", "/users/" + id, "/auth/me"} {
		say(h.do(t, session, http.MethodGet, path, nil))
	}
	say(h.do(t, session, http.MethodPut, "/users/"+id, map[string]any{"password": other, "name": "B"}).Want(t, http.StatusOK))
	say(h.do(t, session, http.MethodPut, "/users/"+id, map[string]any{"password": "too short"}).Want(t, http.StatusBadRequest))
	say(h.do(t, session, http.MethodPost, "/users/"+id+"/password", map[string]any{"password": other}).Want(t, http.StatusOK))
	say(h.do(t, session, http.MethodPost, "/change-sets", map[string]any{"preview": true, "operations": []any{
		map[string]any{"kind": "user", "verb": "create", "body": map[string]any{"email": "c@example.net", "password": other}},
	}}).Want(t, http.StatusOK))
	say(h.do(t, session, http.MethodPost, "/auth/change-password", map[string]any{"current_password": plain, "new_password": other}).Want(t, http.StatusOK))
	token, err := CreateResetToken(h.Paths, h.clock, false)
	if err != nil {
		t.Fatal(err)
	}
	say(h.reset(t, "wrong", other).Want(t, http.StatusUnauthorized))
	say(h.reset(t, token, plain).Want(t, http.StatusOK))
	session = cookieOf(t, say(h.login(t, admin, plain, here)))
	say(h.do(t, session, http.MethodPost, "/auth/logout", nil).Want(t, http.StatusOK))
	for _, e := range h.entries(t, "") {
		fmt.Fprintf(&output, "%s %s %s %s\n", e.Actor, e.Action, e.Subject, e.Details)
	}
	output.WriteString(h.Logs.String())
	for _, canary := range []string{plain, other, "$2a$", token, string(h.room.signer.key), "a wrong password", "too short", strings.TrimPrefix(session, "gateway_session=")} {
		if strings.Contains(output.String(), canary) {
			t.Errorf("%q was exposed", canary)
		}
	}
}

// breakDatabase takes the database away until the returned function is called. No login waits for it, because the start is over.
func breakDatabase(t *testing.T, h *house) (back func()) {
	t.Helper()
	h.clock.Move(startWithin)
	from := dbtest.New(t) // nobody can close a database while connected to it
	var name string
	if err := h.DB.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	exec := func(sql string) {
		t.Helper()
		dbtest.Exec(t, from, sql)
	}
	exec("ALTER DATABASE " + name + " ALLOW_CONNECTIONS false")
	exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + name + "'")
	attached := func(want bool) {
		t.Helper()
		waittest.Until(t, fmt.Sprintf("the database is known to be there: %t", want), func() bool { return h.DB.Attached() == want })
	}
	attached(false)
	return func() {
		t.Helper()
		exec("ALTER DATABASE " + name + " ALLOW_CONNECTIONS true")
		attached(true)
	}
}
