package apply_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
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
