package resource

import (
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/wire"
)

// Bundle collects the operations of a change set that the program itself writes. Several rooms can add to one.
type Bundle struct {
	Operations []Operation
	err        error
}

// Create adds a new row with these fields and the kind's defaults for the others. It chooses the id, so that other rows of the
// bundle can refer to it.
func (b *Bundle) Create(kind string, fields map[string]any) uuid.UUID {
	id, err := uuid.NewV7()
	b.add(Operation{Kind: kind, Verb: "create", ID: &id}, fields, err)
	return id
}

// Update changes these fields of a row.
func (b *Bundle) Update(kind string, id uuid.UUID, fields map[string]any) {
	b.add(Operation{Kind: kind, Verb: "update", ID: &id}, fields, nil)
}

func (b *Bundle) Delete(kind string, id uuid.UUID) {
	b.Operations = append(b.Operations, Operation{Kind: kind, Verb: "delete", ID: &id})
}

func (b *Bundle) add(op Operation, fields map[string]any, err error) {
	if err == nil {
		op.Body, err = wire.Encode(fields)
	}
	if b.err == nil {
		b.err = err
	}
	b.Operations = append(b.Operations, op)
}

// Err returns the first error of an operation that could not be encoded.
func (b *Bundle) Err() error { return b.err }

// Submit stores a caller's operations as one change set, or previews them. Everyone may preview; only administrators may store.
func (r *Registry) Submit(c *httpd.Call, set Set, preview bool, within int) (Result, error) {
	err := r.MaySuppose(c.Actor, set)
	if c.Actor.Role != actor.Admin && !preview {
		err = errAdmin
	}
	if err != nil {
		return Result{}, err
	}
	if preview {
		return r.Preview(c, set, true)
	}
	if err := confirmWithin(c, within); err != nil {
		return Result{}, err
	}
	list, outcome, err := r.Commit(c, set)
	if err != nil {
		return Result{}, err
	}
	Applied(c, outcome, list...)
	return Result{Changes: list}, nil
}
