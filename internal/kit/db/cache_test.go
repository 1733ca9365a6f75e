package db_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/waittest"
)

// shelf is a table of one row, and a cache of it.
type shelf struct {
	*db.DB
	cache *db.Cache[string, int]
	reads atomic.Int64
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	d := dbtest.New(t)
	dbtest.Exec(t, d, `CREATE TABLE shelf (n int NOT NULL); INSERT INTO shelf VALUES (0);
		CREATE TRIGGER forget AFTER UPDATE ON shelf FOR EACH ROW EXECUTE FUNCTION cache_forget('shelf')`)
	s := &shelf{DB: d, cache: db.NewCache[string, int](d, "shelf")}
	s.warm(t)
	return s
}

// stored reads the row from the database.
func (s *shelf) stored(t *testing.T) (n int) {
	t.Helper()
	s.reads.Add(1)
	if err := s.QueryRow(t.Context(), "SELECT n FROM shelf").Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

func (s *shelf) get(t *testing.T) int {
	t.Helper()
	n, err := s.cache.Get("n", func() (int, error) { return s.stored(t), nil })
	if err != nil {
		t.Error(err)
	}
	return n
}

// set changes the row in this process.
func (s *shelf) set(t *testing.T, n int) {
	t.Helper()
	if err := s.Write(t.Context(), func(tx *db.Tx) error { tx.Queue("UPDATE shelf SET n = $1", n); return nil }); err != nil {
		t.Error(err)
	}
}

// kept reports whether the row is cached.
func (s *shelf) kept(t *testing.T) bool {
	t.Helper()
	before := s.reads.Load()
	s.get(t)
	return s.reads.Load() == before
}

// warm waits until the row is cached, which requires that the watch listens.
func (s *shelf) warm(t *testing.T) {
	t.Helper()
	waittest.Until(t, "the row is kept", func() bool { return s.kept(t) })
}

// A change by this process takes effect before Write returns, and a rolled-back one never does.
func TestCacheForgetsOwnChangesAtOnce(t *testing.T) {
	s := newShelf(t)
	for n := 1; n <= 200; n++ {
		s.set(t, n)
		if got := s.get(t); got != n {
			t.Fatalf("%d is kept after %d was stored", got, n)
		}
	}
	refused := errors.New("refused")
	err := s.Write(t.Context(), func(tx *db.Tx) error {
		if _, err := tx.Exec(t.Context(), "UPDATE shelf SET n = -1"); err != nil {
			return err
		}
		if got := s.get(t); got != 200 {
			t.Errorf("%d is read before the commit", got)
		}
		return refused
	})
	if !errors.Is(err, refused) || s.get(t) != 200 {
		t.Errorf("%v, %d", err, s.get(t))
	}
	s.warm(t)
}

// Cached rows are not read: otherwise the tests here would prove nothing.
func TestCacheKeeps(t *testing.T) {
	s := newShelf(t)
	before := s.reads.Load()
	for range 1000 {
		s.get(t)
	}
	if reads := s.reads.Load() - before; reads != 0 {
		t.Errorf("it was read %d times", reads)
	}
	if _, err := s.cache.Get("another", func() (int, error) { return 0, errors.New("broken") }); err == nil {
		t.Error("an error is not told")
	}
	if n, err := s.cache.Get("another", func() (int, error) { return 7, nil }); err != nil || n != 7 {
		t.Errorf("an error is kept: %d, %v", n, err)
	}
}

// The connection that receives changes is kept across polls.
func TestCacheListensOnOneConnection(t *testing.T) {
	s := newShelf(t)
	listener := func() (pid int, since time.Time) {
		t.Helper()
		err := s.QueryRow(t.Context(), "SELECT pid, query_start FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT max(version_id)%' AND pid <> pg_backend_pid()").Scan(&pid, &since)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			t.Fatal(err)
		}
		return pid, since
	}
	first, asked := listener()
	for range 3 {
		waittest.Until(t, "it is asked again", func() bool {
			pid, at := listener()
			if first == 0 {
				first = pid
			}
			again := at.After(asked)
			asked = at
			return again
		})
	}
	if pid, _ := listener(); pid != first || !s.kept(t) {
		t.Errorf("from connection %d to %d", first, pid)
	}
}

