package apply_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
)

// A start without a database applies the last configuration of volatile components; on disk it is sealed.
func TestBootWithoutADatabase(t *testing.T) {
	t.Parallel()
	b := kittest.New(t)
	dir, stored := t.TempDir(), []string{"a secret line"}
	applied := make(chan []string, 10)
	register := func(e *apply.Engine) {
		apply.Register(e, apply.Component[[]string]{
			ID: apply.Tunnel, Volatile: true, Load: func(context.Context, db.Querier) ([]string, error) { return stored, nil },
			Render: func([]string) ([]host.File, error) {
				return []host.File{{Place: chrony.DropIn, Content: []byte("<redacted>")}}, nil
			},
			Check:  func(context.Context, []host.File) error { return nil },
			Apply:  func(_ context.Context, lines []string, _ []host.File) error { applied <- lines; return nil },
			Verify: func(context.Context, []string, []host.File) error { return nil },
		})
	}
	kept := func() (content []byte) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				more, err := os.ReadFile(path)
				content = append(content, more...)
				return err
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	now := func() *apply.Engine {
		e := apply.New(b.DB, b.Machine, b.Clock, b.Log, b.Secrets, b.Changes, dir)
		register(e)
		return e
	}
	now().Boot(t.Context())
	if len(applied) > 0 {
		t.Fatal("a new gateway has nothing to apply")
	}

	e := now()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { e.Run(ctx); close(ended) }()
	e.Converge()
	waittest.Until(t, "something is kept", func() bool { return len(kept()) >= 100 })
	stop()
	<-ended
	if bytes.Contains(kept(), []byte("secret")) {
		t.Error("the disk has it in plain")
	}
	for len(applied) > 0 {
		<-applied
	}

	now().Boot(t.Context())
	select {
	case lines := <-applied:
		if !slices.Equal(lines, stored) {
			t.Errorf("applied %q", lines)
		}
	default:
		t.Error("nothing was applied")
	}
}

// A daemon that takes long to start is started before the stored state is read, with the files that it last ran with. Unless these are as
// they must be, the first pass makes it read what is stored.
func TestEarlyStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		meanwhile       func(t *testing.T, b *kittest.Bench)
		starts, applies int
	}{
		{"nothing has changed", func(*testing.T, *kittest.Bench) {}, 1, 0},
		{"it still runs", func(t *testing.T, b *kittest.Bench) {
			if err := b.Machine.Start(t.Context(), chrony.Unit); err != nil {
				t.Fatal(err)
			}
		}, 0, 0},
		{"a file was changed by hand", func(_ *testing.T, b *kittest.Bench) { b.Machine.SetFile(chrony.DropIn, "by hand") }, 1, 1},
		{"something was stored", func(t *testing.T, b *kittest.Bench) { dbtest.Exec(t, b.DB, `INSERT INTO early_lines VALUES ('b')`) }, 1, 1},
		{"it does not start with these files", func(_ *testing.T, b *kittest.Bench) {
			b.Machine.Refuse(chrony.Unit, errors.New("no"))
		}, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := kittest.New(t)
			dbtest.Exec(t, b.DB, `CREATE TABLE early_lines (line text NOT NULL)`)
			dir, applies, reading := t.TempDir(), make(chan bool, 10), make(chan chan bool, 10)
			begin := func() (e *apply.Engine, stop func()) {
				e = apply.New(b.DB, b.Machine, b.Clock, b.Log, b.Secrets, b.Changes, dir)
				apply.Register(e, apply.Component[[]string]{
					ID: apply.NTP, Unit: chrony.Unit, Early: true, Render: render,
					Load: func(ctx context.Context, q db.Querier) (lines []string, err error) {
						select {
						case read := <-reading:
							<-read
						default:
						}
						err = q.QueryRow(ctx, `SELECT coalesce(array_agg(line ORDER BY line), '{}') FROM early_lines`).Scan(&lines)
						return lines, err
					},
					Check: func(context.Context, []host.File) error { return nil },
					Apply: func(ctx context.Context, _ []string, _ []host.File) error {
						applies <- true
						b.Machine.Refuse(chrony.Unit, nil)
						return b.Machine.Restart(ctx, chrony.Unit)
					},
					Verify: func(ctx context.Context, _ []string, _ []host.File) error {
						if state, err := b.Machine.State(ctx, chrony.Unit); err != nil || state.Active != "active" {
							return errors.Join(err, errors.New("it does not run"))
						}
						return nil
					},
				})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { e.Run(ctx); close(ended) }()
				e.Converge()
				return e, func() { cancel(); <-ended }
			}
			live := func(e *apply.Engine) {
				t.Helper()
				waittest.Until(t, "it is live", func() bool { return e.Statuses()[0].State == apply.Live })
			}
			dbtest.Exec(t, b.DB, `INSERT INTO early_lines VALUES ('a')`)
			e, stop := begin()
			live(e)
			stop()
			if n := b.Machine.Starts(chrony.Unit); n != 0 || len(applies) != 1 {
				t.Fatalf("a new gateway has nothing to start a daemon with: %d starts, %d applies", n, len(applies))
			}
			<-applies
			if err := b.Machine.Stop(t.Context(), chrony.Unit); err != nil {
				t.Fatal(err)
			}
			c.meanwhile(t, b)
			before, read := b.Machine.Starts(chrony.Unit), make(chan bool)
			reading <- read
			e, stop = begin()
			defer stop()
			waittest.Until(t, "it begins to read what is stored", func() bool { return len(reading) == 0 })
			if n := b.Machine.Starts(chrony.Unit) - before; n != c.starts {
				t.Errorf("%d starts before anything was read", n)
			}
			if s := e.Statuses()[0].State; s != apply.Pending {
				t.Errorf("%s before anything was read", s)
			}
			close(read)
			live(e)
			content, err := b.Machine.Read(chrony.DropIn)
			lines := []string{"a"}
			if c.name == "something was stored" {
				lines = append(lines, "b")
			}
			if want, _ := render(lines); err != nil || !bytes.Equal(content, want[0].Content) || len(applies) != c.applies {
				t.Errorf("%d applies, and the file is %q (%v)", len(applies), content, err)
			}
		})
	}
}
