package resource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/wire"
)

// Choice says how to resolve one conflict of a revert or a draft.
type Choice struct {
	Kind  string    `json:"kind" required:"true" doc:"Name of the kind."`
	ID    uuid.UUID `json:"id" required:"true" doc:"Which row."`
	Field string    `json:"field" doc:"Which field; empty for the row as a whole."`
	Take  string    `json:"take" required:"true" enum:"then,now" doc:"then: what the revert or the draft makes of it. now: leave it as it is."`
}

type RevertOptions struct {
	Preview bool   `json:"preview" doc:"Save nothing; return what would change."`
	Reason  string `json:"reason" maxLength:"500" doc:"Why."`
	// Basis is the newest change set at the time of the preview.
	Basis   *uuid.UUID `json:"basis" doc:"The basis of a preview: the revert is refused if another change has been made since."`
	Choices []Choice   `json:"choices" doc:"What to take for each conflict with a later edit."`
	Take    string     `json:"take" enum:",then,now" doc:"What to take for the conflicts that have no choice of their own. If empty, the revert is refused as long as there are some."`
	Partial bool       `json:"partial" doc:"Revert the rest if some rows cannot be restored."`
}

// RevertTo is the body of a revert to a past time.
type RevertTo struct {
	RevertOptions
	At    time.Time `json:"at" required:"true" doc:"The time to go back to."`
	Kinds []string  `json:"kinds" doc:"Kinds to revert; all of them if empty."`
	ID    uuid.UUID `json:"id,omitzero" doc:"The one row to revert, of the one kind that is named."`
}

// Reverted is the answer to a revert.
type Reverted struct {
	Result
	Conflicts  []Conflict   `json:"conflicts" doc:"Later edits that the revert meets."`
	Unrestored []Unrestored `json:"unrestored" doc:"Rows that cannot be restored, and why."`
	Stays      []Staying    `json:"stays" doc:"What the gateway makes itself, such as a certificate that it has renewed and its key: that of then does not come back."`
	Basis      *uuid.UUID   `json:"basis" doc:"The newest change set; send it with the revert, so that it is refused if another change comes in between."`
}

// Conflict is a later edit of what a revert or a draft would change.
type Conflict struct {
	Kind  string     `json:"kind" doc:"Name of the kind."`
	ID    uuid.UUID  `json:"id" doc:"Which row."`
	Name  string     `json:"name" doc:"What the row is called."`
	Field string     `json:"field" doc:"Which field; empty if it is about the row as a whole."`
	Then  wire.Raw   `json:"then" doc:"What the revert or the draft would make of it; null if it would delete the row."`
	Now   wire.Raw   `json:"now" doc:"What it is now."`
	Actor string     `json:"actor" doc:"Who changed it last."`
	At    *time.Time `json:"at" doc:"When."`
	Taken string     `json:"taken" enum:",then,now" doc:"What is chosen."`
}

// Unrestored is a row that a revert cannot restore, or that a draft cannot change.
type Unrestored struct {
	Kind   string    `json:"kind" doc:"Name of the kind."`
	ID     uuid.UUID `json:"id" doc:"Which row."`
	Name   string    `json:"name" doc:"What the row is called."`
	Reason string    `json:"reason" doc:"Why."`
	// added is when the row became part of a draft. Changes before that are no conflict.
	added time.Time
}

// Staying is a row with fields that no revert restores, because the gateway generates them.
type Staying struct {
	Kind   string    `json:"kind" doc:"Name of the kind."`
	ID     uuid.UUID `json:"id" doc:"Which row."`
	Name   string    `json:"name" doc:"What the row is called."`
	Fields []string  `json:"fields" doc:"Which of its fields do not become what they were."`
}

// inverse is a revert while it is planned.
type inverse struct {
	RevertOptions
	set   Set
	names []Unrestored // for each operation
	out   Reverted
	later map[uuid.UUID]changes.Row // newest change of each row
	who   map[uuid.UUID]changes.Maker
	rows  expected
	// takesBack says that the reverted change was never confirmed.
	takesBack bool
}

