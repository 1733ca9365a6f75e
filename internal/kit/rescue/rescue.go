// Package rescue keeps a panic in one part of a program from ending the whole program.
package rescue

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"edge.internal/gateway/internal/kit/clock"
)

// Into turns a panic into an error that names the part, and logs the stack. It must be deferred directly.
func Into(err *error, log *slog.Logger, part string) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the gateway's own code for %s failed: %v", part, p)
		log.Error("panic", "component", part, "err", p, "stack", string(debug.Stack()))
	}
}

// Pause is how long a loop pauses after a panic.
const Pause = 10 * time.Second

// Loop runs f until it returns. After a panic it pauses and runs f again.
func Loop(ctx context.Context, c clock.Clock, log *slog.Logger, part string, f func(context.Context)) {
	for once(ctx, log, part, f) != nil {
		select {
		case <-ctx.Done():
			return
		case <-c.After(Pause):
		}
	}
}

func once(ctx context.Context, log *slog.Logger, part string, f func(context.Context)) (err error) {
	defer Into(&err, log, part)
	f(ctx)
	return nil
}
