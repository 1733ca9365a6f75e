package db_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/waittest"
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

// AfterCommit functions may use the database, even with a single connection, however many commit at once. BeforeCommit functions
// run last, see what the transaction has done, and can still stop it.
func TestBeforeCommit(t *testing.T) {
	d := dbtest.New(t)
	dbtest.Exec(t, d, "CREATE TABLE notes (text text CONSTRAINT notes_text_key UNIQUE)")
	count := func(q db.Querier) (n int) {
		t.Helper()
		if err := q.QueryRow(t.Context(), "SELECT count(*) FROM notes").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	seen := -1
	note := func(fails error) error {
		return d.Write(t.Context(), func(tx *db.Tx) error {
			tx.BeforeCommit(func() error {
				if err := tx.Flush(t.Context()); err != nil {
					return err
				}
				seen = count(tx)
				return fails
			})
			tx.Queue("INSERT INTO notes VALUES ('one')")
			return nil
		})
	}
	if err := note(errors.New("the disk is full")); err == nil || seen != 1 || count(d) != 0 {
		t.Errorf("stopped with %v, it saw %d, %d are stored", err, seen, count(d))
	}
	if err := note(nil); err != nil || seen != 1 || count(d) != 1 {
		t.Errorf("%v, it saw %d, %d are stored", err, seen, count(d))
	}
	// A change that the database refuses does not get that far.
	if seen = -1; note(nil) == nil || seen != -1 {
		t.Error("it ran for a change that was refused")
	}
}

func TestAfterCommitNeedsAConnection(t *testing.T) {
	d := dbtest.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			err := d.Write(ctx, func(tx *db.Tx) error {
				tx.AfterCommit(func() {
					mu.Lock()
					defer mu.Unlock()
					var one int
					if err := d.QueryRow(ctx, "SELECT 1").Scan(&one); err != nil {
						t.Error(err)
					}
				})
				_, err := tx.Exec(ctx, "SELECT pg_sleep(0.01)")
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// A database that a newer version has migrated is neither read nor changed by this one, even if it was attached before. Once a
// backup is restored, it continues.
func TestDatabaseOfANewerVersion(t *testing.T) {
	url := dbtest.EmptyURL(t)
	one, two := "CREATE TABLE a (x int);", "CREATE TABLE b (x int); DROP TABLE a;"
	older, newer, late := open(t, url), open(t, url), open(t, url)
	if err := older.Attach(t.Context(), migrations(one)); err != nil {
		t.Fatal(err)
	}
	if err := newer.Attach(t.Context(), migrations(one, two)); err != nil {
		t.Fatal(err)
	}
	if err := late.Attach(t.Context(), migrations(one)); !errors.Is(err, db.ErrNewerSchema) {
		t.Fatal(err)
	}
	ctx := t.Context()
	waittest.Until(t, "it notices the newer version", older.Newer)
	for name, d := range map[string]*db.DB{"attached": older, "late": late} {
		var n int
		for verb, err := range map[string]error{
			"write": d.Write(ctx, func(tx *db.Tx) error { _, err := tx.Exec(ctx, "DROP TABLE b"); return err }),
			"read":  d.QueryRow(ctx, "SELECT 1").Scan(&n),
		} {
			if f := fault.From(err); d.Attached() || f.Kind != fault.Unavailable || !strings.Contains(f.Message, "newer version") {
				t.Errorf("%s, %s: %v", name, verb, err)
			}
		}
	}
	if err := newer.Write(ctx, func(tx *db.Tx) error { _, err := tx.Exec(ctx, "INSERT INTO b VALUES (1)"); return err }); err != nil {
		t.Errorf("there is damage: %v", err)
	}
	if err := newer.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM goose_db_version WHERE version_id = 2")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "it notices that the newer version has gone", func() bool { return !older.Newer() })
	if !older.Attached() {
		t.Error("it does not go on")
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
	d := dbtest.New(t)
	err := d.Write(t.Context(), func(tx *db.Tx) error {
		if err := tx.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		dbtest.Exec(t, d, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
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

// Errors of a daemon's broken socket have the same type, but say nothing about the database.
func TestOthersSocketsAreNotTheDatabases(t *testing.T) {
	d := dbtest.New(t)
	for _, other := range []error{
		&net.OpError{Op: "dial", Net: "unix", Err: syscall.ECONNREFUSED},
		fmt.Errorf("reading from the daemon: %w", io.ErrUnexpectedEOF),
		errors.New("conn closed"),
	} {
		err := d.Write(t.Context(), func(*db.Tx) error { return other })
		if db.Away(other) || fault.Is(err, fault.Unavailable) {
			t.Errorf("%v is taken for the database's: %v", other, err)
		}
	}
}

// A server that closes the connection without an error is unavailable.
func TestBrokenConnectionIsAway(t *testing.T) {
	cfg, err := pgx.ParseConfig(dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	dir, name := t.TempDir(), fmt.Sprintf(".s.PGSQL.%d", cfg.Port)
	between, err := net.Listen("unix", filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer between.Close()
	accepted := make(chan net.Conn, 16)
	go func() {
		for {
			client, err := between.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", filepath.Join(cfg.Host, name))
			if err != nil {
				t.Error(err)
				return
			}
			accepted <- client
			go func() { _, _ = io.Copy(server, client); server.Close() }()
			go func() { _, _ = io.Copy(client, server); client.Close() }()
		}
	}()
	d := open(t, private.URL(dir, cfg.Database))
	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	err = d.Write(t.Context(), func(tx *db.Tx) error {
		if err := tx.Flush(t.Context()); err != nil {
			return err
		}
		for len(accepted) > 0 {
			(<-accepted).Close()
		}
		_, err := tx.Exec(t.Context(), `SELECT 1`)
		if !db.Away(err) {
			t.Errorf("%v", err)
		}
		return err
	})
	if !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
}

// A change is not stored for a caller who is gone.
func TestHangingUpStoresNothing(t *testing.T) {
	d := dbtest.New(t)
	dbtest.Exec(t, d, `CREATE TABLE things (n int)`)
	ctx, hangUp := context.WithCancel(t.Context())
	err := d.Write(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO things VALUES (1)`); err != nil {
			return err
		}
		hangUp()
		return nil
	})
	var n int
	if err2 := d.QueryRow(t.Context(), `SELECT count(*) FROM things`).Scan(&n); !errors.Is(err, context.Canceled) || err2 != nil || n != 0 {
		t.Fatal(err, err2, n)
	}
}

func TestQueuedStatements(t *testing.T) {
	d := dbtest.New(t)
	dbtest.Exec(t, d, `CREATE TABLE things (n int CONSTRAINT things_n_key UNIQUE)`)
	count := func() (n int) {
		t.Helper()
		if err := d.QueryRow(t.Context(), `SELECT count(*) FROM things`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	add := func(tx *db.Tx, n int) { tx.Queue(`INSERT INTO things VALUES ($1)`, n) }

	// A query sees what was queued before it, and two results can be read one after the other.
	err := d.Write(t.Context(), func(tx *db.Tx) error {
		add(tx, 1)
		add(tx, 2)
		for range 2 {
			var sum int
			rows, err := tx.Query(t.Context(), `SELECT n FROM things`)
			if err != nil {
				return err
			}
			for rows.Next() {
				var n int
				if err := rows.Scan(&n); err != nil {
					return err
				}
				sum += n
			}
			if rows.Err() != nil || sum != 3 {
				t.Errorf("sum %d, %v", sum, rows.Err())
			}
		}
		return nil
	})
	if err != nil || count() != 2 {
		t.Fatal(count(), err)
	}
	for name, f := range map[string]func(tx *db.Tx) error{
		"at the commit": func(tx *db.Tx) error { add(tx, 3); add(tx, 1); return nil },
		"at a flush":    func(tx *db.Tx) error { add(tx, 3); add(tx, 1); return tx.Flush(t.Context()) },
		"at a question": func(tx *db.Tx) error {
			add(tx, 3)
			add(tx, 1)
			var n int
			return tx.QueryRow(t.Context(), `SELECT 1`).Scan(&n)
		},
		"swallowed": func(tx *db.Tx) error { add(tx, 3); add(tx, 1); _ = tx.Flush(t.Context()); return nil },
	} {
		err := d.Write(t.Context(), f)
		if err == nil || count() != 2 {
			t.Errorf("%s: %v, %d rows", name, err, count())
		}
		if name != "swallowed" && !fault.Is(err, fault.Conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err = d.Write(t.Context(), func(tx *db.Tx) error { add(tx, 3); return errors.New("no") })
	if err == nil || count() != 2 {
		t.Fatal("a transaction that failed before it was sent left something")
	}
	if err := d.Write(t.Context(), func(*db.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	var n int
	err = d.Write(t.Context(), func(tx *db.Tx) error { return tx.QueryRow(t.Context(), `SELECT n FROM things WHERE n = 9`).Scan(&n) })
	if !errors.Is(err, pgx.ErrNoRows) {
		t.Fatalf("%v", err)
	}
	err = d.Snapshot(t.Context(), func(tx *db.Tx) error { add(tx, 3); return nil })
	if err == nil || count() != 2 {
		t.Fatal("a snapshot can be written")
	}
}

// A program that joins needs no rights except on its own tables.
func TestJoiningLeavesTheSchemaAlone(t *testing.T) {
	owner := dbtest.New(t)
	dbtest.Exec(t, owner, `CREATE TABLE own (x int);
		DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'joined') THEN CREATE ROLE joined LOGIN; END IF; END $$;
		GRANT SELECT ON own TO joined`)
	var name string
	if err := owner.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(dbtest.Server(t).URL(name))
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.User("joined")
	d := open(t, at.String())
	if d.Attached() {
		t.Fatal("attached before it was")
	}
	if err := d.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	received, listening := make(chan string, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- d.Listen(ctx, "own", func() { close(listening) }, func(payload string) error { received <- payload; return nil })
	}()
	<-listening
	// It stays attached although the watch may not read the schema version.
	for range 3 {
		time.Sleep(time.Second)
		var n int
		if err := d.QueryRow(t.Context(), "SELECT count(*) FROM own").Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	var version int
	if err := d.QueryRow(t.Context(), "SELECT max(version_id) FROM goose_db_version").Scan(&version); err == nil {
		t.Error("it may read the schema's version, so this proves nothing")
	}
	dbtest.Exec(t, owner, "NOTIFY own, 'hello'")
	if payload := <-received; payload != "hello" {
		t.Errorf("heard %q", payload)
	}
	cancel()
	<-ended
}

// A connection that times out without a reason is a failure of the database, not of the gateway, and is not reused.
func TestConnectionThatGivesUp(t *testing.T) {
	d := dbtest.New(t)
	if err := d.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	var one int
	if err := d.QueryRow(t.Context(), "SELECT 1").Scan(&one); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	if err := d.QueryRow(t.Context(), "SELECT 1").Scan(&one); err != nil || one != 1 {
		t.Errorf("%d, %v", one, err)
	}
}
