package keepalived

import (
	"context"

	"edge.internal/gateway/internal/kit/host/daemon"
)

type State string

const (
	Master State = "master" // holds the virtual addresses
	Backup State = "backup" // takes over when the master is gone
	Fault  State = "fault"  // cannot hold them, because its link is down
	Stop   State = "stop"   // is shutting down
)

type VirtualRouter interface {
	// FollowRouter calls entered with every state that keepalived enters, starting with those that nobody has read yet, until the
	// context ends. A keepalived that does not run reports nothing.
	FollowRouter(ctx context.Context, entered func(State)) error
}

var verbs = daemon.Verbs{"FollowRouter": daemon.Served}

// ServedRouter calls the verbs that the helper executes.
type ServedRouter struct{ Helper daemon.Helper }

func (s ServedRouter) FollowRouter(ctx context.Context, entered func(State)) error {
	return daemon.Until(ctx, s.Helper.Ask(ctx, "FollowRouter", nil, func(decode func(any) error) error {
		var state State
		if err := decode(&state); err != nil {
			return err
		}
		entered(state)
		return nil
	}))
}
