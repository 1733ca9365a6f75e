package hosttest

import (
	"context"
	"io/fs"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

// packages are those of the machine in memory. Nothing grants a wish for an upgrade: a test says what becomes of it.
type packages struct {
	versions  host.PackageVersions
	unread    error
	refused   error // why neither a refresh nor an upgrade can begin
	refreshes int
	last      host.Upgrade
}

func (m *Machine) PackageVersions(ctx context.Context) (host.PackageVersions, error) {
	if err := m.answers(ctx); err != nil {
		return host.PackageVersions{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.packages.versions, m.packages.unread
}

func (m *Machine) RefreshPackages(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.packages.refused == nil {
		m.packages.refreshes++
	}
	return m.packages.refused
}

func (m *Machine) BeginUpgrade(_ context.Context, version string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.packages.refused != nil {
		return m.packages.refused
	}
	if err := host.IsVersion(version); err != nil {
		return err
	}
	if m.packages.last.State == host.JobRunning {
		return host.ErrUpgradeRuns
	}
	m.packages.last = host.Upgrade{ID: "wish", To: version, State: host.JobRunning, BeganAt: time.Now().UTC()}
	return nil
}

func (m *Machine) LastUpgrade() (host.Upgrade, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.packages.last.ID == "" {
		return host.Upgrade{}, fs.ErrNotExist
	}
	return m.packages.last, nil
}

// SetPackages sets what apt knows, or why it cannot be asked.
func (m *Machine) SetPackages(v host.PackageVersions, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.packages.versions, m.packages.unread = v, err
}

// RefusePackages has neither a refresh nor an upgrade begin; nil lets them.
func (m *Machine) RefusePackages(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.packages.refused = err
}

// SetUpgrade sets the running or the last upgrade.
func (m *Machine) SetUpgrade(u host.Upgrade) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.packages.last = u
}

// Refreshes counts how often apt's lists were to be fetched.
func (m *Machine) Refreshes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.packages.refreshes
}
