package host

import (
	"context"
	"errors"
	"time"
)

// askWithin is how long a read of live state waits for a daemon or the kernel: it is answered within two seconds.
const askWithin = 1500 * time.Millisecond

// ErrTooLate says that something did not answer in time.
var ErrTooLate = errors.New("there was no answer in time")

// Asking bounds a read of live state.
func Asking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, askWithin, ErrTooLate)
}

// Ask asks about live state for someone who waits. A question that does not end is left behind, for not every one of the kernel's
// answers can be interrupted.
func Ask[T any](ctx context.Context, ask func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := Asking(ctx)
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
