package resource

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"reflect"
	"slices"
	"sort"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

// Order is the body of a reorder.
type Order struct {
	// The size limit of the body applies instead.
	IDs []uuid.UUID `json:"ids" required:"true" maxItems:"1000000" doc:"Every id, in the wanted order."`
}

// Place is the body of a move.
type Place struct {
	After *uuid.UUID `json:"after" given:"true" doc:"Id of the row that it comes after; null puts it first."`
}

// step is the distance between neighbouring priorities. It leaves room to insert rows.
const step = 10

func (k *kind) mountOrder(r *Registry) {
	x := k.route(r)
	r.Router.Add(httpd.Route{Doc: x.doc("reorder", "Put every "+k.Title+" in order"), Method: http.MethodPost, Path: k.Path + "/reorder", Policy: x.write, In: reflect.TypeFor[noInput](),
		Body: &httpd.SchemaSource{Type: reflect.TypeFor[Order](), Suffix: "Input", New: true}, Out: &httpd.SchemaSource{Type: k.typ, List: true}}, func(c *httpd.Call) error {
		var in struct{ Body Order }
		if err := httpd.Query(c.Request, &in); err != nil {
			return err
		}
		var list []record
		outcome, err := k.commit(c, r, func(tx *db.Tx) (_ []apply.Row, err error) {
			list, err = k.reorder(c, r, tx, in.Body.IDs)
			return nil, err
		})
		if err != nil {
			return err
		}
		Applied(c, outcome, Change{by: r.Engine.ConfirmBy(changes.From(c).Set)})
		return c.Reply(list)
	})
	doc := x.doc("move", "Move one "+k.Title+" to another position")
	doc.State = k.Path
	r.Router.Add(httpd.Route{Doc: doc, Method: http.MethodPost, Path: k.Path + "/{id}/move", Policy: x.write, In: reflect.TypeFor[idInput](),
		Body: &httpd.SchemaSource{Type: reflect.TypeFor[Place](), Suffix: "Input", New: true}, Out: &httpd.SchemaSource{Type: k.typ}}, func(c *httpd.Call) error {
		var in struct {
			ID   uuid.UUID `path:"id"`
			Body Place
		}
		if err := httpd.Query(c.Request, &in); err != nil {
			return err
		}
		var change Change
		outcome, err := k.commit(c, r, func(tx *db.Tx) (rows []apply.Row, err error) {
			change, rows, err = k.move(c, r, tx, in.ID, in.Body.After)
			return rows, err
		})
		if err != nil {
			return err
		}
		change.by = r.Engine.ConfirmBy(changes.From(c).Set)
		Applied(c, outcome, change)
		c.Header().Set("ETag", httpd.ETag(change.After))
		return c.Reply(change.After)
	})
}

func (k *kind) commit(ctx context.Context, r *Registry, write apply.Write) (apply.Outcome, error) {
	if k.Local {
		return r.Engine.CommitBoth(ctx, nil, k.Feeds, write)
	}
	return r.Engine.Commit(ctx, k.Feeds, write)
}

func (k *kind) reorder(ctx context.Context, r *Registry, tx *db.Tx, ids []uuid.UUID) ([]record, error) {
	found, err := k.number(ctx, r, tx, ids)
	if err != nil {
		return nil, err
	}
	list, err := k.views(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	if found != int64(len(list)) || len(ids) != len(list) {
		return nil, fault.Field("ids", "must list each of the %d rows once", len(list))
	}
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = k.nameOf(v)
	}
	return list, r.Audit.Write(ctx, tx, k.Name+".reorder", "every "+k.Title, map[string]any{"order": names, "change_set": changes.From(ctx).Set})
}

// number gives rows new priorities in the order of their ids, and returns how many rows exist.
func (k *kind) number(ctx context.Context, r *Registry, tx *db.Tx, ids []uuid.UUID) (int64, error) {
	tag, err := tx.Exec(ctx, "UPDATE "+k.Table+" t SET priority = o.n * $2, updated_at = $3 FROM unnest($1::uuid[]) WITH ORDINALITY o(id, n) WHERE t.id = o.id",
		ids, int64(step), r.Clock.Now())
	return tag.RowsAffected(), err
}

