package resource

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/wire"
)

// Registry knows every kind, and runs changes to their rows.
type Registry struct {
	DB      *db.DB
	Audit   *audit.Log
	Changes *changes.Log
	Alarms  *alarm.Port
	Engine  *apply.Engine
	Router  *httpd.Router
	Clock   clock.Clock
	Secrets *secret.Box
	Log     *slog.Logger
	kinds   map[string]*kind
	others  []Table
	below   atomic.Pointer[map[string][]reference]
	proofs  proofs
	// AtPrimary asks the primary of this standby which change sets wait there; on other nodes the list is empty. It may be nil.
	AtPrimary func(ctx context.Context) ([]WaitingSet, error)
	caughtUp  caughtUp
	taking    sync.Mutex // serializes confirmations and take-backs
	refused   refusals
	assessors []assessor
}

// NewRegistry returns a registry without kinds.
func NewRegistry(d *db.DB, a *audit.Log, h *changes.Log, alarms *alarm.Port, e *apply.Engine, r *httpd.Router, c clock.Clock, s *secret.Box, log *slog.Logger) *Registry {
	return &Registry{DB: d, Audit: a, Changes: h, Alarms: alarms, Engine: e, Router: r, Clock: c, Secrets: s, Log: log, kinds: map[string]*kind{}}
}

// Where says which nodes of a cluster have a row.
type Where int

const (
	// Shared rows are those of the primary on every node, and part of the configuration hash.
	Shared Where = iota
	// Passing rows are shared, but change too often to be part of the hash.
	Passing
	// Local rows belong to one node alone.
	Local
)

// Table describes a table to the cluster.
type Table struct {
	// Kind is empty for a table that belongs to no kind.
	Kind, Name string
	Where      Where
	Columns    []string
	// Key is the id column. Unkept are the columns without history.
	Key    string
	Unkept []string
	// LocalColumns of a shared table are local to each node.
	LocalColumns []string
}

// Declare says where the rows of a table without a kind live, and which of its columns are local to one node. Every table is
// declared by the room that owns it.
func (r *Registry) Declare(table string, where Where, localColumns ...string) {
	r.others = append(r.others, Table{Name: table, Where: where, LocalColumns: localColumns})
}

// Tables lists all tables: those of the kinds, sorted by kind, then the others.
func (r *Registry) Tables() []Table {
	var list []Table
	for _, name := range slices.Sorted(maps.Keys(r.kinds)) {
		list = append(list, r.kinds[name].table())
	}
	return append(list, r.others...)
}

// Operation is one step of a change set.
type Operation struct {
	Kind string     `json:"kind" required:"true" doc:"Name of the kind, for example ntp.pool."`
	Verb string     `json:"verb" required:"true" enum:"create,update,delete" doc:"What to do."`
	ID   *uuid.UUID `json:"id,omitzero" doc:"Which row; for a create, the id to give it."`
	Body wire.Raw   `json:"body,omitzero" doc:"The fields, as the kind's own route takes them."`
	// Provisional has no effect in a draft, which fixes the ids of its rows when they are added.
	Provisional bool `json:"provisional,omitzero" doc:"For a create with an id: the gateway may choose another id, which then also replaces this one in the following operations. This makes use of the backends that HAProxy has in reserve, which need no reload."`
	ifMatch     string
	parent      *uuid.UUID
	// notes, if not nil, are the only fields that the body may have.
	notes []string
	// prepared is a row whose Prepared fields are those of the body.
	prepared record
	// give is the result of Kind.Prepare.
	give func(now record)
	// amend changes the row in the transaction, after the body was applied.
	amend func(now record) error
	// kept is the past state that the row returns to; there is no body then. whole says that no field is of another time.
	kept  record
	whole bool
}

