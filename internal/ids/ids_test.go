package ids_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/ids"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/hosttest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/waittest"
)

// world stands in for the other rooms.
type world struct {
	mu        sync.Mutex
	operators []netip.Addr
	drops     chan []ids.Drop
}

func (w *world) set(operators ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.operators = nil
	for _, o := range operators {
		w.operators = append(w.operators, netip.MustParseAddr(o))
	}
}

func bench(t *testing.T) (*kittest.Bench, *ids.Room, *world) {
	t.Helper()
	b := kittest.New(t)
	room, w := on(t, b)
	return b, room, w
}

// on runs the room on a bench.
func on(t *testing.T, b *kittest.Bench) (*ids.Room, *world) {
	t.Helper()
	w := &world{drops: make(chan []ids.Drop)}
	none := func(context.Context, db.Querier) ([]netip.Addr, error) { return nil, nil }
	room := ids.New(b.Kit, ids.Deps{
		Addresses: func(context.Context, db.Querier) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("203.0.113.1")}, nil
		},
		Peers: none,
		Proxies: func(context.Context, db.Querier) ([]netip.Prefix, error) {
			return []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15")}, nil
		},
		Operators: func(context.Context) ([]netip.Addr, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.operators, nil
		},
		Drops: func(ctx context.Context, emit func([]ids.Drop)) error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case d := <-w.drops:
					emit(d)
				}
			}
		},
	})
	room.Mount()
	b.Resources.MountChangeSets()
	b.Start(t)
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatalf("not live at start: %v", failed)
	}
	return room, w
}

// enabled returns a bench with everything on.
func enabled(t *testing.T) (*kittest.Bench, *ids.Room, *world) {
	t.Helper()
	b, room, w := bench(t)
	b.Do(t, "admin", http.MethodPut, "/ids/settings", `{"enabled":true}`).Want(t, 200)
	for _, id := range []apply.ID{apply.Detection, apply.Bouncer} {
		if s := b.Engine.Refresh(t.Context(), id, false); s.State != apply.Live {
			t.Fatalf("%s: %+v", id, s)
		}
	}
	return b, room, w
}

func active(b *kittest.Bench, u host.Unit) bool {
	state, err := b.Machine.State(context.Background(), u)
	return err == nil && state.Active == "active"
}