// taken returns the choice for a conflict; empty if there is none.
func (v *inverse) taken(kind string, id uuid.UUID, field string) string {
	for _, c := range v.Choices {
		if c.Kind == kind && c.ID == id && c.Field == field {
			return c.Take
		}
	}
	return v.Take
}

// conflict records a later edit, and reports whether the revert overrides it. Rows that an unconfirmed change created are always
// deleted, even if they were edited since: otherwise changing a note would keep them.
func (v *inverse) conflict(c Conflict) (then bool) {
	if row, there := v.later[c.ID]; there {
		c.Actor, c.At = v.who[row.Set].Actor, &row.At
	}
	if c.Taken = v.taken(c.Kind, c.ID, c.Field); v.takesBack && c.Field == "" && c.Then == nil {
		c.Taken = "then"
	}
	v.out.Conflicts = append(v.out.Conflicts, c)
	return c.Taken == "then"
}

func (r *Registry) mountRevert() {
	local := func(c *httpd.Call) (bool, error) {
		id, err := httpd.PathID(c.Request, "id")
		if err != nil {
			return false, err
		}
		set, err := r.Changes.Get(c, r.DB, id)
		return !set.Local, err
	}
	doc := httpd.Doc{ID: "change-set.revert", Tag: "system", Summary: "Revert a change set, or preview that", Audit: "<kind>.<verb>", OnPrimary: local}
	httpd.Handle(r.Router, http.MethodPost, "/change-sets/{id}/revert", httpd.Write, doc, func(c *httpd.Call, in struct {
		ID   uuid.UUID `path:"id" doc:"Id of the change set."`
		Body *RevertOptions
	}) (Reverted, error) {
		if in.Body == nil {
			in.Body = &RevertOptions{}
		}
		v := &inverse{RevertOptions: *in.Body}
		out, err := r.revert(c, v, func(tx *db.Tx, v *inverse) error { return r.undo(c, tx, v, in.ID) }, in.ID)
		if !v.Preview && len(v.out.Unrestored) == 0 && (err == nil || errors.Is(err, errNothing)) {
			r.clearStays(c, in.ID)
		}
		return out, err
	})
	doc = httpd.Doc{ID: "configuration.revert", Tag: "system", Summary: "Bring the configuration, some kinds, or one row back to what it was at a time, or preview that", Audit: "<kind>.<verb>", OnPrimary: r.revertOnPrimary}
	httpd.Handle(r.Router, http.MethodPost, "/configuration/revert", httpd.Write, doc, func(c *httpd.Call, in struct{ Body RevertTo }) (Reverted, error) {
		return r.revert(c, &inverse{RevertOptions: in.Body.RevertOptions}, func(tx *db.Tx, v *inverse) error { return r.goBack(c, tx, v, in.Body) }, uuid.Nil)
	})
}

// revertOnPrimary decides where a revert to a past time runs: on this node if it is only about local rows.
func (r *Registry) revertOnPrimary(c *httpd.Call) (bool, error) {
	var in struct{ Kinds []string }
	if err := c.Peek(&in); err != nil {
		return false, err
	}
	here := func(name string) bool { return r.kinds[name] != nil && r.kinds[name].Local }
	return len(in.Kinds) == 0 || slices.ContainsFunc(in.Kinds, func(name string) bool { return !here(name) }), nil
}

// expected holds the rows that a plan is based on, by kind and id.
type expected map[string]map[uuid.UUID]record

func (v *inverse) expect(kind string, id uuid.UUID, row record) {
	if v.rows == nil {
		v.rows = expected{}
	}
	if v.rows[kind] == nil {
		v.rows[kind] = map[uuid.UUID]record{}
	}
	v.rows[kind][id] = row
}

var errMoved = fault.New(fault.Stale, "Another change has been made in the meantime. Preview this again.")

// checkBasis fails, in the transaction that carries out a plan, if rows are not what they were when it was made or, with a basis,
// if anything was changed since.
func (r *Registry) checkBasis(ctx context.Context, tx *db.Tx, basis *uuid.UUID, rows expected) error {
	for _, kind := range slices.Sorted(maps.Keys(rows)) {
		if err := r.kinds[kind].unchanged(ctx, tx, rows[kind]); err != nil {
			return err
		}
	}
	if basis == nil {
		return nil
	}
	newest, err := r.Changes.Newest(ctx, tx)
	if err == nil && outdated(basis, newest) {
		err = errMoved
	}
	return err
}

