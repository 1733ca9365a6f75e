package db

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"edge.internal/gateway/internal/kit/fault"
)

const (
	// patience is how long one request may wait in total for connections, statements and turns. The commit gets the same time
	// again, because its outcome must be known.
	patience = 4 * time.Second
	// brisk is the part of each statement that counts as work and not as waiting.
	brisk = 250 * time.Millisecond
	// decideWithin bounds the commit of a transaction that belongs to no request.
	decideWithin = 15 * time.Second
	// The server's own bounds. A lock attempt fails before a request runs out of patience, so that the connection survives.
	lockWithin      = "3s"
	statementWithin = "30s"
	idleWithin      = "2min"
)

// impatient keeps track of how long a request has waited.
type impatient struct {
	spent  atomic.Bool
	mu     sync.Mutex
	waited time.Duration
	ended  time.Time // end of the last wait
}

// left returns how long the request may still wait. Time that it spends on other work restores its patience: some work for hours.
func (r *impatient) left() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest(time.Now())
	return max(time.Millisecond, patience-r.waited)
}

// rest restores the patience for the time from the last wait until a moment.
func (r *impatient) rest(until time.Time) {
	if until.After(r.ended) {
		r.waited = max(0, r.waited-until.Sub(r.ended))
		r.ended = until
	}
}

// count adds a wait that has just ended, minus the part of it that was work.
func (r *impatient) count(began time.Time, work time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest(began)
	r.ended = time.Now()
	r.waited += max(0, r.ended.Sub(began)-work)
}

type impatientKey struct{}

// Impatient marks the context of a request that must be answered whatever the database does: its waits are bounded in total, and
// after one wait in vain it fails at once.
func Impatient(ctx context.Context) context.Context {
	return context.WithValue(ctx, impatientKey{}, new(impatient))
}

type bulkKey struct{}

// Bulk marks the context of a request that stores much at once: its statements take long without waiting. Each of them is
// bounded, but their sum is not. The same holds for snapshots.
func Bulk(ctx context.Context) context.Context { return context.WithValue(ctx, bulkKey{}, true) }

// Patience bounds another wait of a request, such as one for its turn, by what is left of its patience. The caller must call over
// when the wait has ended.
func Patience(ctx context.Context) (waiting context.Context, over func()) {
	request, _ := ctx.Value(impatientKey{}).(*impatient)
	if request == nil {
		return ctx, func() {}
	}
	began := time.Now()
	waiting, cancel := context.WithTimeoutCause(ctx, request.left(), errSlow)
	return waiting, func() {
		cancel()
		request.count(began, 0)
	}
}

var (
	// errStalled is in the chain of every error of a wait that the database did not end in time.
	errStalled = errors.New("waited for the database in vain")
	errSlow    = fault.Wrap(fault.Unavailable, errStalled, "The database did not answer in time. Try again in a moment.")
)

// spent returns an error if the request has waited in vain before.
func spent(ctx context.Context) error {
	if request, _ := ctx.Value(impatientKey{}).(*impatient); request != nil && request.spent.Load() {
		return errSlow
	}
	return nil
}

// Stalled reports whether the database, or a lock in it, has kept the caller waiting in vain. Others who wait for the same thing
// would fare no better.
func Stalled(err error) bool {
	if errors.Is(err, errStalled) {
		return true
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains([]string{lockNotAvailable, queryCanceled}, pg.Code)
}

// wait bounds a wait for the database; zero means no bound, except for requests, which always have one. The context ends early
// when the database stops answering. over must be called with the result of the wait; it returns the error to report. Bulk waits
// do not count towards the patience.
func (d *DB) wait(ctx context.Context, bound time.Duration, bulk bool) (waiting context.Context, over func(error) error, err error) {
	request, _ := ctx.Value(impatientKey{}).(*impatient)
	began := time.Now()
	if request != nil && (bound == 0 || bound > request.left()) {
		bound = request.left()
	}
	if err := spent(ctx); err != nil {
		return nil, nil, err
	}
	waiting, cancel := context.WithCancelCause(ctx)
	away := context.AfterFunc(d.presence(), func() { cancel(errAway) })
	late := func() bool { return false }
	if bound > 0 {
		late = time.AfterFunc(bound, func() { cancel(errSlow) }).Stop
	}
	return waiting, func(err error) error {
		cause := context.Cause(waiting)
		away()
		late()
		cancel(nil)
		if err != nil && (errors.Is(cause, errSlow) || errors.Is(cause, errAway)) {
			f := *fault.From(cause)
			f.Cause = errors.Join(f.Cause, err)
			err = &f
		}
		if _, broken := errors.AsType[*linkError](err); broken {
			// The database may have been restarted: drop the other connections, too.
			d.reads.Reset()
			d.writes.Reset()
		}
		if request != nil && !bulk {
			request.count(began, brisk)
		}
		if request != nil && Stalled(err) {
			request.spent.Store(true)
		}
		return err
	}, nil
}
