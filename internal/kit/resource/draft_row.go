package resource

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/wire"
)

// object is a JSON object whose values are not decoded.
type object = map[string]jsontext.Value

var (
	errDraftDeletes       = fault.New(fault.Conflict, "Your draft deletes this. Remove that from the draft first.")
	errDraftTaken   error = fault.New(fault.Conflict, "A row with this id already exists.")
	errDraftHas           = fault.New(fault.Conflict, "Your draft creates this already.")
)

// draft combines an operation with what the draft already does to the row. It returns nil if the two cancel out.
func (k *kind) draft(ctx context.Context, r *Registry, q db.Querier, op Operation, earlier *drafted) (*drafted, error) {
	d := &drafted{Kind: k.Name, Verb: op.Verb}
	if earlier != nil {
		*d = *earlier
		switch {
		case earlier.Verb == "delete" && op.Verb != "delete":
			return nil, errDraftDeletes
		case op.Verb == "create":
			return nil, errDraftHas
		case op.Verb == "delete" && earlier.Verb == "create":
			return nil, nil
		}
	} else if err := k.begin(ctx, r, q, op, d); err != nil {
		return nil, err
	}
	if op.Verb == "delete" {
		d.Verb, d.Body = "delete", nil
		return d, nil
	}
	base, err := k.base(ctx, q, *d)
	if err != nil {
		return nil, err
	}
	row := k.copied(base)
	if earlier != nil {
		if _, err := wire.Decode(earlier.Body, row); err != nil {
			return nil, err
		}
	}
	if _, err := wire.Decode(op.Body, row); err != nil {
		return nil, err
	}
	if d.Body, err = k.mergeBodies(d.Body, op.Body); err != nil || d.Verb == "create" {
		return d, err
	}
	differs := false
	d.Body, err = k.reduce(d.Body, func(f wire.Field) bool {
		kept := !f.Stored || !k.keeps(f.Name) || !equal(f, base, row)
		differs = differs || kept
		return kept || f.Given
	})
	if !differs {
		return nil, err
	}
	return d, err
}

// begin prepares the first operation of a draft on a row: its id, and the current state of the row.
func (k *kind) begin(ctx context.Context, r *Registry, q db.Querier, op Operation, d *drafted) (err error) {
	if k.Local {
		d.Node = r.Changes.Node()
	}
	if d.At, err = r.Changes.Moment(ctx, q); err != nil {
		return err
	}
	if op.Verb == "create" {
		if op.ID != nil {
			d.ID = *op.ID
			if _, err := k.get(ctx, q, " WHERE "+k.key+" = $1", d.ID); !fault.Is(err, fault.NotFound) {
				return cmp.Or(err, errDraftTaken)
			}
			return nil
		}
		d.ID, err = uuid.NewV7()
		return err
	}
	where, args := "", []any{append([]string{}, slices.Concat(k.LocalColumns, k.Unkept)...)} // an empty array: nil would be NULL
	if op.ID != nil {
		where, args = " WHERE t."+k.key+" = $2", append(args, *op.ID)
	}
	var base []byte
	err = q.QueryRow(ctx, "SELECT t."+k.key+", to_jsonb(t) - $1::text[] FROM "+pgx.Identifier{k.Table}.Sanitize()+" t"+where, args...).Scan(&d.ID, &base)
	d.Base = base
	switch {
	case errors.Is(err, pgx.ErrNoRows) && k.extends != "":
		d.ID = *op.ID // the extended row may exist only in the draft
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return errNotFound(k.Title)
	}
	return err
}

// base returns the row that an operation of a draft starts from.
func (k *kind) base(ctx context.Context, q db.Querier, d drafted) (record, error) {
	list, err := k.bases(ctx, q, []drafted{d})
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

func (k *kind) bases(ctx context.Context, q db.Querier, list []drafted) ([]record, error) {
	images := make([][]byte, len(list))
	for i, d := range list {
		images[i] = d.Base
	}
	rows, err := k.images(ctx, q, images)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		if row == nil {
			rows[i] = k.fresh()
			rows[i].meta().ID = list[i].ID
		}
	}
	return rows, nil
}

