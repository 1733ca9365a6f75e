package resource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/wire"
)

// Kept is a past state of a row, beside its current one.
type Kept struct {
	Kind string
	ID   uuid.UUID
	Name string
	// Then and Now are the row as the API shows it; Now is nil if the row does not exist.
	Then, Now wire.Raw
	// Same reports that the row is now what it was then, secrets included.
	Same  bool
	table string
	op    Operation
}

// Recall reads a row that was kept as a JSON object of its columns. It returns nil if the table belongs to no kind.
func (r *Registry) Recall(ctx context.Context, q db.Querier, table string, row []byte) (*Kept, error) {
	if h := r.kindOf(table); h != nil {
		return h.recall(ctx, q, row)
	}
	return nil, nil
}

// Restore makes rows what they were then, as one change set: each is checked, audited and applied like any other change. Rows
// that others refer to come first. Faults name the index in rows.
func (r *Registry) Restore(ctx context.Context, rows []Kept, reason string) ([]Change, apply.Outcome, error) {
	above, err := r.refers(ctx, r.DB)
	if err != nil {
		return nil, nil, err
	}
	depth := depthsOf(above)
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(depth[rows[a].table], depth[rows[b].table]) })
	set := Set{Reason: reason, Listed: true}
	for _, i := range order {
		set.Operations = append(set.Operations, rows[i].op)
	}
	changes, outcome, err := r.Commit(ctx, set)
	if f, ok := errors.AsType[*fault.Error](err); ok && len(f.Fields) > 0 {
		named := *f
		named.Fields = map[string]string{}
		for field, text := range f.Fields {
			var n int
			if _, err := fmt.Sscanf(field, "operations.%d.", &n); err == nil && n < len(order) {
				_, field, _ = strings.Cut(strings.TrimPrefix(field, "operations."), ".")
				field = fmt.Sprintf("rows.%d.%s", order[n], strings.TrimPrefix(field, "body."))
			}
			named.Fields[field] = text
		}
		return nil, nil, &named
	}
	return changes, outcome, err
}

// refers maps each table to the tables that it refers to.
func (r *Registry) refers(ctx context.Context, q db.Querier) (map[string][]string, error) {
	rows, err := q.Query(ctx, `SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND conrelid <> confrelid`)
	if err != nil {
		return nil, err
	}
	above := map[string][]string{}
	var table, refers string
	if _, err = pgx.ForEachRow(rows, []any{&table, &refers}, func() error { above[table] = append(above[table], refers); return nil }); err != nil {
		return nil, err
	}
	for _, h := range r.kinds {
		for _, other := range h.Refers {
			if other != h.Table {
				above[h.Table] = append(above[h.Table], other)
			}
		}
	}
	return above, nil
}

// depthsOf counts the levels of tables above each table.
func depthsOf(above map[string][]string) map[string]int {
	depth := map[string]int{}
	var of func(table string, below map[string]bool) int
	of = func(table string, below map[string]bool) int {
		if d, known := depth[table]; known || below[table] {
			return d // a cycle has no first table
		}
		below[table] = true
		d := 0
		for _, x := range above[table] {
			d = max(d, of(x, below)+1)
		}
		delete(below, table)
		depth[table] = d
		return d
	}
	for _, table := range slices.Sorted(maps.Keys(above)) {
		of(table, map[string]bool{})
	}
	return depth
}

func (k *kind) recall(ctx context.Context, q db.Querier, row []byte) (*Kept, error) {
	then, err := k.image(ctx, q, row)
	if err != nil {
		return nil, err
	}
	m := then.meta()
	x := &Kept{Kind: k.Name, ID: m.ID, Name: labelOf(then), table: k.Table, op: Operation{Kind: k.Name, Verb: "update", ID: &m.ID, kept: then, whole: true}}
	if x.Then, err = k.encode(ctx, q, then); err != nil {
		return nil, err
	}
	var now record
	if k.single {
		x.op.ID = nil
		now, err = k.get(ctx, q, "")
	} else {
		now, err = k.byID(ctx, q, m.ID)
	}
	switch {
	case fault.Is(err, fault.NotFound):
		if k.extends == "" {
			x.op.Verb = "create"
		}
		return x, nil
	case err != nil:
		return nil, err
	}
	x.Same = k.same(then, now)
	x.Now, err = k.encode(ctx, q, now)
	return x, err
}

type restored struct{}

// Restored tells Check that the row as a whole becomes what it once was: the secrets that come back were entered for the
// destination that comes back with them.
func Restored(ctx context.Context) bool { return ctx.Value(restored{}) != nil }

func equal(f wire.Field, a, b record) bool {
	x, y := field(a, f), field(b, f)
	if x.Kind() == reflect.Slice && x.Len() == 0 && y.Len() == 0 {
		return true
	}
	if t, ok := x.Interface().(*time.Time); ok && t != nil {
		u := y.Interface().(*time.Time)
		return u != nil && t.Equal(*u)
	}
	return reflect.DeepEqual(x.Interface(), y.Interface())
}

// isMeta reports whether the gateway always sets the field itself.
func isMeta(f wire.Field) bool { return len(f.Index) > 1 && f.Index[0] == 0 }

// restore brings a row back to an old state. It leaves alone the columns without history and, if the row exists, the fields that
// the gateway maintains.
func (k *kind) restore(then, row record) (given map[string]bool, err error) {
	body := map[string]any{}
	there, maintained := row.meta().ID != uuid.Nil, k.maintained(row)
	for _, f := range k.codec.fields {
		if isMeta(f) || !k.keeps(f.Name) || there && maintained(f) {
			continue
		}
		field(row, f).Set(field(then, f))
		if f.Given {
			body[f.Name] = field(then, f).Interface()
		}
	}
	b, err := wire.Encode(body)
	if err != nil {
		return nil, err
	}
	if _, err := wire.Decode(b, row); err != nil { // Decode also validates the whole row
		return nil, err
	}
	return map[string]bool{"priority": true}, nil
}
