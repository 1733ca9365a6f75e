package resource

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/wire"
)

func (k *kind) some(has func(column string) bool) (c codec, columns string) {
	c = codec{table: k.codec.table, key: k.codec.key}
	var names []string
	for i, f := range k.codec.fields {
		column := f.Name
		if column == "id" {
			column = k.key
		}
		if has(column) {
			c.fields, c.packed, names = append(c.fields, f), append(c.packed, k.codec.packed[i]), append(names, k.codec.column(f))
		}
	}
	return c, strings.Join(names, ", ")
}

func (k *kind) keeps(column string) bool {
	return !slices.Contains(k.LocalColumns, column) && !slices.Contains(k.Unkept, column)
}

// image decodes a row that was kept as a JSON object of its columns. Missing columns have their defaults.
func (k *kind) image(ctx context.Context, q db.Querier, row []byte) (record, error) {
	list, err := k.images(ctx, q, [][]byte{row})
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// images decodes several rows. Those with the same columns, as written by the same schema version, are decoded by one query.
func (k *kind) images(ctx context.Context, q db.Querier, rows [][]byte) ([]record, error) {
	list := make([]record, len(rows))
	groups := map[string][]int{}
	for i, row := range rows {
		if row == nil {
			continue
		}
		var object map[string]jsontext.Value
		if err := json.Unmarshal(row, &object); err != nil {
			return nil, unreadable(err)
		}
		var missing []string
		k.some(func(column string) bool {
			if _, there := object[column]; !there || !k.keeps(column) {
				missing = append(missing, column)
			}
			return false
		})
		group := strings.Join(missing, " ")
		groups[group] = append(groups[group], i)
	}
	for group, places := range groups {
		missing := strings.Fields(group)
		c, columns := k.some(func(column string) bool { return !slices.Contains(missing, column) })
		together := make([][]byte, len(places))
		for i, place := range places {
			together[i] = rows[place]
		}
		array, err := json.Marshal(values(together))
		if err != nil {
			return nil, err
		}
		found, err := q.Query(ctx, "SELECT "+columns+" FROM ROWS FROM (jsonb_populate_recordset(NULL::"+pgx.Identifier{k.Table}.Sanitize()+", $1::jsonb)) WITH ORDINALITY ORDER BY ordinality", string(array))
		if err != nil {
			return nil, unreadable(err)
		}
		for i := 0; found.Next(); i++ {
			v := k.fresh()
			if err := c.scan(found, v); err != nil {
				found.Close()
				return nil, unreadable(err)
			}
			list[places[i]] = v
		}
		if err := found.Err(); err != nil {
			return nil, unreadable(err)
		}
	}
	return list, nil
}

func unreadable(err error) error {
	return fault.Wrap(fault.Invalid, err, "The row cannot be read. It may be of another version of the gateway.")
}

// at reads rows as they were at a moment, in list order; with an id, that row alone.
func (k *kind) at(ctx context.Context, r *Registry, moment time.Time, id *uuid.UUID) (list []record, err error) {
	err = r.DB.Snapshot(ctx, func(tx *db.Tx) error {
		list, err = k.atIn(ctx, r, tx, moment, id)
		return err
	})
	return list, err
}

func (k *kind) atIn(ctx context.Context, r *Registry, tx *db.Tx, moment time.Time, id *uuid.UUID) ([]record, error) {
	if err := r.Changes.Reaches(ctx, tx, "at", moment); err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	where, args := "", []any(nil)
	if id != nil {
		ids, where, args = []uuid.UUID{*id}, " WHERE "+k.key+" = $1", []any{*id}
	}
	now, err := k.query(ctx, tx, where, args...)
	if err != nil {
		return nil, err
	}
	past, err := r.past(ctx, tx, k, moment, ids)
	if err != nil {
		return nil, err
	}
	rows := map[uuid.UUID]record{}
	for _, v := range now {
		rows[v.meta().ID] = v
	}
	var changed []uuid.UUID
	var was [][]byte
	for id, row := range past {
		changed = append(changed, id)
		if row.Was == nil {
			delete(rows, id)
			continue
		}
		was = append(was, row.Was)
	}
	images, err := k.images(ctx, tx, was)
	if err != nil {
		return nil, err
	}
	for _, then := range images {
		if current := rows[then.meta().ID]; current != nil {
			k.copyUnkept(current, then)
		}
		rows[then.meta().ID] = then
	}
	order, err := k.sorted(ctx, tx, changed, was)
	if err != nil {
		return nil, err
	}
	list := make([]record, 0, len(rows))
	for _, id := range order {
		if v := rows[id]; v != nil {
			list = append(list, k.view(v))
		}
	}
	return list, k.join(ctx, tx, list...)
}

// copyUnkept copies the columns without history from a current row to a past one.
func (k *kind) copyUnkept(from, to record) {
	for _, f := range k.codec.fields {
		if !k.keeps(f.Name) {
			field(to, f).Set(field(from, f))
		}
	}
}

// sorted returns the ids of rows in list order: unchanged rows as they are in the table, and changed ones as they were.
func (k *kind) sorted(ctx context.Context, tx *db.Tx, changed []uuid.UUID, was [][]byte) ([]uuid.UUID, error) {
	array, err := json.Marshal(values(was))
	if err != nil {
		return nil, err
	}
	table := pgx.Identifier{k.Table}.Sanitize()
	rows, err := tx.Query(ctx, "SELECT "+k.key+" FROM (SELECT * FROM "+table+" WHERE "+k.key+" <> ALL ($1) UNION ALL SELECT * FROM jsonb_populate_recordset(NULL::"+table+", $2::jsonb)) t"+k.orderBy(),
		append([]uuid.UUID{}, changed...), string(array)) // an empty array: with NULL, no row would match
	if err != nil {
		return nil, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return ids, err
}

func values(list [][]byte) []jsontext.Value {
	all := make([]jsontext.Value, len(list))
	for i := range list {
		all[i] = list[i]
	}
	return all
}

func (k *kind) pastAt(ctx context.Context, r *Registry, moment time.Time, id uuid.UUID) (wire.Raw, error) {
	list, err := k.at(ctx, r, moment, &id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fault.New(fault.NotFound, "This %s did not exist at that time.", k.Title)
	}
	return wire.Encode(list[0])
}

// past returns the past state of the rows that were changed after a moment.
func (r *Registry) past(ctx context.Context, q db.Querier, h *kind, moment time.Time, ids []uuid.UUID) (map[uuid.UUID]changes.Row, error) {
	rows, err := r.Changes.Since(ctx, q, h.Table, moment, ids)
	found := make(map[uuid.UUID]changes.Row, len(rows))
	for _, row := range rows {
		found[row.ID] = row
	}
	return found, err
}
