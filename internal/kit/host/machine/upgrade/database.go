package upgrade

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/kit/host/machine/job"
)

// PostgreSQL's programs.
const (
	pgDump    = "/usr/bin/pg_dump"
	pgRestore = "/usr/bin/pg_restore"
	psql      = "/usr/bin/psql"
)

// dump writes all of the database to a file, but for what a superuser has made in it: that stays when the database is replaced.
func (m Machine) dump(ctx context.Context, path string) error {
	return job.Into(ctx, path, job.Program{Argv: []string{pgDump, "--format=custom", "--no-password", "--exclude-schema=gateway_cluster", "--no-subscriptions", "--dbname=" + m.Database}, As: m.User, Within: longer})
}

// load replaces all of the database by what a dump has, in one transaction: it is there whole, or the database stays what it is. What a
// newer version has made besides goes.
func (m Machine) load(ctx context.Context, folder string) error {
	dump, err := os.Open(filepath.Join(folder, dumpFile))
	if err != nil {
		return err
	}
	defer dump.Close()
	// psql would commit what it has got of a script that ends early.
	script := filepath.Join(folder, "restore.sql")
	defer os.Remove(script)
	if err := job.Into(ctx, script, job.Program{Argv: []string{pgRestore, "--file=-", "--no-owner"}, In: dump, As: m.User, Within: longer}); err != nil {
		return err
	}
	in, err := os.Open(script)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = job.Run(ctx, job.Program{Argv: []string{
		psql, "--no-psqlrc", "--no-password", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction", "--dbname=" + m.Database,
		"--command=SET lock_timeout = '60s'", "--command=DROP OWNED BY CURRENT_USER CASCADE", "--file=-", "--command=" + compareAgain,
	}, In: in, Out: out, As: m.User, Within: longer})
	return err
}

// compareAgain has a standby compare all it has with its primary: what replication has brought since the dump does not come again, and for tables that
// were made again it brings nothing.
const compareAgain = `DO $$ BEGIN IF to_regclass('public.ha_state') IS NOT NULL THEN UPDATE public.ha_state SET synced_at = NULL; END IF; END $$`

// databaseSize is how many bytes the database has on the disk.
func (m Machine) databaseSize(ctx context.Context) (int64, error) {
	said, err := job.Run(ctx, job.Program{Argv: []string{
		psql, "--no-psqlrc", "--no-password", "--tuples-only", "--no-align", "--dbname=" + m.Database, "--command=SELECT pg_database_size(current_database())",
	}, As: m.User, Within: shortly})
	if err != nil {
		return 0, fmt.Errorf("asking for the size of the database: %w", err)
	}
	return strconv.ParseInt(strings.TrimSpace(said), 10, 64)
}
