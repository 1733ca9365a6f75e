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

// Server is the PostgreSQL server of the gateway's database, with the databases that are made beside it: to prove that a backup can be
// restored, and to restore one. It has no pool and no bounds but those of the caller's context.
type Server struct {
	config   *pgx.ConnConfig
	identity func() (*tls.Config, error)
}

func (d *DB) Server() *Server {
	config := d.config.Copy()
	maps.Copy(config.RuntimeParams, asText)
	return &Server{config, d.identity}
}

// Identify says how this node shows other nodes who it is, and knows them. It is called before the database is used.
func (d *DB) Identify(identity func() (*tls.Config, error)) { d.identity = identity }

// asText has rows as text not depend on the settings of a role or of a database.
var asText = map[string]string{"timezone": "UTC", "datestyle": "ISO, MDY", "intervalstyle": "postgres", "bytea_output": "hex", "extra_float_digits": "1"}

// Beside prepares a connection to another database of the same server.
func (d *DB) Beside(database string) (*DB, error) {
	return open(d.config.ConnString(), database, d.as)
}

// Live is the name of the gateway's database.
func (s *Server) Live() string { return s.config.Database }

// Connect opens a connection to the gateway's database for the packages below this one. It has no bounds but those of the caller's context.
func (s *Server) Connect(ctx context.Context) (*pgx.Conn, error) { return s.connect(ctx, s.Live()) }

// ConnectTo opens a connection to the database of another node. Values travel as text between the two, in the same form. Where the address names
// PostgreSQL's own certificate, which is not for others to read, that of Identify takes its place.
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

// filling is for who fills a database that is not in use: no commit of it waits for the disk. The rename that puts it into use does, and
// for everything before it.
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

// aside are databases that are always there: what is done to a database is done from another one.
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

// Create makes an empty database. One of that name that was left behind goes.
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

// Drop removes a database, with the sessions that are in it. The gateway's own cannot be dropped; one that is not there is no error.
func (s *Server) Drop(ctx context.Context, name string) error {
	if name == s.Live() {
		return errors.New("the gateway's own database is not dropped")
	}
	return s.aside(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "DROP DATABASE IF EXISTS "+quoted(name)+" WITH (FORCE)")
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" {
			// A vacuum of the server's own counts as a session of a superuser. Without force it is ended and not counted.
			_, err = c.Exec(ctx, "DROP DATABASE IF EXISTS "+quoted(name))
		}
		return err
	})
}

// Exists tells whether there is a database.
func (s *Server) Exists(ctx context.Context, name string) (is bool, err error) {
	err = s.aside(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&is)
	})
	return is, err
}

// Await waits until the server takes connections, for as long as the context lasts: after a power cut it has to put its files in order first.
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

// Size is how many bytes the gateway's database has on the disk.
func (s *Server) Size(ctx context.Context) (bytes int64, err error) {
	err = s.aside(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT pg_database_size($1)", s.Live()).Scan(&bytes)
	})
	return bytes, err
}

// renameWithin is how long sessions of other programs may be in the way of a rename.
const renameWithin = time.Minute

// Exchange gives the gateway's database another name, and its own name to another one, in one transaction. Where the first name is taken
// already and the other one is not, that was done before, and there is nothing to do.
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
		return fmt.Errorf("the databases are not what they were: there is %q", has)
	}
	if err := s.dismiss(ctx); err != nil {
		return err
	}
	// A role that it is not a member of cannot be disconnected, and is waited for.
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

// dismiss ends the sessions of the nodes that follow the gateway's database, whose role it is not a member of, and what is kept for them there: they have to
// follow the other database from its beginning.
func (s *Server) dismiss(ctx context.Context) error {
	conn, err := s.Connect(ctx)
	if err != nil {
		return nil // no one follows a database that cannot be reached
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

// migrate gives an empty database the schema of a version. It does what the migrations do one after the other, all at once: one by one they
// take as long as it takes to load the rows of a gateway.
func (s *Server) migrate(ctx context.Context, database string, migrations fs.FS, to int64) error {
	sqlDB := stdlib.OpenDB(*s.filling(database))
	defer sqlDB.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, sqlDB, migrations, goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("reading migrations: %w", err)
	}
	if at, err := p.GetDBVersion(ctx); err != nil { // which makes the table where they are counted
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

// Newest is the last version of the schema that the migrations make, and Has tells whether they know a version.
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
