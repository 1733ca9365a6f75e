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

const (
	pgDump    = "/usr/bin/pg_dump"
	pgRestore = "/usr/bin/pg_restore"
	psql      = "/usr/bin/psql"
)

// client returns a PostgreSQL program that connects to the gateway's database.
func (m Machine) client(within time.Duration, argv ...string) program.Program {
	address, env := program.WithoutPassword(m.Database)
	return program.Program{Argv: append(argv, "--dbname="+address), Env: env, As: m.User, Within: within}
}

// dump writes the database to a file, except what a superuser has created in it, which stays when the database is replaced.
func (m Machine) dump(ctx context.Context, path string) error {
	p := m.client(longer, pgDump, "--format=custom", "--no-password", "--exclude-schema=gateway_cluster", "--no-subscriptions")
	return program.Into(ctx, path, p)
}

// load replaces the database with a dump in one transaction: if it fails, the database stays as it is. Tables that a newer version has
// added are dropped.
func (m Machine) load(ctx context.Context, folder string) error {
	dump, err := os.Open(filepath.Join(folder, dumpFile))
	if err != nil {
		return err
	}
	defer dump.Close()
	// Not through a pipe: psql would commit the part of a script that ends early.
	script := filepath.Join(folder, "restore.sql")
	defer os.Remove(script)
	list, err := m.contents(ctx, dump, filepath.Join(folder, "restore.list"))
	if err != nil {
		return err
	}
	defer list.Close()
	if _, err := dump.Seek(0, io.SeekStart); err != nil {
		return err
	}
	restore := []string{pgRestore, "--file=-", "--no-owner", "--use-list=/proc/self/fd/3"}
	if err := program.Into(ctx, script, program.Program{Argv: restore, In: dump, Also: list, As: m.User, Within: longer}); err != nil {
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
	p := m.client(longer, psql, "--no-psqlrc", "--no-password", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction",
		"--command=SET lock_timeout = '60s'", "--command=DROP OWNED BY CURRENT_USER CASCADE", "--file=-", "--command="+compareAgain)
	p.In, p.Out = in, out
	_, err = program.Run(ctx, p)
	return err
}

// contents returns a file with a dump's table of contents, without the event triggers, which belong to a superuser: pg_dump includes them.
// The file is already unlinked.
func (m Machine) contents(ctx context.Context, dump *os.File, path string) (*os.File, error) {
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
	// pg_restore runs as another user, and opens the file through /proc, which checks the mode.
	if err := errors.Join(os.WriteFile(path, kept.Bytes(), 0o600), os.Chmod(path, 0o644)); err != nil {
		return nil, err
	}
	return os.Open(path)
}

var eventTrigger = regexp.MustCompile(`^[0-9]+; [0-9]+ [0-9]+ EVENT TRIGGER `)

// compareAgain makes a standby compare all its data with the primary's: replication does not send again what it has sent since the dump,
// and sends nothing for the tables that were created again.
const compareAgain = `DO $$ BEGIN ` +
	`IF to_regclass('public.ha_state') IS NOT NULL THEN UPDATE public.ha_state SET synced_at = NULL; END IF; END $$`

// databaseSize returns the bytes that the database takes on disk.
func (m Machine) databaseSize(ctx context.Context) (int64, error) {
	size, err := program.Run(ctx, m.client(shortly, psql, "--no-psqlrc", "--no-password", "--tuples-only", "--no-align",
		"--command=SELECT pg_database_size(current_database())"))
	if err != nil {
		return 0, fmt.Errorf("reading the size of the database: %w", err)
	}
	return strconv.ParseInt(strings.TrimSpace(size), 10, 64)
}
