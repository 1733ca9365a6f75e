package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// undisturbed runs do under load, and complains about every request that failed during it.
func (l *traffic) undisturbed(t *testing.T, do func()) {
	t.Helper()
	requests, failed := l.requests.Load(), l.failed.Load()
	stop := l.start()
	do()
	stop()
	if n := l.failed.Load() - failed; n != 0 {
		t.Errorf("%d requests failed: %s", n, strings.Join(l.failures, "\n"))
	}
	t.Logf("%d requests meanwhile", l.requests.Load()-requests)
}

// Consecutive reloads, as fast as they are answered: each ends with a new worker.
func reloadsAreConfirmed(t *testing.T, e *edge, l *traffic) {
	reloads := longtest.Number(t, "GATEWAY_RELOADS", 5, 20)
	before, was := e.status(t), e.process(t)
	l.undisturbed(t, func() {
		for n := range reloads {
			if a := e.Must(t, http.MethodPost, "/system/proxy-reload", nil, 200, nil); a.Header.Get("Gateway-Apply") != "reverse-proxy=live" {
				t.Fatalf("reload %d: %s", n, a.Header.Get("Gateway-Apply"))
			}
			now := e.process(t)
			if now.PID == was.PID || now.Reloads <= was.Reloads {
				t.Fatalf("reload %d: %+v after %+v", n, now, was)
			}
			was = now
		}
	})
	if n := e.status(t).Reloads - before.Reloads; n != reloads {
		t.Errorf("%d reloads were asked for, and %d done", reloads, n)
	}
	var entries []struct{ Action string }
	if e.Must(t, http.MethodGet, "/audit?action=system.proxy-reload&limit=100", nil, 200, &entries); len(entries) < min(reloads, 100) {
		t.Errorf("%d of them are in the audit", len(entries))
	}
	// A former worker exits with its last connection, which may be idle for half a minute.
	waittest.Within(t, 8*time.Minute, "the former workers end", func() error {
		if s := e.status(t); s.OldWorkers != 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// Many concurrent changes that each need a reload share a few.
func reloadsAreShared(t *testing.T, e *edge, l *traffic) {
	changes := longtest.Number(t, "GATEWAY_SHARED", 25, 100)
	before := e.status(t)
	ids := make([]string, changes)
	l.undisturbed(t, func() {
		var all sync.WaitGroup
		for n := range changes {
			all.Go(func() {
				a, err := e.Do(t.Context(), http.MethodPost, "/backends", fields{"name": fmt.Sprintf("shared %d", n), "health_check_enabled": false})
				var row struct{ ID string }
				if err == nil {
					err = json.Unmarshal(a.Data, &row)
				}
				if err != nil || a.Status != 201 || a.Header.Get("Gateway-Apply") != "reverse-proxy=live" {
					t.Errorf("change %d: %v: %+v", n, err, a)
					return
				}
				ids[n] = row.ID
			})
		}
		all.Wait()
	})
	var stats struct{ Backends []edgeServer }
	e.Must(t, http.MethodGet, "/proxy/stats", nil, 200, &stats)
	there := map[string]bool{}
	for _, b := range stats.Backends {
		there[b.BackendID] = true
	}
	for n, id := range ids {
		if !there[id] {
			t.Errorf("backend %d is answered as live, and the proxy does not have it", n)
		}
	}
	// While changes queue, a reload waits a second for more of them; now and then the queue is empty for a moment.
	if n := e.status(t).Reloads - before.Reloads; n == 0 || n >= changes {
		t.Errorf("%d changes took %d reloads", changes, n)
	} else {
		t.Logf("%d changes took %d reloads", changes, n)
	}
	// They go as they came.
	operations := make([]operation, len(ids))
	for n, id := range ids {
		operations[n] = operation{Kind: "proxy.backend", Verb: "delete", ID: id}
	}
	e.Must(t, http.MethodPost, "/change-sets", fields{"reason": "no longer needed", "operations": operations}, 200, nil)
}

// kill kills a process of the lab.
func (e *edge) kill(t *testing.T, pid int) {
	t.Helper()
	e.Run(t, lab.Gateway, "kill", "-9", strconv.Itoa(pid))
}

// pid is the process of a unit.
func (e *edge) pid(t *testing.T, u host.Unit) int {
	t.Helper()
	state, err := e.Units().State(t.Context(), u)
	if err != nil || state.PID == 0 {
		t.Fatalf("%+v, %v", state, err)
	}
	return state.PID
}

// serves waits until the site answers again.
func (l *traffic) serves(t *testing.T) {
	t.Helper()
	waittest.UntilNil(t, "the site answers", func() error { return l.e.answers("https://"+busy+"/", 200, "origin") })
}

// A killed HAProxy restarts automatically, with the same configuration.
func proxyComesBack(t *testing.T, e *edge, l *traffic) {
	master := e.pid(t, haproxy.Unit)
	e.kill(t, e.process(t).PID) // a master ends when its worker has died
	another(t, e.Units(), haproxy.Unit, master)
	l.serves(t)
	e.WaitState(t, "reverse-proxy", "live", 20*time.Second)
	e.kill(t, e.pid(t, haproxy.Unit))
	// A change restarts it before the timer does.
	e.live(t, http.MethodPut, "/domains/"+l.domain, fields{"hsts_enabled": true, "hsts_max_age": 4711}, 200)
	// A worker whose master was killed ends when it notices, and may answer until then.
	waittest.UntilNil(t, "what was changed is served", func() error {
		return e.header("https://"+busy+"/", "Strict-Transport-Security", "max-age=4711")
	})
	e.live(t, http.MethodPut, "/domains/"+l.domain, fields{"hsts_enabled": false}, 200)
	l.serves(t)
}

// The API may be killed at any time: the proxy continues, and then serves what is stored.
func storedStateServes(t *testing.T, e *edge, l *traffic) {
	deaths := longtest.Number(t, "GATEWAY_DEATHS", 1, 3)
	header := e.live(t, http.MethodPost, "/domains/"+l.domain+"/headers", fields{"name": "X-Stored", "value": "0"}, 201)
	path := "/domains/" + l.domain + "/headers/" + header
	var tried, stored atomic.Int64
	l.undisturbed(t, func() {
		for n := range deaths {
			ctx, cancel := context.WithCancel(t.Context())
			var work sync.WaitGroup
			change := func(do func(i int64) (method, path string, body fields)) {
				work.Go(func() {
					for ctx.Err() == nil {
						method, path, body := do(tried.Add(1))
						// Those that the API's death catches have no answer, and may be stored or not.
						if a, err := e.Do(ctx, method, path, body); err == nil && a.Status < 300 {
							stored.Add(1)
						}
					}
				})
			}
			change(func(i int64) (string, string, fields) {
				return http.MethodPut, path, fields{"value": strconv.FormatInt(i, 10)}
			})
			change(func(i int64) (string, string, fields) {
				return http.MethodPut, "/backend-servers/" + l.servers[0], fields{"weight": 50 + i%100}
			})
			change(func(i int64) (string, string, fields) {
				return http.MethodPost, "/backends", fields{"name": fmt.Sprintf("stored %d", i), "health_check_enabled": false}
			})
			began := stored.Load()
			waittest.Until(t, "changes are made", func() bool { return stored.Load() >= began+int64(5+3*n) })
			e.kill(t, e.pid(t, host.API))
			cancel()
			work.Wait()
			e.backAgain(t)
			e.matches(t, l, path)
		}
	})
	t.Logf("%d changes were tried and %d answered, through %d deaths", tried.Load(), stored.Load(), deaths)
	e.live(t, http.MethodDelete, path, nil, 200)
	e.live(t, http.MethodPut, "/backend-servers/"+l.servers[0], fields{"weight": 100}, 200)
}

// backAgain waits until the API and its database answer.
func (e *edge) backAgain(t *testing.T) {
	t.Helper()
	waittest.UntilNil(t, "the API is back", func() error {
		a, err := e.Do(t.Context(), http.MethodGet, "/domains", nil)
		return answered(a, err, 200)
	})
	e.WaitState(t, "reverse-proxy", "live", 20*time.Second)
}

// matches complains if the served configuration differs from the stored one.
func (e *edge) matches(t *testing.T, l *traffic, path string) {
	t.Helper()
	var header struct{ Value string }
	e.Must(t, http.MethodGet, path, nil, 200, &header)
	if err := e.header("https://"+busy+"/", "X-Stored", header.Value); err != nil {
		t.Error(err)
	}
	var server struct{ Weight int }
	e.Must(t, http.MethodGet, "/backend-servers/"+l.servers[0], nil, 200, &server)
	if s := e.servers(t, l.backend)["s8081"]; s.Weight != server.Weight {
		t.Errorf("the weight %d is stored, and the proxy has %+v", server.Weight, s)
	}
	var backends []struct{ ID, Name string }
	e.Must(t, http.MethodGet, "/backends?limit=1000", nil, 200, &backends)
	for _, b := range backends {
		if len(e.servers(t, b.ID)) == 0 {
			t.Errorf("the backend %s is stored, and the proxy does not have it", b.Name)
		}
	}
	var preview struct{ Diff string }
	if e.Must(t, http.MethodGet, "/system/config-preview?generator=reverse-proxy", nil, 200, &preview); preview.Diff != "" {
		t.Errorf("the files are not those of what is stored: %s", preview.Diff)
	}
}

// unheard is how long the management port may be unserved when HAProxy is killed: on an idle machine a second.
const unheard = labtest.Slow * time.Second

// watch requests the console from the wan side continuously.
type watch struct {
	asked, missed atomic.Int64
	vanishing     atomic.Bool // HAProxy is being killed
	longest       time.Duration
}

func (w *watch) look(t *testing.T, e *edge) {
	console := func() error { return e.answers("https://"+gwWan4+":3443/api/v1/system/health", 200, "{") }
	w.asked.Add(1)
	err := console()
	if err == nil {
		return
	}
	if !w.vanishing.Load() {
		t.Errorf("%s: nobody answers on the management port: %v", time.Now().Format("15:04:05.000"), err)
		return
	}
	w.missed.Add(1)
	began := time.Now()
	for ; console() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > unheard {
			t.Errorf("nobody answers on the management port for more than %s: %v", unheard, err)
			return
		}
	}
	w.longest = max(w.longest, time.Since(began))
}

// Whatever happens to HAProxy, the management port is served.
func managementIsNeverAlone(t *testing.T, e *edge, l *traffic) {
	w := &watch{}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				w.look(t, e)
			}
		}
	}()
	held := func(by ...string) {
		t.Helper()
		waittest.Until(t, fmt.Sprintf("%s has the management port", by), func() bool { return slices.Contains(by, e.status(t).Management) })
		seen := w.asked.Load()
		waittest.Until(t, "it answers", func() bool { return w.asked.Load() > seen+3 })
	}
	// vanish disturbs HAProxy without notice. The engine may restart it before anything else has noticed.
	vanish := func(do func()) {
		t.Helper()
		was := e.pid(t, haproxy.Unit)
		w.vanishing.Store(true)
		do()
		waittest.Until(t, "somebody else has the management port", func() bool {
			state, err := e.Units().State(t.Context(), haproxy.Unit)
			return e.status(t).Management == "service" || err == nil && state.Active == "active" && state.PID != was
		})
		held("service", "proxy")
		w.vanishing.Store(false)
	}
	start := func() {
		t.Helper()
		if err := e.Units().Start(t.Context(), haproxy.Unit); err != nil {
			t.Fatal(err)
		}
		held("proxy")
	}
	held("proxy")
	// A request through HAProxy gets its answer, and then loses the connection.
	restart := func() {
		t.Helper()
		through := labtest.NewBrowser(t, "https://"+gwWan4+":3443", func(_ context.Context, network, address string) (net.Conn, error) { return e.dial(network, address) })
		through.Login(t)
		was := e.pid(t, haproxy.Unit)
		var o struct{ Active, Error string }
		if through.Must(t, http.MethodPost, "/system/service-restart", fields{"kind": "reverse-proxy"}, 200, &o); o.Active != "activating" || o.Error != "" {
			t.Fatalf("%+v", o)
		}
		another(t, e.Units(), haproxy.Unit, was)
	}
	for range 3 {
		vanish(restart)
		held("proxy")
	}
	vanish(func() {
		if err := e.Units().Stop(t.Context(), haproxy.Unit); err != nil {
			t.Fatal(err)
		}
	})
	start()
	vanish(func() { e.kill(t, e.pid(t, haproxy.Unit)) })
	held("proxy") // which was started automatically
	close(stop)
	<-done
	t.Logf("%d questions, %d without an answer while HAProxy vanished, the longest for %s", w.asked.Load(), w.missed.Load(), w.longest.Round(time.Millisecond))
	e.WaitState(t, "reverse-proxy", "live", 20*time.Second)
	l.serves(t)
}