func file(t *testing.T, b *kittest.Bench, p host.Place) string {
	t.Helper()
	content, err := b.Machine.Read(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestSettingsDecideWhatRuns(t *testing.T) {
	b, _, _ := bench(t)
	if active(b, crowdsec.Unit) || active(b, crowdsec.Bouncer) {
		t.Fatal("something runs that was not switched on")
	}
	a := b.Do(t, "admin", http.MethodPut, "/ids/settings", `{"enabled":true}`).Want(t, 200)
	if got := a.Header.Get("Gateway-Apply"); !strings.Contains(got, "ids=live") {
		t.Fatalf("apply: %q", got)
	}
	// CrowdSec has created a key for the bouncer, which then starts.
	waittest.Until(t, "the bouncer", func() bool { return active(b, crowdsec.Bouncer) })
	if !b.Machine.Enabled(crowdsec.Unit) || !b.Machine.Enabled(crowdsec.Bouncer) {
		t.Fatal("they do not start with the machine")
	}
	names := b.Machine.DetectionBouncers()
	if len(names) != 2 || names[0] != "gateway" || names[1] != "gateway-firewall" {
		t.Fatalf("%q", names)
	}
	// Another duration is another profile, and nothing else.
	restarts := b.Machine.Restarts(crowdsec.Unit)
	b.Do(t, "admin", http.MethodPut, "/ids/settings", `{"ban_duration":"2d"}`).Want(t, 200)
	if got := file(t, b, crowdsec.Profiles); !strings.Contains(got, `"duration": "48h"`) || b.Machine.Restarts(crowdsec.Unit) != restarts+1 {
		t.Fatalf("%d restarts\n%s", b.Machine.Restarts(crowdsec.Unit)-restarts, got)
	}
	// Notes are only for people.
	b.Do(t, "admin", http.MethodPut, "/ids/settings", `{"allow_list":[{"cidr":"198.51.100.7/24","note":"the \"office\""}]}`).Want(t, 200)
	restarts = b.Machine.Restarts(crowdsec.Unit)
	b.Do(t, "admin", http.MethodPut, "/ids/settings", `{"allow_list":[{"cidr":"198.51.100.0/24","note":"another office"}]}`).Want(t, 200)
	if got := file(t, b, crowdsec.AllowList); !strings.Contains(got, `"198.51.100.0/24"`) || strings.Contains(got, "office") || b.Machine.Restarts(crowdsec.Unit) != restarts {
		t.Fatalf("%d restarts\n%s", b.Machine.Restarts(crowdsec.Unit)-restarts, got)
	}
	for _, always := range []string{`"127.0.0.0/8"`, `"::1/128"`, `"203.0.113.1/32"`} {
		if got := file(t, b, crowdsec.AllowList); !strings.Contains(got, always) {
			t.Errorf("%s may be banned:\n%s", always, got)
		}
	}
	b.Do(t, "admin", http.MethodPut, "/ids/settings", `{"blocking":false}`).Want(t, 200)
	if active(b, crowdsec.Bouncer) || !active(b, crowdsec.Unit) {
		t.Fatal("the bouncer runs, or CrowdSec does not")
	}
	b.Do(t, "admin", http.MethodPut, "/ids/settings", `{"enabled":false,"blocking":true}`).Want(t, 200)
	if active(b, crowdsec.Bouncer) || active(b, crowdsec.Unit) || b.Machine.Enabled(crowdsec.Unit) {
		t.Fatal("something runs still")
	}
}

// The bouncer waits for a CrowdSec that is started at the same time.
func TestBothStartTogether(t *testing.T) {
	b, _, _ := enabled(t)
	for range 20 {
		b.Do(t, "admin", http.MethodPut, "/ids/settings", `{"enabled":false}`).Want(t, 200)
		a := b.Do(t, "admin", http.MethodPut, "/ids/settings", `{"enabled":true}`).Want(t, 200)
		if got := a.Header.Get("Gateway-Apply"); got != "ids=live, ids-firewall-bouncer=live" {
			t.Fatalf("apply: %q", got)
		}
	}
}

func TestBadSettings(t *testing.T) {
	b, _, _ := bench(t)
	for body, name := range map[string]string{
		`{"ban_duration":"4"}`:                                          "ban_duration",
		`{"ban_duration":"0h"}`:                                         "ban_duration",
		`{"ban_duration":"30s"}`:                                        "ban_duration",
		`{"ban_duration":"366d"}`:                                       "ban_duration",
		`{"ban_duration":"1h30m"}`:                                      "ban_duration",
		`{"ban_duration":""}`:                                           "ban_duration",
		`{"allow_list":[{"cidr":"0.0.0.0/0"}]}`:                         "allow_list",
		`{"allow_list":[{"cidr":"192.0.2.1"},{"cidr":"192.0.2.1/32"}]}`: "allow_list",
		`{"allow_list":[{"note":"nothing"}]}`:                           "allow_list",
		`{"allow_list":[{"cidr":"example.net"}]}`:                       "allow_list",
		`{"allow_list":[{"cidr":"192.0.2.1","note":"two\nlines"}]}`:     "allow_list",
		`{"sources":{"telnet":true}}`:                                   "sources",
		`{"allow_list":[{"cidr":"192.0.2.1","note":"` + strings.Repeat("x", 201) + `"}]}`: "allow_list",
	} {
		b.Do(t, "admin", http.MethodPut, "/ids/settings", body).WantField(t, name)
	}
}

// Without the package everything reports that, and nothing fails.
func TestNotInstalled(t *testing.T) {
	b, _, _ := bench(t)
	b.Machine.Uninstall(crowdsec.Unit)
	b.Machine.Uninstall(crowdsec.Bouncer)
	for _, c := range []host.Command{crowdsec.Bouncers, crowdsec.Machines, crowdsec.Collections, crowdsec.BouncerAdd, crowdsec.MachineAdd} {
		b.Machine.Missing(c)
	}
	a := b.Do(t, "admin", http.MethodPut, "/ids/settings", `{"enabled":true}`).Want(t, 200)
	if got := a.Header.Get("Gateway-Apply"); got != "ids=not_installed, ids-firewall-bouncer=not_installed" {
		t.Fatalf("apply: %q", got)
	}
	var s ids.Status
	b.Get(t, "/ids/status").Want(t, 200).Into(t, &s)
	if s.Agent.State != "not_installed" || s.FirewallBouncer.State != "not_installed" || s.Error != "CrowdSec is not installed." {
		t.Fatalf("%+v", s)
	}
	for _, path := range []string{"/ids/bouncers", "/ids/machines", "/ids/collections"} {
		if a := b.Get(t, path).Want(t, 200); !strings.Contains(string(a.Data), `"error":"CrowdSec is not installed."`) {
			t.Errorf("%s: %s", path, a.Data)
		}
	}
	for _, path := range []string{"/ids/decisions", "/ids/alerts"} {
		if a := b.Get(t, path).Want(t, 200); !strings.Contains(string(a.Data), `"error":"CrowdSec is not running."`) {
			t.Errorf("%s: %s", path, a.Data)
		}
	}
	b.Do(t, "admin", http.MethodPost, "/ids/decisions", `{"value":"192.0.2.9"}`).Want(t, 503)
	b.Do(t, "admin", http.MethodPost, "/ids/bouncers", `{"name":"edge"}`).Want(t, 503)
}

// If systemd does not answer, a daemon's state is unknown, not failed.
func TestDaemonsThatAreUnknown(t *testing.T) {
	b, _, _ := bench(t)
	b.Machine.Break(errors.New("systemd is away"))
	var s ids.Status
	b.Do(t, "viewer", http.MethodGet, "/ids/status", nil).Want(t, 200).Into(t, &s)
	unknown := ids.Daemon{State: "unknown", Detail: "The service manager could not be asked."}
	if s.Agent != unknown || s.FirewallBouncer != unknown || s.Error != unknown.Detail {
		t.Errorf("%+v", s)
	}
}

func TestTrustedProxiesAreAllowed(t *testing.T) {
	b, _, _ := enabled(t)
	if list := file(t, b, crowdsec.AllowList); !strings.Contains(list, `"198.18.0.0/15"`) {
		t.Error(list)
	}
	b.Do(t, "admin", http.MethodPost, "/ids/decisions", `{"value":"198.18.0.9"}`).Want(t, 400)
}

// CrowdSec runs with what was on disk when it was started.
func TestVerify(t *testing.T) {
	b, _, _ := enabled(t)
	restarts := b.Machine.Restarts(crowdsec.Unit)
	again := func() {
		t.Helper()
		if s := b.Engine.Refresh(t.Context(), apply.Detection, false); s.State != apply.Live {
			t.Fatalf("%+v", s)
		}
	}
	if again(); b.Machine.Restarts(crowdsec.Unit) != restarts {
		t.Fatalf("%d restarts more", b.Machine.Restarts(crowdsec.Unit)-restarts)
	}
	// Started before that, it has other files.
	b.Machine.SetUnit(host.UnitState{Unit: crowdsec.Unit, Installed: true, Active: "active", Since: time.Now().Add(-time.Hour), PID: 1})
	if again(); b.Machine.Restarts(crowdsec.Unit) == restarts {
		t.Fatal("it goes on with other files")
	}
	// It has lost its accounts: they are created again, and the bouncer gets its new key.
	was := file(t, b, crowdsec.BouncerConfig)
	b.Machine.ForgetDetectionAccount("gateway")
	b.Machine.ForgetDetectionAccount("gateway-firewall")
	again()
	waittest.Until(t, "another key", func() bool { return file(t, b, crowdsec.BouncerConfig) != was })
	b.Do(t, "admin", http.MethodPost, "/ids/decisions", `{"value":"192.0.2.9"}`).Want(t, 201)
}

func TestDecisions(t *testing.T) {
	b, _, w := enabled(t)
	var made ids.Decision
	b.Do(t, "admin", http.MethodPost, "/ids/decisions", `{"value":"192.0.2.9","duration":"2h","reason":"knocks \"too\" often"}`).Want(t, 201).Into(t, &made)
	if made.Value != "192.0.2.9" || made.Origin != "gateway" || made.Reason != `knocks "too" often` || !made.Enforced || time.Until(made.ExpiresAt) < time.Hour {
		t.Fatalf("%+v", made)
	}
	b.Machine.Decide(hosttest.Decision{ID: 40, Origin: "CAPI", Type: "ban", Scope: "Range", Value: "198.18.0.0/15", Duration: "3h0m0.5s", Scenario: "a list"})
	b.Machine.Decide(hosttest.Decision{ID: 41, Origin: "crowdsec", Type: "ban", Scope: "Ip", Value: "192.0.2.10", Duration: "-5s", Scenario: "crowdsecurity/ssh-bf"})
	list := func(query string) (l ids.Decisions) {
		t.Helper()
		b.Get(t, "/ids/decisions"+query).Want(t, 200).Into(t, &l)
		return l
	}
	if l := list(""); l.Total != 2 || l.Decisions[0].ID != 40 || l.Decisions[0].Enforced {
		t.Fatalf("%+v", l)
	}
	for query, want := range map[string]int{"?origin=CAPI": 1, "?search=KNOCKS": 1, "?search=198.19.3.4": 1, "?search=203.0.113.200": 0, "?limit=1": 2} {
		if l := list(query); l.Total != want {
			t.Errorf("%s: %+v", query, l)
		}
	}
	if l := list("?limit=1"); len(l.Decisions) != 1 {
		t.Errorf("%+v", l)
	}
	var s ids.Status
	b.Get(t, "/ids/status").Want(t, 200).Into(t, &s)
	if s.Decisions != 2 || s.Origins["gateway"] != 1 || s.Agent.State != "running" || s.FirewallBouncer.State != "running" || s.Error != "" {
		t.Errorf("%+v", s)
	}
	path := fmt.Sprintf("/ids/decisions/%d", made.ID)
	b.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 200)
	for _, gone := range []string{path, "/ids/decisions/41", "/ids/decisions/x", "/ids/decisions/040", "/ids/decisions/-1"} {
		b.Do(t, "admin", http.MethodDelete, gone, nil).Want(t, 404)
	}
	for action, times := range map[string]int{"ids.decision.create": 1, "ids.decision.delete": 1} {
		if n := b.Audited(t, action); n != times {
			t.Errorf("%s audited %d times", action, n)
		}
	}

	// Which addresses are never banned, and which need a confirmation.
	b.Do(t, "admin", http.MethodPut, "/ids/settings", `{"allow_list":[{"cidr":"198.51.100.0/24"}]}`).Want(t, 200)
	for _, never := range []string{"198.51.100.77", "203.0.113.1", "127.0.0.1", "::1", "0.0.0.0", "224.0.0.1", "not an address", "192.0.2.0/24", ""} {
		body, err := json.Marshal(map[string]any{"value": never, "confirm": true})
		if err != nil {
			t.Fatal(err)
		}
		b.Do(t, "admin", http.MethodPost, "/ids/decisions", string(body)).WantField(t, "value")
	}
	w.set("192.0.2.44")
	if a := b.Do(t, "admin", http.MethodPost, "/ids/decisions", `{"value":"192.0.2.44"}`).Want(t, 409); !strings.Contains(a.Error.Message, "confirm") {
		t.Fatalf("%s", a.Body)
	}
	b.Do(t, "admin", http.MethodPost, "/ids/decisions", `{"value":"192.0.2.44","confirm":true}`).Want(t, 201)
	b.Do(t, "admin", http.MethodPost, "/ids/decisions", `{"value":"192.0.2.45","duration":"1s"}`).WantField(t, "duration")
	b.Do(t, "admin", http.MethodPost, "/ids/decisions", `{"value":"192.0.2.45","reason":"`+strings.Repeat("x", 201)+`"}`).WantField(t, "reason")
	b.Get(t, "/ids/decisions?limit=5001").WantField(t, "limit")
	b.Do(t, "viewer", http.MethodPost, "/ids/decisions", `{"value":"192.0.2.45"}`).Want(t, 403)
}

// A ban is enforced when the kernel says so. Tables that were removed behind the bouncer's back are created again.
func TestEnforcedIsWhatTheKernelDrops(t *testing.T) {
	b, _, _ := enabled(t)
	enforced := func() bool {
		t.Helper()
		var l ids.Decisions
		b.Get(t, "/ids/decisions").Want(t, 200).Into(t, &l)
		return l.Decisions[0].Enforced
	}
	b.Do(t, "admin", http.MethodPost, "/ids/decisions", `{"value":"192.0.2.9"}`).Want(t, 201)
	if !enforced() {
		t.Error("the kernel drops it, and this is not said")
	}
	restarts := b.Machine.Restarts(crowdsec.Bouncer)
	b.Machine.FlushDetectionTables()
	if enforced() {
		t.Error("the kernel drops nothing")
	}
	if s := b.Engine.Refresh(t.Context(), apply.Bouncer, false); s.State != apply.Live || b.Machine.Restarts(crowdsec.Bouncer) != restarts+1 || !enforced() {
		t.Errorf("%+v", s)
	}
}

// The bouncer may be started before CrowdSec knows the account that asks it about administrators.
func TestBouncerAwaitsTheAccounts(t *testing.T) {
	b, _, w := enabled(t)
	w.set("192.0.2.44")
	b.Machine.ForgetDetectionAccount("gateway")
	restarts := b.Machine.Restarts(crowdsec.Bouncer)
	if s := b.Engine.Refresh(t.Context(), apply.Bouncer, false); s.State != apply.Live || b.Machine.Restarts(crowdsec.Bouncer) != restarts {
		t.Errorf("%+v", s)
	}
	b.Machine.FlushDetectionTables()
	done := make(chan apply.Status)
	go func() { done <- b.Engine.Refresh(t.Context(), apply.Bouncer, false) }()
	waittest.Until(t, "the bouncer is restarted", func() bool { return b.Machine.Restarts(crowdsec.Bouncer) > restarts })
	if s := b.Engine.Refresh(t.Context(), apply.Detection, false); s.State != apply.Live {
		t.Errorf("%+v", s)
	}
	if s := <-done; s.State != apply.Live || !slices.Equal(b.Machine.DetectionSpared(), []netip.Addr{netip.MustParseAddr("192.0.2.44")}) {
		t.Errorf("%+v", s)
	}
}

const alert = `{"capacity":5,"created_at":"2026-11-16T05:42:31Z","decisions":[{"duration":"3h59m56s","id":3},{"duration":"-1h","id":2}],"events":[{"meta":[{"key":"service","value":"ssh"},{"key":"target_uri","value":"/a?q=hunter2#22x"},{"key":"source_ip","value":"192.0.2.77"}],"timestamp":"2026-11-16 05:42:31 +0000 UTC"}],"events_count":6,"id":3,"machine_id":"agent","message":"Ip 192.0.2.77 performed 'crowdsecurity/ssh-bf'","scenario":"crowdsecurity/ssh-bf","source":{"ip":"192.0.2.77","scope":"Ip","value":"192.0.2.77"},"start_at":"2026-11-16 05:42:31.234383014 +0000 UTC","stop_at":"2026-11-16T05:42:32Z"}`

func TestAlerts(t *testing.T) {
	b, _, _ := enabled(t)
	b.Machine.SetDetectionAlerts(alert)
	b.Machine.Decide(hosttest.Decision{ID: 3, Origin: "crowdsec", Type: "ban", Scope: "Ip", Value: "192.0.2.77", Duration: "3h59m56s", Scenario: "crowdsecurity/ssh-bf"})
	var list ids.Alerts
	b.Get(t, "/ids/alerts?address=192.0.2.77&scenario=crowdsecurity/ssh-bf&hours=24&limit=10").Want(t, 200).Into(t, &list)
	if len(list.Alerts) != 1 || list.Error != "" {
		t.Fatalf("%+v", list)
	}
	if a := list.Alerts[0]; a.ID != 3 || a.Decisions != 1 || a.Value != "192.0.2.77" || a.StartedAt.Nanosecond() != 234383000 || a.StoppedAt.Second() != 32 || a.Events != 6 {
		t.Errorf("%+v", a)
	}
	var one ids.AlertDetails
	b.Get(t, "/ids/alerts/3").Want(t, 200).Into(t, &one)
	if len(one.EventList) != 1 || one.EventList[0].Meta["service"] != "ssh" || one.EventList[0].Meta["target_uri"] != "/a?…" || len(one.Decided) != 1 || one.Decided[0].ID != 3 {
		t.Errorf("%+v", one)
	}
	for _, none := range []string{"/ids/alerts/4", "/ids/alerts/x", "/ids/alerts/-1"} {
		b.Get(t, none).Want(t, 404)
	}
	b.Get(t, "/ids/alerts?limit=1001").WantField(t, "limit")
	b.Get(t, "/ids/alerts?address=x").WantField(t, "address")
	// It logs in once.
	if n := b.Machine.DetectionAsked(crowdsec.Login); n != 1 {
		t.Errorf("%d logins", n)
	}
}

// While CrowdSec does not run, a request for an alert is answered with the reason.
func TestAlertWithoutCrowdSec(t *testing.T) {
	b, room, _ := enabled(t)
	b.Machine.SetDetectionAlerts(alert)
	if err := room.Switch(call(t), resource.Alias{}, false); err != nil {
		t.Fatal(err)
	}
	var one ids.AlertDetails
	b.Do(t, "viewer", http.MethodGet, "/ids/alerts/3", nil).Want(t, 200).Into(t, &one)
	if one.ID != 3 || one.Error != "CrowdSec is not running." || one.EventList == nil || one.Decided == nil {
		t.Errorf("%+v", one)
	}
}

// Repeated requests do not each ask CrowdSec, and an operator's change is visible at once.
func TestAnswersAreShared(t *testing.T) {
	b, _, _ := enabled(t)
	b.Machine.SetDetectionAlerts(alert)
	for path, verb := range map[string]crowdsec.Verb{
		"/ids/decisions?search=x": crowdsec.Decisions, "/ids/status": crowdsec.Decisions, "/ids/alerts": crowdsec.Alerts, "/ids/alerts/3": crowdsec.Alert,
	} {
		before := b.Machine.DetectionAsked(verb)
		const many = 20
		for range many {
			b.Do(t, "viewer", http.MethodGet, path, nil).Want(t, 200)
		}
		if n := b.Machine.DetectionAsked(verb) - before; n > many/2 { // answers are cached for seconds
			t.Errorf("%s: asked %d times", path, n)
		}
	}
	count := func(want int) {
		t.Helper()
		var list ids.Decisions
		if b.Get(t, "/ids/decisions").Want(t, 200).Into(t, &list); list.Total != want {
			t.Errorf("%d instead of %d: %+v", list.Total, want, list)
		}
	}
	count(0)
	var made ids.Decision
	b.Do(t, "admin", http.MethodPost, "/ids/decisions", `{"value":"192.0.2.9"}`).Want(t, 201).Into(t, &made)
	count(1)
	b.Do(t, "admin", http.MethodDelete, fmt.Sprintf("/ids/decisions/%d", made.ID), nil).Want(t, 200)
	count(0)
}

// CrowdSec's tool is slow: everyone is answered in time, and however many ask, only one process runs.
func TestSlowToolIsAskedOnce(t *testing.T) {
	b, _, _ := enabled(t)
	for path, command := range map[string]host.Command{"/ids/bouncers": crowdsec.Bouncers, "/ids/machines": crowdsec.Machines, "/ids/collections": crowdsec.Collections} {
		var running, most atomic.Int32
		let := make(chan struct{})
		b.Machine.Script(command, func(context.Context, host.Input) (host.Output, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-let
			return host.Output{Stdout: "null"}, nil
		})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if a := b.Do(t, "viewer", http.MethodGet, path, nil).Want(t, 200); !strings.Contains(string(a.Data), "did not answer in time") {
					t.Errorf("%s: %s", path, a.Data)
				}
			})
		}
		all.Wait()
		close(let)
		if most.Load() != 1 {
			t.Errorf("%s: %d at once", path, most.Load())
		}
	}
}

