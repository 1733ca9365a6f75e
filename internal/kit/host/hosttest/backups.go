package hosttest

import (
	"context"
	"os"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql"
)

// backups uses PostgreSQL's programs of the real machine, if a test lends them.
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

// LoadDatabaseSettings passes the call to the server that a test has lent.
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

// LendPostgreSQL lends the real machine's programs for dumps. They may also implement postgresql.Database.
func (m *Machine) LendPostgreSQL(programs host.Backups) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.backups.programs = programs
}

// HeldDump is PostgreSQL whose dump blocks: it closes Entered, and starts when Leave is closed.
type HeldDump struct {
	host.Backups
	Entered, Leave chan struct{}
}

func (h HeldDump) DumpDatabase(ctx context.Context, snapshot string, without []string, into *os.File) error {
	close(h.Entered)
	<-h.Leave
	return h.Backups.DumpDatabase(ctx, snapshot, without, into)
}
