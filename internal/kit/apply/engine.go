package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/bus"
	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/secret"
)

// answerWithin is how long a change waits for its components before it answers "pending".
const answerWithin = 20 * time.Second

// Engine brings the components to what is stored.
type Engine struct {
	db    *db.DB
	host  host.Machine
	clock clock.Clock
	log   *slog.Logger
	box   *secret.Box
	dir   string // holds the last known good configurations
	tick  time.Duration
	lanes map[ID]*lane
	order []ID
	live  bus.Topic[Status]
	// changes is the history, and unrecorded the entries that it does not have yet.
	changes    *changes.Log
	recording  sync.Mutex
	unrecorded []entry
	unsaved    chan struct{}

	confirming sync.Mutex
	waiting    []Waiting
	held       chan struct{}
}

// New returns an engine without components.
func New(d *db.DB, m host.Machine, c clock.Clock, log *slog.Logger, box *secret.Box, history *changes.Log, dir string) *Engine {
	return &Engine{db: d, host: m, clock: c, log: log, box: box, dir: dir, tick: tick, lanes: map[ID]*lane{}, changes: history, unsaved: make(chan struct{}, 1), held: make(chan struct{}, 1)}
}

// Register adds a component. The order of registration is the order of ApplyAll.
func Register[C any](e *Engine, c Component[C]) {
	if e.lanes[c.ID] != nil {
		panic(fmt.Sprintf("component %s is registered twice", c.ID))
	}
	e.lanes[c.ID] = &lane{erased: erase(e.host, c), engine: e, signal: make(chan struct{}, 1), daemon: daemon{wanted: true}, status: Status{Name: c.ID, State: Pending, LastError: "It has not been applied yet."}}
	if c.Openings != nil {
		e.lanes[c.ID].standing = e.keptOpenings(c.ID)
	}
	e.order = append(e.order, c.ID)
}

func (e *Engine) Run(ctx context.Context) {
	var lanes sync.WaitGroup
	for _, l := range e.lanes {
		lanes.Go(func() { l.run(ctx) })
	}
	lanes.Go(func() { e.watch(ctx) })
	lanes.Go(func() { e.listen(ctx) })
	lanes.Go(func() { e.remember(ctx) })
	lanes.Wait()
}

// Converge asks every lane for a pass, as at boot and when the database is back.
func (e *Engine) Converge() {
	for _, l := range e.lanes {
		l.kick(0, false)
	}
}

// Outcome says how far each component got that a change feeds.
type Outcome map[ID]State

// Header formats the outcome for the Gateway-Apply header.
func (o Outcome) Header() string {
	parts := make([]string, 0, len(o))
	for _, id := range slices.Sorted(maps.Keys(o)) {
		parts = append(parts, string(id)+"="+string(o[id]))
	}
	return strings.Join(parts, ", ")
}

// fed returns the lanes of those components that exist here, sorted, so that two changes never deadlock.
func (e *Engine) fed(feeds []ID) []*lane {
	var lanes []*lane
	for _, id := range feeds {
		if l := e.lanes[id]; l != nil && !slices.Contains(lanes, l) {
			lanes = append(lanes, l)
		}
	}
	slices.SortFunc(lanes, func(a, b *lane) int { return cmp.Compare(a.id, b.id) })
	return lanes
}

func idsOf(lanes []*lane) (ids []string) {
	for _, l := range lanes {
		ids = append(ids, string(l.id))
	}
	return ids
}

// Write makes a change: it writes rows, and returns them if it knows which they are.
type Write func(tx *db.Tx) ([]Row, error)

// Commit runs a change in one transaction, in which the components that it feeds consider it, commits, applies, and returns how
// far each of them got.
func (e *Engine) Commit(ctx context.Context, feeds []ID, write Write) (Outcome, error) {
	return e.CommitBoth(ctx, feeds, nil, write)
}

