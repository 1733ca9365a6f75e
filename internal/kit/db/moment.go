package db

import (
	"context"
	"sync"
)

// Moment names what the database shows: at equal moments all of its rows are the same, whoever writes them. That costs nothing but the
// question, however many rows there are.
type Moment string

// NowMoment is the moment of the statement that it is part of.
const NowMoment = "pg_current_snapshot()::text"

// Moment tells which one it is now. Those who ask at the same time share the question.
func (d *DB) Moment(ctx context.Context) (Moment, error) {
	return d.moment.ask(ctx, func() (m Moment, err error) {
		// It is asked for all of them: that one of them leaves must not end it.
		err = d.QueryRow(Impatient(context.Background()), "SELECT "+NowMoment).Scan(&m)
		return m, Fault(err)
	})
}

// shared is a question that many may have at the same time. Each gets an answer that was asked for after it came, so that the answer is as good as one of its own.
type shared[V any] struct {
	mu    sync.Mutex
	asked bool
	next  *answer[V] // for those who came after the present question was asked
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

// run asks until nobody waits any more.
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
