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
// does not mean that it is away.
func (d *DB) watch(ctx context.Context) {
	defer close(d.watched)
	var conn *pgx.Conn
	every := time.NewTicker(askEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			hangUp(conn)
			return
		case <-every.C:
		}
		asking, cancel := context.WithTimeout(ctx, askWithin)
		err := error(nil)
		if conn == nil || d.look(asking, conn) != nil {
			// A connection can end for many reasons: the database is away when it takes no other.
			hangUp(conn)
			if conn, err = pgx.ConnectConfig(asking, d.config); err == nil {
				err = d.look(asking, conn)
			}
		}
		cancel()
		if ctx.Err() == nil {
			d.answers(err == nil)
		}
	}
}

// look asks the database for its schema: a newer version of the program may have migrated it under this one.
func (d *DB) look(ctx context.Context, conn *pgx.Conn) error {
	if d.joined.Load() {
		return conn.Ping(ctx)
	}
	var have int64
	if err := conn.QueryRow(ctx, "SELECT max(version_id) FROM goose_db_version WHERE is_applied").Scan(&have); err != nil {
		return err
	}
	d.newer.Store(have > d.newest.Load())
	return nil
}

// hangUp ends a connection without waiting for an answer.
func hangUp(conn *pgx.Conn) {
	if conn != nil {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = conn.Close(ended)
	}
}
