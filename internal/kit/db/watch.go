package db

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// askEvery and askWithin say how soon it is noticed that the database is away, or back.
	askEvery  = time.Second
	askWithin = 3 * time.Second
)

// presence is a context that ends when the database stops answering.
func (d *DB) presence() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.present
}

// answers notes whether the database answers. When it does not, whatever waits for it stops waiting, and no connection that
// it had is used again.
func (d *DB) answers(now bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch there := d.present.Err() == nil; {
	case now && !there:
		d.present, d.lost = context.WithCancel(context.Background())
	case !now && there:
		d.lost()
		d.reads.Reset()
		d.writes.Reset()
	}
}

// watch asks the database whether it is there until the context ends, on a connection of its own: that all others are in use
// does not mean that it is away. Between the questions, the connection hears of changes.
func (d *DB) watch(ctx context.Context) {
	defer close(d.watched)
	var conn *pgx.Conn
	for {
		asking, cancel := context.WithTimeout(ctx, askWithin)
		var err error
		conn, err = d.ask(asking, conn)
		if err != nil && asking.Err() == nil {
			// On a busy machine, a refusal by a database that is starting can be told after others have used it.
			conn, err = d.ask(asking, conn)
		}
		cancel()
		if ctx.Err() == nil {
			d.answers(err == nil)
		}
		d.pause(ctx, conn)
		if ctx.Err() != nil {
			d.topics.hearing.Store(false)
			hangUp(conn)
			return
		}
	}
}

// pause passes the time until the next question.
func (d *DB) pause(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	if conn != nil {
		d.topics.hear(ctx, conn)
	}
	<-ctx.Done()
}

// ask asks the database on a connection, or on a new one: a connection can end for many reasons, and the database is away when it takes no other.
func (d *DB) ask(ctx context.Context, conn *pgx.Conn) (*pgx.Conn, error) {
	if conn != nil && d.look(ctx, conn) == nil {
		return conn, nil
	}
	d.topics.hearing.Store(false)
	hangUp(conn)
	conn, err := pgx.ConnectConfig(ctx, d.config)
	if err != nil {
		return nil, err
	}
	return conn, d.look(ctx, conn)
}

// look asks the database for its schema: a newer version of the program may have migrated it under this one. It makes sure that the connection hears of changes.
func (d *DB) look(ctx context.Context, conn *pgx.Conn) error {
	if d.joined.Load() {
		return conn.Ping(ctx)
	}
	var have int64
	if err := conn.QueryRow(ctx, "SELECT max(version_id) FROM goose_db_version WHERE is_applied").Scan(&have); err != nil {
		return err
	}
	d.newer.Store(have > d.newest.Load())
	return d.topics.listen(ctx, conn)
}

// hangUp ends a connection without waiting for an answer.
func hangUp(conn *pgx.Conn) {
	if conn != nil {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = conn.Close(ended)
	}
}
