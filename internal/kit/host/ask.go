package host

import (
	"context"
	"errors"
	"time"
)

// askWithin bounds one read of live state, because the UI is to get its answer within two seconds.
const askWithin = 1500 * time.Millisecond

// ErrTooLate is the cause when a daemon or the kernel did not answer within that time.
var ErrTooLate = errors.New("there was no answer in time")

// Asking bounds a read of live state whose calls all end with their context. See Ask for those that do not.
func Asking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, askWithin, ErrTooLate)
}

// Ask calls ask, and returns ErrTooLate if it takes too long. It then leaves ask running, because some reads of the kernel cannot
// be interrupted.
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