// outdated reports whether there is a newer change set than basis, if one was given.
func outdated(basis, newest *uuid.UUID) bool {
	return basis != nil && (newest == nil || *newest != *basis)
}

var errNothing = fault.New(fault.Conflict, "There is nothing to revert: everything is as it was already.")

// nothing returns the error for a revert that has nothing to do.
func (v *inverse) nothing() error {
	if len(v.out.Stays) == 0 {
		return errNothing
	}
	return &fault.Error{
		Kind: fault.Conflict, Message: "There is nothing to revert: what is not as it was is made by the gateway, and stays.", Cause: errNothing,
		Details: map[string]any{"stays": v.out.Stays},
	}
}

// revert plans the inverse of something, and previews or runs it.
func (r *Registry) revert(c *httpd.Call, v *inverse, plan func(tx *db.Tx, v *inverse) error, reverts uuid.UUID) (Reverted, error) {
	v.out.Conflicts, v.out.Unrestored, v.out.Stays = []Conflict{}, []Unrestored{}, []Staying{}
	v.out.Result = Result{Changes: []Change{}, Files: []apply.FileDiff{}, Impact: []Impact{}}
	err := r.DB.Snapshot(c, func(tx *db.Tx) (err error) {
		if v.out.Basis, err = r.Changes.Newest(c, tx); err != nil {
			return err
		}
		return plan(tx, v)
	})
	if err != nil {
		return Reverted{}, err
	}
	if outdated(v.Basis, v.out.Basis) {
		return Reverted{}, errMoved
	}
	if len(v.set.Operations) == 0 && len(v.out.Conflicts) == 0 && (!v.Preview || len(v.out.Stays) == 0) {
		return Reverted{}, v.nothing()
	}
	if err := r.rehearse(c, v); err != nil {
		return Reverted{}, err
	}
	if v.Preview {
		return v.out, nil
	}
	open := slices.ContainsFunc(v.out.Conflicts, func(x Conflict) bool { return x.Taken == "" })
	switch {
	case open:
		return Reverted{}, &fault.Error{Kind: fault.Conflict, Message: "Later edits are in the way. Choose for each of them what to take.", Details: map[string]any{"conflicts": v.out.Conflicts}}
	case len(v.out.Unrestored) > 0 && !v.Partial:
		return Reverted{}, &fault.Error{Kind: fault.Conflict, Message: "Some rows cannot be restored. Revert the rest with partial, or change what is in the way.", Details: map[string]any{"unrestored": v.out.Unrestored}}
	case len(v.set.Operations) == 0:
		return Reverted{}, v.nothing()
	}
	intent := changes.From(c)
	intent.Reverts, intent.Reason = reverts, cmp.Or(v.Reason, intent.Reason)
	var outcome apply.Outcome
	v.set.Reason = intent.Reason
	v.set.first = func(tx *db.Tx) error { return r.checkBasis(c, tx, v.Basis, v.rows) }
	if v.out.Changes, outcome, err = r.Commit(changes.With(c, intent), v.set); err != nil {
		return Reverted{}, err
	}
	Applied(c, outcome, v.out.Changes...)
	return v.out, nil
}

// rehearsals is how often a revert or a draft is rehearsed while concurrent changes interfere.
const rehearsals = 5

// rehearse previews a revert. Operations that are refused are retried after the rest, and otherwise dropped and reported.
func (r *Registry) rehearse(ctx context.Context, v *inverse) error {
	for try := 1; len(v.set.Operations) > 0; {
		left, err := r.rehearseOnce(ctx, v)
		refused := false
		if failed, one := errors.AsType[*operationError](err); one && mayHelp(failed) && try < rehearsals {
			err = r.reorder(ctx, v)
			refused = err == nil
		}
		switch {
		case refused, db.Passing(err) && try < rehearsals:
			try++
		case err != nil || left < 0:
			return err
		default:
			v.leave(left)
		}
	}
	return nil
}