// wanted returns the row that an operation of a draft turns its base into; nil if it deletes the row.
func (k *kind) wanted(d drafted, base record) (record, error) {
	if d.Verb == "delete" {
		return nil, nil
	}
	row := k.copied(base)
	_, err := wire.Decode(d.Body, row)
	return row, err
}

// mergeBodies overlays an earlier body with a later one.
func (k *kind) mergeBodies(earlier, later wire.Raw) (wire.Raw, error) {
	if earlier == nil {
		earlier = wire.Raw("{}")
	}
	var a, b object
	if err := errors.Join(json.Unmarshal(earlier, &a), json.Unmarshal(later, &b)); err != nil {
		return nil, err
	}
	for _, f := range wire.Fields(k.typ) {
		v, given := b[f.Name]
		switch {
		case f.ReadOnly || !given:
		case f.Secret || isPacked(f):
			a[f.Name] = unmask(a[f.Name], v)
		default:
			a[f.Name] = v
		}
	}
	return encodeObject(a)
}

// unmask replaces masked secrets in later with the values in earlier.
func unmask(earlier, later jsontext.Value) jsontext.Value {
	var text string
	if earlier != nil && later.Kind() == '"' && json.Unmarshal(later, &text) == nil && text == secret.Mask {
		return earlier
	}
	var a, b object
	if earlier.Kind() != '{' || later.Kind() != '{' || json.Unmarshal(earlier, &a) != nil || json.Unmarshal(later, &b) != nil {
		return later
	}
	for name, v := range b {
		if was, there := a[name]; there {
			b[name] = unmask(was, v)
		}
	}
	merged, err := encodeObject(b)
	if err != nil {
		return later
	}
	return jsontext.Value(merged)
}

func encodeObject(o object) (wire.Raw, error) {
	b, err := json.Marshal(o, json.Deterministic(true))
	return b, err
}

// reduce drops the fields of a body for which stays returns false.
func (k *kind) reduce(body wire.Raw, stays func(f wire.Field) bool) (wire.Raw, error) {
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, err
	}
	for _, f := range wire.Fields(k.typ) {
		if _, given := o[f.Name]; given && !stays(f) {
			delete(o, f.Name)
		}
	}
	return encodeObject(o)
}

