package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/parts"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/rescue"
)

const (
	// tick is how often a lane checks that its component still matches what is stored.
	tick = 10 * time.Second
	// A failed apply is retried with exponential backoff.
	retryFirst = 2 * time.Second
	retryMost  = time.Minute
	// A state that the daemon did not take is retried even if nothing has changed: once soon, because the obstacle may have been
	// temporary, and then at long intervals.
	againFirst = 15 * time.Second
	againAfter = time.Hour
	// applyWithin bounds one pass.
	applyWithin = 60 * time.Second
	// stepWithin bounds one step of a running daemon.
	stepWithin = 5 * time.Second
	// gatherWithin is how long a pass waits for changes in progress, so that they share it.
	gatherWithin = time.Second
	// settleAfter is how long the files may lag behind a daemon that was changed at run time. Where bringing them up to date takes
	// long, it is settleRests times as long as that, so that changes that keep coming get most of the machine.
	settleAfter = 500 * time.Millisecond
	settleRests = 4
)

// lane brings one component to what is stored. A pass takes no input: an edit, the boot, a restore and the timer all do the same,
// and requests that arrive during a pass are served by the next one.
type lane struct {
	erased
	engine *Engine
	signal chan struct{}
	// turn serializes those who change what the component depends on.
	turn turn

	// work is held by a pass, and by a change from its atomic apply until the change is decided.
	work sync.Mutex
	// disk are the files that this process last wrote, or found on disk; nil if unknown. Under work.
	disk []host.File

	mu      sync.Mutex
	status  Status
	waiters []waiter
	force   bool
	// running is the configuration that the daemon is known to have; nil if unknown.
	running any
	// partly is the state that the daemon has taken in part; nil if it has taken all or nothing.
	partly *target
	// checked is the state that the daemon's checker last accepted, unless the daemon then did not take it; nil if there is none.
	checked *target
	// committed is the newest change that no pass has applied yet. Its transaction has loaded and rendered it already.
	committed *target
	// tried counts changes that were applied ahead of their commit.
	tried int
	// full says that steps do not suffice: a whole pass is needed.
	full bool
	// at is the revision that the daemon is known to have; 0 if unknown.
	at int64
	// steps lead on from at, by the revision that they lead to.
	steps map[int64]Step
	// reloads counts how often the daemon was reloaded: a step is valid only for the daemon that it was planned for.
	reloads int
	// behind is the time since which the files lag behind the daemon; filesAt is the revision that they have.
	behind   time.Time
	filesAt  int64
	settling bool
	// settleTook is how long bringing them up to date took the last time.
	settleTook time.Duration
	// refused is the stored state that the daemon's checker refuses; nil if there is none. Such a state must not keep the
	// operator from repairing it.
	refused *target
	// failed is the stored state that the daemon did not take while the last known good configuration runs in its place.
	failed *failure
	retry  time.Duration
	// standing holds the openings for what runs that the stored state does not have.
	standing []policy.Opening
	daemon

	// good is the last known good configuration. goodConfig, from which it was rendered, is known only if this process did so.
	keeping    sync.Mutex
	good       []host.File
	goodConfig any
	goodKnown  bool
	// written is the part of it that is on disk. behindSince is the time since which the disk lags behind.
	written     []host.File
	behindSince time.Time
	// retained is the last known good configuration of a volatile component, kept for a start without a database.
	retained []byte
	// held says that a change waits for its confirmation: the daemon runs with heldNow, which is not kept.
	held    bool
	heldNow *target

	// overdue says that an unconfirmed change is about to be taken back: until then the stored state is not applied. Guarded by
	// mu.
	overdue bool

	// recorded is the state that the history has.
	recorded Status
}

type failure struct {
	*target
	cause error
	again time.Time // when it is retried
	links string    // fingerprint of the machine's links
}

type waiter struct {
	revision int64
	done     chan Status
}

