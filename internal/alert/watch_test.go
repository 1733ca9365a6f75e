package alert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/clock"
)

// world is what the watcher is told.
type world struct {
	*house
	*Watcher
	clock        *clock.Fake
	load         Load
	certificates []Certificate
	backends     []Backend
	tunnels      []Tunnel
	time         Clock
	license      License
	components   []Component
	inspection   Inspection
	cluster      Cluster
	err          error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	h := newHouse(t)
	w := &world{house: h, clock: clock.NewFake(time.Now().Truncate(time.Second))}
	h.Kit.Clock = w.clock
	h.Kit.Alarms = alarm.New(h.DB, w.clock)
	w.Watcher = NewWatcher(h.room, Sources{
		Load:         func(context.Context) (Load, error) { return w.load, w.err },
		Certificates: func(context.Context) ([]Certificate, error) { return w.certificates, w.err },
		Backends:     func(context.Context) ([]Backend, error) { return w.backends, w.err },
		Tunnels:      func(context.Context) ([]Tunnel, error) { return w.tunnels, w.err },
		Clock:        func(context.Context) (Clock, error) { return w.time, w.err },
		License:      func(context.Context) (License, error) { return w.license, w.err },
		Components:   func(context.Context) ([]Component, error) { return w.components, w.err },
		Inspection:   func(context.Context) (Inspection, error) { return w.inspection, w.err },
		Nodes:        func(context.Context) (Cluster, error) { return w.cluster, w.err },
	})
	return w
}

// open looks, and says what is wrong then: kind, key and severity of each.
func (w *world) open(t *testing.T, look func(context.Context) error) []string {
	t.Helper()
	if err := look(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := w.house.Alarms.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for _, c := range list {
		if c.Subject == "" || c.Message == "" || strings.Contains(c.Subject+c.Message, "%!") {
			t.Errorf("%+v", c)
		}
		found = append(found, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Kind, c.Severity, c.Key)))
	}
	slices.Sort(found)
	return found
}

func (w *world) want(t *testing.T, look func(context.Context) error, wanted ...string) {
	t.Helper()
	if found := w.open(t, look); !slices.Equal(found, wanted) {
		t.Errorf("%q instead of %q", found, wanted)
	}
}

func TestMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := func(memory, disk, conntrack uint64) {
		w.load = Load{MemoryTotal: 1000, MemoryAvailable: 1000 - memory, DiskTotal: 1000, DiskFree: 1000 - disk, ConntrackMax: 1000, ConntrackCount: conntrack}
	}
	at(899, 899, 799)
	w.want(t, w.Machine)
	at(900, 900, 800)
	w.want(t, w.Machine, "system.conntrack warning", "system.disk warning", "system.memory warning")
	at(950, 950, 950)
	w.want(t, w.Machine, "system.conntrack error", "system.disk error", "system.memory error")
	at(0, 0, 0)
	w.want(t, w.Machine)
	w.load = Load{}
	w.want(t, w.Machine)
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const day = 24 * time.Hour
	now := w.clock.Now()
	add := func(id string, life, left time.Duration, renewed bool) {
		w.certificates = append(w.certificates, Certificate{ID: id, Name: id + ".example", NotBefore: now.Add(left - life), NotAfter: now.Add(left), Renewed: renewed})
	}
	add("fine", 90*day, 14*day, true)
	add("soon", 90*day, 14*day-time.Second, true)
	add("very-soon", 90*day, 3*day-time.Second, true)
	add("over", 90*day, -day, false)
	add("short", 6*day, 3*day, true) // renewed in its last third
	add("short-late", 6*day, 36*time.Hour-time.Second, true)
	add("short-uploaded", 6*day, 5*day, false)
	w.want(t, w.Certs, "cert.expiring error over", "cert.expiring error very-soon", "cert.expiring warning short-late", "cert.expiring warning short-uploaded", "cert.expiring warning soon")
	w.certificates = nil
	w.want(t, w.Certs)
}

