package db

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// Server is the PostgreSQL server of the gateway's database, including the databases that are created beside it to test or to
// restore a backup. It has no pool and no bounds but those of the caller's context.
type Server struct {
	config   *pgx.ConnConfig
	identity func() (*tls.Config, error)
}

func (d *DB) Server() *Server {
	config := d.config.Copy()
	maps.Copy(config.RuntimeParams, asText)
	return &Server{config, d.identity}
}

// Identify sets the TLS identity with which this node connects to others. It must be called before the database is used.
func (d *DB) Identify(identity func() (*tls.Config, error)) { d.identity = identity }

// asText makes the text form of rows independent of the settings of a role or database.
var asText = map[string]string{"timezone": "UTC", "datestyle": "ISO, MDY", "intervalstyle": "postgres", "bytea_output": "hex", "extra_float_digits": "1"}

// Beside prepares a connection to another database of the same server.
func (d *DB) Beside(database string) (*DB, error) {
	return open(d.config.ConnString(), database, d.as)
}

// Live returns the name of the gateway's database.
func (s *Server) Live() string { return s.config.Database }

// Connect opens a connection to the gateway's database for subpackages. It has no bounds but those of the caller's context.
func (s *Server) Connect(ctx context.Context) (*pgx.Conn, error) { return s.connect(ctx, s.Live()) }

// ConnectTo opens a connection to the database of another node. Both use the same text form of values. If conninfo refers to
// PostgreSQL's own certificate, whose key others cannot read, that of Identify is used instead.
func (s *Server) ConnectTo(ctx context.Context, conninfo string, replication bool) (*pgx.Conn, error) {
	words := strings.Fields(conninfo)
	address := ""
	verified := slices.Contains(words, "sslmode=verify-full")
	if verified {
		words = slices.DeleteFunc(words, func(w string) bool {
			if a, ok := strings.CutPrefix(w, "hostaddr="); ok {
				address = a
			}
			return slices.ContainsFunc([]string{"ssl", "hostaddr=", "tcp_user_timeout="}, func(p string) bool { return strings.HasPrefix(w, p) })
		})
		conninfo = strings.Join(append(words, "sslmode=require"), " ")
	}
	config, err := pgx.ParseConfig(conninfo)
	if err != nil {
		return nil, fmt.Errorf("the address of the other node's database: %w", err)
	}
	if verified {
		if s.identity == nil {
			return nil, errors.New("this node has no certificate to show to others")
		}
		mine, err := s.identity()
		if err != nil {
			return nil, err
		}
		config.TLSConfig = mine.Clone()
		config.TLSConfig.ServerName, config.TLSConfig.MinVersion = config.Host, tls.VersionTLS13
		config.Host, config.Fallbacks = address, nil
	}
	config.ConnectTimeout = 3 * time.Second
	maps.Copy(config.RuntimeParams, asText)
	if replication {
		config.RuntimeParams = map[string]string{"replication": "database"}
		config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	}
	return dial(ctx, config)
}

func (s *Server) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	config := s.config.Copy()
	config.Database = database
	return dial(ctx, config)
}

// filling returns the configuration for filling a database that is not in use: its commits do not wait for the disk. The rename
// that puts it into use does, for everything before it.
func (s *Server) filling(database string) *pgx.ConnConfig {
	config := s.config.Copy()
	config.Database = database
	config.RuntimeParams["synchronous_commit"] = "off"
	return config
}

func dial(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("reaching the database: %w", err)
	}
	return conn, nil
}

// aside are databases that always exist: a database can only be changed from another one.
var aside = []string{"postgres", "template1"}

// aside does something from another database than the gateway's.
func (s *Server) aside(ctx context.Context, do func(*pgx.Conn) error) error {
	var failed error
	for _, name := range aside {
		conn, err := s.connect(ctx, name)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		defer conn.Close(context.WithoutCancel(ctx))
		return do(conn)
	}
	return failed
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// Create creates an empty database, replacing one of that name that was left behind.
func (s *Server) Create(ctx context.Context, name string) error {
	if err := s.Drop(ctx, name); err != nil {
		return err
	}
	return s.aside(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "CREATE DATABASE "+quoted(name)+" ENCODING 'UTF8' LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8' TEMPLATE template0")
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" {
			return fmt.Errorf("the gateway's role may not make databases: grant it CREATEDB: %w", err)
		}
		return err
	})
}

// Drop removes a database and ends its sessions. It refuses the gateway's own; one that does not exist is no error.
func (s *Server) Drop(ctx context.Context, name string) error {
	if name == s.Live() {
		return errors.New("the gateway's own database is not dropped")
	}
	return s.aside(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "DROP DATABASE IF EXISTS "+quoted(name)+" WITH (FORCE)")
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" {
			// An autovacuum counts as a superuser's session. Without FORCE it is ended and not counted.
			_, err = c.Exec(ctx, "DROP DATABASE IF EXISTS "+quoted(name))
		}
		return err
	})
}

