// Package daemontest defines what the in-memory daemons need of the in-memory machine that they run on.
package daemontest

import (
	"context"
	"fmt"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Machine is implemented by hosttest.
type Machine interface {
	// Since returns when a unit became active; ok is false unless it is.
	Since(u daemon.Unit) (since time.Time, ok bool)
	// Breaks returns the error of reads of live state, if a test has set one.
	Breaks() error
	// Answers does the same, but blocks until the context ends while the machine hangs.
	Answers(ctx context.Context) error
	Read(p daemon.Place) ([]byte, error)
	// Script sets the function that answers a command.
	Script(c daemon.Command, s Script)
	// OnStart registers a function that is called for each start, restart or reload of a unit, before the unit becomes active. It
	// may read places with read, and must not call the machine.
	OnStart(u daemon.Unit, started func(verb string, read func(daemon.Place) []byte))
}

// Script answers a command.
type Script func(ctx context.Context, in daemon.Input) (daemon.Output, error)

// Runs returns daemon.ErrNotRunning unless the unit is active.
func Runs(m Machine, u daemon.Unit, name string) error {
	if _, ok := m.Since(u); !ok {
		return fmt.Errorf("%s: %w", name, daemon.ErrNotRunning)
	}
	return nil
}
