package hosttest

import (
	"context"
	"os"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql"
)

// backups are those of the machine in memory. What PostgreSQL's programs do, a test lends from the real machine.
type backups struct{ programs host.Backups }

func (m *Machine) DumpDatabase(ctx context.Context, snapshot string, without []string, into *os.File) error {
	if p := m.postgres(); p != nil {
		return p.DumpDatabase(ctx, snapshot, without, into)
	}
	return host.ErrNotInstalled
}

func (m *Machine) ReadDump(ctx context.Context, dump, into *os.File) error {
	if p := m.postgres(); p != nil {
		return p.ReadDump(ctx, dump, into)
	}
	return host.ErrNotInstalled
}

// LoadDatabaseSettings has a server take them that a test lends.
func (m *Machine) LoadDatabaseSettings(ctx context.Context) error {
	if p, ok := m.postgres().(postgresql.Database); ok {
		return p.LoadDatabaseSettings(ctx)
	}
	return host.ErrNotInstalled
}

func (m *Machine) postgres() host.Backups {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.backups.programs
}

// LendPostgreSQL lends the programs that dump a database and read dumps.
func (m *Machine) LendPostgreSQL(programs host.Backups) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.backups.programs = programs
}

// HeldDump is PostgreSQL's programs with a dump that waits: it closes Entered, and begins when Leave is closed.
type HeldDump struct {
	host.Backups
	Entered, Leave chan struct{}
}

func (h HeldDump) DumpDatabase(ctx context.Context, snapshot string, without []string, into *os.File) error {
	close(h.Entered)
	<-h.Leave
	return h.Backups.DumpDatabase(ctx, snapshot, without, into)
}
