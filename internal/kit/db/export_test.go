package db

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Whole is how long a request may wait.
const Whole = patience

// Waited returns how long the request has waited; Wait adds to that without waiting.
func Waited(ctx context.Context) time.Duration { return request(ctx).waited }

func Wait(ctx context.Context, d time.Duration) {
	r := request(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waited, r.ended = r.waited+d, time.Now()
}

func request(ctx context.Context) *impatient { return ctx.Value(impatientKey{}).(*impatient) }

// Expire makes the deadline of a reading connection pass, as if the driver had failed to extend it.
func (d *DB) Expire(ctx context.Context) error {
	return d.reads.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		return c.Conn().PgConn().Conn().SetReadDeadline(time.Now().Add(-time.Second))
	})
}
