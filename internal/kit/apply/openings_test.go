package apply_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/waittest"
)

// filtered returns a toy beside a packet filter that opens what the toy asks for, both for what is stored and for what runs.
func filtered(t *testing.T, change func(*toy)) *toy {
	t.Helper()
	return newToy(t, func(x *toy) {
		change(x)
		apply.Register(x.Engine, apply.Component[[]string]{
			ID: apply.PacketFilter,
			Load: func(ctx context.Context, q db.Querier) (open []string, err error) {
				if open, err = x.load(ctx, q); err != nil {
					return nil, err
				}
				for _, o := range x.Engine.Standing() {
					open = append(open, o.Service)
				}
				return open, nil
			},
			Render: func(lines []string) ([]host.File, error) {
				files, err := render(lines)
				files[0].Place = nftables.Table
				return files, err
			},
			Check:  func(context.Context, []host.File) error { return nil },
			Apply:  func(context.Context, []string, []host.File) error { return nil },
			Verify: func(context.Context, []string, []host.File) error { return nil },
		})
	})
}

// opened waits until the packet filter's file has the given content.
func (x *toy) opened(t *testing.T, want string) {
	t.Helper()
	waittest.Until(t, "open for "+want, func() bool {
		content, err := x.Machine.Read(nftables.Table)
		return err == nil && string(content) == want
	})
}

func (x *toy) replace(t *testing.T, line string) {
	t.Helper()
	_, err := x.Engine.Commit(t.Context(), []apply.ID{apply.NTP, apply.PacketFilter}, func(tx *db.Tx) ([]apply.Row, error) {
		_, err := tx.Exec(t.Context(), `UPDATE toy_lines SET line = $1`, line)
		return nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What runs stays reachable although something else is stored, even if another process takes over. Once the stored state runs,
// nothing else is open.
func TestWhatRunsStaysOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := filtered(t, func(x *toy) {
		x.Engine = apply.New(x.DB, x.Machine, x.Clock, x.Log, x.Secrets, x.Changes, dir)
	})
	if _, err := x.add(t, "a"); err != nil {
		t.Fatal(err)
	}
	x.opened(t, "a\n")
	x.dislike("b")
	x.replace(t, "b")
	x.opened(t, "b\na\n")
	x.replace(t, "a")
	x.opened(t, "a\n")
	x.replace(t, "b")
	x.opened(t, "b\na\n")

	// Another process starts from what the first one left, and opens no less before it knows the daemon's state.
	y := filtered(t, func(y *toy) {
		left := t.TempDir()
		if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		y.Engine = apply.New(y.DB, y.Machine, y.Clock, y.Log, y.Secrets, y.Changes, left)
		dbtest.Exec(t, y.DB, `INSERT INTO toy_lines VALUES ('c')`)
		y.gate = make(chan struct{})
	})
	y.opened(t, "c\na\n")
	close(y.gate)
	y.opened(t, "c\n")
}

// A state that cannot be read asks nothing of the packet filter.
func TestUnreadableStateAsksNothing(t *testing.T) {
	t.Parallel()
	b := kittest.New(t)
	apply.Register(b.Engine, apply.Component[*toy]{
		ID: apply.NTP, Unit: chrony.Unit,
		Load:     func(context.Context, db.Querier) (*toy, error) { return nil, errors.New("it is unreadable") },
		Openings: func(x *toy) []policy.Opening { return openings(x.given) },
	})
	b.Start(t)
	if s := b.Engine.Refresh(t.Context(), apply.NTP, false); s.State != apply.Degraded {
		t.Errorf("%+v", s)
	}
}
