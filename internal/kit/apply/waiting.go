package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/rescue"
	"edge.internal/gateway/internal/kit/secret"
)

// Waiting is a change set that is reverted unless it is confirmed in time. It is written to disk before any of it is applied, so
// that the next start knows of it whatever happens. While it waits, the last known good configuration of its components remains
// the one from before it.
type Waiting struct {
	ID         uuid.UUID `json:"id"`
	Actor      string    `json:"actor"`
	ConfirmBy  time.Time `json:"confirm_by"`
	Components []ID      `json:"components"`
	// AppliedAt is when all components had applied it; zero until then, and for a set that an earlier process left.
	AppliedAt time.Time `json:"-"`
	// Left says that an earlier process left the set waiting.
	Left bool `json:"-"`
	// Storing says that its transaction has not ended: there is nothing to confirm or take back yet.
	Storing bool `json:"-"`
}

const waitingFolder = "waiting"

func (e *Engine) waitingPath(id uuid.UUID) string {
	return filepath.Join(e.dir, waitingFolder, id.String()+".json")
}

// free refuses a change of components that have another change waiting for confirmation.
func (e *Engine) free(lanes []*lane) error {
	for _, w := range e.Waiting() {
		for _, l := range lanes {
			if slices.Contains(w.Components, l.id) {
				return &fault.Error{Kind: fault.Conflict, Message: fmt.Sprintf("A change by %s is waiting to be confirmed until %s. Confirm or discard it first, or wait.", w.Actor, w.ConfirmBy.UTC().Format("15:04:05 UTC")),
					Details: map[string]any{"change_set": w.ID, "actor": w.Actor, "confirm_by": w.ConfirmBy, "component": l.id}}
			}
		}
	}
	return nil
}

// hold records, before it is stored, that a set must be confirmed. lanes are those of its components.
func (e *Engine) hold(w Waiting, lanes []*lane) error {
	for _, l := range lanes {
		w.Components = append(w.Components, l.id)
	}
	for _, l := range lanes {
		if err := l.keepNow(); err != nil {
			return err
		}
	}
	if err := e.writeDown(w); err != nil {
		return err
	}
	for _, l := range lanes {
		l.setHeld(true)
	}
	e.confirming.Lock()
	defer e.confirming.Unlock()
	e.waiting = append(e.waiting, w)
	return nil
}

// extend restarts the time to confirm a set: checking it took a while during which nobody could confirm it.
func (e *Engine) extend(id uuid.UUID, within time.Duration) (by time.Time, err error) {
	e.confirming.Lock()
	defer e.confirming.Unlock()
	by = e.clock.Now().Add(within)
	for i := range e.waiting {
		if w := &e.waiting[i]; w.ID == id {
			w.ConfirmBy = by
			err = e.writeDown(*w)
		}
	}
	return by, err
}

// stored records that the transaction of a set has ended.
func (e *Engine) stored(id uuid.UUID) {
	e.confirming.Lock()
	defer e.confirming.Unlock()
	for i := range e.waiting {
		if e.waiting[i].ID == id {
			e.waiting[i].Storing = false
		}
	}
	select {
	case e.held <- struct{}{}:
	default:
	}
}

func (e *Engine) writeDown(w Waiting) error {
	b, err := json.Marshal(w)
	if err == nil {
		err = secret.Save(e.waitingPath(w.ID), b)
	}
	if err != nil {
		return fmt.Errorf("writing down what is to be confirmed: %w", err)
	}
	return nil
}

// Held signals that another set waits.
func (e *Engine) Held() <-chan struct{} { return e.held }

// noteApplied records that all components have applied a waiting set: now, or once the late ones have.
func (e *Engine) noteApplied(id uuid.UUID, late []<-chan Status) {
	if len(late) > 0 {
		go func() {
			end := e.clock.At(e.ConfirmBy(id))
			for _, d := range late {
				select {
				case <-d:
				case <-end: // too late to confirm it: it will be reverted
					return
				}
			}
			e.noteApplied(id, nil)
		}()
		return
	}
	e.confirming.Lock()
	defer e.confirming.Unlock()
	for i := range e.waiting {
		if e.waiting[i].ID == id {
			e.waiting[i].AppliedAt = e.clock.Now()
		}
	}
}

// ConfirmBy returns when a set is reverted unless it is confirmed; zero if it does not wait on this node.
func (e *Engine) ConfirmBy(id uuid.UUID) time.Time {
	for _, w := range e.Waiting() {
		if w.ID == id {
			return w.ConfirmBy
		}
	}
	return time.Time{}
}

// Waiting returns the change sets that wait for a confirmation on this node.
func (e *Engine) Waiting() []Waiting {
	e.confirming.Lock()
	defer e.confirming.Unlock()
	return slices.Clone(e.waiting)
}