func TestBouncers(t *testing.T) {
	b, _, _ := enabled(t)
	a := b.Do(t, "admin", http.MethodPost, "/ids/bouncers", `{"name":"edge-proxy"}`).Want(t, 201)
	var made ids.MadeBouncer
	a.Into(t, &made)
	if made.Name != "edge-proxy" || made.Key == "" {
		t.Fatalf("%s", a.Body)
	}
	b.Do(t, "admin", http.MethodPost, "/ids/bouncers", `{"name":"edge-proxy"}`).WantTaken(t, "name")
	for _, bad := range []string{"", "Upper", "-x", "--force", "a b", "a;b", "gateway", "gateway-firewall", strings.Repeat("a", 65)} {
		body, err := json.Marshal(map[string]string{"name": bad})
		if err != nil {
			t.Fatal(err)
		}
		b.Do(t, "admin", http.MethodPost, "/ids/bouncers", string(body)).WantField(t, "name")
	}
	list := b.Get(t, "/ids/bouncers").Want(t, 200)
	var all ids.Bouncers
	list.Into(t, &all)
	if len(all.Bouncers) != 3 || all.Bouncers[0].Name != "edge-proxy" || all.Bouncers[0].Own || !all.Bouncers[1].Own || all.Bouncers[0].LastPull != nil {
		t.Errorf("%+v", all)
	}
	if strings.Contains(string(list.Body), made.Key) || strings.Contains(string(list.Body), "hash") {
		t.Error("a key is shown again")
	}
	b.Do(t, "admin", http.MethodDelete, "/ids/bouncers/gateway-firewall", nil).Want(t, 409)
	b.Do(t, "admin", http.MethodDelete, "/ids/bouncers/unknown", nil).Want(t, 404)
	b.Do(t, "admin", http.MethodDelete, "/ids/bouncers/edge-proxy", nil).Want(t, 200)
	b.Do(t, "admin", http.MethodDelete, "/ids/bouncers/edge-proxy", nil).Want(t, 404)
	// A bouncer created by the bouncer's package.
	if _, err := b.Machine.Run(t.Context(), crowdsec.BouncerAdd, host.Input{Args: []string{"FirewallBouncer-C4gc9MA"}}); err != nil {
		t.Fatal(err)
	}
	b.Do(t, "admin", http.MethodDelete, "/ids/bouncers/FirewallBouncer-C4gc9MA", nil).Want(t, 200)
	for action, times := range map[string]int{"ids.bouncer.create": 1, "ids.bouncer.delete": 2} {
		if n := b.Audited(t, action); n != times {
			t.Errorf("%s audited %d times", action, n)
		}
	}
}

