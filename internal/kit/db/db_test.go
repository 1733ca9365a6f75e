package db_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/schema"
)

func migrations(files ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i, sql := range files {
		m[fmt.Sprintf("%04d_x.sql", i+1)] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + sql)}
	}
	return m
}

func open(t *testing.T, url string) *db.DB {
	t.Helper()
	d, err := db.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func TestMigrations(t *testing.T) {
	url := dbtest.EmptyURL(t)
	one, two := "CREATE TABLE a (x int);", "CREATE TABLE b (x int);"
	// Several programs start at once; one migrates and the others wait.
	done := make(chan error)
	for range 4 {
		d := open(t, url)
		go func() { done <- d.Attach(t.Context(), migrations(one, two)) }()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if err := open(t, url).Attach(t.Context(), migrations(one)); !errors.Is(err, db.ErrNewerSchema) {
		t.Fatalf("an older program attaches: %v", err)
	}
	// A migration that fails half-way leaves nothing.
	d := open(t, url)
	if err := d.Attach(t.Context(), migrations(one, two, "CREATE TABLE c (x int); SELECT nothing;")); err == nil || d.Attached() {
		t.Fatal("a broken migration attaches")
	}
	if err := d.Attach(t.Context(), migrations(one, two, "CREATE TABLE c (x int);")); err != nil {
		t.Fatalf("a mended migration fails: %v", err)
	}
}

// SY07 in its first form: there is one released schema, so that a fresh one and the template must be the same.
func TestSY07FreshSchemaIsWhole(t *testing.T) {
	d := open(t, dbtest.EmptyURL(t))
	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	describe := func(d *db.DB) (text string) {
		err := d.QueryRow(t.Context(), `SELECT string_agg(format('%s.%s %s %s', table_name, column_name, data_type, is_nullable), E'\n' ORDER BY table_name, ordinal_position)
			FROM information_schema.columns WHERE table_schema = 'public'`).Scan(&text)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if fresh, kept := describe(d), describe(dbtest.New(t)); fresh != kept || !strings.Contains(fresh, "ntp_pools.address text NO") {
		t.Fatalf("fresh:\n%s\ntemplate:\n%s", fresh, kept)
	}
}

func TestConstraintsBecomeFields(t *testing.T) {
	d := dbtest.New(t)
	dbtest.Exec(t, d, `CREATE TABLE parents (id int PRIMARY KEY);
		CREATE TABLE kids (id int PRIMARY KEY, name text CONSTRAINT kids_name_key UNIQUE, size int CONSTRAINT kids_size_check CHECK (size < 5),
			parent_id int CONSTRAINT kids_parent_id_fkey REFERENCES parents);
		INSERT INTO parents VALUES (1); INSERT INTO kids VALUES (1, 'a', 1, 1)`)
	for sql, want := range map[string]struct {
		kind  fault.Kind
		field string
	}{
		`INSERT INTO kids VALUES (2, 'a', 1, 1)`: {fault.Conflict, "name"},
		`INSERT INTO kids VALUES (2, 'b', 9, 1)`: {fault.Invalid, "size"},
		`INSERT INTO kids VALUES (2, 'b', 1, 9)`: {fault.Invalid, "parent_id"},
		`DELETE FROM parents`:                    {fault.Conflict, ""},
	} {
		err := d.Write(t.Context(), func(tx *db.Tx) error { _, err := tx.Exec(t.Context(), sql); return err })
		f := fault.From(err)
		if f.Kind != want.kind || want.field != "" && f.Fields[want.field] == "" || strings.Contains(f.Message, "kids") {
			t.Errorf("%s: %v %v", sql, err, f.Fields)
		}
	}
}

func TestAfterCommit(t *testing.T) {
	d := dbtest.New(t)
	ran := 0
	if err := d.Write(t.Context(), func(tx *db.Tx) error { tx.AfterCommit(func() { ran++ }); return nil }); err != nil || ran != 1 {
		t.Fatal(ran, err)
	}
	if err := d.Write(t.Context(), func(tx *db.Tx) error { tx.AfterCommit(func() { ran++ }); return errors.New("no") }); err == nil || ran != 1 {
		t.Fatal(ran, err)
	}
}

func TestDatabaseThatIsAway(t *testing.T) {
	d := open(t, "postgres:///none?host="+t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := d.Attach(ctx, schema.Migrations); err == nil || !db.Away(err) {
		t.Fatalf("%v", err)
	}
	if err := d.Write(ctx, func(*db.Tx) error { return nil }); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("%v", err)
	}
	var n int
	if err := d.QueryRow(ctx, "SELECT 1").Scan(&n); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("%v", err)
	}
}

func TestDatabaseThatGoesAwayAndReturns(t *testing.T) {
	url := dbtest.URL(t)
	d := open(t, url)
	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	admin := open(t, url)
	if err := admin.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	err := d.Write(t.Context(), func(tx *db.Tx) error {
		dbtest.Exec(t, admin, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		_, err := tx.Exec(t.Context(), `SELECT 1`)
		return err
	})
	if !fault.Is(err, fault.Unavailable) {
		t.Fatalf("%v", err)
	}
	if err := d.Write(t.Context(), func(tx *db.Tx) error { _, err := tx.Exec(t.Context(), `SELECT 1`); return err }); err != nil {
		t.Fatalf("the pool does not recover: %v", err)
	}
}
