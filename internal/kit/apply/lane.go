package apply

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	// tick is how often a lane looks whether its component is still what is stored.
	tick = 10 * time.Second
	// A failed apply is tried again, at first soon and then ever more rarely.
	retryFirst = 2 * time.Second
	retryMost  = time.Minute
	// A state that the daemon did not take is tried again although nothing has changed: once soon, because what was in its
	// way may have been passing, and then ever so often.
	againFirst = 15 * time.Second
	againAfter = time.Hour
	// applyWithin bounds one pass through a daemon.
	applyWithin = 60 * time.Second
	// stepWithin bounds one step of a running daemon.
	stepWithin = 5 * time.Second
	// gatherWithin is how long a pass waits for changes that are under way, so that they share it.
	gatherWithin = time.Second
	// settleAfter is how long the files may be behind a daemon that was changed while it runs.
	settleAfter = 500 * time.Millisecond
)

// lane brings one component to what is stored. It takes no input: an edit, the boot, a restore and the timer all do
// the same, and whatever waits while it works is served by its next pass.
type lane struct {
	erased
	engine *Engine
	signal chan struct{}
	// turn is who may change what the component depends on.
	turn turn

	// work is held by a pass, and by a change from its atomic apply until it is committed or not.
	work sync.Mutex

	mu      sync.Mutex
	status  Status
	waiters []waiter
	force   bool
	// running is the configuration that the daemon is known to have; nil when that is not known.
	running any
	// partly is the state that the daemon has taken in part; nil if it has taken all or nothing.
	partly *imagined
	// checked is the rendering that the daemon's checker last agreed with.
	checked []host.File
	// committed is the newest change that no pass has taken yet: its transaction has loaded and rendered it already.
	committed *imagined
	// tried counts what was applied ahead of a commit.
	tried int
	// full says that steps do not do: a whole pass is wanted.
	full bool
	// at is the revision that the daemon is known to have; 0 when that is not known.
	at int64
	// steps lead on from there.
	steps map[int64]Step
	// reloads counts how often the daemon took its files: a step is good for the daemon that it was planned for.
	reloads int
	// behind says since when the files are behind the daemon; filesAt is the revision that they have.
	behind   time.Time
	filesAt  int64
	settling bool
	// refused is the stored state that the daemon's checker refuses; nil when it refuses none. Such a state must not keep the
	// operator from mending it.
	refused *imagined
	// failed is the stored state that the daemon did not take, while the last known good configuration runs in its place.
	failed *failure
	retry  time.Duration
	// standing are openings for what runs, as far as it is not what is stored.
	standing []policy.Opening
	daemon

	// good is the configuration that the daemon was last seen to run with, as it is kept on disk. What the files were
	// rendered from is known for those of this process alone.
	keeping    sync.Mutex
	good       []host.File
	goodConfig any
	goodKnown  bool
	// written is what of it is on the disk, since writtenAt; unwritten says that it is behind.
	written   []host.File
	writtenAt time.Time
	unwritten bool
	// retained is what a volatile component was last seen to run with, as it is kept for a start without a database.
	retained []byte
	// held says that a change waits for its confirmation: what the daemon runs with meanwhile is heldNow, and is not kept.
	held    bool
	heldNow *imagined

	// overdue says that a change which was not confirmed is to be taken back: until then the stored state is not applied. Under mu.
	overdue bool

	// recorded is the state that the history knows of.
	recorded Status
}

// failure is a state that the daemon did not take.
type failure struct {
	*imagined
	cause error
	again time.Time // when it is tried again
	links string    // what the machine's network was like
}

type waiter struct {
	revision int64
	done     chan Status
}

// imagined is what a change would store, as its transaction saw it. Writers of a component queue, so that nothing else
// of it can have changed when the change is committed.
type imagined struct {
	revision int64
	// A change that has a step needs neither config nor files.
	config any
	files  []host.File
	step   Step
	// reloads is the lane's count when the step was planned.
	reloads int
	checked bool   // the daemon's checker agreed
	refused bool   // the daemon's checker did not agree with the state before, nor with this one
	tried   bool   // it was applied ahead of the commit,
	applied bool   // and that went well
	way     string // how a pass brought it about, as the history calls it
}