// rehearseOnce previews a revert. It returns the index of an operation that must be dropped; -1 if there is none.
func (r *Registry) rehearseOnce(ctx context.Context, v *inverse) (left int, err error) {
	result, err := r.Preview(ctx, v.set, v.Preview)
	if err != nil {
		return -1, err
	}
	left, err = r.along(ctx, v, result.Changes)
	if err == nil && left < 0 {
		v.out.Result = result
	}
	return left, err
}

func (v *inverse) leave(i int) {
	v.set.Operations, v.names = slices.Delete(v.set.Operations, i, i+1), slices.Delete(v.names, i, i+1)
}

// reorder finds an order in which most operations succeed, and reports those that do not.
func (r *Registry) reorder(ctx context.Context, v *inverse) error {
	order, refused, err := r.order(ctx, v.set)
	if err != nil {
		return err
	}
	for _, i := range slices.Sorted(maps.Keys(refused)) {
		x := v.names[i]
		x.Reason = sentenceOf(refused[i])
		v.out.Unrestored = append(v.out.Unrestored, x)
	}
	ops, names := make([]Operation, len(order)), make([]Unrestored, len(order))
	for n, i := range order {
		ops[n], names[n] = v.set.Operations[i], v.names[i]
	}
	v.set.Operations, v.names = ops, names
	return nil
}

// along finds a delete that would cascade to rows which the revert does not delete, without a choice that allows it. It returns
// -1 if there is none.
func (r *Registry) along(ctx context.Context, v *inverse, list []Change) (int, error) {
	gone := map[User]bool{} // by the revert itself
	for i, op := range v.set.Operations {
		h := r.kinds[op.Kind]
		gone[User{Kind: op.Kind, ID: v.names[i].ID}] = op.Verb == "delete" || h.extends != "" && op.kept != nil && h.same(op.kept, h.fresh())
	}
	for i, c := range list {
		x := v.names[i]
		others := slices.DeleteFunc(slices.Clone(c.with), func(u User) bool { return gone[User{Kind: u.Kind, ID: u.ID}] })
		with, err := r.changedSince(ctx, others, x.added)
		if err != nil {
			return 0, err
		}
		if len(with) == 0 || slices.ContainsFunc(v.out.Conflicts, func(known Conflict) bool { return known.ID == x.ID && known.Kind == x.Kind && known.Field == "" }) {
			continue
		}
		names := make([]string, len(with))
		for n, u := range with {
			names[n] = u.Kind + " " + u.Name
		}
		now, err := wire.Encode(names)
		if err != nil {
			return 0, err
		}
		if !v.conflict(Conflict{Kind: x.Kind, ID: x.ID, Name: x.Name, Now: now}) {
			return i, nil
		}
	}
	return -1, nil
}

