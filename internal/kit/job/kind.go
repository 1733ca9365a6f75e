package job

import (
	"context"
	"encoding/json"
	"io/fs"
)

// Machine is what a job needs of the machine.
type Machine interface {
	// BeginJob writes a wish, a JSON object without its id and time, and starts the program that grants it without waiting for
	// it. The passphrase is kept in a file of its own. While another job has not ended, BeginJob returns the error of that job;
	// on a machine that does not have this job, host.ErrNotInstalled.
	BeginJob(ctx context.Context, n Name, wish []byte, passphrase string) error
	// ReadJob reads the wish for a job, and the record of the job that began last; each is nil if there is none.
	ReadJob(n Name) (wish, record []byte, err error)
	// EndJob records that the job with the id of a wish has ended. Only jobs that run as the gateway's user end this way.
	EndJob(ctx context.Context, n Name, id string) error
}

// Asked is a wish: it embeds Wish, and Check validates it.
type Asked interface{ Check() error }

// Kind is a job as declared by the room that owns it: W is the wish, and R the record as others read it, which embeds Record.
type Kind[W Asked, R any] struct {
	Name Name
	// Begun fills in the record of a wish that has not been granted yet.
	Begun func(wish W) R
}

// Begin starts a job without waiting for it.
func (k Kind[W, R]) Begin(ctx context.Context, m Machine, wish W, passphrase string) error {
	if err := wish.Check(); err != nil {
		return err
	}
	content, err := json.Marshal(wish)
	if err != nil {
		return err
	}
	return m.BeginJob(ctx, k.Name, content, passphrase)
}

// Wish returns the wish for the job that has not ended; fs.ErrNotExist if there is none.
func (k Kind[W, R]) Wish(m Machine) (wish W, err error) {
	content, _, err := m.ReadJob(k.Name)
	if err == nil && content == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return wish, err
	}
	return wish, json.Unmarshal(content, &wish)
}

// Last returns the record of the running job, which may not have begun yet, or of the last one; fs.ErrNotExist if there was none.
func (k Kind[W, R]) Last(m Machine) (last R, err error) {
	asked, record, err := m.ReadJob(k.Name)
	if err != nil {
		return last, err
	}
	if err = fs.ErrNotExist; record != nil {
		err = json.Unmarshal(record, &last)
	}
	var wish W
	if asked != nil && json.Unmarshal(asked, &wish) == nil && wishOf(&wish).ID != recordOf(&last).ID {
		return begun(wish, k.Begun(wish)), nil
	}
	return last, err
}

// Wish returns the common fields of the wish that has not been granted; fs.ErrNotExist if there is none.
func (n Name) Wish(m Machine) (Wish, error) {
	wish, err := n.kind().Wish(m)
	return wish.Wish, err
}

// Last returns the common fields of the record of the running or the last job; fs.ErrNotExist if there was none.
func (n Name) Last(m Machine) (Record, error) { return n.kind().Last(m) }

// Free returns an error while the job runs.
func (n Name) Free(m Machine) error {
	if last, err := n.Last(m); err == nil && last.State == Running {
		return Name("").Conflict(n.Err())
	}
	return nil
}

// kind returns what is known about a job without its room.
func (n Name) kind() Kind[plainWish, Record] {
	return Kind[plainWish, Record]{Name: n, Begun: func(plainWish) Record { return Record{} }}
}

type plainWish struct{ Wish }

func (plainWish) Check() error { return nil }

func begun[W, R any](wish W, record R) R {
	w, r := wishOf(&wish), recordOf(&record)
	r.ID, r.State, r.BeganAt = w.ID, Running, w.At
	return record
}

func wishOf[W any](w *W) *Wish { return any(w).(interface{ wish() *Wish }).wish() }

func recordOf[R any](r *R) *Record { return any(r).(interface{ record() *Record }).record() }
