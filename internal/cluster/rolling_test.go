package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
)

// offer makes apt offer a version.
func (g *gate) offer(version string) {
	g.Machine.SetPackages(host.PackageVersions{Packages: []host.PackageVersion{{Name: "gateway", Installed: g.Version, Available: version, Newer: []string{version}}}}, nil)
}

// roll runs the rolling update of a gateway until the returned function is called, which simulates a killed program: what is not on disk
// is lost.
func (g *gate) roll(t *testing.T) (kill func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { g.room.Roll(ctx); close(done) }()
	kill = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(kill)
	return kill
}

// again returns the gateway after a restart of its programs, possibly in another version.
func (g *gate) again(t *testing.T, version string) *gate {
	t.Helper()
	g.shut()
	b := kittest.NewOn(t, g.DB)
	b.Paths, b.Host, b.Machine, b.Version = g.Paths, g.Machine, g.Machine, version
	now := &gate{node: &node{Bench: b, me: g.me}}
	now.open(t, g.listener.Addr().String(), g.deps)
	return now
}

// upgrades is the job of upgrades, as the upgrade room declares it.
var upgrades = job.Kind[version, upgrade]{Name: job.Upgrade, Begun: func(v version) upgrade { return upgrade{To: v.Version} }}

type version struct {
	job.Wish
	Version string `json:"version"`
}

func (version) Check() error { return nil }

type upgrade struct {
	job.Record
	To string `json:"to"`
}

// fakeUpgradeUnit stands in for systemd and apt: it replaces a gateway's programs by those of the requested version. The upgrade itself
// is tested in test/appliance.
func (g *gate) fakeUpgradeUnit(t *testing.T) *gate {
	t.Helper()
	var wish upgrade
	waittest.Until(t, "an upgrade is asked for", func() bool {
		var err error
		wish, err = upgrades.Last(g.Machine)
		return err == nil && wish.State == job.Running
	})
	now := g.again(t, wish.To)
	wish.State = job.Done
	g.Machine.SetJob(job.Upgrade, wish)
	return now
}

func (g *gate) rolling(t *testing.T) (u cluster.RollingUpdate) {
	t.Helper()
	g.Get(t, "/cluster/rolling-update").Want(t, 200).Into(t, &u)
	return u
}

func (g *gate) reaches(t *testing.T, p cluster.Phase) cluster.RollingUpdate {
	t.Helper()
	waittest.UntilNil(t, "the phase "+string(p), func() error {
		if now := g.rolling(t); now.Phase != p {
			return fmt.Errorf("%+v", now)
		}
		return nil
	})
	return g.rolling(t)
}

// begin starts a rolling update to 1.1.0.
func (g *gate) begin(t *testing.T, all ...*gate) {
	t.Helper()
	for _, x := range append(all, g) {
		x.offer("1.1.0")
	}
	well(t, g)
	var u cluster.RollingUpdate
	g.Do(t, "admin", http.MethodPost, "/cluster/rolling-update", nil).Want(t, 200).Into(t, &u)
	if u.Phase != cluster.UpdatingSecondary || u.From != "1.0.0" || u.To != "1.1.0" || u.StartedAt == nil || u.Error != "" {
		t.Errorf("%+v", u)
	}
	g.Do(t, "admin", http.MethodPost, "/cluster/rolling-update", nil).Want(t, 409)
}

