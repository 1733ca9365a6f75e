package alert

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
)

// A receiver that fails is tried three times, and the history records it.
func TestThreeAttempts(t *testing.T) {
	t.Parallel()
	if usual.gather != time.Second || usual.gather+usual.pauses[0] != 5*time.Second || usual.gather+usual.pauses[0]+usual.pauses[1] != 25*time.Second || usual.within > 15*time.Second {
		t.Errorf("%+v", usual)
	}
	h := newHouse(t)
	h.hurried()
	failures := 2
	recovers := newReceiver(t, nil)
	recovers.answer = func(w http.ResponseWriter, _ *http.Request) {
		if recovers.mu.Lock(); failures > 0 {
			failures--
			w.WriteHeader(503)
		}
		recovers.mu.Unlock()
	}
	never := newReceiver(t, status(503))
	h.webhook(t, recovers.URL)
	h.webhook(t, never.URL)
	h.deliver(t)
	h.raise(t, alarm.Alarm{Kind: diskFull, Subject: "Disk", Message: "91 %"})
	var e Event
	waittest.Until(t, "both have an end", func() bool {
		e = h.events(t, "")[0]
		return len(e.SentTo) == 2 && e.SentTo[0].Result != "waiting" && e.SentTo[1].Result != "waiting"
	})
	if x := e.SentTo[0]; x.Result != "ok" || x.Attempts != 3 || x.Error != "" {
		t.Errorf("%+v", x)
	}
	if x := e.SentTo[1]; x.Result != "error" || x.Attempts != 3 || x.Error != "It answered 503." {
		t.Errorf("%+v", x)
	}
	// Only a channel that got the start of an alarm gets its end.
	if err := h.Alarms.Clear(t.Context(), diskFull, ""); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the end is sent", func() bool {
		e = h.events(t, "")[0]
		return e.Resolved && len(e.SentTo) == 1 && e.SentTo[0].Result == "ok"
	})
	if got := recovers.messages(); len(got) != 4 || got[3]["severity"] != "info" || !strings.HasPrefix(fmt.Sprint(got[3]["text"]), "[RESOLVED] Disk") {
		t.Errorf("%v", got)
	}
	if n := len(never.messages()); n != 3 {
		t.Errorf("%d messages", n)
	}
}

// The pause starts at the end of an attempt, so a slow receiver is not asked again at once.
func TestAttemptsAreCountedFromTheEnd(t *testing.T) {
	t.Parallel()
	b := kittest.New(t)
	now := clock.NewFake(b.Clock.Now())
	b.Clock = now
	h := newHouseOn(t, b)
	h.webhook(t, newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		now.Move(7 * time.Second)
		w.WriteHeader(503)
	}).URL)
	h.raise(t, alarm.Alarm{Kind: diskFull, Subject: "Disk", Message: "91 %"})
	for attempt, pause := range usual.pauses {
		now.Move(time.Hour)
		due, _, err := h.room.turn(t.Context())
		if err != nil || len(due) != 1 {
			t.Fatal(due, err)
		}
		h.room.serve(t.Context(), due[0])
		var next time.Time
		if err := h.DB.QueryRow(t.Context(), `SELECT next_at FROM alert_deliveries WHERE attempts = $1`, attempt+1).Scan(&next); err != nil {
			t.Fatal(err)
		}
		if want := now.Now().Add(pause); !next.Equal(want) {
			t.Errorf("attempt %d is followed by another at %s, not at %s", attempt+1, next, want)
		}
	}
}

