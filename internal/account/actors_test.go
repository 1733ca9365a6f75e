package account

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/schema"
)

// traceOf returns the trace of a session's cookie or of a token.
func (h *house) traceOf(t *testing.T, credential string) trace {
	t.Helper()
	cookie, isSession := strings.CutPrefix(credential, "gateway_session=")
	if !isSession {
		return trace{way: ofHash, hash: string(hashTicket(credential))}
	}
	id, err := h.room.signer.session(cookie)
	if err != nil {
		t.Fatal(err)
	}
	return trace{way: ofSession, id: id}
}

// ask makes a request that only needs a session or a token.
func (h *house) ask(t *testing.T, credential string) *kittest.Answer {
	t.Helper()
	if strings.HasPrefix(credential, apiTokenPrefix) {
		return h.by(t, credential, http.MethodGet, "/toys", nil)
	}
	return h.do(t, credential, http.MethodGet, "/toys", nil)
}

// kept reports whether an actor is cached.
func (h *house) kept(t *testing.T, credential string) bool {
	t.Helper()
	_, err := h.room.actors.Get(h.traceOf(t, credential), func() (*found, error) { return nil, errors.New("not kept") })
	return err == nil
}

// warm makes requests until all of these actors are cached.
func (h *house) warm(t *testing.T, credentials ...string) {
	t.Helper()
	waittest.Until(t, "the actors are kept", func() bool {
		all := true
		for _, c := range credentials {
			h.ask(t, c).Want(t, http.StatusOK)
		}
		for _, c := range credentials {
			all = all && h.kept(t, c)
		}
		return all
	})
}

// What ends a session or a token, or changes its rights, applies to the very next request, although the actor was cached.
func TestRevocationIsExact(t *testing.T) {
	for _, x := range []struct {
		name string
		// revoke does it; root is an admin's session, id the user's, and session and token the user's own.
		revoke         func(h *house, t *testing.T, root, id, session, token, tokenID string)
		session, token int // what they get afterwards
	}{
		{"logout", func(h *house, t *testing.T, _, _, session, _, _ string) {
			h.do(t, session, http.MethodPost, "/auth/logout", nil).Want(t, 200)
		}, 401, 200},
		{"session ended elsewhere", func(h *house, t *testing.T, _, _, session, _, _ string) {
			other := h.enter(t, "a@example.net", plain)
			id, err := h.room.signer.session(strings.TrimPrefix(session, "gateway_session="))
			if err != nil {
				t.Fatal(err)
			}
			h.do(t, other, http.MethodDelete, "/auth/sessions/"+id.String(), nil).Want(t, 200)
		}, 401, 200},
		{"deactivated", func(h *house, t *testing.T, root, id, _, _, _ string) {
			h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"active": false}).Want(t, 200)
		}, 403, 403},
		{"deactivated by a change set", func(h *house, t *testing.T, root, id, _, _, _ string) {
			h.do(t, root, http.MethodPost, "/change-sets", map[string]any{"operations": []any{
				map[string]any{"kind": "user", "verb": "update", "id": id, "body": map[string]any{"active": false}}}}).Want(t, 200)
		}, 403, 403},
		{"deleted", func(h *house, t *testing.T, root, id, _, _, _ string) {
			h.do(t, root, http.MethodDelete, "/users/"+id, nil).Want(t, 200)
		}, 401, 401},
		{"demoted", func(h *house, t *testing.T, root, id, _, _, _ string) {
			h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"role": "viewer"}).Want(t, 200)
		}, 401, 200},
		{"token deleted", func(h *house, t *testing.T, root, _, _, _, tokenID string) {
			h.do(t, root, http.MethodDelete, "/api-tokens/"+tokenID, nil).Want(t, 200)
		}, 200, 401},
		{"password set by an admin", func(h *house, t *testing.T, root, id, _, _, _ string) {
			h.do(t, root, http.MethodPost, "/users/"+id+"/password", map[string]any{"password": other}).Want(t, 200)
		}, 401, 200},
		{"password changed in another session", func(h *house, t *testing.T, _, _, _, _, _ string) {
			other := h.enter(t, "a@example.net", plain)
			h.do(t, other, http.MethodPost, "/auth/change-password", map[string]any{"current_password": plain, "new_password": "yet another long password"}).Want(t, 200)
		}, 401, 200},
		// It helps users who have lost their second factor, and ends nothing.
		{"second factor reset", func(h *house, t *testing.T, root, id, _, _, _ string) {
			h.do(t, root, http.MethodDelete, "/users/"+id+"/totp", nil).Want(t, 200)
		}, 200, 200},
		{"session expired", func(h *house, t *testing.T, _, _, _, _, _ string) { h.clock.Move(sessionTTL) }, 401, 200},
		{"token expired", func(h *house, t *testing.T, _, _, _, token, tokenID string) {
			if err := h.DB.Write(t.Context(), func(tx *db.Tx) error {
				tx.Queue("UPDATE account_api_tokens SET expires_at = $2 WHERE id = $1", tokenID, h.clock.Now().Add(time.Hour))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			h.warm(t, token)
			h.clock.Move(time.Hour)
		}, 200, 401},
		{"pruned", func(h *house, t *testing.T, _, _, _, _, _ string) {
			h.clock.Move(sessionTTL)
			if err := Prune(t.Context(), h.DB, h.clock); err != nil {
				t.Fatal(err)
			}
			h.clock.Move(-sessionTTL) // the row is gone, whatever the clock says
		}, 401, 200},
	} {
		t.Run(x.name, func(t *testing.T) {
			h := newHouse(t)
			root := h.enter(t, admin, plain)
			id := h.add(t, root, "a@example.net", "admin")
			session := h.enter(t, "a@example.net", plain)
			token, tokenID := h.token(t, session, "ci", "admin")
			if x.name == "second factor reset" {
				h.enrol(t, session)
			}
			h.warm(t, root, session, token)
			x.revoke(h, t, root, id, session, token, tokenID)
			if s, k := h.ask(t, session).Status, h.ask(t, token).Status; s != x.session || k != x.token {
				t.Errorf("the session gets %d and the token %d", s, k)
			}
		})
	}
}