// target is a state to apply: one that a change would store, as its transaction sees it, or the stored one. Writers of a
// component queue, so that nothing else changes before the commit.
type target struct {
	revision int64
	// A change that has a step needs neither config nor files.
	config any
	files  []host.File
	step   Step
	// reloads is the lane's count when the step was planned.
	reloads int
	checked bool   // the daemon's checker accepted it
	refused bool   // the daemon's checker accepted neither the state before nor this one
	tried   bool   // it was applied ahead of the commit,
	applied bool   // and that succeeded
	way     string // how a pass applied it, in the terms of the history
}

// storedError is a failure to read what is stored, as opposed to a failure of the daemon.
type storedError struct{ error }

func (e *storedError) Unwrap() error { return e.error }

func (l *lane) run(ctx context.Context) {
	var settles sync.WaitGroup
	l.startEarly(ctx)
	due := time.Now().Add(l.engine.tick) // signals do not postpone it: the daemon is checked even if changes keep coming
	defer l.leave(&settles)
	for ctx.Err() == nil {
		wait, chore := l.next(due)
		switch l.wait(ctx, wait) {
		case signalled:
			if l.proceed(ctx) {
				continue
			}
			l.gather(ctx)
		case waited:
			switch chore {
			case settling:
				// Set before it runs, or the next iteration would start another one.
				l.mu.Lock()
				l.settling, l.behind = true, time.Time{}
				l.mu.Unlock()
				settles.Go(l.settle)
				continue
			case writing:
				l.writeLate()
				continue
			}
		case ended:
			return
		}
		l.pass(ctx)
		due = time.Now().Add(l.pause())
	}
}

// leave makes the files match the daemon, which continues without this program.
func (l *lane) leave(settles *sync.WaitGroup) {
	settles.Wait()
	l.mu.Lock()
	behind := !l.behind.IsZero()
	l.mu.Unlock()
	if behind {
		l.settle()
	}
	l.writeLate()
}

// Reasons why a wait ended.
const (
	waited = iota
	signalled
	ended
)

// wait waits for a signal, at most for d. If d is not positive, a signal is left for the next iteration.
func (l *lane) wait(ctx context.Context, d time.Duration) int {
	if d <= 0 {
		return waited
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ended
	case <-l.signal:
		return signalled
	case <-timer.C:
		return waited
	}
}

// gather waits for changes in progress: each is checked on its own, and one reload serves them all.
func (l *lane) gather(ctx context.Context) {
	if l.atomic {
		return // they are applied already
	}
	timer := time.NewTimer(gatherWithin)
	defer timer.Stop()
	for l.turn.busy() {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-l.signal:
		}
	}
}

// Chores of a lane besides passes.
const (
	nothing  = iota
	settling // the files must catch up with the daemon
	writing  // the last known good configuration must be written
)

// next returns how long to wait for a signal, given when the next pass is due, and what to do after the wait.
func (l *lane) next(due time.Time) (wait time.Duration, chore int) {
	wait = time.Until(due)
	l.keeping.Lock()
	if !l.behindSince.IsZero() {
		if after := settleAfter - time.Since(l.behindSince); after < wait {
			wait, chore = after, writing
		}
	}
	l.keeping.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.behind.IsZero() && !l.settling {
		if after := settleLag(l.settleTook) - time.Since(l.behind); after < wait {
			return after, settling
		}
	}
	return wait, chore
}

// settleLag returns how long the files may lag behind if it took so long to bring them up to date.
func settleLag(took time.Duration) time.Duration {
	return min(max(settleAfter, settleRests*took), tick)
}

func (l *lane) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retry > 0 {
		return l.retry
	}
	return l.engine.tick
}