// A change by another program takes effect when it is announced.
func TestCacheForgetsChangesOfOthers(t *testing.T) {
	s := newShelf(t)
	for n := 1; n <= 20; n++ {
		dbtest.Exec(t, s.DB, "UPDATE shelf SET n = $1", n)
		waittest.Until(t, "the change is seen", func() bool { return s.get(t) == n })
	}
}

// A row that was read before a change is not cached after it, however late the reader returns.
func TestCacheOfALateReader(t *testing.T) {
	s := newShelf(t)
	n, err := s.cache.Get("late", func() (int, error) {
		old := s.stored(t)
		s.set(t, old+1)
		return old, nil
	})
	if err != nil || n != 0 {
		t.Fatalf("%d, %v", n, err)
	}
	if n, _ = s.cache.Get("late", func() (int, error) { return s.stored(t), nil }); n != 1 {
		t.Errorf("%d is kept", n)
	}
	// The same with another program's change, which is announced while the reader is away.
	s.warm(t) // a row that is not cached is read, which proves nothing about announcements
	n, _ = s.cache.Get("later", func() (int, error) {
		old := s.stored(t)
		dbtest.Exec(t, s.DB, "UPDATE shelf SET n = 2")
		waittest.Until(t, "the change is seen", func() bool { return s.get(t) == 2 })
		return old, nil
	})
	if n != 1 {
		t.Fatalf("%d", n)
	}
	if n, _ = s.cache.Get("later", func() (int, error) { return s.stored(t), nil }); n != 2 {
		t.Errorf("%d is kept", n)
	}
}

// A change made while nobody listens is not missed.
func TestCacheWithoutItsListener(t *testing.T) {
	s := newShelf(t)
	for n := 1; n <= 5; n++ {
		s.warm(t)
		// One transaction, which nobody can be notified of: the listener is gone before the commit.
		dbtest.Exec(t, s.DB, fmt.Sprintf(`DO $$
			DECLARE
				listener int := (SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND (query LIKE 'SELECT max(version_id)%%' OR query = 'LISTEN gateway_changed') AND pid <> pg_backend_pid());
			BEGIN
				IF listener IS NULL THEN RAISE EXCEPTION 'nobody listens'; END IF;
				UPDATE shelf SET n = %d;
				PERFORM pg_terminate_backend(listener, 60000);
			END $$`, n))
		waittest.Until(t, "the change is seen", func() bool { return s.get(t) == n })
	}
	s.warm(t)
}

// While the database is unavailable, the cache answers nothing.
func TestCacheWithoutTheDatabase(t *testing.T) {
	s, from := newShelf(t), dbtest.New(t) // nobody can shut the database that they are connected to
	var name string
	if err := s.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	dbtest.Exec(t, from, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false")
	dbtest.Exec(t, from, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
	away := errors.New("away")
	kept := func() bool {
		_, err := s.cache.Get("n", func() (int, error) { return 0, away })
		return !errors.Is(err, away)
	}
	waittest.Until(t, "the database is missed", func() bool { return !kept() && !s.Attached() })
	for range 100 {
		if kept() {
			t.Fatal("it is answered all the same")
		}
	}
	dbtest.Exec(t, from, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS true")
	waittest.Until(t, "the database is back", s.Attached)
	s.warm(t)
}

// However many read while it changes, nobody who begins after a change sees the state before it.
func TestCacheUnderLoad(t *testing.T) {
	s := newShelf(t)
	var done atomic.Int64 // the newest value whose Write has returned
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 16 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				least := done.Load()
				if got := s.get(t); int64(got) < least {
					t.Errorf("%d is answered after %d was stored", got, least)
					return
				}
			}
		})
	}
	for n := 1; n <= 300; n++ {
		s.set(t, n)
		done.Store(int64(n))
	}
	close(stop)
	readers.Wait()
}
