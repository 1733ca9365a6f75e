package hosttest

import (
	"context"
	"fmt"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/daemontest"
)

type Script = daemontest.Script

// Run answers with the command's script; without one the output is empty. As on a real machine, a non-zero exit code becomes an
// *host.ExitError.
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

// Script sets the function that answers a command from now on; nil removes it.
func (m *Machine) Script(c host.Command, s Script) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scripts[c] = s
}

// Say makes a command print the text and succeed.
func (m *Machine) Say(c host.Command, stdout string) {
	m.Script(c, func(context.Context, host.Input) (host.Output, error) { return host.Output{Stdout: stdout}, nil })
}

// Reject makes a command print the text to its error stream and exit with status 1.
func (m *Machine) Reject(c host.Command, stderr string) {
	m.Script(c, func(context.Context, host.Input) (host.Output, error) {
		return host.Output{Stderr: stderr, ExitCode: 1}, nil
	})
}

// Missing makes a command fail as if its program were not installed.
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
