package resource

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/wire"
)

// codec holds the SQL of a kind, generated once from its struct.
type codec struct {
	fields                 []wire.Field
	packed                 []bool       // isPacked for each of fields
	prepared               []wire.Field // fields that implement Prepared
	secrets                secretState
	table, key             string
	columns                string // column list and table of a SELECT
	selectAll, insert, del string
}

// Prepared is a field that takes time to become what is stored, such as the hash of a password. Prepare runs before the
// transaction, so that no lock is held meanwhile. Previews store nothing and skip it.
type Prepared interface {
	wire.WriteOnly
	Prepare(ctx context.Context) error
}

func newCodec(t reflect.Type, table, key string) codec {
	c := codec{table: table, key: key, secrets: newSecretState(t)}
	var columns, values []string
	for _, f := range wire.Fields(t) {
		if !f.Stored {
			continue
		}
		c.fields = append(c.fields, f)
		c.packed = append(c.packed, isPacked(f))
		if reflect.PointerTo(f.Type).Implements(reflect.TypeFor[Prepared]()) {
			c.prepared = append(c.prepared, f)
		}
		name := c.column(f)
		columns = append(columns, name)
		values = append(values, fmt.Sprintf("$%d", len(columns)))
	}
	list, from := strings.Join(columns, ", "), pgx.Identifier{table}.Sanitize()
	c.columns = list + " FROM " + from
	c.selectAll = "SELECT " + c.columns
	c.insert = "INSERT INTO " + from + " (" + list + ") VALUES (" + strings.Join(values, ", ") + ")"
	c.del = "DELETE FROM " + from + " WHERE " + key + " = $1"
	return c
}

func (c *codec) column(f wire.Field) string {
	if f.Name == "id" {
		return c.key
	}
	return pgx.Identifier{f.Name}.Sanitize()
}

// isSealed reports whether the database holds the field encrypted under the master key.
func isSealed(f wire.Field) bool { return f.Type == reflect.TypeFor[secret.Text]() }

// isPacked reports whether the field is an object with secrets inside, which the database holds as JSON with only the secrets
// encrypted.
func isPacked(f wire.Field) bool { return secret.Holds(f.Type) }

// scan reads one row. Columns that precede those of the kind go into before.
func (c *codec) scan(row pgx.Row, into record, before ...any) error {
	v, dest := reflect.ValueOf(into).Elem(), make([]any, len(c.fields))
	var sealed map[int]*[]byte
	for i, f := range c.fields {
		if isSealed(f) || c.packed[i] {
			if sealed == nil {
				sealed = map[int]*[]byte{}
			}
			sealed[i] = new([]byte)
			dest[i] = sealed[i]
			continue
		}
		dest[i] = v.FieldByIndex(f.Index).Addr().Interface()
	}
	if err := row.Scan(append(before, dest...)...); err != nil {
		return err
	}
	for i, b := range sealed {
		if c.packed[i] {
			if err := secret.Unpack(*b, v.FieldByIndex(c.fields[i].Index).Addr().Interface()); err != nil {
				return fmt.Errorf("reading %s: %w", c.fields[i].Name, err)
			}
			continue
		}
		v.FieldByIndex(c.fields[i].Index).Set(reflect.ValueOf(secret.FromSealed(*b)))
	}
	return nil
}

