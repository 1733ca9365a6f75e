package account

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/bcrypt"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/schema"
)

func TestAU01LoginRight(t *testing.T) {
	h := newHouse(t)
	a := h.login(t, admin, plain, here).Want(t, http.StatusOK)
	c, err := http.ParseSetCookie(a.Header.Get("Set-Cookie"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "gateway_session" || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.MaxAge != 12*60*60 || c.Domain != "" {
		t.Errorf("cookie %+v", c)
	}
	var out map[string]any
	a.Into(t, &out)
	user, _ := out["user"].(map[string]any)
	if len(out) != 1 || user["email"] != admin || user["role"] != "admin" || user["auth_method"] != "password" || user["totp_enabled"] != false || user["id"] == "" {
		t.Errorf("answer %v", out)
	}
	var details map[string]any
	entries := h.entries(t, "auth.login.success")
	if len(entries) != 1 || entries[0].Actor != admin || json.Unmarshal(entries[0].Details, &details) != nil {
		t.Fatalf("audit %+v", entries)
	}
	if details["role"] != "admin" || details["remote_ip"] != "192.0.2.1" {
		t.Errorf("audit details %v", details)
	}
	var me map[string]any
	h.me(t, cookieOf(t, a)).Want(t, http.StatusOK).Into(t, &me)
	if fmt.Sprint(me) != fmt.Sprint(user) {
		t.Errorf("me is %v and not %v", me, user)
	}
}

func TestLoginIssuesABearerTokenWhenAsked(t *testing.T) {
	h := newHouse(t)
	a := kittest.Call(t, h.Handler(), http.MethodPost, "/auth/login", map[string]any{"email": admin, "password": plain, "issue_token": true}).Want(t, http.StatusOK)
	var out struct{ Token string }
	a.Into(t, &out)
	if !strings.HasSuffix(cookieOf(t, a), out.Token) {
		t.Error("token and cookie differ")
	}
	for _, scheme := range []string{"Bearer ", "bearer "} {
		kittest.Call(t, h.Handler(), http.MethodGet, "/auth/me", nil, "Authorization", scheme+out.Token).Want(t, http.StatusOK)
	}
	kittest.Call(t, h.Handler(), http.MethodGet, "/auth/me", nil, "Authorization", "Bearer "+out.Token+"x").Want(t, http.StatusUnauthorized)
}

func TestAU02WrongPassword(t *testing.T) {
	h := newHouse(t)
	a := h.login(t, admin, "not the password", here).Want(t, http.StatusUnauthorized)
	if a.Header.Get("Set-Cookie") != "" || a.Error.Code != "unauthenticated" {
		t.Errorf("answer %s", a.Body)
	}
	entries := h.entries(t, "auth.login.failed")
	if len(entries) != 1 || entries[0].Actor != admin || !strings.Contains(string(entries[0].Details), `"invalid_credentials"`) {
		t.Errorf("audit %+v", entries)
	}
	for _, body := range []string{`{}`, `{"email": "x"}`, `{"email": 1, "password": 2}`, `{"email": "a\u0000b", "password": "x"}`, `nonsense`} {
		kittest.Call(t, h.Handler(), http.MethodPost, "/auth/login", body).Want(t, http.StatusBadRequest)
	}
}

func TestAU03CaseAsStored(t *testing.T) {
	h := newHouse(t)
	h.login(t, strings.ToUpper(admin[:1])+admin[1:], plain, here).Want(t, http.StatusUnauthorized) // of the setup store
	root := h.enter(t, admin, plain)
	h.add(t, root, "a@example.net", "viewer")
	h.enter(t, "a@example.net", plain)
	h.login(t, "A@example.net", plain, here).Want(t, http.StatusUnauthorized)
	h.login(t, "a@example.net ", plain, here).Want(t, http.StatusUnauthorized)
	h.login(t, strings.ToUpper(admin), plain, here).Want(t, http.StatusUnauthorized)
}

func TestAU04Inactive(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	id := h.add(t, root, "a@example.net", "viewer")
	live := h.enter(t, "a@example.net", plain)
	h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"active": false}).Want(t, http.StatusOK)
	h.me(t, live).Want(t, http.StatusForbidden)
	a := h.login(t, "a@example.net", plain, here).Want(t, http.StatusForbidden)
	if a.Header.Get("Set-Cookie") != "" {
		t.Error("a session")
	}
	if e := h.entries(t, "auth.login.failed"); len(e) != 1 || !strings.Contains(string(e[0].Details), `"account_disabled"`) {
		t.Errorf("audit %+v", e)
	}
	h.login(t, "a@example.net", "not the password", here).Want(t, http.StatusUnauthorized)
	// Reactivating the account does not bring its session back.
	h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"active": true}).Want(t, http.StatusOK)
	h.me(t, live).Want(t, http.StatusUnauthorized)
	h.enter(t, "a@example.net", plain)
}

