// Package daemontest is what the daemons in memory know of the machine in memory that they run on.
package daemontest

import (
	"context"
	"fmt"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Machine is that machine.
type Machine interface {
	// Since is when a unit has become active; ok says whether it is.
	Since(u daemon.Unit) (since time.Time, ok bool)
	// Breaks is why live state cannot be read.
	Breaks() error
	// Answers is the same, but waits as long as the caller does while the machine hangs.
	Answers(ctx context.Context) error
	// Read returns the content of a place.
	Read(p daemon.Place) ([]byte, error)
	// Script sets what answers a command.
	Script(c daemon.Command, s Script)
	// Hear registers a function that is called with each verb that starts a unit, before others see that it runs. The function may read places
	// by the one that it gets, and must not call the machine.
	Hear(u daemon.Unit, told func(verb string, read func(daemon.Place) []byte))
}

// Script answers one command.
type Script func(ctx context.Context, in daemon.Input) (daemon.Output, error)

// Runs complains about a unit that does not run.
func Runs(m Machine, u daemon.Unit, name string) error {
	if _, ok := m.Since(u); !ok {
		return fmt.Errorf("%s: %w", name, daemon.ErrNotRunning)
	}
	return nil
}