// The standby is updated first, then the primary, whose new program ends the update. The primary's program is killed in each phase, and
// continues when it is back.
func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	if u := primary.rolling(t); u.Phase != cluster.Idle {
		t.Errorf("%+v", u)
	}
	var drains []bool
	var mu sync.Mutex
	for _, g := range []**gate{&primary, &standby} {
		(*g).deps.Drain = func(_ context.Context, on bool) error {
			mu.Lock()
			drains = append(drains, on)
			mu.Unlock()
			return nil
		}
		*g = (*g).again(t, "1.0.0")
	}
	primary.begin(t, standby)

	primary = primary.again(t, "1.0.0") // killed before the first step
	if u := primary.rolling(t); u.Phase != cluster.UpdatingSecondary || u.Node != "" {
		t.Errorf("%+v", u)
	}
	kill := primary.roll(t)
	if u := primary.reaches(t, cluster.WaitingSecondary); u.Node != standby.me.Name {
		t.Errorf("%+v", u)
	}
	if u := standby.rolling(t); u.Phase != cluster.WaitingSecondary || u.Node != standby.me.Name {
		t.Errorf("the standby says %+v", u)
	}
	kill()
	primary = primary.again(t, "1.0.0")         // killed while it waits
	primary.ahead.by.Add(int64(24 * time.Hour)) // its clock is set, which does not count as elapsed time
	kill = primary.roll(t)
	if last, err := upgrades.Last(primary.Machine); err == nil {
		t.Errorf("the primary is upgraded before its standby: %+v", last)
	}
	standby = standby.fakeUpgradeUnit(t)
	if u := primary.reaches(t, cluster.UpdatingPrimary); u.Node != primary.me.Name || !slices.Equal(u.Updated, []string{standby.me.Name}) {
		t.Errorf("%+v", u)
	}
	waittest.Until(t, "the primary's upgrade begins", func() bool { _, err := upgrades.Last(primary.Machine); return err == nil })
	kill()
	primary = primary.again(t, "1.0.0") // killed before it is replaced
	kill = primary.roll(t)
	time.Sleep(50 * time.Millisecond) // a second upgrade would be refused by now, and end this one
	if u := primary.rolling(t); u.Phase != cluster.UpdatingPrimary {
		t.Errorf("%+v", u)
	}
	kill()
	primary = primary.fakeUpgradeUnit(t)
	primary.roll(t)
	primary.reaches(t, cluster.Idle)
	if _, err := os.Stat(primary.Paths.State("rolling-update.json")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the file is still there")
	}
	mu.Lock()
	if !slices.Equal(drains, []bool{true, false, true, false}) {
		t.Errorf("the nodes were drained %v", drains)
	}
	mu.Unlock()
	waittest.Until(t, "the standby has compared all it has", func() bool {
		var now cluster.Repairing
		standby.Get(t, "/cluster/repair-replication").Want(t, 200).Into(t, &now)
		return now.State == "succeeded"
	})
	well(t, primary)
	for _, action := range []string{"cluster.rolling-update", "cluster.rolling-update.end"} {
		if n := primary.Audited(t, action); n != 1 {
			t.Errorf("%d entries of %s", n, action)
		}
	}
}

// life is one run of the program that does a rolling update. It dies around every operation on a node: before it is done, and when it is
// done but not recorded.
type life struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	ended  chan struct{}
	begun  map[string]int // how often something was begun
	deaths int
}

// lead makes the gateway's program continue the update until end is called or it dies.
func (l *life) lead(g *gate) (dead <-chan struct{}, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	l.mu.Lock()
	l.cancel, l.ended = cancel, ended
	l.mu.Unlock()
	go func() { defer close(ended); g.room.Roll(ctx) }()
	return ended, func() { cancel(); <-ended }
}

// does runs an operation at another node or at its own.
func (l *life) does(what string, own bool, do func() error) error {
	l.mu.Lock()
	l.begun[what]++
	nth, cancel, ended := l.begun[what], l.cancel, l.ended
	if nth <= 2 {
		l.deaths++
	}
	l.mu.Unlock()
	var err error
	if nth != 1 {
		err = do()
	}
	switch {
	case nth > 2:
		return err
	case own:
		runtime.Goexit() // which is the whole program
	}
	cancel()
	<-ended
	return errors.New("no one hears this")
}

// The primary's program is killed before and after each operation on a node. Its file is never incomplete, the primary is not touched
// before its standby is updated, nothing is upgraded twice, and at the end all nodes have the new version and their addresses back.
func TestRollingUpdateIsKilledInItsSteps(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	l := &life{begun: map[string]int{}}
	drained := map[string]bool{}
	for _, g := range []**gate{&primary, &standby} {
		name, own, machine := (*g).me.Name, *g == primary, (*g).Machine
		(*g).deps.Drain = func(_ context.Context, on bool) error {
			return l.does(fmt.Sprintf("%s: drain %t", name, on), own, func() error {
				l.mu.Lock()
				defer l.mu.Unlock()
				drained[name] = on
				return nil
			})
		}
		(*g).deps.Update = func(ctx context.Context, to string) error {
			return l.does(name+": update", own, func() error { return upgrades.Begin(ctx, machine, version{Version: to}, "") })
		}
		*g = (*g).again(t, "1.0.0")
	}
	primary.begin(t, standby)
	wished := func(g *gate) bool {
		last, err := upgrades.Last(g.Machine)
		return err == nil && last.State == job.Running
	}
	over := func() bool { return primary.rolling(t).Phase == cluster.Idle }
	for !over() {
		dead, end := l.lead(primary)
		waittest.Until(t, "it dies, or has something to wait for", func() bool {
			select {
			case <-dead:
				return true
			default:
				return wished(standby) || wished(primary) || over()
			}
		})
		end()
		u := primary.rolling(t)
		if u.Phase == cluster.UpdateFailed || u.Error != "" || u.Phase != cluster.Idle && (u.From != "1.0.0" || u.To != "1.1.0") {
			t.Fatalf("%+v", u)
		}
		switch {
		case wished(standby):
			if u.Phase != cluster.UpdatingSecondary && u.Phase != cluster.WaitingSecondary || wished(primary) || primary.Version != "1.0.0" {
				t.Errorf("%+v", u)
			}
			standby = standby.fakeUpgradeUnit(t)
		case wished(primary):
			if u.Phase != cluster.UpdatingPrimary || standby.Version != "1.1.0" {
				t.Errorf("%+v", u)
			}
			primary = primary.fakeUpgradeUnit(t)
		default:
			primary = primary.again(t, primary.Version)
		}
	}
	if primary.Version != "1.1.0" || standby.Version != "1.1.0" || drained[primary.me.Name] || drained[standby.me.Name] {
		t.Errorf("%s and %s, drained: %v", primary.Version, standby.Version, drained)
	}
	for _, name := range []string{primary.me.Name, standby.me.Name} {
		if l.begun[name+": update"] != 2 || l.begun[name+": drain true"] < 3 || l.begun[name+": drain false"] < 3 {
			t.Errorf("what was begun: %v", l.begun)
		}
	}
	if l.deaths != 12 {
		t.Errorf("it has died %d times", l.deaths)
	}
	well(t, primary)
}

