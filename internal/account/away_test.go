package account

import (
	"context"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/schema"
)

func TestDatabaseGoesAwayAndReturns(t *testing.T) {
	t.Parallel() // mostly waiting
	h := newHouse(t)
	users := h.enter(t, admin, plain)
	back := breakDatabase(t, h)
	h.me(t, users).Want(t, http.StatusServiceUnavailable)
	offline, ended := h.enter(t, admin, plain), h.enter(t, admin, plain)
	h.do(t, offline, http.MethodGet, "/system/toys", nil).Want(t, http.StatusOK)
	h.do(t, offline, http.MethodGet, "/toys", nil).Want(t, http.StatusServiceUnavailable)
	h.do(t, ended, http.MethodPost, "/auth/logout", nil).Want(t, http.StatusOK)
	back()
	h.me(t, users).Want(t, http.StatusOK)
	// What began in the meantime continues as the user's, and is in the list of sessions.
	for range 2 {
		h.do(t, offline, http.MethodGet, "/toys", nil).Want(t, http.StatusOK)
	}
	var list []Session
	h.do(t, offline, http.MethodGet, "/auth/sessions", nil).Want(t, http.StatusOK).Into(t, &list)
	if len(list) != 2 || list[0].Address != "192.0.2.1" {
		t.Errorf("sessions %+v", list)
	}
	h.me(t, ended).Want(t, http.StatusUnauthorized)
}

// A session that began through the store only continues if the user could have begun it through the database.
func TestSessionOfTheStoreEndsWithTheUser(t *testing.T) {
	t.Parallel() // mostly waiting
	for name, sql := range map[string]string{
		"deactivated":   "UPDATE account_users SET active = false WHERE email = $1",
		"re-passworded": "UPDATE account_users SET password = '' WHERE email = $1",
		"second factor": "UPDATE account_users SET passkeys = 1 WHERE email = $1",
		"deleted":       "DELETE FROM account_users WHERE email = $1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _, _ := twoAdmins(t)
			back := breakDatabase(t, h)
			session := h.enter(t, admin, plain)
			back()
			h.exec(t, sql, admin)
			if name == "deleted" {
				h.room.settled.Store(false) // as after a start
			}
			h.me(t, session).Want(t, http.StatusUnauthorized)
			h.me(t, session).Want(t, http.StatusUnauthorized)
		})
	}
}

// A login right after the start waits for the database, so that its session lasts.
func TestLoginRightAfterTheStart(t *testing.T) {
	d, err := db.Open(dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	h := newHouseOn(t, kittest.NewOn(t, d), bcrypt.MinCost)
	answered := make(chan *kittest.Answer, 1)
	go func() { answered <- h.login(t, admin, plain, here) }()
	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	a := (<-answered).Want(t, http.StatusOK)
	if !strings.Contains(string(a.Body), `"auth_method":"password"`) {
		t.Errorf("%s", a.Body)
	}
	h.me(t, cookieOf(t, a)).Want(t, http.StatusOK)
}

// The second factor of the setup's admin is required while the database is away.
func TestSecondFactorWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel() // mostly waiting
	h := newHouse(t)
	a := h.enrol(t, h.enter(t, admin, plain))
	h.secondStep(t, h.firstStep(t, admin), a.codes[0], here).Want(t, http.StatusOK) // is spent everywhere
	used := a.code(t, h, 0)
	h.secondStep(t, h.firstStep(t, admin), used, here).Want(t, http.StatusOK)
	back := breakDatabase(t, h)
	h.login(t, admin, "not the password", here).Want(t, http.StatusServiceUnavailable)
	challenge := h.firstStep(t, admin)
	for _, wrong := range []string{"000000", used, a.codes[0]} {
		h.secondStep(t, challenge, wrong, here).Want(t, http.StatusUnauthorized)
		challenge = h.firstStep(t, admin)
	}
	code := a.code(t, h, 1)
	answer := h.secondStep(t, challenge, code, here).Want(t, http.StatusOK)
	if !strings.Contains(string(answer.Body), `"auth_method":"store"`) {
		t.Errorf("%s", answer.Body)
	}
	session := cookieOf(t, answer)
	h.do(t, session, http.MethodGet, "/system/toys", nil).Want(t, http.StatusOK)
	// Each works once, across a restart of the service and the return of the database.
	h.secondStep(t, challenge, a.codes[1], here).Want(t, http.StatusServiceUnavailable) // the login is over
	recovered := cookieOf(t, h.secondStep(t, h.firstStep(t, admin), a.codes[1], here).Want(t, http.StatusOK))
	for _, spent := range []string{code, a.codes[1]} {
		h.secondStep(t, h.firstStep(t, admin), spent, here).Want(t, http.StatusUnauthorized)
	}
	h.restart(t)
	h.clock.Move(startWithin)
	for _, spent := range []string{code, a.codes[1]} {
		h.secondStep(t, h.firstStep(t, admin), spent, here).Want(t, http.StatusUnauthorized)
	}
	back()
	for _, spent := range []string{code, a.codes[1]} {
		h.secondStep(t, h.firstStep(t, admin), spent, here).Want(t, http.StatusUnauthorized)
	}
	if n := h.Rows(t, "account_recovery_codes"); n != recoveryCodes-2 {
		t.Errorf("%d recovery codes are left", n)
	}
	h.secondStep(t, h.firstStep(t, admin), a.codes[2], here).Want(t, http.StatusOK)
	h.me(t, session).Want(t, http.StatusUnauthorized) // of a previous process
	h.me(t, recovered).Want(t, http.StatusUnauthorized)
}

