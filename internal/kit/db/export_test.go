package db

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Whole is how long a request may wait.
const Whole = patience

// Waited is how long it has waited, and Wait has it wait longer, in no time.
func Waited(ctx context.Context) time.Duration { return request(ctx).waited }

func Wait(ctx context.Context, d time.Duration) {
	r := request(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waited, r.ended = r.waited+d, time.Now()
}

func request(ctx context.Context) *impatient { return ctx.Value(impatientKey{}).(*impatient) }

// Expire lets the time of a connection for reading be up, as if the driver had forgotten to give it time again.
func (d *DB) Expire(ctx context.Context) error {
	return d.reads.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		return c.Conn().PgConn().Conn().SetReadDeadline(time.Now().Add(-time.Second))
	})
}
