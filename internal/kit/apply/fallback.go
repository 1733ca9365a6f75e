package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

// givenUp returns the earlier failure of a state if there is no reason to retry it: nothing has changed since, and the last known
// good configuration runs. Retrying on every tick would restart the daemon into failure and back forever.
func (l *lane) givenUp(ctx context.Context, now *target) *failure {
	l.mu.Lock()
	f := l.failed
	l.mu.Unlock()
	if f.of(now) && l.engine.clock.Now().Before(f.again) && f.links == l.links(ctx) {
		return f
	}
	return nil
}

// tryAgain returns when to retry a state if the daemon does not take it now.
func (l *lane) tryAgain(now *target) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed.of(now) {
		return l.engine.clock.Now().Add(againAfter)
	}
	return l.engine.clock.Now().Add(againFirst)
}

// of reports whether this state failed.
func (f *failure) of(now *target) bool {
	return f != nil && f.revision == now.revision && sameFiles(f.files, now.files)
}

func (l *lane) setFailed(f *failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = f
}

// links returns a fingerprint of the machine's links and addresses: a daemon may fail because one of them does not exist yet.
func (l *lane) links(ctx context.Context) string {
	list, err := l.engine.host.Links(ctx)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, link := range list {
		fmt.Fprintln(&b, link.Name, link.Up(), link.Carrier())
		for _, a := range link.Addrs {
			fmt.Fprintln(&b, a.Local, a.PrefixLen, a.Duplicate)
		}
	}
	return b.String()
}

// fallBack restores the last known good configuration, and reports whether it runs; its error adds that to the cause. A daemon
// that was not notified of the failed state is left alone as long as it runs with the good one.
func (l *lane) fallBack(ctx context.Context, now *target, notified bool, cause error) (back bool, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return false, cause // the program is ending, which says nothing about the state
	}
	good, config := l.lastGood()
	if partial(cause) || errors.Is(cause, host.ErrNotInstalled) || len(good) == 0 || sameFiles(good, now.files) {
		return false, cause
	}
	if config == nil {
		if l.unit == "" && !l.atomic {
			return false, cause // nothing reads the files, and what they were rendered from is unknown
		}
		config = now.config
	}
	if err := l.install(now.files, good); err != nil {
		return false, fmt.Errorf("%w; and the last known good configuration could not be put back: %w", cause, err)
	}
	if notified || l.runs(ctx, config, good) != nil {
		l.forget()
		if err = l.apply(ctx, config, good); err == nil || partial(err) {
			err = l.runs(ctx, config, good)
		}
	}
	switch {
	case err == nil:
		return true, fmt.Errorf("%w; the last known good configuration runs", cause)
	case err.Error() == cause.Error():
		return false, fmt.Errorf("%w; the last known good configuration fails with the same error", cause)
	}
	return false, fmt.Errorf("%w; and the daemon did not take the last known good configuration back: %w", cause, err)
}

// runs returns an error unless the daemon runs with a configuration, possibly only in part.
func (l *lane) runs(ctx context.Context, config any, files []host.File) error {
	if err := l.verify(ctx, config, files); !partial(err) {
		return err
	}
	return nil
}

func partial(err error) bool {
	_, ok := errors.AsType[*Partial](err)
	return ok
}
