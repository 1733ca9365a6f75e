package db_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/schema"
)

// owned returns a database whose owner is no superuser but may create databases, as on a real gateway, and a connection of
// another program's role.
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

// Two databases exchange their names in one step, whoever uses them, as often as requested, and back.
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
	// A session of another program is in the way, and is ended.
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

// loadable returns the name of a database to load a dump into, which is dropped after the test.
func loadable(t *testing.T, d *db.DB) string {
	t.Helper()
	s := d.Server()
	name := s.Live() + "_load"
	t.Cleanup(func() {
		if err := s.Drop(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	return name
}

// Only the forms that pg_restore writes are accepted; anything else refuses the dump.
func TestLoadRefusesWhatIsNoRow(t *testing.T) {
	d, _ := owned(t)
	s, name := d.Server(), loadable(t, d)
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
		if err := s.Load(t.Context(), name, schema.Migrations, newest, nil, strings.NewReader(script)); !errors.Is(err, db.ErrRefusedDump) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// emptyDump returns what pg_restore writes for a database without rows.
func emptyDump(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	var script string
	if err := conn.QueryRow(t.Context(), `SELECT string_agg(format(E'COPY public.%I (%s) FROM stdin;\n\\.\n', name, columns), '') FROM (
		SELECT c.relname AS name, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS columns FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' GROUP BY 1) t`).Scan(&script); err != nil {
		t.Fatal(err)
	}
	return script
}

// The schema of a loaded dump equals that of running the migrations one by one, down to the triggers and their modes.
func TestLoadMakesTheSameSchema(t *testing.T) {
	d, _ := owned(t)
	s, name := d.Server(), loadable(t, d)
	var role string
	if err := d.QueryRow(t.Context(), "SELECT current_user").Scan(&role); err != nil {
		t.Fatal(err)
	}
	connect := func(database string) *pgx.Conn {
		t.Helper()
		u, err := url.Parse(dbtest.Server(t).URL(database))
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.User(role)
		conn, err := pgx.Connect(t.Context(), u.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) }) // before the database is dropped
		return conn
	}
	made := connect(s.Live())
	newest, _, err := db.Newest(schema.Migrations)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := s.Load(t.Context(), name, schema.Migrations, newest, nil, strings.NewReader(emptyDump(t, made))); err != nil {
		t.Fatal(err)
	}
	found, err := s.Contents(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for table, c := range found {
		if c.Rows != 0 {
			t.Errorf("%s has %d rows", table, c.Rows)
		}
	}
	loaded := connect(name)
	for what, sql := range map[string]string{
		"versions":    `SELECT version_id::text || is_applied FROM goose_db_version ORDER BY id`,
		"columns":     `SELECT attrelid::regclass || ' ' || attname || ' ' || format_type(atttypid, atttypmod) || attnotnull || attidentity::text || coalesce(pg_get_expr(adbin, adrelid), '') FROM pg_attribute JOIN pg_class c ON c.oid = attrelid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE relnamespace = 'public'::regnamespace AND attnum > 0 ORDER BY 1`,
		"constraints": `SELECT conrelid::regclass || ' ' || conname || ' ' || convalidated || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1`,
		"indexes":     `SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1`,
		"triggers":    `SELECT tgrelid::regclass || ' ' || tgname || ' ' || tgenabled::text FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1`,
		"functions":   `SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1`,
	} {
		want, got := list(t, made, sql), list(t, loaded, sql)
		if len(want) == 0 || !slices.Equal(want, got) {
			t.Errorf("%s are\n%s\ninstead of\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	// An older version is what the migrations up to it make.
	if err := s.Create(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := s.Load(t.Context(), name, schema.Migrations, 1, nil, strings.NewReader("")); !errors.Is(err, db.ErrRefusedDump) {
		t.Error(err)
	}
	if versions := list(t, connect(name), `SELECT version_id::text FROM goose_db_version ORDER BY id`); !slices.Equal(versions, []string{"0", "1"}) {
		t.Errorf("%q", versions)
	}
}

func list(t *testing.T, conn *pgx.Conn, sql string) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
