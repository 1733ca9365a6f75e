// Package keepalivedtest is a keepalived in memory.
package keepalivedtest

import (
	"context"

	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
)

// Router becomes what it is told to.
type Router struct{ states chan keepalived.State }

// New returns one that says nothing yet.
func New() *Router { return &Router{make(chan keepalived.State, 16)} }

// FollowRouter tells what SetRouter sets.
func (r *Router) FollowRouter(ctx context.Context, told func(keepalived.State)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-r.states:
			told(s)
		}
	}
}

// SetRouter has it become something.
func (r *Router) SetRouter(s keepalived.State) { r.states <- s }
