package job

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"
)

// Task is a job from the point of view of its program. If it fails after it has begun to change something, it is taken back. R is
// the whole record, with everything that the program needs to continue.
type Task[W Asked, R any] struct {
	Name   Name
	Folder Folder
	Log    *slog.Logger
	// Goes is a file of the folder that is removed when the job has ended. Hold is one that may exist only while there is a wish.
	// Either may be empty.
	Goes, Hold string
	// Begun fills in the record for a new wish. last is the record of the last job.
	Begun func(wish W, last R) R
	// Await is called before the first step, and before a job continues; it may be nil.
	Await func(ctx context.Context)
	// Changing are the steps that change something. Returning are those that take the changes back.
	Changing, Returning []string
	Forward, Back       func(ctx context.Context, rec *R) error
	// Refused is called when the job failed before it changed anything; it may be nil.
	Refused func(ctx context.Context)
	// Clean removes what no later job needs.
	Clean func(ctx context.Context, rec *R) error
}

// Run grants the wish, or continues where it was interrupted. Without a wish it does nothing.
func (t *Task[W, R]) Run(ctx context.Context) error {
	release, err := t.Folder.Lock()
	if err != nil {
		return fmt.Errorf("%w: %w", t.Name.Err(), err)
	}
	defer release()
	if err := t.Folder.sweep(t.Name.RecordFile(), t.Goes); err != nil {
		return err
	}
	var wish W
	err = t.Folder.Load(wishFile, &wish)
	if errors.Is(err, fs.ErrNotExist) {
		return t.Folder.Remove(t.Hold)
	}
	if err == nil {
		err = wish.Check()
	}
	if err != nil {
		// Wishes are written atomically and after Check: this one is damaged, and will stay so.
		return errors.Join(err, t.Folder.Remove(t.Hold), t.Folder.Remove(wishFile))
	}
	rec := new(R)
	if err := t.Folder.Load(t.Name.RecordFile(), rec); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Log.Warn("the record of the last "+t.noun()+" is lost", "err", err)
		rec = new(R)
	}
	if recordOf(rec).ID != wishOf(&wish).ID {
		*rec = begun(wish, t.Begun(wish, *rec))
	}
	if recordOf(rec).State == Running {
		t.ledger(rec).interrupted()
		if t.Await != nil {
			t.Await(ctx)
		}
		if err := t.advance(ctx, rec); err != nil {
			return err // the wish stays, so that the job can continue
		}
	}
	if err := t.Clean(ctx, rec); err != nil {
		t.Log.Warn("cleaning up after the "+t.noun(), "err", err)
	}
	return errors.Join(t.Folder.Release(), t.Folder.Remove(t.Goes), t.Folder.Remove(t.Hold), t.Folder.Remove(wishFile))
}

// advance does what is left of the job. An error means that it could not be completed now.
func (t *Task[W, R]) advance(ctx context.Context, rec *R) error {
	r := recordOf(rec)
	if !r.At(t.Returning...) {
		err := t.forward(ctx, rec)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			return t.end(rec, Done, "")
		case !r.At(t.Changing...):
			if t.Refused != nil {
				t.Refused(ctx)
			}
			return t.end(rec, Refused, err.Error())
		}
		r.Reason = err.Error()
		t.Log.Error("the "+t.noun()+" is taken back", "err", err)
	}
	// The reserved space is for taking the job back.
	if err := t.Folder.Release(); err != nil {
		t.Log.Warn("releasing the reserved space failed", "err", err)
	}
	if err := t.Back(ctx, rec); ctx.Err() != nil {
		return context.Cause(ctx)
	} else if err != nil {
		return t.end(rec, Stuck, fmt.Sprintf("%s Rolling back the %s failed as well: %s", sentence(r.Reason), t.noun(), err))
	}
	return t.end(rec, TakenBack, r.Reason)
}

// forward runs the steps to the end. As long as nothing was changed, it starts over, and another job's earlier wish takes
// precedence.
func (t *Task[W, R]) forward(ctx context.Context, rec *R) error {
	if !recordOf(rec).At(t.Changing...) {
		if err := t.Folder.first(); err != nil {
			return err
		}
	}
	return t.Forward(ctx, rec)
}

func (t *Task[W, R]) end(rec *R, state State, reason string) error {
	r := recordOf(rec)
	r.State, r.Reason, r.EndedAt = state, sentence(reason), time.Now().UTC()
	t.Log.Info("the "+t.noun()+" has ended", "state", string(state), "reason", reason)
	return t.Save(rec)
}

func (t *Task[W, R]) Step(ctx context.Context, rec *R, name string, do func(context.Context) error) error {
	return t.ledger(rec).do(ctx, name, do)
}

func (t *Task[W, R]) Save(rec *R) error { return t.ledger(rec).save() }

func (t *Task[W, R]) ledger(rec *R) *ledger {
	return &ledger{t.Folder, t.Name.RecordFile(), rec, recordOf(rec), t.Log}
}

func (t *Task[W, R]) noun() string { return t.Name.known().noun }
