package apply

import (
	"context"
	"fmt"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/rescue"
)

// consider examines a change in its transaction, before it is committed. It refuses what the daemon would refuse, and allows
// everything else: a checker that cannot run, or a stored state that is broken already, must not lock the operator out of the
// fix. Whatever it returns, decided must be called.
func (l *lane) consider(ctx context.Context, tx *db.Tx, revision int64, rows []Row) (x *target, err error) {
	defer rescue.Into(&err, l.engine.log, string(l.id))
	l.mu.Lock()
	was, reloads := l.running, l.reloads
	// A step needs a daemon that has, or is about to have, the state that the change was made on.
	plannable := !l.full && l.leads(revision-1)
	l.mu.Unlock()
	if plannable && len(rows) > 0 {
		step, err := l.plan(ctx, tx, rows)
		if err != nil {
			return nil, fmt.Errorf("planning for %s: %w", l.id, err)
		}
		if step != nil {
			return &target{revision: revision, step: step, reloads: reloads}, nil
		}
	}
	if x, err = l.nextTarget(ctx, tx, revision, rows); err != nil {
		return nil, err
	}
	switch {
	case l.can(was, x.config), sameFiles(l.agreed(), x.files), sameFiles(l.lastApplied(), x.files) && l.onDisk(x.files):
		return x, nil
	case !l.atomic:
		return x, l.judge(ctx, x, l.examine(ctx, x))
	}
	// Held until the change is decided, so that no pass restores the stored state in the meantime.
	l.work.Lock()
	defer func() {
		if !x.applied {
			l.work.Unlock()
		}
	}()
	x.tried = true
	l.mu.Lock()
	l.tried++
	l.mu.Unlock()
	err = l.apply(ctx, x.config, x.files)
	x.applied = err == nil
	return x, l.judge(ctx, x, err)
}

// preview asks the daemon's checker about a change that will not be committed. With always, it asks even if the answer is known.
func (l *lane) preview(ctx context.Context, x *target, always bool) error {
	if !always && (sameFiles(l.agreed(), x.files) || l.onDisk(x.files)) {
		return nil
	}
	return l.judge(ctx, x, l.check(ctx, x.files))
}

// nextTarget is loadTarget for a change of rows, which may be derived from the previous state without reading everything.
func (l *lane) nextTarget(ctx context.Context, tx *db.Tx, revision int64, rows []Row) (*target, error) {
	l.mu.Lock()
	var was any
	switch {
	case l.committed != nil && l.committed.revision == revision-1:
		was = l.committed.config
	case l.at == revision-1:
		was = l.running
	}
	l.mu.Unlock()
	if was != nil && len(rows) > 0 {
		// Nothing that the database refuses may reach a daemon.
		if err := tx.Flush(ctx); err != nil {
			return nil, err
		}
		switch config, ok, err := l.amend(ctx, tx, was, rows); {
		case err != nil:
			return nil, fmt.Errorf("loading %s: %w", l.id, err)
		case ok:
			return l.rendered(revision, config)
		}
	}
	return l.loadTarget(ctx, tx, revision)
}

// loadTarget loads and renders what a change would store.
func (l *lane) loadTarget(ctx context.Context, tx *db.Tx, revision int64) (*target, error) {
	config, err := l.load(ctx, tx)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", l.id, err)
	}
	return l.rendered(revision, config)
}

func (l *lane) rendered(revision int64, config any) (*target, error) {
	files, err := l.render(config)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", l.id, err)
	}
	return &target{revision: revision, config: config, files: files}, nil
}

// rehearse does what a pass does, up to the point where it would install anything.
func (l *lane) rehearse(ctx context.Context, live *Engine) (err error) {
	defer rescue.Into(&err, l.engine.log, string(l.id))
	var now *target
	err = l.engine.db.Snapshot(ctx, func(tx *db.Tx) (err error) {
		now, err = l.loadTarget(ctx, tx, 0)
		return err
	})
	if err != nil {
		return err
	}
	if live != nil && live.runsWith(l.id, now.files) {
		return nil
	}
	return l.check(ctx, now.files)
}

// judge decides whether the checker's answer refuses a change. A preview has no revision.
func (l *lane) judge(ctx context.Context, x *target, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // the caller is gone, and the checker was stopped before it had a result
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		x.checked, l.checked = true, x
		return nil
	}
	x.refused = l.refused != nil && (x.revision == 0 || l.refused.revision == x.revision-1)
	if refused(err) && !x.refused {
		return refusal(ctx, l.id, err)
	}
	return nil
}

// decided learns whether a considered change was stored. If not, what was applied ahead of its commit is undone.
func (l *lane) decided(x *target, committed bool) {
	if x == nil {
		return
	}
	l.mu.Lock()
	switch {
	case committed && x.step != nil:
		if l.steps == nil {
			l.steps = map[int64]Step{}
		}
		if x.reloads == l.reloads {
			l.steps[x.revision] = x.step
		}
	case committed:
		l.committed = x
		l.noteVerdict(x, x.refused)
	case x.tried:
		l.running, l.checked, l.committed = nil, nil, nil
	}
	l.mu.Unlock()
	if x.applied {
		l.work.Unlock()
	}
	if x.tried && !committed {
		l.kick(0, false)
	}
}