// storedError is a failure to read what is stored, as opposed to one of the daemon.
type storedError struct{ error }

func (e *storedError) Unwrap() error { return e.error }

// run serves the lane until the context ends.
func (l *lane) run(ctx context.Context) {
	var settles sync.WaitGroup
	due := time.Now().Add(l.engine.tick) // signals do not move it: the daemon is looked at even while changes keep coming
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
				// Noted before it runs, or the next turn would start another one.
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

// leave has the files be those of the daemon, which goes on without this program.
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

// What ended a wait.
const (
	waited = iota
	signalled
	ended
)

// wait waits for a signal, but no longer than d. When d is over already, a signal is left for the next turn.
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

// gather waits for the changes that are under way: each is checked on its own, and one reload does for all of them.
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

// What a lane has to do besides passes.
const (
	nothing  = iota
	settling // the files have to follow the daemon
	writing  // the last known good configuration has to be written
)

// next is how long to wait for a signal when a pass is due, and what has to be done first.
func (l *lane) next(due time.Time) (wait time.Duration, chore int) {
	wait = time.Until(due)
	l.keeping.Lock()
	if after := settleAfter - time.Since(l.writtenAt); l.unwritten && after < wait {
		wait, chore = after, writing
	}
	l.keeping.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.behind.IsZero() && !l.settling {
		if after := settleAfter - time.Since(l.behind); after < wait {
			return after, settling
		}
	}
	return wait, chore
}

// pause is how long after a pass the next one is due.
func (l *lane) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retry > 0 {
		return l.retry
	}
	return l.engine.tick
}

// kick asks for a pass and answers when a pass has seen the revision; with none, when a new pass is done.
func (l *lane) kick(revision int64, force bool) <-chan Status {
	done := make(chan Status, 1)
	l.mu.Lock()
	l.force = l.force || force
	l.full = l.full || revision == 0 || revision > l.at && l.steps[revision] == nil
	if revision > 0 && revision <= l.at {
		done <- l.status // somebody else's signal has brought it about
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

// wake has the lane look what there is to do.
func (l *lane) wake() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// pass is one way from the stored state to the daemon.
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
	l.atWork()
	now, installed, err := l.converge(ctx, force)
	died := l.look(ctx, now.config)
	unkept := l.stand(now, err)
	if !unread(err) {
		l.noteTaken(now, err)
	}
	l.report(start, early, now.revision, installed, err)
	l.tellPass(start, was, now, installed)
	if died && err == nil {
		l.kick(0, false)
	}
	// Those who waited have their answer. A death before the file is kept costs a reload at the next start, no more.
	if err == nil {
		if installed {
			err = l.keep(now)
		}
		if err = errors.Join(err, unkept, l.retain(now.config)); err != nil {
			l.report(start, 0, now.revision, false, err)
		}
	}
}

// keep keeps the configuration that the daemon runs with.
func (l *lane) keep(now *imagined) error {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	if l.held {
		l.heldNow = now
		return nil
	}
	l.good, l.goodConfig, l.goodKnown, l.unwritten = now.files, now.config, true, true
	if l.atomic && time.Since(l.writtenAt) < settleAfter {
		return nil // a start applies what is stored all the same, and one write does for many changes
	}
	return l.write()
}

// write has on the disk what is the last known good configuration. The caller holds keeping.
func (l *lane) write() error {
	if !l.unwritten {
		return nil
	}
	err := l.engine.keepGood(l.id, l.written, l.good)
	l.writtenAt, l.unwritten = time.Now(), false
	if err != nil {
		l.good, l.goodConfig = l.written, nil // which the next pass takes for a reason to keep it
		return fmt.Errorf("keeping the last known good configuration: %w", err)
	}
	l.written = l.good
	return nil
}

// writeLate writes what was left unwritten.
func (l *lane) writeLate() {
	l.keeping.Lock()
	err := l.write()
	l.keeping.Unlock()
	if err != nil {
		l.report(l.engine.clock.Now(), 0, 0, false, err)
	}
}

// lastGood is the configuration that the daemon was last seen to run with, and what it was rendered from, if that is known.
func (l *lane) lastGood() (files []host.File, config any) {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	if !l.goodKnown {
		l.good, l.goodKnown = l.engine.lastGood(l.id), true
		l.written = l.good
	}
	return l.good, l.goodConfig
}

// recognize notes what the last known good configuration was rendered from.
func (l *lane) recognize(config any) {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	l.goodConfig = config
}

// report tells everybody how a pass ended.
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
			l.retry = 0 // what runs is looked after as ever
		}
	}
	if l.status.State == Live && l.status.AppliedRevision < l.status.Revision {
		l.status.State = Pending // another change came meanwhile
	}
	if before.State != l.status.State || before.LastError != l.status.LastError || before.Daemon != l.status.Daemon || before.AppliedRevision != l.status.AppliedRevision {
		l.engine.changed(before, l.status)
	}
	var rest []waiter
	for i, w := range l.waiters {
		// A revision is served by any pass that has seen it. Without one, and to learn of a failure, it takes a pass that
		// began after the question. While the database keeps a pass waiting in vain, another one would wait as long.
		if w.revision > 0 && w.revision <= revision || i < early && (w.revision == 0 || err != nil) || away {
			w.done <- l.status
			continue
		}
		rest = append(rest, w)
	}
	l.waiters = rest
	l.full = l.full && len(rest) > 0 // all who wanted a pass have seen one
}

