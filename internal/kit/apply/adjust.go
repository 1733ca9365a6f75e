package apply

import (
	"context"
	"errors"

	"edge.internal/gateway/internal/kit/host"
)

// adjust makes the daemon follow changes of the machine while the database is unavailable, as a pass would: the stored
// configuration runs already.
func (l *lane) adjust(ctx context.Context) {
	if err := l.adapted(ctx); err != nil && !errors.Is(err, host.ErrNotInstalled) {
		l.engine.log.Warn("adapting the daemon to the machine failed", "component", l.id, "err", err)
	}
}

func (l *lane) adapted(ctx context.Context) error {
	l.work.Lock()
	defer l.work.Unlock()
	l.mu.Lock()
	running, revision := l.running, l.at
	if running == nil && l.partly != nil {
		running, revision = l.partly.config, l.partly.revision
	}
	l.mu.Unlock()
	if l.adapt == nil || running == nil {
		return nil
	}
	config, err := l.adapt(ctx, running)
	if err != nil {
		return err
	}
	now := &target{revision: revision, config: config}
	if now.files, err = l.render(config); err != nil || sameFiles(l.lastApplied(), now.files) {
		return err
	}
	_, err = l.bring(ctx, now, false)
	if l.noteTaken(now, err); partial(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(l.keep(now), l.retain(config))
}

// noteTaken records which state a daemon has taken only in part, for example because a link is missing. When the link appears,
// the daemon takes the rest.
func (l *lane) noteTaken(now *target, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.partly = nil; partial(err) && now.config != nil {
		l.partly = now
	}
}