// A challenge of the store has as many tries as one of the database.
func TestChallengeWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel() // mostly waiting
	h := newHouse(t)
	a := h.enrol(t, h.enter(t, admin, plain))
	defer breakDatabase(t, h)()
	challenge := h.firstStep(t, admin)
	for range maxTries {
		h.secondStep(t, challenge, "000000", here).Want(t, http.StatusUnauthorized)
	}
	h.secondStep(t, challenge, a.code(t, h, 0), here).Want(t, http.StatusServiceUnavailable)
	challenge = h.firstStep(t, admin)
	h.clock.Move(challengeTTL)
	h.secondStep(t, challenge, a.code(t, h, 0), here).Want(t, http.StatusServiceUnavailable)
	h.secondStep(t, h.firstStep(t, admin), a.code(t, h, 0), here).Want(t, http.StatusOK)
}

// A session with two steps continues when the database is back.
func TestSessionByTwoStepsGoesOn(t *testing.T) {
	h := newHouse(t)
	a := h.enrol(t, h.enter(t, admin, plain))
	back := breakDatabase(t, h)
	session := cookieOf(t, h.secondStep(t, h.firstStep(t, admin), a.code(t, h, 0), here).Want(t, http.StatusOK))
	back()
	var me struct {
		Method string `json:"auth_method"`
	}
	if h.me(t, session).Want(t, http.StatusOK).Into(t, &me); me.Method != "totp" {
		t.Errorf("me %+v", me)
	}
}

// No passkey can be verified without the database: the way in is a reset, which removes it.
func TestPasskeyWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel() // mostly waiting
	h := newHouse(t)
	h.register(t, h.enter(t, admin, plain), newDevice(fqdn)).Want(t, http.StatusCreated)
	back := breakDatabase(t, h)
	if a := h.login(t, admin, plain, here).Want(t, http.StatusServiceUnavailable); !strings.Contains(a.Error.Message, "passkey") {
		t.Errorf("%s", a.Body)
	}
	token, err := CreateResetToken(h.Paths, h.clock, false)
	if err != nil {
		t.Fatal(err)
	}
	h.reset(t, token, other).Want(t, http.StatusOK)
	session := h.enter(t, admin, other)
	back()
	h.me(t, session).Want(t, http.StatusOK)
	if n := h.Rows(t, "account_passkeys"); n != 0 {
		t.Errorf("%d passkeys", n)
	}
}

