package host

import "context"

// Database is PostgreSQL's server.
type Database interface {
	// LoadDatabaseSettings has PostgreSQL take what is in its places, by a restart where it needs one, and does not wait for it. On a machine that
	// has no job for that it is ErrNotInstalled.
	LoadDatabaseSettings(ctx context.Context) error
}
