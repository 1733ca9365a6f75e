package alarm_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
)

type bench struct {
	*alarm.Port
	db    *db.DB
	clock *clock.Fake
}

// Sample kinds.
var (
	backendDown   = &alarm.Kind{Name: "backend.down", Severity: alarm.Error}
	certExpiring  = &alarm.Kind{Name: "cert.expiring", Severity: alarm.Warning}
	conntrackFull = &alarm.Kind{Name: "system.conntrack", Severity: alarm.Warning}
	degraded      = &alarm.Kind{Name: "component.degraded", Severity: alarm.Error}
	diskFull      = &alarm.Kind{Name: "system.disk", Severity: alarm.Warning}
	memoryFull    = &alarm.Kind{Name: "system.memory", Severity: alarm.Warning}
	tunnelDown    = &alarm.Kind{Name: "wg.tunnel.down", Severity: alarm.Error}
)

func newBench(t *testing.T) *bench {
	t.Helper()
	d, c := dbtest.New(t), clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return &bench{alarm.New(d, c), d, c}
}

// outbox takes the events since the last call.
func (b *bench) outbox(t *testing.T) (list []alarm.Event) {
	t.Helper()
	if err := b.db.Write(t.Context(), func(tx *db.Tx) (err error) {
		list, err = b.Take(t.Context(), tx, 1000)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

func (b *bench) wantEvents(t *testing.T, n int) []alarm.Event {
	t.Helper()
	list := b.outbox(t)
	if len(list) != n {
		t.Fatalf("%d events instead of %d: %+v", len(list), n, list)
	}
	return list
}

func (b *bench) raise(t *testing.T, a alarm.Alarm) {
	t.Helper()
	if err := b.Raise(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) clear(t *testing.T, kind *alarm.Kind, key string) {
	t.Helper()
	if err := b.Clear(t.Context(), kind, key); err != nil {
		t.Fatal(err)
	}
}

func TestOneNotificationIn12HoursAcrossProcesses(t *testing.T) {
	b := newBench(t)
	a := alarm.Alarm{Kind: backendDown, Key: "1", Subject: "web", Message: "all 2 servers are down"}
	b.raise(t, a)
	if e := b.wantEvents(t, 1)[0]; e.Kind != a.Kind.Name || e.Key != "1" || e.Severity != alarm.Error || e.Subject != "web" || e.Message != a.Message || !e.CreatedAt.Equal(b.clock.Now()) || e.Resolves != nil {
		t.Fatalf("%+v", e)
	}
	b.clock.Move(12*time.Hour - time.Second)
	b.raise(t, a)
	other := &bench{alarm.New(b.db, b.clock), b.db, b.clock} // as after a restart
	other.raise(t, a)
	b.wantEvents(t, 0)
	b.raise(t, alarm.Alarm{Kind: backendDown, Key: "2", Subject: "mail"})
	b.wantEvents(t, 1)
	b.clock.Move(time.Second)
	other.raise(t, a)
	b.wantEvents(t, 1)
}

func TestWorseIsNotTheSame(t *testing.T) {
	b := newBench(t)
	b.raise(t, alarm.Alarm{Kind: certExpiring, Key: "a.example", Severity: alarm.Warning})
	b.raise(t, alarm.Alarm{Kind: certExpiring, Key: "a.example", Severity: alarm.Error})
	if list := b.wantEvents(t, 2); list[1].Severity != alarm.Error {
		t.Fatalf("%+v", list)
	}
	b.raise(t, alarm.Alarm{Kind: certExpiring, Key: "a.example", Severity: alarm.Warning})
	b.raise(t, alarm.Alarm{Kind: certExpiring, Key: "a.example", Severity: alarm.Error})
	b.wantEvents(t, 0)
}

func TestTheEndIsNotifiedOnce(t *testing.T) {
	b := newBench(t)
	b.clear(t, memoryFull, "")
	b.wantEvents(t, 0)
	b.raise(t, alarm.Alarm{Kind: memoryFull, Subject: "memory", Message: "91 % are used"})
	first := b.wantEvents(t, 1)[0]
	if open, err := b.Open(t.Context()); err != nil || len(open) != 1 || open[0].Subject != "memory" {
		t.Fatal(open, err)
	}
	b.clock.Move(7 * time.Minute)
	b.clear(t, memoryFull, "")
	b.clear(t, memoryFull, "")
	e := b.wantEvents(t, 1)[0]
	if e.Resolves == nil || *e.Resolves != first.ID || e.Severity != alarm.Info || e.Subject != "memory" || e.Message != "This is resolved. It lasted 7 minutes." {
		t.Fatalf("%+v", e)
	}
	if open, err := b.Open(t.Context()); err != nil || len(open) != 0 {
		t.Fatal(open, err)
	}
}

// A condition that comes and goes causes one notification in 12 hours, and so does its end; the history has all of it.
func TestFlappingIsNotifiedOnce(t *testing.T) {
	b := newBench(t)
	flap := alarm.Alarm{Kind: tunnelDown, Key: "wg0", Severity: alarm.Warning}
	for range 10 {
		b.raise(t, flap)
		b.clock.Move(5 * time.Minute)
		b.clear(t, tunnelDown, "wg0")
		b.clock.Move(5 * time.Minute)
	}
	if list := b.wantEvents(t, 2); list[0].Resolves != nil || list[1].Resolves == nil || *list[1].Resolves != list[0].ID {
		t.Fatalf("%+v", list)
	}
	var begun, over int
	if err := b.db.QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE resolves IS NULL), count(resolves) FROM alarm_events").Scan(&begun, &over); err != nil || begun != 10 || over != 10 {
		t.Fatalf("the history has %d beginnings and %d ends, %v", begun, over, err)
	}
	b.raise(t, flap)
	b.wantEvents(t, 0)
	if open, err := b.Open(t.Context()); err != nil || len(open) != 1 {
		t.Fatal("it is open all the same", open, err)
	}
	// A worse severity causes one more notification, and so does its end.
	worse := flap
	worse.Severity = alarm.Error
	b.raise(t, worse)
	b.wantEvents(t, 1)
	b.clear(t, tunnelDown, "wg0")
	b.wantEvents(t, 1)
	b.clock.Move(time.Second)
	b.raise(t, worse)
	b.clear(t, tunnelDown, "wg0")
	b.raise(t, flap)
	b.wantEvents(t, 0)
	if open, err := b.Open(t.Context()); err != nil || len(open) != 1 || open[0].Severity != alarm.Warning {
		t.Fatal("it is as bad as it is now", open, err)
	}
	b.raise(t, worse)
	b.wantEvents(t, 0)
	b.clock.Move(12 * time.Hour)
	b.raise(t, flap)
	if list := b.wantEvents(t, 1); !strings.Contains(list[0].Message, "come and gone") {
		t.Errorf("%+v", list)
	}
}

func TestHowLongItLasted(t *testing.T) {
	b := newBench(t)
	for key, x := range map[string]struct {
		d    time.Duration
		want string
	}{
		"a": {0, "less than a second"}, "b": {time.Second, "1 second"}, "c": {2 * time.Second, "2 seconds"}, "d": {119 * time.Second, "119 seconds"}, "e": {2 * time.Minute, "2 minutes"},
		"f": {119 * time.Minute, "119 minutes"}, "g": {2 * time.Hour, "2 hours"}, "h": {47 * time.Hour, "47 hours"}, "i": {48 * time.Hour, "2 days"},
	} {
		b.raise(t, alarm.Alarm{Kind: backendDown, Key: key})
		b.clock.Move(x.d)
		b.clear(t, backendDown, key)
		if list := b.wantEvents(t, 2); list[1].Message != "This is resolved. It lasted "+x.want+"." {
			t.Errorf("%s: %s", x.d, list[1].Message)
		}
	}
}

func TestSettleRaisesAndClears(t *testing.T) {
	b := newBench(t)
	settle := func(keys ...string) {
		t.Helper()
		var now []alarm.Alarm
		for _, key := range keys {
			now = append(now, alarm.Alarm{Kind: backendDown, Key: key, Subject: key})
		}
		if err := b.Settle(t.Context(), backendDown, now); err != nil {
			t.Fatal(err)
		}
	}
	b.raise(t, alarm.Alarm{Kind: memoryFull})
	b.wantEvents(t, 1)
	settle("a", "b")
	b.wantEvents(t, 2)
	settle("b", "c")
	if list := b.wantEvents(t, 2); list[0].Key != "c" || list[1].Key != "a" || list[1].Resolves == nil {
		t.Fatalf("%+v", list)
	}
	settle()
	b.wantEvents(t, 2)
	if open, err := b.Open(t.Context()); err != nil || len(open) != 1 || open[0].Kind != memoryFull.Name {
		t.Fatal(open, err)
	}
}

func TestConcurrentReportsNotifyOnce(t *testing.T) {
	b := newBench(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := b.Raise(context.WithoutCancel(t.Context()), alarm.Alarm{Kind: diskFull, Subject: "disk"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	b.wantEvents(t, 1)
}

func TestTextsAreMadeFitForADatabaseAndAMessage(t *testing.T) {
	b := newBench(t)
	b.raise(t, alarm.Alarm{Kind: degraded, Key: "a\x00b\xff", Subject: "a\r\nBcc: x\x00\xff" + strings.Repeat("é", 300), Message: "one\ntwo\x1b[31m" + strings.Repeat("x", 5000)})
	e := b.wantEvents(t, 1)[0]
	if strings.ContainsAny(e.Subject, "\r\n\x00") || len([]rune(e.Subject)) != 200 || !strings.HasPrefix(e.Message, "one\ntwo [31m") || len([]rune(e.Message)) != 4000 {
		t.Fatalf("%q %q", e.Subject, e.Message[:40])
	}
}

func TestOnlyWhatHasAKindIsRaised(t *testing.T) {
	b := newBench(t)
	for _, a := range []alarm.Alarm{{Subject: "no kind"}, {Kind: &alarm.Kind{}}, {Kind: diskFull, Severity: "bad"}} {
		if err := b.Raise(t.Context(), a); err == nil {
			t.Errorf("%+v is taken", a)
		}
	}
	if err := b.Settle(t.Context(), diskFull, []alarm.Alarm{{Kind: memoryFull}}); err == nil {
		t.Error("another kind is taken")
	}
}

func TestPrune(t *testing.T) {
	b := newBench(t)
	b.raise(t, alarm.Alarm{Kind: diskFull})
	b.raise(t, alarm.Alarm{Kind: memoryFull})
	b.clear(t, diskFull, "")
	b.clock.Move(24 * time.Hour)
	b.raise(t, alarm.Alarm{Kind: conntrackFull})
	if n, err := b.Prune(t.Context(), b.clock.Now().Add(-time.Hour)); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	b.wantEvents(t, 1)
	if open, err := b.Open(t.Context()); err != nil || len(open) != 2 {
		t.Fatal("what is open is kept", open, err)
	}
}