// CommitBoth is Commit for a change that feeds components through shared rows, through rows of this node alone, or through both.
func (e *Engine) CommitBoth(ctx context.Context, shared, local []ID, write Write) (Outcome, error) {
	ctx, _, err := changes.Begun(ctx)
	if err != nil {
		return nil, err
	}
	lanes := e.fed(append(slices.Clone(shared), local...))
	revisions := make([]int64, len(lanes))
	if err := e.store(ctx, lanes, shared, revisions, write); err != nil {
		return nil, err
	}
	if err := failpoint.Hit(failpoint.TxCommitted, idsOf(lanes)...); err != nil {
		e.log.Warn("apply is left to the timer", "err", err)
		return outcome(lanes, revisions), nil
	}
	done := make([]<-chan Status, len(lanes))
	for i, l := range lanes {
		done[i] = l.kick(revisions[i], false)
	}
	waiting, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var late []<-chan Status
	for _, d := range done {
		select {
		case <-d:
		case <-waiting.Done():
			late = append(late, d)
		}
	}
	if intent := changes.From(ctx); intent.Within > 0 {
		e.noteApplied(intent.Set, late)
	}
	if err := failpoint.Hit(failpoint.ApplyDone, idsOf(lanes)...); err != nil {
		return nil, err
	}
	return outcome(lanes, revisions), nil
}

// store runs a change in a transaction and tells the lanes how that ended. Writers of a component queue before they take a
// connection, so that a queue does not keep connections from others.
func (e *Engine) store(ctx context.Context, lanes []*lane, shared []ID, revisions []int64, write Write) (err error) {
	intent := changes.From(ctx)
	targets := make([]*target, len(lanes))
	stored := false
	for i, l := range lanes {
		if err := l.turn.take(ctx); err != nil {
			return err
		}
		defer func() {
			l.decided(targets[i], stored)
			l.turn.end(err)
			if !l.turn.busy() {
				l.wake() // a pass may be waiting for that
			}
		}()
	}
	if !intent.TakesBack {
		if err := e.free(lanes); err != nil {
			return err
		}
	}
	if intent.Within > 0 {
		if err := e.hold(Waiting{ID: intent.Set, Actor: actor.From(ctx).Name, ConfirmBy: e.clock.Now().Add(intent.Within), Storing: true}, lanes); err != nil {
			return err
		}
		defer func() {
			e.stored(intent.Set)
			if err != nil && !db.Unknown(err) {
				err = errors.Join(err, e.Release(intent.Set, false))
			}
		}()
	}
	err = e.db.Write(ctx, func(tx *db.Tx) error {
		e.changes.Begin(tx, intent.Set)
		rows, err := e.change(ctx, tx, lanes, shared, revisions, write)
		if err != nil {
			return err
		}
		given := make(map[string]int64, len(lanes))
		for i, l := range lanes {
			given[string(l.id)] = revisions[i]
			if targets[i], err = l.consider(ctx, tx, revisions[i], rows); err != nil {
				return err
			}
		}
		var by time.Time
		if intent.Within > 0 {
			if by, err = e.extend(intent.Set, intent.Within); err != nil {
				return err
			}
		}
		if err := e.changes.End(ctx, tx, intent, given, by); err != nil {
			return err
		}
		return failpoint.Hit(failpoint.TxChecked, idsOf(lanes)...)
	})
	stored = err == nil
	if stored && intent.TakesBack {
		for _, l := range lanes {
			l.setOverdue(false)
		}
	}
	if db.Unknown(err) {
		for _, l := range lanes {
			l.kick(0, false)
		}
	}
	return err
}

// Each component has two counters: one for shared rows, which is replicated with them, and one for the rows of this node.
const (
	countShared = "apply_revisions"
	countLocal  = "apply_local_revisions"
)

// Revision returns the revision of a component. While it does not change, neither does anything that its files depend on.
func Revision(ctx context.Context, q db.Querier, id ID) (revision int64, err error) {
	err = q.QueryRow(ctx, `SELECT coalesce((SELECT revision FROM apply_revisions WHERE component = $1), 0) + coalesce((SELECT revision FROM apply_local_revisions WHERE component = $1), 0)`, id).Scan(&revision)
	return revision, err
}

