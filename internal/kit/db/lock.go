package db

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// lockPatience bounds the wait for the database when a lock is taken or released.
const lockPatience = 5 * time.Second

// Locks are held by this process against others that use the same database. They share one connection, so that they are released
// when the process ends, however it ends.
type Locks struct {
	db   *DB
	mu   sync.Mutex
	conn *pgx.Conn
	held map[string]bool
}

// Locks returns an empty set of locks.
func (d *DB) Locks() *Locks { return &Locks{db: d, held: map[string]bool{}} }

// Try takes a lock, unless this process or another one holds it.
func (l *Locks) Try(ctx context.Context, name string) (release func(), ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	if l.conn == nil || l.conn.IsClosed() {
		if !l.db.Attached() {
			return nil, false, l.db.away()
		}
		if l.conn, err = pgx.ConnectConfig(ctx, l.db.config.Copy()); err != nil {
			return nil, false, Fault(fmt.Errorf("connecting for locks: %w", err))
		}
	}
	if err := l.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", lockNumber(name)).Scan(&ok); err != nil || !ok {
		return nil, false, Fault(err)
	}
	l.held[name] = true
	on := l.conn
	return func() { l.release(on, name) }, true, nil
}

// release releases a lock. If it was taken on an earlier connection, it is free already.
func (l *Locks) release(on *pgx.Conn, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, name)
	if on != l.conn || on.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	if _, err := on.Exec(ctx, "SELECT pg_advisory_unlock($1)", lockNumber(name)); err != nil {
		hangUp(on) // this releases it
	}
}

func (l *Locks) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		hangUp(l.conn)
	}
}

// lockNumber returns the number that identifies a lock in PostgreSQL.
func lockNumber(name string) int64 {
	h := fnv.New64a()
	h.Write([]byte("gateway lock " + name))
	return int64(h.Sum64())
}