// Change is what one operation did to a row.
type Change struct {
	Kind   string                 `json:"kind" doc:"Name of the kind."`
	Verb   string                 `json:"verb" enum:"create,update,delete" doc:"What was done."`
	ID     string                 `json:"id" doc:"Which row."`
	Name   string                 `json:"name" doc:"What the row is called."`
	Before wire.Raw               `json:"before" doc:"The row before the change; null if it is new."`
	After  wire.Raw               `json:"after" doc:"The row after the change; null if it was deleted."`
	Usual  []string               `json:"usual" doc:"Of a new row, the fields that are as in every new row."`
	first  bool                   // the row extends another and was not stored before
	idle   bool                   // nothing changed
	fields map[string][2]wire.Raw // that differ
	with   []User                 // rows that a delete removes as well
	row    apply.Row
	by     time.Time // when it is taken back unless it is confirmed
}

// Set is a change set: operations that happen together or not at all.
type Set struct {
	Operations []Operation
	Reason     string
	// Listed says that the caller has sent a list of operations, so that faults name their index.
	Listed bool
	// As is the name of the operations in the audit log, for routes that have their own.
	As Alias
	// first runs in the transaction before the operations.
	first func(tx *db.Tx) error
}

// Alias replaces the action and subject of a change in the audit log. Empty fields replace nothing.
type Alias struct{ Action, Subject string }

func (r *Registry) Commit(ctx context.Context, set Set) ([]Change, apply.Outcome, error) {
	var list []Change
	shared, local, err := r.feeds(set)
	if err != nil {
		return nil, nil, err
	}
	for i := range set.Operations {
		if err := r.kinds[set.Operations[i].Kind].prepare(ctx, r, &set.Operations[i]); err != nil {
			return nil, nil, err
		}
	}
	if len(set.Operations) > 1 {
		ctx = db.Bulk(ctx)
	}
	ctx, intent, err := changes.Begun(ctx)
	if err != nil {
		return nil, nil, err
	}
	if set.Reason == "" {
		set.Reason = intent.Reason
	} else if intent.Reason == "" {
		intent.Reason = set.Reason
		ctx = changes.With(ctx, intent)
	}
	outcome, err := r.Engine.CommitBoth(ctx, shared, local, r.write(ctx, set, &list))
	for i := range list {
		list[i].by = r.Engine.ConfirmBy(intent.Set)
	}
	return list, outcome, err
}

// Preview runs a change set without storing anything. With impact, it also assesses whom the changes affect.
func (r *Registry) Preview(ctx context.Context, set Set, impact bool) (Result, error) {
	var out Result
	shared, local, err := r.feeds(set)
	if err != nil {
		return out, err
	}
	fed, write := append(shared, local...), r.write(ctx, set, &out.Changes)
	var assessments []*assessment
	if impact {
		write, assessments = r.assessed(ctx, fed, write)
	}
	if out.Files, err = r.Engine.Preview(ctx, fed, r.secrets(set), write); err != nil {
		return out, err
	}
	out.Impact = r.impact(ctx, assessments)
	if impact {
		out.Impact = r.unforeseen(out.Impact, out.Changes)
	}
	return out, nil
}

// secrets lists the components that depend on the secrets that a set changes.
func (r *Registry) secrets(set Set) []apply.ID {
	var fed []apply.ID
	for _, op := range set.Operations {
		if h := r.kinds[op.Kind]; h.setsSecret(op) {
			fed = append(fed, h.Feeds...)
		}
	}
	return fed
}

// write returns a change set in the form that the engine runs.
func (r *Registry) write(ctx context.Context, set Set, list *[]Change) apply.Write {
	return func(tx *db.Tx) ([]apply.Row, error) {
		var err error
		if set.first != nil {
			if err := set.first(tx); err != nil {
				return nil, err
			}
		}
		if *list, err = r.run(ctx, tx, set); err != nil {
			return nil, err
		}
		rows := make([]apply.Row, len(*list))
		for i, c := range *list {
			rows[i] = c.row
		}
		return rows, nil
	}
}

