package hosttest

import (
	"context"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/job"
)

type packages struct {
	versions  host.PackageVersions
	unread    error
	refused   error // why no refresh can start
	refreshes int
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

func (m *Machine) SetPackages(v host.PackageVersions, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.packages.versions, m.packages.unread = v, err
}

// RefusePackages makes refreshes and upgrades fail to start; nil ends that.
func (m *Machine) RefusePackages(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.packages.refused, m.job(job.Upgrade).refused = err, err
}

func (m *Machine) Refreshes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.packages.refreshes
}
