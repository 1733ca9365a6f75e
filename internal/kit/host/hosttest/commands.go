package hosttest

import (
	"context"
	"fmt"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/daemontest"
)

// Script answers one command.
type Script = daemontest.Script

// Run answers with the command's script, and without one with an empty output. As on a real machine, an output with an
// exit code other than zero becomes an *host.ExitError.
func (m *Machine) Run(ctx context.Context, c host.Command, in host.Input) (host.Output, error) {
	if err := m.breaks(); err != nil {
		return host.Output{}, err
	}
	m.mu.Lock()
	m.runs[c]++
	script := m.scripts[c]
	m.mu.Unlock()
	if script == nil {
		return host.Output{}, ctx.Err()
	}
	out, err := script(ctx, in)
	if err == nil && out.ExitCode != 0 {
		err = &host.ExitError{Command: c, Output: out}
	}
	return out, err
}

// Script sets what answers a command from now on; nil takes it away.
func (m *Machine) Script(c host.Command, s Script) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scripts[c] = s
}

// Say makes a command print the text and end well.
func (m *Machine) Say(c host.Command, stdout string) {
	m.Script(c, func(context.Context, host.Input) (host.Output, error) { return host.Output{Stdout: stdout}, nil })
}

// Reject makes a command print the text to its error stream and end with status 1.
func (m *Machine) Reject(c host.Command, stderr string) {
	m.Script(c, func(context.Context, host.Input) (host.Output, error) {
		return host.Output{Stderr: stderr, ExitCode: 1}, nil
	})
}

// Missing takes a command's program away.
func (m *Machine) Missing(c host.Command) {
	m.Script(c, func(context.Context, host.Input) (host.Output, error) {
		return host.Output{}, fmt.Errorf("%s: %w", c.Program(), host.ErrNotInstalled)
	})
}

func (m *Machine) Runs(c host.Command) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runs[c]
}