// AL-06: a backend is down when all its servers are.
func TestAL06BackendDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.backends = []Backend{
		{ID: "half", Name: "half", Servers: []string{"UP", "DOWN"}},
		{ID: "all", Name: "all", Servers: []string{"DOWN", "DOWN"}},
		{ID: "rest", Name: "rest", Servers: []string{"MAINT", "DOWN"}},
		{ID: "maintained", Name: "maintained", Servers: []string{"MAINT"}},
		{ID: "unchecked", Name: "unchecked", Servers: []string{"NO CHECK", "DOWN"}},
		{ID: "none", Name: "none"},
	}
	w.want(t, w.Proxied, "backend.down error all", "backend.down error rest")
	w.backends[1].Servers[0] = "UP"
	w.want(t, w.Proxied, "backend.down error rest")
	// While the proxy does not tell, nothing is known to be over.
	w.err = errors.New("haproxy does not run")
	if err := w.Proxied(t.Context()); err == nil {
		t.Error("the look has not failed")
	}
	w.err = nil
	w.backends[2].Servers[1] = "DOWN"
	w.want(t, w.Proxied, "backend.down error rest")
}

// AL-06: a client tunnel is down after more than five minutes without a handshake, or without any.
func TestAL06TunnelDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.clock.Now()
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	w.tunnels = []Tunnel{
		{ID: "up", Name: "wg0", Since: now.Add(-time.Hour), LastHandshake: ago(5 * time.Minute)},
		{ID: "down", Name: "wg1", Since: now.Add(-time.Hour), LastHandshake: ago(5*time.Minute + time.Second)},
		{ID: "never", Name: "wg2", Since: now.Add(-time.Hour)},
		{ID: "new", Name: "wg3", Since: now},
	}
	w.want(t, w.Tunnelled, "wg.tunnel.down error down", "wg.tunnel.down error never")
	w.tunnels[1].LastHandshake = ago(time.Second)
	w.tunnels = w.tunnels[:2]
	w.want(t, w.Tunnelled)
}

// AL-06: the clock is not synchronised at stratum 0 or from 16 on, or with a reference of zeros; not at boot.
func TestAL06ClockUnsync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, x := range []struct {
		clock Clock
		wrong bool
	}{
		{Clock{Stratum: 3, ReferenceID: "C0000201"}, false},
		{Clock{Stratum: 0, ReferenceID: "C0000201"}, true},
		{Clock{Stratum: 16, ReferenceID: "C0000201"}, true},
		{Clock{Stratum: 15, ReferenceID: "C0000201"}, false},
		{Clock{Stratum: 10, ReferenceID: "00000000"}, true},
		{Clock{Stratum: 10, ReferenceID: "7F7F0101"}, false},
	} {
		w.time = x.clock
		w.time.Uptime = time.Hour
		if found := w.open(t, w.Time); (len(found) == 1) != x.wrong {
			t.Errorf("%+v: %q", x.clock, found)
		}
	}
	w.time = Clock{Stratum: 0, ReferenceID: "00000000", Uptime: 9 * time.Minute}
	w.want(t, w.Time)
	w.time.Uptime = 10 * time.Minute
	w.want(t, w.Time, "ntp.unsync warning")
}

func TestAL06License(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(t, w.Licensed)
	w.license = License{Invalid: true, Reason: "Its signature is wrong."}
	w.want(t, w.Licensed, "license.invalid error")
	w.license = License{}
	w.want(t, w.Licensed)
}

// A component, a daemon and the service itself are told of when they are not well for a minute.
func TestRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.components = []Component{{Name: "ntp", Degraded: true, Error: "chronyd refuses it"}, {Name: "dns", Down: true}, {Name: "dhcp"}}
	w.want(t, w.Running)
	w.clock.Move(59 * time.Second)
	w.want(t, w.Running)
	w.clock.Move(time.Second)
	w.want(t, w.Running, "component.degraded error ntp", "daemon.down error dns")
	w.components[0].Degraded = false
	w.want(t, w.Running, "daemon.down error dns")
	// One that was well meanwhile begins again.
	w.components[0].Degraded = true
	w.want(t, w.Running, "daemon.down error dns")
	w.components = nil
	w.want(t, w.Running)

	w.err = errors.New("connection refused")
	if err := w.Running(t.Context()); err == nil {
		t.Error("the look has not failed")
	}
	w.clock.Move(time.Minute)
	w.want(t, w.Running, "daemon.down critical gateway-api")
	w.err = nil
	w.want(t, w.Running)
}

// WF-05: the agent of the web application firewall is a warning where requests pass without it, and critical where they are refused.
func TestInspection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.inspection = Inspection{Reason: "The agent does not answer."}
	w.want(t, w.Inspected)
	w.clock.Move(time.Minute)
	w.want(t, w.Inspected) // no domain needs it
	w.inspection.Detecting = 2
	w.want(t, w.Inspected, "waf.agent.down warning")
	w.inspection.Blocking = 1
	w.want(t, w.Inspected, "waf.agent.down critical")
	w.inspection.Up = true
	w.want(t, w.Inspected)
	w.inspection.Up = false
	w.want(t, w.Inspected) // it may be starting again
}

