// Package keepalivedtest is an in-memory keepalived.
package keepalivedtest

import (
	"context"

	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
)

// Router reports the states that a test sets.
type Router struct{ states chan keepalived.State }

func New() *Router { return &Router{make(chan keepalived.State, 16)} }

func (r *Router) FollowRouter(ctx context.Context, entered func(keepalived.State)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-r.states:
			entered(s)
		}
	}
}

// SetRouter reports a state to FollowRouter.
func (r *Router) SetRouter(s keepalived.State) { r.states <- s }
