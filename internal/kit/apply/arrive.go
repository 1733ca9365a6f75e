package apply

import (
	"context"
	"time"
)

const (
	// arrivals is where the database tells of each component whose shared rows were changed by another node.
	arrivals = "gateway_revision"
	// listenEvery is the pause before listening again.
	listenEvery = 500 * time.Millisecond
)

// listen has lanes take what arrives from another node, until the context ends.
func (e *Engine) listen(ctx context.Context) {
	ready := func() {}
	for ; ; ready = e.Converge { // something may have arrived while no one listened
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