// A standby that does not reach the new version stops the update, with a reason, and the primary is untouched.
func TestRollingUpdateStops(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	untouched := func() {
		t.Helper()
		if last, err := upgrades.Last(primary.Machine); err == nil {
			t.Errorf("%+v", last)
		}
	}
	primary.begin(t, standby)
	kill := primary.roll(t)
	primary.reaches(t, cluster.WaitingSecondary)
	primary.Machine.SetResources(host.Resources{Uptime: 10*time.Minute + time.Second})
	u := primary.reaches(t, cluster.UpdateFailed)
	if u.Node != standby.me.Name || !strings.Contains(u.Error, "not within 10m0s: it runs version 1.0.0") {
		t.Errorf("%+v", u)
	}
	untouched()
	var seen cluster.RollingUpdate
	for _, g := range []*gate{primary, standby} {
		g.Do(t, "viewer", http.MethodGet, "/cluster/rolling-update", nil).Want(t, 200).Into(t, &seen)
		if seen.Phase != cluster.UpdateFailed || seen.Error != "" {
			t.Errorf("%+v", seen)
		}
	}
	kill()
	primary = primary.again(t, "1.0.0")
	if now := primary.rolling(t); now.Phase != cluster.UpdateFailed || now.Error != u.Error {
		t.Errorf("%+v", now)
	}

	// After another start, the standby's upgrade is reverted: that is noticed at once.
	standby.Machine.SetJob(job.Upgrade, upgrade{Record: job.Record{ID: "first", State: job.Refused}, To: "1.1.0"})
	primary.begin(t, standby)
	primary.roll(t)
	primary.reaches(t, cluster.WaitingSecondary)
	waittest.Until(t, "an upgrade is asked for", func() bool {
		last, err := upgrades.Last(standby.Machine)
		return err == nil && last.State == job.Running
	})
	standby.Machine.SetJob(job.Upgrade, upgrade{Record: job.Record{ID: "wish", State: job.TakenBack, Reason: "It did not serve."}, To: "1.1.0"})
	if u := primary.reaches(t, cluster.UpdateFailed); !strings.Contains(u.Error, "was taken back: It did not serve.") {
		t.Errorf("%+v", u)
	}
	untouched()
}

// Nodes are not updated while one of them is unhealthy.
func TestRollingUpdateRefused(t *testing.T) {
	t.Parallel()
	primary, standby := gates(t)
	refused := func(g *gate, status int, word string) {
		t.Helper()
		if a := g.Do(t, "admin", http.MethodPost, "/cluster/rolling-update", nil).Want(t, status); !strings.Contains(string(a.Body), word) {
			t.Errorf("not about %s: %s", word, a.Body)
		}
		if u := g.rolling(t); u.Phase != cluster.Idle {
			t.Errorf("%+v", u)
		}
	}
	refused(primary, 409, "not in a cluster")
	if err := standby.join(t, primary, primary.token(t, standby.me.Name).Token); err != nil {
		t.Fatal(err)
	}
	well(t, primary)
	primary.Do(t, "viewer", http.MethodPost, "/cluster/rolling-update", nil).Want(t, 403)
	refused(standby, 503, primary.me.Name)
	refused(primary, 409, "latest version")
	primary.offer("1.1.0")
	refused(primary, 409, "no newer version")
	standby.offer("1.2.0")
	refused(primary, 409, "version 1.2.0")
	standby.offer("1.1.0")
	standby.Machine.SetJob(job.Upgrade, job.Record{ID: "1", State: job.Running})
	refused(primary, 409, "already running")
	standby = standby.again(t, "0.9.0")
	standby.Machine.SetJob(job.Upgrade, nil)
	refused(primary, 409, "runs version 0.9.0")
	standby.shut()
	refused(primary, 409, "does not answer")
}