// Requests that are not inspected although the agent is up are told for each domain, unless that is over at once.
func TestUninspected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	missed := func(id string, passed, refused int, lasted time.Duration) Missed {
		return Missed{ID: id, Name: id, Passed: passed, Refused: refused, Reason: "the agent had no time for it", FirstSeen: w.clock.Now(), LastSeen: w.clock.Now().Add(lasted)}
	}
	w.inspection = Inspection{Up: true, Blocking: 1, Detecting: 1, Missed: []Missed{missed("shop", 0, 3, restarts), missed("blog", 5, 0, time.Minute), missed("wiki", 5, 5, restarts-time.Second)}}
	w.want(t, w.Inspected, "waf.uninspected critical shop", "waf.uninspected warning blog")
	list, err := w.house.Alarms.Open(t.Context())
	if err != nil || !slices.ContainsFunc(list, func(a alarm.Condition) bool {
		return a.Key == "shop" && strings.Contains(a.Message, "3 requests were refused") && strings.Contains(a.Message, "no time")
	}) {
		t.Errorf("%+v %v", list, err)
	}
	w.inspection.Missed = nil
	w.want(t, w.Inspected)
}

func TestFailedLogins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fail := func(n int, from string) {
		for range n {
			if err := w.house.Audit.RecordAs(t.Context(), "<img onerror=x>@example.net", "auth.login.failed", "x", map[string]any{"remote_ip": from}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fail(9, "192.0.2.1")
	w.want(t, w.Logins)
	fail(1, "192.0.2.2")
	w.want(t, w.Logins, "auth.login.failures warning")
	list, err := w.house.Alarms.Open(t.Context())
	if err != nil || !strings.Contains(list[0].Message, "192.0.2.1") || strings.Contains(list[0].Message, "img") {
		t.Errorf("%+v %v", list, err)
	}
	w.clock.Move(16 * time.Minute)
	w.want(t, w.Logins)
}

// The kinds of a cluster, with nodes that are made up: the room of alerts knows no cluster.
func TestCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	healthy := func(id string) Node { return Node{ID: id, Name: id, Online: true, Standby: true, Streaming: true} }
	behind := func(id string, lag time.Duration) Node { n := healthy(id); n.Lag = lag; return n }
	still, drift, lost, refused := healthy("still"), healthy("drift"), healthy("lost"), healthy("refused")
	still.Streaming, drift.Drift, lost.Lost, refused.Refused = false, []string{"ntp_pools", "dns_zones"}, true, true
	w.cluster = Cluster{Nodes: []Node{behind("1", 59*time.Second), behind("2", time.Minute), behind("3", 10*time.Minute), {ID: "away", Name: "away", Standby: true}, still, drift, lost, refused}}
	w.want(t, w.Clustered, "node.offline critical away", "replication.drift error drift", "replication.drift error refused", "replication.lag error 3", "replication.lag warning 2", "replication.slot_lost error lost")
	// One that does not follow is behind as long as it has not.
	w.clock.Move(time.Minute)
	w.want(t, w.Clustered, "node.offline critical away", "replication.drift error drift", "replication.drift error refused", "replication.lag error 3", "replication.lag warning 2", "replication.lag warning still", "replication.slot_lost error lost")
	w.cluster = Cluster{Nodes: []Node{healthy("still"), {ID: "away", Name: "away"}}}
	w.want(t, w.Clustered, "node.offline critical away")
	w.cluster = Cluster{Split: true}
	w.want(t, w.Clustered, "cluster.split_brain critical")
	w.cluster = Cluster{}
	w.want(t, w.Clustered)

	// Each was told once, and once that it is over.
	told := map[string]int{}
	rows, err := w.house.DB.Query(t.Context(), "SELECT kind || ' ' || key || CASE WHEN resolves IS NULL THEN '' ELSE ' is over' END FROM alarm_events")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var what string
		if err := rows.Scan(&what); err != nil {
			t.Fatal(err)
		}
		told[what]++
	}
	for _, what := range []string{"node.offline away", "replication.drift drift", "replication.drift refused", "replication.lag 2", "replication.lag still", "replication.slot_lost lost", "cluster.split_brain "} {
		if told[what] != 1 || told[what+" is over"] != 1 {
			t.Errorf("%s: told %d times, over %d times", what, told[what], told[what+" is over"])
		}
	}
}
