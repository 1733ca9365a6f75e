package host

import (
	"context"
	"errors"
	"time"
)

// pageWithin is how long a page waits for live state.
const pageWithin = 1500 * time.Millisecond

var errTooLate = errors.New("there was no answer in time")

// Ask asks about live state for someone who waits. A question that does not end is left behind, for not every one of the kernel's
// answers can be interrupted.
func Ask[T any](ctx context.Context, ask func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pageWithin, errTooLate)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := ask(ctx)
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
