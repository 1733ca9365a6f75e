package account

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/wire"
)

func TestUsersCRUD(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	a := h.do(t, root, http.MethodPost, "/users", map[string]any{"email": "z@example.net", "password": plain}).Want(t, http.StatusCreated)
	var u map[string]any
	a.Into(t, &u)
	if u["role"] != "viewer" || u["active"] != true || u["totp_enabled"] != false || u["oidc_subject"] != "" || u["last_login_at"] != nil || u["name"] != "" {
		t.Errorf("defaults %v", u)
	}
	if _, has := u["password"]; has {
		t.Error("the password is shown")
	}
	id := u["id"].(string)
	path := "/users/" + id
	if a.Header.Get("Location") != "/api/v1"+path {
		t.Errorf("location %s", a.Header.Get("Location"))
	}
	h.do(t, root, http.MethodPost, "/users", map[string]any{"email": "a@example.net", "password": plain, "name": "A", "role": "admin"}).Want(t, http.StatusCreated)
	var list []User
	h.do(t, root, http.MethodGet, "/users", nil).Want(t, http.StatusOK).Into(t, &list)
	if len(list) != 3 || list[0].Email.String() != "a@example.net" || list[2].Email.String() != "z@example.net" {
		t.Errorf("list %v", list)
	}

	// What GET returned can be sent back, and the password stays.
	got := h.do(t, root, http.MethodGet, path, nil).Want(t, http.StatusOK)
	session := h.enter(t, "z@example.net", plain)
	h.do(t, root, http.MethodPut, path, string(got.Data)).Want(t, http.StatusOK)
	h.do(t, root, http.MethodPut, path, map[string]any{"password": "***SET***", "name": "Zoe"}).Want(t, http.StatusOK)
	h.me(t, session).Want(t, http.StatusOK)
	h.enter(t, "z@example.net", plain)
	// Read-only fields are ignored.
	h.do(t, root, http.MethodPut, path, map[string]any{"totp_enabled": true, "oidc_subject": "x", "last_login_at": nil}).Want(t, http.StatusOK).Into(t, &u)
	if u["totp_enabled"] != false || u["oidc_subject"] != "" || u["last_login_at"] == nil || u["name"] != "Zoe" {
		t.Errorf("user %v", u)
	}

	for body, field := range map[string]string{
		`{"email": "z@example.net"}`:                                                              "password",
		`{"email": "nobody", "password": "correct horse"}`:                                        "email",
		`{"password": "correct horse"}`:                                                           "email",
		`{"email": "q@example.net", "password": "short"}`:                                         "password",
		`{"email": "q@example.net", "password": "correct horse", "role": "root"}`:                 "role",
		`{"email": "q@example.net", "password": "correct horse", "active": "yes"}`:                "active",
		`{"email": "q@example.net", "password": "correct horse", "name": "a\nb"}`:                 "name",
		`{"email": "q@example.net", "password": "correct horse", "admin": true}`:                  "admin",
		`{"email": "q@example.net", "password": ["x"]}`:                                           "password",
		`{"email": "q@example.net", "password": "x", "name": "` + strings.Repeat("n", 201) + `"}`: "name",
	} {
		before := h.hasher.Done()
		h.do(t, root, http.MethodPost, "/users", body).WantField(t, field)
		if h.hasher.Done() != before {
			t.Errorf("%s was hashed", body)
		}
	}
	for _, body := range []string{`{"email": null}`, `{"password": null}`, `{"password": ""}`, `{"role": ""}`} {
		h.do(t, root, http.MethodPut, path, body).Want(t, http.StatusBadRequest)
	}
	if f := h.do(t, root, http.MethodPost, "/users", map[string]any{"email": "a@example.net", "password": plain}).Want(t, http.StatusConflict); f.Error.Fields["email"] == "" {
		t.Errorf("duplicate: %s", f.Body)
	}
	stale := kittest.Call(t, h.Handler(), http.MethodPut, "/users/"+id, map[string]any{"name": "Q"}, "Cookie", root, "If-Match", got.Header.Get("ETag"))
	stale.Want(t, http.StatusPreconditionFailed)

	h.do(t, root, http.MethodDelete, path, nil).Want(t, http.StatusOK)
	h.do(t, root, http.MethodGet, path, nil).Want(t, http.StatusNotFound)
	for action, n := range map[string]int{"user.create": 3, "user.update": 3, "user.delete": 1, "user.password": 0} {
		if got := h.Audited(t, action); got != n {
			t.Errorf("%d entries of %s instead of %d", got, action, n)
		}
	}
}

func TestAU19DeletingUsers(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	id := h.add(t, root, "a@example.net", "admin")
	session := h.enter(t, "a@example.net", plain)
	a := h.do(t, session, http.MethodDelete, "/users/"+id, nil).Want(t, http.StatusBadRequest)
	if a.Error.Code != "validation_failed" {
		t.Errorf("code %s", a.Error.Code)
	}
	h.do(t, root, http.MethodDelete, "/users/"+id, nil).Want(t, http.StatusOK)
	h.me(t, session).Want(t, http.StatusUnauthorized)
	h.login(t, "a@example.net", plain, here).Want(t, http.StatusUnauthorized)
}