// Suppose runs a change set, lets look inspect the result, and rolls it back. No component is involved.
func (r *Registry) Suppose(ctx context.Context, set Set, look func(tx *db.Tx) error) error {
	if _, _, err := r.feeds(set); err != nil {
		return err
	}
	return r.DB.Suppose(ctx, func(tx *db.Tx) error {
		if _, err := r.run(ctx, tx, set); err != nil {
			return err
		}
		return look(tx)
	}, func(context.Context) error { return nil })
}

// feeds lists the components that a change set feeds, through shared and through local rows. It rejects operations that cannot
// run.
func (r *Registry) feeds(set Set) (shared, local []apply.ID, err error) {
	var c check.List
	for i, op := range set.Operations {
		h, at := r.kinds[op.Kind], fmt.Sprintf("operations.%d.", i)
		if h == nil {
			c.Add(at+"kind", "There is no kind %q.", op.Kind)
			continue
		}
		c.That(!h.single || op.Verb == "update", at+"verb", "There is exactly one %s. It can only be updated.", op.Kind)
		c.That(h.extends == "" || op.Verb == "update", at+"verb", "A %s cannot be created or deleted, only updated.", op.Kind)
		c.That(h.single || op.Verb == "create" || op.ID != nil, at+"id", "The id of the row is missing.")
		c.That(op.ID == nil || *op.ID != uuid.Nil, at+"id", "The id must not be all zeros.")
		c.That(!op.Provisional || op.Verb == "create" && op.ID != nil, at+"provisional", "Only the id of a new row can be provisional.")
		switch {
		case op.notes != nil:
		case h.Local:
			local = append(local, h.Feeds...)
		default:
			shared = append(shared, h.Feeds...)
		}
	}
	return shared, local, c.Err()
}

// OnPrimary decides where the operations of a body run: on the primary if they change shared rows, otherwise on the node that
// received them. A mix is refused on other nodes, because two nodes cannot commit together.
func (r *Registry) OnPrimary(c *httpd.Call) (bool, error) {
	var in struct{ Operations []struct{ Kind string } }
	if err := c.Peek(&in); err != nil {
		return false, err
	}
	var local []int
	shared := 0
	for i, op := range in.Operations {
		switch h := r.kinds[op.Kind]; {
		case h == nil: // the set reports it
		case h.Local:
			local = append(local, i)
		default:
			shared++
		}
	}
	if len(local) == 0 || shared == 0 {
		return shared > 0, nil
	}
	var apart check.List
	for _, i := range local {
		apart.Add(fmt.Sprintf("operations.%d.kind", i), "belongs to this node alone, and others of these operations to all nodes. Send them apart")
	}
	return true, apart.Err()
}

func (r *Registry) run(ctx context.Context, tx *db.Tx, set Set) ([]Change, error) {
	list := make([]Change, 0, len(set.Operations))
	preferred := map[uuid.UUID]uuid.UUID{}
	for i, op := range set.Operations {
		op.refer(preferred)
		change, err := r.kinds[op.Kind].run(ctx, r, tx, op)
		if err == nil && set.Listed {
			err = tx.Flush(ctx) // otherwise a fault could not be attributed to this operation
		}
		if err != nil {
			return nil, &operationError{at(set, i, db.Fault(err)), i}
		}
		if err := r.record(ctx, tx, change, set); err != nil {
			return nil, err
		}
		if op.Provisional {
			preferred[*op.ID] = uuid.MustParse(change.ID)
		}
		list = append(list, change)
	}
	return list, nil
}

// refer replaces provisional ids by those that the rows have got.
func (o *Operation) refer(preferred map[uuid.UUID]uuid.UUID) {
	for was, now := range preferred {
		if o.ID != nil && *o.ID == was {
			o.ID = &now
		}
		o.Body = bytes.ReplaceAll(o.Body, []byte(was.String()), []byte(now.String()))
	}
}

type operationError struct {
	error
	place int
}

