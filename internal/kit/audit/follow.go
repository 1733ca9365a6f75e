package audit

import (
	"context"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/bus"
	"edge.internal/gateway/internal/kit/fault"
)

// channel is where the database announces each entry that is committed, whichever program or node wrote it.
const channel = "audit_entries"

// hearing is one connection that listens, for all who follow.
type hearing struct {
	followers int
	live      bus.Topic[Entry]
	ready     chan struct{} // closed when nothing is missed any more
	over      chan struct{} // closed when it has ended
	err       error         // why it has ended
	stop      context.CancelFunc
}

// hear joins those who follow. The first starts to listen, and the last ends it.
func (l *Log) hear() *hearing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard == nil {
		ctx, stop := context.WithCancel(context.Background())
		h := &hearing{ready: make(chan struct{}), over: make(chan struct{}), stop: stop}
		l.heard = h
		go func() {
			err := l.db.Listen(ctx, channel, func() { close(h.ready) }, func(payload string) error { return l.announce(ctx, h, payload) })
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.heard == h {
				l.heard = nil
			}
			h.err = err
			close(h.over)
		}()
	}
	l.heard.followers++
	return l.heard
}

func (l *Log) leave(h *hearing) {
	l.mu.Lock()
	h.followers--
	last := h.followers == 0
	if last && l.heard == h {
		l.heard = nil
	}
	l.mu.Unlock()
	if last {
		h.stop()
		<-h.over
	}
}

// announce reads an entry that was committed, and hands it to the followers.
func (l *Log) announce(ctx context.Context, h *hearing, payload string) error {
	id, err := uuid.Parse(payload)
	if err != nil {
		return err
	}
	e, err := l.Get(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return nil // it was pruned meanwhile
	}
	if err == nil {
		h.live.Publish(e)
	}
	return err
}

// Follow calls send with the newest n entries, oldest first, and then with each new one when it is committed, until the
// context ends, send fails or the database goes away. Listening starts before the snapshot is read and what both have is
// sent once: no gap, no duplicate.
func (l *Log) Follow(ctx context.Context, n int, send func(Entry) error) error {
	h := l.hear()
	defer l.leave(h)
	select {
	case <-h.ready:
	case <-h.over:
		return h.err
	case <-ctx.Done():
		return ctx.Err()
	}
	reader := h.live.Subscribe()
	defer func() { reader.Close() }()
	snapshot, err := l.Search(ctx, Filter{Limit: n})
	// Whatever was lost while the snapshot was read is not a slow client's fault: begin again.
	for err == nil && reader.Dropped() > 0 {
		reader.Close()
		reader = h.live.Subscribe()
		snapshot, err = l.Search(ctx, Filter{Limit: n})
	}
	if err != nil {
		return err
	}
	sent := make(map[uuid.UUID]bool, len(snapshot))
	for i := len(snapshot) - 1; i >= 0; i-- {
		sent[snapshot[i].ID] = true
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
		case e := <-reader.C:
			if sent[e.ID] {
				delete(sent, e.ID)
				continue
			}
			if err := send(e); err != nil {
				return err
			}
		}
	}
}
