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

// listing is an encoded list, the table state that it was read from, and the last moment at which that state was confirmed. It
// depends on the master key, which determines which secrets are readable.
type listing struct {
	key   string
	state tableState
	list  httpd.Encoded
	at    db.Moment
}

// tableState is a fingerprint of which transaction wrote each row. It detects every writer: this process, another one,
// replication, a person with psql.
type tableState struct{ rows, mark int64 }

// keepListing is the size of the largest list that is cached.
const keepListing = 8 << 20

func (k *kind) state(ctx context.Context, q db.Querier) (s tableState, at db.Moment, err error) {
	var from []string
	for i, table := range append([]string{k.Table}, k.Joins...) {
		key := "id"
		if i == 0 {
			key = k.key
		}
		// Rows of two tables may have the same id and the same writer. Transaction ids have 32 bits; the bits above hold the
		// table.
		from = append(from, fmt.Sprintf("SELECT uuid_hash_extended(%s, xmin::text::bigint + %d) AS hash FROM %s", key, i<<32, pgx.Identifier{table}.Sanitize()))
	}
	err = q.QueryRow(ctx, "SELECT "+db.NowMoment+", count(*), coalesce(bit_xor(hash), 0) FROM ("+strings.Join(from, " UNION ALL ")+") t").Scan(&at, &s.rows, &s.mark)
	return s, at, err
}

// encodedList returns the encoded list of all rows. It reads, encodes and hashes once per state of the table. Checking the state
// costs a small fraction of that, and happens only if something was written since, in any table.
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
		list, err := k.views(ctx, tx, "")
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
