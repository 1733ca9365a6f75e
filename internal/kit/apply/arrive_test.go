package apply_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
)

// What arrives from another node while the database is unavailable is applied when it is back, without waiting for the timer.
func TestArrivalThatNoOneHears(t *testing.T) {
	t.Parallel()
	b := kittest.New(t)
	e := apply.New(b.DB, b.Machine, b.Clock, b.Log, b.Secrets, b.Changes, t.TempDir())
	e.SetTick(time.Hour)
	var stored, applied atomic.Int64
	apply.Register(e, apply.Component[int64]{
		ID: apply.Tunnel, Volatile: true, Load: func(context.Context, db.Querier) (int64, error) { return stored.Load(), nil },
		Render: func(n int64) ([]host.File, error) {
			return []host.File{{Place: chrony.DropIn, Content: []byte(time.Duration(n).String())}}, nil
		},
		Check:  func(context.Context, []host.File) error { return nil },
		Apply:  func(_ context.Context, n int64, _ []host.File) error { applied.Store(n); return nil },
		Verify: func(context.Context, int64, []host.File) error { return nil },
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { e.Run(ctx); close(ended) }()
	defer func() { stop(); <-ended }()

	stored.Store(1)
	waittest.Until(t, "the engine listens", func() bool {
		var n int
		err := b.DB.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'").Scan(&n)
		return err == nil && n == 1
	})
	e.Converge()
	waittest.Until(t, "what is stored is applied", func() bool { return applied.Load() == 1 })
	stored.Store(2)
	dbtest.Exec(t, b.DB, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
	waittest.Until(t, "what has arrived is applied", func() bool { return applied.Load() == 2 })
}
