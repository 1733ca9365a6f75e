package app

import (
	"slices"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"edge.internal/gateway/internal/account"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/setup"
)

// On a database from another time nobody is logged in, and users who were deleted since are named.
func TestPeopleAfterARestore(t *testing.T) {
	b := kittest.New(t)
	store, err := setup.OpenStore(b.Paths)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Build(b.Kit, store, password.New(bcrypt.MinCost))
	if err != nil {
		t.Fatal(err)
	}
	former := dbtest.New(t)
	people := func(d *db.DB, names ...string) {
		for _, name := range names {
			dbtest.Exec(t, d, `INSERT INTO account_users (id, created_at, updated_at, email, role, active, password, name, totp_enabled, oidc_subject)
				VALUES (md5('`+name+`')::uuid, now(), now(), '`+name+`@example.net', 'admin', true, '', '', false, '')`)
			dbtest.Exec(t, d, `INSERT INTO account_api_tokens (id, created_at, user_id, name, role, hash)
				SELECT md5('token '||'`+name+`')::uuid, now(), id, 'script', 'viewer', email::bytea FROM account_users WHERE email = '`+name+`@example.net'`)
		}
	}
	people(b.DB, "ann", "bob")
	people(former, "ann")
	dbtest.Exec(t, former, "DELETE FROM account_api_tokens")
	dbtest.Exec(t, b.DB, "INSERT INTO account_sessions (id, user_id, created_at, expires_at, address, user_agent, method) SELECT id, id, now(), now() + interval '1 day', '', '', 'password' FROM account_users")
	if err := h.arrive(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, table := range account.Transient {
		if n := b.Rows(t, table); n != 0 {
			t.Errorf("%s has %d rows", table, n)
		}
	}
	users, tokens, err := account.Returned(t.Context(), b.DB, former)
	if err != nil || !slices.Equal(users, []string{"bob@example.net"}) || !slices.Equal(tokens, []string{"script of ann@example.net", "script of bob@example.net"}) {
		t.Errorf("%q %q %v", users, tokens, err)
	}
}
