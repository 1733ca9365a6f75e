package host

import (
	"context"
	"sync"
	"time"
)

const (
	// answerKept is how long an answer is reused for the same key.
	answerKept = 2 * time.Second
	// questionWithin bounds a call whose callers have given up.
	questionWithin = 30 * time.Second
)

// Question limits reads of live state that are expensive and that many may request at once. One call runs at a time; callers with
// the same key share its answer, and so do callers within answerKept. A caller gets ErrTooLate if it takes too long, but the call
// goes on, so that the next caller finds its answer.
type Question[T any] struct {
	turn    chan struct{} // holds a token while a call runs
	mu      sync.Mutex
	answers map[string]*answer[T]
}

type answer[T any] struct {
	done  chan struct{} // closed when the fields below are set
	until time.Time     // when the answer expires
	value T
	err   error
}

func NewQuestion[T any]() *Question[T] {
	return &Question[T]{turn: make(chan struct{}, 1), answers: map[string]*answer[T]{}}
}

// Ask calls ask, or returns the answer of another call with the same key.
func (q *Question[T]) Ask(ctx context.Context, key string, ask func(ctx context.Context) (T, error)) (none T, err error) {
	ctx, cancel := Asking(ctx)
	defer cancel()
	a := q.known(key)
	if a == nil {
		select {
		case q.turn <- struct{}{}:
			a = q.begin(ctx, key, ask)
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

// Forget drops all answers. Call it after changing what they are about.
func (q *Question[T]) Forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.answers)
}

// known returns the answer for the key, finished or not; nil if there is none.
func (q *Question[T]) known(key string) *answer[T] {
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
	return q.answers[key]
}

// begin starts the call. The caller holds the turn, and while it waited for it another one may have started the same call.
func (q *Question[T]) begin(ctx context.Context, key string, ask func(ctx context.Context) (T, error)) *answer[T] {
	if a := q.known(key); a != nil {
		<-q.turn
		return a
	}
	a := &answer[T]{done: make(chan struct{})}
	q.mu.Lock()
	q.answers[key] = a
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
