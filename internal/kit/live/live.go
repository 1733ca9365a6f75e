// Package live follows a table as it grows: what the database announces is read once, for all who follow.
package live

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/bus"
	"edge.internal/gateway/internal/kit/db"
)

// remembered is how many rows a follower remembers to have got.
const remembered = 2000

// Feed is a table that is followed. Its fields are set before the first use.
type Feed[E any] struct {
	DB *db.DB
	// Channel is where the database announces rows that are committed, whichever program or node wrote them.
	Channel string
	// Newest are the newest rows, newest first.
	Newest func(ctx context.Context, n int) ([]E, error)
	// Announced are the rows that an announcement is about, oldest first. Rows that were told already may be among them.
	Announced func(ctx context.Context, payload string) ([]E, error)
	// ID tells rows apart.
	ID func(E) uuid.UUID

	mu    sync.Mutex
	heard *hearing[E] // nil without a follower
}

// hearing is one connection that listens, for all who follow.
type hearing[E any] struct {
	followers int
	live      bus.Topic[[]E]
	ready     chan struct{} // closed when nothing is missed any more
	over      chan struct{} // closed when it has ended
	err       error         // why it has ended
	stop      context.CancelFunc
}

// hear joins those who follow. The first starts to listen, and the last ends it.
func (f *Feed[E]) hear() *hearing[E] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.heard == nil {
		ctx, stop := context.WithCancel(context.Background())
		h := &hearing[E]{ready: make(chan struct{}), over: make(chan struct{}), stop: stop}
		f.heard = h
		go func() {
			err := f.DB.Listen(ctx, f.Channel, func() { close(h.ready) }, func(payload string) error {
				rows, err := f.Announced(ctx, payload)
				if err == nil && len(rows) > 0 {
					h.live.Publish(rows)
				}
				return err
			})
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.heard == h {
				f.heard = nil
			}
			h.err = err
			close(h.over)
		}()
	}
	f.heard.followers++
	return f.heard
}

func (f *Feed[E]) leave(h *hearing[E]) {
	f.mu.Lock()
	h.followers--
	last := h.followers == 0
	if last && f.heard == h {
		f.heard = nil
	}
	f.mu.Unlock()
	if last {
		h.stop()
		<-h.over
	}
}

// Follow calls send with the newest n rows, oldest first, and then with each new one when it is committed, until the context ends,
// send fails or the database goes away. Listening starts before the snapshot is read and what both have is sent once: no gap,
// no duplicate. A follower who is too slow loses some.
func (f *Feed[E]) Follow(ctx context.Context, n int, send func(E) error) error {
	return f.Some(ctx, func(ctx context.Context) ([]E, error) { return f.Newest(ctx, n) }, func(E) bool { return true }, send)
}

// Some is Follow for those rows alone that a follower wants. It begins with the newest of these, newest first.
func (f *Feed[E]) Some(ctx context.Context, newest func(context.Context) ([]E, error), wants func(E) bool, send func(E) error) error {
	h := f.hear()
	defer f.leave(h)
	select {
	case <-h.ready:
	case <-h.over:
		return h.err
	case <-ctx.Done():
		return ctx.Err()
	}
	reader := h.live.Subscribe()
	defer func() { reader.Close() }()
	snapshot, err := newest(ctx)
	// Whatever was lost while the snapshot was read is not a slow client's fault: begin again.
	for err == nil && reader.Dropped() > 0 {
		reader.Close()
		reader = h.live.Subscribe()
		snapshot, err = newest(ctx)
	}
	if err != nil {
		return err
	}
	sent := told{known: map[uuid.UUID]bool{}}
	for i := len(snapshot) - 1; i >= 0; i-- {
		sent.first(f.ID(snapshot[i]))
		if err := send(snapshot[i]); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.over:
			return h.err
		case rows := <-reader.C:
			for _, row := range rows {
				if !wants(row) || !sent.first(f.ID(row)) {
					continue
				}
				if err := send(row); err != nil {
					return err
				}
			}
		}
	}
}

// told remembers the last rows that a follower got.
type told struct {
	known map[uuid.UUID]bool
	order []uuid.UUID
}

// first tells whether a row is a new one, and remembers it.
func (t *told) first(id uuid.UUID) bool {
	if t.known[id] {
		return false
	}
	if len(t.order) == remembered {
		delete(t.known, t.order[0])
		t.order = t.order[1:]
	}
	t.known[id], t.order = true, append(t.order, id)
	return true
}
