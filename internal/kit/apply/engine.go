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
	dir   string // where the last known good configurations are kept
	tick  time.Duration
	lanes map[ID]*lane
	order []ID
	live  bus.Topic[Status]
	// changes is the history, and told what it has not heard yet.
	changes *changes.Log
	telling sync.Mutex
	told    []told
	tells   chan struct{}

	confirming sync.Mutex
	waiting    []Waiting
	held       chan struct{}
}

// New makes an engine without components.
func New(d *db.DB, m host.Machine, c clock.Clock, log *slog.Logger, box *secret.Box, history *changes.Log, dir string) *Engine {
	return &Engine{db: d, host: m, clock: c, log: log, box: box, dir: dir, tick: tick, lanes: map[ID]*lane{}, changes: history, tells: make(chan struct{}, 1), held: make(chan struct{}, 1)}
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

// Run serves the lanes until the context ends.
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

// Header is the outcome in the form of the Gateway-Apply header.
func (o Outcome) Header() string {
	parts := make([]string, 0, len(o))
	for _, id := range slices.Sorted(maps.Keys(o)) {
		parts = append(parts, string(id)+"="+string(o[id]))
	}
	return strings.Join(parts, ", ")
}

// fed are the lanes of the components that exist here, sorted, so that two changes never wait for each other.
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

// idsOf are the components of lanes.
func idsOf(lanes []*lane) (ids []string) {
	for _, l := range lanes {
		ids = append(ids, string(l.id))
	}
	return ids
}

// Write is a change: it writes rows, and says which, where it knows.
type Write func(tx *db.Tx) ([]Row, error)

// Commit runs a change in one transaction, has the components it feeds consider it, commits, applies, and answers how
// far each of them got.
func (e *Engine) Commit(ctx context.Context, feeds []ID, write Write) (Outcome, error) {
	return e.CommitBoth(ctx, feeds, nil, write)
}

// CommitBoth is Commit for a change that feeds components by rows which all nodes share, by rows of this node alone, or by both.
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

// store runs a change in a transaction and tells the lanes how that ended, however it did. The writers of a component queue
// before they take a connection, so that a queue of them keeps none from others.
func (e *Engine) store(ctx context.Context, lanes []*lane, shared []ID, revisions []int64, write Write) (err error) {
	intent := changes.From(ctx)
	imagined := make([]*imagined, len(lanes))
	stored := false
	for i, l := range lanes {
		if err := l.turn.take(ctx); err != nil {
			return err
		}
		defer func() {
			l.decided(imagined[i], stored)
			l.turn.end(err)
			if !l.turn.busy() {
				l.wake() // a pass may wait for that
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
			if imagined[i], err = l.consider(ctx, tx, revisions[i], rows); err != nil {
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

// The two counters of a component: of the rows that all nodes share, which arrive with them at the other nodes, and of those of one node.
const (
	countShared = "apply_revisions"
	countLocal  = "apply_local_revisions"
)

// Revision reads the revision of a component: what its files depend on is the same as long as that is.
func Revision(ctx context.Context, q db.Querier, id ID) (revision int64, err error) {
	err = q.QueryRow(ctx, `SELECT coalesce((SELECT revision FROM apply_revisions WHERE component = $1), 0) + coalesce((SELECT revision FROM apply_local_revisions WHERE component = $1), 0)`, id).Scan(&revision)
	return revision, err
}

func (e *Engine) change(ctx context.Context, tx *db.Tx, lanes []*lane, shared []ID, revisions []int64, write Write) ([]Row, error) {
	for i, l := range lanes {
		// The lock makes the writers of one component queue, in whatever program they are, and what arrives from the primary with them. It is
		// taken by a statement of its own: the next one sees what the others have written.
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

// outcome says how far the components got with these revisions; that another change waits already is not theirs.
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

// Preview runs a change, rolls it back, and answers what it would do to the files. It makes no writer wait: what it shows may be
// a moment old. What is said about the components whose secrets the change sets does not depend on what these are.
func (e *Engine) Preview(ctx context.Context, feeds, secrets []ID, write Write) ([]FileDiff, error) {
	lanes := e.fed(feeds)
	imagined := make([]*imagined, len(lanes))
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
			if imagined[i], err = l.imagine(ctx, tx, 0); err != nil {
				return err
			}
		}
		return nil
	}, func(ctx context.Context) error {
		for i, l := range lanes {
			secret := slices.Contains(secrets, l.id)
			if err := l.preview(ctx, imagined[i].files, secret); err != nil {
				return err
			}
			_, d, err := e.compare(imagined[i].files, secret)
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

// tryAtOnce is how many components are tried at a time: most of a trial is done by one program, the daemon's checker.
const tryAtOnce = 2

// Try loads and renders every component from what is stored, and asks its daemon's checker. It touches nothing that runs. What it answers
// is why components would not take the stored state; one whose daemon is not on this machine is not asked. With a live engine, a checker
// is not asked about the very files that its daemon runs with there.
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
	_ = trials.Wait() // what fails is in the answer
	return failed
}

// runsWith tells whether the daemon of a component was seen to run with these files, and still does.
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

// Render renders one component from the stored state, without writing anything, and compares it with what is live.
func (e *Engine) Render(ctx context.Context, id ID) (files []RenderedFile, diffs []FileDiff, err error) {
	l := e.lanes[id]
	if l == nil {
		return nil, nil, fault.New(fault.NotFound, "There is no component %q.", id)
	}
	var now *imagined
	err = e.db.Snapshot(ctx, func(tx *db.Tx) error {
		now, err = l.imagine(ctx, tx, 0)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return e.compare(now.files, false)
}

// compare holds rendered files against what is live. With secret, the files that hide something are said to differ in that,
// whether they do or not.
func (e *Engine) compare(rendered []host.File, secret bool) ([]RenderedFile, []FileDiff, error) {
	var files []RenderedFile
	var diffs []FileDiff
	for _, f := range rendered {
		path := e.host.Path(f.Place)
		live, err := e.host.Read(f.Place)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("reading %s: %w", path, err)
		}
		files = append(files, RenderedFile{path, shown(f, f.Content)})
		diffs = append(diffs, FileDiff{path, difference(f, "live"+path, "new"+path, live, secret)})
	}
	return files, diffs, nil
}

// shown is what people may see of a file's content. One that is not there has nothing to hide.
func shown(f host.File, content []byte) string {
	if f.Redact != nil && len(content) > 0 {
		content = f.Redact(content)
	}
	return string(content)
}

// Components lists what is registered, in order.
func (e *Engine) Components() []ID { return e.order }

// Statuses tells how far each component is, in the order of registration.
func (e *Engine) Statuses() []Status {
	list := make([]Status, len(e.order))
	for i, id := range e.order {
		list[i] = e.lanes[id].snapshot()
	}
	return list
}

// ApplyAll brings every component to what is stored, even those that seem to be there already, and answers what is
// not live and why.
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

// Refresh brings one component to what is stored, also outside of the database, and answers how far it got. With anew it
// is applied even if it seems to be there already.
func (e *Engine) Refresh(ctx context.Context, id ID, anew bool) Status {
	l := e.lanes[id]
	if l == nil {
		return Status{Name: id, State: NotInstalled, LastError: "This component does not exist."}
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	l.setFailed(nil) // what was given up is tried again
	select {
	case s := <-l.kick(0, anew):
		return s
	case <-ctx.Done():
		s := l.snapshot()
		s.State, s.LastError = Pending, "It did not finish in time and continues in the background."
		return s
	}
}

// Pass brings one component to what is stored in the caller's own time, for programs that run no lanes.
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

// Follow sends the status of every component, and then each change, until the context ends.
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