// kick asks for a pass. The channel receives the status once a pass has seen the revision; for revision 0, once a new pass has
// ended.
func (l *lane) kick(revision int64, force bool) <-chan Status {
	done := make(chan Status, 1)
	l.mu.Lock()
	l.force = l.force || force
	l.full = l.full || revision == 0 || revision > l.at && l.steps[revision] == nil
	if revision > 0 && revision <= l.at {
		done <- l.status // someone else's signal has already led to it
		l.mu.Unlock()
		return done
	}
	l.waiters = append(l.waiters, waiter{revision, done})
	if l.status.Revision < revision {
		l.status.Revision = revision
	}
	if before := l.status; l.status.State == Live && l.status.AppliedRevision < l.status.Revision {
		l.status.State = Pending
		l.engine.changed(before, l.status)
	}
	l.mu.Unlock()
	l.wake()
	return done
}

func (l *lane) wake() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

func (l *lane) pass(ctx context.Context) {
	if l.isOverdue() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, applyWithin)
	defer cancel()
	l.mu.Lock()
	force := l.force
	l.force, l.full = false, false
	early := len(l.waiters)
	l.mu.Unlock()

	start := l.engine.clock.Now()
	was := l.lastApplied()
	l.beginWork()
	now, installed, err := l.converge(ctx, force)
	died := l.endWork(ctx, now.config)
	unkept := l.updateStanding(now, err)
	if !unread(err) {
		l.noteTaken(now, err)
	}
	l.report(start, early, now.revision, installed, err)
	l.recordPass(start, was, now, installed)
	if died && err == nil {
		l.kick(0, false)
	}
	// The waiters have their answer. If the process dies before the file is kept, the next start reloads once more than
	// necessary.
	if err == nil {
		if installed {
			err = l.keep(now)
		}
		if err = errors.Join(err, unkept, l.retain(now.config)); err != nil {
			l.report(start, 0, now.revision, false, err)
		}
	}
}

func (l *lane) keep(now *target) error {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	if l.held {
		l.heldNow = now
		return nil
	}
	l.good, l.goodConfig, l.goodKnown = now.files, now.config, true
	if l.behindSince.IsZero() {
		l.behindSince = time.Now()
	}
	if l.atomic {
		return nil // a start applies what is stored anyway, one write serves many changes, and none waits for it
	}
	return l.write()
}

// write writes the last known good configuration to disk. The caller holds keeping.
func (l *lane) write() error {
	if l.behindSince.IsZero() {
		return nil
	}
	err := l.engine.keepGood(l.id, l.good)
	l.behindSince = time.Time{}
	if err != nil {
		l.good, l.goodConfig = l.written, nil // makes the next pass keep it again
		return fmt.Errorf("keeping the last known good configuration: %w", err)
	}
	l.written = l.good
	return nil
}

func (l *lane) writeLate() {
	l.keeping.Lock()
	err := l.write()
	l.keeping.Unlock()
	if err != nil {
		l.report(l.engine.clock.Now(), 0, 0, false, err)
	}
}

// lastGood returns the configuration that the daemon was last known to run with, and what it was rendered from, if known.
func (l *lane) lastGood() (files []host.File, config any) {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	if !l.goodKnown {
		l.good, l.goodKnown = l.engine.lastGood(l.id), true
		l.written = l.good
	}
	return l.good, l.goodConfig
}

// recognize sets what the last known good configuration was rendered from.
func (l *lane) recognize(config any) {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	l.goodConfig = config
}

