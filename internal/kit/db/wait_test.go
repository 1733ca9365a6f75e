package db_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/waittest"
)

// answered is how long these tests wait for what must take less than 5 s on an idle machine.
const answered = 20 * time.Second

// within fails the test unless f returns.
func within(t *testing.T, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(answered):
		t.Fatalf("%s hangs", what)
		return nil
	}
}

func one(ctx context.Context, q db.Querier) error {
	var n int
	return q.QueryRow(ctx, "SELECT 1").Scan(&n)
}

// A database whose processes are frozen keeps nobody waiting, and is recognized as unavailable; once it continues, so does
// everything else.
func TestDatabaseThatStandsStill(t *testing.T) {
	t.Parallel()
	d, server := dbtest.Own(t)
	dbtest.Exec(t, d, "CREATE TABLE things (n int)")
	if err := one(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	inside, proceed := make(chan struct{}), make(chan struct{})
	half := make(chan error, 1)
	go func() {
		half <- d.Write(t.Context(), func(tx *db.Tx) error {
			if err := tx.Flush(t.Context()); err != nil {
				return err
			}
			close(inside)
			<-proceed
			return one(t.Context(), tx)
		})
	}()
	<-inside
	thaw := dbtest.Freeze(t, server)
	close(proceed)
	for what, f := range map[string]func() error{
		"a request's read":        func() error { return one(db.Impatient(t.Context()), d) },
		"a read":                  func() error { return one(t.Context(), d) },
		"a change":                func() error { return d.Write(t.Context(), func(tx *db.Tx) error { return one(t.Context(), tx) }) },
		"a snapshot":              func() error { return d.Snapshot(t.Context(), func(tx *db.Tx) error { return one(t.Context(), tx) }) },
		"a change that was begun": func() error { return <-half },
	} {
		if err := within(t, what, f); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	known := func(there bool) {
		t.Helper()
		waittest.Within(t, answered, fmt.Sprintf("the database is known to be there: %t", there), func() error {
			if d.Attached() != there {
				return errors.New("it is not")
			}
			return nil
		})
	}
	known(false)
	thaw()
	known(true)
	if err := within(t, "a change", func() error { return d.Write(t.Context(), func(tx *db.Tx) error { return one(t.Context(), tx) }) }); err != nil {
		t.Error(err)
	}
}

// lock locks a table like a person at psql.
func lock(t *testing.T, d *db.DB, table string) (release func()) {
	t.Helper()
	locked, free := make(chan error), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.Write(context.Background(), func(tx *db.Tx) error {
			_, err := tx.Exec(context.Background(), "LOCK TABLE "+table)
			locked <- err
			<-free
			return errors.New("enough")
		})
	}()
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() { close(free); <-done })
	t.Cleanup(release)
	return release
}

// A lock that is held for long causes an error instead of a wait, for requests and for everything else; and a request waits in
// vain only once.
func TestLockedTable(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	dbtest.Exec(t, d, "CREATE TABLE things (n int); CREATE TABLE others (n int)")
	release := lock(t, d, "things")
	count := func(ctx context.Context, table string) error {
		var n int
		return db.Fault(d.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n))
	}
	request := db.Impatient(t.Context())
	for what, f := range map[string]func() error{
		"a request's read": func() error { return count(request, "things") },
		"a read":           func() error { return count(t.Context(), "things") },
		"a change": func() error {
			return d.Write(t.Context(), func(tx *db.Tx) error { tx.Queue("INSERT INTO things VALUES (1)"); return nil })
		},
	} {
		if err := within(t, what, f); !fault.Is(err, fault.Unavailable) || !db.Stalled(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := count(request, "others"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a request that has waited in vain waits again: %v", err)
	}
	if err := d.Write(request, func(*db.Tx) error { return nil }); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a request that has waited in vain stores something: %v", err)
	}
	if err := count(db.Impatient(t.Context()), "others"); err != nil || !d.Attached() {
		t.Errorf("the lock holds up what does not need it: %v", err)
	}
	release()
	if err := count(db.Impatient(t.Context()), "things"); err != nil {
		t.Error(err)
	}
}

// A request's waits are bounded in total: after waiting for a turn, it waits less for the database. Bulk work does not count, and
// a commit is not cut short.
func TestWaitsAreBoundedInSum(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	dbtest.Exec(t, d, "CREATE TABLE things (n int)")
	sleep := func(ctx context.Context, q db.Querier, seconds float64) error {
		var n any
		return db.Fault(q.QueryRow(ctx, "SELECT pg_sleep($1)::text", seconds).Scan(&n))
	}
	request := db.Impatient(t.Context())
	if err := sleep(request, d, 0.5); err != nil || db.Waited(request) == 0 {
		t.Errorf("%v; it has waited for %s", err, db.Waited(request))
	}
	db.Wait(request, db.Whole)
	if err := within(t, "a request that has waited before", func() error { return sleep(request, d, 3600) }); !fault.Is(err, fault.Unavailable) || !db.Stalled(err) {
		t.Error(err)
	}
	db.Wait(request, db.Whole)
	waiting, over := db.Patience(request)
	<-waiting.Done()
	over()

	// If two of these counted, the second would be cut short.
	long := func(ctx context.Context, q db.Querier) error {
		most := db.Whole.Seconds() * 0.7
		if err := sleep(ctx, q, most); err != nil {
			return err
		}
		return sleep(ctx, q, most)
	}
	request = db.Impatient(t.Context())
	if err := d.Snapshot(request, func(tx *db.Tx) error { return long(request, tx) }); err != nil {
		t.Errorf("reading much at once: %v", err)
	}
	request = db.Impatient(t.Context())
	if err := d.Write(request, func(tx *db.Tx) error { return long(db.Bulk(request), tx) }); err != nil {
		t.Errorf("storing much at once: %v", err)
	}
	request = db.Impatient(t.Context())
	err := d.Write(request, func(tx *db.Tx) error {
		if _, err := tx.Exec(request, "INSERT INTO things VALUES (1)"); err != nil {
			return err
		}
		tx.Queue("SELECT pg_sleep(0.5)") // is sent with the commit
		db.Wait(request, db.Whole)
		return nil
	})
	var n int
	if counted := d.QueryRow(t.Context(), "SELECT count(*) FROM things").Scan(&n); err != nil || counted != nil || n != 1 {
		t.Errorf("%v, %v: %d rows", err, counted, n)
	}
}