// A granted or revoked role applies to the next request.
func TestRoleChangesWithTheCacheWarm(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	id := h.add(t, root, "a@example.net", "viewer")
	session := h.enter(t, "a@example.net", plain)
	may := func(credential string, want int) {
		t.Helper()
		kittest.Call(t, h.Handler(), http.MethodPut, "/users/"+id, map[string]any{"name": "A"}, "Cookie", credential, "X-Test-Client", here).Want(t, want)
	}
	for range 20 {
		h.warm(t, session)
		may(session, http.StatusForbidden)
		h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"role": "admin"}).Want(t, http.StatusOK)
		may(session, http.StatusOK)
		h.warm(t, session)
		h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"role": "viewer"}).Want(t, http.StatusOK)
		h.ask(t, session).Want(t, http.StatusUnauthorized)
		session = h.enter(t, "a@example.net", plain)
	}
	token, _ := h.token(t, root, "ci", "admin")
	h.warm(t, token)
	h.by(t, token, http.MethodPut, "/users/"+id, map[string]any{"name": "B"}).Want(t, http.StatusOK)
}

// The use of a token is recorded once a minute, and invalidates no cache entry. Neither does a change of a name or a login.
func TestUseOfATokenIsWrittenNowAndThen(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	id := h.add(t, root, "a@example.net", "viewer")
	token, _ := h.token(t, root, "ci", "admin")
	used := func() (at time.Time) {
		t.Helper()
		if err := h.DB.QueryRow(t.Context(), "SELECT last_used_at FROM account_api_tokens").Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	h.warm(t, token)
	first := used()
	h.clock.Move(useEvery - time.Second)
	h.ask(t, token).Want(t, http.StatusOK)
	if !used().Equal(first) {
		t.Errorf("written at %s and again at %s", first, used())
	}
	h.clock.Move(time.Second)
	h.ask(t, token).Want(t, http.StatusOK)
	if !used().Equal(h.clock.Now()) {
		t.Errorf("used at %s, not at %s", used(), h.clock.Now())
	}
	h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"name": "A"}).Want(t, http.StatusOK)
	h.enter(t, "a@example.net", plain)
	if !h.kept(t, token) {
		t.Error("it is looked up again")
	}
}

