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

// known caches the rows of a large kind, so that reading all of them again costs little more than reading those that have
// changed.
type known struct {
	mu   sync.Mutex
	rows map[uuid.UUID]versioned
}

// versioned is one version of a row. The transaction that wrote it and its place in the table identify it, whoever the writer
// was: this process, another one, replication, a person with psql.
type versioned struct {
	version version
	row     record
}

type version struct {
	transaction uint32
	place       pgtype.TID
}

const versionColumns = "xmin, ctid"

// keepRows is the minimum number of rows that are worth caching.
const keepRows = 200

// all reads every row, in list order. Callers share the rows.
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
		// Rows read now may be newer than the versions read before; each is cached under its own version.
		err = k.each(ctx, q, " WHERE "+k.key+" = ANY ($1)", []any{missing}, func(x versioned) { list[at[x.row.meta().ID]] = x })
		list = slices.DeleteFunc(list, func(x versioned) bool { return x.row == nil }) // deleted in between
	}
	return list, err
}

// recall reads the current versions, and fills in the cached rows.
func (n *known) recall(ctx context.Context, k *kind, q db.Querier) (ids []uuid.UUID, list []versioned, err error) {
	rows, err := q.Query(ctx, "SELECT "+k.key+", "+versionColumns+" FROM "+k.Table+k.orderBy())
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		var x versioned
		// Scan ids as plain bytes: scanning thousands of them as text takes longer than the query.
		if err := rows.Scan((*[16]byte)(&id), &x.version.transaction, &x.version.place); err != nil {
			return nil, nil, fmt.Errorf("reading the versions of %s: %w", k.Table, err)
		}
		ids, list = append(ids, id), append(list, x)
	}
	// Lock only after the database has answered, so that other readers are not blocked.
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, id := range ids {
		if kept, there := n.rows[id]; there && kept.version == list[i].version {
			list[i].row = kept.row
		}
	}
	return ids, list, rows.Err()
}

// keep caches rows if there are enough of them.
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