// Recover finds the sets that an earlier process left waiting. Their components are not touched until the sets are taken back. It
// must be called before Run.
func (e *Engine) Recover() error {
	entries, err := os.ReadDir(filepath.Join(e.dir, waitingFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, x := range entries {
		if !strings.HasSuffix(x.Name(), ".json") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(e.dir, waitingFolder, x.Name()))
		if err != nil {
			return err
		}
		w := Waiting{Left: true}
		if err := json.Unmarshal(b, &w); err != nil {
			e.log.Error("the record of an unconfirmed change is unreadable", "file", x.Name(), "err", err)
			continue
		}
		w.Left = true
		for _, l := range e.fed(w.Components) {
			l.setHeld(true)
			l.setOverdue(true)
		}
		e.waiting = append(e.waiting, w)
	}
	return nil
}

// Release ends the wait for a set. If it is confirmed, what runs becomes the last known good configuration.
func (e *Engine) Release(id uuid.UUID, confirmed bool) error {
	e.confirming.Lock()
	defer e.confirming.Unlock()
	i := slices.IndexFunc(e.waiting, func(w Waiting) bool { return w.ID == id })
	if i < 0 {
		return nil
	}
	var failed []error
	for _, l := range e.fed(e.waiting[i].Components) {
		l.setOverdue(false)
		failed = append(failed, l.release(confirmed))
		l.kick(0, false)
	}
	e.waiting = slices.Delete(e.waiting, i, i+1)
	return errors.Join(append(failed, secret.Remove(e.waitingPath(id)))...)
}

// PutBack restores the configuration from before a waiting set, without the database. Its components keep that until the set is
// taken back.
func (e *Engine) PutBack(ctx context.Context, id uuid.UUID) error {
	var failed []error
	for _, w := range e.Waiting() {
		if w.ID != id {
			continue
		}
		for _, l := range e.fed(w.Components) {
			if err := l.putBack(ctx); err != nil && !errors.Is(err, host.ErrNotInstalled) {
				failed = append(failed, fmt.Errorf("%s: %w", l.id, err))
			}
		}
	}
	return errors.Join(failed...)
}

func (l *lane) setHeld(held bool) {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	l.held = held
}

func (l *lane) setOverdue(overdue bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.overdue = overdue
}

func (l *lane) isOverdue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.overdue
}

// keepNow makes sure that the kept files are those that the daemon runs with. After a change at run time, they lag behind.
func (l *lane) keepNow() error {
	l.mu.Lock()
	behind := !l.behind.IsZero() || l.settling
	l.mu.Unlock()
	if !behind {
		l.keeping.Lock()
		defer l.keeping.Unlock()
		return l.write()
	}
	ctx, cancel := context.WithTimeout(context.Background(), applyWithin)
	defer cancel()
	followed, err := l.follow(ctx)
	if err != nil || followed == nil {
		return err
	}
	l.mu.Lock()
	l.behind = time.Time{}
	l.mu.Unlock()
	return errors.Join(l.keep(followed), l.retain(followed.config))
}

// lastApplied returns the configuration that was last applied to the daemon: the last known good one, unless a change waits.
func (l *lane) lastApplied() []host.File {
	l.keeping.Lock()
	held := l.heldNow
	l.keeping.Unlock()
	if held != nil {
		return held.files
	}
	good, _ := l.lastGood()
	return good
}

func (l *lane) release(confirmed bool) error {
	l.keeping.Lock()
	now := l.heldNow
	l.held, l.heldNow = false, nil
	l.keeping.Unlock()
	if !confirmed || now == nil {
		return nil
	}
	defer l.wake() // there may be something to write
	return errors.Join(l.keep(now), l.retain(now.config))
}

// putBack applies the last known good configuration. The lane then does nothing until it is released.
func (l *lane) putBack(ctx context.Context) (err error) {
	defer rescue.Into(&err, l.engine.log, string(l.id))
	ctx, cancel := context.WithTimeout(ctx, applyWithin)
	defer cancel()
	l.setOverdue(true)
	l.work.Lock()
	defer l.work.Unlock()
	good, config := l.lastGood()
	if config == nil {
		if config, err = l.keptConfig(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if config == nil {
		l.mu.Lock()
		config = l.running
		l.mu.Unlock()
	}
	if len(good) == 0 || config == nil && l.unit == "" {
		return errors.New("no earlier configuration is known")
	}
	if err := l.install(l.lastApplied(), good); err != nil {
		return err
	}
	l.keeping.Lock()
	l.heldNow = nil
	l.keeping.Unlock()
	l.forget()
	l.mu.Lock()
	l.running = nil
	l.mu.Unlock()
	if config == nil {
		return l.engine.host.Restart(ctx, l.unit) // only the files are known
	}
	return l.apply(ctx, config, good)
}
