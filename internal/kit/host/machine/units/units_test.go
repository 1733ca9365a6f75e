package units

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/host/nettest"
	"edge.internal/gateway/internal/kit/job"
)

func TestMain(m *testing.M) {
	nettest.Enter()
	goleak.VerifyTestMain(m)
}

func TestNone(t *testing.T) {
	units, err := Parse("none:no privileges")
	if err != nil {
		t.Fatal(err)
	}
	state, err := units.State(t.Context(), chrony.Unit)
	want := host.UnitState{Unit: chrony.Unit, Installed: true, Active: "inactive", Detail: "cannot run here: no privileges"}
	if err != nil || state != want {
		t.Errorf("%+v, %v", state, err)
	}
	if err := units.Restart(t.Context(), chrony.Unit); err == nil || err.Error() != "chrony cannot run here: no privileges" {
		t.Errorf("restart: %v", err)
	}
}

func TestParse(t *testing.T) {
	for _, flag := range []string{"", "none", "none:", "lab:", "lab:here", "docker", "Systemd", "systemd:x"} {
		if _, err := Parse(flag); err == nil {
			t.Errorf("%q was accepted", flag)
		}
	}
	if u, err := Parse("systemd"); err != nil || u != (Systemd{}) {
		t.Errorf("%v, %v", u, err)
	}
	if u, err := Parse("lab:/run/x.sock"); err != nil || u != (Supervisor{Socket: "/run/x.sock"}) {
		t.Errorf("%v, %v", u, err)
	}
	if u, err := Parse("lab"); err != nil || u != (Supervisor{Socket: SupervisorSocket}) {
		t.Errorf("%v, %v", u, err)
	}
}

func TestSystemdProperties(t *testing.T) {
	at := time.Now().Truncate(time.Microsecond)
	for _, c := range []struct {
		props map[string]any
		want  host.UnitState
	}{
		{map[string]any{"LoadState": "not-found", "ActiveState": "inactive"}, host.UnitState{Unit: chrony.Unit}},
		{
			map[string]any{
				"LoadState": "loaded", "ActiveState": "active", "MainPID": uint32(7), "Result": "success",
				"ActiveEnterTimestamp": uint64(at.UnixMicro()), "StateChangeTimestamp": uint64(at.Add(time.Hour).UnixMicro()),
			},
			host.UnitState{Unit: chrony.Unit, Installed: true, Active: "active", PID: 7, Since: at},
		},
		{
			map[string]any{
				"LoadState": "loaded", "ActiveState": "failed", "MainPID": uint32(0), "Result": "exit-code", "ExecMainStatus": int32(1),
				"ActiveEnterTimestamp": uint64(1), "InactiveEnterTimestamp": uint64(at.UnixMicro()),
			},
			host.UnitState{Unit: chrony.Unit, Installed: true, Active: "failed", Detail: "result exit-code, status 1", Since: at},
		},
	} {
		if diff := cmp.Diff(c.want, unitState(chrony.Unit, c.props)); diff != "" {
			t.Error(diff)
		}
	}
}

// Of all of systemd's signals, only changed states of the gateway's units count.
func TestSystemdSignals(t *testing.T) {
	for _, c := range []struct {
		service, property string
		want              host.Unit
	}{{"unbound.service", "ActiveState", unbound.Unit}, {"unbound.service", "Job", ""}, {"ssh.service", "ActiveState", ""}} {
		if u, ok := changedUnit(c.service, map[string]string{c.property: "failed"}); u != c.want || ok != (c.want != "") {
			t.Errorf("%s of %s: %q, %v", c.property, c.service, u, ok)
		}
	}
}

// recorder acts as a supervisor and records the requests.
type recorder struct {
	None
	mu      sync.Mutex
	verbs   []string
	block   chan struct{}
	watched chan struct{} // closed when a watch has ended
}

func (r *recorder) record(verb string, u host.Unit) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verbs = append(r.verbs, verb+" "+string(u))
	return nil
}