// statement returns the SQL that writes a row: an INSERT for a new row, otherwise an UPDATE of the columns that differ. It is
// empty if none does.
func (c *codec) statement(box *secret.Box, was, now record) (sql string, args []any, err error) {
	id := now.meta().ID.String()
	var sets []string
	for i, f := range c.fields {
		v := field(now, f)
		if was != nil && f.Name != "id" && reflect.DeepEqual(field(was, f).Interface(), v.Interface()) {
			continue
		}
		arg := v.Interface()
		switch {
		case isSealed(f):
			if arg, err = v.Interface().(secret.Text).Sealed(box, c.table, f.Name, id); err != nil {
				return "", nil, fmt.Errorf("sealing %s: %w", f.Name, err)
			}
		case c.packed[i]:
			if arg, err = box.Pack(arg, c.table, f.Name, id); err != nil {
				return "", nil, fmt.Errorf("sealing %s: %w", f.Name, err)
			}
		case v.Kind() == reflect.Slice && v.IsNil():
			// the driver would send NULL
			arg = reflect.MakeSlice(v.Type(), 0, 0).Interface()
		}
		args = append(args, arg)
		sets = append(sets, fmt.Sprintf("%s = $%d", c.column(f), len(args)))
	}
	switch {
	case was == nil:
		return c.insert, args, nil
	case len(args) == 1:
		return "", nil, nil
	}
	return "UPDATE " + pgx.Identifier{c.table}.Sanitize() + " SET " + strings.Join(sets[1:], ", ") + " WHERE " + c.key + " = $1", args, nil
}

func errNotFound(title string) error {
	return fault.New(fault.NotFound, "This %s does not exist.", title)
}

// All reads every row in list order, for a room's Load. Callers must not modify what the rows point to: it is shared.
func (k *Kind[T]) All(ctx context.Context, q db.Querier) ([]T, error) {
	return typedList[T](k.kind.all(ctx, q))
}

// Where reads the rows that match an SQL condition, in list order.
func (k *Kind[T]) Where(ctx context.Context, q db.Querier, condition string, args ...any) ([]T, error) {
	return typedList[T](k.kind.where(ctx, q, condition, args...))
}

// Get reads one row. For an extension that was never stored, it returns the defaults.
func (k *Kind[T]) Get(ctx context.Context, q db.Querier, id uuid.UUID) (*T, error) {
	v, err := k.kind.byID(ctx, q, id)
	return typed[T](v), err
}

// Load reads the only row, for a room's Load.
func (s *Singleton[T]) Load(ctx context.Context, q db.Querier) (*T, error) {
	v, err := s.kind.get(ctx, q, "")
	return typed[T](v), err
}

func (k *kind) where(ctx context.Context, q db.Querier, condition string, args ...any) ([]record, error) {
	return k.query(ctx, q, " WHERE "+condition, args...)
}

func (k *kind) query(ctx context.Context, q db.Querier, where string, args ...any) ([]record, error) {
	rows, err := q.Query(ctx, k.codec.selectAll+where+k.orderBy(), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []record{}
	for rows.Next() {
		v := k.empty()
		if err := k.codec.scan(rows, v); err != nil {
			return nil, fmt.Errorf("reading %s: %w", k.Table, err)
		}
		list = append(list, v)
	}
	return list, rows.Err()
}

func (k *kind) orderBy() string {
	if k.Order == "" {
		return " ORDER BY " + k.key
	}
	return " ORDER BY " + k.Order + ", " + k.key
}

func (k *kind) byID(ctx context.Context, q db.Querier, id uuid.UUID) (record, error) {
	v, err := k.get(ctx, q, " WHERE "+k.key+" = $1", id)
	if k.extends != "" && fault.Is(err, fault.NotFound) {
		return k.defaults(ctx, q, id, "")
	}
	return v, err
}

// defaults returns the row of an extension that was never stored, provided that the row it extends exists. Its times are those of
// that row.
func (k *kind) defaults(ctx context.Context, q db.Querier, id uuid.UUID, lock string) (record, error) {
	v := k.fresh()
	meta := v.meta()
	err := q.QueryRow(ctx, "SELECT created_at FROM "+pgx.Identifier{k.extends}.Sanitize()+" WHERE id = $1"+lock, id).Scan(&meta.CreatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errNotFound(k.Title)
	}
	meta.ID, meta.UpdatedAt = id, meta.CreatedAt
	return v, err
}

func (k *kind) get(ctx context.Context, q db.Querier, where string, args ...any) (record, error) {
	v := k.empty()
	err := k.codec.scan(q.QueryRow(ctx, k.codec.selectAll+where, args...), v)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errNotFound(k.Title)
	}
	return v, err
}
