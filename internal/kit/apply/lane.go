package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
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
)

// lane brings one component to what is stored. It takes no input: an edit, the boot, a restore and the timer all do
// the same, and whatever waits while it works is served by its next pass.
type lane struct {
	erased
	engine *Engine
	signal chan struct{}

	mu      sync.Mutex
	status  Status
	waiters []waiter
	force   bool
	// running is the configuration that the daemon is known to have; nil when that is not known.
	running any
	// checked is the rendering that the daemon's checker last agreed with.
	checked []host.File
	// storedRefused remembers that what is stored fails its check already: such a state must not keep the operator from
	// mending it.
	storedRefused bool
	retry         time.Duration
}

type waiter struct {
	revision int64
	done     chan Status
}

// run serves the lane until the context ends.
func (l *lane) run(ctx context.Context) {
	for {
		l.mu.Lock()
		wait := tick
		if l.retry > 0 {
			wait = l.retry
		}
		l.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-l.signal:
			timer.Stop()
		case <-timer.C:
		}
		l.pass(ctx)
	}
}

// kick asks for a pass and answers when a pass has seen the revision; with none, when a new pass is done.
func (l *lane) kick(revision int64, force bool) <-chan Status {
	done := make(chan Status, 1)
	l.mu.Lock()
	l.waiters = append(l.waiters, waiter{revision, done})
	l.force = l.force || force
	if l.status.Revision < revision {
		l.status.Revision = revision
	}
	if before := l.status; l.status.State == Live && l.status.AppliedRevision < l.status.Revision {
		l.status.State = Pending
		l.engine.changed(before, l.status)
	}
	l.mu.Unlock()
	select {
	case l.signal <- struct{}{}:
	default:
	}
	return done
}

// pass is one way from the stored state to the daemon.
func (l *lane) pass(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, applyWithin)
	defer cancel()
	l.mu.Lock()
	force := l.force
	l.force = false
	early := len(l.waiters)
	l.mu.Unlock()

	start := l.engine.clock.Now()
	revision, installed, err := l.converge(ctx, force)
	l.report(start, early, revision, installed != nil, err)
	// Those who waited have their answer. A death before the file is kept costs a reload at the next start, no more.
	if err == nil && installed != nil {
		if err := l.engine.keepGood(l.id, installed); err != nil {
			l.report(start, 0, revision, false, fmt.Errorf("keeping the last known good configuration: %w", err))
		}
	}
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
		l.running, l.retry = nil, 0
	case db.Away(err):
		l.status.State, l.status.LastError = Pending, "the database is away"
		l.retry = retryFirst
	default:
		l.status.State, l.status.LastError = Degraded, err.Error()
		l.running = nil
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
		// began after the question.
		if w.revision > 0 && w.revision <= revision || i < early && (w.revision == 0 || err != nil) {
			w.done <- l.status
			continue
		}
		rest = append(rest, w)
	}
	l.waiters = rest
}

// converge does the pass and answers which revision it brought about, and what it installed, if anything.
func (l *lane) converge(ctx context.Context, force bool) (revision int64, installed []host.File, err error) {
	var config any
	err = l.engine.db.Snapshot(ctx, func(tx *db.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT coalesce(max(revision), 0) FROM apply_revisions WHERE component = $1`, l.id).Scan(&revision); err != nil {
			return err
		}
		config, err = l.load(ctx, tx)
		return err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("loading: %w", err)
	}
	files, err := l.render(config)
	if err != nil {
		return revision, nil, fmt.Errorf("rendering: %w", err)
	}
	if err := l.installed(ctx); err != nil {
		return revision, nil, err
	}
	good := l.engine.lastGood(l.id)
	same := l.onDisk(files) && sameFiles(good, files)
	if same && !force && l.verify(ctx, config) == nil {
		l.remember(config)
		return revision, nil, nil
	}
	if !sameFiles(l.agreed(), files) {
		if err := l.ask(ctx, files); err != nil {
			return revision, nil, err
		}
	}
	l.mu.Lock()
	was := l.running
	l.running = nil
	l.mu.Unlock()
	if !same && !force && l.can(was, config) && l.do(ctx, was, config) == nil {
		err = l.install(files)
	} else if err = l.install(files); err == nil {
		err = l.apply(ctx, config)
	}
	if err == nil {
		err = failpoint.Hit(failpoint.ApplyReloaded)
	}
	if err == nil {
		err = l.verify(ctx, config)
	}
	if err != nil {
		return revision, nil, l.fallBack(ctx, config, good, files, err)
	}
	if err := failpoint.Hit(failpoint.ApplyVerified); err != nil {
		return revision, nil, err
	}
	l.remember(config)
	return revision, files, nil
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

func (l *lane) remember(config any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = config
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
// operator out of the fix.
func (l *lane) consider(ctx context.Context, tx *db.Tx) error {
	config, err := l.load(ctx, tx)
	if err != nil {
		return fmt.Errorf("loading %s: %w", l.id, err)
	}
	l.mu.Lock()
	was, broken := l.running, l.storedRefused
	l.mu.Unlock()
	if l.can(was, config) {
		return nil
	}
	files, err := l.render(config)
	if err != nil {
		return fmt.Errorf("rendering %s: %w", l.id, err)
	}
	if sameFiles(l.agreed(), files) || l.onDisk(files) {
		return nil
	}
	err = l.check(ctx, files)
	if refused(err) && !broken {
		return refusal(l.id, err)
	}
	if err == nil {
		l.mu.Lock()
		l.checked = files
		l.mu.Unlock()
	}
	return nil
}

// fallBack puts the last known good configuration back and says why.
func (l *lane) fallBack(ctx context.Context, config any, good, tried []host.File, cause error) error {
	_, partial := errors.AsType[*Partial](cause)
	if partial || errors.Is(cause, host.ErrNotInstalled) || len(good) == 0 || sameFiles(good, tried) {
		return cause
	}
	if err := l.install(good); err != nil {
		return fmt.Errorf("%w; and the last known good configuration could not be put back: %w", cause, err)
	}
	if err := l.apply(ctx, config); err != nil {
		if err.Error() == cause.Error() {
			return fmt.Errorf("%w (and so it is with the last known good configuration)", cause)
		}
		return fmt.Errorf("%w; and the daemon did not take the last known good configuration back: %w", cause, err)
	}
	return fmt.Errorf("%w; the last known good configuration runs", cause)
}

// install writes the files that differ from what is on disk.
func (l *lane) install(files []host.File) error {
	for _, f := range files {
		if live, err := l.engine.host.Read(f.Place); err == nil && bytes.Equal(live, f.Content) {
			continue
		}
		if err := l.engine.host.Install(f.Place, f.Content); err != nil {
			return fmt.Errorf("installing %s: %w", l.engine.host.Path(f.Place), err)
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