func (r *recorder) Start(_ context.Context, u host.Unit) error { return r.record("start", u) }
func (r *recorder) Stop(_ context.Context, u host.Unit) error  { return r.record("stop", u) }
func (r *recorder) Restart(context.Context, host.Unit) error {
	return errors.New("chronyd: bad line 3")
}
func (r *recorder) Reload(ctx context.Context, _ host.Unit) error {
	<-ctx.Done()
	close(r.block)
	return ctx.Err()
}
func (r *recorder) Enable(_ context.Context, u host.Unit, on bool) error {
	if !on {
		return host.UnitSpec{Unit: u}.NotInstalled()
	}
	return r.record("enable", u)
}
func (r *recorder) Watch(ctx context.Context, changed func(host.Unit)) error {
	changed("one")
	changed("two")
	<-ctx.Done()
	close(r.watched)
	return nil
}
func (r *recorder) Begin(_ context.Context, j job.Name) error { return r.record("begin", host.Unit(j)) }

func (r *recorder) States(ctx context.Context) ([]host.UnitState, error) {
	return []host.UnitState{{Unit: "one", Since: time.Unix(1, 0).UTC()}, {Unit: "two", PID: 2}}, nil
}

func TestSupervisorProtocol(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "units.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	r := &recorder{None: None{Reason: "a test"}, block: make(chan struct{}), watched: make(chan struct{})}
	go func() { served <- Serve(ctx, l, r) }()

	s := Supervisor{Socket: socket}
	state, err := s.State(ctx, chrony.Unit)
	if want, _ := r.State(ctx, chrony.Unit); err != nil || state != want {
		t.Errorf("state %+v, %v", state, err)
	}
	if err := errors.Join(s.Start(ctx, chrony.Unit), s.Stop(ctx, host.API), s.Enable(ctx, host.Scheduler, true)); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"start chrony", "stop gateway-api", "enable gateway-scheduler"}, r.verbs); diff != "" {
		t.Error(diff)
	}
	if err := s.Restart(ctx, chrony.Unit); err == nil || err.Error() != "chronyd: bad line 3" {
		t.Errorf("restart: %v", err)
	}
	if err := s.Enable(ctx, chrony.Unit, false); !errors.Is(err, host.ErrNotInstalled) || err.Error() != "chrony: not installed" {
		t.Errorf("disable: %v", err)
	}
	states, err := s.States(ctx)
	if want, _ := r.States(ctx); err != nil || !cmp.Equal(states, want) {
		t.Errorf("list %+v, %v", states, err)
	}
	if _, err := s.ask(ctx, unitRequest{Verb: "explode"}); err == nil {
		t.Error("an unknown verb was accepted")
	}

	// Canceling a request cancels it on the other side, too.
	short, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if err := s.Reload(short, chrony.Unit); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("reload: %v", err)
	}
	<-r.block

	// The same for a watch; and a watch that loses the connection fails.
	watching, enough := context.WithCancel(ctx)
	var seen []host.Unit
	if err := s.Watch(watching, func(u host.Unit) {
		if seen = append(seen, u); len(seen) == 2 {
			enough()
		}
	}); err != nil || !slices.Equal(seen, []host.Unit{"one", "two"}) {
		t.Errorf("watch: %v, %v", seen, err)
	}
	<-r.watched
	r.watched = make(chan struct{})
	lost := make(chan error, 1)
	begun := make(chan struct{}, 2)
	go func() { lost <- s.Watch(context.Background(), func(host.Unit) { begun <- struct{}{} }) }()
	<-begun
	<-begun

	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := <-lost; err == nil {
		t.Error("a watch without a supervisor goes on")
	}
	if _, err := s.State(context.Background(), chrony.Unit); err == nil || !strings.HasPrefix(err.Error(), "reaching the supervisor") {
		t.Errorf("without a supervisor: %v", err)
	}
}

// Of a service's journal entries, lastRun returns those that the last run itself logged.
func TestLastRun(t *testing.T) {
	entries := `{"MESSAGE":"statistics","_PID":"700","_SYSTEMD_INVOCATION_ID":"a"}
{"MESSAGE":"Stopped unbound.service","_PID":"1"}
{"MESSAGE":"Starting unbound.service","_PID":"1"}
{"MESSAGE":"the port is taken","_PID":"701","_SYSTEMD_INVOCATION_ID":"b"}
{"MESSAGE":[255,254],"_PID":"701","_SYSTEMD_INVOCATION_ID":"b"}
{"MESSAGE":"giving up","_PID":"701","_SYSTEMD_INVOCATION_ID":"b"}
{"MESSAGE":"unbound.service: Failed with result 'exit-code'.","_PID":"1"}
`
	if got, want := lastRun(entries), "the port is taken; giving up"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := lastRun(""); got != "" {
		t.Errorf("%q", got)
	}
}
