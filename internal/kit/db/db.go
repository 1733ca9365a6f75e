// Package db owns the connection to PostgreSQL: pools, transactions, migrations, and the translation of constraint violations
// into faults about fields.
package db

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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

// DB is the database. While it is unavailable, its methods return Unavailable.
type DB struct {
	// Reads have their own connections, so that changes and previews cannot exhaust them.
	reads, writes *pgxpool.Pool
	// config is that of a connection outside the pools, which has no bounds.
	config *pgx.ConnConfig
	// as is the user that it connects as; nil for that of this process.
	as *syscall.Credential
	// identity is this node's TLS identity, see Identify.
	identity func() (*tls.Config, error)
	// supposing holds a token for each running supposition.
	supposing chan struct{}
	migrated  atomic.Bool
	// newest is the schema version of this program; newer says that the database has a later one.
	newest atomic.Int64
	newer  atomic.Bool
	// joined says that another program manages the schema.
	joined atomic.Bool
	topics topics
	moment shared[Moment]

	mu      sync.Mutex
	present context.Context // ends when the database stops answering
	lost    context.CancelFunc
	unwatch context.CancelFunc
	watched chan struct{}
}

// Open prepares the pools without connecting, so that the service starts while the database is unavailable.
func Open(url string) (*DB, error) { return open(url, "", nil) }

// open is Open with an optional other database name, and as another user.
func open(url, database string, who *syscall.Credential) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	if database != "" {
		cfg.ConnConfig.Database = database
	}
	cfg.MaxConns = 16
	cfg.ConnConfig.ConnectTimeout = 3 * time.Second
	cfg.HealthCheckPeriod = 5 * time.Second
	dial := cfg.ConnConfig.DialFunc
	if who != nil {
		dial = dialAs(who, dial)
	}
	cfg.ConnConfig.DialFunc = marked(dial)
	cfg.AfterConnect = func(_ context.Context, c *pgx.Conn) error {
		pgxuuid.Register(c.TypeMap()) // otherwise each id would be sent as text, after two failed attempts
		c.TypeMap().RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}})
		return nil
	}
	d := &DB{config: cfg.ConnConfig.Copy(), as: who, supposing: make(chan struct{}, supposedAtOnce)}
	d.present, d.lost = context.WithCancel(context.Background())
	maps.Copy(cfg.ConnConfig.RuntimeParams, map[string]string{
		"client_min_messages": "notice", // whatever the server's setting: onNotice must receive changes
		"lock_timeout":        lockWithin, "statement_timeout": statementWithin, "idle_in_transaction_session_timeout": idleWithin,
	})
	cfg.ConnConfig.OnNotice = onNotice
	for _, pool := range []**pgxpool.Pool{&d.reads, &d.writes} {
		if *pool, err = pgxpool.NewWithConfig(context.Background(), cfg.Copy()); err != nil {
			return nil, fmt.Errorf("database pool: %w", err)
		}
	}
	return d, nil
}

func (d *DB) Close() {
	d.mu.Lock()
	unwatch, watched := d.unwatch, d.watched
	d.mu.Unlock()
	if unwatch != nil {
		unwatch()
		<-watched
	}
	d.reads.Close()
	d.writes.Close()
}

// Attached reports whether the database is available and has the schema of this program.
func (d *DB) Attached() bool {
	return d.migrated.Load() && !d.newer.Load() && d.presence().Err() == nil
}

// Newer reports whether a newer version of the program has migrated the database. This one leaves it alone then.
func (d *DB) Newer() bool { return d.newer.Load() }

// ErrNewerSchema refuses a database that a newer version of the program has migrated.
var ErrNewerSchema = fault.New(fault.Unavailable, "A newer version of the gateway has changed the database, so this version does not use it. Install the newer version again, or restore a backup.")

// away returns the error for a database that cannot be used.
func (d *DB) away() error {
	if d.newer.Load() {
		return ErrNewerSchema
	}
	return errAway
}

