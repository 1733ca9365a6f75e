package apply_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/waittest"
)

// toy is a component whose file holds the lines of a table.
type toy struct {
	*kittest.Bench
	runtime *apply.Runtime[[]string]
	enabled func([]string) bool
	reduce  func(was []string, accepted []host.File, now []string, files []host.File) []host.File
	loads   atomic.Int32
	mu      sync.Mutex
	gate    chan struct{}            // if set, Apply waits for it
	hold    chan struct{}            // if set, Load waits for it
	panics  string                   // the function that panics
	sick    func(lines string) error // what Verify returns for the lines of the file
	looks   int                      // calls of Verify
	given   []string                 // lines of the last Apply
}

// doing is called by every function of the toy.
func (x *toy) doing(what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.panics == what {
		panic("toy: " + what)
	}
}

func (x *toy) load(ctx context.Context, q db.Querier) ([]string, error) {
	x.loads.Add(1)
	x.doing("load")
	x.mu.Lock()
	hold := x.hold
	x.mu.Unlock()
	if hold != nil {
		<-hold
	}
	var lines []string
	err := q.QueryRow(ctx, `SELECT coalesce(array_agg(line ORDER BY line), '{}') FROM toy_lines`).Scan(&lines)
	return lines, err
}

func render(lines []string) ([]host.File, error) {
	return []host.File{{Place: chrony.DropIn, Content: []byte(strings.Join(lines, "\n") + "\n")}}, nil
}

func openings(lines []string) (list []policy.Opening) {
	for _, line := range lines {
		list = append(list, policy.Opening{Service: line})
	}
	return list
}

