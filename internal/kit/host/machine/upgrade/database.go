package upgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/host/machine/program"
)

// PostgreSQL's programs.
const (
	pgDump    = "/usr/bin/pg_dump"
	pgRestore = "/usr/bin/pg_restore"
	psql      = "/usr/bin/psql"
)

// asking is one of these programs, which asks the gateway's database.
func (m Machine) asking(within time.Duration, argv ...string) program.Program {
	address, env := program.WithoutPassword(m.Database)
	return program.Program{Argv: append(argv, "--dbname="+address), Env: env, As: m.User, Within: within}
}

// dump writes all of the database to a file, but for what a superuser has made in it: that stays when the database is replaced.
func (m Machine) dump(ctx context.Context, path string) error {
	return program.Into(ctx, path, m.asking(longer, pgDump, "--format=custom", "--no-password", "--exclude-schema=gateway_cluster", "--no-subscriptions"))
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
	list, err := m.listed(ctx, dump, filepath.Join(folder, "restore.list"))
	if err != nil {
		return err
	}
	defer list.Close()
	if _, err := dump.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := program.Into(ctx, script, program.Program{Argv: []string{pgRestore, "--file=-", "--no-owner", "--use-list=/proc/self/fd/3"}, In: dump, Also: list, As: m.User, Within: longer}); err != nil {
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
	p := m.asking(longer, psql, "--no-psqlrc", "--no-password", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction",
		"--command=SET lock_timeout = '60s'", "--command=DROP OWNED BY CURRENT_USER CASCADE", "--file=-", "--command="+compareAgain)
	p.In, p.Out = in, out
	_, err = program.Run(ctx, p)
	return err
}

// listed is the list of what a dump has, without what belongs to a superuser: pg_dump writes event triggers down, too. The file is gone when it is closed.
func (m Machine) listed(ctx context.Context, dump *os.File, path string) (*os.File, error) {
	defer os.Remove(path)
	if err := program.Into(ctx, path, program.Program{Argv: []string{pgRestore, "--list"}, In: dump, As: m.User, Within: longer}); err != nil {
		return nil, err
	}
	all, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var kept bytes.Buffer
	for line := range bytes.Lines(all) {
		if !eventTrigger.Match(line) {
			kept.Write(line)
		}
	}
	// pg_restore opens the file by its descriptor, and reads it as another user.
	if err := errors.Join(os.WriteFile(path, kept.Bytes(), 0o600), os.Chmod(path, 0o644)); err != nil {
		return nil, err
	}
	return os.Open(path)
}

var eventTrigger = regexp.MustCompile(`^[0-9]+; [0-9]+ [0-9]+ EVENT TRIGGER `)

// compareAgain has a standby compare all it has with its primary: what replication has brought since the dump does not come again, and for tables that
// were made again it brings nothing.
const compareAgain = `DO $$ BEGIN IF to_regclass('public.ha_state') IS NOT NULL THEN UPDATE public.ha_state SET synced_at = NULL; END IF; END $$`

// databaseSize is how many bytes the database has on the disk.
func (m Machine) databaseSize(ctx context.Context) (int64, error) {
	said, err := program.Run(ctx, m.asking(shortly, psql, "--no-psqlrc", "--no-password", "--tuples-only", "--no-align", "--command=SELECT pg_database_size(current_database())"))
	if err != nil {
		return 0, fmt.Errorf("asking for the size of the database: %w", err)
	}
	return strconv.ParseInt(strings.TrimSpace(said), 10, 64)
}
