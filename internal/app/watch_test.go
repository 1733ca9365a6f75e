package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/alert"
	"edge.internal/gateway/internal/app/start"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/backups"
	"edge.internal/gateway/internal/kit/host/machine/home"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/scheduler"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/schema"
)

// The whole of gateway-scheduler beside the API of a whole house: its jobs find out what is wrong from the API, and it tells a receiver.
func TestSchedulerFindsOutAndTells(t *testing.T) {
	t.Parallel() // it waits for the most part
	url := dbtest.URL(t)
	d, err := db.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	b := kittest.NewOn(t, d)
	serve(t, b)
	b.Router.Sessions = kittest.Roles{}
	key := start.MasterKey(b.Paths)
	if err := os.MkdirAll(filepath.Dir(key), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, bytes.Repeat([]byte{7}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Kind, Severity string }
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		got <- m.Kind + " " + m.Severity
	}))
	t.Cleanup(receiver.Close)
	as := func(method, path string, body any) *kittest.Answer {
		t.Helper()
		return b.Do(t, "admin", method, path, body)
	}
	as(http.MethodPost, "/alerts", map[string]any{"kind": "webhook", "target": receiver.URL, "allow_internal": true}).Want(t, http.StatusCreated)
	x, err := b.Machine.Resources()
	if err != nil {
		t.Fatal(err)
	}
	x.MemoryTotal, x.MemoryAvailable, x.Uptime = 1000, 40, time.Hour
	b.Machine.SetResources(x)

	b.Machine.LendPostgreSQL(backups.New(home.Home{}, nil, url, nil))

	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- RunScheduler(ctx, Config{Root: b.Paths.Root, Units: "none:a test", DB: url, LogLevel: "info"})
	}()
	defer func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}()
	wait := func(want string) {
		t.Helper()
		for limit := time.After(2 * time.Minute); ; {
			select {
			case kind := <-got:
				if kind == want {
					return
				}
			case <-limit:
				t.Fatalf("%s was not told", want)
			}
		}
	}
	wait("system.memory error")
	x.MemoryAvailable = 900
	b.Machine.SetResources(x)
	as(http.MethodPost, "/system/jobs/watch.machine/run", nil).Want(t, http.StatusOK)
	wait("system.memory info") // it is over

	// Every source understands what the API says. There is no time daemon and no reverse proxy on this machine, and nothing to dump the
	// database with.
	missing := []string{"watch.clock", "watch.backends", "backup"}
	list := func() (list []scheduler.Status) {
		t.Helper()
		as(http.MethodGet, "/system/jobs", nil).Want(t, http.StatusOK).Into(t, &list)
		return list
	}
	for _, j := range list() {
		if j.Name != "auto-update" {
			as(http.MethodPost, "/system/jobs/"+j.Name+"/run", nil).Want(t, http.StatusOK)
		}
	}
	waittest.UntilNil(t, "all jobs have run", func() error {
		open := slices.DeleteFunc(list(), func(j scheduler.Status) bool {
			return j.Name == "auto-update" || j.WantedAt == nil && (j.Result == "ok" || slices.Contains(missing, j.Name) && j.Result == "failed")
		})
		if len(open) > 0 {
			return fmt.Errorf("%+v", open)
		}
		return nil
	})
}

// The agent of the web application firewall is up when it says so, and not while it is starting or does not answer. Requests that were not
// inspected are added up for each domain.
func TestInspectionIsAskedFor(t *testing.T) {
	d := dbtest.New(t)
	b := kittest.NewOn(t, d)
	serve(t, b)
	b.Router.Sessions = kittest.Roles{}
	if x, err := inspection(t.Context(), b.Kit); err != nil || x.Up || x.Reason == "" || len(x.Missed) != 0 {
		t.Errorf("without an agent: %+v, %v", x, err)
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
	if x, err := inspection(t.Context(), b.Kit); err != nil || x.Up || x.Reason == "" {
		t.Errorf("it is starting: %+v, %v", x, err)
	}
	started.Store(true)
	stalled.Store(true)
	if x, err := inspection(t.Context(), b.Kit); err != nil || x.Up || x.Reason == "" {
		t.Errorf("it does not answer: %+v, %v", x, err)
	}
	stalled.Store(false)

	shop, blog, now := uuid.New(), uuid.New(), b.Clock.Now().UTC().Truncate(time.Second)
	for i, r := range []struct {
		domain            uuid.UUID
		ago               time.Duration
		requests, refused int
		reason            string
	}{
		{shop, 2 * time.Minute, 100, 100, "too old"}, {shop, 40 * time.Second, 3, 3, "the agent is not running"}, {blog, 30 * time.Second, 5, 0, "slow"}, {shop, 10 * time.Second, 4, 2, "the agent had no time for it"},
	} {
		dbtest.Exec(t, d, `INSERT INTO waf_alerts (id, created_at, request_id, domain_id, domain, rule_id, severity, action, message, method, uri, client_ip, data)
			VALUES ($1, $2, '', $3, 'a.example.net', 0, 'critical', 'unavailable', '', 'GET', '/', '192.0.2.1', $4)`,
			fmt.Sprintf("00000000-0000-7000-8000-%012d", i), now.Add(-r.ago), r.domain,
			fmt.Sprintf(`[{"variable":"requests","value":"%d"},{"variable":"refused","value":"%d"},{"variable":"reason","value":%q}]`, r.requests, r.refused, r.reason))
	}
	x, err := inspection(t.Context(), b.Kit)
	want := []alert.Missed{
		{ID: shop.String(), Name: "a.example.net", Passed: 2, Refused: 5, Reason: "the agent had no time for it", FirstSeen: now.Add(-40 * time.Second), LastSeen: now.Add(-10 * time.Second)},
		{ID: blog.String(), Name: "a.example.net", Passed: 5, Reason: "slow", FirstSeen: now.Add(-30 * time.Second), LastSeen: now.Add(-30 * time.Second)},
	}
	if err != nil || !x.Up || !reflect.DeepEqual(x.Missed, want) {
		t.Errorf("%+v, %v\nand not %+v", x, err, want)
	}
}

// A tunnel that another node of the cluster has is not down.
func TestTunnelsOfOtherNodes(t *testing.T) {
	t.Parallel()
	b := kittest.New(t)
	serve(t, b)
	b.Router.Sessions = kittest.Roles{}
	b.Do(t, "admin", http.MethodPost, "/tunnel/interfaces", `{"name":"wg1","mode":"client","address_cidr":"10.7.0.2/32","upstream_public_key":"xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=","upstream_endpoint":"198.51.100.1:51820"}`).Want(t, 201)
	for role, want := range map[string]int{"single": 1, "primary": 1, "standby": 0} {
		dbtest.Exec(t, b.DB, "UPDATE ha_state SET role = $1", role)
		b.Engine.Refresh(t.Context(), apply.Tunnel, false)
		list, err := clientTunnels(t.Context(), b.Kit)
		if err != nil || len(list) != want {
			t.Errorf("%s: %+v, %v", role, list, err)
		}
	}
}
