package hosttest

import (
	"context"
	"io/fs"
	"os"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

// backups are those of the machine in memory. Nothing grants a wish for a restore: a test says what becomes of it. What PostgreSQL's
// programs do, a test lends from the real machine.
type backups struct {
	programs host.Backups
	refused  error // why no restore can begin
	wish     host.RestoreWish
	last     host.Restore
}

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
	if p, ok := m.postgres().(host.Database); ok {
		return p.LoadDatabaseSettings(ctx)
	}
	return host.ErrNotInstalled
}

func (m *Machine) postgres() host.Backups {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.backups.programs
}

func (m *Machine) BeginRestore(_ context.Context, wish host.RestoreWish) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.backups.refused != nil {
		return m.backups.refused
	}
	if err := wish.Check(); err != nil {
		return err
	}
	if m.backups.last.State == host.JobRunning {
		return host.ErrRestoreRuns
	}
	m.backups.wish = wish
	m.backups.last = host.Restore{ID: "wish", Backup: wish.Backup, State: host.JobRunning, BeganAt: time.Now().UTC()}
	return nil
}

func (m *Machine) LastRestore() (host.Restore, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.backups.last.ID == "" {
		return host.Restore{}, fs.ErrNotExist
	}
	return m.backups.last, nil
}

// LendPostgreSQL lends the programs that dump a database and read dumps.
func (m *Machine) LendPostgreSQL(programs host.Backups) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.backups.programs = programs
}

// RefuseRestore has no restore begin; nil lets it.
func (m *Machine) RefuseRestore(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.backups.refused = err
}

// SetRestore sets the running or the last restore.
func (m *Machine) SetRestore(r host.Restore) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.backups.last = r
}

// RestoreWish is the last wish for a restore.
func (m *Machine) RestoreWish() host.RestoreWish {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.backups.wish
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