func (e *operationError) Unwrap() error { return e.error }

// at prefixes the fields of a fault with the operation's path.
func at(set Set, i int, err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || len(f.Fields) == 0 || !set.Listed {
		return err
	}
	named := *f
	named.Fields = map[string]string{}
	for field, text := range f.Fields {
		named.Fields[fmt.Sprintf("operations.%d.body.%s", i, field)] = text
	}
	return &named
}

var errAdmin = fault.New(fault.Forbidden, "Only an administrator may do this.")

// viewerOperations limits how many operations a viewer may suppose at once.
const viewerOperations = 100

// MaySuppose forbids viewers to preview changes to kinds that only administrators see, and changes that set a secret: a viewer
// could find a stored secret by trying values.
func (r *Registry) MaySuppose(a actor.Actor, set Set) error {
	if a.Role == actor.Admin {
		return nil
	}
	for _, op := range set.Operations {
		switch h := r.kinds[op.Kind]; {
		case h == nil: // the set reports it
		case h.AdminOnly:
			return errAdmin
		case h.setsSecret(op):
			return fault.New(fault.Forbidden, "Only an administrator may preview a change that sets a secret.")
		}
	}
	if len(set.Operations) > viewerOperations {
		return fault.Field("operations", "must have at most %d items, unless you are an administrator", viewerOperations)
	}
	return nil
}

// set returns the change set that a change belongs to; empty if nothing changed.
func (c *Change) set(ctx context.Context) string {
	if id := changes.From(ctx).Set; id != uuid.Nil && !c.idle {
		return id.String()
	}
	return ""
}

type auditDetails struct {
	ID        string                 `json:"id"`
	Fields    map[string][2]wire.Raw `json:"fields"`         // before and after
	With      []User                 `json:"with,omitempty"` // rows that a delete removed as well; at most maxWith of WithCount
	WithCount int                    `json:"with_count,omitzero"`
	ChangeSet string                 `json:"change_set,omitempty"`
	Reason    string                 `json:"reason,omitempty"`
}

const maxWith = 1000

func (r *Registry) record(ctx context.Context, tx *db.Tx, c Change, set Set) error {
	d := auditDetails{ID: c.ID, Fields: c.fields, With: c.with[:min(len(c.with), maxWith)], WithCount: len(c.with), ChangeSet: c.set(ctx), Reason: set.Reason}
	return r.Audit.Write(ctx, tx, cmp.Or(set.As.Action, c.Kind+"."+c.Verb), cmp.Or(set.As.Subject, c.Name), d)
}

// prepare does the slow work that an operation needs before its transaction. It leaves errors to the transaction, because only
// that knows the fields that an update omits.
func (k *kind) prepare(ctx context.Context, r *Registry, op *Operation) error {
	if err := context.Cause(ctx); err != nil || op.Verb == "delete" || op.kept != nil {
		return err
	}
	if err := k.prepareFields(ctx, op); err != nil || k.Prepare == nil {
		return err
	}
	var was record
	now := k.fresh()
	if op.Verb == "update" {
		stored, err := k.target(ctx, r.DB, *op)
		if err != nil {
			return nil
		}
		was, now = stored, k.copied(stored)
	}
	if _, err := wire.Decode(op.Body, now); err != nil {
		return nil
	}
	var err error
	op.give, err = k.Prepare(ctx, was, now)
	return err
}

// target returns the stored row that an update refers to.
func (k *kind) target(ctx context.Context, q db.Querier, op Operation) (record, error) {
	if k.single {
		return k.get(ctx, q, "")
	}
	return k.byID(ctx, q, *op.ID)
}