func (e *Engine) change(ctx context.Context, tx *db.Tx, lanes []*lane, shared []ID, revisions []int64, write Write) ([]Row, error) {
	for i, l := range lanes {
		// The lock makes the writers of one component queue, in whatever program they run, and so does replication from the
		// primary. It is taken by a statement of its own, so that the next one sees what the others have written.
		tx.Queue(`SELECT pg_advisory_xact_lock(23, hashtext($1))`, l.id)
		mine, other := countLocal, countShared
		if slices.Contains(shared, l.id) {
			mine, other = countShared, countLocal
		}
		err := tx.QueryRow(ctx, `
			INSERT INTO `+mine+` AS mine (component, revision) VALUES ($1, 1)
			ON CONFLICT (component) DO UPDATE SET revision = mine.revision + 1
			RETURNING revision + coalesce((SELECT revision FROM `+other+` WHERE component = $1), 0)`, l.id).Scan(&revisions[i])
		if err != nil {
			return nil, fmt.Errorf("counting the revision of %s: %w", l.id, err)
		}
	}
	rows, err := write(tx)
	if err != nil {
		return nil, err
	}
	return rows, failpoint.Hit(failpoint.TxWritten, idsOf(lanes)...)
}

// outcome returns how far the components got with these revisions, ignoring newer changes.
func outcome(lanes []*lane, revisions []int64) Outcome {
	o := Outcome{}
	for i, l := range lanes {
		s := l.snapshot()
		if s.State == Pending && s.AppliedRevision >= revisions[i] && s.Daemon != Down {
			s.State = Live
		}
		o[l.id] = s.State
	}
	return o
}

func (l *lane) snapshot() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// FileDiff is what a change does to one file.
type FileDiff struct {
	Path string `json:"path" doc:"Where the file is."`
	Diff string `json:"diff" doc:"Unified diff against what is live."`
}

