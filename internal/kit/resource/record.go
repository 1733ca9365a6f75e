package resource

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/wire"
)

// record is a row in memory: a pointer to a kind's type, or nil.
type record interface{ meta() *Meta }

// kind is a Kind with its type parameter erased. Operations on rows are methods of kind, which are compiled once; methods of Kind
// would be compiled for each type, in each package that uses it.
type kind struct {
	Name, Title, Path, Table, Order             string
	Feeds                                       []apply.ID
	Local, Apart, AdminOnly                     bool
	LocalColumns, Unkept, Natural, Notes, Joins []string
	Refers                                      map[string]string
	Unforeseen                                  map[Area]string

	// The hooks take rows of the kind. All but fresh may be nil.
	fresh     func() record
	NewID     func(ctx context.Context, tx *db.Tx, now record) (uuid.UUID, error)
	Canonical func(now record, of string)
	Made      func(v record) []string
	Passing   func(v record) bool
	Prepare   func(ctx context.Context, was, now record) (give func(now record), err error)
	Check     func(ctx context.Context, tx *db.Tx, was, now record) error
	View      func(v record)
	Join      func(ctx context.Context, q db.Querier, rows []record) error

	typ            reflect.Type
	key            string // id column
	extends        string // table whose rows these extend
	single         bool   // has exactly one row, which a migration creates and nothing deletes
	Column, Parent string

	codec   codec
	box     *secret.Box
	listing atomic.Pointer[listing]
	known   known
}

// erased returns the kind without its type parameter.
func (k *Kind[T]) erased() *kind {
	x := &kind{
		Name: k.Name, Title: k.Title, Path: k.Path, Table: k.Table, Order: k.Order, Feeds: k.Feeds, Local: k.Local, Apart: k.Apart, AdminOnly: k.AdminOnly,
		LocalColumns: k.LocalColumns, Unkept: k.Unkept, Natural: k.Natural, Notes: k.Notes, Joins: k.Joins, Refers: k.Refers, Unforeseen: k.Unforeseen,
		typ: reflect.TypeFor[T](), key: k.Key, fresh: func() record { return recordOf(new(T)) },
	}
	if k.New != nil {
		x.fresh = func() record { v := k.New(); return recordOf(&v) }
	}
	if k.NewID != nil {
		x.NewID = func(ctx context.Context, tx *db.Tx, now record) (uuid.UUID, error) {
			return k.NewID(ctx, tx, typed[T](now))
		}
	}
	if k.Canonical != nil {
		x.Canonical = func(now record, of string) { k.Canonical(typed[T](now), of) }
	}
	if k.Made != nil {
		x.Made = func(v record) []string { return k.Made(typed[T](v)) }
	}
	if k.Passing != nil {
		x.Passing = func(v record) bool { return k.Passing(typed[T](v)) }
	}
	if k.Prepare != nil {
		x.Prepare = func(ctx context.Context, was, now record) (func(record), error) {
			give, err := k.Prepare(ctx, typed[T](was), typed[T](now))
			if give == nil {
				return nil, err
			}
			return func(now record) { give(typed[T](now)) }, err
		}
	}
	if k.Check != nil {
		x.Check = func(ctx context.Context, tx *db.Tx, was, now record) error {
			return k.Check(ctx, tx, typed[T](was), typed[T](now))
		}
	}
	if k.View != nil {
		x.View = func(v record) { k.View(typed[T](v)) }
	}
	if k.Join != nil {
		x.Join = func(ctx context.Context, q db.Querier, rows []record) error {
			list := make([]*T, len(rows))
			for i, v := range rows {
				list[i] = typed[T](v)
			}
			return k.Join(ctx, q, list)
		}
	}
	return x
}

func recordOf[T any](v *T) record { return any(v).(record) }

// typed converts a row to its type; nil stays nil.
func typed[T any](v record) *T {
	t, _ := any(v).(*T)
	return t
}

func typedList[T any](rows []record, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	list := make([]T, len(rows))
	for i, v := range rows {
		list[i] = *typed[T](v)
	}
	return list, nil
}

// register validates the kind and adds it to the registry.
func (k *kind) register(r *Registry) {
	if r.kinds[k.Name] != nil {
		panic("kind " + k.Name + " is registered twice")
	}
	if first := k.typ.Field(0); first.Type != reflect.TypeFor[Meta]() {
		panic(fmt.Sprintf("%s does not embed resource.Meta first", k.typ))
	}
	if k.key == "" {
		k.key = "id"
	}
	k.codec = newCodec(k.typ, k.Table, k.key)
	k.box = r.Secrets
	r.kinds[k.Name] = k
	if k.AdminOnly {
		r.Audit.AdminOnly(k.Name)
	}
	if k.Path != "" && k.ordered() {
		k.mountOrder(r)
	}
}

// empty returns a row without defaults.
func (k *kind) empty() record { return reflect.New(k.typ).Interface().(record) }

// copied returns a shallow copy of a row.
func (k *kind) copied(v record) record {
	c := reflect.New(k.typ)
	c.Elem().Set(reflect.ValueOf(v).Elem())
	return c.Interface().(record)
}

func field(v record, f wire.Field) reflect.Value {
	return reflect.ValueOf(v).Elem().FieldByIndex(f.Index)
}

func labelOf(v record) string {
	if l, ok := v.(Labeled); ok {
		return l.Label()
	}
	return v.meta().ID.String()
}
