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
	if started := m.onStart[u]; started != nil && active == "active" {
		started(name, func(p host.Place) []byte { return m.files[p] })
	}
	m.units[u] = state
	m.changes.Publish(u)
	return nil
}

// Watch reports the effects of verbs and of SetUnit.
func (m *Machine) Watch(ctx context.Context, changed func(host.Unit)) error {
	reader := m.changes.Subscribe()
	defer reader.Close()
	for _, spec := range host.UnitSpecs() {
		changed(spec.Unit)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case u := <-reader.C:
			changed(u)
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

func (m *Machine) SetUnit(state host.UnitState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.units[state.Unit] = state
	m.changes.Publish(state.Unit)
}

// Uninstall removes a unit's program.
func (m *Machine) Uninstall(u host.Unit) { m.SetUnit(host.UnitState{Unit: u}) }

// Refuse makes each start, restart and reload of a unit fail; nil ends that.
func (m *Machine) Refuse(u host.Unit, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusals[u] = err
}

// Starts, Stops, Restarts and Reloads count the verbs, including failed ones.
func (m *Machine) Starts(u host.Unit) int   { return m.count("start", u) }
func (m *Machine) Stops(u host.Unit) int    { return m.count("stop", u) }
func (m *Machine) Restarts(u host.Unit) int { return m.count("restart", u) }
func (m *Machine) Reloads(u host.Unit) int  { return m.count("reload", u) }

func (m *Machine) count(name string, u host.Unit) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.verbs[verb{name, u}]
}

func (m *Machine) Enabled(u host.Unit) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.enabled[u]
}

// Hang makes every read of live state block until its context ends, or work again.
func (m *Machine) Hang(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hangs = on
}

// Break makes every read of live state fail with an error; nil ends that.
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

// answers blocks until the context ends while the machine hangs.
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
