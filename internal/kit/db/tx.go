package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Tx is a transaction. What is queued travels with the next statement that needs an answer, and at the latest with the
// commit, so that a change costs as few round trips as it has questions.
type Tx struct {
	conn   *pgx.Conn
	queue  pgx.Batch
	opened bool // the server has seen the beginning
	before []func() error
	after  []func()
}

// BeforeCommit runs f when everything else is done and only the commit is left. When f fails, the transaction is rolled
// back. A preview, which never commits, does not run it.
func (t *Tx) BeforeCommit(f func() error) { t.before = append(t.before, f) }

// prepare runs what has to be done before the commit.
func (t *Tx) prepare(ctx context.Context) error {
	if len(t.before) == 0 {
		return nil
	}
	if err := t.Flush(ctx); err != nil {
		return err
	}
	for _, f := range t.before {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// AfterCommit runs f once the transaction is committed, and not at all when it is not.
func (t *Tx) AfterCommit(f func()) { t.after = append(t.after, f) }

// Queue adds a statement whose answer nobody needs. Its failure fails whatever it travels with.
func (t *Tx) Queue(sql string, args ...any) { t.queue.Queue(sql, args...) }

// Flush sends what is queued.
func (t *Tx) Flush(ctx context.Context) error {
	if t.queue.Len() == 0 {
		return nil
	}
	results, err := t.send(ctx, 0)
	return first(err, results.Close())
}

// Exec runs a statement and tells how many rows it touched.
func (t *Tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	t.Queue(sql, args...)
	results, err := t.send(ctx, 1)
	if err != nil {
		return pgconn.CommandTag{}, first(err, results.Close())
	}
	tag, err := results.Exec()
	return tag, first(err, results.Close())
}

// Query reads rows.
func (t *Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	t.Queue(sql, args...)
	results, err := t.send(ctx, 1)
	if err != nil {
		return nil, first(err, results.Close())
	}
	rows, err := results.Query()
	if err != nil {
		return nil, first(err, results.Close())
	}
	return &txRows{Rows: rows, results: results}, nil
}

// QueryRow reads one row.
func (t *Tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := t.Query(ctx, sql, args...)
	return txRow{rows, err}
}

// send sends the queue and reads the answers of all but the last few statements.
func (t *Tx) send(ctx context.Context, unread int) (pgx.BatchResults, error) {
	batch := t.queue
	t.queue = pgx.Batch{}
	t.opened = true
	results := t.conn.SendBatch(ctx, &batch)
	for range batch.Len() - unread {
		if _, err := results.Exec(); err != nil {
			return results, err
		}
	}
	return results, nil
}

func (t *Tx) commit(ctx context.Context) error {
	if !t.opened && t.queue.Len() == 1 {
		return nil // nothing but the beginning
	}
	tag, err := t.Exec(ctx, "COMMIT")
	if err != nil {
		t.rollback(ctx)
		return err
	}
	if tag.String() != "COMMIT" {
		return fmt.Errorf("the transaction ended with %s", tag)
	}
	return nil
}

// rollback needs no answer: a connection that is still in a transaction is not used again.
func (t *Tx) rollback(ctx context.Context) {
	if t.opened {
		_, _ = t.conn.Exec(ctx, "ROLLBACK")
	}
}

// first is the first error that says anything.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// txRows frees the connection as soon as the rows are read.
type txRows struct {
	pgx.Rows
	results pgx.BatchResults
	err     error
}

func (r *txRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *txRows) Close() {
	r.Rows.Close()
	if r.results != nil {
		r.err = r.results.Close()
		r.results = nil
	}
}

func (r *txRows) Err() error { return first(r.Rows.Err(), r.err) }

type txRow struct {
	rows pgx.Rows
	err  error
}

func (r txRow) Scan(dest ...any) error {
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