// changedSince returns the rows that were changed after at; all of them if at is zero.
func (r *Registry) changedSince(ctx context.Context, rows []User, at time.Time) ([]User, error) {
	if len(rows) == 0 || at.IsZero() {
		return rows, nil
	}
	ids := map[string][]uuid.UUID{}
	for _, u := range rows {
		ids[u.Kind] = append(ids[u.Kind], u.ID)
	}
	later := map[User]bool{}
	for kind, some := range ids {
		h := r.kinds[kind]
		if h == nil {
			continue
		}
		found, err := r.Changes.Later(ctx, r.DB, h.Table, at, some)
		if err != nil {
			return nil, err
		}
		for id := range found {
			later[User{Kind: kind, ID: id}] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(u User) bool { return !later[User{Kind: u.Kind, ID: u.ID}] }), nil
}

// sentenceOf returns one sentence that says why a row cannot be restored.
func sentenceOf(f *fault.Error) string {
	for _, field := range slices.Sorted(maps.Keys(f.Fields)) {
		return fault.Complaint(field + " " + f.Fields[field])
	}
	return f.Message
}

func (r *Registry) undo(ctx context.Context, tx *db.Tx, v *inverse, id uuid.UUID) error {
	if _, err := r.Changes.Get(ctx, tx, id); err != nil {
		return err
	}
	rows, err := r.Changes.Rows(ctx, tx, id)
	if err != nil {
		return err
	}
	return r.plan(ctx, tx, v, collapse(rows), true)
}

// collapse merges all changes of each row into one, at the place of the last.
func collapse(rows []changes.Row) []changes.Row {
	type which struct {
		table string
		id    uuid.UUID
	}
	first, last := map[which]int{}, map[which]int{}
	for i, row := range rows {
		x := which{row.Table, row.ID}
		if _, there := first[x]; !there {
			first[x] = i
		}
		last[x] = i
	}
	var list []changes.Row
	for i, row := range rows {
		x := which{row.Table, row.ID}
		row.Was = rows[first[x]].Was
		if last[x] == i && (row.Was != nil || row.Now != nil) {
			list = append(list, row)
		}
	}
	return list
}

// goBack plans a revert to a past time.
func (r *Registry) goBack(ctx context.Context, tx *db.Tx, v *inverse, to RevertTo) error {
	var c check.List
	var ids []uuid.UUID
	kinds := to.Kinds
	for i, name := range kinds {
		c.That(r.kinds[name] != nil, fmt.Sprintf("kinds.%d", i), "There is no kind %q.", name)
	}
	if to.ID != uuid.Nil {
		c.That(len(kinds) == 1, "kinds", "must name the one kind of the row")
		ids = []uuid.UUID{to.ID}
	}
	if err := c.Err(); err != nil {
		return err
	}
	if err := r.Changes.Reaches(ctx, tx, "at", to.At); err != nil {
		return err
	}
	if len(kinds) == 0 {
		for name := range r.kinds {
			kinds = append(kinds, name)
		}
	}
	var rows []changes.Row
	for _, name := range kinds {
		h := r.kinds[name]
		if len(to.Kinds) == 0 && h.Apart {
			continue
		}
		since, err := r.Changes.Since(ctx, tx, h.Table, to.At, ids)
		if err != nil {
			return err
		}
		last := make([]uuid.UUID, len(since))
		for i := range since {
			last[i] = since[i].ID
		}
		newest, err := r.Changes.Later(ctx, tx, h.Table, to.At, last)
		if err != nil {
			return err
		}
		for _, row := range since {
			row.Now, row.At, row.Set = newest[row.ID].Now, newest[row.ID].At, newest[row.ID].Set
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b changes.Row) int { return cmp.Or(a.At.Compare(b.At), slices.Compare(a.ID[:], b.ID[:])) })
	return r.plan(ctx, tx, v, rows, false)
}

// plan adds the operations that undo changes, last one first. With care, later edits are conflicts; without, rows are the
// complete list of changes.
func (r *Registry) plan(ctx context.Context, tx *db.Tx, v *inverse, rows []changes.Row, care bool) error {
	byTable := map[string][]int{}
	for i, row := range rows {
		byTable[row.Table] = append(byTable[row.Table], i)
	}
	ops := make([]*Operation, len(rows))
	names := make([]Unrestored, len(rows))
	for table, places := range byTable {
		h := r.kindOf(table)
		if h == nil {
			continue
		}
		some := make([]changes.Row, len(places))
		for n, i := range places {
			some[n] = rows[i]
		}
		if h.AdminOnly && actor.From(ctx).Role != actor.Admin {
			return errAdmin
		}
		if care {
			if err := r.laterEdits(ctx, tx, v, some); err != nil {
				return err
			}
		}
		planned, called, err := h.inverse(ctx, tx, v, some, care)
		if err != nil {
			return err
		}
		for n, i := range places {
			ops[i], names[i] = planned[n], called[n]
		}
	}
	v.set.Listed = true
	for i := len(rows) - 1; i >= 0; i-- {
		if ops[i] != nil {
			v.set.Operations, v.names = append(v.set.Operations, *ops[i]), append(v.names, names[i])
		}
	}
	return r.nest(ctx, tx, v)
}

// nest moves creates before those of rows that refer to them: one statement may have deleted all of them, and lists them the
// other way round. It moves deletes before those of the rows that they refer to, because the latter may have been edited last.
func (r *Registry) nest(ctx context.Context, tx *db.Tx, v *inverse) error {
	above, err := r.refers(ctx, tx)
	if err != nil {
		return err
	}
	ops, names := v.set.Operations, v.names
	tables := make([]string, len(ops))
	for i, op := range ops {
		tables[i] = r.kinds[op.Kind].Table
	}
	move := func(from, to int) {
		op, name, table := ops[from], names[from], tables[from]
		copy(ops[to+1:from+1], ops[to:from])
		copy(names[to+1:from+1], names[to:from])
		copy(tables[to+1:from+1], tables[to:from])
		ops[to], names[to], tables[to] = op, name, table
	}
	for j := range ops {
		if ops[j].Verb != "create" {
			continue
		}
		to := j
		for i := j - 1; i >= 0 && ops[i].Verb != "delete"; i-- {
			if slices.Contains(above[tables[i]], tables[j]) {
				to = i
			}
		}
		move(j, to)
	}
	for j := range ops { // restore extensions before the rows that they extend are deleted
		extends := r.kinds[ops[j].Kind].extends
		for i := range j {
			if extends != "" && ops[i].Verb == "delete" && tables[i] == extends && names[i].ID == names[j].ID {
				move(j, i)
				break
			}
		}
	}
	depth := depthsOf(above)
	for level := range slices.Max(append(slices.Collect(maps.Values(depth)), 0)) + 1 {
		for j := range ops {
			if ops[j].Verb != "delete" || depth[tables[j]] != level {
				continue
			}
			for i := range j {
				if ops[i].Verb == "delete" && slices.Contains(above[tables[j]], tables[i]) {
					move(j, i)
					break
				}
			}
		}
	}
	return nil
}

// laterEdits records who has changed rows of a table since.
func (r *Registry) laterEdits(ctx context.Context, tx *db.Tx, v *inverse, rows []changes.Row) error {
	ids := make([]uuid.UUID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	later, err := r.Changes.Later(ctx, tx, rows[0].Table, rows[len(rows)-1].At, ids)
	if err != nil {
		return err
	}
	list := make([]changes.Row, 0, len(later))
	for _, row := range later {
		list = append(list, row)
	}
	who, err := r.Changes.Who(ctx, tx, list)
	if err != nil {
		return err
	}
	if v.later == nil {
		v.later, v.who = map[uuid.UUID]changes.Row{}, map[uuid.UUID]changes.Maker{}
	}
	for id, row := range later {
		v.later[id] = row
	}
	for id, m := range who {
		v.who[id] = m
	}
	return nil
}

// inverse plans how rows of the kind become what they were. An operation is nil if there is nothing to do.
func (k *kind) inverse(ctx context.Context, tx *db.Tx, v *inverse, rows []changes.Row, care bool) ([]*Operation, []Unrestored, error) {
	images, err := k.both(ctx, tx, rows)
	if err != nil {
		return nil, nil, err
	}
	ids := make([]uuid.UUID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	found, err := k.where(ctx, tx, k.key+" = ANY ($1)", ids)
	if err != nil {
		return nil, nil, err
	}
	current := map[uuid.UUID]record{}
	for _, row := range found {
		current[row.meta().ID] = row
	}
	ops, names := make([]*Operation, len(rows)), make([]Unrestored, len(rows))
	for i, row := range rows {
		was, then, now := images[i].was, images[i].now, current[row.ID]
		names[i] = Unrestored{Kind: k.Name, ID: row.ID, Name: k.nameOf(cmp.Or(now, was, then))}
		ops[i], err = k.back(v, names[i], row.ID, was, then, now, care)
		if err != nil {
			return nil, nil, err
		}
		if ops[i] != nil && now != nil {
			v.expect(k.Name, row.ID, now)
		}
		if fields := k.staying(was, then, now, care); len(fields) > 0 {
			v.out.Stays = append(v.out.Stays, Staying{Kind: k.Name, ID: row.ID, Name: names[i].Name, Fields: fields})
		}
	}
	return ops, names, nil
}

// back returns the operation that undoes a change of a row. was is the row before the change, then the row after it, and now the
// current row.
func (k *kind) back(v *inverse, called Unrestored, id uuid.UUID, was, then, now record, care bool) (*Operation, error) {
	op := &Operation{Kind: k.Name, ID: &id}
	if k.single {
		op.ID = nil
	}
	whole := Conflict{Kind: k.Name, ID: id, Name: called.Name}
	if was == nil && now != nil && (k.extends != "" || k.single) {
		was = k.fresh() // an extension or singleton falls back to its defaults
	}
	switch {
	case was == nil && now == nil:
		return nil, nil
	case was == nil:
		op.Verb = "delete"
		if !care || k.same(then, now) {
			return op, nil
		}
		var err error
		if whole.Now, err = wire.Encode(k.view(now)); err != nil {
			return nil, err
		}
		if !v.conflict(whole) {
			return nil, nil
		}
		return op, nil
	case now == nil && then == nil || now == nil && !care:
		if op.Verb, op.kept = "create", was; k.extends != "" {
			op.Verb = "update"
		}
		return op, nil
	case now == nil:
		// The row was deleted later. Restoring it is a separate decision.
		var err error
		if whole.Then, err = wire.Encode(k.view(was)); err != nil {
			return nil, err
		}
		if !v.conflict(whole) {
			return nil, nil
		}
		op.Verb, op.kept = "create", was
		return op, nil
	}
	merged, err := k.merge(v, called, k.withMaintained(was, now), then, now, care)
	if err != nil || k.same(merged, now) {
		return nil, err
	}
	op.Verb, op.kept, op.whole = "update", merged, k.same(was, merged)
	return op, nil
}

// staying lists the generated fields that a revert would have to change. was is the row before the change, then the row after it,
// and now the current row.
func (k *kind) staying(was, then, now record, care bool) (fields []string) {
	if k.Made == nil || was == nil || now == nil {
		return nil
	}
	made := k.Made(now)
	for _, f := range k.codec.fields {
		ofChange := !care || then == nil || !equal(f, was, then)
		if slices.Contains(made, f.Name) && ofChange && !equal(f, was, now) {
			fields = append(fields, f.Name)
		}
	}
	return fields
}

// same reports whether two rows are equal, apart from their times, columns without history, and the fields that the gateway
// maintains.
func (k *kind) same(a, b record) bool {
	maintained := k.maintained(b)
	return !slices.ContainsFunc(k.codec.fields, func(f wire.Field) bool {
		return k.keeps(f.Name) && !isMeta(f) && !maintained(f) && !equal(f, a, b)
	})
}

// maintained returns which fields the gateway updates while a row exists: those that it generates, and its read-only fields.
func (k *kind) maintained(row record) func(f wire.Field) bool {
	var made []string
	if k.Made != nil {
		made = k.Made(row)
	}
	return func(f wire.Field) bool { return len(made) > 0 && f.ReadOnly || slices.Contains(made, f.Name) }
}

// withMaintained returns an old state of a row with the current values of the fields that the gateway maintains.
func (k *kind) withMaintained(was, now record) record {
	row, maintained := k.copied(was), k.maintained(now)
	for _, f := range k.codec.fields {
		if maintained(f) {
			field(row, f).Set(field(now, f))
		}
	}
	return row
}

// merge undoes what a change did to the fields of a row, and leaves all other fields as they are now.
func (k *kind) merge(v *inverse, called Unrestored, was, then, now record, care bool) (record, error) {
	merged := k.copied(now)
	for _, f := range k.codec.fields {
		switch {
		case isMeta(f) || !k.keeps(f.Name) || equal(f, was, now):
			continue
		case care && then != nil && equal(f, was, then):
			continue // unchanged by the change
		case care && (then == nil || !equal(f, then, now)):
			if f.ReadOnly {
				continue // the room derives it from other fields
			}
			c := Conflict{Kind: called.Kind, ID: called.ID, Name: called.Name, Field: f.Name}
			if !f.Secret {
				var err error
				if c.Then, err = wire.Encode(field(k.view(was), f).Interface()); err != nil {
					return nil, err
				}
				if c.Now, err = wire.Encode(field(k.view(now), f).Interface()); err != nil {
					return nil, err
				}
			}
			if !v.conflict(c) {
				continue
			}
		}
		field(merged, f).Set(field(was, f))
	}
	return merged, nil
}
