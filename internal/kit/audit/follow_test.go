package audit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
)

// follow starts a follower, and returns what it receives and how it ends.
func follow(ctx context.Context, l *audit.Log) (got chan string, ended chan error) {
	got, ended = make(chan string, 100), make(chan error, 1)
	go func() {
		ended <- l.Follow(ctx, 50, func(e audit.Entry) error { got <- e.Action; return nil })
	}()
	return got, ended
}

func next(t *testing.T, got chan string, want string) {
	t.Helper()
	select {
	case action := <-got:
		if action != want {
			t.Fatalf("%s instead of %s", action, want)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("no %s", want)
	}
}

// The stream has what other programs and other nodes write, once and in commit order.
func TestFollowHearsEveryWriter(t *testing.T) {
	l, d, c, ctx := newLog(t)
	record(t, l, ctx, "first", "")
	following, stop := context.WithCancel(ctx)
	got, ended := follow(following, l)
	next(t, got, "first")
	other := audit.New(d, c, "another", t.TempDir())
	record(t, other, ctx, "program", "")
	next(t, got, "program")
	dbtest.Exec(t, d, `BEGIN; SET LOCAL session_replication_role = replica;
		INSERT INTO audit_entries (id, created_at, actor, action, subject, node_id) VALUES ('`+uuid.NewString()+`', '2020-01-01', 'x', 'replicated', 'x', 'x'); COMMIT`)
	next(t, got, "replicated")
	// What is written earlier and committed later comes later.
	err := d.Write(ctx, func(tx *db.Tx) error {
		if err := l.Write(ctx, tx, "slow", "", nil); err != nil {
			return err
		}
		if err := tx.Flush(ctx); err != nil {
			return err
		}
		record(t, other, ctx, "quick", "")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	next(t, got, "quick")
	next(t, got, "slow")
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) || len(got) != 0 {
		t.Errorf("%v, %d more", err, len(got))
	}
}

// A stream ends with the database, so that its reader starts over and misses nothing.
func TestFollowEndsWithTheDatabase(t *testing.T) {
	l, d, _, ctx := newLog(t)
	record(t, l, ctx, "first", "")
	got, ended := follow(ctx, l)
	next(t, got, "first")
	dbtest.Exec(t, d, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
	if err := <-ended; !db.Away(err) {
		t.Fatal(err)
	}
	record(t, l, ctx, "second", "")
	got, _ = follow(ctx, l)
	next(t, got, "first")
	next(t, got, "second")
}
