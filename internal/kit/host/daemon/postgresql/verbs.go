package postgresql

import (
	"context"

	"edge.internal/gateway/internal/kit/host/daemon"
)

type Database interface {
	// LoadDatabaseSettings makes PostgreSQL load the installed files, with a restart if necessary, and does not wait for it. If the
	// machine has no job for that, it is daemon.ErrNotInstalled.
	LoadDatabaseSettings(ctx context.Context) error
}

var verbs = daemon.Verbs{"LoadDatabaseSettings": daemon.Repeatable}

// ServedDatabase calls the verbs that the helper executes.
type ServedDatabase struct{ Helper daemon.Helper }

func (s ServedDatabase) LoadDatabaseSettings(ctx context.Context) error {
	return daemon.Do(ctx, s.Helper, "LoadDatabaseSettings")
}
