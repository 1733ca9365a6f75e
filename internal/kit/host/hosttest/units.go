package hosttest

import (
	"context"
	"fmt"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

func (m *Machine) State(ctx context.Context, u host.Unit) (host.UnitState, error) {
	if err := m.answers(ctx); err != nil {
		return host.UnitState{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := u.Spec(); err != nil {
		return host.UnitState{}, err
	}
	return m.units[u], nil
}

func (m *Machine) Start(_ context.Context, u host.Unit) error   { return m.do("start", u, "active") }
func (m *Machine) Stop(_ context.Context, u host.Unit) error    { return m.do("stop", u, "inactive") }
func (m *Machine) Restart(_ context.Context, u host.Unit) error { return m.do("restart", u, "active") }
func (m *Machine) Reload(_ context.Context, u host.Unit) error  { return m.do("reload", u, "active") }

func (m *Machine) do(name string, u host.Unit, active string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := u.Spec(); err != nil {
		return err
	}
	m.verbs[verb{name, u}]++
	state := m.units[u]
	if !state.Installed {
		return fmt.Errorf("%s: %w", u, host.ErrNotInstalled)
	}
	if refusal := m.refusals[u]; refusal != nil && name != "stop" {
		m.units[u] = host.UnitState{Unit: u, Installed: true, Active: "failed", Since: time.Now(), Detail: refusal.Error()}
		m.changes.Publish(u)
		return fmt.Errorf("%s did not %s: %w", u, name, refusal)
	}
	if name == "reload" && state.Active != "active" {
		return fmt.Errorf("%s is not active", u)
	}
	if active != state.Active || name == "restart" {
		state.Since = time.Now()
	}
	state.Active, state.PID, state.Detail = active, 0, ""
	if active == "active" {
		state.PID = 4242
	}
	if told := m.heard[u]; told != nil && active == "active" {
		told(name, func(p host.Place) []byte { return m.files[p] })
	}
	m.units[u] = state
	m.changes.Publish(u)
	return nil
}

// Watch hears of the verbs, and of what SetUnit does.
func (m *Machine) Watch(ctx context.Context, told func(host.Unit)) error {
	reader := m.changes.Subscribe()
	defer reader.Close()
	for _, spec := range host.UnitSpecs() {
		told(spec.Unit)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case u := <-reader.C:
			told(u)
		}
	}
}

func (m *Machine) Enable(_ context.Context, u host.Unit, on bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.units[u].Installed {
		return fmt.Errorf("%s: %w", u, host.ErrNotInstalled)
	}
	m.enabled[u] = on
	return nil
}

// SetUnit sets what State answers, behind the gateway's back.
func (m *Machine) SetUnit(state host.UnitState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.units[state.Unit] = state
	m.changes.Publish(state.Unit)
}

// Uninstall takes a unit's program away.
func (m *Machine) Uninstall(u host.Unit) { m.SetUnit(host.UnitState{Unit: u}) }

// Refuse makes a unit fail each start, restart and reload with the error; nil makes it well again.
func (m *Machine) Refuse(u host.Unit, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusals[u] = err
}

// Starts, Stops, Restarts and Reloads count the verbs, also those that failed.
func (m *Machine) Starts(u host.Unit) int   { return m.count("start", u) }
func (m *Machine) Stops(u host.Unit) int    { return m.count("stop", u) }
func (m *Machine) Restarts(u host.Unit) int { return m.count("restart", u) }
func (m *Machine) Reloads(u host.Unit) int  { return m.count("reload", u) }

func (m *Machine) count(name string, u host.Unit) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.verbs[verb{name, u}]
}

// Enabled tells whether a unit starts with the machine.
func (m *Machine) Enabled(u host.Unit) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.enabled[u]
}

// Hang has everything that is asked for live state keep silent, or answer again.
func (m *Machine) Hang(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hangs = on
}

// Break has everything that is asked for live state fail with an error, or work again if that is nil.
func (m *Machine) Break(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = err
}

func (m *Machine) breaks() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.broken
}

// answers waits as long as the caller does while the machine hangs.
func (m *Machine) answers(ctx context.Context) error {
	m.mu.Lock()
	hangs, broken := m.hangs, m.broken
	m.mu.Unlock()
	if !hangs {
		return broken
	}
	<-ctx.Done()
	return context.Cause(ctx)
}