func TestMachinesAndCollections(t *testing.T) {
	b, _, _ := bench(t)
	b.Machine.Say(crowdsec.Machines, `[{"id":1,"last_heartbeat":"2026-11-16T05:42:01.3Z","machineId":"agent","ipAddress":"127.0.0.1","version":"v1.4.6","isValidated":true},{"machineId":"gateway","isValidated":true}]`)
	b.Machine.Say(crowdsec.Collections, `{"collections":[{"name":"crowdsecurity/sshd","local_version":"0.2","local_path":"/etc/x","description":"sshd support","utf8_status":"x","status":"enabled"}]}`)
	var machines ids.Machines
	b.Get(t, "/ids/machines").Want(t, 200).Into(t, &machines)
	if m := machines.Machines; len(m) != 2 || m[0].Own || !m[1].Own || m[1].LastHeartbeat != nil || m[0].LastHeartbeat == nil || m[0].Version != "v1.4.6" {
		t.Errorf("%+v", machines)
	}
	var collections ids.Collections
	b.Get(t, "/ids/collections").Want(t, 200).Into(t, &collections)
	if c := collections.Collections; len(c) != 1 || c[0] != (ids.Collection{Name: "crowdsecurity/sshd", Version: "0.2", Description: "sshd support", Status: "enabled"}) {
		t.Errorf("%+v", collections)
	}
	b, _, _ = bench(t) // answers are cached for a while
	b.Machine.Reject(crowdsec.Collections, `{"level":"fatal","msg":"the hub is broken","time":"x"}`)
	if a := b.Get(t, "/ids/collections").Want(t, 200); !strings.Contains(string(a.Data), "CrowdSec could not be asked. It said: cscli: the hub is broken") {
		t.Errorf("%s", a.Data)
	}
	if a := b.Do(t, "viewer", http.MethodGet, "/ids/collections", nil).Want(t, 200); !strings.Contains(string(a.Data), `"error":"CrowdSec could not be asked."`) {
		t.Errorf("%s", a.Data)
	}
}

