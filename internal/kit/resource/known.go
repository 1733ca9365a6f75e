package resource

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"edge.internal/gateway/internal/kit/db"
)

// known keeps the rows of a large kind as they were last read, so that reading all of them again costs little more than
// what has changed since.
type known struct {
	mu   sync.Mutex
	rows map[uuid.UUID]versioned
}

// versioned is one version of a row. The transaction that wrote it and its place in the table tell it from every other,
// whoever wrote it: this process, another one, replication, a person with psql.
type versioned struct {
	version version
	row     record
}

type version struct {
	transaction uint32
	place       pgtype.TID
}

const versionColumns = "xmin, ctid"

// keepRows is from how many rows on they are kept.
const keepRows = 200

// all reads every row, in order. Those who come later may get the same rows.
func (k *kind) all(ctx context.Context, q db.Querier) ([]record, error) {
	list, err := k.known.read(ctx, k, q)
	if err != nil {
		return nil, err
	}
	k.known.keep(list)
	rows := make([]record, len(list))
	for i := range list {
		rows[i] = list[i].row
	}
	return rows, nil
}

func (n *known) read(ctx context.Context, k *kind, q db.Querier) (list []versioned, err error) {
	n.mu.Lock()
	none := len(n.rows) == 0
	n.mu.Unlock()
	if none {
		err := k.each(ctx, q, k.orderBy(), nil, func(x versioned) { list = append(list, x) })
		return list, err
	}
	ids, list, err := n.recall(ctx, k, q)
	if err != nil {
		return nil, err
	}
	var missing []uuid.UUID
	at := map[uuid.UUID]int{}
	for i := range list {
		if list[i].row == nil {
			missing = append(missing, ids[i])
			at[ids[i]] = i
		}
	}
	if len(missing) > 0 {
		// What is read now may be newer than the versions were; each is kept under its own.
		err = k.each(ctx, q, " WHERE "+k.key+" = ANY ($1)", []any{missing}, func(x versioned) { list[at[x.row.meta().ID]] = x })
		list = slices.DeleteFunc(list, func(x versioned) bool { return x.row == nil }) // deleted in between
	}
	return list, err
}

// recall reads which versions there are, and finds those that are known.
func (n *known) recall(ctx context.Context, k *kind, q db.Querier) (ids []uuid.UUID, list []versioned, err error) {
	rows, err := q.Query(ctx, "SELECT "+k.key+", "+versionColumns+" FROM "+k.Table+k.orderBy())
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		var x versioned
		// As plain bytes: by way of text, as the type scans itself, thousands of ids take longer than the query.
		if err := rows.Scan((*[16]byte)(&id), &x.version.transaction, &x.version.place); err != nil {
			return nil, nil, fmt.Errorf("reading the versions of %s: %w", k.Table, err)
		}
		ids, list = append(ids, id), append(list, x)
	}
	// Not before the database has answered: others read at the same time.
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, id := range ids {
		if kept, there := n.rows[id]; there && kept.version == list[i].version {
			list[i].row = kept.row
		}
	}
	return ids, list, rows.Err()
}

// keep remembers what was read, if it is worth it.
func (n *known) keep(list []versioned) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(list) < keepRows || len(n.rows) > 2*len(list) {
		n.rows = nil
	}
	if len(list) < keepRows {
		return
	}
	if n.rows == nil {
		n.rows = make(map[uuid.UUID]versioned, len(list))
	}
	for _, x := range list {
		n.rows[x.row.meta().ID] = x
	}
}

// each reads rows with their version.
func (k *kind) each(ctx context.Context, q db.Querier, where string, args []any, f func(versioned)) error {
	rows, err := q.Query(ctx, "SELECT "+versionColumns+", "+k.codec.columns+where, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		x := versioned{row: k.empty()}
		if err := k.codec.scan(rows, x.row, &x.version.transaction, &x.version.place); err != nil {
			return fmt.Errorf("reading %s: %w", k.Table, err)
		}
		f(x)
	}
	return rows.Err()
}
