package apply_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/waittest"
)

// stepping is a toy whose daemon takes single lines while it runs.
type stepping struct {
	*toy
	mu       sync.Mutex
	took     []string
	fails    string
	planning func(line string) // if set, called while a step is planned
}

func newStepping(t *testing.T) *stepping {
	return newSteppingAt(t, 10*time.Second)
}

// newSteppingAt is newStepping with another tick.
func newSteppingAt(t *testing.T, pace time.Duration) *stepping {
	s := &stepping{}
	s.toy = newToy(t, func(x *toy) {
		x.Engine.SetTick(pace)
		x.runtime = &apply.Runtime[[]string]{
			Can: func(_, _ []string) bool { return false },
			Plan: func(_ context.Context, _ *db.Tx, rows []apply.Row) (apply.Step, error) {
				line := *rows[0].Now.(*string)
				if line == "structure" {
					return nil, nil
				}
				if s.planning != nil {
					s.planning(line)
				}
				return func(context.Context) error {
					s.mu.Lock()
					defer s.mu.Unlock()
					if line == s.fails && line == "panics" {
						panic(line)
					}
					if line == s.fails {
						return errors.New("not while it runs")
					}
					s.took = append(s.took, line)
					return nil
				}, nil
			},
		}
	})
	s.want(t, "first", apply.Live) // before this, the daemon's state is unknown
	return s
}

func (s *stepping) steps() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.took)
}

func TestStepsNeedNoReloadAndFilesFollow(t *testing.T) {
	t.Parallel()
	s := newStepping(t)
	restarts, checks := s.Machine.Restarts(chrony.Unit), s.Machine.Runs(chrony.Check)
	for i := range 20 {
		s.want(t, fmt.Sprintf("line %02d", i), apply.Live)
	}
	if got := s.steps(); len(got) != 20 || !slices.IsSorted(got) {
		t.Fatalf("steps %q", got)
	}
	waittest.Until(t, "the files follow", func() bool {
		lines, _ := s.load(t.Context(), s.DB)
		f, _ := render(lines)
		return s.file(t) == string(f[0].Content)
	})
	if s.Machine.Restarts(chrony.Unit) != restarts || s.Machine.Runs(chrony.Check) != checks {
		t.Fatal("a step took the full way")
	}
	if st := s.status(); st.AppliedRevision != 21 || st.State != apply.Live {
		t.Fatalf("%+v", st)
	}
}

func TestFilesFollowOnce(t *testing.T) {
	t.Parallel()
	s := newStepping(t)
	loads := s.loads.Load()
	s.want(t, "a", apply.Live)
	waittest.Until(t, "the files follow", func() bool { return s.file(t) == "a\nfirst\n" })
	s.want(t, "structure", apply.Live) // which is done after everything that is pending
	if n := s.loads.Load() - loads; n != 2 {
		t.Errorf("one step and one pass read everything %d times", n)
	}
}

func TestFilesFollowWhatCameMeanwhile(t *testing.T) {
	t.Parallel()
	s := newStepping(t)
	restarts, loads, hold := s.Machine.Restarts(chrony.Unit), s.loads.Load(), make(chan struct{})
	s.toy.mu.Lock()
	s.hold = hold
	s.toy.mu.Unlock()
	s.want(t, "a", apply.Live)
	waittest.Until(t, "the files begin to follow", func() bool { return s.loads.Load() > loads })
	s.want(t, "b", apply.Live)
	close(hold)
	waittest.Until(t, "the files follow", func() bool { return s.file(t) == "a\nb\nfirst\n" })
	if s.Machine.Restarts(chrony.Unit) != restarts {
		t.Error("it took the full way")
	}
}

// The files that follow are written without a look at the disk. A file that somebody has changed meanwhile is found by the next pass, even if
// changes keep coming.
func TestFilesFollowWithoutALook(t *testing.T) {
	t.Parallel()
	s := newSteppingAt(t, time.Hour) // no pass looks while these are counted
	looks := s.Machine.Looks(chrony.DropIn)
	for _, line := range []string{"a", "b"} {
		installs := s.Machine.Installs(chrony.DropIn)
		s.want(t, line, apply.Live)
		waittest.Until(t, "the files follow", func() bool { return s.Machine.Installs(chrony.DropIn) > installs })
	}
	if n := s.Machine.Looks(chrony.DropIn) - looks; n != 0 {
		t.Errorf("%d looks", n)
	}
	s.Machine.SetFile(chrony.DropIn, "by hand")
	s.Engine.Converge()
	waittest.Until(t, "the file is mended", func() bool { return s.file(t) == "a\nb\nfirst\n" })
}

// What a failed write has left is unknown.
func TestFilesFollowWithALookAfterAFailure(t *testing.T) {
	t.Parallel()
	s := newSteppingAt(t, time.Hour)
	looks := s.Machine.Looks(chrony.DropIn)
	s.Machine.FailInstall(chrony.DropIn, syscall.ENOSPC)
	s.want(t, "a", apply.Live)
	waittest.Until(t, "the files follow", func() bool { return s.file(t) == "a\nfirst\n" })
	if s.Machine.Looks(chrony.DropIn) == looks {
		t.Error("nobody has looked")
	}
}