// A password can be reset while the database is away. The database learns of it before it authenticates anyone.
func TestResetWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel() // mostly waiting
	for name, restarted := range map[string]bool{"the same process": false, "another process": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			session := h.enter(t, admin, plain)
			api, _ := h.token(t, session, "ci", "admin")
			back := breakDatabase(t, h)
			offline := h.enter(t, admin, plain)
			token, err := CreateResetToken(h.Paths, h.clock, false)
			if err != nil {
				t.Fatal(err)
			}
			var out ResetAccount
			h.reset(t, token, other).Want(t, http.StatusOK).Into(t, &out)
			if !out.Pending || out.Email.String() != admin {
				t.Errorf("answer %+v", out)
			}
			if _, err := os.Stat(resetFile(h)); !os.IsNotExist(err) {
				t.Errorf("the token is there: %v", err)
			}
			h.me(t, offline).Want(t, http.StatusServiceUnavailable)
			h.login(t, admin, plain, here).Want(t, http.StatusServiceUnavailable)
			h.enter(t, admin, other)
			if restarted {
				h.restart(t)
				h.clock.Move(startWithin)
				h.enter(t, admin, other)
			}
			back()
			// Whatever comes first, nothing from before is still valid.
			switch name {
			case "the same process":
				h.login(t, admin, plain, here).Want(t, http.StatusUnauthorized)
			default:
				h.by(t, api, http.MethodGet, "/auth/me", nil).Want(t, http.StatusUnauthorized)
			}
			h.me(t, session).Want(t, http.StatusUnauthorized)
			h.by(t, api, http.MethodGet, "/auth/me", nil).Want(t, http.StatusUnauthorized)
			h.login(t, admin, plain, here).Want(t, http.StatusUnauthorized)
			h.enter(t, admin, other)
			if e := h.entries(t, "auth.password.reset"); len(e) != 1 || !strings.Contains(string(e[0].Details), `"database_away": true`) || !strings.Contains(string(e[0].Details), `"remote_ip": "192.0.2.1"`) {
				t.Errorf("audit %+v", e)
			}
			if a := h.store.get(); a.owes() || string(a.Hash) != h.hashOf(t, admin) {
				t.Error("store and user differ")
			}
		})
	}
}

// Only the database knows whether a deactivated user may log in.
func TestResetOfADeactivatedAdminWaitsForTheDatabase(t *testing.T) {
	t.Parallel() // mostly waiting
	h, path, b := twoAdmins(t)
	h.do(t, b, http.MethodPut, path, map[string]any{"active": false}).Want(t, http.StatusOK)
	token, err := CreateResetToken(h.Paths, h.clock, false)
	if err != nil {
		t.Fatal(err)
	}
	back := breakDatabase(t, h)
	h.reset(t, token, other).Want(t, http.StatusServiceUnavailable)
	h.login(t, admin, other, here).Want(t, http.StatusServiceUnavailable)
	back()
	h.reset(t, token, other).Want(t, http.StatusOK)
	h.login(t, admin, other, here).Want(t, http.StatusForbidden)
}

// elsewhere is a primary that is another node.
type elsewhere struct{ Primary }

func (elsewhere) Away(context.Context) (bool, error) { return true, nil }

// A former primary that starts as a standby, which accepts no changes, knows its sessions.
func TestSessionOnAStandbyThatStarts(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	h.enrol(t, session) // with a second factor, which the store has, too
	dbtest.Exec(t, h.DB, "UPDATE ha_state SET role = 'standby', epoch = 1, primary_id = 'other', primary_name = 'other.example.net'")
	h.primary = elsewhere{}
	h.restart(t)
	h.me(t, session).Want(t, http.StatusOK)
}

// accepting is a primary that knows a password which has not reached this node yet.
type accepting struct{ elsewhere }

func (accepting) Check(_ context.Context, _ netip.Addr, _, password string) (bool, error) {
	return password == "a newer password", nil
}

// A password that the primary knows is right: however often it is used, nobody is throttled.
func TestPasswordThatThePrimaryKnows(t *testing.T) {
	h := newHouse(t)
	h.enter(t, admin, plain) // from now on a user of the database
	h.primary = accepting{}
	h.restart(t)
	for n := range 30 {
		if a := h.login(t, admin, "a newer password", here); a.Status != http.StatusOK {
			t.Fatalf("login %d: %d", n, a.Status)
		}
	}
}