// Attach connects and brings the schema up to date. Several programs may do so at once.
func (d *DB) Attach(ctx context.Context, migrations fs.FS) error {
	if err := d.reads.Ping(ctx); err != nil {
		return fmt.Errorf("reaching the database: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 120))
	if err != nil {
		return err
	}
	sqlDB := stdlib.OpenDB(*d.config) // without bounds: a migration may take long
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
	d.newest.Store(newest)
	d.newer.Store(have > newest)
	if have > newest {
		return fmt.Errorf("%w (schema %d, program %d)", ErrNewerSchema, have, newest)
	}
	// Only a migration takes the lock: programs that start together must not wait for each other.
	if have < newest {
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("migrating: %w", err)
		}
	}
	d.attached()
	return nil
}

// Join connects and leaves the schema alone, for a program whose role may not even read its version.
func (d *DB) Join(ctx context.Context) error {
	if err := d.reads.Ping(ctx); err != nil {
		return fmt.Errorf("reaching the database: %w", err)
	}
	d.joined.Store(true)
	d.attached()
	return nil
}

// attached records that the database is available, and starts to watch it.
func (d *DB) attached() {
	d.migrated.Store(true)
	d.answers(true)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unwatch == nil {
		var watching context.Context
		watching, d.unwatch = context.WithCancel(context.Background())
		d.watched = make(chan struct{})
		go d.watch(watching)
	}
}

// Querier reads. Both DB and Tx implement it.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Query reads rows outside a transaction. Errors are translated by Fault.
func (d *DB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if !d.Attached() {
		return nil, d.away()
	}
	waiting, over, err := d.wait(ctx, 0, false)
	if err != nil {
		return nil, err
	}
	end := func(err error) error { return Fault(over(err)) }
	found, err := d.reads.Query(waiting, sql, args...)
	if err != nil {
		return nil, end(err)
	}
	return &rows{Rows: found, end: end}, nil
}

// QueryRow reads one row outside a transaction.
func (d *DB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	found, err := d.Query(ctx, sql, args...)
	return row{found, err}
}

var errAway = fault.New(fault.Unavailable, "The database is unavailable. The gateway continues when it is back.")

// Write runs f in a transaction, and commits unless f fails.
func (d *DB) Write(ctx context.Context, f func(tx *Tx) error) error {
	return d.run(ctx, d.writes, f, "BEGIN")
}

// Snapshot runs f in a read-only transaction that sees one state.
func (d *DB) Snapshot(ctx context.Context, f func(tx *Tx) error) error {
	return d.run(ctx, d.reads, func(tx *Tx) error {
		tx.bulk = true
		return f(tx)
	}, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
}

func (d *DB) run(ctx context.Context, pool *pgxpool.Pool, f func(tx *Tx) error, begin ...string) error {
	if !d.Attached() {
		return d.away()
	}
	after, err := d.transact(ctx, pool, f, begin...)
	// The connection must be back in the pool: the functions may need one, and would deadlock.
	for _, f := range after {
		f()
	}
	return Fault(err)
}

// transact runs one transaction on its own connection, and returns the functions to run after it.
func (d *DB) transact(ctx context.Context, pool *pgxpool.Pool, f func(tx *Tx) error, begin ...string) (after []func(), err error) {
	waiting, over, err := d.wait(ctx, patience, false)
	if err != nil {
		return nil, err
	}
	conn, err := pool.Acquire(waiting)
	if err = over(err); err != nil {
		return nil, err
	}
	defer conn.Release()
	defer d.topics.ended(conn.Conn().PgConn())
	tx := &Tx{db: d, conn: conn.Conn()}
	for _, sql := range begin {
		tx.Queue(sql)
	}
	// If the caller has left, or has waited in vain, f may have been cut short.
	err = first(f(tx), context.Cause(ctx), spent(ctx))
	if err == nil {
		err = tx.prepare()
	}
	if err != nil {
		tx.rollback(ctx)
		return nil, err
	}
	if err := tx.commit(ctx); err != nil {
		return nil, err
	}
	return tx.after, nil
}

// errUnknown is in the chain of the error of a commit that the database did not answer.
var errUnknown = errors.New("the outcome of the commit is unknown")

// Unknown reports whether an error leaves open if the transaction was committed.
func Unknown(err error) bool { return errors.Is(err, errUnknown) }

const (
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	readOnly             = "25006"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
)

// Passing reports whether the only obstacle was a concurrent transaction: a retry may succeed.
func Passing(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains([]string{serializationFailure, deadlockDetected, lockNotAvailable}, pg.Code)
}

// Primary is the detail of a refusal to change shared rows on a node that is not the primary.
type Primary struct {
	Primary string `json:"primary" doc:"Name of the node that takes the change; empty while none is known."`
}

// elsewhere translates the refusal by the guard of a shared table.
func elsewhere(pg *pgconn.PgError) error {
	f := fault.Wrap(fault.Unavailable, pg, "Only the primary can make this change. Make it there: %s.", pg.Detail)
	if pg.Detail == "" {
		f = fault.Wrap(fault.Unavailable, pg, "Only the primary can make this change, and the cluster has no primary at the moment.")
	}
	f.Details = Primary{pg.Detail}
	return f
}

// Elsewhere reports whether a change was refused because only the primary of the cluster accepts it.
func Elsewhere(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == readOnly && pg.ConstraintName == "ha_guard"
}

var (
	uniqueName  = regexp.MustCompile(`^(.+)_(key|unique)$`)
	foreignName = regexp.MustCompile(`^(.+)_fkey$`)
	checkName   = regexp.MustCompile(`^(.+)_check$`)
)

// Fault translates a database error into what the caller may see. Constraint names are part of the contract: <table>_<field>_key,
// _fkey and _check name the field.
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
			f := fault.Taken(nil)
			f.Cause = err
			if name := field(uniqueName); name != "" {
				f.Fields = map[string]string{name: "is already taken"}
			}
			return f
		case "23503":
			if strings.Contains(pg.Message, "update or delete on table") {
				return fault.Wrap(fault.Conflict, err, "It is still in use.")
			}
			return fault.Fields(map[string]string{field(foreignName): "has an id that does not exist"})
		case "23514":
			return fault.Fields(map[string]string{field(checkName): "is not valid"})
		case serializationFailure, deadlockDetected:
			return fault.Wrap(fault.Conflict, err, "Another change is being made to the same data. Try again.")
		case readOnly:
			if pg.ConstraintName == "ha_guard" {
				return elsewhere(pg)
			}
		case lockNotAvailable:
			return fault.Wrap(fault.Unavailable, err, "Something else holds a lock in the database. Try again in a moment.")
		}
		if away := []string{"08", "53", "57"}; slices.Contains(away, pg.Code[:2]) {
			return fault.Wrap(fault.Unavailable, err, "The database cannot do this now. Try again in a moment.")
		}
		return err
	}
	if Away(err) {
		return fault.Wrap(fault.Unavailable, err, "%s", errAway.Message)
	}
	// The driver gave up a connection although the caller's time was not up.
	if pgconn.Timeout(err) && !errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(fault.Unavailable, err, "%s", errAway.Message)
	}
	return err
}

// Away reports whether the error means that the database cannot be reached.
func Away(err error) bool {
	if Elsewhere(err) {
		return false
	}
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
