package db_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/schema"
)

// owned is a database whose owner is no superuser and may make databases, as on a real gateway, and the role of another program that has a
// session there.
func owned(t *testing.T) (owner, other *db.DB) {
	t.Helper()
	super := dbtest.New(t)
	role, member := "owner_"+strings.ToLower(rand.Text()), "member_"+strings.ToLower(rand.Text())
	for _, sql := range []string{"CREATE ROLE " + role + " LOGIN CREATEDB", "CREATE ROLE " + member + " LOGIN", "GRANT " + member + " TO " + role} {
		dbtest.Exec(t, super, sql)
	}
	u, err := url.Parse(dbtest.EmptyURL(t))
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	dbtest.Exec(t, super, "ALTER DATABASE "+name+" OWNER TO "+role)
	open := func(user string) *db.DB {
		u := *u
		u.User = url.User(user)
		d, err := db.Open(u.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Close)
		return d
	}
	owner = open(role)
	if err := owner.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	return owner, open(member)
}

// Two databases change their names in one step, whoever uses them, as often as it is asked for, and back.
func TestExchange(t *testing.T) {
	d, other := owned(t)
	s := d.Server()
	next, former := s.Live()+"_next", s.Live()+"_former"
	t.Cleanup(func() {
		if err := errors.Join(s.Drop(context.Background(), next), s.Drop(context.Background(), former)); err != nil {
			t.Error(err)
		}
	})
	if err := s.Exchange(t.Context(), next, former); err == nil {
		t.Fatal("there is nothing to exchange it for")
	}
	if err := s.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	// A session of another program is in the way, and ended.
	if err := other.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.Close()
	tables := func(want int) {
		t.Helper()
		found, err := s.Contents(t.Context(), s.Live())
		if err != nil || (len(found) > 0) != (want > 0) {
			t.Fatalf("%d tables, %v", len(found), err)
		}
	}
	tables(1)
	for range 2 {
		if err := s.Exchange(t.Context(), next, former); err != nil {
			t.Fatal(err)
		}
		tables(0) // the empty one
	}
	for range 2 {
		if err := s.Exchange(t.Context(), former, next); err != nil {
			t.Fatal(err)
		}
		tables(1)
	}
	if err := s.Drop(t.Context(), s.Live()); err == nil {
		t.Fatal("the gateway's own database was dropped")
	}
	if err := s.Drop(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if there, err := s.Exists(t.Context(), next); err != nil || there {
		t.Error("it is still there", err)
	}
}

// Only the forms that pg_restore writes are read, and whatever else there is refuses the dump.
func TestLoadRefusesWhatIsNoRow(t *testing.T) {
	d, _ := owned(t)
	s := d.Server()
	name := s.Live() + "_load"
	t.Cleanup(func() {
		if err := s.Drop(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	newest, has, err := db.Newest(schema.Migrations)
	if err != nil || !has(newest) || has(newest+1) {
		t.Fatal(newest, err)
	}
	const copies = "COPY public.ntp_pools (id, created_at, updated_at, kind, address, iburst, prefer, minpoll, maxpoll) FROM stdin;\n"
	for what, script := range map[string]string{
		"nothing at all":         "",
		"a statement":            "DROP TABLE ntp_pools;\n",
		"another after a row":    copies + "\\.\nSELECT 1;\n",
		"two in a line":          "SET statement_timeout = 0; DROP TABLE ntp_pools;\n",
		"a program":              "COPY public.ntp_pools FROM PROGRAM 'id';\n",
		"a file":                 "COPY public.ntp_pools FROM '/etc/passwd';\n",
		"to a program":           "COPY public.ntp_pools TO PROGRAM 'id';\n",
		"a command of psql":      "\\! id\n",
		"another's table":        "COPY pg_catalog.pg_authid (rolname) FROM stdin;\nx\n\\.\n",
		"fewer columns":          "COPY public.ntp_pools (id) FROM stdin;\n\\.\n",
		"the same table twice":   copies + "\\.\n" + copies + "\\.\n",
		"a value of a sequence":  "SELECT pg_catalog.setval('public.other_seq', 1, true);\n",
		"another encoding":       "SET client_encoding = 'SJIS';\n",
		"an end without its end": copies + "x\n",
		"rows that are none":     copies + "x\n\\.\n",
		"a line without an end":  "--" + strings.Repeat("x", 1<<20) + "\n",
		"another role":           "SET SESSION AUTHORIZATION postgres;\n",
	} {
		if err := s.Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(t.Context(), name, schema.Migrations, newest, strings.NewReader(script)); !errors.Is(err, db.ErrRefusedDump) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