func TestAU24UnknownUsers(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	for _, id := range []string{uuid.NewString(), "1", "x", "%2e%2e%2fetc", "00000000000070008000000000000001", "'%20OR%201=1"} {
		h.do(t, root, http.MethodGet, "/users/"+id, nil).Want(t, http.StatusNotFound)
		h.do(t, root, http.MethodPut, "/users/"+id, `{"name": "x"}`).Want(t, http.StatusNotFound)
		h.do(t, root, http.MethodDelete, "/users/"+id, nil).Want(t, http.StatusNotFound)
		h.do(t, root, http.MethodPost, "/users/"+id+"/password", map[string]any{"password": plain}).Want(t, http.StatusNotFound)
	}
	if n := h.Audited(t, "user.password"); n != 0 {
		t.Errorf("%d audit entries", n)
	}
}

func TestLastAdminStays(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	var me struct{ ID string }
	h.me(t, root).Into(t, &me)
	h.add(t, root, "viewer@example.net", "viewer")
	idle := h.add(t, root, "idle@example.net", "admin")
	h.do(t, root, http.MethodPut, "/users/"+idle, map[string]any{"active": false}).Want(t, http.StatusOK)
	for _, body := range []string{`{"role": "viewer"}`, `{"active": false}`, `{"active": null}`} {
		if a := h.do(t, root, http.MethodPut, "/users/"+me.ID, body); a.Status != http.StatusConflict {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	h.do(t, root, http.MethodDelete, "/users/"+me.ID, nil).Want(t, http.StatusBadRequest)
	// A change set is no way around it.
	h.do(t, root, http.MethodPost, "/change-sets", map[string]any{"operations": []any{
		map[string]any{"kind": "user", "verb": "update", "id": me.ID, "body": map[string]any{"role": "viewer"}},
	}}).Want(t, http.StatusConflict)
	h.do(t, root, http.MethodPut, "/users/"+idle, map[string]any{"active": true}).Want(t, http.StatusOK)
	h.do(t, root, http.MethodPut, "/users/"+me.ID, `{"role": "viewer"}`).Want(t, http.StatusOK)
	h.do(t, root, http.MethodPut, "/users/"+me.ID, `{"role": "admin"}`).Want(t, http.StatusForbidden)
}

// Of several admins who lose their role at the same time, one keeps it, whoever asks and in whatever way.
func TestParallelDemotionKeepsOneAdmin(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	h.add(t, root, "b@example.net", "admin")
	ctx := actor.With(t.Context(), actor.System("test"))
	for round, op := range []resource.Operation{
		{Verb: "update", Body: wire.Raw(`{"role": "viewer"}`)},
		{Verb: "update", Body: wire.Raw(`{"active": false}`)},
		{Verb: "update", Body: wire.Raw(`{"role": "viewer"}`)},
		{Verb: "delete"},
	} {
		users, err := h.room.users.All(t.Context(), h.DB)
		if err != nil || len(users) != 2 {
			t.Fatalf("%d users, %v", len(users), err)
		}
		var kept atomic.Int32
		var both sync.WaitGroup
		for _, u := range users {
			op := op
			op.Kind, op.ID = "user", &u.ID
			both.Go(func() {
				_, _, err := h.Resources.Commit(ctx, resource.Set{Operations: []resource.Operation{op}})
				switch {
				case fault.Is(err, fault.Conflict):
					kept.Add(1)
				case err != nil:
					t.Error(err)
				}
			})
		}
		both.Wait()
		var admins int
		if err := h.DB.QueryRow(t.Context(), "SELECT count(*) FROM account_users WHERE role = 'admin' AND active").Scan(&admins); err != nil || admins != 1 || kept.Load() != 1 {
			t.Fatalf("round %d: %d admins, %d refused, %v", round, admins, kept.Load(), err)
		}
		dbtest.Exec(t, h.DB, "UPDATE account_users SET role = 'admin', active = true")
	}
}

func TestPasswordSetByAnAdminEndsSessions(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	id := h.add(t, root, "a@example.net", "viewer")
	for i, set := range []func(password string) *kittest.Answer{
		func(p string) *kittest.Answer {
			return h.do(t, root, http.MethodPost, "/users/"+id+"/password", map[string]any{"password": p})
		},
		func(p string) *kittest.Answer {
			return h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"password": p})
		},
		func(p string) *kittest.Answer {
			return h.do(t, root, http.MethodPost, "/change-sets", map[string]any{"operations": []any{
				map[string]any{"kind": "user", "verb": "update", "id": id, "body": map[string]any{"password": p}},
			}})
		},
	} {
		was, now := fmt.Sprintf("%s %d", other, i), fmt.Sprintf("%s %d", other, i+1)
		if i == 0 {
			was = plain
		}
		session := h.enter(t, "a@example.net", was)
		set("short").Want(t, http.StatusBadRequest)
		h.me(t, session).Want(t, http.StatusOK)
		set(now).Want(t, http.StatusOK)
		h.me(t, session).Want(t, http.StatusUnauthorized)
		h.login(t, "a@example.net", was, here).Want(t, http.StatusUnauthorized)
		h.enter(t, "a@example.net", now)
		if n := h.Audited(t, "user.password"); n != i+1 {
			t.Errorf("%d audit entries", n)
		}
	}
	// One's own session stays.
	var me struct{ ID string }
	h.me(t, root).Into(t, &me)
	second := h.enter(t, admin, plain)
	h.do(t, root, http.MethodPut, "/users/"+me.ID, map[string]any{"password": other}).Want(t, http.StatusOK)
	h.me(t, root).Want(t, http.StatusOK)
	h.me(t, second).Want(t, http.StatusUnauthorized)
}

