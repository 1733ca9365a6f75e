package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/host"
)

const (
	// tick is how often a lane looks whether its component is still what is stored.
	tick = 10 * time.Second
	// A failed apply is tried again, at first soon and then ever more rarely.
	retryFirst = 2 * time.Second
	retryMost  = time.Minute
	// applyWithin bounds one pass through a daemon.
	applyWithin = 60 * time.Second
	// stepWithin bounds one step of a running daemon.
	stepWithin = 5 * time.Second
	// settleAfter is how long the files may be behind a daemon that was changed while it runs.
	settleAfter = 500 * time.Millisecond
)

// lane brings one component to what is stored. It takes no input: an edit, the boot, a restore and the timer all do
// the same, and whatever waits while it works is served by its next pass.
type lane struct {
	erased
	engine *Engine
	signal chan struct{}
	// writers counts the changes that are in their transaction or wait for it.
	writers atomic.Int32
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
	// behind says since when the files are behind the daemon; filesAt is the revision that they have.
	behind   time.Time
	filesAt  int64
	settling bool
	// storedRefused remembers that what is stored fails its check already: such a state must not keep the operator from
	// mending it.
	storedRefused bool
	retry         time.Duration

	// good is the configuration that the daemon was last seen to run with, as it is kept on disk.
	keeping   sync.Mutex
	good      []host.File
	goodKnown bool
}

type waiter struct {
	revision int64
	done     chan Status
}

// imagined is what a change would store, as its transaction saw it. Writers of a component queue, so that nothing else
// of it can have changed when the change is committed.
type imagined struct {
	revision int64
	// loaded says that config and files are known. A change that others queue behind leaves that to the pass that serves
	// them all, and one that has a step needs neither.
	loaded  bool
	config  any
	files   []host.File
	step    Step
	applied bool // ahead of the commit
}

// run serves the lane until the context ends.
func (l *lane) run(ctx context.Context) {
	var settles sync.WaitGroup
	defer settles.Wait()
	for {
		wait, settle := l.next()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-l.signal:
			timer.Stop()
			if l.proceed(ctx) {
				continue
			}
		case <-timer.C:
			if settle {
				// Noted before it runs, or the next turn would start another one.
				l.mu.Lock()
				l.settling, l.behind = true, time.Time{}
				l.mu.Unlock()
				settles.Go(func() { l.settle(ctx) })
				continue
			}
		}
		l.pass(ctx)
	}
}

// next is how long to wait for a signal, and whether the files have to follow the daemon then.
func (l *lane) next() (wait time.Duration, settle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.behind.IsZero() && !l.settling {
		return max(0, settleAfter-time.Since(l.behind)), true
	}
	if l.retry > 0 {
		return l.retry, false
	}
	return tick, false
}

// proceed takes the steps that lead on from what the daemon has. It says false when a whole pass is wanted.
func (l *lane) proceed(ctx context.Context) bool {
	l.work.Lock()
	defer l.work.Unlock()
	for {
		l.mu.Lock()
		revision := l.at + 1
		step := l.steps[revision]
		delete(l.steps, revision)
		full := l.full
		l.mu.Unlock()
		if full || step == nil {
			return !full // a step whose predecessor is not decided yet waits for its signal
		}
		start := l.engine.clock.Now()
		trying, cancel := context.WithTimeout(ctx, stepWithin)
		err := step(trying)
		cancel()
		if err != nil {
			l.engine.log.Warn("a change at run time failed; the full way is taken", "component", l.id, "rev", revision, "err", err)
			l.mu.Lock()
			l.full, l.at, l.running = true, 0, nil
			l.mu.Unlock()
			return false
		}
		l.mu.Lock()
		l.at, l.running = revision, nil
		if l.behind.IsZero() {
			l.behind = time.Now()
		}
		l.mu.Unlock()
		l.report(start, 0, revision, true, nil)
	}
}

// settle brings the files to where the daemon is already, while changes go on.
func (l *lane) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, applyWithin)
	defer cancel()
	files, err := l.follow(ctx)
	if err == nil && files != nil {
		err = l.keep(files)
	}
	l.mu.Lock()
	l.settling = false
	l.mu.Unlock()
	if err != nil {
		l.engine.log.Warn("the files are behind; the full way is taken", "component", l.id, "err", err)
		l.kick(0, false)
		return
	}
	l.wake() // what was changed meanwhile is to follow, too
}

// follow writes the files of what is stored, unless a pass has written newer ones.
func (l *lane) follow(ctx context.Context) ([]host.File, error) {
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
	if err := l.install(l.lastGood(), now.files); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.filesAt = now.revision
	if l.at == now.revision {
		l.running = now.config
	}
	return now.files, nil
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
	ctx, cancel := context.WithTimeout(ctx, applyWithin)
	defer cancel()
	l.mu.Lock()
	force := l.force
	l.force, l.full = false, false
	early := len(l.waiters)
	l.mu.Unlock()

	start := l.engine.clock.Now()
	revision, installed, err := l.converge(ctx, force)
	l.report(start, early, revision, installed != nil, err)
	// Those who waited have their answer. A death before the file is kept costs a reload at the next start, no more.
	if err == nil && installed != nil {
		if err := l.keep(installed); err != nil {
			l.report(start, 0, revision, false, err)
		}
	}
}

