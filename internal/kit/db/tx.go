package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"edge.internal/gateway/internal/kit/fault"
)

// Tx is a transaction. Queued statements travel with the next one that needs an answer, at the latest with the commit, so that a
// change costs no more round trips than it has questions.
type Tx struct {
	db       *DB
	conn     *pgx.Conn
	queue    pgx.Batch
	opened   bool // BEGIN has been sent
	before   []func() error
	after    []func()
	supposed bool
	bulk     bool      // takes long without waiting
	until    time.Time // deadline of a supposition
}

// Supposed reports whether the transaction will be rolled back, so that work that only matters if it is stored can be skipped.
func (t *Tx) Supposed() bool { return t.supposed }

// BeforeCommit runs f when only queued statements and the commit are left; these travel together unless f queries or flushes. If
// f fails, the transaction is rolled back. Suppositions, which never commit, do not run it.
func (t *Tx) BeforeCommit(f func() error) { t.before = append(t.before, f) }

// prepare runs the BeforeCommit functions.
func (t *Tx) prepare() error {
	for _, f := range t.before {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// AfterCommit runs f once the transaction is committed; not if it fails.
func (t *Tx) AfterCommit(f func()) { t.after = append(t.after, f) }

// Queue adds a statement whose answer nobody needs. If it fails, whatever it travels with fails.
func (t *Tx) Queue(sql string, args ...any) { t.queue.Queue(sql, args...) }

// Flush sends the queued statements.
func (t *Tx) Flush(ctx context.Context) error {
	if t.queue.Len() == 0 {
		return nil
	}
	_, end, err := t.send(ctx, 0, 0)
	if err != nil {
		return err
	}
	return end(nil)
}

// Exec runs a statement and returns how many rows it affected.
func (t *Tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.exec(ctx, 0, sql, args...)
}

func (t *Tx) exec(ctx context.Context, bound time.Duration, sql string, args ...any) (pgconn.CommandTag, error) {
	t.Queue(sql, args...)
	results, end, err := t.send(ctx, bound, 1)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	return tag, end(err)
}

func (t *Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	t.Queue(sql, args...)
	results, end, err := t.send(ctx, 0, 1)
	if err != nil {
		return nil, err
	}
	found, err := results.Query()
	if err != nil {
		return nil, end(err)
	}
	return &rows{Rows: found, end: end}, nil
}

func (t *Tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	found, err := t.Query(ctx, sql, args...)
	return row{found, err}
}

// send sends the queue and reads all answers except those of the last unread statements. end releases the connection, and returns
// the error of the wait for the database.
func (t *Tx) send(ctx context.Context, bound time.Duration, unread int) (results pgx.BatchResults, end func(error) error, err error) {
	if t.supposed {
		bound = max(time.Until(t.until), time.Millisecond)
	}
	waiting, over, err := t.db.wait(ctx, bound, t.bulk || ctx.Value(bulkKey{}) != nil)
	if err != nil {
		return nil, nil, err
	}
	batch := t.queue
	t.queue = pgx.Batch{}
	t.opened = true
	results = t.conn.SendBatch(waiting, &batch)
	end = func(err error) error { return over(first(err, results.Close())) }
	for range batch.Len() - unread {
		if _, err := results.Exec(); err != nil {
			return nil, nil, end(err)
		}
	}
	return results, end, nil
}

// commit ignores the caller's patience: the outcome must be known. If the database does not answer, the error says that it is
// unknown.
func (t *Tx) commit(ctx context.Context) error {
	if !t.opened && t.queue.Len() == 1 {
		return nil // nothing but the BEGIN
	}
	ctx = context.WithoutCancel(ctx)
	if ctx.Value(impatientKey{}) != nil {
		ctx = Impatient(ctx)
	}
	tag, err := t.exec(ctx, decideWithin, "COMMIT")
	if _, answered := errors.AsType[*pgconn.PgError](err); err != nil && !answered && !pgconn.SafeToRetry(err) {
		return fault.Wrap(fault.Unavailable, errors.Join(errUnknown, err),
			"The database did not answer while the change was being saved, so it may or may not be saved. Check before you try again.")
	}
	if err != nil {
		t.rollback(ctx)
		return err
	}
	if tag.String() != "COMMIT" {
		return fmt.Errorf("the transaction ended with %s", tag)
	}
	return nil
}

// rollback ignores the answer: a connection that is still in a transaction is not reused.
func (t *Tx) rollback(ctx context.Context) {
	if t.opened {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = t.conn.Exec(ending, "ROLLBACK")
	}
}

// first returns the first error that is not nil.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// rows releases the connection as soon as it has been read.
type rows struct {
	pgx.Rows
	end func(error) error
	err error
}

func (r *rows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *rows) Close() {
	r.Rows.Close()
	if r.end != nil {
		r.err = r.end(r.Rows.Err())
		r.end = nil
	}
}

func (r *rows) Err() error { return first(r.err, r.Rows.Err()) }

type row struct {
	rows pgx.Rows
	err  error
}

func (r row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		return first(r.rows.Err(), pgx.ErrNoRows)
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
