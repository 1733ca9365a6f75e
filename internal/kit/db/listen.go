package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// listenWithin bounds the wait for the database before a listener hears anything.
const listenWithin = 5 * time.Second

// Listen hands the payload of each notification of a channel to heard, in the order of the commits, until the context
// ends, heard fails or the database goes away. From ready on, none is missed. It has a connection of its own.
func (d *DB) Listen(ctx context.Context, channel string, ready func(), heard func(payload string) error) error {
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
		if err := heard(n.Payload); err != nil {
			return err
		}
	}
}

// Wake sends to a channel whenever something is announced, unless what was sent before still waits there, and whenever it begins to listen:
// then something may have been missed. It goes on until the context ends, and pauses before it listens again. Who waits for the database
// to be back looks now and then without being woken.
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
