package db

import (
	"context"
	"sync"
)

// Moment identifies what the database shows: at equal moments all of its rows are the same, whoever writes them. Reading it takes
// one cheap query, however many rows there are.
type Moment string

// NowMoment is the SQL expression for the moment of the statement that contains it.
const NowMoment = "pg_current_snapshot()::text"

// Moment returns the current moment. Concurrent callers share the query.
func (d *DB) Moment(ctx context.Context) (Moment, error) {
	return d.moment.ask(ctx, func() (m Moment, err error) {
		// Others share the query: it must not end because one caller leaves.
		err = d.QueryRow(Impatient(context.Background()), "SELECT "+NowMoment).Scan(&m)
		return m, Fault(err)
	})
}

// shared is a query that many callers may share. Each gets an answer to a query that started after its call, which is as good as
// that of its own query.
type shared[V any] struct {
	mu    sync.Mutex
	asked bool
	next  *answer[V] // for callers that came after the current query started
}

type answer[V any] struct {
	done chan struct{}
	v    V
	err  error
}

func (s *shared[V]) ask(ctx context.Context, question func() (V, error)) (V, error) {
	s.mu.Lock()
	if s.next == nil {
		s.next = &answer[V]{done: make(chan struct{})}
	}
	a := s.next
	if !s.asked {
		s.asked = true
		go s.run(question)
	}
	s.mu.Unlock()
	select {
	case <-a.done:
		return a.v, a.err
	case <-ctx.Done():
		return a.v, context.Cause(ctx)
	}
}

// run repeats the query until nobody waits for it.
func (s *shared[V]) run(question func() (V, error)) {
	for {
		s.mu.Lock()
		a := s.next
		s.next, s.asked = nil, a != nil
		s.mu.Unlock()
		if a == nil {
			return
		}
		a.v, a.err = question()
		close(a.done)
	}
}
