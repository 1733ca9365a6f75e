package postgresql

import (
	"context"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Database is PostgreSQL's server.
type Database interface {
	// LoadDatabaseSettings has PostgreSQL take what is in its places, by a restart where it needs one, and does not wait for it. On a
	// machine that has no job for that it is daemon.ErrNotInstalled.
	LoadDatabaseSettings(ctx context.Context) error
}

var verbs = daemon.Verbs{"LoadDatabaseSettings": daemon.Repeatable}

// ServedDatabase is PostgreSQL's server, by way of the helper.
type ServedDatabase struct{ Helper daemon.Helper }

func (s ServedDatabase) LoadDatabaseSettings(ctx context.Context) error {
	return daemon.Do(ctx, s.Helper, "LoadDatabaseSettings")
}
