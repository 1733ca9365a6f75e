package audit_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/bus"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/waittest"
)

func newLog(t *testing.T) (*audit.Log, *db.DB, *clock.Fake, context.Context) {
	t.Helper()
	d, c := dbtest.New(t), clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	ctx := actor.WithRequest(actor.With(t.Context(), actor.Actor{Name: "Ann@example.net"}), "request-1")
	return audit.New(d, c, "0123456789abcdef0123456789abcdef", t.TempDir()), d, c, ctx
}

func record(t *testing.T, l *audit.Log, ctx context.Context, action, subject string) {
	t.Helper()
	if err := l.Record(ctx, action, subject, map[string]int{"n": 1}); err != nil {
		t.Fatal(err)
	}
}

func TestEntryCarriesEverything(t *testing.T) {
	l, _, c, ctx := newLog(t)
	record(t, l, ctx, "ntp.pool.create", "a.example")
	list, err := l.Search(ctx, audit.Filter{Limit: 10})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	e := list[0]
	if e.Actor != "Ann@example.net" || e.Action != "ntp.pool.create" || e.Subject != "a.example" || e.NodeID != "0123456789abcdef0123456789abcdef" || !e.CreatedAt.Equal(c.Now()) || string(e.Details) != `{"n": 1}` || e.RequestID != "request-1" {
		t.Fatalf("%+v", e)
	}
}

// Every entry about a request has its address in the details, beside whatever else they contain.
func TestEntryTellsTheAddress(t *testing.T) {
	l, _, _, ctx := newLog(t)
	ctx = actor.WithAddress(ctx, netip.MustParseAddr("192.0.2.7"))
	for _, c := range []struct {
		details any
		want    string
	}{
		{nil, `{"remote_ip": "192.0.2.7"}`},
		{map[string]int{"n": 1}, `{"n": 1, "remote_ip": "192.0.2.7"}`},
		{map[string]string{"remote_ip": "198.51.100.1"}, `{"remote_ip": "198.51.100.1"}`},
		{[]int{1}, `[1]`},
	} {
		if err := l.Record(ctx, "x", "y", c.details); err != nil {
			t.Fatal(err)
		}
		if list, err := l.Search(ctx, audit.Filter{Limit: 1}); err != nil || len(list) != 1 || string(list[0].Details) != c.want {
			t.Errorf("%v: %+v %v", c.details, list, err)
		}
	}
	if err := l.Do(ctx, "x", "y", func() (any, error) { return map[string]bool{"done": true}, nil }); err != nil {
		t.Fatal(err)
	}
	if list, err := l.Search(ctx, audit.Filter{Limit: 1}); err != nil || string(list[0].Details) != `{"done": true, "remote_ip": "192.0.2.7"}` {
		t.Errorf("%+v %v", list, err)
	}
}

func TestEntryWithoutDetails(t *testing.T) {
	l, _, _, ctx := newLog(t)
	if err := l.Record(ctx, "x", "y", nil); err != nil {
		t.Fatal(err)
	}
	if list, err := l.Search(ctx, audit.Filter{Limit: 10}); err != nil || len(list) != 1 || len(list[0].Details) != 0 {
		t.Fatalf("%+v %v", list, err)
	}
}

func TestLG08SearchIgnoresCase(t *testing.T) {
	l, _, c, ctx := newLog(t)
	record(t, l, ctx, "ntp.pool.create", "A.Example")
	c.Move(time.Hour)
	record(t, l, ctx, "dns.zone.delete", "b%_x")
	for _, x := range []struct {
		filter audit.Filter
		want   int
	}{
		{audit.Filter{Actor: "ANN@"}, 2},
		{audit.Filter{Subject: "a.example"}, 1},
		{audit.Filter{Action: "ZONE", Subject: "B%_"}, 1},
		{audit.Filter{Subject: "%"}, 1},
		{audit.Filter{Action: "zone", Subject: "a.example"}, 0},
		{audit.Filter{From: c.Now().Add(-time.Minute)}, 1},
		{audit.Filter{To: c.Now().Add(-time.Minute)}, 1},
	} {
		x.filter.Limit = 10
		list, err := l.Search(ctx, x.filter)
		if err != nil || len(list) != x.want {
			t.Errorf("%+v: %d entries, %v", x.filter, len(list), err)
		}
	}
}

