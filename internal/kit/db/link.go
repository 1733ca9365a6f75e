package db

import (
	"context"
	"errors"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// link is a connection to the database. It marks its failures, so that those of a daemon's socket, which have the same type, are
// never mistaken for them.
type link struct{ net.Conn }

// linkError is a failure of a connection to the database.
type linkError struct{ error }

func (e *linkError) Unwrap() error { return e.error }

func marked(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err // becomes a pgconn.ConnectError
		}
		return link{conn}, nil
	}
}

func (l link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	return n, mark(err)
}

func (l link) Write(b []byte) (int, error) {
	n, err := l.Conn.Write(b)
	return n, mark(err)
}

// mark leaves timeouts alone: the driver uses them to stop waiting when a context ends.
func mark(err error) error {
	if timeout, ok := errors.AsType[net.Error](err); err == nil || ok && timeout.Timeout() {
		return err
	}
	return &linkError{err}
}
