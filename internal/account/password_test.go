package account

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/kittest"
)

func (h *house) change(t *testing.T, session, current, next string) *kittest.Answer {
	t.Helper()
	return h.do(t, session, http.MethodPost, "/auth/change-password", map[string]any{"current_password": current, "new_password": next})
}

func (h *house) reset(t *testing.T, token, next string) *kittest.Answer {
	t.Helper()
	return kittest.Call(t, h.Handler(), http.MethodPost, "/auth/reset-password", map[string]any{"token": token, "new_password": next}, "X-Test-Client", here)
}

func TestAU12ChangePassword(t *testing.T) {
	h := newHouse(t)
	session, second := h.enter(t, admin, plain), h.enter(t, admin, plain)
	a := h.change(t, session, "not the password", other).Want(t, http.StatusUnauthorized)
	if a.Error.Fields["current_password"] == "" {
		t.Errorf("answer %s", a.Body)
	}
	h.change(t, session, plain, "short").WantField(t, "new_password")
	h.me(t, second).Want(t, http.StatusOK)
	h.change(t, session, plain, other).Want(t, http.StatusOK)
	h.me(t, session).Want(t, http.StatusOK)
	h.me(t, second).Want(t, http.StatusUnauthorized)
	h.login(t, admin, plain, here).Want(t, http.StatusUnauthorized)
	h.enter(t, admin, other)
	if hash := h.store.get().Hash; string(hash) != h.hashOf(t, admin) {
		t.Error("the setup store has another password")
	}
	if n := h.Audited(t, "auth.password.change"); n != 1 {
		t.Errorf("%d audit entries", n)
	}

	// Another user's password does not affect the store, and viewers change their own.
	before := h.store.get().Hash
	h.add(t, session, "a@example.net", "viewer")
	viewer := h.enter(t, "a@example.net", plain)
	h.change(t, viewer, plain, other).Want(t, http.StatusOK)
	if hash := h.store.get().Hash; hash != before {
		t.Error("the setup store has changed")
	}

	// A stolen session cannot be used to guess the password.
	for range 10 {
		h.change(t, viewer, "not the password", other).Want(t, http.StatusUnauthorized)
	}
	h.change(t, viewer, other, plain).Want(t, http.StatusTooManyRequests)
	h.clock.Move(15 * time.Minute)
	h.change(t, viewer, other, plain).Want(t, http.StatusOK)
}

func TestParallelChangeHasOneWinner(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	var won atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if h.change(t, session, plain, other).Status == http.StatusOK {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d changes", won.Load())
	}
	h.enter(t, admin, other)
}

func resetFile(h *house) string { return h.Paths.State(".reset-token") }

func TestPR01Reset(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	token, err := CreateResetToken(h.Paths, h.clock, false)
	if err != nil || !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(token) {
		t.Fatalf("token %q, %v", token, err)
	}
	if info, err := os.Stat(resetFile(h)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file %v, %v", info, err)
	}
	h.reset(t, token, "twelve chars").Want(t, http.StatusOK)
	if _, err := os.Stat(resetFile(h)); !os.IsNotExist(err) {
		t.Errorf("the file is there: %v", err)
	}
	h.me(t, session).Want(t, http.StatusUnauthorized)
	h.enter(t, admin, "twelve chars")
	if hash := h.store.get().Hash; string(hash) != h.hashOf(t, admin) {
		t.Error("store and user differ")
	}
	if n := h.Audited(t, "auth.password.reset"); n != 1 {
		t.Errorf("%d audit entries", n)
	}
}

// An intruder may have left keys in the account: the reset removes them, unless the operator keeps them.
func TestResetRevokesTokensAndPasskeys(t *testing.T) {
	for name, keeps := range map[string]bool{"revoked": false, "kept": true} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			session := h.enter(t, admin, plain)
			mine, _ := h.token(t, session, "ci", "admin")
			h.add(t, session, "b@example.net", "viewer")
			theirs, _ := h.token(t, h.enter(t, "b@example.net", plain), "ci", "viewer")
			h.register(t, session, newDevice(fqdn)).Want(t, http.StatusCreated)
			token, err := CreateResetToken(h.Paths, h.clock, keeps)
			if err != nil {
				t.Fatal(err)
			}
			var out ResetAccount
			h.reset(t, token, other).Want(t, http.StatusOK).Into(t, &out)
			want, status, methods := Ended{Sessions: 1, APITokens: 1, Passkeys: 1}, http.StatusUnauthorized, ""
			if keeps {
				want, status, methods = Ended{Sessions: 1}, http.StatusOK, `"methods":["passkey"]`
			}
			if out.Ended != want || out.Pending {
				t.Errorf("answer %+v", out)
			}
			h.me(t, session).Want(t, http.StatusUnauthorized)
			h.by(t, mine, http.MethodGet, "/auth/me", nil).Want(t, status)
			h.by(t, theirs, http.MethodGet, "/auth/me", nil).Want(t, http.StatusOK)
			if a := h.login(t, admin, other, here).Want(t, http.StatusOK); !strings.Contains(string(a.Body), methods) || keeps == strings.Contains(string(a.Body), `"user"`) {
				t.Errorf("login %s", a.Body)
			}
			if e := h.entries(t, "auth.password.reset"); len(e) != 1 || !strings.Contains(string(e[0].Details), fmt.Sprintf(`"api_tokens": %d`, want.APITokens)) {
				t.Errorf("audit %+v", e)
			}
		})
	}
}

