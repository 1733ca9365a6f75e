package db

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"edge.internal/gateway/internal/kit/fault"
)

const (
	// patience is how long a request waits for the database: for a connection, for one statement, for the commit.
	patience = 4 * time.Second
	// decideWithin bounds the end of a transaction that belongs to no request.
	decideWithin = 15 * time.Second
	// The server's own bounds. A lock is given up before a request loses its patience, so that the connection is kept.
	lockWithin      = "3s"
	statementWithin = "30s"
	idleWithin      = "2min"
)

// impatient is what a request remembers about its waits.
type impatient struct{ spent atomic.Bool }

type impatientKey struct{}

// Impatient marks the context of a request, which has to be answered whatever the database does: each of its waits for the
// database is short, and after one in vain there is no other.
func Impatient(ctx context.Context) context.Context {
	return context.WithValue(ctx, impatientKey{}, new(impatient))
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
// database stops answering. over must hear how the wait ended, and answers what that means.
func (d *DB) wait(ctx context.Context, bound time.Duration) (waiting context.Context, over func(error) error, err error) {
	request, _ := ctx.Value(impatientKey{}).(*impatient)
	if request != nil && (bound == 0 || bound > patience) {
		bound = patience
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
		if request != nil && Stalled(err) {
			request.spent.Store(true)
		}
		return err
	}, nil
}
