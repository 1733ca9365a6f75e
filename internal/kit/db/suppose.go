package db

import (
	"context"
	"errors"
	"time"

	"edge.internal/gateway/internal/kit/fault"
)

const (
	// supposedAtOnce limits concurrent suppositions: they cost the gateway's time, and every reader may ask for one.
	supposedAtOnce = 2
	// supposeWithin bounds each of them.
	supposeWithin = 10 * time.Second
)

var (
	errSupposed     = errors.New("supposed")
	errSupposedLong = fault.Wrap(fault.Unavailable, errStalled, "This took longer than 10 seconds and was cancelled. Try fewer changes at once.")
	errSupposedMany = &fault.Error{Kind: fault.TooMany, Message: "Other previews are still running. Try again in a moment.", RetryAfter: 2 * time.Second}
)

// Turn waits for permission to do work that costs the gateway's time and that every reader may ask for. done gives it back.
func (d *DB) Turn(ctx context.Context) (done func(), err error) {
	waiting, over := Patience(ctx)
	defer over()
	patient := time.NewTimer(patience)
	defer patient.Stop()
	select {
	case d.supposing <- struct{}{}:
		return func() { <-d.supposing }, nil
	case <-patient.C:
		return nil, errSupposedMany
	case <-waiting.Done():
		if ctx.Err() == nil {
			return nil, errSupposedMany
		}
		return nil, context.Cause(ctx)
	}
}

// Suppose runs f in a transaction that sees one state and is rolled back, and then look, which runs without locks or a
// connection. The number of concurrent suppositions and their duration are bounded.
func (d *DB) Suppose(ctx context.Context, f func(tx *Tx) error, look func(ctx context.Context) error) error {
	done, err := d.Turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	supposing, cancel := context.WithTimeoutCause(ctx, supposeWithin, errSupposedLong)
	defer cancel()
	err = d.run(supposing, d.writes, func(tx *Tx) error {
		tx.supposed, tx.bulk = true, true
		tx.until, _ = supposing.Deadline()
		return first(f(tx), errSupposed)
	}, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SET LOCAL lock_timeout = '2s'", "SET LOCAL statement_timeout = '8s'")
	if errors.Is(err, errSupposed) {
		err = look(supposing)
	}
	if errors.Is(context.Cause(supposing), errSupposedLong) {
		return errSupposedLong
	}
	return err
}