// After a restart the outbox is delivered, including what was being sent.
func TestNothingIsLostByARestart(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.hurried()
	r := newReceiver(t, nil)
	h.webhook(t, r.URL)
	stop := h.deliver(t)
	stop()
	h.raise(t, alarm.Alarm{Kind: diskFull, Subject: "one"})
	h.raise(t, alarm.Alarm{Kind: memoryFull, Subject: "two"})
	if _, err := h.room.fanOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	// As if a program had died while sending: its lease ends.
	if err := h.DB.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE alert_deliveries SET next_at = now() + interval '300 ms'`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	h.deliver(t)
	waittest.Until(t, "both arrive", func() bool { return len(r.messages()) == 2 })
}

// Alerts that were waiting in a backup are not sent after its restore, whether or not they were assigned to channels. New ones are.
func TestNothingOldIsToldAfterARestore(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.hurried()
	x := newReceiver(t, nil)
	h.webhook(t, x.URL)
	old := func(key string) {
		h.raise(t, alarm.Alarm{Kind: diskFull, Key: key, Subject: "old " + key, Message: "m"})
	}
	old("a")
	if n, err := h.room.fanOut(t.Context()); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	old("b")
	if err := h.DB.Write(t.Context(), func(tx *db.Tx) error { return h.room.Forget(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
	h.raise(t, alarm.Alarm{Kind: diskFull, Key: "c", Subject: "new", Message: "m"})
	h.deliver(t)
	waittest.Until(t, "a new event is sent", func() bool { return len(x.messages()) > 0 })
	waittest.Until(t, "nothing waits", func() (done bool) {
		if err := h.DB.QueryRow(t.Context(), `SELECT NOT EXISTS (SELECT FROM alarm_outbox) AND NOT EXISTS (SELECT FROM alert_deliveries WHERE state = 'waiting')`).Scan(&done); err != nil {
			t.Fatal(err)
		}
		return done
	})
	for _, m := range x.messages() {
		if m["subject"] != "new" {
			t.Errorf("sent: %v", m)
		}
	}
	if list := h.events(t, ""); len(list) != 3 {
		t.Errorf("the history has %+v", list)
	}
}

func TestChannelsAreToldOfWhatIsSevereEnough(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.hurried()
	r := newReceiver(t, nil)
	h.channel(t, map[string]any{"kind": "webhook", "target": r.URL, "allow_internal": true, "min_severity": "error"})
	h.deliver(t)
	h.raise(t, alarm.Alarm{Kind: diskFull, Severity: alarm.Warning, Subject: "Disk"})
	h.raise(t, alarm.Alarm{Kind: backendDown, Severity: alarm.Error, Subject: "Backend"})
	waittest.Until(t, "the error arrives", func() bool { return len(r.messages()) == 1 })
	if got := r.messages()[0]; got["kind"] != "backend.down" {
		t.Errorf("%v", got)
	}
}

// What waits for a channel that is switched off is never sent, even when it is on again. New events are.
func TestAChannelThatIsOffIsNotTold(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.hurried()
	h.room.timing.pauses = []time.Duration{time.Millisecond, time.Millisecond}
	var answer atomic.Int64
	answer.Store(http.StatusInternalServerError)
	x := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(answer.Load())) })
	c := h.webhook(t, x.URL)
	h.raise(t, alarm.Alarm{Kind: diskFull, Key: "a", Subject: "first"})
	if _, err := h.room.fanOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := h.Clock.Now()
	dbtest.Exec(t, h.DB, `UPDATE alert_deliveries SET next_at = $1`, now.Add(-time.Minute))
	list, err := h.room.claim(t.Context(), c.ID)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	h.Do(t, "admin", http.MethodPut, "/alerts/"+c.ID.String(), map[string]any{"active": false}).Want(t, http.StatusOK)
	// It was already claimed.
	if done, err := h.room.sendOne(t.Context(), &c, list[0]); !done || err != nil || len(x.messages()) > 0 {
		t.Errorf("%t, %v, %d messages", done, err, len(x.messages()))
	}
	sent := h.events(t, "")[0].SentTo
	if len(sent) != 1 || sent[0].Result != "skipped" || !strings.Contains(sent[0].Error, "switched off") || sent[0].EndedAt == nil {
		t.Errorf("%+v", sent)
	}
	// An attempt in progress does not bring it back.
	if err := h.room.record(t.Context(), &c, list, false, errors.New("refused")); err != nil {
		t.Fatal(err)
	}
	if sent := h.events(t, "")[0].SentTo; sent[0].Result != "skipped" {
		t.Errorf("%+v", sent)
	}
	// Nothing is ever due for a channel that is off.
	dbtest.Exec(t, h.DB, `UPDATE alert_deliveries SET state = 'waiting', ended_at = NULL, next_at = $1`, now.Add(-time.Minute))
	if due, _, err := h.room.turn(t.Context()); err != nil || len(due) > 0 {
		t.Errorf("%+v, %v", due, err)
	}
	dbtest.Exec(t, h.DB, `UPDATE alert_deliveries SET state = 'skipped', ended_at = $1`, now)
	answer.Store(http.StatusOK)
	h.Do(t, "admin", http.MethodPut, "/alerts/"+c.ID.String(), map[string]any{"active": true}).Want(t, http.StatusOK)
	h.raise(t, alarm.Alarm{Kind: diskFull, Key: "b", Subject: "second"})
	h.deliver(t)
	waittest.Until(t, "a new event is sent", func() bool { return len(x.messages()) > 0 })
	for _, m := range x.messages() {
		if m["subject"] != "second" {
			t.Errorf("sent: %v", m)
		}
	}
}

// A flood of alerts to three channels, one of which hangs and one answers 500. The history stays complete, and a digest is sent.
func TestFlood(t *testing.T) {
	h := newHouse(t)
	h.hurried()
	h.room.timing.within = 500 * time.Millisecond
	over := make(chan struct{})
	good, bad := newReceiver(t, nil), newReceiver(t, status(500))
	hangs := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	})
	defer close(over)
	for _, r := range []*receiver{good, bad, hangs} {
		h.webhook(t, r.URL)
	}
	h.deliver(t)
	alerts, at := 2_000, 8
	if longtest.On {
		alerts = 10_000
	}
	var all sync.WaitGroup
	for w := range at {
		all.Go(func() {
			for i := w; i < alerts; i += at {
				if err := h.Alarms.Raise(context.Background(), alarm.Alarm{Kind: backendDown, Key: fmt.Sprint(i), Subject: fmt.Sprintf("Backend %d", i), Message: "All its servers are down."}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	count := func(sql string) (n int) {
		t.Helper()
		if err := h.DB.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(`SELECT count(*) FROM alarm_events`); n != alerts {
		t.Fatalf("%d of %d events are in the history", n, alerts)
	}
	waittest.Until(t, "each event has its end at each channel", func() bool {
		return count(`SELECT count(*) FROM alert_deliveries WHERE state <> 'waiting'`) == 3*alerts
	})
	if n := count(`SELECT count(*) FROM alert_deliveries WHERE state = 'ok'`); n != alerts {
		t.Errorf("%d were sent", n)
	}
	if n := count(`SELECT count(*) FROM alert_deliveries WHERE state = 'error' AND attempts = 3`); n != 2*alerts {
		t.Errorf("%d were tried three times", n)
	}
	delivered, digests := 0, 0
	for _, m := range good.messages() {
		if m["kind"] != "alert.digest" {
			delivered++
			continue
		}
		digests++
		var n int
		if _, err := fmt.Sscanf(fmt.Sprint(m["subject"]), "%d alerts", &n); err != nil {
			t.Errorf("%v", m)
		}
		delivered += n
		if m["severity"] != "error" || len(fmt.Sprint(m["text"])) > 2000 || !strings.Contains(fmt.Sprint(m["message"]), "backend.down (error): Backend ") {
			t.Errorf("%v", m)
		}
	}
	if delivered != alerts || digests == 0 || len(good.messages()) > alerts/20 {
		t.Errorf("%d alerts were sent in %d messages, of which %d are digests", delivered, len(good.messages()), digests)
	}
}
