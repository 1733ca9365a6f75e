package apply_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/waittest"
)

// fallen returns a toy whose daemon did not take the line b and runs with what it had before.
func fallen(t *testing.T) (*toy, *clock.Fake) {
	t.Helper()
	now := clock.NewFake(time.Now())
	x := newToy(t, func(x *toy) {
		x.Engine = apply.New(x.DB, x.Machine, now, x.Log, x.Secrets, x.Changes, t.TempDir())
	})
	x.want(t, "a", apply.Live)
	x.dislike("b")
	x.want(t, "b", apply.Degraded)
	x.backAt(t, "a\n")
	return x, now
}

// backAt fails the test unless the last known good configuration runs, and the status says so.
func (x *toy) backAt(t *testing.T, file string) {
	t.Helper()
	if s := x.status(); x.file(t) != file || s.State != apply.Degraded || s.LastError != "No answer. The last known good configuration runs." {
		t.Fatalf("the file is %q, %+v", x.file(t), s)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if given := strings.Join(x.given, "\n") + "\n"; given != file {
		t.Fatalf("the daemon was given %q instead of %q", given, file)
	}
}

func TestFailedApplyFallsBack(t *testing.T) {
	t.Parallel()
	x, _ := fallen(t)
	if s := x.status(); s.AppliedRevision != 1 || s.Revision != 2 {
		t.Fatalf("%+v", s)
	}
}

// A cancelled pass says nothing about the state that it was to apply.
func TestEndOfTheProgramDoesNotFallBack(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	x.set(func() { x.gate = make(chan struct{}) })
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = x.addAs(t.Context(), "b") // nobody completes it
	}()
	waittest.Until(t, "the daemon is told", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return slices.Contains(x.given, "b")
	})
	x.Stop()
	<-answered
	if got := x.file(t); got != "a\nb\n" {
		t.Fatalf("the program has left %q", got)
	}
}

// A daemon that runs with the last known good configuration is not restarted into the same failure again and again.
func TestFailedStateIsNotTriedOnATimer(t *testing.T) {
	t.Parallel()
	x, now := fallen(t)
	x.onceMore(t, now)
	x.backAt(t, "a\n")
	restarts, installs := x.Machine.Restarts(chrony.Unit), x.Machine.Installs(chrony.DropIn)
	now.Move(59 * time.Minute)
	x.passes(t)
	if r, i := x.Machine.Restarts(chrony.Unit)-restarts, x.Machine.Installs(chrony.DropIn)-installs; r != 0 || i != 0 {
		t.Fatalf("%d restarts and %d installs", r, i)
	}
	x.backAt(t, "a\n")
	now.Move(2 * time.Minute)
	x.Engine.Converge()
	waittest.Until(t, "it is tried again after an hour", func() bool { return x.Machine.Restarts(chrony.Unit) == restarts+2 })
}

// The obstacle may be gone a moment later: a stored change does not wait an hour for a retry.
func TestFailedStateIsTriedOnceMoreSoon(t *testing.T) {
	t.Parallel()
	x, now := fallen(t)
	x.dislike("nothing")
	x.onceMore(t, now)
	waittest.Until(t, "live", func() bool { return x.status().State == apply.Live && x.file(t) == "a\nb\n" })
}

// onceMore triggers the first retry of a failed state.
func (x *toy) onceMore(t *testing.T, now *clock.Fake) {
	t.Helper()
	restarts := x.Machine.Restarts(chrony.Unit)
	x.passes(t)
	if n := x.Machine.Restarts(chrony.Unit) - restarts; n != 0 {
		t.Fatalf("%d restarts before the wait is over", n)
	}
	now.Move(time.Minute)
	x.Engine.Converge()
	x.passes(t)
	waittest.Until(t, "it is tried once more", func() bool { return x.Machine.Restarts(chrony.Unit) > restarts })
}

// The daemon that runs with the last known good configuration is still checked and repaired.
func TestLastGoodIsLookedAfter(t *testing.T) {
	t.Parallel()
	x, _ := fallen(t)
	restarts := x.Machine.Restarts(chrony.Unit)
	x.Machine.SetFile(chrony.DropIn, "by hand\n")
	x.passes(t)
	x.backAt(t, "a\n")
	if n := x.Machine.Restarts(chrony.Unit); n != restarts {
		t.Fatalf("%d restarts for a file that the daemon had not read", n-restarts)
	}
	x.set(func() {
		dislikes, first := x.sick, true
		x.sick = func(lines string) error {
			if first && lines == "a\n" {
				first = false
				return dislikes("b") // it lost what it had
			}
			return dislikes(lines)
		}
	})
	x.passes(t)
	x.backAt(t, "a\n")
	if n := x.Machine.Restarts(chrony.Unit); n != restarts+1 {
		t.Fatalf("%d restarts of a daemon that was not as it should be", n-restarts)
	}
}

func TestFailedStateIsTriedAgainWhen(t *testing.T) {
	t.Parallel()
	address := host.LinkAddr{Family: "inet", Local: "192.0.2.77", PrefixLen: 32}
	for name, change := range map[string]func(t *testing.T, x *toy){
		"another change is stored": func(t *testing.T, x *toy) { x.want(t, "c", apply.Live) },
		"an address appears": func(t *testing.T, x *toy) {
			x.Machine.SetLinks(host.Link{Name: "lan0", Flags: []string{"UP", "LOWER_UP"}, Addrs: []host.LinkAddr{address}})
			x.Engine.Converge()
		},
		"the operator asks for it": func(t *testing.T, x *toy) { x.Engine.Refresh(t.Context(), apply.NTP, false) },
		"all is applied":           func(t *testing.T, x *toy) { x.Engine.ApplyAll(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			x, _ := fallen(t)
			x.dislike("nothing")
			x.passes(t)
			x.backAt(t, "a\n")
			change(t, x)
			waittest.Until(t, "live", func() bool { return x.status().State == apply.Live })
			if lines := strings.Split(x.file(t), "\n"); !slices.Contains(lines, "b") {
				t.Fatalf("%q", lines)
			}
		})
	}
}

// A full disk is no fault of the daemon: it is left alone, and the state is retried soon.
func TestFailedInstallDisturbsNobody(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	restarts := x.Machine.Restarts(chrony.Unit)
	x.Machine.FailInstall(chrony.DropIn, syscall.ENOSPC)
	x.want(t, "b", apply.Degraded)
	if n := x.Machine.Restarts(chrony.Unit) - restarts; n != 0 {
		t.Fatalf("%d restarts", n)
	}
	if s := x.status(); !strings.Contains(s.LastError, "no space left") || !strings.Contains(s.LastError, "The last known good configuration runs") {
		t.Fatalf("%+v", s)
	}
	waittest.Until(t, "live again", func() bool { return x.status().State == apply.Live && x.file(t) == "a\nb\n" })
}
