package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// running is the room with an HAProxy in memory that reports the mark of its file, so that it is verified after a reload.
func running(t *testing.T, answer func(q string) string) (*Room, *kittest.Bench) {
	t.Helper()
	b := kittest.New(t)
	r := New(b.Kit, Deps{
		FQDN:              func() string { return "gw.example.net" },
		IPv6:              func(context.Context, db.Querier) (bool, error) { return false, nil },
		Maintenance:       func() bool { return false },
		Certificates:      func(context.Context, db.Querier) ([]Certificate, error) { return nil, nil },
		Default:           func() ([]byte, error) { return []byte("a certificate"), nil },
		Changed:           func(apply.Row) (was, now *Certificate, ok bool) { return nil, nil, false },
		SitesChanged:      func() {},
		Inspections:       func(context.Context, db.Querier) ([]Inspection, error) { return nil, nil },
		InspectionOf:      func(context.Context, db.Querier, uuid.UUID) (*Inspection, error) { return nil, nil },
		InspectionChanged: func(apply.Row) (domain uuid.UUID, was, now *Inspection, ok bool) { return uuid.Nil, nil, nil, false },
		Management:        func() string { return "service" },
	})
	r.Mount()
	b.Machine.AnswerProxy(func(q haproxy.Question) (string, error) {
		words := strings.Join(q.Words, " ")
		if words != "show info" {
			return answer(words), nil
		}
		config, err := b.Machine.Read(haproxy.Config)
		_, mark, _ := strings.Cut(string(config), "\n  description ")
		mark, _, _ = strings.Cut(mark, "\n")
		return "description: " + mark, err
	})
	b.Start(t)
	return r, b
}

// A step is only valid for the shape that it was planned on, because another shape numbers the fields differently.
func TestStepHoldsForItsShapeAlone(t *testing.T) {
	for name, change := range map[string]func(*shape){
		"same":            func(*shape) {},
		"headers":         func(x *shape) { x.slots = append([]slot{{operation: headerSet, name: "a-header"}}, x.slots...) },
		"rate limits":     func(x *shape) { x.periods = nil },
		"prefix lengths":  func(x *shape) { x.strips = nil },
		"inspection":      func(x *shape) { x.inspects = true },
		"access log":      func(x *shape) { x.logs = true },
		"not known again": nil,
	} {
		t.Run(name, func(t *testing.T) {
			r, b := running(t, func(string) string { return "" })
			b.Machine.SetUnit(host.UnitState{Unit: haproxy.Unit, Installed: true, Active: "active"})
			process, err := b.Machine.ProxyProcess(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			planned := shape{slots: []slot{{operation: headerSet, name: "b-header"}}, periods: []int{60}, strips: []int{4}}
			r.mu.Lock()
			r.worker, r.shape = process.PID, &planned
			r.mu.Unlock()
			site := Domain{Meta: resource.Meta{ID: uuid.UUID{15: 1}}, Name: value.Must[value.SiteName]("a.example.net"), Active: true, WWWRedirect: wwwNone}
			step, err := r.plan(t.Context(), nil, []apply.Row{{Kind: r.domains.Name, Now: &site}})
			if err != nil || step == nil {
				t.Fatalf("no step: %v", err)
			}
			now := shape{slots: planned.slots, periods: planned.periods, strips: planned.strips}
			r.mu.Lock()
			if r.shape = nil; change != nil {
				change(&now)
				r.shape = &now
			}
			r.mu.Unlock()
			if err := step(t.Context()); (err == nil) != (name == "same") {
				t.Errorf("the step: %v", err)
			}
		})
	}
}

// A step only counts if the verified worker has taken it and still serves.
func TestStepHoldsForItsWorkerAlone(t *testing.T) {
	r, b := running(t, func(string) string { return "" })
	b.Machine.SetUnit(host.UnitState{Unit: haproxy.Unit, Installed: true, Active: "active"})
	process, err := b.Machine.ProxyProcess(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.worker = process.PID
	r.mu.Unlock()
	commands := []command{newCommand("", "set", "map", "maps/hosts.map", "a.example.net", "x")}
	if err := r.run(t.Context(), commands); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Machine.ProxyReload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.run(t.Context(), commands); err == nil {
		t.Error("a worker that nothing is known about was believed")
	}
}

// An HAProxy that answers before it has moved a server is asked until it has, and one that keeps connections to the old address is
// reloaded.
func TestMovedServerIsConfirmed(t *testing.T) {
	// look is what HAProxy shows of the server: its port, and its connections in use and idle.
	type look struct{ port, used, idle int }
	var mu sync.Mutex
	var backend, server struct{ ID string }
	var shows []look // one after the other; the last one forever
	looked := 0
	_, b := running(t, func(q string) string {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.HasPrefix(q, "add server"):
			return "New server registered."
		case strings.HasPrefix(q, "set server"):
			return "port changed"
		case strings.HasPrefix(q, "show servers conn"):
			x := shows[min(looked, len(shows)-1)]
			looked++
			return fmt.Sprintf("# bkname/svname\ngateway_backend_%s/web 5/1 192.0.2.1 %d - 5000 %d 1 1 0 0 -1 %d 0 0", backend.ID, x.port, x.used, x.idle)
		}
		return ""
	})
	b.Do(t, "admin", http.MethodPost, "/backends", map[string]any{"name": "app", "health_check_enabled": false}).Want(t, 201).Into(t, &backend)
	b.Do(t, "admin", http.MethodPost, "/backends/"+backend.ID+"/servers", map[string]any{"name": "web", "address": "192.0.2.1", "port": 8080}).Want(t, 201).Into(t, &server)
	for _, x := range []struct {
		name    string
		port    int
		shows   []look
		reloads int
	}{
		{"moves later than it answers", 9001, []look{{8080, 0, 0}, {8080, 0, 1}, {9001, 0, 1}, {9001, 0, 0}}, 0},
		{"a connection stays in use", 9002, []look{{9002, 1, 0}}, 1},
		{"a connection comes to rest", 9003, []look{{9003, 0, 1}}, 1},
		{"does not move", 9004, []look{{9003, 0, 0}}, 1},
	} {
		mu.Lock()
		shows, looked = x.shows, 0
		mu.Unlock()
		before := b.Machine.ProxyReloads()
		a := b.Do(t, "admin", http.MethodPut, "/backend-servers/"+server.ID, map[string]any{"port": x.port}).Want(t, 200)
		mu.Lock()
		if got := a.Header.Get("Gateway-Apply"); got != "reverse-proxy=live" || looked < len(x.shows) || b.Machine.ProxyReloads()-before != x.reloads {
			t.Errorf("%s: %s after %d looks and %d reloads", x.name, got, looked, b.Machine.ProxyReloads()-before)
		}
		mu.Unlock()
	}
}
