package app

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host/machine/backups"
	"edge.internal/gateway/internal/kit/host/machine/home"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/scheduler"
	"edge.internal/gateway/internal/schema"
)

// The whole of gateway-scheduler beside the API of a whole house: its jobs find out what is wrong from the API, and it tells a receiver.
func TestSchedulerFindsOutAndTells(t *testing.T) {
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
	key := masterKey(b.Paths)
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
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		open := slices.DeleteFunc(list(), func(j scheduler.Status) bool {
			return j.Name == "auto-update" || j.WantedAt == nil && (j.Result == "ok" || slices.Contains(missing, j.Name) && j.Result == "failed")
		})
		if len(open) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", open)
		}
	}
}
