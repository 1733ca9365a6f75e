package audit_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/schema"
)

// away returns a log whose database is not available yet.
func away(t *testing.T) (l *audit.Log, d *db.DB, c *clock.Fake, folder string) {
	t.Helper()
	d, err := db.Open(dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	folder = filepath.Join(t.TempDir(), "audit")
	c = clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return audit.New(d, c, "node", folder), d, c, folder
}

func kept(t *testing.T, folder string) int {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return len(files)
}

// While the database is unavailable, the entry of an action is on disk before the action begins, and in the log when the database
// is back.
func TestEntriesWaitForTheDatabase(t *testing.T) {
	l, d, c, folder := away(t)
	ctx := actor.With(t.Context(), actor.Actor{Name: "ann@example.net"})
	done := c.Now()
	err := l.Do(ctx, "system.ipv6", "ipv6", func() (any, error) {
		if kept(t, folder) != 1 {
			t.Error("it is done before its entry is on the disk")
		}
		if n, err := l.Deliver(ctx); n != 0 || err != nil {
			t.Errorf("what is under way is delivered: %d, %v", n, err)
		}
		return map[string]bool{"enabled": true}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Move(time.Minute)
	if err := l.Record(ctx, "dns.flush-cache", "unbound", nil); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	if err := l.Do(ctx, "system.maintenance", "maintenance", func() (any, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if n, err := l.Deliver(ctx); n != 0 || !db.Away(err) || kept(t, folder) != 2 {
		t.Fatalf("%d delivered, %v, %d kept", n, err, kept(t, folder))
	}
	c.Move(time.Hour)
	if err := d.Attach(ctx, schema.Migrations); err != nil {
		t.Fatal(err)
	}
	// Another program finds them after a restart.
	again := audit.New(d, c, "node", folder)
	if n, err := again.Deliver(ctx); n != 2 || err != nil || kept(t, folder) != 0 {
		t.Fatalf("%d delivered, %v, %d kept", n, err, kept(t, folder))
	}
	list, err := l.Search(ctx, audit.Filter{Limit: 10})
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	e := list[1]
	if e.Action != "system.ipv6" || e.Actor != "ann@example.net" || !e.CreatedAt.Equal(done) || string(e.Details) != `{"enabled": true}` || list[0].Action != "dns.flush-cache" {
		t.Errorf("%+v", list)
	}
}

// A process that dies after an entry was delivered, but before its file was removed, leaves no second entry.
func TestDeliveredTwiceIsOnce(t *testing.T) {
	l, d, _, folder := away(t)
	if err := l.Record(t.Context(), "x", "", nil); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, files[0].Name())
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := l.Deliver(t.Context()); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := l.Search(t.Context(), audit.Filter{Limit: 10}); err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
}

// An action whose entry cannot be kept does not happen.
func TestNothingIsDoneWithoutItsEntry(t *testing.T) {
	l, _, _, folder := away(t)
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // no folder can be created here
		t.Fatal(err)
	}
	err := l.Do(t.Context(), "system.ipv6", "ipv6", func() (any, error) {
		t.Error("done")
		return nil, nil
	})
	if err == nil {
		t.Error("no complaint")
	}
}

// If the database is available, the entry is delivered immediately.
func TestDoIsInTheLogAtOnce(t *testing.T) {
	l, _, _, ctx := newLog(t)
	if err := l.Do(ctx, "x", "y", func() (any, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	if list, err := l.Search(ctx, audit.Filter{Limit: 10}); err != nil || len(list) != 1 || list[0].Action != "x" {
		t.Fatal(list, err)
	}
	if n, err := l.Deliver(ctx); n != 0 || err != nil {
		t.Errorf("%d were kept, %v", n, err)
	}
}
