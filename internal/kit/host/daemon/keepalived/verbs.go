package keepalived

import (
	"context"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// State is what keepalived is among the nodes of a cluster.
type State string

// The states.
const (
	Master State = "master" // has the virtual addresses
	Backup State = "backup" // waits for the master to be gone
	Fault  State = "fault"  // cannot have them: its link is down
	Stop   State = "stop"   // ends
)

// VirtualRouter is the running keepalived.
type VirtualRouter interface {
	// FollowRouter tells what keepalived becomes, first what was not told yet, until the context ends. One that does not run says nothing.
	FollowRouter(ctx context.Context, told func(State)) error
}

var verbs = daemon.Verbs{"FollowRouter": daemon.Served}

// ServedRouter is the running keepalived, by way of the helper.
type ServedRouter struct{ Helper daemon.Helper }

func (s ServedRouter) FollowRouter(ctx context.Context, told func(State)) error {
	return daemon.Until(ctx, s.Helper.Ask(ctx, "FollowRouter", nil, func(decode func(any) error) error {
		var state State
		if err := decode(&state); err != nil {
			return err
		}
		told(state)
		return nil
	}))
}