// report publishes the result of a pass and answers its waiters.
func (l *lane) report(start time.Time, early int, revision int64, touched bool, err error) {
	now := l.engine.clock.Now()
	why := l.explain(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.status
	l.status.Daemon, l.status.LastError, l.status.Detail = l.does(), why.sentence, why.detail
	if revision > 0 {
		l.status.Revision = max(l.status.Revision, revision)
	}
	away := unread(err) && db.Away(err)
	switch {
	case err == nil:
		l.status.State = Live
		l.status.AppliedRevision = revision
		if touched || l.status.LastAppliedAt == nil {
			l.status.LastAppliedAt = &now
			l.status.DurationMS = now.Sub(start).Milliseconds()
		}
		l.retry = 0
	case errors.Is(err, host.ErrNotInstalled):
		l.status.State = NotInstalled
		l.running, l.at, l.retry = nil, 0, 0
	case away:
		l.status.State = Pending
		l.retry = retryFirst
	default:
		l.status.State = Degraded
		l.running, l.at = nil, 0
		if l.retry = min(max(2*l.retry, retryFirst), retryMost); l.failed != nil {
			l.retry = 0 // the last known good configuration runs, and is checked as usual
		}
	}
	if l.status.State == Live && l.status.AppliedRevision < l.status.Revision {
		l.status.State = Pending // another change was stored in the meantime
	}
	if before.State != l.status.State || before.LastError != l.status.LastError || before.Daemon != l.status.Daemon || before.AppliedRevision != l.status.AppliedRevision {
		l.engine.changed(before, l.status)
	}
	var rest []waiter
	for i, w := range l.waiters {
		// A revision is served by any pass that has seen it. Without a revision, or to report a failure, it takes a pass that
		// began after the request. If the database stalls a pass, everyone is answered: another pass would stall as well.
		if w.revision > 0 && w.revision <= revision || i < early && (w.revision == 0 || err != nil) || away {
			w.done <- l.status
			continue
		}
		rest = append(rest, w)
	}
	l.waiters = rest
	l.full = l.full && len(rest) > 0 // everyone who wanted a pass has seen one
}

// stored returns the state that a pass applies: the newest change as its transaction left it, or everything read from the
// database. With fresh, it always reads.
func (l *lane) stored(ctx context.Context, fresh bool) (*target, error) {
	l.mu.Lock()
	left := l.committed
	l.committed = nil
	l.mu.Unlock()
	now := &target{}
	if left != nil && !fresh {
		switch revision, err := Revision(ctx, l.engine.db, l.id); {
		case err != nil:
			return now, &storedError{fmt.Errorf("loading: %w", err)}
		case revision == left.revision:
			return left, nil
		}
	}
	err := l.engine.db.Snapshot(ctx, func(tx *db.Tx) (err error) {
		if now.revision, err = Revision(ctx, tx, l.id); err != nil {
			return err
		}
		now.config, err = l.load(ctx, tx)
		return err
	})
	if err != nil {
		return now, &storedError{fmt.Errorf("loading: %w", err)}
	}
	if now.files, err = l.render(now.config); err != nil {
		return now, fmt.Errorf("rendering: %w", err)
	}
	return now, nil
}

func unread(err error) bool {
	_, ok := errors.AsType[*storedError](err)
	return ok
}

// converge runs the pass. It returns the state that it applied, and whether it installed anything.
func (l *lane) converge(ctx context.Context, force bool) (now *target, installed bool, err error) {
	now = &target{}
	defer rescue.Into(&err, l.engine.log, string(l.id))
	for {
		tried := l.attempts()
		if now, err = l.stored(ctx, force); err != nil {
			if db.Away(err) {
				l.adjust(ctx)
			}
			return now, false, err
		}
		if !force {
			l.awaitDecision(ctx, now.revision)
		}
		if done, installed, err := l.arrive(ctx, now, force, tried); done {
			return now, installed, err
		}
	}
}

// arrive applies a state, unless a change was applied ahead of its commit since the state was read: that makes the state stale.
// The lock is not taken before reading, because such a change holds a connection as well.
func (l *lane) arrive(ctx context.Context, now *target, force bool, tried int) (done, installed bool, err error) {
	l.work.Lock()
	defer l.work.Unlock()
	if tried != l.attempts() {
		return false, false, nil
	}
	installed, err = l.bring(ctx, now, force)
	return true, installed, err
}

func (l *lane) attempts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tried
}

