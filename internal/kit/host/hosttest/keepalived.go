package hosttest

import (
	"context"

	"edge.internal/gateway/internal/kit/host"
)

// FollowRouter tells what SetRouter sets.
func (m *Machine) FollowRouter(ctx context.Context, told func(host.RouterState)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-m.router:
			told(s)
		}
	}
}

// SetRouter has the keepalived in memory become something.
func (m *Machine) SetRouter(s host.RouterState) { m.router <- s }
