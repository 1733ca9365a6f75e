package apply_test

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
)

// beside registers a second, healthy component.
func beside(x *toy) {
	apply.Register(x.Engine, apply.Component[struct{}]{
		ID:     apply.DNS,
		Load:   func(context.Context, db.Querier) (struct{}, error) { return struct{}{}, nil },
		Render: func(struct{}) ([]host.File, error) { return []host.File{}, nil },
		Check:  func(context.Context, []host.File) error { return nil },
		Apply:  func(context.Context, struct{}, []host.File) error { return nil },
		Verify: func(context.Context, struct{}, []host.File) error { return nil },
	})
}

// A panic in one component shows up in its status, and ends neither the process nor the other lanes.
func TestPanicIsTheComponentsOwn(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"load", "render", "apply", "verify"} {
		t.Run(what, func(t *testing.T) {
			x := newToy(t, beside)
			ntp := func() apply.Status { return x.Engine.Statuses()[1] }
			if applied, failed := x.Engine.ApplyAll(t.Context()); len(applied) != 2 {
				t.Fatal(failed)
			}
			x.set(func() { x.panics = what })
			applied, failed := x.Engine.ApplyAll(t.Context())
			if len(applied) != 1 || applied[0] != apply.DNS || failed[apply.NTP] != "The gateway's own code for ntp failed: toy: "+what+"." {
				t.Fatal(applied, failed)
			}
			if ntp().State != apply.Degraded {
				t.Fatalf("%+v", ntp())
			}
			// A change that panics before its commit is not stored. One that panics afterwards is, and its status says so.
			o, err := x.add(t, "a")
			if stored := what == "apply" || what == "verify"; stored != (err == nil) || stored && o[apply.NTP] != apply.Degraded {
				t.Fatal(o, err)
			}
			x.set(func() { x.panics = "" })
			if applied, failed := x.Engine.ApplyAll(t.Context()); len(applied) != 2 {
				t.Fatal("it does not recover:", failed)
			}
		})
	}
}

func TestPanicInAStepTakesTheFullWay(t *testing.T) {
	t.Parallel()
	s := newStepping(t)
	restarts := s.Machine.Restarts(chrony.Unit)
	s.fails = "panics"
	s.want(t, "panics", apply.Live)
	if s.Machine.Restarts(chrony.Unit) != restarts+1 || s.file(t) != "first\npanics\n" {
		t.Fatalf("%d restarts, file %q", s.Machine.Restarts(chrony.Unit)-restarts, s.file(t))
	}
}

// A daemon's broken socket is its own fault, not the database's.
func TestDaemonThatCannotBeReachedIsDegraded(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	for _, err := range []error{
		&net.OpError{Op: "dial", Net: "unix", Err: syscall.ECONNREFUSED},
		&net.OpError{Op: "read", Net: "unix", Err: syscall.ECONNRESET},
	} {
		x.setSick(err)
		x.Engine.ApplyAll(t.Context())
		if s := x.status(); s.State != apply.Degraded || !strings.Contains(s.Detail, err.Error()) {
			t.Fatalf("%+v", s)
		}
	}
}
