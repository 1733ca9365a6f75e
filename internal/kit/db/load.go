package db

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// Content summarizes a table: the number of rows, and the sum of their hashes, which does not depend on their order.
type Content struct {
	Rows int64
	Sum  string
}

// versionTable is the table in which the migrations are counted.
const versionTable = "goose_db_version"

// Dump exports a snapshot of the gateway's database for pg_dump, and returns what it contains and its schema version.
func (s *Server) Dump(ctx context.Context, without []string, write func(ctx context.Context, snapshot string) error) (tables map[string]Content, version int64, err error) {
	conn, err := s.connect(ctx, s.Live())
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, 0, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	var snapshot string
	if err := tx.QueryRow(ctx, "SELECT pg_export_snapshot()").Scan(&snapshot); err != nil {
		return nil, 0, err
	}
	if err := tx.QueryRow(ctx, "SELECT max(version_id) FROM "+versionTable+" WHERE is_applied").Scan(&version); err != nil {
		return nil, 0, fmt.Errorf("reading the schema version: %w", err)
	}
	// Both see the same rows, and neither waits for the other.
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return write(ctx, snapshot) })
	both.Go(func() (err error) {
		tables, err = contents(ctx, tx)
		return err
	})
	if err := both.Wait(); err != nil {
		return nil, 0, err
	}
	for _, name := range without {
		if _, ok := tables[name]; !ok {
			return nil, 0, fmt.Errorf("there is no table %s to leave out", name)
		}
		tables[name] = Content{Sum: "0"}
	}
	return tables, version, nil
}

// Contents summarizes the tables of a database.
func (s *Server) Contents(ctx context.Context, database string) (tables map[string]Content, err error) {
	conn, err := s.connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return contents(ctx, conn)
}

type execer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// tablesOf returns the tables of a database and their columns, except the table of migrations.
func tablesOf(ctx context.Context, q execer) (map[string][]string, error) {
	rows, err := q.Query(ctx, `SELECT c.relname::text, coalesce(array_agg(a.attname::text ORDER BY a.attnum) FILTER (WHERE a.attgenerated = ''), '{}')
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname <> $1 GROUP BY 1`, versionTable)
	if err != nil {
		return nil, err
	}
	tables := map[string][]string{}
	var name string
	var columns []string
	_, err = pgx.ForEachRow(rows, []any{&name, &columns}, func() error {
		tables[name] = slices.Clone(columns)
		return nil
	})
	return tables, err
}

func contents(ctx context.Context, q execer) (map[string]Content, error) {
	tables, err := tablesOf(ctx, q)
	if err != nil {
		return nil, err
	}
	found := map[string]Content{}
	for name := range tables {
		var c Content
		err := q.QueryRow(ctx, `SELECT count(*), coalesce(sum(('x' || left(md5(t::text), 16))::bit(64)::bigint), 0)::text FROM `+quoted(name)+` t`).Scan(&c.Rows, &c.Sum)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		found[name] = c
	}
	return found, nil
}

// ErrRefusedDump is in the chain of the error about a dump that is not one of the gateway's database.
var ErrRefusedDump = errors.New("the dump is not one of the gateway's database")

func refusedDump(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefusedDump, fmt.Errorf(format, args...))
}

// Load fills a database that was created for it. The schema is made by the gateway's own migrations, up to the version of the
// dump; the script supplies only the rows, as pg_restore writes them. Nothing in the script is executed: only the few forms that
// pg_restore writes are accepted, rows go by COPY into existing tables and columns, and anything else refuses the dump. Foreign
// keys are checked once all rows are loaded. Every table must be in the dump, except those in without.
func (s *Server) Load(ctx context.Context, database string, migrations fs.FS, version int64, without []string, script io.Reader) error {
	if err := s.migrate(ctx, database, migrations, version); err != nil {
		return err
	}
	return s.fill(ctx, database, without, script)
}