// stored is the state that a pass brings about: the newest change, when its transaction has left it, or all of it read
// anew.
func (l *lane) stored(ctx context.Context, anew bool) (*imagined, error) {
	l.mu.Lock()
	left := l.committed
	l.committed = nil
	l.mu.Unlock()
	if anew {
		left = nil
	}
	now := &imagined{}
	err := l.engine.db.Snapshot(ctx, func(tx *db.Tx) (err error) {
		if now.revision, err = Revision(ctx, tx, l.id); err != nil {
			return err
		}
		if left != nil && left.revision == now.revision {
			now = left
			return nil
		}
		left = nil
		now.config, err = l.load(ctx, tx)
		return err
	})
	if err != nil {
		return now, &storedError{fmt.Errorf("loading: %w", err)}
	}
	if left == nil {
		if now.files, err = l.render(now.config); err != nil {
			return now, fmt.Errorf("rendering: %w", err)
		}
	}
	return now, nil
}

func unread(err error) bool {
	_, ok := errors.AsType[*storedError](err)
	return ok
}

// converge does the pass and answers which state it brought about, and whether it installed anything.
func (l *lane) converge(ctx context.Context, force bool) (now *imagined, installed bool, err error) {
	now = &imagined{}
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

// arrive brings the daemon to a state, unless a change was applied ahead of its commit since the state was read: that state
// is old. It is not called before the state is read, because such a change holds a connection, too.
func (l *lane) arrive(ctx context.Context, now *imagined, force bool, tried int) (done, installed bool, err error) {
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

// bring brings the daemon to a state, and answers whether it installed anything.
func (l *lane) bring(ctx context.Context, now *imagined, force bool) (installed bool, err error) {
	config, files := now.config, now.files
	if err := l.installed(ctx); err != nil {
		return false, err
	}
	last := l.lastApplied()
	same := sameFiles(last, files) && l.onDisk(files)
	// A daemon that is down is started with what it last ran with. A check first would only keep people waiting.
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
	told := done
	if now.way = changes.Runtime; now.applied || !done {
		now.way = changes.Reload
	}
	err = l.install(last, files)
	written := err == nil // what fails from here on, fails at the daemon
	if written && !done {
		err = l.reload(ctx, now)
		if err != nil && revived {
			err = cmp.Or(l.ask(ctx, now), err) // what the checker says is clearer
		}
		told = !l.atomic || !refused(err)
	}
	if err == nil {
		err = failpoint.Hit(failpoint.ApplyReloaded, string(l.id))
	}
	if err == nil {
		err = l.verify(ctx, config, files)
		if err != nil && !partial(err) && done {
			// It was changed while it runs, and is not what it should be: it reads its files after all.
			now.way = changes.Reload
			if err = l.reload(ctx, now); err == nil {
				err = l.verify(ctx, config, files)
			}
		}
	}
	if err != nil {
		back, reported := l.fallBack(ctx, now, told, err)
		if back && told && written {
			l.setFailed(&failure{imagined: now, cause: err, again: again, links: l.links(ctx)})
		}
		return false, reported
	}
	if err := failpoint.Hit(failpoint.ApplyVerified, string(l.id)); err != nil {
		return false, err
	}
	l.remember(now)
	return true, nil
}

// reload makes the daemon take the files of a state.
func (l *lane) reload(ctx context.Context, now *imagined) error {
	l.forget()
	err := l.apply(ctx, now.config, now.files)
	if l.atomic {
		l.mu.Lock()
		l.heard(now, refused(err))
		l.mu.Unlock()
	}
	return err
}

// forget says that the daemon is about to be another one than the steps were planned for.
func (l *lane) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = 0
	l.reloads++
	l.full = l.full || len(l.steps) > 0
	clear(l.steps)
}

// installed complains when there is no such daemon.
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

// remember notes what the daemon and its files are known to have.
func (l *lane) remember(now *imagined) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running, l.at, l.filesAt = now.config, now.revision, now.revision
	l.heard(now, false)
	for revision := range l.steps {
		if revision <= now.revision {
			delete(l.steps, revision)
		}
	}
}

