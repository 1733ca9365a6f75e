package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

// givenUp is how a state failed at the daemon before, if there is no reason to try it again: nothing has changed since, and
// the last known good configuration runs. To try it every few seconds would mean to restart the daemon into failure and back for ever.
func (l *lane) givenUp(ctx context.Context, now *imagined) *failure {
	l.mu.Lock()
	f := l.failed
	l.mu.Unlock()
	if f.of(now) && l.engine.clock.Now().Before(f.again) && f.links == l.links(ctx) {
		return f
	}
	return nil
}

// tryAgain is when a state is to be tried again, should the daemon not take it now.
func (l *lane) tryAgain(now *imagined) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed.of(now) {
		return l.engine.clock.Now().Add(againAfter)
	}
	return l.engine.clock.Now().Add(againFirst)
}

// of tells whether it is this state that failed.
func (f *failure) of(now *imagined) bool {
	return f != nil && f.revision == now.revision && sameFiles(f.files, now.files)
}

func (l *lane) setFailed(f *failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = f
}

// links is what the machine's links and addresses are like: a daemon may fail because of one that is not there yet.
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

// fallBack puts the last known good configuration back, and tells whether it runs; its error adds that to the cause. A
// daemon that was not told of the state that failed is left alone, as long as it runs with the good one.
func (l *lane) fallBack(ctx context.Context, now *imagined, told bool, cause error) (back bool, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return false, cause // the program ends, which says nothing about the state
	}
	good, config := l.lastGood()
	if partial(cause) || errors.Is(cause, host.ErrNotInstalled) || len(good) == 0 || sameFiles(good, now.files) {
		return false, cause
	}
	if config == nil {
		if l.unit == "" && !l.atomic {
			return false, cause // nothing reads the files, and what they were rendered from is not known any more
		}
		config = now.config
	}
	if err := l.install(now.files, good); err != nil {
		return false, fmt.Errorf("%w; and the last known good configuration could not be put back: %w", cause, err)
	}
	if told || l.runs(ctx, config, good) != nil {
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

// runs says whether the daemon runs with a configuration, even if it could not take all of it.
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
