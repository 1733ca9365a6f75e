// Package db owns the connection to PostgreSQL: the pool, transactions, migrations, and the way from a constraint's
// name to a complaint about a field.
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

// DB is the database. It may be away; then its verbs answer Unavailable.
type DB struct {
	// Reads have connections of their own: neither changes nor previews can take them all.
	reads, writes *pgxpool.Pool
	// config is that of a connection beside the pools, which has no bounds.
	config *pgx.ConnConfig
	// as is whom it connects as; nil for who runs this.
	as *syscall.Credential
	// identity is this node's to others, see Identify.
	identity func() (*tls.Config, error)
	// supposing holds a token for each supposition that runs.
	supposing chan struct{}
	migrated  atomic.Bool
	// newest is the schema of this program, and newer says that the database has one after it.
	newest atomic.Int64
	newer  atomic.Bool
	// joined says that the schema is another program's business.
	joined atomic.Bool
	topics topics
	moment shared[Moment]

	mu      sync.Mutex
	present context.Context // ends when the database stops answering
	lost    context.CancelFunc
	unwatch context.CancelFunc
	watched chan struct{}
}

// Open prepares the connection without making one, so that the service starts while the database is away.
func Open(url string) (*DB, error) { return open(url, "", nil) }

// open is Open for a database of another name than the URL has, if it is given, and as another user.
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
		pgxuuid.Register(c.TypeMap()) // or each id would travel as text, by way of two refused attempts
		c.TypeMap().RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}})
		return nil
	}
	d := &DB{config: cfg.ConnConfig.Copy(), as: who, supposing: make(chan struct{}, supposedAtOnce)}
	d.present, d.lost = context.WithCancel(context.Background())
	maps.Copy(cfg.ConnConfig.RuntimeParams, map[string]string{
		"client_min_messages": "notice", // whatever the server is told: noticed must hear of changes
		"lock_timeout":        lockWithin, "statement_timeout": statementWithin, "idle_in_transaction_session_timeout": idleWithin,
	})
	cfg.ConnConfig.OnNotice = noticed
	for _, pool := range []**pgxpool.Pool{&d.reads, &d.writes} {
		if *pool, err = pgxpool.NewWithConfig(context.Background(), cfg.Copy()); err != nil {
			return nil, fmt.Errorf("database pool: %w", err)
		}
	}
	return d, nil
}

// Close gives the connections back.
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

// Attached tells whether the database is there, and has the schema of this program.
func (d *DB) Attached() bool {
	return d.migrated.Load() && !d.newer.Load() && d.presence().Err() == nil
}

// Newer tells whether a newer version of the program has migrated the database. This one leaves it alone.
func (d *DB) Newer() bool { return d.newer.Load() }

// ErrNewerSchema refuses a database that a newer version of the program has migrated.
var ErrNewerSchema = fault.New(fault.Unavailable, "A newer version of the gateway has changed the database, so this version does not use it. Install the newer version again, or restore a backup.")

// away is why nothing can be asked of the database.
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
	sqlDB := stdlib.OpenDB(*d.config) // a migration takes its time
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

// Join connects and leaves the schema alone: it is for a program whose role may not even ask which one it is.
func (d *DB) Join(ctx context.Context) error {
	if err := d.reads.Ping(ctx); err != nil {
		return fmt.Errorf("reaching the database: %w", err)
	}
	d.joined.Store(true)
	d.attached()
	return nil
}

// attached notes that the database is there, and watches from then on whether it stays.
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

// Querier reads. The pool and a transaction both are one.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Query reads rows outside a transaction. What goes wrong is said as by Fault.
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
	// The connection is back in the pool: what comes after may need one, and would wait for itself.
	for _, f := range after {
		f()
	}
	return Fault(err)
}

// transact runs one transaction on a connection of its own, and answers what has to be done after it.
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
	// A caller who has left, or has waited in vain, may have cut short what f has done.
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

// errUnknown is in the chain of the error of a commit that the database has not answered.
var errUnknown = errors.New("the outcome of the commit is unknown")

// Unknown tells whether an error leaves open if the transaction was committed.
func Unknown(err error) bool { return errors.Is(err, errUnknown) }

const (
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	readOnly             = "25006"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
)

// Passing tells whether only another transaction at the same time was in the way: the same may work when it is tried again.
func Passing(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains([]string{serializationFailure, deadlockDetected, lockNotAvailable}, pg.Code)
}

// Primary is the detail of a refusal to change what all nodes of the cluster share, because this one is not the primary.
type Primary struct {
	Primary string `json:"primary" doc:"Name of the node that takes the change; empty while none is known."`
}

// elsewhere is the refusal by the guard of a shared table.
func elsewhere(pg *pgconn.PgError) error {
	f := fault.Wrap(fault.Unavailable, pg, "Only the primary can make this change. Make it there: %s.", pg.Detail)
	if pg.Detail == "" {
		f = fault.Wrap(fault.Unavailable, pg, "Only the primary can make this change, and the cluster has no primary at the moment.")
	}
	f.Details = Primary{pg.Detail}
	return f
}

// Elsewhere tells whether a change was refused because only the primary of the cluster takes it.
func Elsewhere(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == readOnly && pg.ConstraintName == "ha_guard"
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
	// The driver has given up a connection, and not because the caller's time was up.
	if pgconn.Timeout(err) && !errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(fault.Unavailable, err, "%s", errAway.Message)
	}
	return err
}

// Away tells whether the error means that the database cannot be reached.
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