func TestPR02ResetRefused(t *testing.T) {
	h := newHouse(t)
	h.reset(t, strings.Repeat("0", 32), other).Want(t, http.StatusUnauthorized)
	token, err := CreateResetToken(h.Paths, h.clock, false)
	if err != nil {
		t.Fatal(err)
	}
	h.reset(t, token, "eleven char").WantField(t, "new_password")
	for _, wrong := range []string{"x", token[:31], token + "0", strings.Repeat("0", 32)} {
		h.reset(t, wrong, other).Want(t, http.StatusUnauthorized)
	}
	if _, err := os.Stat(resetFile(h)); err != nil {
		t.Fatal("the file is gone")
	}
	h.clock.Move(29 * time.Minute)
	h.reset(t, token, other).Want(t, http.StatusOK)
	h.reset(t, token, plain).Want(t, http.StatusUnauthorized)
	h.enter(t, admin, other)

	token, err = CreateResetToken(h.Paths, h.clock, false)
	if err != nil {
		t.Fatal(err)
	}
	h.clock.Move(31 * time.Minute)
	h.reset(t, token, plain).Want(t, http.StatusUnauthorized)
	h.enter(t, admin, other)
}

func TestPR04OldPasswordDies(t *testing.T) {
	for name, known := range map[string]bool{"a user": true, "in the store alone": false} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			if known {
				h.enter(t, admin, plain)
			}
			token, err := CreateResetToken(h.Paths, h.clock, false)
			if err != nil {
				t.Fatal(err)
			}
			h.reset(t, token, other).Want(t, http.StatusOK)
			h.login(t, admin, plain, here).Want(t, http.StatusUnauthorized)
			h.restart(t)
			h.login(t, admin, plain, here).Want(t, http.StatusUnauthorized)
			h.enter(t, admin, other)
			h.login(t, admin, plain, here).Want(t, http.StatusUnauthorized)
		})
	}
}

func TestResetTokenIsSpentOnce(t *testing.T) {
	h := newHouse(t)
	h.enter(t, admin, plain)
	token, err := CreateResetToken(h.Paths, h.clock, false)
	if err != nil {
		t.Fatal(err)
	}
	var won, lost atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			from := []string{here, there, "203.0.113.1:1"}[i%3]
			a := kittest.Call(t, h.Handler(), http.MethodPost, "/auth/reset-password", map[string]any{"token": token, "new_password": other}, "X-Test-Client", from)
			switch a.Status {
			case http.StatusOK:
				won.Add(1)
			case http.StatusUnauthorized:
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
}

func TestResetTokenCannotBeGuessed(t *testing.T) {
	h := newHouse(t)
	token, err := CreateResetToken(h.Paths, h.clock, false)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		h.reset(t, "guess", other).Want(t, http.StatusUnauthorized)
	}
	h.reset(t, token, other).Want(t, http.StatusTooManyRequests)
	h.clock.Move(15 * time.Minute)
	h.reset(t, token, other).Want(t, http.StatusOK)
}

func TestResetThatFailsKeepsTheToken(t *testing.T) {
	h := newHouse(t)
	h.enter(t, admin, plain)
	token, err := CreateResetToken(h.Paths, h.clock, false)
	if err != nil {
		t.Fatal(err)
	}
	dbtest.Exec(t, h.DB, "ALTER TABLE audit_entries RENAME TO elsewhere")
	h.reset(t, token, other).Want(t, http.StatusInternalServerError)
	dbtest.Exec(t, h.DB, "ALTER TABLE elsewhere RENAME TO audit_entries")
	h.enter(t, admin, plain)
	if info, err := os.Stat(resetFile(h)); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("file %v, %v", info, err)
	}
	h.reset(t, token, other).Want(t, http.StatusOK)
	h.enter(t, admin, other)
}

func TestResetOnANodeWithoutAdmin(t *testing.T) {
	h := newHouse(t)
	h.store.admin = StoreAdmin{}
	token, err := CreateResetToken(h.Paths, h.clock, false)
	if err != nil {
		t.Fatal(err)
	}
	h.reset(t, token, other).Want(t, http.StatusConflict)
	h.login(t, admin, plain, here).Want(t, http.StatusUnauthorized)
}
