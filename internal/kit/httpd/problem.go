package httpd

import (
	"context"
	"errors"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
)

// Problem describes why a query failed: a sentence for everyone and, for administrators only, the error itself, because it may
// contain paths, addresses and other users' input. It is empty if err is nil.
func Problem(ctx context.Context, name string, err error) string {
	f, known := errors.AsType[*fault.Error](err)
	switch {
	case err == nil:
		return ""
	case known && f.Message != "":
		return f.Message
	case errors.Is(err, host.ErrNotInstalled):
		return name + " is not installed."
	case errors.Is(err, host.ErrNotRunning):
		return name + " is not running."
	case errors.Is(err, host.ErrTooLate), errors.Is(err, context.DeadlineExceeded):
		return name + " did not answer in time."
	}
	return name + " could not be asked." + Words(ctx, " It said: "+err.Error())
}

// Words returns a daemon's own message if the caller may see it.
func Words(ctx context.Context, text string) string {
	if actor.From(ctx).Role != actor.Admin {
		return ""
	}
	return text
}
