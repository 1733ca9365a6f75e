package alert

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/kittest"
)

type house struct {
	*kittest.Bench
	room *Room
}

// Sample kinds, as rooms declare them.
var (
	backendDown = &alarm.Kind{Name: "backend.down", Severity: alarm.Error, Meaning: "No server of a backend answers.", Mutable: true}
	diskFull    = &alarm.Kind{Name: "system.disk", Severity: alarm.Warning, Meaning: "The disk is nearly full.", Mutable: true}
	memoryFull  = &alarm.Kind{Name: "system.memory", Severity: alarm.Warning, Meaning: "The memory is nearly full.", Mutable: true}
)

func newHouse(t testing.TB) *house {
	t.Helper()
	return newHouseOn(t, kittest.New(t))
}

func newHouseOn(t testing.TB, b *kittest.Bench) *house {
	t.Helper()
	h := &house{Bench: b, room: New(b.Kit, Deps{FQDN: func() string { return "gateway.example.net" }, Kinds: append(Alarms, backendDown, diskFull, memoryFull)})}
	h.room.Mount()
	b.Resources.MountChangeSets()
	b.Start(t)
	return h
}

// audited returns the whole audit log as text.
func (h *house) audited(t testing.TB) (text string) {
	t.Helper()
	if err := h.DB.QueryRow(t.Context(), `SELECT coalesce(string_agg(subject || ' ' || details::text, E'\n'), '') FROM audit_entries`).Scan(&text); err != nil || text == "" {
		t.Fatal("no audit entries", err)
	}
	return text
}

// hurried shortens every interval except the time that a receiver may take.
func (h *house) hurried() {
	h.room.timing = timing{within: 2 * time.Second, gather: 10 * time.Millisecond, pauses: []time.Duration{20 * time.Millisecond, 40 * time.Millisecond}, digestEvery: 300 * time.Millisecond}
}

// deliver runs the delivery until the test ends or stop is called.
func (h *house) deliver(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { h.room.Deliver(ctx); close(done) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func (h *house) channel(t testing.TB, body map[string]any) Channel {
	t.Helper()
	var c Channel
	h.Do(t, "admin", http.MethodPost, "/alerts", body).Want(t, http.StatusCreated).Into(t, &c)
	return c
}

func (h *house) webhook(t testing.TB, url string) Channel {
	t.Helper()
	return h.channel(t, map[string]any{"kind": "webhook", "target": url, "allow_internal": true})
}

func (h *house) test(t testing.TB) Tested {
	t.Helper()
	var out Tested
	h.Do(t, "admin", http.MethodPost, "/alerts/test", nil).Want(t, http.StatusOK).Into(t, &out)
	return out
}

func (h *house) events(t testing.TB, query string) (list []Event) {
	t.Helper()
	h.Get(t, "/alerts/events"+query).Want(t, http.StatusOK).Into(t, &list)
	return list
}

func (h *house) raise(t testing.TB, a alarm.Alarm) {
	t.Helper()
	if err := h.Alarms.Raise(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

// receiver is a real HTTP receiver. It answers as the test wants, or with 200.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []map[string]any
	header []http.Header
	answer func(w http.ResponseWriter, r *http.Request)
}

func newReceiver(t testing.TB, answer func(w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	x := &receiver{answer: answer}
	x.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("%s: %v", r.Method, err)
		}
		x.mu.Lock()
		x.got, x.header = append(x.got, body), append(x.header, r.Header)
		x.mu.Unlock()
		if x.answer != nil {
			x.answer(w, r)
		}
	}))
	t.Cleanup(x.Close)
	return x
}

func (x *receiver) messages() []map[string]any {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]map[string]any{}, x.got...)
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}