// Changes may take all connections they can get: reads have their own.
func TestReadsHaveConnectionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	var began, all sync.WaitGroup
	free := make(chan struct{})
	for range 16 {
		began.Add(1)
		all.Go(func() {
			if err := d.Write(t.Context(), func(*db.Tx) error { began.Done(); <-free; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	began.Wait()
	if err := within(t, "a read", func() error { return one(t.Context(), d) }); err != nil {
		t.Error(err)
	}
	if err := within(t, "a snapshot", func() error {
		return d.Snapshot(t.Context(), func(tx *db.Tx) error { return one(t.Context(), tx) })
	}); err != nil {
		t.Error(err)
	}
	if err := within(t, "another change", func() error { return d.Write(t.Context(), func(*db.Tx) error { return nil }) }); !fault.Is(err, fault.Unavailable) {
		t.Errorf("another change: %v", err)
	}
	close(free)
	all.Wait()
}

// A commit that the database does not answer is neither a success nor a failure, and the error says so.
func TestCommitWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	dbtest.Exec(t, d, `CREATE TABLE things (n int);
		CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER late AFTER INSERT ON things DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()`)
	err := within(t, "the commit", func() error {
		return d.Write(db.Impatient(t.Context()), func(tx *db.Tx) error { tx.Queue("INSERT INTO things VALUES (1)"); return nil })
	})
	if !fault.Is(err, fault.Unavailable) || !db.Unknown(err) {
		t.Errorf("%v", err)
	}
	if err := d.Write(t.Context(), func(tx *db.Tx) error { tx.Queue("SELECT nothing"); return nil }); err == nil || db.Unknown(err) {
		t.Errorf("a commit that the database refuses: %v", err)
	}
}

// Nothing is committed for a caller who has left.
func TestCallerWhoHasLeft(t *testing.T) {
	d := dbtest.New(t)
	dbtest.Exec(t, d, "CREATE TABLE things (n int)")
	ctx, leave := context.WithCancel(t.Context())
	err := d.Write(ctx, func(tx *db.Tx) error { tx.Queue("INSERT INTO things VALUES (1)"); leave(); return nil })
	var n int
	if again := d.QueryRow(t.Context(), "SELECT count(*) FROM things").Scan(&n); !errors.Is(err, context.Canceled) || again != nil || n != 0 {
		t.Errorf("%v, %d rows, %v", err, n, again)
	}
}

// A supposition leaves nothing behind, holds nothing while its result is inspected, and cannot take long.
func TestSuppose(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	dbtest.Exec(t, d, "CREATE TABLE things (n int); INSERT INTO things VALUES (1)")
	count := func(q db.Querier) (n int) {
		t.Helper()
		if err := q.QueryRow(t.Context(), "SELECT sum(n) FROM things").Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	update := func(tx *db.Tx) error { _, err := tx.Exec(t.Context(), "UPDATE things SET n = n + 1"); return err }
	err := d.Suppose(t.Context(), func(tx *db.Tx) error {
		if err := update(tx); err != nil || count(tx) != 2 || !tx.Supposed() {
			t.Errorf("%v, %d", err, count(tx))
		}
		return nil
	}, func(ctx context.Context) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("looking may take for ever")
		}
		return d.Write(t.Context(), update) // would deadlock
	})
	if err != nil || count(d) != 2 {
		t.Errorf("%v, %d", err, count(d))
	}
	refused := errors.New("no")
	if err := d.Suppose(t.Context(), func(*db.Tx) error { return refused }, nil); !errors.Is(err, refused) {
		t.Error(err)
	}
	err = within(t, "a long supposition", func() error {
		return d.Suppose(t.Context(), func(tx *db.Tx) error {
			for {
				if _, err := tx.Exec(t.Context(), "SELECT pg_sleep(0.1)"); err != nil {
					return err
				}
			}
		}, nil)
	})
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("a long supposition: %v", err)
	}
}

// The number of concurrent suppositions is bounded; further callers must try again.
func TestFewSuppositionsAtOnce(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	none := func(*db.Tx) error { return nil }
	var began, all sync.WaitGroup
	free := make(chan struct{})
	for range 2 {
		began.Add(1)
		all.Go(func() {
			_ = d.Suppose(t.Context(), none, func(context.Context) error { began.Done(); <-free; return nil })
		})
	}
	began.Wait()
	err := within(t, "a third supposition", func() error {
		return d.Suppose(t.Context(), none, func(context.Context) error { t.Error("it runs"); return nil })
	})
	if !fault.Is(err, fault.TooMany) || fault.From(err).RetryAfter == 0 {
		t.Error(err)
	}
	close(free)
	all.Wait()
	if err := d.Suppose(t.Context(), none, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}