func (l *lane) agreed() []host.File {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checked
}

// ask asks the daemon's checker about a stored state that would go live.
func (l *lane) ask(ctx context.Context, now *imagined) error {
	err := l.check(ctx, now.files)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard(now, refused(err))
	if err != nil {
		return fmt.Errorf("the stored configuration is refused: %w", err)
	}
	l.checked = now.files
	return nil
}

// heard notes whether the daemon's checker refuses a stored state, unless it is known about a newer one. The caller holds mu.
func (l *lane) heard(now *imagined, refused bool) {
	switch {
	case l.refused != nil && l.refused.revision > now.revision:
	case refused:
		l.refused = now
	default:
		l.refused = nil
	}
}

// install writes the files that differ from what is on disk, and removes those that the daemon had before and no longer
// has.
func (l *lane) install(was, files []host.File) error {
	wanted := map[host.Place]bool{}
	for _, f := range files {
		wanted[f.Place] = true
		switch done, err := l.installParts(was, f); {
		case err != nil:
			return fmt.Errorf("installing %s: %w", l.engine.host.Path(f.Place), err)
		case done:
			continue
		}
		if live, err := l.engine.host.Read(f.Place); err == nil && bytes.Equal(live, f.Content) {
			continue
		}
		if err := l.engine.host.Install(f.Place, f.Content); err != nil {
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
	return nil
}

// installParts writes the parts of a file that are not those of before, if that is enough.
func (l *lane) installParts(was []host.File, f host.File) (done bool, err error) {
	i := slices.IndexFunc(was, func(old host.File) bool { return old.Place == f.Place })
	if i < 0 {
		return false, nil
	}
	change, ok := parts.Between(was[i].Parts, f.Parts)
	if !ok || change.Empty() {
		return false, nil // or it is not known what there is
	}
	if err = l.engine.host.Amend(f.Place, change); errors.Is(err, parts.ErrOther) {
		return false, nil
	}
	return err == nil, err
}

// onDisk tells whether the files are what is on disk.
func (l *lane) onDisk(files []host.File) bool {
	return !slices.ContainsFunc(files, func(f host.File) bool {
		live, err := l.engine.host.Read(f.Place)
		return errors.Is(err, fs.ErrNotExist) || err != nil || !bytes.Equal(live, f.Content)
	})
}

func sameFiles(a, b []host.File) bool {
	return a != nil && slices.EqualFunc(a, b, func(x, y host.File) bool { return x.Place == y.Place && bytes.Equal(x.Content, y.Content) })
}
