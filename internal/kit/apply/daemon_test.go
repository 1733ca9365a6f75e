package apply_test

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/waittest"
)

// die makes the daemon fail without the gateway's doing.
func (x *toy) die() {
	x.Machine.SetUnit(host.UnitState{Unit: chrony.Unit, Installed: true, Active: "failed", Detail: "signal: killed"})
}

// watching returns a toy whose timer does not fire during the test, and whose Verify asks the daemon.
func watching(t *testing.T) *toy {
	t.Helper()
	x := newToy(t, func(x *toy) { x.Engine.SetTick(time.Hour) })
	x.want(t, "a", apply.Live)
	if s := x.status(); s.Daemon != apply.Running || s.Detail != "" {
		t.Fatalf("%+v", s)
	}
	return x
}

// verifyRuns makes Verify fail while the daemon does not run.
func (x *toy) verifyRuns(t *testing.T) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sick = func(string) error {
		if state, err := x.Machine.State(t.Context(), chrony.Unit); err != nil || state.Active != "active" {
			return errors.New("it does not answer")
		}
		return nil
	}
}

// A daemon that dies is started again at once, without waiting for the timer.
func TestDeadDaemonIsStartedAtOnce(t *testing.T) {
	t.Parallel()
	x := watching(t)
	x.verifyRuns(t)
	restarts := x.Machine.Restarts(chrony.Unit)
	x.die()
	waittest.Until(t, "it is started again", func() bool { return x.Machine.Restarts(chrony.Unit) > restarts })
	waittest.Until(t, "it is live again", func() bool { s := x.status(); return s.State == apply.Live && s.Daemon == apply.Running })
}

// The configuration of a dead daemon is not checked again, which would only delay its start. Only if it does not start, the
// checker is asked why.
func TestDeadDaemonIsStartedWithoutACheck(t *testing.T) {
	t.Parallel()
	x := watching(t)
	x.verifyRuns(t)
	waittest.Until(t, "the configuration is kept", func() bool { _, err := os.Stat(x.Paths.State("good/ntp/list.json")); return err == nil })
	// The checker has since been asked about something else.
	if _, err := x.Engine.Preview(t.Context(), []apply.ID{apply.NTP}, nil, func(tx *db.Tx) ([]apply.Row, error) {
		_, err := tx.Exec(t.Context(), `INSERT INTO toy_lines VALUES ('b')`)
		return nil, err
	}); err != nil {
		t.Fatal(err)
	}
	checks, restarts := x.Machine.Runs(chrony.Check), x.Machine.Restarts(chrony.Unit)
	x.die()
	waittest.Until(t, "it is started again", func() bool { return x.Machine.Restarts(chrony.Unit) > restarts })
	waittest.Until(t, "it is live again", func() bool { s := x.status(); return s.State == apply.Live && s.Daemon == apply.Running })
	if n := x.Machine.Runs(chrony.Check); n != checks {
		t.Errorf("it was checked %d times", n-checks)
	}
	x.Machine.Refuse(chrony.Unit, errors.New("exit status 1"))
	x.die()
	waittest.Until(t, "the checker is asked", func() bool { return x.Machine.Runs(chrony.Check) > checks })
}

// While a dead daemon cannot be started, its component is not live, and says so at once.
func TestDeadDaemonIsNotLive(t *testing.T) {
	t.Parallel()
	x := watching(t)
	x.verifyRuns(t)
	x.mu.Lock()
	gate := make(chan struct{})
	x.gate = gate // it hangs
	x.mu.Unlock()
	x.die()
	waittest.Until(t, "it is not live any more", func() bool {
		s := x.status()
		return s.State == apply.Pending && s.Daemon == apply.Down && s.LastError == "chrony has stopped and is being started again." && s.Detail == "signal: killed"
	})
	x.Machine.Refuse(chrony.Unit, errors.New("exit status 1: [1794766446] chronyd[495:0] fatal error: could not bind, see /etc/chrony/gateway.conf"))
	close(gate)
	waittest.Until(t, "it is down", func() bool {
		s := x.status()
		return s.State == apply.Degraded && s.Daemon == apply.Down && !strings.Contains(s.LastError, "/etc") && strings.Contains(s.Detail, "/etc/chrony")
	})
	x.Machine.Refuse(chrony.Unit, nil)
	// Someone starts it manually.
	if err := x.Machine.Start(t.Context(), chrony.Unit); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "it is live again", func() bool {
		s := x.status()
		return s.State == apply.Live && s.Daemon == apply.Running && s.Detail == ""
	})
}