func (k *kind) prepareFields(ctx context.Context, op *Operation) error {
	// Most bodies do not contain such a field. One with an escape sequence might contain it in disguise.
	named := func(f wire.Field) bool {
		return bytes.Contains(op.Body, []byte(`"`+f.Name+`"`)) || bytes.ContainsRune(op.Body, '\\')
	}
	if !slices.ContainsFunc(k.codec.prepared, named) {
		return nil
	}
	row := k.fresh()
	if _, err := wire.Decode(op.Body, row); err != nil && op.Verb == "create" {
		return nil
	}
	for _, f := range k.codec.prepared {
		if err := field(row, f).Addr().Interface().(Prepared).Prepare(ctx); err != nil {
			return err
		}
	}
	op.prepared = row
	return nil
}

// decode applies an operation's body to a row.
func (k *kind) decode(op Operation, row record) (given map[string]bool, err error) {
	if op.kept != nil {
		return k.restore(op.kept, row)
	}
	given, err = wire.Decode(op.Body, row)
	if op.prepared != nil {
		for _, f := range k.codec.prepared {
			if v := field(op.prepared, f); v.Interface().(wire.WriteOnly).Set() {
				field(row, f).Set(v)
			}
		}
	}
	if op.give != nil {
		op.give(row)
	}
	if op.amend != nil && err == nil {
		if err = op.amend(row); err != nil {
			return nil, err
		}
		if v, ok := row.(wire.Validator); ok {
			err = v.Validate()
		}
	}
	return given, err
}

// Amend changes one row based on its state in the transaction, and is otherwise an ordinary update: checked, audited and applied.
// f must replace what the row points to instead of modifying it, because it is shared. Kind.Prepare sees the row as it was.
func (k *Kind[T]) Amend(ctx context.Context, r *Registry, id uuid.UUID, f func(now *T) error) (Change, apply.Outcome, error) {
	return r.amend(ctx, k.Name, id, func(now record) error { return f(typed[T](now)) })
}

func (r *Registry) amend(ctx context.Context, kind string, id uuid.UUID, f func(now record) error) (Change, apply.Outcome, error) {
	list, outcome, err := r.Commit(ctx, Set{Operations: []Operation{{Kind: kind, Verb: "update", ID: &id, Body: wire.Raw("{}"), amend: f}}})
	if err != nil {
		return Change{}, nil, err
	}
	return list[0], outcome, nil
}

func (k *kind) run(ctx context.Context, r *Registry, tx *db.Tx, op Operation) (Change, error) {
	switch op.Verb {
	case "create":
		return k.create(ctx, r, tx, op)
	case "update":
		return k.update(ctx, r, tx, op)
	}
	return k.remove(ctx, r, tx, op)
}

func (k *kind) create(ctx context.Context, r *Registry, tx *db.Tx, op Operation) (Change, error) {
	now := k.fresh()
	if op.parent != nil {
		if err := k.adopt(ctx, tx, now, *op.parent); err != nil {
			return Change{}, err
		}
	}
	given, err := k.decode(op, now)
	if err != nil {
		return Change{}, err
	}
	if op.parent != nil && k.parentOf(now).Interface() != *op.parent {
		return Change{}, fault.Field(k.Column, "must match the path, or be left out")
	}
	m := now.meta()
	if m.ID, err = k.newID(ctx, tx, op, now); err != nil {
		return Change{}, err
	}
	m.CreatedAt = r.Clock.Now()
	m.UpdatedAt = m.CreatedAt
	if op.kept != nil {
		m.CreatedAt = op.kept.meta().CreatedAt // restored rows regain their place in lists ordered by age
	}
	if p := k.priority(now); p.IsValid() && !given["priority"] {
		if err := k.last(ctx, tx, p); err != nil {
			return Change{}, err
		}
	}
	return k.store(ctx, r, tx, nil, now, Change{Kind: k.Name, Verb: "create"})
}

// newID returns the id of a new row.
func (k *kind) newID(ctx context.Context, tx *db.Tx, op Operation, now record) (uuid.UUID, error) {
	if k.NewID != nil && (op.ID == nil || op.Provisional) {
		if id, err := k.NewID(ctx, tx, now); err != nil || id != uuid.Nil {
			return id, err
		}
	}
	if op.ID != nil {
		return *op.ID, nil
	}
	return uuid.NewV7()
}

