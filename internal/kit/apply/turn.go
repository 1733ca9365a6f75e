package apply

import (
	"context"
	"slices"
	"sync"

	"edge.internal/gateway/internal/kit/db"
)

// turn serializes the writers of a component, first come, first served.
type turn struct {
	mu    sync.Mutex
	taken bool
	queue []chan error
}

// take waits for the turn. If it returns no error, end must be called.
func (t *turn) take(ctx context.Context) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	mine := make(chan error, 1)
	t.queue = append(t.queue, mine)
	t.mu.Unlock()
	select {
	case err := <-mine:
		return err
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.queue, mine)
	if i >= 0 {
		t.queue = slices.Delete(t.queue, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 && <-mine == nil {
		t.end(nil) // it was granted in the same moment
	}
	return context.Cause(ctx)
}

func (t *turn) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken
}

// end passes the turn on. If the database has stalled its holder, everyone in the queue has waited for the database as well: they
// get the same error instead of waiting again.
func (t *turn) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if db.Stalled(err) {
		for _, waiting := range t.queue {
			waiting <- err
		}
		t.queue = nil
	}
	if t.taken = len(t.queue) > 0; t.taken {
		t.queue[0] <- nil
		t.queue = t.queue[1:]
	}
}