func TestChangeSetMakesUsersWhoCanLogIn(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	h.add(t, root, "viewer@example.net", "viewer")
	viewer := h.enter(t, "viewer@example.net", plain)
	set := map[string]any{"preview": true, "operations": []any{
		map[string]any{"kind": "user", "verb": "create", "body": map[string]any{"email": "one@example.net", "password": plain}},
		map[string]any{"kind": "user", "verb": "create", "body": map[string]any{"email": "two@example.net", "password": other}},
	}}
	before := h.hasher.Done()
	h.do(t, viewer, http.MethodPost, "/change-sets", set).Want(t, http.StatusForbidden)
	h.do(t, root, http.MethodPost, "/change-sets", set).Want(t, http.StatusOK)
	if h.hasher.Done() != before || h.Rows(t, "account_users") != 2 {
		t.Error("a preview computed a hash or made a user")
	}
	set["preview"] = false
	h.do(t, viewer, http.MethodPost, "/change-sets", set).Want(t, http.StatusForbidden)
	h.do(t, root, http.MethodPost, "/change-sets", set).Want(t, http.StatusOK)
	h.enter(t, "one@example.net", plain)
	h.enter(t, "two@example.net", other)
	if hash := h.hashOf(t, "one@example.net"); !strings.HasPrefix(hash, "$2a$") {
		t.Errorf("stored %.4s", hash)
	}
}

// The setup store admits those who could log in through the database, and nobody else.
func TestSetupStoreFollowsTheUser(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	h.add(t, root, "b@example.net", "admin")
	b := h.enter(t, "b@example.net", plain)
	var me struct{ ID string }
	h.me(t, root).Into(t, &me)
	put := func(body map[string]any) {
		t.Helper()
		h.do(t, b, http.MethodPut, "/users/"+me.ID, body).Want(t, http.StatusOK)
	}
	follows := func(email string, in bool) {
		t.Helper()
		got := h.store.get()
		if got.Email.String() != email || (got.Hash != "") != in || in && string(got.Hash) != h.hashOf(t, email) {
			t.Errorf("the store has %s, hash %v", got.Email, got.Hash != "")
		}
	}
	follows(admin, true)
	put(map[string]any{"active": false})
	follows(admin, false)
	put(map[string]any{"active": true})
	follows(admin, true)
	put(map[string]any{"role": "viewer"})
	follows(admin, false)
	put(map[string]any{"role": "admin", "password": other})
	follows(admin, true)
	put(map[string]any{"email": "renamed@example.net"})
	follows("renamed@example.net", true)
	h.login(t, admin, other, here).Want(t, http.StatusUnauthorized)
	h.enter(t, "renamed@example.net", other)
	// A preview changes nothing there either.
	h.do(t, b, http.MethodPost, "/change-sets", map[string]any{"preview": true, "operations": []any{
		map[string]any{"kind": "user", "verb": "delete", "id": me.ID},
	}}).Want(t, http.StatusOK)
	follows("renamed@example.net", true)
	// What a crash has missed is corrected at the next login.
	if err := h.store.update(func(a *StoreAdmin) error { a.Hash = ""; return nil }); err != nil {
		t.Fatal(err)
	}
	h.enter(t, "renamed@example.net", other)
	follows("renamed@example.net", true)
	// A deleted admin does not come back through the store.
	h.do(t, b, http.MethodDelete, "/users/"+me.ID, nil).Want(t, http.StatusOK)
	follows("renamed@example.net", false)
	h.login(t, "renamed@example.net", other, here).Want(t, http.StatusUnauthorized)
	if h.Rows(t, "account_users") != 1 {
		t.Error("the deleted admin is back")
	}
}

func TestAuditOfAUserShowsWhatChanged(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	id := h.add(t, root, "a@example.net", "viewer")
	h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"name": "A", "password": other}).Want(t, http.StatusOK)
	e := h.entries(t, "user.update")[0]
	var details struct{ Fields map[string][2]any }
	if err := json.Unmarshal(e.Details, &details); err != nil || e.Actor != admin || e.Subject != "a@example.net" || len(details.Fields) != 1 || details.Fields["name"][1] != "A" {
		t.Errorf("audit %s by %s: %s", e.Subject, e.Actor, e.Details)
	}
}