// A ban from a log does not hit a logged-in administrator or the allow-list; operators' decisions stay.
func TestBansOfAdministratorsAreUndone(t *testing.T) {
	b, room, w := enabled(t)
	b.Do(t, "admin", http.MethodPut, "/ids/settings", `{"allow_list":[{"cidr":"198.51.100.0/24"}]}`).Want(t, 200)
	w.set("192.0.2.44", "2001:db8::44")
	b.Machine.Decide(hosttest.Decision{ID: 100, Origin: "gateway", Type: "ban", Scope: "Ip", Value: "192.0.2.44", Duration: "4h", Scenario: "confirmed"})
	b.Machine.Decide(hosttest.Decision{ID: 101, Origin: "crowdsec", Type: "ban", Scope: "Ip", Value: "192.0.2.44", Duration: "4h", Scenario: "crowdsecurity/ssh-bf"})
	b.Machine.Decide(hosttest.Decision{ID: 102, Origin: "CAPI", Type: "ban", Scope: "Range", Value: "2001:db8::/32", Duration: "4h", Scenario: "a list"})
	b.Machine.Decide(hosttest.Decision{ID: 103, Origin: "lists", Type: "ban", Scope: "Ip", Value: "198.51.100.9", Duration: "4h", Scenario: "a list"})
	b.Machine.Decide(hosttest.Decision{ID: 104, Origin: "crowdsec", Type: "ban", Scope: "Ip", Value: "192.0.2.45", Duration: "4h", Scenario: "crowdsecurity/ssh-bf"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); room.Run(ctx) }()
	waittest.Until(t, "two decisions", func() bool { return len(b.Machine.Decisions()) == 2 })
	for _, d := range b.Machine.Decisions() {
		if d.ID != 100 && d.ID != 104 {
			t.Errorf("%+v is left", d)
		}
	}
	// Packets of addresses banned by an operator are dropped, those of the others are not.
	waittest.Until(t, "one is spared", func() bool {
		return slices.Equal(b.Machine.DetectionSpared(), []netip.Addr{netip.MustParseAddr("2001:db8::44")})
	})
	// The same for one that comes later.
	b.Machine.Decide(hosttest.Decision{ID: 105, Origin: "crowdsec", Type: "ban", Scope: "Ip", Value: "192.0.2.44", Duration: "4h", Scenario: "crowdsecurity/ssh-bf"})
	waittest.Until(t, "two decisions again", func() bool { return len(b.Machine.Decisions()) == 2 })
	// Those who are present are spared, even with another bouncer.
	w.set("192.0.2.46")
	waittest.Until(t, "another one is spared", func() bool {
		return slices.Equal(b.Machine.DetectionSpared(), []netip.Addr{netip.MustParseAddr("192.0.2.46")})
	})
	if err := b.Machine.DetectionSpare(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Machine.Restart(ctx, crowdsec.Bouncer); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "it is spared again", func() bool { return len(b.Machine.DetectionSpared()) == 1 })
	cancel()
	<-done
	if n := b.Audited(t, "ids.decision.undo"); n != 4 {
		t.Errorf("audited %d times", n)
	}
}

