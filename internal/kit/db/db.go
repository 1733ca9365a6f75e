// Package db owns the connection to PostgreSQL: the pool, transactions, migrations, and the way from a constraint's
// name to a complaint about a field.
package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"

	"edge.internal/gateway/internal/kit/fault"
)

// DB is the database. It may be away; then its verbs answer Unavailable.
type DB struct {
	pool     *pgxpool.Pool
	attached atomic.Bool
}

// Open prepares the connection without making one, so that the service starts while the database is away.
func Open(url string) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	cfg.MaxConns = max(cfg.MaxConns, 16)
	cfg.ConnConfig.ConnectTimeout = 3 * time.Second
	cfg.HealthCheckPeriod = 5 * time.Second
	cfg.ConnConfig.DialFunc = marked(cfg.ConnConfig.DialFunc)
	cfg.AfterConnect = func(_ context.Context, c *pgx.Conn) error {
		pgxuuid.Register(c.TypeMap()) // or each id would travel as text, by way of two refused attempts
		c.TypeMap().RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}})
		return nil
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, fmt.Errorf("database pool: %w", err)
	}
	return &DB{pool: pool}, nil
}

// Close gives the connections back.
func (d *DB) Close() { d.pool.Close() }

// Attached tells whether the database is there with the schema of this program.
func (d *DB) Attached() bool { return d.attached.Load() }

// ErrNewerSchema refuses a database that a newer version of the program has migrated.
var ErrNewerSchema = errors.New("the database has a newer schema than this program: install the newer version again or restore a backup")

// Attach connects and brings the schema up to date. Several programs may do so at once.
func (d *DB) Attach(ctx context.Context, migrations fs.FS) error {
	if err := d.pool.Ping(ctx); err != nil {
		return fmt.Errorf("reaching the database: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 120))
	if err != nil {
		return err
	}
	sqlDB := stdlib.OpenDBFromPool(d.pool)
	defer sqlDB.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, sqlDB, migrations, goose.WithSessionLocker(locker), goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("reading migrations: %w", err)
	}
	have, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("reading the schema version: %w", err)
	}
	sources := p.ListSources()
	newest := sources[len(sources)-1].Version
	if have > newest {
		return fmt.Errorf("%w (schema %d, program %d)", ErrNewerSchema, have, newest)
	}
	// Only a migration takes the lock: programs that start together must not wait for each other.
	if have < newest {
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("migrating: %w", err)
		}
	}
	d.attached.Store(true)
	return nil
}

// Querier reads. The pool and a transaction both are one.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Query reads rows outside a transaction.
func (d *DB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if !d.Attached() {
		return nil, errAway
	}
	return d.pool.Query(ctx, sql, args...)
}

// QueryRow reads one row outside a transaction.
func (d *DB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if !d.Attached() {
		return awayRow{}
	}
	return d.pool.QueryRow(ctx, sql, args...)
}

var errAway = fault.New(fault.Unavailable, "the database is away; the gateway attaches by itself when it returns")

type awayRow struct{}

func (awayRow) Scan(...any) error { return errAway }

// Write runs f in a transaction, and commits unless f fails.
func (d *DB) Write(ctx context.Context, f func(tx *Tx) error) error {
	return d.run(ctx, "BEGIN", f)
}

// Snapshot runs f in a read-only transaction that sees one state.
func (d *DB) Snapshot(ctx context.Context, f func(tx *Tx) error) error {
	return d.run(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", f)
}

func (d *DB) run(ctx context.Context, begin string, f func(tx *Tx) error) error {
	if !d.Attached() {
		return errAway
	}
	after, err := d.transact(ctx, begin, f)
	// The connection is back in the pool: what comes after may need one, and would wait for itself.
	for _, f := range after {
		f()
	}
	return Fault(err)
}

// transact runs one transaction on a connection of its own, and answers what has to be done after it.
func (d *DB) transact(ctx context.Context, begin string, f func(tx *Tx) error) (after []func(), err error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	tx := &Tx{conn: conn.Conn()}
	tx.Queue(begin)
	err = f(tx)
	if err == nil {
		err = context.Cause(ctx) // who has gone meanwhile wants nothing stored
	}
	if err != nil {
		tx.rollback(context.WithoutCancel(ctx))
		return nil, err
	}
	// Past this point the caller's patience does not matter: the outcome of a commit must be known.
	if err := tx.commit(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return tx.after, nil
}

var (
	uniqueName  = regexp.MustCompile(`^(.+)_(key|unique)$`)
	foreignName = regexp.MustCompile(`^(.+)_fkey$`)
	checkName   = regexp.MustCompile(`^(.+)_check$`)
)

// Fault turns what the database said into what the caller may see. Constraint names are part of the contract:
// <table>_<field>_key, _fkey and _check name the field.
func Fault(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	if _, unreached := errors.AsType[*pgconn.ConnectError](err); unreached {
		return fault.Wrap(fault.Unavailable, err, "%s", errAway.Message)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		field := func(re *regexp.Regexp) string {
			m := re.FindStringSubmatch(pg.ConstraintName)
			if m == nil {
				return ""
			}
			return strings.TrimPrefix(m[1], pg.TableName+"_")
		}
		switch pg.Code {
		case "23505":
			f := fault.Wrap(fault.Conflict, err, "there is one like this already")
			if name := field(uniqueName); name != "" {
				f.Fields = map[string]string{name: "is taken already"}
			}
			return f
		case "23503":
			if strings.Contains(pg.Message, "update or delete on table") {
				return fault.Wrap(fault.Conflict, err, "it is still in use")
			}
			return fault.Fields(map[string]string{field(foreignName): "does not exist"})
		case "23514":
			return fault.Fields(map[string]string{field(checkName): "is not valid"})
		case "40001", "40P01":
			return fault.Wrap(fault.Conflict, err, "somebody else changes the same at this moment: try again")
		}
		if away := []string{"08", "53", "57"}; slices.Contains(away, pg.Code[:2]) {
			return fault.Wrap(fault.Unavailable, err, "the database cannot do this now; try again")
		}
		return err
	}
	if Away(err) {
		return fault.Wrap(fault.Unavailable, err, "%s", errAway.Message)
	}
	return err
}

// Away tells whether the error means that the database cannot be reached.
func Away(err error) bool {
	if fault.Is(err, fault.Unavailable) {
		return true
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*linkError](err); ok {
		return true
	}
	return pgconn.SafeToRetry(err)
}
