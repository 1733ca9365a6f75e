package apply

import (
	"context"
	"errors"
	"time"

	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/rescue"
)

// proceed takes the pending steps. It returns false if a whole pass is needed.
func (l *lane) proceed(ctx context.Context) bool {
	l.work.Lock()
	defer l.work.Unlock()
	for {
		l.mu.Lock()
		full, step := l.full && !l.overdue, l.steps[l.at+1]
		l.mu.Unlock()
		if full || step == nil {
			return !full // if the predecessor of a step is still undecided, its signal will come
		}
		if !l.take(ctx, step) {
			return false
		}
	}
}

// take takes the next step. If it fails, a whole pass follows.
func (l *lane) take(ctx context.Context, step Step) bool {
	start := l.engine.clock.Now()
	ctx, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	err := l.try(ctx, step)
	l.mu.Lock()
	revision := l.at + 1
	delete(l.steps, revision)
	l.running = nil
	if err != nil {
		l.engine.log.Warn("a change at run time failed; a full pass follows", "component", l.id, "rev", revision, "err", err)
		l.full, l.at = true, 0
		l.mu.Unlock()
		return false
	}
	l.at = revision
	if l.behind.IsZero() {
		l.behind = time.Now()
	}
	l.mu.Unlock()
	l.report(start, 0, revision, true, nil)
	l.recordStep(start, revision)
	return true
}

func (l *lane) try(ctx context.Context, step Step) (err error) {
	defer rescue.Into(&err, l.engine.log, string(l.id))
	return step(ctx)
}

// leads reports whether the daemon has a revision, or pending steps lead to it. The caller holds mu.
func (l *lane) leads(to int64) bool {
	if l.at == 0 {
		return false
	}
	for revision := l.at + 1; revision <= to; revision++ {
		if l.steps[revision] == nil {
			return false
		}
	}
	return true
}

// awaitDecision waits for the writer of a revision that the database already has to add its step: others see a change a moment
// before its writer learns that it is committed. Without the wait, a pass in this moment would be a whole one for no reason.
func (l *lane) awaitDecision(ctx context.Context, revision int64) {
	late := time.Now().Add(gatherWithin)
	for l.undecided(revision) && ctx.Err() == nil && time.Now().Before(late) {
		time.Sleep(time.Millisecond)
	}
}

// undecided reports whether a writer may still add a step to the revision.
func (l *lane) undecided(revision int64) bool {
	writing := l.turn.busy()
	l.mu.Lock()
	defer l.mu.Unlock()
	return writing && l.at != 0 && !l.full && !l.leads(revision) && (l.committed == nil || l.committed.revision < revision)
}

// reach takes the steps that lead to a revision newer than the files. It reports whether the daemon has got there.
func (l *lane) reach(ctx context.Context, to int64) bool {
	for {
		l.mu.Lock()
		possible, there, step := l.leads(to) && l.filesAt < to, l.at == to, l.steps[l.at+1]
		l.mu.Unlock()
		if !possible || there {
			return possible
		}
		if !l.take(ctx, step) {
			return false
		}
	}
}

// settle writes the files that match what the daemon already runs with, while changes continue. The end of the program does not
// interrupt it.
func (l *lane) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), applyWithin)
	defer cancel()
	l.mu.Lock()
	first := l.filesAt + 1
	l.mu.Unlock()
	was, start := l.lastApplied(), time.Now()
	followed, err := l.follow(ctx)
	if err == nil && followed != nil {
		err = errors.Join(l.keep(followed), l.retain(followed.config))
		l.engine.record(entry{Apply: changes.Apply{Component: string(l.id), First: first, Revision: followed.revision, EndedAt: l.engine.clock.Now(), Way: changes.None, State: string(Live)}, was: was, now: followed.files})
	}
	l.mu.Lock()
	l.settling, l.settleTook = false, time.Since(start)
	l.mu.Unlock()
	if err != nil {
		l.engine.log.Warn("the files could not be brought up to date; a full pass follows", "component", l.id, "err", err)
		l.kick(0, false)
		return
	}
	l.wake() // follow changes that were made in the meantime, too
}

// follow writes the files of the stored state, unless a pass has written newer ones.
func (l *lane) follow(ctx context.Context) (followed *target, err error) {
	defer rescue.Into(&err, l.engine.log, string(l.id))
	now, err := l.stored(ctx, true)
	if err != nil {
		return nil, err
	}
	l.work.Lock()
	defer l.work.Unlock()
	l.mu.Lock()
	late := l.at == 0 || now.revision > l.at || now.revision <= l.filesAt
	l.mu.Unlock()
	if late {
		return nil, nil
	}
	if err := l.installNews(l.lastApplied(), now.files); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.filesAt = now.revision
	if l.at == now.revision {
		l.running = now.config
	}
	return now, nil
}
