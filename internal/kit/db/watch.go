package db

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// askEvery and askWithin determine how soon the gateway notices that the database has become unavailable or available.
	askEvery  = time.Second
	askWithin = 3 * time.Second
)

// presence returns a context that ends when the database stops answering.
func (d *DB) presence() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.present
}

// answers records whether the database answers. If it stops, all waits for it end, and none of its connections is reused.
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

// watch polls the database until ctx ends, on its own connection: if all others are in use, that does not mean that the database
// is unavailable. Between polls, the connection receives changes.
func (d *DB) watch(ctx context.Context) {
	defer close(d.watched)
	var conn *pgx.Conn
	for {
		asking, cancel := context.WithTimeout(ctx, askWithin)
		var err error
		conn, err = d.ask(asking, conn)
		if err != nil && asking.Err() == nil {
			// On a busy machine, the refusal of a database that is starting may be reported when it has already started.
			conn, err = d.ask(asking, conn)
		}
		cancel()
		if ctx.Err() == nil {
			d.answers(err == nil)
		}
		d.pause(ctx, conn)
		if ctx.Err() != nil {
			d.topics.listening.Store(false)
			hangUp(conn)
			return
		}
	}
}

// pause receives changes until the next poll.
func (d *DB) pause(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	if conn != nil {
		d.topics.receive(ctx, conn)
	}
	<-ctx.Done()
}

// ask polls the database on a connection, or on a new one: a connection may end for many reasons, but the database is unavailable
// only if it accepts no other.
func (d *DB) ask(ctx context.Context, conn *pgx.Conn) (*pgx.Conn, error) {
	if conn != nil && d.look(ctx, conn) == nil {
		return conn, nil
	}
	d.topics.listening.Store(false)
	hangUp(conn)
	conn, err := pgx.ConnectConfig(ctx, d.config)
	if err != nil {
		return nil, err
	}
	return conn, d.look(ctx, conn)
}

// look reads the schema version: a newer version of the program may have migrated the database under this one. It also makes sure
// that the connection receives changes.
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

// hangUp closes a connection without waiting for an answer.
func hangUp(conn *pgx.Conn) {
	if conn != nil {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = conn.Close(ended)
	}
}