// move puts a row right after another, or first. It changes only that row if there is room between its new neighbours, and
// otherwise renumbers all rows.
func (k *kind) move(ctx context.Context, r *Registry, tx *db.Tx, id uuid.UUID, after *uuid.UUID) (Change, []apply.Row, error) {
	was, change, err := k.stored(ctx, tx, Operation{Verb: "move", ID: &id})
	if err != nil {
		return Change{}, nil, err
	}
	ids, priorities, err := k.order(ctx, tx)
	if err != nil {
		return Change{}, nil, err
	}
	from := slices.Index(ids, id)
	ids, priorities = slices.Delete(ids, from, from+1), slices.Delete(priorities, from, from+1)
	to, details := 0, moveDetails{}
	if after != nil {
		if to = slices.Index(ids, *after) + 1; to == 0 {
			return Change{}, nil, fault.Field("after", "No other %s has this id.", k.Title)
		}
		before, err := k.get(ctx, tx, " WHERE "+k.key+" = $1", *after)
		if err != nil {
			return Change{}, nil, err
		}
		name := k.nameOf(before)
		details.After = &name
	}
	now := k.copied(was)
	now.meta().UpdatedAt = r.Clock.Now()
	numbered := false
	// A row that shares the priority of its predecessor gets its own even if it does not move, so that there is room between
	// them.
	if to != from || to > 0 && priorities[to-1] == k.priority(was).Int() {
		priority, room := between(priorities, to)
		if numbered = !room; numbered {
			if _, err := k.number(ctx, r, tx, slices.Insert(ids, to, id)); err != nil {
				return Change{}, nil, err
			}
			priority = int64(to+1) * step
		}
		k.priority(now).SetInt(priority)
	}
	if change, err = k.store(ctx, r, tx, was, now, change); err != nil {
		return Change{}, nil, err
	}
	details.auditDetails = auditDetails{ID: change.ID, Fields: change.fields, ChangeSet: change.set(ctx)}
	err = r.Audit.Write(ctx, tx, k.Name+".move", change.Name, details)
	if numbered {
		return change, nil, err // more than this row has changed
	}
	return change, []apply.Row{change.row}, err
}

// moveDetails names the row that this one follows; null means that it is first.
type moveDetails struct {
	auditDetails
	After *string `json:"after"`
}

func (k *kind) order(ctx context.Context, tx *db.Tx) (ids []uuid.UUID, priorities []int64, err error) {
	rows, err := tx.Query(ctx, "SELECT id, priority FROM "+k.Table+k.orderBy())
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		var priority int64
		if err := rows.Scan(&id, &priority); err != nil {
			return nil, nil, err
		}
		ids, priorities = append(ids, id), append(priorities, priority)
	}
	return ids, priorities, rows.Err()
}

// Amended applies a change of one row to a list that All has read. The position of a new row is right only if rows are ordered by
// priority or age.
func (k *Kind[T]) Amended(list []*T, row apply.Row) []*T {
	list = slices.Clone(list) // others share it
	if was, ok := row.Was.(*T); ok {
		id := recordOf(was).meta().ID
		has := func(r *T) bool { return recordOf(r).meta().ID == id }
		i := k.behind(list, was) - 1
		if i < 0 || !has(list[i]) {
			i = slices.IndexFunc(list, has) // the rows are in another order
		}
		if i >= 0 {
			list = slices.Delete(list, i, i+1)
		}
	}
	now, ok := row.Now.(*T)
	if !ok {
		return list
	}
	own := *now // the original belongs to the change
	return slices.Insert(list, k.behind(list, now), &own)
}

// behind returns the index of the first row of a list that comes after this one.
func (k *Kind[T]) behind(list []*T, row *T) int {
	mine, priority := recordOf(row).meta(), k.kind.priority(recordOf(row))
	return sort.Search(len(list), func(i int) bool {
		other, before := recordOf(list[i]).meta(), 0
		if priority.IsValid() {
			before = cmp.Compare(k.kind.priority(recordOf(list[i])).Int(), priority.Int())
		}
		// The database stores microseconds.
		age := other.CreatedAt.Truncate(time.Microsecond).Compare(mine.CreatedAt.Truncate(time.Microsecond))
		return cmp.Or(before, age, slices.Compare(other.ID[:], mine.ID[:])) > 0
	})
}

// between returns a priority for a row that is inserted at place, if its neighbours leave room.
func between(priorities []int64, place int) (priority int64, room bool) {
	switch {
	case place == 0:
		next := priorities[0]
		return next - step, next >= math.MinInt64+step
	case place == len(priorities):
		last := priorities[place-1]
		return last + step, last <= math.MaxInt64-step
	}
	low, high := priorities[place-1], priorities[place]
	distance := uint64(high) - uint64(low) // correct for any two numbers, despite overflow
	return low + int64(distance/2), distance >= 2
}
