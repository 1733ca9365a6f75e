package apply_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
)

// switchboard is a toy component that takes all lines or none, as the kernel takes a table.
type switchboard struct {
	*kittest.Bench
	mu      sync.Mutex
	live    string
	applied int
	loads   int
	hold    chan struct{}                                // if set, the next Load waits for it
	late    func(ctx context.Context, live string) error // if set, called when a table is live
}

func newSwitchboard(t *testing.T) *switchboard {
	t.Helper()
	x := &switchboard{Bench: kittest.New(t)}
	// Two equal lines are refused by the commit, after everything else.
	dbtest.Exec(t, x.DB, `CREATE TABLE toy_lines (line text NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	apply.Register(x.Engine, apply.Component[[]string]{
		ID: apply.PacketFilter, Render: render, Atomic: true,
		Amend: func(_ context.Context, _ db.Querier, was []string, rows []apply.Row) ([]string, bool, error) {
			now := slices.Clone(was)
			for _, r := range rows {
				if r.Kind != "toy.line" {
					return nil, false, nil
				}
				now = append(now, *r.Now.(*string))
			}
			slices.Sort(now)
			return now, true, nil
		},
		Load: func(ctx context.Context, q db.Querier) ([]string, error) {
			x.mu.Lock()
			x.loads++
			hold := x.hold
			x.hold = nil
			x.mu.Unlock()
			if hold != nil {
				<-hold
			}
			return (&toy{}).load(ctx, q)
		},
		Check: func(context.Context, []host.File) error { return nil },
		Apply: func(ctx context.Context, _ []string, files []host.File) error {
			content := string(files[0].Content)
			x.mu.Lock()
			x.applied++
			late := x.late
			if strings.Contains(content, "bad") {
				x.mu.Unlock()
				return &host.ExitError{Command: nftables.Load, Output: host.Output{ExitCode: 1, Stderr: "bad line"}}
			}
			x.live = content
			x.mu.Unlock()
			if late != nil {
				return late(ctx, content)
			}
			return nil
		},
		Verify: func(_ context.Context, _ []string, files []host.File) error {
			x.mu.Lock()
			defer x.mu.Unlock()
			if x.live != string(files[0].Content) {
				return &fault.Error{Message: "another table is live"}
			}
			return nil
		},
	})
	x.Start(t)
	waittest.Until(t, "the first apply", func() bool { return x.Engine.Statuses()[0].State == apply.Live })
	return x
}

func (x *switchboard) add(t *testing.T, lines ...string) (apply.Outcome, error) {
	t.Helper()
	return x.addAs(t.Context(), lines...)
}

func (x *switchboard) addAs(ctx context.Context, lines ...string) (apply.Outcome, error) {
	return x.Engine.Commit(ctx, []apply.ID{apply.PacketFilter}, func(tx *db.Tx) ([]apply.Row, error) {
		for _, line := range lines {
			if _, err := tx.Exec(ctx, `INSERT INTO toy_lines VALUES ($1)`, line); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
}

// addRows is addAs for a change that returns the rows it touches.
func (x *switchboard) addRows(ctx context.Context, kind, line string, more ...string) (apply.Outcome, error) {
	return x.Engine.Commit(ctx, []apply.ID{apply.PacketFilter}, func(tx *db.Tx) ([]apply.Row, error) {
		for _, line := range append(more, line) {
			if _, err := tx.Exec(ctx, `INSERT INTO toy_lines VALUES ($1)`, line); err != nil {
				return nil, err
			}
		}
		return []apply.Row{{Kind: kind, Now: &line}}, nil
	})
}

func (x *switchboard) counts() (live string, applied, loads int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.live, x.applied, x.loads
}

func TestAtomicApplyIsTheCheckAndTheOnlyOne(t *testing.T) {
	t.Parallel()
	x := newSwitchboard(t)
	_, applied, loads := x.counts()
	o, err := x.add(t, "a")
	if err != nil || o[apply.PacketFilter] != apply.Live {
		t.Fatal(o, err)
	}
	live, appliedNow, loadsNow := x.counts()
	if live != "a\n" || appliedNow != applied+1 || loadsNow != loads+1 {
		t.Fatalf("%q is live after %d applies and %d loads", live, appliedNow-applied, loadsNow-loads)
	}
	if b, err := x.Machine.Read(chrony.DropIn); err != nil || string(b) != "a\n" {
		t.Fatalf("%q is kept: %v", b, err)
	}
}

// What runs is kept a moment after a change, once for several of them, and when the lanes end.
func TestAtomicIsKeptLater(t *testing.T) {
	t.Parallel()
	x := newSwitchboard(t)
	kept := func() (contents []string) {
		names, err := filepath.Glob(x.Paths.State("good/packet-filter/*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if b, err := os.ReadFile(name); err == nil && filepath.Base(name) != "list.json" {
				contents = append(contents, string(b))
			}
		}
		return contents
	}
	want := ""
	for _, lines := range [][]string{{"a", "b"}, {"c"}} {
		for _, line := range lines {
			if _, err := x.add(t, line); err != nil {
				t.Fatal(err)
			}
			want += line + "\n"
		}
		waittest.Until(t, "what runs is kept", func() bool { return slices.Equal(kept(), []string{want}) })
	}
	if _, err := x.add(t, "d"); err != nil {
		t.Fatal(err)
	}
	x.Stop()
	if got := kept(); !slices.Equal(got, []string{want + "d\n"}) {
		t.Errorf("kept: %q", got)
	}
}

// A change that returns the rows it touches reads no others, as long as the previous state is known: not after one that was not
// stored, nor after a change by another program.
func TestChangeOfRowsReadsNoOthers(t *testing.T) {
	t.Parallel()
	x := newSwitchboard(t)
	change := func(kind, line string, reads bool) {
		t.Helper()
		_, _, before := x.counts()
		o, err := x.addRows(t.Context(), kind, line)
		if err != nil || o[apply.PacketFilter] != apply.Live {
			t.Fatal(o, err)
		}
		if _, _, loads := x.counts(); (loads > before) != reads {
			t.Errorf("%s: %d loads", line, loads-before)
		}
	}
	wants := func(live string) {
		t.Helper()
		waittest.Until(t, live+" is live", func() bool { now, _, _ := x.counts(); return now == strings.ReplaceAll(live, " ", "\n")+"\n" })
	}
	change("toy.line", "d", false)
	change("toy.line", "b", false)
	change("toy.other", "e", true)
	change("toy.line", "a", false)
	wants("a b d e")
	if _, err := x.addRows(t.Context(), "toy.line", "bad"); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
	if _, err := x.addRows(t.Context(), "toy.line", "f", "f"); err == nil {
		t.Error("two equal lines were stored")
	}
	wants("a b d e")
	// Another program counts its revision in its own transaction.
	dbtest.Exec(t, x.DB, `WITH other AS (UPDATE apply_revisions SET revision = revision + 1 WHERE component = 'packet-filter') INSERT INTO toy_lines VALUES ('c')`)
	if _, err := x.addRows(t.Context(), "toy.line", "h"); err != nil {
		t.Error(err)
	}
	wants("a b c d e h")
}

func TestAtomicRefusalIsNotStored(t *testing.T) {
	t.Parallel()
	x := newSwitchboard(t)
	if _, err := x.add(t, "bad"); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "bad line") {
		t.Fatal(err)
	}
	if live, _, _ := x.counts(); x.Rows(t, "toy_lines") != 0 || live != "\n" {
		t.Fatalf("%q is live", live)
	}
	if o, err := x.add(t, "a"); err != nil || o[apply.PacketFilter] != apply.Live {
		t.Fatal("the refusal blocks the next change:", o, err)
	}
}

func TestAtomicApplyIsTakenBackWhenTheCommitFails(t *testing.T) {
	t.Parallel()
	x := newSwitchboard(t)
	if _, err := x.add(t, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := x.add(t, "b", "b"); err == nil {
		t.Fatal("two equal lines were stored")
	}
	waittest.Until(t, "what is stored is live again", func() bool { live, _, _ := x.counts(); return live == "a\n" })
	if o, err := x.add(t, "c"); err != nil || o[apply.PacketFilter] != apply.Live {
		t.Fatal(o, err)
	}
	if live, _, _ := x.counts(); live != "a\nc\n" {
		t.Fatalf("%q is live", live)
	}
}

func TestAtomicChangesAtOnce(t *testing.T) {
	t.Parallel()
	x := newSwitchboard(t)
	var all sync.WaitGroup
	for _, line := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		all.Go(func() {
			// Every third fails at its commit, and all of them compete with the timer's passes.
			lines := []string{line}
			if strings.Contains("adgjmpsvy", line) {
				lines = append(lines, line)
			}
			x.Engine.Converge()
			if _, err := x.add(t, lines...); (err != nil) != (len(lines) == 2) {
				t.Errorf("%s: %v", line, err)
			}
		})
	}
	all.Wait()
	waittest.Until(t, "the rest is live", func() bool {
		live, _, _ := x.counts()
		return live == "b\nc\ne\nf\nh\ni\nk\nl\nn\no\nq\nr\nt\nu\nw\nx\nz\n"
	})
	waittest.Until(t, "and said to be", func() bool { return x.Engine.Statuses()[0].State == apply.Live })
}

func TestPreviewAppliesNothingAhead(t *testing.T) {
	t.Parallel()
	x := newSwitchboard(t)
	_, applied, _ := x.counts()
	diffs, err := x.Engine.Preview(t.Context(), []apply.ID{apply.PacketFilter}, nil, func(tx *db.Tx) ([]apply.Row, error) {
		_, err := tx.Exec(t.Context(), `INSERT INTO toy_lines VALUES ('a')`)
		return nil, err
	})
	if err != nil || len(diffs) != 1 {
		t.Fatal(diffs, err)
	}
	if live, now, _ := x.counts(); live != "\n" || now != applied {
		t.Fatalf("%q is live after %d applies", live, now-applied)
	}
}

// An apply that is cancelled because its caller hung up may or may not have happened: the stored state is restored.
func TestHangingUpDuringAnAtomicApply(t *testing.T) {
	t.Parallel()
	x := newSwitchboard(t)
	ctx, hangUp := context.WithCancel(t.Context())
	x.mu.Lock()
	x.late = func(ctx context.Context, live string) error {
		if live != "a\n" {
			return nil
		}
		hangUp()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	x.mu.Unlock()
	if _, err := x.addAs(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if n := x.Rows(t, "toy_lines"); n != 0 {
		t.Fatalf("%d lines are stored", n)
	}
	waittest.Until(t, "what is stored is live", func() bool { live, _, _ := x.counts(); return live == "\n" })
}

// A change that is applied ahead of its commit and then rolled back does not undo the one that was committed before it.
func TestRollBackBehindACommit(t *testing.T) {
	t.Parallel()
	x := newSwitchboard(t)
	hold := make(chan struct{})
	_, _, loads := x.counts()
	x.mu.Lock()
	x.hold = hold
	x.mu.Unlock()
	x.Engine.Converge() // keeps the lane busy
	waittest.Until(t, "the lane reads", func() bool { _, _, n := x.counts(); return n > loads })
	done := make(chan error, 1)
	go func() {
		o, err := x.add(t, "a")
		if err == nil && o[apply.PacketFilter] != apply.Live {
			err = fmt.Errorf("%v: %+v", o, x.Engine.Statuses()[0])
		}
		done <- err
	}()
	waittest.Until(t, "the first one is committed", func() bool { return x.Rows(t, "toy_lines") == 1 })
	if _, err := x.add(t, "b", "b"); err == nil {
		t.Fatal("two equal lines were stored")
	}
	close(hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if live, _, _ := x.counts(); live != "a\n" {
		t.Fatalf("%q is live", live)
	}
}