// Preview runs a change, rolls it back, and returns what it would do to the files. It blocks no writer, so the result may be
// slightly out of date. What it says about components whose secrets the change sets does not depend on their values.
func (e *Engine) Preview(ctx context.Context, feeds, secrets []ID, write Write) ([]FileDiff, error) {
	lanes := e.fed(feeds)
	targets := make([]*target, len(lanes))
	diffs := []FileDiff{}
	err := e.db.Suppose(ctx, func(tx *db.Tx) error {
		if _, err := write(tx); err != nil {
			return err
		}
		if err := tx.Flush(ctx); err != nil {
			return err
		}
		for i, l := range lanes {
			var err error
			if targets[i], err = l.loadTarget(ctx, tx, 0); err != nil {
				return err
			}
		}
		return nil
	}, func(ctx context.Context) error {
		for i, l := range lanes {
			secret := slices.Contains(secrets, l.id)
			if err := l.preview(ctx, targets[i], secret); err != nil {
				return err
			}
			_, d, err := e.compare(targets[i].files, secret)
			if err != nil {
				return err
			}
			diffs = append(diffs, slices.DeleteFunc(d, func(f FileDiff) bool { return f.Diff == "" })...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return diffs, nil
}

// tryAtOnce limits concurrent trials: most of a trial is the daemon's checker, which is one process.
const tryAtOnce = 2

// Try loads and renders every component from what is stored, and asks its daemon's checker, without touching anything that runs.
// It returns why components would not take the stored state; those whose daemon is not installed are skipped. If live is given,
// the checker is not asked about files that the daemon already runs with there.
func (e *Engine) Try(ctx context.Context, live *Engine) map[ID]error {
	var mu sync.Mutex
	failed := map[ID]error{}
	var trials errgroup.Group
	trials.SetLimit(tryAtOnce)
	for _, id := range e.order {
		trials.Go(func() error {
			if err := e.lanes[id].rehearse(ctx, live); err != nil && !errors.Is(err, host.ErrNotInstalled) {
				mu.Lock()
				defer mu.Unlock()
				failed[id] = err
			}
			return nil
		})
	}
	_ = trials.Wait() // failures are in the result
	return failed
}

// runsWith reports whether a component is live with these files.
func (e *Engine) runsWith(id ID, files []host.File) bool {
	l := e.lanes[id]
	if l == nil || l.snapshot().State != Live {
		return false
	}
	return sameFiles(l.lastApplied(), files)
}

// RenderedFile is one file as it would be written.
type RenderedFile struct {
	Path    string `json:"path" doc:"Where the file is."`
	Content string `json:"content" doc:"What it would hold."`
}

// Render renders one component from the stored state without writing anything, and compares it with what is live.
func (e *Engine) Render(ctx context.Context, id ID) (files []RenderedFile, diffs []FileDiff, err error) {
	l := e.lanes[id]
	if l == nil {
		return nil, nil, fault.New(fault.NotFound, "There is no component %q.", id)
	}
	var now *target
	err = e.db.Snapshot(ctx, func(tx *db.Tx) error {
		now, err = l.loadTarget(ctx, tx, 0)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return e.compare(now.files, false)
}

// compare compares rendered files with what is live. With secret, files with redacted content are always reported as different in
// that.
func (e *Engine) compare(rendered []host.File, secret bool) ([]RenderedFile, []FileDiff, error) {
	var files []RenderedFile
	var diffs []FileDiff
	for _, f := range rendered {
		path := e.host.Path(f.Place)
		live, err := e.host.Read(f.Place)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("reading %s: %w", path, err)
		}
		files = append(files, RenderedFile{path, visible(f, f.Text())})
		diffs = append(diffs, FileDiff{path, difference(f, "live"+path, "new"+path, live, secret)})
	}
	return files, diffs, nil
}

// visible returns a file's content without what must not be shown. An absent file has nothing to hide.
func visible(f host.File, content []byte) string {
	if f.Redact != nil && len(content) > 0 {
		content = f.Redact(content)
	}
	return string(content)
}

// Components lists the registered components, in order.
func (e *Engine) Components() []ID { return e.order }

// Statuses returns the status of each component, in the order of registration.
func (e *Engine) Statuses() []Status {
	list := make([]Status, len(e.order))
	for i, id := range e.order {
		list[i] = e.lanes[id].snapshot()
	}
	return list
}

// ApplyAll applies every component even if it is live already, and returns which components are not live, and why.
func (e *Engine) ApplyAll(ctx context.Context) (applied []ID, failed map[ID]string) {
	done := map[ID]<-chan Status{}
	for _, id := range e.order {
		done[id] = e.lanes[id].kick(0, true)
	}
	failed = map[ID]string{}
	for _, id := range e.order {
		select {
		case s := <-done[id]:
			if s.State == Live {
				applied = append(applied, id)
			} else {
				failed[id] = s.LastError
			}
		case <-ctx.Done():
			failed[id] = "It did not finish in time and continues in the background."
		}
	}
	return applied, failed
}

// Refresh brings one component to what is stored, even if it was changed outside of the database, and returns its status. With
// force, it is applied even if it seems to be live already.
func (e *Engine) Refresh(ctx context.Context, id ID, force bool) Status {
	l := e.lanes[id]
	if l == nil {
		return Status{Name: id, State: NotInstalled, LastError: "This component does not exist."}
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	l.setFailed(nil) // retry what was given up
	select {
	case s := <-l.kick(0, force):
		return s
	case <-ctx.Done():
		s := l.snapshot()
		s.State, s.LastError = Pending, "It did not finish in time and continues in the background."
		return s
	}
}

// Pass brings one component to what is stored in the caller's goroutine, for programs that run no lanes.
func (e *Engine) Pass(ctx context.Context, id ID) Status {
	l := e.lanes[id]
	l.kick(0, true)
	l.pass(ctx)
	l.writeLate()
	return l.snapshot()
}

func (e *Engine) changed(was, now Status) {
	e.live.Publish(now)
	if was.LastError != now.LastError {
		level := slog.LevelInfo
		if now.State == Degraded {
			level = slog.LevelError
		}
		e.log.Log(context.Background(), level, "component is "+string(now.State), "component", now.Name, "rev", now.AppliedRevision, "err", cmp.Or(now.Detail, now.LastError))
	}
}

// Follow sends the status of every component, and then each change, until ctx ends.
func (e *Engine) Follow(ctx context.Context, send func(Status) error) error {
	reader := e.live.Subscribe()
	defer reader.Close()
	for _, s := range e.Statuses() {
		if err := send(s); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-reader.C:
			if err := send(s); err != nil {
				return err
			}
		}
	}
}
