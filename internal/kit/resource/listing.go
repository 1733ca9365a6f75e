package resource

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/wire"
)

// listing is a whole list as it is sent, the state of the table that it shows, and when that was last so; with another master key, it says
// something else about secrets.
type listing struct {
	key   string
	state tableState
	list  httpd.Encoded
	at    db.Moment
}

// tableState tells two states of a table apart by which transaction wrote each row. It holds for every writer: this
// process, another one, replication, a person with psql.
type tableState struct{ rows, mark int64 }

// keepListing is the largest list that is kept.
const keepListing = 8 << 20

func (k *kind) state(ctx context.Context, q db.Querier) (s tableState, at db.Moment, err error) {
	var from []string
	for i, table := range append([]string{k.Table}, k.Joins...) {
		key := "id"
		if i == 0 {
			key = k.key
		}
		// Rows of two tables may have the same id and the same writer. Transactions have 32 bits, and above them is the table.
		from = append(from, fmt.Sprintf("SELECT uuid_hash_extended(%s, xmin::text::bigint + %d) AS hash FROM %s", key, i<<32, pgx.Identifier{table}.Sanitize()))
	}
	err = q.QueryRow(ctx, "SELECT "+db.NowMoment+", count(*), coalesce(bit_xor(hash), 0) FROM ("+strings.Join(from, " UNION ALL ")+") t").Scan(&at, &s.rows, &s.mark)
	return s, at, err
}

// encodedList is the list as it is sent. Reading, encoding and hashing is done once for each state of the table. Asking for the state costs a small part of
// that, and is only done when something was written since, in whatever table.
func (k *kind) encodedList(ctx context.Context, d *db.DB) (httpd.Encoded, error) {
	kept := k.listing.Load()
	key := k.box.KeyID()
	if kept != nil && kept.key == key {
		now, err := d.Moment(ctx)
		if err != nil {
			return httpd.Encoded{}, err
		}
		if kept.at == now {
			return kept.list, nil
		}
		state, at, err := k.state(ctx, d)
		if err != nil {
			return httpd.Encoded{}, err
		}
		if kept.state == state {
			k.listing.Store(&listing{key, state, kept.list, at})
			return kept.list, nil
		}
	}
	fresh := &listing{key: key}
	err := d.Snapshot(ctx, func(tx *db.Tx) (err error) {
		if fresh.state, fresh.at, err = k.state(ctx, tx); err != nil {
			return err
		}
		list, err := k.shown(ctx, tx, "")
		if err != nil {
			return err
		}
		fresh.list, err = encode(list)
		return err
	})
	if err == nil && fresh.list.Size() <= keepListing {
		k.listing.Store(fresh)
	}
	return fresh.list, err
}

func encode(list any) (httpd.Encoded, error) {
	b, err := wire.Encode(list)
	return httpd.Encode(b), err
}
