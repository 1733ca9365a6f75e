package resource

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
)

// reference is a foreign key with ON DELETE CASCADE.
type reference struct {
	Table, Column string
	Named         bool // it has the columns id and name, even if it belongs to no kind
}

// references returns all cascading foreign keys by the table that they refer to. They are read once: the schema does not change
// while the program runs.
func (r *Registry) references(ctx context.Context, tx *db.Tx) (map[string][]reference, error) {
	if known := r.below.Load(); known != nil {
		return *known, nil
	}
	rows, err := tx.Query(ctx, `
		SELECT c.confrelid::regclass::text, c.conrelid::regclass::text, a.attname::text,
			(SELECT count(*) = 2 FROM pg_attribute n WHERE n.attrelid = c.conrelid AND n.attname IN ('id', 'name'))
		FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
		WHERE c.contype = 'f' AND c.confdeltype = 'c' ORDER BY 2`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string][]reference{}
	for rows.Next() {
		var to string
		var x reference
		if err := rows.Scan(&to, &x.Table, &x.Column, &x.Named); err != nil {
			return nil, err
		}
		found[to] = append(found[to], x)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	r.below.Store(&found)
	return found, nil
}

// with lists the rows that are deleted along with a row, transitively.
func (r *Registry) with(ctx context.Context, tx *db.Tx, table string, id uuid.UUID) ([]User, error) {
	references, err := r.references(ctx, tx)
	if err != nil {
		return nil, err
	}
	var all []User
	for _, x := range references[table] {
		list, err := r.referring(ctx, tx, x, id)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
		if len(references[x.Table]) == 0 {
			continue
		}
		for _, u := range list {
			below, err := r.with(ctx, tx, x.Table, u.ID)
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
		}
	}
	return all, nil
}

// referring lists the rows of one table that refer to a row. Rows without a name are omitted: they mean nothing to people.
func (r *Registry) referring(ctx context.Context, tx *db.Tx, x reference, id uuid.UUID) ([]User, error) {
	for _, h := range r.kinds {
		if h.Table == x.Table {
			return h.users(ctx, tx, x.Column, id)
		}
	}
	if !x.Named {
		return nil, nil
	}
	rows, err := tx.Query(ctx, "SELECT $2::text, id, name FROM "+x.Table+" WHERE "+pgx.Identifier{x.Column}.Sanitize()+" = $1 ORDER BY name", id, x.Table)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[User])
}

func (k *kind) users(ctx context.Context, q db.Querier, column string, id uuid.UUID) ([]User, error) {
	rows, err := k.where(ctx, q, pgx.Identifier{column}.Sanitize()+" = $1", id)
	list := make([]User, len(rows))
	for i, v := range rows {
		list[i] = User{Kind: k.Name, ID: v.meta().ID, Name: labelOf(v)}
	}
	return list, err
}