// AU-06: the answers are equal, and the medians of 50 attempts differ by less than 20 %. A real difference is there in each round; that
// of a busy machine is not.
func TestAU06UnknownAndWrongAreAlike(t *testing.T) {
	h := newHouseOn(t, kittest.New(t), 8)
	h.enter(t, admin, plain)
	const rounds = 6
	var seen []string
	for range rounds {
		wrong, unknown := h.timesOfRefusal(t)
		if difference := (wrong - unknown).Abs(); difference < max(wrong, unknown)/5 {
			return
		}
		seen = append(seen, fmt.Sprintf("%v and %v", wrong, unknown))
		h.clock.Move(time.Hour)
	}
	t.Errorf("a wrong password and an unknown address take %s", strings.Join(seen, ", "))
}

// timesOfRefusal returns the medians of the times for a wrong password and for an unknown address. They alternate, and each comes first
// equally often, so that both meet the same conditions.
func (h *house) timesOfRefusal(t *testing.T) (wrong, unknown time.Duration) {
	t.Helper()
	const tries = 50
	took := map[string][]time.Duration{}
	bodies := map[string]bool{}
	for i := range tries {
		pair := []string{admin, fmt.Sprintf("nobody%d@example.net", i)}
		if i%2 == 1 {
			slices.Reverse(pair)
		}
		for _, email := range pair {
			before, start := h.hasher.Done(), time.Now()
			a := h.login(t, email, "not the password", fmt.Sprintf("192.0.2.%d:1", i+1)).Want(t, http.StatusUnauthorized)
			kind := map[bool]string{true: "wrong", false: "unknown"}[email == admin]
			took[kind] = append(took[kind], time.Since(start))
			bodies[string(a.Body)] = true
			if n := h.hasher.Done() - before; n != 1 {
				t.Errorf("%s: %d hashes computed", kind, n)
			}
		}
	}
	if len(bodies) != 1 {
		t.Errorf("bodies %v", bodies)
	}
	median := func(d []time.Duration) time.Duration { slices.Sort(d); return d[len(d)/2] }
	return median(took["wrong"]), median(took["unknown"])
}

func TestAU09SessionOutlivesTheProcess(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	info, err := os.Stat(h.Paths.State("jwt-secret"))
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() < 32 {
		t.Errorf("secret file %v, %v", info, err)
	}
	h.restart(t)
	h.me(t, session).Want(t, http.StatusOK)
	if _, err := os.Stat(h.Paths.State("jwt-secret")); err != nil {
		t.Error(err)
	}
	// Without the secret, no session is valid any more.
	if err := os.Remove(h.Paths.State("jwt-secret")); err != nil {
		t.Fatal(err)
	}
	h.restart(t)
	h.me(t, session).Want(t, http.StatusUnauthorized)
}