// Daemons continue without the program, and may be restarted before it is.
func TestFilesFollowBeforeTheEnd(t *testing.T) {
	t.Parallel()
	s := newStepping(t)
	s.want(t, "a", apply.Live)
	s.Stop()
	if got := s.file(t); got != "a\nfirst\n" {
		t.Fatalf("the program has left %q", got)
	}
}

func TestStepThatFailsTakesTheFullWay(t *testing.T) {
	t.Parallel()
	s := newStepping(t)
	restarts := s.Machine.Restarts(chrony.Unit)
	s.fails = "stubborn"
	s.want(t, "stubborn", apply.Live)
	if s.Machine.Restarts(chrony.Unit) != restarts+1 || s.file(t) != "first\nstubborn\n" {
		t.Fatalf("%d restarts, file %q", s.Machine.Restarts(chrony.Unit)-restarts, s.file(t))
	}
	s.want(t, "after", apply.Live)
	if got := s.steps(); !slices.Equal(got, []string{"after"}) {
		t.Fatalf("steps %q", got)
	}
}

func TestStepsAndPassesMixed(t *testing.T) {
	t.Parallel()
	s := newStepping(t)
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			line := fmt.Sprintf("line %02d", i)
			if i%4 == 0 {
				line = "structure"
			}
			if o, err := s.add(t, line); err != nil || o[apply.NTP] != apply.Live {
				t.Errorf("%s: %v, %v", line, o, err)
			}
		})
	}
	group.Wait()
	waittest.Until(t, "the files follow", func() bool {
		lines, _ := s.load(t.Context(), s.DB)
		f, _ := render(lines)
		return s.file(t) == string(f[0].Content)
	})
	if st := s.status(); st.AppliedRevision != 41 || st.State != apply.Live {
		t.Fatalf("%+v", st)
	}
}

// Changes that queue are applied together, but each of them is checked.
func TestChangesThatQueueShareAPass(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "first", apply.Live)
	x.Machine.Script(chrony.Check, func(context.Context, host.Input) (host.Output, error) {
		time.Sleep(time.Millisecond) // longer than the apply
		return host.Output{}, nil
	})
	restarts, checks := x.Machine.Restarts(chrony.Unit), x.Machine.Runs(chrony.Check)
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			if o, err := x.add(t, fmt.Sprintf("line %03d", i)); err != nil || o[apply.NTP] != apply.Live {
				t.Errorf("%v, %v", o, err)
			}
		})
	}
	group.Wait()
	r, c := x.Machine.Restarts(chrony.Unit)-restarts, x.Machine.Runs(chrony.Check)-checks
	if r >= 50 || c < 100 {
		t.Fatalf("%d restarts and %d checks for 100 changes", r, c)
	}
	t.Logf("%d restarts and %d checks for 100 changes", r, c)
}

// During a whole pass, nobody knows what state of the daemon a step would meet.
func TestNothingIsPlannedDuringAPass(t *testing.T) {
	t.Parallel()
	s := newStepping(t)
	gate := make(chan struct{})
	s.set(func() { s.gate = gate })
	var group sync.WaitGroup
	for i, line := range []string{"structure", "a"} {
		group.Go(func() {
			if o, err := s.add(t, line); err != nil || o[apply.NTP] != apply.Live {
				t.Errorf("%s: %v, %v", line, o, err)
			}
		})
		waittest.Until(t, line+" is stored", func() bool { return s.Rows(t, "toy_lines") == i+2 })
		if i == 0 {
			waittest.Until(t, "the pass is under way", func() bool {
				s.toy.mu.Lock()
				defer s.toy.mu.Unlock()
				return slices.Contains(s.given, "structure")
			})
		}
	}
	close(gate)
	group.Wait()
	if got := s.steps(); len(got) != 0 {
		t.Fatalf("steps %q were planned for another daemon", got)
	}
	if s.file(t) != "a\nfirst\nstructure\n" {
		t.Fatalf("%q", s.file(t))
	}
}

// A step is valid only for the daemon that it was planned for, not after a reload.
func TestReloadVoidsPlannedSteps(t *testing.T) {
	t.Parallel()
	s := newStepping(t)
	s.planning = func(string) {
		if applied, failed := s.Engine.ApplyAll(t.Context()); len(applied) != 1 {
			t.Error(failed)
		}
	}
	s.want(t, "a", apply.Live)
	if got := s.steps(); len(got) != 0 {
		t.Fatalf("steps %q were taken", got)
	}
	if s.file(t) != "a\nfirst\n" {
		t.Fatalf("%q", s.file(t))
	}
}

// The daemon is checked while changes keep coming, without whole passes.
func TestDriftIsNoticedWhileChangesKeepComing(t *testing.T) {
	t.Parallel()
	s := newSteppingAt(t, time.Millisecond) // so that some checks fall between a commit and the moment its writer learns of it
	restarts := s.Machine.Restarts(chrony.Unit)
	looks := func() int {
		s.toy.mu.Lock()
		defer s.toy.mu.Unlock()
		return s.looks
	}
	before, late := looks(), time.Now().Add(time.Minute)
	for i := 0; i < 100 || looks() < before+3; i++ {
		if time.Now().After(late) {
			t.Fatal("nobody looks at the daemon")
		}
		s.want(t, fmt.Sprintf("line %06d", i), apply.Live)
	}
	if n := s.Machine.Restarts(chrony.Unit) - restarts; n != 0 {
		t.Fatalf("%d restarts", n)
	}
}
