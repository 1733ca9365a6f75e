package apply_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
)

// inTime fails the test if f hangs. What must take less than 5 s gets four times as long here.
func inTime(t *testing.T, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatalf("%s hangs", what)
		return nil
	}
}

// Queued writers of a component hold no connections: changes that do not feed it proceed.
func TestQueueTakesNoConnections(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	inside, free := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	write := func(f func()) {
		_, err := x.Engine.Commit(t.Context(), []apply.ID{apply.NTP}, func(*db.Tx) ([]apply.Row, error) { f(); return nil, nil })
		if err != nil {
			t.Error(err)
		}
	}
	all.Go(func() { write(func() { close(inside); <-free }) })
	<-inside
	for range 40 {
		all.Go(func() { write(func() {}) })
	}
	for range 100 {
		err := inTime(t, "a change of something else", func() error {
			return x.DB.Write(db.Impatient(t.Context()), func(tx *db.Tx) error { return tx.Flush(t.Context()) })
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	close(free)
	all.Wait()
	if s := x.status(); s.Revision != 42 {
		t.Errorf("%+v", s)
	}
}

// A writer that leaves the queue does not block it.
func TestLeavingTheQueue(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	inside, free := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := x.Engine.Commit(t.Context(), []apply.ID{apply.NTP}, func(*db.Tx) ([]apply.Row, error) { close(inside); <-free; return nil, nil })
		first <- err
	}()
	<-inside
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := x.Engine.Commit(ctx, []apply.ID{apply.NTP}, func(*db.Tx) ([]apply.Row, error) { return nil, errors.New("it had its turn") })
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	leave()
	all.Wait()
	close(free)
	if err := <-first; err != nil {
		t.Error(err)
	}
	x.want(t, "b", apply.Live)
}

// A change that panics gives its turn back, and counts as not stored.
func TestPanicGivesTheTurnBack(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("nothing panicked")
			}
		}()
		_, _ = x.Engine.Commit(t.Context(), []apply.ID{apply.NTP}, func(*db.Tx) ([]apply.Row, error) { panic("a bug") })
	}()
	x.want(t, "b", apply.Live)
	if x.file(t) != "a\nb\n" || x.status().Revision != 2 {
		t.Errorf("%q, %+v", x.file(t), x.status())
	}
}

// A database lock is waited for once, and not by each queued writer in turn.
func TestQueueBehindALock(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	locked, free := make(chan error), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_ = x.DB.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(t.Context(), "LOCK TABLE apply_revisions")
			locked <- err
			<-free
			return errors.New("enough")
		})
	})
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	answers := make(chan error, 16)
	for i := range cap(answers) {
		go func() {
			_, err := x.Engine.Commit(db.Impatient(t.Context()), []apply.ID{apply.NTP}, func(tx *db.Tx) ([]apply.Row, error) {
				_, err := tx.Exec(t.Context(), "INSERT INTO toy_lines VALUES ($1)", fmt.Sprint(i))
				return nil, err
			})
			answers <- err
		}()
	}
	for range cap(answers) {
		if err := inTime(t, "a writer", func() error { return <-answers }); !fault.Is(err, fault.Unavailable) {
			t.Error(err)
		}
	}
	close(free)
	all.Wait()
	x.want(t, "b", apply.Live)
	if n := x.Rows(t, "toy_lines"); n != 2 {
		t.Errorf("%d rows", n)
	}
}

// If the outcome of a commit is unknown, the component reads what is stored.
func TestUnknownCommitIsLookedAt(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live) // this one may be applied by the initial pass
	x.want(t, "b", apply.Live)
	dbtest.Exec(t, x.DB, `CREATE TABLE late (n int);
		CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()`)
	// A row that was written directly proves that it has read.
	err := inTime(t, "the change", func() error {
		_, err := x.Engine.Commit(db.Impatient(t.Context()), []apply.ID{apply.NTP}, func(tx *db.Tx) ([]apply.Row, error) {
			dbtest.Exec(t, x.DB, "INSERT INTO toy_lines VALUES ('stored')")
			_, err := tx.Exec(t.Context(), "INSERT INTO late VALUES (1)")
			return nil, err
		})
		return err
	})
	if !fault.Is(err, fault.Unavailable) || !db.Unknown(err) {
		t.Fatal(err)
	}
	waittest.Until(t, "the component has looked", func() bool { return x.file(t) == "a\nb\nstored\n" })
}

// A preview neither blocks writers nor waits for them.
func TestPreviewTakesNoTurn(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	preview := func(f func()) error {
		_, err := x.Engine.Preview(t.Context(), []apply.ID{apply.NTP}, nil, func(tx *db.Tx) ([]apply.Row, error) {
			_, err := tx.Exec(t.Context(), "INSERT INTO toy_lines VALUES ('p')")
			f()
			return nil, err
		})
		return err
	}
	err := inTime(t, "the preview", func() error {
		return preview(func() { x.want(t, "b", apply.Live) })
	})
	if err != nil {
		t.Error(err)
	}
	_, err = x.Engine.Commit(t.Context(), []apply.ID{apply.NTP}, func(*db.Tx) ([]apply.Row, error) {
		return nil, inTime(t, "the preview", func() error { return preview(func() {}) })
	})
	if err != nil {
		t.Error(err)
	}
}

// A preview of a change that sets a secret does and shows the same whether or not the secret equals the stored one.
func TestPreviewIsNoOracle(t *testing.T) {
	t.Parallel()
	b := kittest.New(t)
	dbtest.Exec(t, b.DB, `CREATE TABLE toy_secrets AS SELECT 'right' AS word`)
	checks := 0
	apply.Register(b.Engine, apply.Component[string]{
		ID: apply.NTP, Unit: chrony.Unit,
		Load: func(ctx context.Context, q db.Querier) (word string, err error) {
			return word, q.QueryRow(ctx, "SELECT word FROM toy_secrets").Scan(&word)
		},
		Render: func(s string) ([]host.File, error) {
			return []host.File{{Place: chrony.DropIn, Content: []byte(s), Redact: host.Redacted}}, nil
		},
		Check:  func(context.Context, []host.File) error { checks++; return nil },
		Apply:  func(ctx context.Context, _ string, _ []host.File) error { return b.Machine.Restart(ctx, chrony.Unit) },
		Verify: func(context.Context, string, []host.File) error { return nil },
	})
	b.Start(t)
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatal(failed)
	}
	try := func(guess string, secrets []apply.ID) string {
		t.Helper()
		diffs, err := b.Engine.Preview(t.Context(), []apply.ID{apply.NTP}, secrets, func(tx *db.Tx) ([]apply.Row, error) {
			_, err := tx.Exec(t.Context(), "UPDATE toy_secrets SET word = $1", guess)
			return nil, err
		})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(diffs)
	}
	before := checks
	right := try("right", []apply.ID{apply.NTP})
	asked := checks - before
	wrong := try("wrong", []apply.ID{apply.NTP})
	if right != wrong || !strings.Contains(right, "What is not shown differs.") || asked != 1 || checks != before+2 {
		t.Errorf("right: %s (%d checks)\nwrong: %s", right, asked, wrong)
	}
	if other := try("right", nil); other != "[]" {
		t.Errorf("a change that sets no secret: %s", other)
	}
}