// AU-09: no answer contains the signing secret in any encoding, neither in its body nor in a header.
func TestAU09SigningSecretIsInNoAnswer(t *testing.T) {
	h := newHouse(t)
	key := h.room.signer.key
	if len(key) < 32 {
		t.Errorf("a secret of %d bytes", len(key))
	}
	forms := []string{string(key), hex.EncodeToString(key), strings.ToUpper(hex.EncodeToString(key)), fmt.Sprint(key),
		base64.RawStdEncoding.EncodeToString(key), base64.RawURLEncoding.EncodeToString(key)}
	session := h.enter(t, admin, plain)
	asked := 0
	for _, route := range h.Router.Routes() {
		path := strings.ReplaceAll(route.Path, "{id}", uuid.NewString())
		for _, body := range []string{"", `{}`, `{"bad": `} {
			req := httptest.NewRequest(route.Method, httpd.Prefix+path, strings.NewReader(body))
			req.Header.Set("Cookie", session)
			w := httptest.NewRecorder()
			h.Handler().ServeHTTP(w, req)
			var output bytes.Buffer
			if err := w.Result().Header.Write(&output); err != nil {
				t.Fatal(err)
			}
			output.Write(w.Body.Bytes())
			for _, form := range forms {
				if bytes.Contains(output.Bytes(), []byte(form)) {
					t.Errorf("%s %s tells the secret", route.Method, route.Path)
				}
			}
			asked++
		}
		if route.ID == "auth.logout" {
			session = h.enter(t, admin, plain)
		}
	}
	if asked < 30 {
		t.Errorf("only %d requests were made", asked)
	}
}

func TestThrottle(t *testing.T) {
	h := newHouse(t)
	h.enter(t, admin, plain)
	for range 10 {
		h.login(t, admin, "not the password", here).Want(t, http.StatusUnauthorized)
	}
	before := h.hasher.Done()
	a := h.login(t, admin, plain, here).Want(t, http.StatusTooManyRequests)
	if a.Header.Get("Retry-After") == "" || a.Error.Code != "too_many_requests" {
		t.Errorf("answer %v %s", a.Header, a.Body)
	}
	if h.hasher.Done() != before {
		t.Error("a refused login was hashed")
	}
	// It is in the audit log once, however often it is repeated.
	h.login(t, admin, plain, here).Want(t, http.StatusTooManyRequests)
	if e := h.entries(t, "auth.login.failed"); len(e) != 11 || !strings.Contains(string(e[0].Details), `"throttled"`) || e[0].Actor != admin {
		t.Errorf("audit %+v", e)
	}
	// Nobody can lock the admin out from elsewhere.
	h.login(t, admin, plain, there).Want(t, http.StatusOK)
	h.clock.Move(15 * time.Minute)
	h.login(t, admin, plain, here).Want(t, http.StatusOK)
	// A success clears the pair.
	for range 3 {
		for range 9 {
			h.login(t, admin, "not the password", here).Want(t, http.StatusUnauthorized)
		}
		h.login(t, admin, plain, here).Want(t, http.StatusOK)
	}
	// The address counts whatever the account.
	for i := range 50 {
		h.login(t, fmt.Sprintf("nobody%d@example.net", i), "not the password", there).Want(t, http.StatusUnauthorized)
	}
	h.login(t, admin, plain, there).Want(t, http.StatusTooManyRequests)
	h.login(t, admin, plain, here).Want(t, http.StatusOK)
}

// flood makes n bad logins at once, and counts the statuses.
func (h *house) flood(t *testing.T, n int, email func(i int) string, from string) map[int]int {
	t.Helper()
	var mu sync.Mutex
	got := map[int]int{}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			a := h.login(t, email(i), "not the password", from)
			mu.Lock()
			defer mu.Unlock()
			got[a.Status]++
		})
	}
	all.Wait()
	return got
}

func TestAU11FloodComputesFewHashes(t *testing.T) {
	h := newHouse(t)
	h.enter(t, admin, plain)
	before := h.hasher.Done()
	if got := h.flood(t, 200, func(int) string { return admin }, here); got[401] != 10 || got[429] != 190 {
		t.Errorf("one account: %v", got)
	}
	if n := h.hasher.Done() - before; n != 10 {
		t.Errorf("one account: %d hashes", n)
	}
	before = h.hasher.Done()
	if got := h.flood(t, 200, func(i int) string { return fmt.Sprintf("nobody%d@example.net", i) }, there); got[401] != 50 || got[429] != 150 {
		t.Errorf("many accounts: %v", got)
	}
	if n := h.hasher.Done() - before; n != 50 {
		t.Errorf("many accounts: %d hashes", n)
	}
}