func (k *kind) update(ctx context.Context, r *Registry, tx *db.Tx, op Operation) (Change, error) {
	was, change, err := k.stored(ctx, tx, op)
	if err != nil {
		return Change{}, err
	}
	now := k.copied(was)
	given, err := k.decode(op, now)
	if err != nil {
		return Change{}, err
	}
	if op.notes != nil {
		var c check.List
		for field := range given {
			c.That(slices.Contains(op.notes, field), field, "cannot be changed with PATCH, which accepts only %s", strings.Join(op.notes, " and "))
		}
		if err := c.Err(); err != nil {
			return Change{}, err
		}
	}
	now.meta().UpdatedAt = r.Clock.Now()
	if change.first {
		now.meta().CreatedAt = now.meta().UpdatedAt
		was = nil
	}
	if op.whole {
		ctx = context.WithValue(ctx, restored{}, true)
	}
	return k.store(ctx, r, tx, was, now, change)
}

// store checks and writes a row.
func (k *kind) store(ctx context.Context, r *Registry, tx *db.Tx, was, now record, change Change) (Change, error) {
	if k.Check != nil {
		if err := k.Check(ctx, tx, was, now); err != nil {
			return Change{}, err
		}
	}
	change.idle = was != nil && !slices.ContainsFunc(k.codec.fields, func(f wire.Field) bool { return !isMeta(f) && !equal(f, was, now) })
	m := now.meta()
	sql, args, err := k.codec.statement(r.Secrets, was, now)
	if err != nil {
		return Change{}, err
	}
	if sql != "" {
		tx.Queue(sql, args...)
	}
	change.ID, change.Name = m.ID.String(), labelOf(now)
	change.row = apply.Row{Kind: k.Name, Was: was, Now: now}
	if change.After, err = k.encode(ctx, tx, now); err != nil {
		return Change{}, err
	}
	if change.Verb == "create" {
		change.Usual = k.usual(now)
	}
	change.fields, err = k.differences(was, now)
	return change, err
}

func (k *kind) remove(ctx context.Context, r *Registry, tx *db.Tx, op Operation) (Change, error) {
	was, change, err := k.stored(ctx, tx, op)
	if err != nil {
		return Change{}, err
	}
	if k.Check != nil {
		if err := k.Check(ctx, tx, was, nil); err != nil {
			return Change{}, err
		}
	}
	if change.with, err = r.with(ctx, tx, k.Table, was.meta().ID); err != nil {
		return Change{}, err
	}
	tx.Queue(k.codec.del, was.meta().ID)
	change.row = apply.Row{Kind: k.Name, Was: was}
	change.fields, err = k.differences(was, nil)
	return change, err
}

// stored reads and locks the row of an operation, and begins its change.
func (k *kind) stored(ctx context.Context, tx *db.Tx, op Operation) (record, Change, error) {
	where, args := " FOR UPDATE", []any(nil)
	if op.ID != nil {
		where, args = " WHERE "+k.key+" = $1 FOR UPDATE", []any{*op.ID}
	}
	was, err := k.get(ctx, tx, where, args...)
	first := k.extends != "" && fault.Is(err, fault.NotFound)
	if first {
		// Lock the extended row, which exists, against others who store the extension for the first time; one of them may have
		// just done so.
		if was, err = k.defaults(ctx, tx, *op.ID, " FOR NO KEY UPDATE"); err == nil {
			stored, again := k.get(ctx, tx, where, args...)
			switch {
			case again == nil:
				was, first = stored, false
			case !fault.Is(again, fault.NotFound):
				err = again
			}
		}
	}
	if err != nil {
		return nil, Change{}, err
	}
	change := Change{Kind: k.Name, Verb: op.Verb, ID: was.meta().ID.String(), Name: labelOf(was), Usual: []string{}, first: first}
	if change.Before, err = k.encode(ctx, tx, was); err != nil {
		return nil, Change{}, err
	}
	if op.ifMatch != "" {
		err = httpd.Match(op.ifMatch, httpd.ETag(change.Before))
	}
	return was, change, err
}

