package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// listenWithin bounds the wait for the database before a listener is ready.
const listenWithin = 5 * time.Second

// Listen passes the payload of each notification on a channel to receive, in commit order, until ctx ends, receive fails or the
// database becomes unavailable. No notification is missed after ready was called. Listen uses its own connection.
func (d *DB) Listen(ctx context.Context, channel string, ready func(), receive func(payload string) error) error {
	if !d.Attached() {
		return d.away()
	}
	conn, err := d.listener(ctx, channel)
	if err != nil {
		return Fault(err)
	}
	defer hangUp(conn)
	ready()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return Fault(err)
		}
		if err := receive(n.Payload); err != nil {
			return err
		}
	}
}

// Wake sends to woken whenever something is announced on a channel, unless a previous signal is still pending, and whenever it
// starts to listen, because something may have been missed before. It runs until ctx ends, and pauses before it listens again.
// Callers that wait for the database to come back must also poll.
func (d *DB) Wake(ctx context.Context, channel string, woken chan<- struct{}, pause func() <-chan time.Time) {
	wake := func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	for ctx.Err() == nil {
		_ = d.Listen(ctx, channel, wake, func(string) error { wake(); return nil })
		select {
		case <-ctx.Done():
		case <-pause():
		}
	}
}

func (d *DB) listener(ctx context.Context, channel string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, listenWithin)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, d.config.Copy())
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return nil, fmt.Errorf("listening: %w", first(err, conn.Close(ctx)))
	}
	return conn, nil
}