func TestAU11FloodStarvesNobody(t *testing.T) {
	h := newHouseOn(t, kittest.New(t), 9) // the flood has some seconds of work
	h.enter(t, admin, plain)
	over := make(chan struct{})
	go func() {
		defer close(over)
		h.flood(t, 200, func(i int) string { return fmt.Sprintf("nobody%d@example.net", i) }, there)
	}()
	waittest.Until(t, "the flood has come", func() bool { return h.hasher.Done() >= 3 })
	began := time.Now()
	h.login(t, admin, plain, here).Want(t, http.StatusOK)
	select {
	case <-over:
		t.Error("the flood was over before the right login")
	default:
	}
	var took []time.Duration
	for running := true; running; {
		start := time.Now()
		kittest.Call(t, h.Handler(), http.MethodGet, "/system/health", nil).Want(t, http.StatusOK)
		took = append(took, time.Since(start))
		select {
		case <-over:
			running = false
		case <-time.After(2 * time.Millisecond):
		}
	}
	slices.SortFunc(took, cmp.Compare)
	if p99, flood := took[len(took)*99/100], time.Since(began); p99 > flood/2 {
		t.Errorf("health takes %v at the 99th of 100, while the flood takes %v", p99, flood)
	}
}

func TestParallelRightLoginsAllLand(t *testing.T) {
	h := newHouse(t)
	var landed atomic.Int32
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			if h.login(t, admin, plain, here).Status == http.StatusOK {
				landed.Add(1)
			}
		})
	}
	all.Wait()
	if landed.Load() != 30 || h.Rows(t, "account_users") != 1 || h.Audited(t, "user.create") != 1 {
		t.Errorf("%d of 30 landed, %d users", landed.Load(), h.Rows(t, "account_users"))
	}
}

func TestAU14StoreAdminIsAdopted(t *testing.T) {
	h := newHouse(t)
	if h.Rows(t, "account_users") != 0 {
		t.Fatal("there are users")
	}
	h.login(t, admin, "not the password", here).Want(t, http.StatusUnauthorized)
	if h.Rows(t, "account_users") != 0 {
		t.Error("a wrong password made a user")
	}
	session := h.enter(t, admin, plain)
	var users []map[string]any
	h.do(t, session, http.MethodGet, "/users", nil).Want(t, http.StatusOK).Into(t, &users)
	if len(users) != 1 || users[0]["email"] != admin || users[0]["role"] != "admin" || users[0]["active"] != true || users[0]["last_login_at"] == nil {
		t.Errorf("users %v", users)
	}
	if h.hashOf(t, admin) != string(h.store.get().Hash) {
		t.Error("the hash is another one")
	}
	// A second login uses the row.
	h.enter(t, admin, plain)
	if h.Rows(t, "account_users") != 1 || h.Audited(t, "user.create") != 1 {
		t.Error("adopted twice")
	}
	// Without a row, the store counts again.
	dbtest.Exec(t, h.DB, "DELETE FROM account_users")
	h.enter(t, admin, plain)
	// With a row that has another password, it does not.
	dbtest.Exec(t, h.DB, "UPDATE account_users SET password = ''")
	h.login(t, admin, plain, here).Want(t, http.StatusUnauthorized)
	dbtest.Exec(t, h.DB, "UPDATE account_users SET password = $1, active = false", string(h.store.get().Hash))
	h.login(t, admin, plain, here).Want(t, http.StatusForbidden)
}

func TestAU15LongPasswords(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	longest := strings.Repeat("x", 72)
	h.do(t, root, http.MethodPost, "/users", map[string]any{"email": "a@example.net", "password": longest + "x"}).WantField(t, "password")
	h.do(t, root, http.MethodPost, "/users", map[string]any{"email": "a@example.net", "password": longest}).Want(t, http.StatusCreated)
	h.enter(t, "a@example.net", longest)
	h.login(t, "a@example.net", longest+"x", here).Want(t, http.StatusUnauthorized)
	h.login(t, "a@example.net", longest[:71], here).Want(t, http.StatusUnauthorized)
	h.login(t, "a@example.net", strings.Repeat("x", 100_000), here).Want(t, http.StatusUnauthorized)
	var u struct{ ID string }
	h.do(t, root, http.MethodPost, "/users", map[string]any{"email": "b@example.net", "password": plain}).Into(t, &u)
	h.do(t, root, http.MethodPut, "/users/"+u.ID, map[string]any{"password": longest + "x"}).WantField(t, "password")
	h.do(t, root, http.MethodPost, "/users/"+u.ID+"/password", map[string]any{"password": longest + "x"}).WantField(t, "password")
	h.do(t, root, http.MethodPost, "/auth/change-password", map[string]any{"current_password": plain, "new_password": longest + "x"}).WantField(t, "new_password")
	h.reset(t, "token", longest+"x").WantField(t, "new_password")
	h.enter(t, "b@example.net", plain)
}

