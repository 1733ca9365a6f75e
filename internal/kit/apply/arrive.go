package apply

import (
	"context"
	"time"
)

const (
	// arrivals is the channel on which the database announces components whose shared rows another node changed.
	arrivals    = "gateway_revision"
	listenEvery = 500 * time.Millisecond
)

// listen makes lanes apply what arrives from another node, until ctx ends.
func (e *Engine) listen(ctx context.Context) {
	ready := func() {}
	for ; ; ready = e.Converge { // something may have arrived while nobody listened
		_ = e.db.Listen(ctx, arrivals, ready, func(component string) error {
			if l := e.lanes[ID(component)]; l != nil {
				l.kick(0, false)
			}
			return nil
		})
		select {
		case <-ctx.Done():
			return
		case <-time.After(listenEvery):
		}
	}
}
