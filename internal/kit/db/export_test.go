package db

import (
	"context"
	"time"
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