// encode returns a row as the API shows it.
func (k *kind) encode(ctx context.Context, q db.Querier, v record) (wire.Raw, error) {
	view := k.view(v)
	if err := k.join(ctx, q, view); err != nil {
		return nil, err
	}
	return wire.Encode(view)
}

func (k *kind) join(ctx context.Context, q db.Querier, rows ...record) error {
	if k.Join == nil || len(rows) == 0 {
		return nil
	}
	return k.Join(ctx, q, rows)
}

func (k *kind) view(v record) record {
	view := k.copied(v)
	k.complete(view)
	return view
}

// differences returns the fields that differ between two rows as the API shows them, and hence no secrets.
func (k *kind) differences(was, now record) (map[string][2]wire.Raw, error) {
	var rows [2]reflect.Value
	for i, row := range []record{was, now} {
		if row != nil {
			rows[i] = reflect.ValueOf(k.view(row)).Elem()
		}
	}
	differ := map[string][2]wire.Raw{}
	for _, f := range wire.Fields(k.typ)[metaFields:] {
		if f.Secret {
			continue
		}
		if rows[0].IsValid() && rows[1].IsValid() && reflect.DeepEqual(rows[0].FieldByIndex(f.Index).Interface(), rows[1].FieldByIndex(f.Index).Interface()) {
			continue
		}
		var pair [2]wire.Raw
		for i, row := range rows {
			if row.IsValid() {
				var err error
				if pair[i], err = wire.Encode(row.FieldByIndex(f.Index).Interface()); err != nil {
					return nil, err
				}
			}
		}
		differ[f.Name] = pair
	}
	return differ, nil
}

// usual lists the fields of a new row that have their default values. Required fields are not among them.
func (k *kind) usual(now record) []string {
	fresh, list := k.fresh(), []string{}
	now = k.view(now)
	for _, f := range wire.Fields(k.typ)[metaFields:] {
		if !f.Secret && !f.Required && equal(f, fresh, now) {
			list = append(list, f.Name)
		}
	}
	return list
}

var metaFields = reflect.TypeFor[Meta]().NumField()

// setsSecret reports whether an operation sets a field that the API never shows.
func (k *kind) setsSecret(op Operation) bool {
	given := wire.Given(op.Body)
	return slices.ContainsFunc(wire.Fields(k.typ), func(f wire.Field) bool { return (f.Secret || isPacked(f)) && given[f.Name] })
}

func (k *kind) table() Table {
	t := Table{Kind: k.Name, Name: k.Table, LocalColumns: k.LocalColumns, Key: k.key, Unkept: k.Unkept}
	if k.Local {
		t.Where = Local
	}
	for _, f := range k.codec.fields {
		if f.Name == "id" {
			t.Columns = append(t.Columns, k.key)
			continue
		}
		t.Columns = append(t.Columns, f.Name)
	}
	return t
}

// priority returns the row's priority field, if the kind has one. A nullable priority does not order rows.
func (k *kind) priority(v record) reflect.Value {
	for _, f := range k.codec.fields {
		if f.Name == "priority" && f.Type.Kind() != reflect.Pointer {
			return field(v, f)
		}
	}
	return reflect.Value{}
}

func (k *kind) ordered() bool { return k.priority(k.empty()).IsValid() }

// last gives a new row the last place.
func (k *kind) last(ctx context.Context, tx *db.Tx, priority reflect.Value) error {
	var n int64
	err := tx.QueryRow(ctx, "SELECT coalesce(max(priority), 0) + $1 FROM "+k.Table, int64(step)).Scan(&n)
	priority.SetInt(n)
	return err
}
