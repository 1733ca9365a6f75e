package host

import (
	"context"
	"sync"
	"time"
)

const (
	// answerKept is how long an answer is good for those who ask the same.
	answerKept = 2 * time.Second
	// questionWithin ends a question that no one waits for any more.
	questionWithin = 30 * time.Second
)

// Question is one about live state that costs the machine something, and that many may ask at once. It is asked by one at a time; who asks the
// same in the meantime shares the answer, and so does who asks within the next seconds. Everyone is answered in time: a question that takes
// longer goes on, for those who ask again.
type Question[T any] struct {
	turn    chan struct{} // has a place for the one that asks
	mu      sync.Mutex
	answers map[string]*answer[T]
}

type answer[T any] struct {
	done  chan struct{} // closed when there is one
	until time.Time     // set before that
	value T
	err   error
}

// NewQuestion makes a question.
func NewQuestion[T any]() *Question[T] {
	return &Question[T]{turn: make(chan struct{}, 1), answers: map[string]*answer[T]{}}
}

// Ask asks, or takes the answer to the same question.
func (q *Question[T]) Ask(ctx context.Context, same string, ask func(ctx context.Context) (T, error)) (none T, err error) {
	ctx, cancel := Asking(ctx)
	defer cancel()
	a := q.known(same)
	if a == nil {
		select {
		case q.turn <- struct{}{}:
			a = q.begin(ctx, same, ask)
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// Forget has the next one ask again, because something was changed.
func (q *Question[T]) Forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.answers)
}

// known is the answer that is there, or is being waited for; nil if there is none.
func (q *Question[T]) known(same string) *answer[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, a := range q.answers {
		select {
		case <-a.done:
			if time.Now().After(a.until) {
				delete(q.answers, key)
			}
		default:
		}
	}
	return q.answers[same]
}

// begin asks for who has the turn. Another may have asked the same before.
func (q *Question[T]) begin(ctx context.Context, same string, ask func(ctx context.Context) (T, error)) *answer[T] {
	if a := q.known(same); a != nil {
		<-q.turn
		return a
	}
	a := &answer[T]{done: make(chan struct{})}
	q.mu.Lock()
	q.answers[same] = a
	q.mu.Unlock()
	go func() {
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), questionWithin, ErrTooLate)
		defer cancel()
		a.value, a.err = ask(ctx)
		a.until = time.Now().Add(answerKept)
		close(a.done)
		<-q.turn
	}()
	return a
}