func TestPagesByID(t *testing.T) {
	l, _, _, ctx := newLog(t)
	for i := range 25 {
		record(t, l, ctx, "x", fmt.Sprint(i))
	}
	var before uuid.UUID
	seen := 24
	for {
		page, err := l.Search(ctx, audit.Filter{Limit: 10, Before: before})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if e.Subject != fmt.Sprint(seen) {
				t.Fatalf("%s instead of %d", e.Subject, seen)
			}
			seen--
		}
		before = page[len(page)-1].ID
	}
	if seen != -1 {
		t.Fatalf("ended at %d", seen)
	}
}

func TestLG08NoPhantomEntry(t *testing.T) {
	l, d, _, ctx := newLog(t)
	following, stop := context.WithCancel(ctx)
	defer stop()
	got := make(chan string, 10)
	started := make(chan struct{}, 1)
	record(t, l, ctx, "first", "")
	go func() {
		_ = l.Follow(following, 50, func(e audit.Entry) error { got <- e.Action; started <- struct{}{}; return nil })
	}()
	<-started
	err := d.Write(ctx, func(tx *db.Tx) error {
		if err := l.Write(ctx, tx, "phantom", "", nil); err != nil {
			return err
		}
		return errors.New("rolled back")
	})
	if err == nil {
		t.Fatal("no rollback")
	}
	record(t, l, ctx, "second", "")
	if a, b := <-got, <-got; a != "first" || b != "second" {
		t.Fatal(a, b)
	}
}

// Readers that start at any moment see every entry once: none is lost or repeated between snapshot and stream.
func TestFollowHasNoGapAndNoDuplicate(t *testing.T) {
	l, _, _, ctx := newLog(t)
	const entries, readers = 120, 12
	results := make(chan error, readers)
	var seen [readers]atomic.Int64 // what each reader has received, including what existed when it began
	follow := func(r, begin int) {
		known := map[string]bool{}
		err := l.Follow(ctx, 1000, func(e audit.Entry) error {
			if known[e.Subject] {
				return fmt.Errorf("%s twice", e.Subject)
			}
			known[e.Subject] = true
			seen[r].Store(int64(max(begin, len(known))))
			if len(known) == entries {
				return errDone
			}
			return nil
		})
		seen[r].Store(entries) // do not wait for a reader that has ended
		if errors.Is(err, errDone) {
			err = nil
		}
		results <- err
	}
	begun := 0
	for i := range entries {
		if i%(entries/readers) == 0 {
			seen[begun].Store(int64(i))
			go follow(begun, i)
			begun++
		}
		// No reader may fall behind, even before it follows: this test is not about readers that are too slow.
		for r := range begun {
			waittest.Until(t, "a reader", func() bool { return int64(i)-seen[r].Load() <= bus.Buffer/2 })
		}
		record(t, l, ctx, "x", fmt.Sprint(i))
	}
	for range readers {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

var errDone = errors.New("done")

func TestPruneIsAudited(t *testing.T) {
	l, _, c, ctx := newLog(t)
	record(t, l, ctx, "old", "")
	c.Move(48 * time.Hour)
	record(t, l, ctx, "new", "")
	if n, err := l.Prune(ctx, c.Now().Add(-24*time.Hour)); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	list, err := l.Search(ctx, audit.Filter{Limit: 10})
	if err != nil || len(list) != 2 || list[0].Action != "audit.prune" || list[1].Action != "new" {
		t.Fatalf("%+v %v", list, err)
	}
	if n, err := l.Prune(ctx, c.Now().Add(-24*time.Hour)); err != nil || n != 0 {
		t.Fatal(n, err)
	}
}