// While this is wanted, dropped packets are logged for CrowdSec.
func TestDropsAreLogged(t *testing.T) {
	b, room, w := enabled(t)
	b.Do(t, "admin", http.MethodPut, "/ids/settings", `{"sources":{"packet_filter":true}}`).Want(t, 200)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); room.Run(ctx) }()
	drop := ids.Drop{At: time.Now().Add(time.Hour), Source: netip.MustParseAddr("192.0.2.9"), Destination: netip.MustParseAddr("203.0.113.1"), Proto: "tcp", Port: 23}
	old := drop
	old.At = time.Now().Add(-time.Hour)
	w.drops <- []ids.Drop{old, drop}
	w.drops <- nil // the first are written
	cancel()
	<-done
	content, err := os.ReadFile(b.Paths.Log("drops.json"))
	if err != nil {
		t.Fatal(err)
	}
	var line struct{ Time, Source, Destination string }
	if err := json.Unmarshal(content, &line); err != nil || line.Source != "192.0.2.9" || line.Destination != "203.0.113.1/tcp/23" {
		t.Fatalf("%v: %s", err, content)
	}
}

// The system's switches change these settings.
func call(t *testing.T) *httpd.Call {
	return httpd.NewCall(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil).WithContext(t.Context()))
}

func TestSwitches(t *testing.T) {
	b, room, _ := enabled(t)
	if note, err := room.SwitchBouncer(call(t), resource.Alias{}, false); err != nil || note != "" {
		t.Fatal(note, err)
	}
	if active(b, crowdsec.Bouncer) || !active(b, crowdsec.Unit) {
		t.Fatal("not the bouncer alone")
	}
	if err := room.Switch(call(t), resource.Alias{}, false); err != nil {
		t.Fatal(err)
	}
	var s ids.Settings
	b.Get(t, "/ids/settings").Want(t, 200).Into(t, &s)
	if active(b, crowdsec.Unit) || s.Enabled || s.Blocking || !s.Sources.SSH {
		t.Fatalf("%+v", s)
	}
	for _, status := range b.Engine.Statuses() {
		if status.State != apply.Live || status.Daemon != apply.Off {
			t.Errorf("%+v", status)
		}
	}
	if note, err := room.SwitchBouncer(call(t), resource.Alias{}, true); err != nil || !strings.Contains(note, "when CrowdSec is turned on") || active(b, crowdsec.Bouncer) {
		t.Errorf("the bouncer waits for CrowdSec: %q %v", note, err)
	}
}

// While the database is away, CrowdSec still follows the machine: a new address is never banned.
func TestFollowsTheMachineWithoutADatabase(t *testing.T) {
	d, server := dbtest.Own(t)
	b := kittest.NewOn(t, d)
	on(t, b)
	b.Do(t, "admin", http.MethodPut, "/ids/settings", `{"enabled":true}`).Want(t, 200)
	b.Engine.Refresh(t.Context(), apply.Detection, false)
	spared := func(address string) bool {
		return strings.Contains(file(t, b, crowdsec.AllowList), `"`+address+`/32"`)
	}
	if !spared("203.0.113.1") || spared("198.51.100.7") {
		t.Fatalf("%s", file(t, b, crowdsec.AllowList))
	}
	defer dbtest.Freeze(t, server)()
	b.Machine.SetLinks(host.Link{Name: "wan0", Index: 2, Addrs: []host.LinkAddr{{Family: "inet", Local: "198.51.100.7", PrefixLen: 24}}})
	waittest.Until(t, "the new address is never banned", func() bool { return spared("198.51.100.7") })
	if !spared("203.0.113.1") {
		t.Error("what is stored is forgotten")
	}
}