// bring applies a state, and reports whether it installed anything.
func (l *lane) bring(ctx context.Context, now *target, force bool) (installed bool, err error) {
	config, files := now.config, now.files
	if err := l.installed(ctx); err != nil {
		return false, err
	}
	last := l.lastApplied()
	same := sameFiles(last, files) && l.onDisk(files)
	if same {
		l.disk = files
	}
	// A daemon that is down is started with what it last ran with. Checking first would only delay that.
	revived := same && !force && l.down(ctx)
	if same && !force && l.verify(ctx, config, files) == nil {
		l.recognize(config)
		l.remember(now)
		return false, nil
	}
	if f := l.givenUp(ctx, now); f != nil && !force {
		back, err := l.fallBack(ctx, now, false, f.cause)
		if !back {
			l.setFailed(nil)
		}
		return false, err
	}
	again := l.tryAgain(now)
	l.setFailed(nil)
	stepped := !force && l.reach(ctx, now.revision)
	if !l.atomic && !stepped && !now.checked && !revived && !sameFiles(l.agreed(), files) {
		if err := l.ask(ctx, now); err != nil {
			return false, err
		}
	}
	l.mu.Lock()
	was := l.running
	l.running = nil
	l.mu.Unlock()
	done := now.applied || stepped || !same && !force && l.can(was, config) && l.do(ctx, was, config) == nil
	notified := done
	if now.way = changes.Runtime; now.applied || !done {
		now.way = changes.Reload
	}
	err = l.install(last, files)
	written := err == nil // any later failure is one of the daemon
	if written && !done {
		err = l.reload(ctx, now)
		if err != nil && revived {
			err = cmp.Or(l.ask(ctx, now), err) // the checker's message is clearer
		}
		notified = !l.atomic || !refused(err)
	}
	if err == nil {
		err = failpoint.Hit(failpoint.ApplyReloaded, string(l.id))
	}
	if err == nil {
		err = l.verify(ctx, config, files)
		if err != nil && !partial(err) && done {
			// The change at run time did not have the expected result: reload the files instead.
			now.way = changes.Reload
			if err = l.reload(ctx, now); err == nil {
				err = l.verify(ctx, config, files)
			}
		}
	}
	if err != nil {
		back, reported := l.fallBack(ctx, now, notified, err)
		if back && notified && written {
			l.setFailed(&failure{target: now, cause: err, again: again, links: l.links(ctx)})
		}
		return false, reported
	}
	if err := failpoint.Hit(failpoint.ApplyVerified, string(l.id)); err != nil {
		return false, err
	}
	l.remember(now)
	return true, nil
}

// reload makes the daemon read the files of a state.
func (l *lane) reload(ctx context.Context, now *target) error {
	l.forget()
	err := l.apply(ctx, now.config, now.files)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !partial(err) {
		l.checked = nil // the next check is of everything
	}
	if l.atomic {
		l.noteVerdict(now, refused(err))
	}
	return err
}

// forget invalidates the steps, because the daemon is about to be reloaded.
func (l *lane) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = 0
	l.reloads++
	l.full = l.full || len(l.steps) > 0
	clear(l.steps)
}

// installed returns an error if the daemon is not installed.
func (l *lane) installed(ctx context.Context) error {
	if l.unit == "" {
		return nil
	}
	unit, err := l.engine.host.State(ctx, l.unit)
	if err != nil {
		return fmt.Errorf("asking for the daemon's state: %w", err)
	}
	if !unit.Installed {
		return fmt.Errorf("%s is %w", l.unit, host.ErrNotInstalled)
	}
	return nil
}

// remember records what the daemon and its files are known to have.
func (l *lane) remember(now *target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running, l.at, l.filesAt = now.config, now.revision, now.revision
	l.noteVerdict(now, false)
	for revision := range l.steps {
		if revision <= now.revision {
			delete(l.steps, revision)
		}
	}
}

func (l *lane) agreed() []host.File {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.checked == nil {
		return nil
	}
	return l.checked.files
}

// examine asks the daemon's checker about a state: about all of it, or about what it has not accepted before.
func (l *lane) examine(ctx context.Context, x *target) error {
	l.mu.Lock()
	accepted := l.checked
	l.mu.Unlock()
	files := x.files
	if accepted != nil {
		files = l.reduce(accepted.config, accepted.files, x.config, files)
	}
	return l.check(ctx, files)
}

