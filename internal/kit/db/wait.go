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
	// patience is how long a request waits for one thing after the other: connections, statements, turns. The commit has as long once more,
	// because its outcome must be known.
	patience = 4 * time.Second
	// brisk is how long a statement takes that waits for nothing. That is work, and does not count.
	brisk = 250 * time.Millisecond
	// decideWithin bounds the end of a transaction that belongs to no request.
	decideWithin = 15 * time.Second
	// The server's own bounds. A lock is given up before a request loses its patience, so that the connection is kept.
	lockWithin      = "3s"
	statementWithin = "30s"
	idleWithin      = "2min"
)

// impatient is what a request remembers about its waits.
type impatient struct {
	spent  atomic.Bool
	mu     sync.Mutex
	waited time.Duration
	ended  time.Time // when the last wait did
}

// left is how long the request may still wait. What it does in between gives it time again: some do their work for hours.
func (r *impatient) left() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest(time.Now())
	return max(time.Millisecond, patience-r.waited)
}

// rest forgets as much waiting as the request has been without until a moment.
func (r *impatient) rest(until time.Time) {
	if until.After(r.ended) {
		r.waited = max(0, r.waited-until.Sub(r.ended))
		r.ended = until
	}
}

// count adds a wait that has just ended, of which some was work.
func (r *impatient) count(began time.Time, work time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest(began)
	r.ended = time.Now()
	r.waited += max(0, r.ended.Sub(began)-work)
}

type impatientKey struct{}

// Impatient marks the context of a request, which has to be answered whatever the database does: its waits are short, also in sum, and after
// one in vain there is no other.
func Impatient(ctx context.Context) context.Context {
	return context.WithValue(ctx, impatientKey{}, new(impatient))
}

type bulkKey struct{}

// Bulk marks the context of a request that stores much at once: its statements take long without waiting for anything. Each of them is bounded,
// and their sum is not. The same goes for what sees one state.
func Bulk(ctx context.Context) context.Context { return context.WithValue(ctx, bulkKey{}, true) }

// Patience bounds another wait of a request, such as one for its turn, by what is left of its patience. When the wait is over, over has to be
// called.
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

// spent complains when a request has waited in vain already.
func spent(ctx context.Context) error {
	if request, _ := ctx.Value(impatientKey{}).(*impatient); request != nil && request.spent.Load() {
		return errSlow
	}
	return nil
}

// Stalled tells whether the database, or a lock in it, has kept the caller waiting in vain. Others who wait for the same
// would fare no better.
func Stalled(err error) bool {
	if errors.Is(err, errStalled) {
		return true
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains([]string{lockNotAvailable, queryCanceled}, pg.Code)
}

// wait bounds a wait for the database; zero is no bound. A request has a bound in any case. The context ends early when the
// database stops answering. over must hear how the wait ended, and answers what that means. Bulk does not count.
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
			// The database was restarted, perhaps: the other connections are no better.
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
