package private

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Reload makes a server reload its settings, and reports whether some of them need a restart.
func Reload(ctx context.Context, url string) (restart bool, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return false, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// The view reads the files immediately; the reload itself takes effect a moment later.
	err = conn.QueryRow(ctx, `SELECT pg_reload_conf(), EXISTS (SELECT FROM pg_file_settings f JOIN pg_settings s USING (name) WHERE s.context = 'postmaster' AND f.error IS NOT NULL)
		OR EXISTS (SELECT FROM pg_settings WHERE pending_restart)`).Scan(nil, &restart)
	return restart, err
}