// ask asks the daemon's checker about a stored state that would go live.
func (l *lane) ask(ctx context.Context, now *target) error {
	err := l.examine(ctx, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteVerdict(now, refused(err))
	if err != nil {
		return fmt.Errorf("the stored configuration is refused: %w", err)
	}
	l.checked = now
	return nil
}

// noteVerdict records whether the daemon's checker refuses a stored state, unless a newer one was checked already. The caller
// holds mu.
func (l *lane) noteVerdict(now *target, refused bool) {
	switch {
	case l.refused != nil && l.refused.revision > now.revision:
	case refused:
		l.refused = now
	default:
		l.refused = nil
	}
}

// install writes the files that differ from those on disk, and removes those that the component no longer has.
func (l *lane) install(was, files []host.File) error {
	return l.put(was, files, l.differing)
}

// installNews is install for files that follow a daemon while changes keep coming: it does not look at those that are as this process
// last wrote or found them. Whether somebody has changed those is checked by the next pass.
func (l *lane) installNews(was, files []host.File) error {
	if l.disk == nil {
		return l.install(was, files)
	}
	known := make(map[host.Place]host.File, len(l.disk))
	for _, f := range l.disk {
		known[f.Place] = f
	}
	return l.put(was, files, func(files []host.File) (map[host.Place]bool, error) {
		news := map[host.Place]bool{}
		for _, f := range files {
			if old, there := known[f.Place]; !there || !f.Same(old) {
				news[f.Place] = true
			}
		}
		return news, nil
	})
}

// put writes those files that look returns, and removes those that the component no longer has.
func (l *lane) put(was, files []host.File, look func([]host.File) (map[host.Place]bool, error)) error {
	l.disk = nil
	wanted := map[host.Place]bool{}
	differing := sync.OnceValues(func() (map[host.Place]bool, error) { return look(files) })
	for _, f := range files {
		wanted[f.Place] = true
		switch done, err := l.installParts(was, f); {
		case err != nil:
			return fmt.Errorf("installing %s: %w", l.engine.host.Path(f.Place), err)
		case done:
			continue
		}
		if places, err := differing(); err != nil {
			return err
		} else if !places[f.Place] {
			continue
		}
		if err := l.engine.host.Install(f.Place, f.Text()); err != nil {
			return fmt.Errorf("installing %s: %w", l.engine.host.Path(f.Place), err)
		}
	}
	for _, f := range was {
		if !wanted[f.Place] {
			if err := l.engine.host.Remove(f.Place); err != nil {
				return err
			}
		}
	}
	l.disk = files
	return nil
}

// installParts writes only the parts of a file that changed, if that is possible.
func (l *lane) installParts(was []host.File, f host.File) (done bool, err error) {
	if len(f.Parts) == 0 {
		return false, nil
	}
	i := slices.IndexFunc(was, func(old host.File) bool { return old.Place == f.Place })
	if i < 0 {
		return false, nil
	}
	change, ok := parts.Between(was[i].Parts, f.Parts)
	if !ok || change.Empty() {
		return false, nil // or the current content is not known
	}
	if err = l.engine.host.Amend(f.Place, change); errors.Is(err, parts.ErrOther) {
		return false, nil
	}
	return err == nil, err
}

// onDisk reports whether the files match those on disk.
func (l *lane) onDisk(files []host.File) bool {
	differing, err := l.differing(files)
	return err == nil && len(differing) == 0
}

// differing returns the places of files that differ from those on disk.
func (l *lane) differing(files []host.File) (map[host.Place]bool, error) {
	want := make([]host.Digest, len(files))
	for i, f := range files {
		want[i] = f.Digest()
	}
	places, err := l.engine.host.Differing(want)
	differing := make(map[host.Place]bool, len(places))
	for _, p := range places {
		differing[p] = true
	}
	return differing, err
}

func sameFiles(a, b []host.File) bool {
	return a != nil && slices.EqualFunc(a, b, func(x, y host.File) bool { return x.Place == y.Place && x.Same(y) })
}