func newToy(t *testing.T, change func(*toy)) *toy {
	t.Helper()
	x := &toy{Bench: kittest.New(t)}
	dbtest.Exec(t, x.DB, `CREATE TABLE toy_lines (line text NOT NULL)`)
	if change != nil {
		change(x)
	}
	apply.Register(x.Engine, apply.Component[[]string]{
		ID: apply.NTP, Unit: chrony.Unit, Load: x.load, Runtime: x.runtime, Enabled: x.enabled, Reduce: x.reduce, Openings: openings,
		Render: func(lines []string) ([]host.File, error) {
			x.doing("render")
			return render(lines)
		},
		Check: func(ctx context.Context, files []host.File) error {
			_, err := x.Machine.Run(ctx, chrony.Check, host.Input{Staged: files})
			return err
		},
		Apply: func(ctx context.Context, lines []string, _ []host.File) error {
			x.doing("apply")
			x.mu.Lock()
			gate := x.gate
			x.given = lines
			x.mu.Unlock()
			if gate != nil {
				select {
				case <-gate:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			return x.Machine.Restart(ctx, chrony.Unit)
		},
		Verify: func(_ context.Context, _ []string, files []host.File) error {
			x.doing("verify")
			x.mu.Lock()
			defer x.mu.Unlock()
			x.looks++
			if x.sick == nil {
				return nil
			}
			return x.sick(string(files[0].Content))
		},
	})
	x.Start(t)
	return x
}

func (x *toy) set(change func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change()
}

func (x *toy) setSick(err error) {
	x.set(func() { x.sick = func(string) error { return err } })
}

// dislike makes the daemon fail with a file that has the line, although the checker accepts it.
func (x *toy) dislike(line string) {
	x.set(func() {
		x.sick = func(lines string) error {
			if slices.Contains(strings.Split(lines, "\n"), line) {
				return errors.New("no answer")
			}
			return nil
		}
	})
}

func (x *toy) add(t *testing.T, line string) (apply.Outcome, error) {
	t.Helper()
	return x.addAs(t.Context(), line)
}

func (x *toy) addAs(ctx context.Context, line string) (apply.Outcome, error) {
	return x.Engine.Commit(ctx, []apply.ID{apply.NTP, apply.PacketFilter}, func(tx *db.Tx) ([]apply.Row, error) {
		_, err := tx.Exec(ctx, `INSERT INTO toy_lines VALUES ($1)`, line)
		return []apply.Row{{Kind: "toy.line", Now: &line}}, err
	})
}

// passes triggers passes as the timer does, until at least two have ended.
func (x *toy) passes(t *testing.T) {
	t.Helper()
	for range 3 { // the third one begins when the second one has ended
		loads := x.loads.Load()
		x.Engine.Converge()
		waittest.Until(t, "another pass", func() bool { return x.loads.Load() > loads })
	}
}

func (x *toy) file(t *testing.T) string {
	t.Helper()
	b, err := x.Machine.Read(chrony.DropIn)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (x *toy) status() apply.Status { return x.Engine.Statuses()[0] }

func (x *toy) want(t *testing.T, line string, state apply.State) {
	t.Helper()
	o, err := x.add(t, line)
	if err != nil || len(o) != 1 || o[apply.NTP] != state {
		t.Fatalf("outcome %v, %v instead of %s: %+v", o, err, state, x.status())
	}
}

func TestCommitIsLiveWhenItAnswers(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	if x.file(t) != "a\n" {
		t.Fatalf("file %q", x.file(t))
	}
	s := x.status()
	if s.Revision != 1 || s.AppliedRevision != 1 || s.LastError != "" || s.LastAppliedAt == nil {
		t.Fatalf("%+v", s)
	}
}

func TestRefusedChangeIsNotStored(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	x.Machine.Reject(chrony.Check, "bad line")
	if _, err := x.add(t, "b"); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "bad line") {
		t.Fatalf("error %v", err)
	}
	if x.Rows(t, "toy_lines") != 1 || x.file(t) != "a\n" || x.status().State != apply.Live || x.status().Revision != 1 {
		t.Fatalf("a refused change left something: %+v", x.status())
	}
}

func TestBrokenStoredStateDoesNotLockOut(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	// The daemon was upgraded and no longer accepts what is stored.
	x.Machine.Reject(chrony.Check, "unknown directive")
	dbtest.Exec(t, x.DB, `INSERT INTO toy_lines VALUES ('old')`)
	x.Engine.ApplyAll(t.Context())
	if s := x.status(); s.State != apply.Degraded || !strings.Contains(s.LastError, "unknown directive") {
		t.Fatalf("%+v", s)
	}
	x.want(t, "b", apply.Degraded)
	if x.Rows(t, "toy_lines") != 3 || x.file(t) != "a\n" {
		t.Fatal("the fix was refused, or a refused file went live")
	}
	x.Machine.Say(chrony.Check, "")
	x.want(t, "c", apply.Live)
	// What is stored is valid again, so that the checker's verdict counts again.
	x.Machine.Reject(chrony.Check, "bad line")
	if _, err := x.add(t, "d"); !fault.Is(err, fault.Invalid) || x.Rows(t, "toy_lines") != 4 {
		t.Fatalf("a refused change is stored: %v", err)
	}
}

func TestCheckerThatCannotRunDoesNotLockOut(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.Machine.Missing(chrony.Check)
	x.Machine.Uninstall(chrony.Unit)
	x.want(t, "a", apply.NotInstalled)
	if s := x.status(); s.State != apply.NotInstalled || s.AppliedRevision != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestDaemonThatTakesNothingIsTriedAgain(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	x.setSick(errors.New("no answer"))
	x.want(t, "b", apply.Degraded)
	if x.file(t) != "a\n" {
		t.Fatalf("the last known good file is not back: %q", x.file(t))
	}
	if s := x.status(); s.AppliedRevision != 1 || s.Revision != 2 || !strings.HasPrefix(s.LastError, "No answer") || strings.Contains(s.LastError, "configuration runs") {
		t.Fatalf("%+v", s)
	}
	x.setSick(nil)
	waittest.Until(t, "converges when the cause is gone", func() bool { return x.status().State == apply.Live })
	if x.file(t) != "a\nb\n" || x.status().AppliedRevision != 2 {
		t.Fatalf("%q %+v", x.file(t), x.status())
	}
}

// A component that took all that it could does not fall back: the rest would be lost.
func TestPartialApplyDoesNotFallBack(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	x.setSick(&apply.Partial{Problems: []string{"one thing is missing", "and another"}})
	x.want(t, "b", apply.Degraded)
	if x.file(t) != "a\nb\n" {
		t.Fatalf("the earlier file is back: %q", x.file(t))
	}
	if s := x.status(); s.LastError != "One thing is missing. And another." || s.AppliedRevision != 1 {
		t.Fatalf("%+v", s)
	}
	x.setSick(nil)
	waittest.Until(t, "live when the cause is gone", func() bool { return x.status().State == apply.Live && x.status().AppliedRevision == 2 })
}

func TestSameBytesTouchNothing(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	installs, restarts, checks := x.Machine.Installs(chrony.DropIn), x.Machine.Restarts(chrony.Unit), x.Machine.Runs(chrony.Check)
	o, err := x.Engine.Commit(t.Context(), []apply.ID{apply.NTP}, func(*db.Tx) ([]apply.Row, error) { return nil, nil })
	if err != nil || o[apply.NTP] != apply.Live {
		t.Fatal(o, err)
	}
	if x.Machine.Installs(chrony.DropIn) != installs || x.Machine.Restarts(chrony.Unit) != restarts || x.Machine.Runs(chrony.Check) != checks {
		t.Fatal("the machine was touched")
	}
	if s := x.status(); s.Revision != 2 || s.AppliedRevision != 2 {
		t.Fatalf("%+v", s)
	}
}

// A trial asks the checker, unless the daemon is live with the very same files.
func TestTryAsksUnlessItRuns(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	waittest.Until(t, "the configuration is kept", func() bool { _, err := os.Stat(x.Paths.State("good/ntp/list.json")); return err == nil })
	asks := func(live *apply.Engine) int {
		t.Helper()
		before := x.Machine.Runs(chrony.Check)
		if failed := x.Engine.Try(t.Context(), live); len(failed) != 0 {
			t.Fatal(failed)
		}
		return x.Machine.Runs(chrony.Check) - before
	}
	if n := asks(nil); n != 1 {
		t.Errorf("without a live engine the checker is asked %d times", n)
	}
	waittest.Until(t, "what runs is known to be good", func() bool { return asks(x.Engine) == 0 })
	dbtest.Exec(t, x.DB, `INSERT INTO toy_lines VALUES ('b')`) // written directly, and not applied
	if n := asks(x.Engine); n != 1 {
		t.Errorf("about other files the checker is asked %d times", n)
	}
	x.Machine.Reject(chrony.Check, "bad line")
	if failed := x.Engine.Try(t.Context(), x.Engine); failed[apply.NTP] == nil {
		t.Error("what the checker refuses passes")
	}
	x.Machine.Say(chrony.Check, "")
	dbtest.Exec(t, x.DB, `DELETE FROM toy_lines WHERE line = 'b'`)
	x.dislike("c")
	x.want(t, "c", apply.Degraded) // the good file runs in its place
	dbtest.Exec(t, x.DB, `DELETE FROM toy_lines WHERE line = 'c'`)
	if n := asks(x.Engine); n != 1 {
		t.Errorf("of a component that is not live the checker is asked %d times", n)
	}
}

func TestOneCheckForEachChange(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	checks := x.Machine.Runs(chrony.Check)
	x.want(t, "b", apply.Live)
	if n := x.Machine.Runs(chrony.Check) - checks; n != 1 {
		t.Fatalf("%d checks for one change", n)
	}
}

func TestWaitingChangesShareOneApply(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	x := newToy(t, func(x *toy) { x.gate = gate })
	const n = 40
	done := make(chan error, n)
	for i := range n {
		go func() {
			o, err := x.add(t, fmt.Sprintf("%02d", i))
			if err == nil && o[apply.NTP] != apply.Live {
				err = fmt.Errorf("outcome %v", o)
			}
			done <- err
		}()
	}
	waittest.Until(t, "everything is stored", func() bool { return x.Rows(t, "toy_lines") == n })
	close(gate)
	for range n {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if r := x.Machine.Restarts(chrony.Unit); r > 3 {
		t.Fatalf("%d restarts for %d waiting changes", r, n)
	}
	if got := strings.Count(x.file(t), "\n"); got != n {
		t.Fatalf("%d lines live", got)
	}
}

func TestDriftIsRepaired(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	x.Machine.SetFile(chrony.DropIn, "by hand\n")
	x.Engine.Converge()
	waittest.Until(t, "the file is back", func() bool { return x.file(t) == "a\n" })
}

func TestBootAfterAKillBeforeTheReload(t *testing.T) {
	t.Parallel()
	// The file is new, but the daemon was not notified: the last known good configuration reveals that.
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	restarts := x.Machine.Restarts(chrony.Unit)
	x.Machine.SetFile(chrony.DropIn, "a\nb\n")
	dbtest.Exec(t, x.DB, `INSERT INTO toy_lines VALUES ('b')`)
	x.Engine.Converge()
	waittest.Until(t, "the daemon is notified", func() bool { return x.Machine.Restarts(chrony.Unit) > restarts })
	waittest.Until(t, "live", func() bool { return x.status().State == apply.Live })
}

func TestDamagedLastGoodIsNotTrusted(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	waittest.Until(t, "the configuration is kept", func() bool { _, err := os.Stat(x.Paths.State("good/ntp/list.json")); return err == nil })
	if err := os.WriteFile(x.Paths.State("good/ntp/list.json"), []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	x.want(t, "b", apply.Live)
	if x.file(t) != "a\nb\n" {
		t.Fatalf("%q", x.file(t))
	}
}

func TestRuntimePath(t *testing.T) {
	t.Parallel()
	var did [][2]int
	x := newToy(t, func(x *toy) {
		x.runtime = &apply.Runtime[[]string]{
			Can: func(was, now []string) bool { return len(now) == len(was)+1 },
			Do: func(_ context.Context, was, now []string) error {
				did = append(did, [2]int{len(was), len(now)})
				if now[len(now)-1] == "fail" {
					return errors.New("not at run time")
				}
				return nil
			},
		}
	})
	x.want(t, "a", apply.Live)
	waittest.Until(t, "live at boot", func() bool { return x.status().State == apply.Live })
	restarts, checks := x.Machine.Restarts(chrony.Unit), x.Machine.Runs(chrony.Check)
	x.want(t, "b", apply.Live)
	if x.Machine.Restarts(chrony.Unit) != restarts || x.Machine.Runs(chrony.Check) > checks+1 || len(did) == 0 || x.file(t) != "a\nb\n" {
		t.Fatalf("restarts %d, checks %d, did %v, file %q", x.Machine.Restarts(chrony.Unit)-restarts, x.Machine.Runs(chrony.Check)-checks, did, x.file(t))
	}
	x.want(t, "fail", apply.Live)
	if x.Machine.Restarts(chrony.Unit) != restarts+1 {
		t.Fatal("the full way was not taken")
	}
}

func TestDaemonThatMayBeOff(t *testing.T) {
	t.Parallel()
	x := newToy(t, func(x *toy) {
		x.enabled = func(lines []string) bool { return len(lines)%2 == 1 }
	})
	active := func() string {
		state, err := x.Machine.State(t.Context(), chrony.Unit)
		if err != nil {
			t.Fatal(err)
		}
		return state.Active
	}
	x.want(t, "a", apply.Live)
	if active() != "active" || !x.Machine.Enabled(chrony.Unit) {
		t.Fatalf("it is %s, and on at boot: %t", active(), x.Machine.Enabled(chrony.Unit))
	}
	restarts := x.Machine.Restarts(chrony.Unit)
	x.setSick(errors.New("nobody may ask this while it is off"))
	x.want(t, "b", apply.Live)
	if active() != "inactive" || x.Machine.Enabled(chrony.Unit) || x.Machine.Restarts(chrony.Unit) != restarts {
		t.Fatalf("it is %s after %d restarts, and on at boot: %t", active(), x.Machine.Restarts(chrony.Unit)-restarts, x.Machine.Enabled(chrony.Unit))
	}
	if x.file(t) != "a\nb\n" {
		t.Fatalf("file %q", x.file(t))
	}
	// A daemon that someone started is stopped again.
	if err := x.Machine.Start(t.Context(), chrony.Unit); err != nil {
		t.Fatal(err)
	}
	if _, failed := x.Engine.ApplyAll(t.Context()); len(failed) > 0 || active() != "inactive" {
		t.Fatalf("it is %s: %v", active(), failed)
	}
	x.setSick(nil)
	x.want(t, "c", apply.Live)
	if active() != "active" || !x.Machine.Enabled(chrony.Unit) {
		t.Fatalf("it is %s, and on at boot: %t", active(), x.Machine.Enabled(chrony.Unit))
	}
}

func TestPreviewLeavesNothing(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	diffs, err := x.Engine.Preview(t.Context(), []apply.ID{apply.NTP}, nil, func(tx *db.Tx) ([]apply.Row, error) {
		_, err := tx.Exec(t.Context(), `INSERT INTO toy_lines VALUES ('b')`)
		return nil, err
	})
	if err != nil || len(diffs) != 1 || !strings.Contains(diffs[0].Diff, "+b") {
		t.Fatal(diffs, err)
	}
	if x.Rows(t, "toy_lines") != 1 || x.file(t) != "a\n" || x.status().Revision != 1 {
		t.Fatal("a preview left something")
	}
}

func TestFollowBeginsWithEverything(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	states := make(chan apply.Status, 16)
	go func() { _ = x.Engine.Follow(ctx, func(s apply.Status) error { states <- s; return nil }) }()
	if s := <-states; s.State != apply.Live {
		t.Fatalf("%+v", s)
	}
	x.setSick(errors.New("no answer"))
	x.want(t, "b", apply.Degraded)
	for s := range states {
		if s.State == apply.Degraded {
			return
		}
	}
}

// No preview shows redacted content, neither new nor old, but it says that the content differs.
func TestPreviewRedacts(t *testing.T) {
	t.Parallel()
	b := kittest.New(t)
	content := "key one\n"
	apply.Register(b.Engine, apply.Component[string]{
		ID: apply.NTP, Unit: chrony.Unit,
		Load: func(context.Context, db.Querier) (string, error) { return content, nil },
		Render: func(s string) ([]host.File, error) {
			return []host.File{{Place: chrony.DropIn, Content: []byte(s), Redact: host.Redacted}}, nil
		},
		Check:  func(context.Context, []host.File) error { return nil },
		Apply:  func(ctx context.Context, _ string, _ []host.File) error { return b.Machine.Restart(ctx, chrony.Unit) },
		Verify: func(context.Context, string, []host.File) error { return nil },
	})
	b.Start(t)
	b.Engine.ApplyAll(t.Context())
	files, diffs, err := b.Engine.Render(t.Context(), apply.NTP)
	if err != nil || files[0].Content != "<redacted>\n" || diffs[0].Diff != "" {
		t.Fatal(files, diffs, err)
	}
	content = "key two\n"
	files, diffs, err = b.Engine.Render(t.Context(), apply.NTP)
	if err != nil || files[0].Content != "<redacted>\n" || !strings.Contains(diffs[0].Diff, "differs") || strings.Contains(diffs[0].Diff, "key") {
		t.Fatal(files, diffs, err)
	}
}