// A daemon that is turned off is off, and not down.
func TestDaemonThatIsOff(t *testing.T) {
	t.Parallel()
	x := newToy(t, func(x *toy) {
		x.Engine.SetTick(time.Hour)
		x.enabled = func(lines []string) bool { return len(lines) == 1 }
	})
	x.want(t, "a", apply.Live)
	if s := x.status(); s.Daemon != apply.Running {
		t.Fatalf("%+v", s)
	}
	x.want(t, "b", apply.Live)
	if s := x.status(); s.Daemon != apply.Off {
		t.Fatalf("%+v", s)
	}
	if err := x.Engine.Restart(t.Context(), chrony.Unit); err == nil || !strings.Contains(err.Error(), "is off") {
		t.Error(err)
	}
}

// A restart restarts once: the pass after it leaves the daemon alone.
func TestRestartIsOne(t *testing.T) {
	t.Parallel()
	x := watching(t)
	x.verifyRuns(t)
	restarts := x.Machine.Restarts(chrony.Unit)
	if err := x.Engine.Restart(t.Context(), chrony.Unit); err != nil {
		t.Fatal(err)
	}
	if s := x.Engine.Refresh(t.Context(), apply.NTP, false); s.State != apply.Live || x.Machine.Restarts(chrony.Unit) != restarts+1 {
		t.Errorf("%d restarts: %+v", x.Machine.Restarts(chrony.Unit)-restarts, s)
	}
}

// A daemon's message is for administrators; everyone gets a sentence.
func TestReasons(t *testing.T) {
	t.Parallel()
	x := watching(t)
	x.Machine.SetPortUsers(host.PortUser{Protocol: "UDP", Address: netip.MustParseAddr("10.10.0.1"), Port: 53, PID: 29958, Program: "python3"},
		host.PortUser{Protocol: "TCP", Address: netip.MustParseAddr("0.0.0.0"), Port: 80, PID: 7, Program: "nginx"},
		host.PortUser{Protocol: "UDP", Address: netip.MustParseAddr("::"), Port: 123, PID: 8, Program: "ntpd"})
	for message, want := range map[string]string{
		"exit status 1: [1794766446] unbound[495:0] error: can't bind socket: Address already in use for 10.10.0.1 port 53; [1794766446] unbound[495:0] fatal error: could not open ports": "UDP 53 on 10.10.0.1 is used by python3 (pid 29958).",
		"exit status 1: [ALERT]    (8) : Starting frontend web: cannot bind socket (Address already in use) [0.0.0.0:80]":                                                                  "TCP 80 on all addresses is used by nginx (pid 7).",
		"exit status 1: [1794766446] chronyd[495:0] fatal error: could not open its socket":                                                                                                "chrony does not run: could not open its socket.",
		"chrony.service did not restart: job failed: result exit-code, status 1: Fatal error : Could not open /etc/chrony/gateway.conf":                                                    "chrony does not run: Could not open.",
		"exit status 1: [1794778911] chronyd[159:0] error: bind: address already in use":                                                                                                   "UDP 123 on all addresses is used by ntpd (pid 8).",
		"haproxy runs with another configuration (unmarked)":                                                                                                                               "HAProxy runs with another configuration (unmarked).",
		"the address 192.0.2.7 is not one of this machine":                                                                                                                                 "The address 192.0.2.7 is not one of this machine.",
		"parsing /etc/chrony/conf.d/gateway.conf:5: unknown directive":                                                                                                                     "Parsing unknown directive.",
	} {
		x.setSick(errors.New(message))
		if s := x.Engine.Refresh(t.Context(), apply.NTP, true); s.LastError != want || s.Detail != message {
			t.Errorf("%s:\n%q instead of\n%q\n%s", message, s.LastError, want, s.Detail)
		}
	}
}