// showDraft describes what operations of a draft do.
func (k *kind) showDraft(ctx context.Context, q db.Querier, list []drafted) ([]DraftOperation, error) {
	bases, err := k.bases(ctx, q, list)
	if err != nil {
		return nil, err
	}
	out, pairs := make([]DraftOperation, len(list)), make([]pair, len(list))
	var views []record
	for i, d := range list {
		was := bases[i]
		now, err := k.wanted(d, was)
		if err != nil {
			return nil, err
		}
		out[i] = DraftOperation{Kind: d.Kind, Verb: d.Verb, ID: d.ID, Name: k.nameOf(now), AddedAt: d.At}
		if now == nil {
			out[i].Name = k.nameOf(was)
		}
		if d.Base == nil {
			was = nil
		}
		if out[i].Fields, err = k.differences(was, now); err != nil {
			return nil, err
		}
		if out[i].Usual = []string{}; d.Verb == "create" {
			out[i].Usual = k.usual(now)
		}
		if d.Verb == "create" && k.priority(now).IsValid() && !wire.Given(d.Body)["priority"] {
			delete(out[i].Fields, "priority") // it goes last, wherever that is when the draft is applied
		}
		out[i].Secrets = k.secretsSet(was, now)
		for place, row := range []record{was, now} {
			if row == nil {
				continue
			}
			view := k.view(row)
			views = append(views, view)
			if place == 0 {
				pairs[i].was = view
			} else {
				pairs[i].now = view
			}
		}
	}
	if err := k.join(ctx, q, views...); err != nil {
		return nil, err
	}
	for i, p := range pairs {
		if p.was != nil {
			if out[i].Before, err = wire.Encode(p.was); err != nil {
				return nil, err
			}
		}
		if p.now != nil {
			if out[i].After, err = wire.Encode(p.now); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// secretsSet lists the secret fields that a draft changes. A secret without history counts as changed if it is given.
func (k *kind) secretsSet(was, now record) []string {
	names := k.secretsOf(was, now)
	for _, f := range k.codec.fields {
		if f.Secret && !k.keeps(f.Name) && now != nil && field(now, f).Interface().(wire.WriteOnly).Set() {
			names = append(names, f.Name)
		}
	}
	return names
}

// rebased is an operation of a draft on the current state of its row.
type rebased struct {
	op   *Operation // nil if there is nothing to do
	name Unrestored
	now  record // the current row; nil if there is none
}

// rebase plans operations of a draft on the current rows. A field that someone else has changed in the meantime is a conflict if
// the draft changes it too; otherwise it keeps its new value.
func (k *kind) rebase(ctx context.Context, tx *db.Tx, v *inverse, list []drafted) ([]rebased, error) {
	bases, err := k.bases(ctx, tx, list)
	if err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(list))
	for i, d := range list {
		ids[i] = d.ID
	}
	found, err := k.where(ctx, tx, k.key+" = ANY ($1)", ids)
	if err != nil {
		return nil, err
	}
	current := map[uuid.UUID]record{}
	for _, row := range found {
		current[row.meta().ID] = row
	}
	out := make([]rebased, len(list))
	for i, d := range list {
		base, now := bases[i], current[d.ID]
		want, err := k.wanted(d, base)
		if err != nil {
			return nil, err
		}
		x := rebased{name: Unrestored{Kind: k.Name, ID: d.ID, added: d.At}, now: now}
		if x.name.Name = k.nameOf(want); want == nil {
			x.name.Name = k.nameOf(base)
		}
		if d.Base == nil && (now == nil || k.extends == "") {
			base = nil
		}
		if x.op, err = k.onto(v, d, x.name, base, want, now); err != nil {
			return nil, err
		}
		out[i] = x
	}
	return out, nil
}

// onto returns the operation that does to the current row what a draft wants. It reuses the machinery of reverts: a draft is a
// revert from its base to the wanted row.
func (k *kind) onto(v *inverse, d drafted, called Unrestored, base, want, now record) (*Operation, error) {
	if want == nil || now == nil {
		op, err := k.back(v, called, d.ID, want, base, now, true)
		if op != nil && base == nil {
			op.Body, op.kept = d.Body, nil // a new row gets exactly what the draft says
		}
		return op, err
	}
	merged, err := k.merge(v, called, want, base, now, true)
	if err != nil {
		return nil, err
	}
	differs := false
	var stored object
	current, err := wire.Encode(k.view(now))
	if err == nil {
		err = json.Unmarshal(current, &stored)
	}
	if err != nil {
		return nil, err
	}
	body, err := k.reduce(d.Body, func(f wire.Field) bool {
		kept := !f.Stored || !k.keeps(f.Name) || equal(f, merged, want) && !equal(f, merged, now)
		differs = differs || kept
		return kept
	})
	if err != nil || !differs {
		return nil, err
	}
	for _, f := range k.codec.fields {
		if f.Given && !wire.Given(body)[f.Name] {
			if body, err = k.mergeBodies(wire.Raw(`{"`+f.Name+`":`+string(stored[f.Name])+`}`), body); err != nil {
				return nil, err
			}
		}
	}
	op := &Operation{Kind: k.Name, Verb: "update", ID: &d.ID, Body: body}
	if k.single {
		op.ID = nil
	}
	return op, nil
}

// unchanged locks rows, and fails if they differ from what the plan was based on.
func (k *kind) unchanged(ctx context.Context, tx *db.Tx, rows map[uuid.UUID]record) error {
	ids := slices.Collect(maps.Keys(rows))
	if _, err := tx.Exec(ctx, "SELECT FROM "+pgx.Identifier{k.Table}.Sanitize()+" WHERE "+k.key+" = ANY ($1) ORDER BY "+k.key+" FOR UPDATE", ids); err != nil {
		return err
	}
	found, err := k.where(ctx, tx, k.key+" = ANY ($1)", ids)
	if err != nil {
		return err
	}
	if len(found) < len(ids) || slices.ContainsFunc(found, func(now record) bool { return !k.same(rows[now.meta().ID], now) }) {
		return errMoved
	}
	return nil
}
