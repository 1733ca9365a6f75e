package db_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
)

// A moment stays the same while nobody writes, and differs after a change by anyone.
func TestMoment(t *testing.T) {
	d := dbtest.New(t)
	dbtest.Exec(t, d, "CREATE TABLE things (n int); INSERT INTO things VALUES (0)")
	now := func() db.Moment {
		t.Helper()
		m, err := d.Moment(t.Context())
		if err != nil || m == "" {
			t.Fatalf("%q, %v", m, err)
		}
		return m
	}
	write := map[string]func(){
		"this process": func() {
			if err := d.Write(t.Context(), func(tx *db.Tx) error { tx.Queue("UPDATE things SET n = n + 1"); return nil }); err != nil {
				t.Fatal(err)
			}
		},
		"another one": func() { dbtest.Exec(t, d, "UPDATE things SET n = n + 1") },
	}
	for who, write := range write {
		for range 20 {
			before := now()
			write()
			if now() == before {
				t.Fatalf("the change by %s is at the same moment", who)
			}
		}
	}
	// A transaction sees the moment of its snapshot, even if that has passed.
	err := d.Snapshot(t.Context(), func(tx *db.Tx) error {
		var first, second db.Moment
		if err := tx.QueryRow(t.Context(), "SELECT "+db.NowMoment).Scan(&first); err != nil {
			return err
		}
		write["another one"]()
		if err := tx.QueryRow(t.Context(), "SELECT "+db.NowMoment).Scan(&second); err != nil {
			return err
		}
		if first != second || now() == first {
			t.Errorf("from %s to %s", first, second)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// A change counts when it is committed.
	var before db.Moment
	err = d.Write(t.Context(), func(tx *db.Tx) error {
		if _, err := tx.Exec(t.Context(), "UPDATE things SET n = n + 1"); err != nil {
			return err
		}
		before = now()
		return nil
	})
	if err != nil || now() == before {
		t.Errorf("the commit is at the same moment: %v", err)
	}
}

// Callers that share a query get an answer that is no older than their call.
func TestMomentUnderLoad(t *testing.T) {
	d := dbtest.New(t)
	dbtest.Exec(t, d, "CREATE TABLE things (n int); INSERT INTO things VALUES (0)")
	var last atomic.Value // the moment before the newest change
	last.Store(db.Moment(""))
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
				past := last.Load().(db.Moment)
				m, err := d.Moment(t.Context())
				if err != nil || m == past {
					t.Errorf("it is still %s, %v", m, err)
					return
				}
			}
		})
	}
	for range 200 {
		before, err := d.Moment(t.Context())
		if err == nil {
			err = d.Write(t.Context(), func(tx *db.Tx) error { tx.Queue("UPDATE things SET n = n + 1"); return nil })
		}
		if err != nil {
			t.Error(err)
			break
		}
		last.Store(before)
	}
	close(stop)
	readers.Wait()
}