// beside is another process on the same database, with the same sessions.
func (h *house) beside(t *testing.T) *house {
	t.Helper()
	d, err := db.Open(dbtest.Address(h.DB))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	o := newHouseOn(t, kittest.NewOn(t, d), bcrypt.MinCost)
	o.room.signer = h.room.signer
	return o
}

// What one process revokes, another one refuses as soon as the database has announced it.
func TestRevocationByAnotherProcess(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	o := h.beside(t)
	id := h.add(t, root, "a@example.net", "admin")
	session := h.enter(t, "a@example.net", plain)
	token, tokenID := h.token(t, session, "ci", "admin")
	refused := func(credential string, status int) {
		t.Helper()
		waittest.Until(t, fmt.Sprintf("it gets %d", status), func() bool { return o.ask(t, credential).Status == status })
	}
	o.warm(t, session, token)
	h.do(t, root, http.MethodDelete, "/api-tokens/"+tokenID, nil).Want(t, http.StatusOK)
	refused(token, http.StatusUnauthorized)
	o.warm(t, session)
	h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"active": false}).Want(t, http.StatusOK)
	refused(session, http.StatusForbidden)
	h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"active": true}).Want(t, http.StatusOK)
	refused(session, http.StatusUnauthorized)
	session = h.enter(t, "a@example.net", plain)
	o.warm(t, session)
	h.do(t, session, http.MethodPost, "/auth/logout", nil).Want(t, http.StatusOK)
	refused(session, http.StatusUnauthorized)
}

// A session that ends while nobody can be notified does not continue.
func TestRevocationWithoutTheListener(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	h.warm(t, session)
	dbtest.Exec(t, h.DB, `DO $$
		DECLARE
			listeners int[] := ARRAY(SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND (query LIKE 'SELECT max(version_id)%' OR query = 'LISTEN gateway_changed') AND pid <> pg_backend_pid());
		BEGIN
			IF listeners = '{}' THEN RAISE EXCEPTION 'nobody listens'; END IF;
			DELETE FROM account_sessions;
			PERFORM pg_terminate_backend(pid, 60000) FROM unnest(listeners) pid;
		END $$`)
	waittest.Until(t, "the session is over", func() bool { return h.ask(t, session).Status == http.StatusUnauthorized })
}

// However many requests are in progress, none that begins after the answer to the revocation is admitted.
func TestNobodyIsLetInAfterARevocation(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	id := h.add(t, root, "a@example.net", "viewer")
	for round := range 10 {
		session := h.enter(t, "a@example.net", plain)
		h.warm(t, root, session)
		var over atomic.Bool
		var let atomic.Int64
		stop := make(chan struct{})
		var readers sync.WaitGroup
		for range 8 {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					after := over.Load()
					if status := h.ask(t, session).Status; after && status == http.StatusOK {
						t.Errorf("round %d: it is let in after the answer", round)
						return
					} else if !after && status == http.StatusOK {
						let.Add(1)
					}
				}
			})
		}
		waittest.Until(t, "requests are let in", func() bool { return let.Load() > 20 })
		if round%2 == 0 {
			h.do(t, session, http.MethodPost, "/auth/logout", nil).Want(t, http.StatusOK)
		} else {
			h.do(t, root, http.MethodPost, "/users/"+id+"/password", map[string]any{"password": plain}).Want(t, http.StatusOK)
		}
		over.Store(true)
		for range 20 {
			h.ask(t, session).Want(t, http.StatusUnauthorized)
		}
		close(stop)
		readers.Wait()
	}
}