// keep keeps the configuration that the daemon runs with.
func (l *lane) keep(files []host.File) error {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	if err := l.engine.keepGood(l.id, l.good, files); err != nil {
		return fmt.Errorf("keeping the last known good configuration: %w", err)
	}
	l.good, l.goodKnown = files, true
	return nil
}

// lastGood is the configuration that the daemon was last seen to run with.
func (l *lane) lastGood() []host.File {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	if !l.goodKnown {
		l.good, l.goodKnown = l.engine.lastGood(l.id), true
	}
	return l.good
}

// report tells everybody how a pass ended.
func (l *lane) report(start time.Time, early int, revision int64, touched bool, err error) {
	now := l.engine.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.status
	if revision > 0 {
		l.status.Revision = max(l.status.Revision, revision)
	}
	switch {
	case err == nil:
		l.status.State, l.status.LastError = Live, ""
		l.status.AppliedRevision = revision
		if touched || l.status.LastAppliedAt == nil {
			l.status.LastAppliedAt = &now
			l.status.DurationMS = now.Sub(start).Milliseconds()
		}
		l.retry = 0
	case errors.Is(err, host.ErrNotInstalled):
		l.status.State, l.status.LastError = NotInstalled, err.Error()
		l.running, l.at, l.retry = nil, 0, 0
	case db.Away(err):
		l.status.State, l.status.LastError = Pending, "the database is away"
		l.retry = retryFirst
	default:
		l.status.State, l.status.LastError = Degraded, err.Error()
		l.running, l.at = nil, 0
		l.retry = min(max(2*l.retry, retryFirst), retryMost)
	}
	if l.status.State == Live && l.status.AppliedRevision < l.status.Revision {
		l.status.State = Pending // another change came meanwhile
	}
	if before.State != l.status.State || before.LastError != l.status.LastError || before.AppliedRevision != l.status.AppliedRevision {
		l.engine.changed(before, l.status)
	}
	var rest []waiter
	for i, w := range l.waiters {
		// A revision is served by any pass that has seen it. Without one, and to learn of a failure, it takes a pass that
		// began after the question. While the database keeps a pass waiting in vain, another one would wait as long.
		if w.revision > 0 && w.revision <= revision || i < early && (w.revision == 0 || err != nil) || err != nil && db.Away(err) {
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
	now := &imagined{loaded: true}
	err := l.engine.db.Snapshot(ctx, func(tx *db.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT coalesce(max(revision), 0) FROM apply_revisions WHERE component = $1`, l.id).Scan(&now.revision); err != nil {
			return fmt.Errorf("loading: %w", err)
		}
		if left != nil && left.loaded && left.revision == now.revision {
			now = left
			return nil
		}
		var err error
		if now.config, err = l.load(ctx, tx); err != nil {
			return fmt.Errorf("loading: %w", err)
		}
		if now.files, err = l.render(now.config); err != nil {
			return fmt.Errorf("rendering: %w", err)
		}
		return nil
	})
	return now, err
}

// converge does the pass and answers which revision it brought about, and what it installed, if anything.
func (l *lane) converge(ctx context.Context, force bool) (revision int64, installed []host.File, err error) {
	for {
		tried := l.attempts()
		now, err := l.stored(ctx, force)
		if err != nil {
			return now.revision, nil, err
		}
		// Not before the state is read: a change that is about to be applied ahead of its commit holds a connection too.
		l.work.Lock()
		if tried == l.attempts() {
			installed, err := l.bring(ctx, now, force)
			l.work.Unlock()
			return now.revision, installed, err
		}
		l.work.Unlock() // a change came in between: what was read is old
	}
}

func (l *lane) attempts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tried
}

// bring brings the daemon to a state, and answers what it installed, if anything.
func (l *lane) bring(ctx context.Context, now *imagined, force bool) (installed []host.File, err error) {
	config, files := now.config, now.files
	if err := l.installed(ctx); err != nil {
		return nil, err
	}
	good := l.lastGood()
	same := l.onDisk(files) && sameFiles(good, files)
	if same && !force && l.verify(ctx, config, files) == nil {
		l.remember(now)
		return nil, nil
	}
	if !l.atomic && !sameFiles(l.agreed(), files) {
		if err := l.ask(ctx, files); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	was := l.running
	l.running = nil
	l.mu.Unlock()
	done := now.applied || !same && !force && l.can(was, config) && l.do(ctx, was, config) == nil
	if err = l.install(good, files); err == nil && !done {
		err = l.reload(ctx, config, files)
	}
	if err == nil {
		err = failpoint.Hit(failpoint.ApplyReloaded)
	}
	if err == nil {
		err = l.verify(ctx, config, files)
		if _, partial := errors.AsType[*Partial](err); err != nil && !partial && done && !now.applied {
			// It was changed while it runs, and is not what it should be: it reads its files after all.
			if err = l.reload(ctx, config, files); err == nil {
				err = l.verify(ctx, config, files)
			}
		}
	}
	if err != nil {
		return nil, l.fallBack(ctx, config, good, files, err)
	}
	if err := failpoint.Hit(failpoint.ApplyVerified); err != nil {
		return nil, err
	}
	l.remember(now)
	return files, nil
}

// reload makes the daemon take its files.
func (l *lane) reload(ctx context.Context, config any, files []host.File) error {
	err := l.apply(ctx, config, files)
	if l.atomic {
		l.mu.Lock()
		l.storedRefused = refused(err)
		l.mu.Unlock()
	}
	return err
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

// ask asks the daemon's checker about files that would go live.
func (l *lane) ask(ctx context.Context, files []host.File) error {
	err := l.check(ctx, files)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.storedRefused = refused(err)
	if err != nil {
		return fmt.Errorf("the stored configuration is refused: %w", err)
	}
	l.checked = files
	return nil
}

// consider looks at a change in its transaction, before it is committed. It refuses what the daemon would refuse, and
// lets everything else through: a checker that cannot run, or a stored state that is broken already, must not lock the
// operator out of the fix. Whatever it answers, decided has to hear of the commit.
func (l *lane) consider(ctx context.Context, tx *db.Tx, revision int64, rows []Row) (*imagined, error) {
	l.mu.Lock()
	was, known := l.running, l.at > 0
	l.mu.Unlock()
	if known && len(rows) > 0 {
		step, err := l.plan(ctx, tx, rows)
		if err != nil {
			return nil, fmt.Errorf("planning for %s: %w", l.id, err)
		}
		if step != nil {
			return &imagined{revision: revision, step: step}, nil
		}
	}
	if l.writers.Load() > 1 && !l.atomic {
		// Others wait for this one. One pass loads, checks and applies for all of them.
		return &imagined{revision: revision}, nil
	}
	x, err := l.imagine(ctx, tx, revision)
	if err != nil {
		return nil, err
	}
	switch {
	case l.can(was, x.config), sameFiles(l.agreed(), x.files), l.onDisk(x.files):
		return x, nil
	case !l.atomic:
		return x, l.judge(x.files, l.check(ctx, x.files))
	}
	// Held until the change is decided, so that no pass puts the stored state back meanwhile.
	l.work.Lock()
	defer func() {
		if !x.applied {
			l.work.Unlock()
		}
	}()
	err = l.apply(ctx, x.config, x.files)
	if x.applied = err == nil; x.applied {
		l.mu.Lock()
		l.tried++
		l.mu.Unlock()
	}
	return x, l.judge(x.files, err)
}

// preview asks the daemon's checker about a change that will not be committed. With always, it is asked even where the
// answer is known.
func (l *lane) preview(ctx context.Context, files []host.File, always bool) error {
	if !always && (sameFiles(l.agreed(), files) || l.onDisk(files)) {
		return nil
	}
	return l.judge(files, l.check(ctx, files))
}

// imagine loads and renders what a change would store.
func (l *lane) imagine(ctx context.Context, tx *db.Tx, revision int64) (*imagined, error) {
	config, err := l.load(ctx, tx)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", l.id, err)
	}
	files, err := l.render(config)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", l.id, err)
	}
	return &imagined{revision: revision, loaded: true, config: config, files: files}, nil
}

// judge says whether a change is refused because of what the checker said.
func (l *lane) judge(files []host.File, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if refused(err) && !l.storedRefused {
		return refusal(l.id, err)
	}
	if err == nil {
		l.checked = files
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
		l.steps[x.revision] = x.step
	case committed:
		l.committed = x
	case x.applied:
		l.running, l.checked = nil, nil
	}
	l.mu.Unlock()
	if x.applied {
		l.work.Unlock()
		if !committed {
			l.kick(0, false)
		}
	}
}

// fallBack puts the last known good configuration back and says why.
func (l *lane) fallBack(ctx context.Context, config any, good, tried []host.File, cause error) error {
	_, partial := errors.AsType[*Partial](cause)
	if partial || errors.Is(cause, host.ErrNotInstalled) || len(good) == 0 || sameFiles(good, tried) {
		return cause
	}
	if err := l.install(tried, good); err != nil {
		return fmt.Errorf("%w; and the last known good configuration could not be put back: %w", cause, err)
	}
	if err := l.apply(ctx, config, good); err != nil {
		if err.Error() == cause.Error() {
			return fmt.Errorf("%w (and so it is with the last known good configuration)", cause)
		}
		return fmt.Errorf("%w; and the daemon did not take the last known good configuration back: %w", cause, err)
	}
	return fmt.Errorf("%w; the last known good configuration runs", cause)
}

// install writes the files that differ from what is on disk, and removes those that the daemon had before and no longer
// has.
func (l *lane) install(was, files []host.File) error {
	wanted := map[host.Place]bool{}
	for _, f := range files {
		wanted[f.Place] = true
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