// fill loads the rows in one transaction.
func (s *Server) fill(ctx context.Context, database string, without []string, script io.Reader) error {
	conn, err := dial(ctx, s.filling(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	tables, err := tablesOf(ctx, tx)
	if err != nil {
		return err
	}
	before, after, err := hindrances(ctx, tx)
	if err != nil {
		return err
	}
	// Delete the rows that migrations have inserted. TRUNCATE would recreate all files of the database.
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		before = append(before, "DELETE FROM "+quoted(name))
	}
	if err := execAll(ctx, tx, before); err != nil {
		return err
	}
	if err := (&loader{tx: tx, tables: tables, without: without, loaded: map[string]bool{}}).run(ctx, script); err != nil {
		return err
	}
	if err := execAll(ctx, tx, after); err != nil {
		return refusedDump("its rows do not fit together: %w", err)
	}
	return tx.Commit(ctx)
}

// Analyze updates the server's statistics before a database is put into use.
func (s *Server) Analyze(ctx context.Context, database string) error {
	conn, err := dial(ctx, s.filling(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, "ANALYZE")
	return err
}

// execAll executes statements without parameters or results in one round trip.
func execAll(ctx context.Context, tx pgx.Tx, statements []string) error {
	_, err := tx.Conn().PgConn().Exec(ctx, strings.Join(statements, ";\n")).ReadAll()
	return err
}

// hindrances returns the statements that allow loading rows in any order, and those that undo them: foreign keys are dropped and
// recreated, and triggers are disabled.
func hindrances(ctx context.Context, tx pgx.Tx) (remove, restore []string, err error) {
	rows, err := tx.Query(ctx, `SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
			format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
		FROM pg_constraint WHERE contype = 'f' AND connamespace = 'public'::regnamespace
		UNION ALL
		SELECT format('ALTER TABLE %s DISABLE TRIGGER %I', t.tgrelid::regclass, t.tgname),
			format('ALTER TABLE %s ENABLE %s TRIGGER %I', t.tgrelid::regclass, CASE t.tgenabled WHEN 'A' THEN 'ALWAYS' WHEN 'R' THEN 'REPLICA' END, t.tgname)
		FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' AND c.relnamespace = 'public'::regnamespace
		ORDER BY 1`)
	if err != nil {
		return nil, nil, err
	}
	var away, back string
	_, err = pgx.ForEachRow(rows, []any{&away, &back}, func() error {
		remove, restore = append(remove, away), append(restore, back)
		return nil
	})
	return remove, restore, err
}

// Forms of a line outside of rows. Lines that only set something for the session are skipped.
var (
	identifier = `(?:"[^"\n]+"|[a-z_][a-z0-9_$]*)`
	copyForm   = regexp.MustCompile(`^COPY public\.(` + identifier + `) \((` + identifier + `(?:, ` + identifier + `)*)\) FROM stdin;$`)
	setvalForm = regexp.MustCompile(`^SELECT pg_catalog\.setval\('public\.([a-z_][a-z0-9_]*)', ([0-9]{1,18}), (true|false)\);$`)
	passedOver = regexp.MustCompile(`^(?:--.*|\\(?:un)?restrict [A-Za-z0-9]+|SET (?:statement_timeout|lock_timeout|idle_in_transaction_session_timeout|transaction_timeout|row_security) = (?:0|off);|` +
		`SET standard_conforming_strings = on;|SET check_function_bodies = false;|SET xmloption = content;|SET client_min_messages = warning;|SET client_encoding = 'UTF8';|` +
		`SET default_tablespace = '';|SET default_table_access_method = heap;|SELECT pg_catalog\.set_config\('search_path', '', false\);)?$`)
)

// loader loads the rows of a script into the tables.
type loader struct {
	tx     pgx.Tx
	tables map[string][]string
	// without are tables whose rows may be missing.
	without []string
	loaded  map[string]bool
}

// lineLimit is the maximum length of a line outside of rows: the longest lists all columns of a table.
const lineLimit = 64 << 10

func (l *loader) run(ctx context.Context, script io.Reader) error {
	in := bufio.NewReaderSize(script, lineLimit)
	for {
		line, err := in.ReadSlice('\n')
		text := strings.TrimSuffix(string(line), "\n")
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return refusedDump("a line of it is too long")
		case err != nil && err != io.EOF:
			return err
		}
		if err := l.take(ctx, in, text); err != nil {
			return err
		}
		if err == io.EOF {
			break
		}
	}
	for name := range l.tables {
		if !l.loaded[name] && !slices.Contains(l.without, name) {
			return refusedDump("it lacks the table %s", name)
		}
	}
	return nil
}

// take handles one line, and the rows that follow it.
func (l *loader) take(ctx context.Context, in *bufio.Reader, line string) error {
	if passedOver.MatchString(line) {
		return nil
	}
	if m := setvalForm.FindStringSubmatch(line); m != nil {
		// The only one counts migrations, which were run here.
		if !strings.HasPrefix(m[1], versionTable) {
			return refusedDump("it sets the sequence %.80q, which the gateway does not have", m[1])
		}
		return nil
	}
	m := copyForm.FindStringSubmatch(line)
	if m == nil {
		return refusedDump("it contains %.80q", line)
	}
	table := bare(m[1])
	var columns []string
	for name := range strings.SplitSeq(m[2], ", ") {
		columns = append(columns, bare(name))
	}
	rows := &copyRows{in: in}
	if table == versionTable {
		_, err := io.Copy(io.Discard, rows)
		return err
	}
	has, known := l.tables[table]
	switch {
	case !known:
		return refusedDump("its version has no table %.80q", table)
	case l.loaded[table]:
		return refusedDump("it has the table %s twice", table)
	case !slices.Equal(slices.Sorted(slices.Values(has)), slices.Sorted(slices.Values(columns))):
		return refusedDump("the columns of the table %s do not match its version", table)
	}
	for i := range columns {
		columns[i] = quoted(columns[i])
	}
	sql := "COPY public." + quoted(table) + " (" + strings.Join(columns, ", ") + ") FROM STDIN"
	if _, err := l.tx.Conn().PgConn().CopyFrom(ctx, rows, sql); err != nil {
		return refusedDump("the rows of %s were refused: %w", table, err)
	}
	l.loaded[table] = true
	return nil
}

// bare removes the quotes of an identifier.
func bare(name string) string { return strings.Trim(name, `"`) }

// copyRows reads the rows of one COPY, up to its end marker. A row may be longer than the buffer.
type copyRows struct {
	in     *bufio.Reader
	rest   []byte
	inside bool // within a row
	done   bool
}

func (c *copyRows) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		if c.done {
			return 0, io.EOF
		}
		piece, err := c.in.ReadSlice('\n')
		switch {
		case err == io.EOF:
			return 0, refusedDump("it ends in the middle of a table")
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return 0, err
		case !c.inside && string(piece) == "\\.\n":
			c.done = true
			return 0, io.EOF
		}
		c.inside = err != nil // the row continues
		c.rest = piece
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
