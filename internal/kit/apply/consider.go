package apply

import (
	"context"
	"fmt"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/rescue"
)

// consider looks at a change in its transaction, before it is committed. It refuses what the daemon would refuse, and
// lets everything else through: a checker that cannot run, or a stored state that is broken already, must not lock the
// operator out of the fix. Whatever it answers, decided has to hear of the commit.
func (l *lane) consider(ctx context.Context, tx *db.Tx, revision int64, rows []Row) (x *imagined, err error) {
	defer rescue.Into(&err, l.engine.log, string(l.id))
	l.mu.Lock()
	was, reloads := l.running, l.reloads
	// Only for a daemon that has, or is about to have, the state that the change was made on.
	plannable := !l.full && l.leads(revision-1)
	l.mu.Unlock()
	if plannable && len(rows) > 0 {
		step, err := l.plan(ctx, tx, rows)
		if err != nil {
			return nil, fmt.Errorf("planning for %s: %w", l.id, err)
		}
		if step != nil {
			return &imagined{revision: revision, step: step, reloads: reloads}, nil
		}
	}
	if x, err = l.foresee(ctx, tx, revision, rows); err != nil {
		return nil, err
	}
	switch {
	case l.can(was, x.config), sameFiles(l.agreed(), x.files), sameFiles(l.lastApplied(), x.files) && l.onDisk(x.files):
		return x, nil
	case !l.atomic:
		return x, l.judge(ctx, x, l.check(ctx, x.files))
	}
	// Held until the change is decided, so that no pass puts the stored state back meanwhile.
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

// preview asks the daemon's checker about a change that will not be committed. With always, it is asked even where the
// answer is known.
func (l *lane) preview(ctx context.Context, files []host.File, always bool) error {
	if !always && (sameFiles(l.agreed(), files) || l.onDisk(files)) {
		return nil
	}
	return l.judge(ctx, &imagined{files: files}, l.check(ctx, files))
}

// foresee is imagine for a change of rows, of which it may be enough to know the state before.
func (l *lane) foresee(ctx context.Context, tx *db.Tx, revision int64, rows []Row) (*imagined, error) {
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
		switch config, ok, err := l.amend(ctx, tx, was, rows); {
		case err != nil:
			return nil, fmt.Errorf("loading %s: %w", l.id, err)
		case ok:
			return l.rendered(revision, config)
		}
	}
	return l.imagine(ctx, tx, revision)
}

// imagine loads and renders what a change would store.
func (l *lane) imagine(ctx context.Context, tx *db.Tx, revision int64) (*imagined, error) {
	config, err := l.load(ctx, tx)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", l.id, err)
	}
	return l.rendered(revision, config)
}

func (l *lane) rendered(revision int64, config any) (*imagined, error) {
	files, err := l.render(config)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", l.id, err)
	}
	return &imagined{revision: revision, config: config, files: files}, nil
}

// rehearse does what a pass does, up to where something would be installed.
func (l *lane) rehearse(ctx context.Context, live *Engine) (err error) {
	defer rescue.Into(&err, l.engine.log, string(l.id))
	var now *imagined
	err = l.engine.db.Snapshot(ctx, func(tx *db.Tx) (err error) {
		now, err = l.imagine(ctx, tx, 0)
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

// judge says whether a change is refused because of what the checker said. A preview has no revision.
func (l *lane) judge(ctx context.Context, x *imagined, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // the caller has gone, and the checker was stopped before it had an opinion
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		x.checked, l.checked = true, x.files
		return nil
	}
	x.refused = l.refused != nil && (x.revision == 0 || l.refused.revision == x.revision-1)
	if refused(err) && !x.refused {
		return refusal(ctx, l.id, err)
	}
	return nil
}

// decided hears whether a change that was considered is stored. If it is not, what was applied ahead of it has to go.
func (l *lane) decided(x *imagined, committed bool) {
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
		l.heard(x, x.refused)
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