func TestAU15StoredHashHasCostTwelve(t *testing.T) {
	h := newHouseOn(t, kittest.New(t), password.Cost)
	h.add(t, h.enter(t, admin, plain), "a@example.net", "viewer")
	for _, email := range []string{admin, "a@example.net"} {
		if hash := h.hashOf(t, email); !strings.HasPrefix(hash, "$2a$12$") {
			t.Errorf("the hash of %s begins %.7s", email, hash)
		}
	}
}

func TestLogout(t *testing.T) {
	h := newHouse(t)
	one, two := h.enter(t, admin, plain), h.enter(t, admin, plain)
	a := h.do(t, one, http.MethodPost, "/auth/logout", nil).Want(t, http.StatusOK)
	if c, err := http.ParseSetCookie(a.Header.Get("Set-Cookie")); err != nil || c.MaxAge >= 0 || c.Value != "" {
		t.Errorf("cookie %v, %v", c, err)
	}
	h.me(t, one).Want(t, http.StatusUnauthorized)
	h.me(t, two).Want(t, http.StatusOK)
	if n := h.Audited(t, "auth.logout"); n != 1 {
		t.Errorf("%d audit entries", n)
	}
}

func TestLoginWhileTheDatabaseIsAway(t *testing.T) {
	d, err := db.Open(dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	h := newHouseOn(t, kittest.NewOn(t, d), bcrypt.MinCost)
	h.clock.Move(startWithin)
	h.login(t, "somebody@example.net", plain, here).Want(t, http.StatusServiceUnavailable)
	h.login(t, admin, "not the password", here).Want(t, http.StatusServiceUnavailable)
	a := h.login(t, admin, plain, here).Want(t, http.StatusOK)
	var out struct{ User map[string]any }
	a.Into(t, &out)
	if out.User["auth_method"] != "store" || out.User["role"] != "admin" || out.User["email"] != admin {
		t.Errorf("user %v", out.User)
	}
	session := cookieOf(t, a)
	h.me(t, session).Want(t, http.StatusOK)
	h.do(t, session, http.MethodGet, "/system/toys", nil).Want(t, http.StatusOK)
	for _, path := range []string{"/toys", "/users"} {
		h.do(t, session, http.MethodGet, path, nil).Want(t, http.StatusServiceUnavailable)
	}
	h.do(t, session, http.MethodPost, "/auth/change-password", map[string]any{"current_password": plain, "new_password": other}).Want(t, http.StatusServiceUnavailable)
	second := h.enter(t, admin, plain)
	h.do(t, second, http.MethodPost, "/auth/logout", nil).Want(t, http.StatusOK)
	h.me(t, second).Want(t, http.StatusServiceUnavailable) // it cannot be determined whether it belongs to a user
	third := h.enter(t, admin, plain)
	h.clock.Move(12 * time.Hour)
	h.me(t, third).Want(t, http.StatusUnauthorized)
	h.clock.Move(-12 * time.Hour)

	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	// The session continues as the user's, because the admin is now a user.
	var me map[string]any
	h.me(t, session).Want(t, http.StatusOK).Into(t, &me)
	if me["auth_method"] != "password" || me["email"] != admin || h.Rows(t, "account_users") != 1 || me["id"] == uuid.Nil.String() {
		t.Errorf("me %v", me)
	}
	for _, path := range []string{"/toys", "/users"} {
		h.do(t, session, http.MethodGet, path, nil).Want(t, http.StatusOK)
	}
	if _, err := h.Audit.Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := h.entries(t, "auth.login.success"); len(e) != 3 || !strings.Contains(string(e[0].Details), `"database_away": true`) {
		t.Errorf("audit %+v", e)
	}
	h.me(t, second).Want(t, http.StatusUnauthorized)
	h.enter(t, admin, plain)
}
