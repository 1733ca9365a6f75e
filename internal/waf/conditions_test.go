package waf

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/watch"
	"edge.internal/gateway/internal/kit/watch/watchtest"
)

// domains adds domains with inspection in each mode, and one without.
func domains(w *watchtest.World, blocking, detecting int) {
	rows := []map[string]any{{"enabled": false, "mode": "blocking"}}
	for range blocking {
		rows = append(rows, map[string]any{"enabled": true, "mode": "blocking"})
	}
	for range detecting {
		rows = append(rows, map[string]any{"enabled": true, "mode": "detection"})
	}
	w.Answers["/waf/configs"] = rows
}

// WF-05: a missing agent is a warning where requests pass without it, and critical where they are refused.
func TestInspection(t *testing.T) {
	t.Parallel()
	w := watchtest.New(t, Check)
	down := Agent{State: "down", Reason: "The agent does not answer."}
	w.Answers["/waf/status"], w.Answers["/waf/alerts"] = down, []Alert{}
	domains(w, 0, 0)
	w.Want(t)
	w.Clock.Move(time.Minute)
	w.Want(t) // no domain needs it
	domains(w, 0, 2)
	w.Want(t, "waf.agent.down warning")
	domains(w, 1, 2)
	w.Want(t, "waf.agent.down critical")
	w.Answers["/waf/status"] = Agent{State: "up"}
	w.Want(t)
	w.Answers["/waf/status"] = down
	w.Want(t) // it may be restarting
}

// Requests that are not inspected although the agent is up raise an alarm per domain, unless that is over at once.
func TestUninspected(t *testing.T) {
	t.Parallel()
	w := watchtest.New(t, Check)
	domains(w, 1, 1)
	ids := map[string]uuid.UUID{}
	for _, name := range []string{"shop", "blog", "wiki"} {
		ids[name] = w.ID(name)
	}
	record := func(name, requests, refused, reason string, ago time.Duration) Alert {
		id := ids[name]
		return Alert{DomainID: &id, Domain: name, CreatedAt: w.Clock.Now().Add(-ago), Data: []Datum{{Variable: "requests", Value: requests}, {Variable: "refused", Value: refused}, {Variable: "reason", Value: reason}}}
	}
	w.Answers["/waf/status"] = Agent{State: "up"}
	w.Answers["/waf/alerts"] = []Alert{ // the newest first
		record("shop", "2", "1", "the agent had no time for it", 0), record("wiki", "5", "5", "slow", 0), record("blog", "5", "0", "slow", 0),
		record("wiki", "5", "0", "slow", restarts-time.Second), record("shop", "3", "2", "the agent is not running", restarts), record("blog", "1", "0", "slow", time.Minute),
	}
	shop := w.Want(t, "waf.uninspected critical shop", "waf.uninspected warning blog")[0]
	if !strings.Contains(shop.Message, "3 requests were refused") || !strings.Contains(shop.Message, "no time") {
		t.Errorf("%+v", shop)
	}
	// While the agent is down, these alarms are neither raised nor cleared.
	w.Answers["/waf/status"], w.Answers["/waf/alerts"] = Agent{State: "starting"}, []Alert{}
	w.Want(t, "waf.uninspected critical shop", "waf.uninspected warning blog")
	w.Answers["/waf/status"] = Agent{State: "up"}
	w.Want(t)
}

// The agent is up when it says so, and not while it is starting or does not answer. Uninspected requests are counted per domain.
func TestInspectionIsAskedFor(t *testing.T) {
	_, b, shop, blog := bench(t)
	b.FakeDaemon(t, control.Socket(kit.Paths{}), func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer admin")
		b.Handler().ServeHTTP(w, r)
	})
	scene := &watch.Scene{Kit: b.Kit, Now: b.Clock.Now().UTC().Truncate(time.Second)}
	state := func(when string, up bool) {
		t.Helper()
		if x, err := watch.Get[Agent](t.Context(), scene, "/waf/status"); err != nil || (x.State == "up") != up || (x.Reason == "") != up {
			t.Errorf("%s: %+v, %v", when, x, err)
		}
	}
	sums := func() []gapSum {
		t.Helper()
		list, err := missed(t.Context(), scene)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	state("without an agent", false)
	if list := sums(); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	var started, stalled atomic.Bool
	b.FakeDaemon(t, host.WAFSocket, func(w http.ResponseWriter, r *http.Request) {
		if stalled.Load() {
			<-r.Context().Done()
			return
		}
		if !started.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte("{}"))
	})
	state("it is starting", false)
	started.Store(true)
	stalled.Store(true)
	state("it does not answer", false)
	stalled.Store(false)
	state("it answers", true)

	for i, r := range []struct {
		domain            uuid.UUID
		ago               time.Duration
		requests, refused int
		reason            string
	}{
		{shop, 2 * time.Minute, 100, 100, "too old"}, {shop, 40 * time.Second, 3, 3, "the agent is not running"}, {blog, 30 * time.Second, 5, 0, "slow"}, {shop, 10 * time.Second, 4, 2, "the agent had no time for it"},
	} {
		dbtest.Exec(t, b.DB, `INSERT INTO waf_alerts (id, created_at, request_id, domain_id, domain, rule_id, severity, action, message, method, uri, client_ip, data)
			VALUES ($1, $2, '', $3, 'a.example.net', 0, 'critical', 'unavailable', '', 'GET', '/', '192.0.2.1', $4)`,
			fmt.Sprintf("00000000-0000-7000-8000-%012d", i), scene.Now.Add(-r.ago), r.domain,
			fmt.Sprintf(`[{"variable":"requests","value":"%d"},{"variable":"refused","value":"%d"},{"variable":"reason","value":%q}]`, r.requests, r.refused, r.reason))
	}
	ago := func(d time.Duration) time.Time { return scene.Now.Add(-d) }
	want := []gapSum{
		{id: shop.String(), name: "a.example.net", passed: 2, refused: 5, reason: "the agent had no time for it", first: ago(40 * time.Second), last: ago(10 * time.Second)},
		{id: blog.String(), name: "a.example.net", passed: 5, reason: "slow", first: ago(30 * time.Second), last: ago(30 * time.Second)},
	}
	if list := sums(); !slices.Equal(list, want) {
		t.Errorf("%+v\nand not %+v", list, want)
	}
}
