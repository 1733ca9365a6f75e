// Package live follows a table as it grows: each announcement of the database is read once, for all followers.
package live

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/bus"
	"edge.internal/gateway/internal/kit/db"
)

// remembered is how many sent rows a follower remembers.
const remembered = 2000

// Feed is a table that can be followed. Its fields must be set before the first use.
type Feed[E any] struct {
	DB *db.DB
	// Channel is where the database announces committed rows, whichever program or node wrote them.
	Channel string
	// Newest returns the newest rows, newest first.
	Newest func(ctx context.Context, n int) ([]E, error)
	// Announced returns the rows that an announcement is about, oldest first. Rows that were sent already may be among them.
	Announced func(ctx context.Context, payload string) ([]E, error)
	// ID identifies a row.
	ID func(E) uuid.UUID

	mu       sync.Mutex
	listener *listener[E] // nil without a follower
}

// listener is a connection that listens on behalf of all followers.
type listener[E any] struct {
	followers int
	live      bus.Topic[[]E]
	ready     chan struct{} // closed when nothing is missed any more
	over      chan struct{} // closed when it has ended
	err       error         // why it has ended
	stop      context.CancelFunc
}

// join adds a follower. The first one starts the listener, and the last one stops it.
func (f *Feed[E]) join() *listener[E] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener == nil {
		ctx, stop := context.WithCancel(context.Background())
		h := &listener[E]{ready: make(chan struct{}), over: make(chan struct{}), stop: stop}
		f.listener = h
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
			if f.listener == h {
				f.listener = nil
			}
			h.err = err
			close(h.over)
		}()
	}
	f.listener.followers++
	return f.listener
}

func (f *Feed[E]) leave(h *listener[E]) {
	f.mu.Lock()
	h.followers--
	last := h.followers == 0
	if last && f.listener == h {
		f.listener = nil
	}
	f.mu.Unlock()
	if last {
		h.stop()
		<-h.over
	}
}

// Follow calls send with the newest n rows, oldest first, and then with each new one when it is committed, until ctx ends, send
// fails or the database becomes unavailable. It starts to listen before it reads the snapshot, and sends rows that are in both
// once: no gap, no duplicate. A follower that is too slow loses rows.
func (f *Feed[E]) Follow(ctx context.Context, n int, send func(E) error) error {
	return f.Some(ctx, func(ctx context.Context) ([]E, error) { return f.Newest(ctx, n) }, func(E) bool { return true }, send)
}

// Some is Follow for the rows that a follower wants. newest returns the newest of these, newest first.
func (f *Feed[E]) Some(ctx context.Context, newest func(context.Context) ([]E, error), wants func(E) bool, send func(E) error) error {
	h := f.join()
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
	// Rows that were lost while the snapshot was read are not a slow client's fault: start over.
	for err == nil && reader.Dropped() > 0 {
		reader.Close()
		reader = h.live.Subscribe()
		snapshot, err = newest(ctx)
	}
	if err != nil {
		return err
	}
	sent := sent{known: map[uuid.UUID]bool{}}
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

// sent remembers the last rows that a follower has received.
type sent struct {
	known map[uuid.UUID]bool
	order []uuid.UUID
}

// first reports whether a row is new, and remembers it.
func (t *sent) first(id uuid.UUID) bool {
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
