package apply_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/kittest"
)

// switchboard is a toy component that takes all lines or none, as the kernel takes a table.
type switchboard struct {
	*kittest.Bench
	mu      sync.Mutex
	live    string
	applied int
	loads   int
}

func newSwitchboard(t *testing.T) *switchboard {
	t.Helper()
	x := &switchboard{Bench: kittest.New(t)}
	// Two equal lines are refused by the commit, after everything else.
	dbtest.Exec(t, x.DB, `CREATE TABLE toy_lines (line text NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	apply.Register(x.Engine, apply.Component[[]string]{
		ID: apply.PacketFilter, Render: render, Atomic: true,
		Load: func(ctx context.Context, q db.Querier) ([]string, error) {
			x.mu.Lock()
			x.loads++
			x.mu.Unlock()
			return (&toy{}).load(ctx, q)
		},
		Check: func(context.Context, []host.File) error { return nil },
		Apply: func(_ context.Context, _ []string, files []host.File) error {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.applied++
			if content := string(files[0].Content); strings.Contains(content, "bad") {
				return &host.ExitError{Command: host.NftLoad, Output: host.Output{ExitCode: 1, Stderr: "bad line"}}
			}
			x.live = string(files[0].Content)
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
	eventually(t, "the first apply", func() bool { return x.Engine.Statuses()[0].State == apply.Live })
	return x
}

func (x *switchboard) add(t *testing.T, lines ...string) (apply.Outcome, error) {
	t.Helper()
	return x.Engine.Commit(t.Context(), []apply.ID{apply.PacketFilter}, func(tx *db.Tx) ([]apply.Row, error) {
		for _, line := range lines {
			if _, err := tx.Exec(t.Context(), `INSERT INTO toy_lines VALUES ($1)`, line); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
}

func (x *switchboard) counts() (live string, applied, loads int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.live, x.applied, x.loads
}

func TestAtomicApplyIsTheCheckAndTheOnlyOne(t *testing.T) {
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
	if b, err := x.Machine.Read(host.ChronyDropIn); err != nil || string(b) != "a\n" {
		t.Fatalf("%q is kept: %v", b, err)
	}
}

func TestAtomicRefusalIsNotStored(t *testing.T) {
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
	x := newSwitchboard(t)
	if _, err := x.add(t, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := x.add(t, "b", "b"); err == nil {
		t.Fatal("two equal lines were stored")
	}
	eventually(t, "what is stored is live again", func() bool { live, _, _ := x.counts(); return live == "a\n" })
	if o, err := x.add(t, "c"); err != nil || o[apply.PacketFilter] != apply.Live {
		t.Fatal(o, err)
	}
	if live, _, _ := x.counts(); live != "a\nc\n" {
		t.Fatalf("%q is live", live)
	}
}

func TestAtomicChangesAtOnce(t *testing.T) {
	x := newSwitchboard(t)
	var all sync.WaitGroup
	for _, line := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		all.Go(func() {
			// Every third fails at its commit, and every one keeps the timer's passes company.
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
	eventually(t, "the rest is live", func() bool {
		live, _, _ := x.counts()
		return live == "b\nc\ne\nf\nh\ni\nk\nl\nn\no\nq\nr\nt\nu\nw\nx\nz\n"
	})
	eventually(t, "and said to be", func() bool { return x.Engine.Statuses()[0].State == apply.Live })
}

func TestPreviewAppliesNothingAhead(t *testing.T) {
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