func (s *Server) Exists(ctx context.Context, name string) (is bool, err error) {
	err = s.aside(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&is)
	})
	return is, err
}

// Await waits until the server accepts connections or ctx ends: after a power cut it first has to recover.
func (s *Server) Await(ctx context.Context) error {
	for {
		err := s.aside(ctx, func(*pgx.Conn) error { return nil })
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Size returns the size of the gateway's database on disk in bytes.
func (s *Server) Size(ctx context.Context) (bytes int64, err error) {
	err = s.aside(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT pg_database_size($1)", s.Live()).Scan(&bytes)
	})
	return bytes, err
}

// renameWithin is how long sessions of other programs may block a rename.
const renameWithin = time.Minute

// Exchange renames the gateway's database to former and next to the gateway's, in one transaction. If former exists and next does
// not, this was done before, and Exchange does nothing.
func (s *Server) Exchange(ctx context.Context, next, former string) error {
	ctx, cancel := context.WithTimeout(ctx, renameWithin)
	defer cancel()
	for {
		err := s.aside(ctx, func(c *pgx.Conn) error { return s.exchange(ctx, c, next, former) })
		refused, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || refused.Code != "55006" { // object_in_use
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("others use the database and cannot be disconnected: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (s *Server) exchange(ctx context.Context, c *pgx.Conn, next, former string) error {
	var has []string
	if err := c.QueryRow(ctx, "SELECT coalesce(array_agg(datname::text), '{}') FROM pg_database WHERE datname = ANY ($1)", []string{s.Live(), next, former}).Scan(&has); err != nil {
		return err
	}
	there := map[string]bool{}
	for _, name := range has {
		there[name] = true
	}
	switch {
	case there[s.Live()] && there[former] && !there[next]:
		return nil
	case !there[s.Live()] || !there[next] || there[former]:
		return fmt.Errorf("the databases have changed in the meantime: there is %q", has)
	}
	if err := s.dismiss(ctx); err != nil {
		return err
	}
	// Sessions of a role that this one is not a member of cannot be ended; Exchange waits for them.
	if _, err := c.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = ANY ($1) AND pid <> pg_backend_pid() AND pg_has_role(usesysid, 'MEMBER')`, []string{s.Live(), next}); err != nil {
		return err
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	for _, rename := range [][2]string{{s.Live(), former}, {next, s.Live()}} {
		if _, err := tx.Exec(ctx, "ALTER DATABASE "+quoted(rename[0])+" RENAME TO "+quoted(rename[1])); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// dismiss ends the sessions of standbys, whose role this one is not a member of, and drops their slots: they must follow the new
// database from its beginning.
func (s *Server) dismiss(ctx context.Context) error {
	conn, err := s.Connect(ctx)
	if err != nil {
		return nil // nobody follows a database that cannot be reached
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		var left int
		err := conn.QueryRow(ctx, "SELECT gateway_cluster.dismiss('{}', '{}')").Scan(&left)
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && (refused.Code == "3F000" || refused.Code == "42883") {
			return nil // it has no functions for replication
		}
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d sessions and slots of other nodes are still there", left)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// migrate gives an empty database the schema of a version. It runs all migrations in one batch: one by one they take as long as
// loading the rows of a gateway.
func (s *Server) migrate(ctx context.Context, database string, migrations fs.FS, to int64) error {
	sqlDB := stdlib.OpenDB(*s.filling(database))
	defer sqlDB.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, sqlDB, migrations, goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("reading migrations: %w", err)
	}
	if at, err := p.GetDBVersion(ctx); err != nil { // this creates the table in which they are counted
		return fmt.Errorf("migrating to %d: %w", to, err)
	} else if at != 0 {
		return fmt.Errorf("the database has the schema %d already", at)
	}
	var all strings.Builder
	for _, m := range p.ListSources() {
		if m.Version > to {
			break
		}
		content, err := fs.ReadFile(migrations, m.Path)
		if err != nil {
			return err
		}
		up, _, _ := strings.Cut(string(content), "-- +goose Down")
		fmt.Fprintf(&all, "%s;\nINSERT INTO %s (version_id, is_applied) VALUES (%d, true);\n", up, versionTable, m.Version)
	}
	conn, err := dial(ctx, s.filling(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.PgConn().Exec(ctx, all.String()).ReadAll(); err != nil {
		return fmt.Errorf("migrating to %d: %w", to, err)
	}
	return nil
}

// Newest returns the latest schema version of the migrations, and a function that reports whether they have a version.
func Newest(migrations fs.FS) (newest int64, has func(version int64) bool, err error) {
	names, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		return 0, nil, err
	}
	versions := map[int64]bool{}
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, nil, err
		}
		versions[version] = true
		newest = max(newest, version)
	}
	return newest, func(version int64) bool { return versions[version] }, nil
}
