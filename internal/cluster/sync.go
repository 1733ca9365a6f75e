package cluster

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/resource"
)

// Folder holds the files of rows that only this node had, below the state folder.
const Folder = "cluster"

// Follow makes this node a standby of another one, or synchronises a standby with its primary again. A node without a cluster joins this
// way, and a fenced one rejoins. force allows more than half of the rows to be deleted.
func (r *Room) Follow(ctx context.Context, primary Node, conninfo string, force bool) (replica.Result, error) {
	var theirs State
	s := replica.Sync{
		Here: r.DB, Primary: conninfo, Node: r.node().ID, Folder: r.Paths.State(Folder), MostMayGo: force,
		Judge: func(ctx context.Context, q db.Querier) (err error) {
			mine, err := Load(ctx, r.DB)
			if err != nil {
				return err
			}
			if err := mine.mayFollow(); err != nil {
				return err
			}
			if theirs, err = Load(ctx, q); err != nil {
				return err
			}
			return follows(mine, theirs)
		},
		Begin: func(ctx context.Context, tx pgx.Tx) error {
			mine, err := Load(ctx, tx)
			if err != nil {
				return err
			}
			if mine.Role == Single {
				// Its running changes have ended, and waiting ones will see a standby.
				if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(22, 0)"); err != nil {
					return err
				}
				if mine, err = Load(ctx, tx); err != nil {
					return err
				}
			}
			return mine.mayFollow()
		},
		End: func(ctx context.Context, tx pgx.Tx, result replica.Result) error {
			now := r.Clock.Now()
			_, err := tx.Exec(ctx, `UPDATE ha_state SET changed_at = CASE WHEN role = 'standby' AND epoch = $2 THEN changed_at ELSE $5 END,
				role = $1, epoch = $2, primary_id = $3, primary_name = $4, slot = $6, synced_at = $5`, Standby, theirs.Epoch, primary.ID, primary.Name, now, result.Slot)
			return err
		},
	}
	result, err := s.Run(ctx)
	if err != nil {
		return result, err
	}
	r.see(ctx)
	r.Engine.Converge()
	return result, r.Audit.Record(ctx, "cluster.sync", primary.Name, result)
}

// mayFollow refuses to let the primary follow another node.
func (s State) mayFollow() error {
	if s.Role == Primary || s.Role == SteppingDown {
		return refuse(s, "a node that is not the primary")
	}
	return nil
}

// Drift returns the tables in which this node differs from its primary although it has all of the primary's changes.
func (r *Room) Drift(ctx context.Context, conninfo string) ([]string, error) {
	conn, err := r.DB.Server().ConnectTo(ctx, conninfo, false)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return replica.Drift(ctx, r.DB, conn, r.passing())
}

// Hash returns the hash of the configuration: all shared rows, by table.
func (r *Room) Hash(ctx context.Context) (h replica.Hash, err error) {
	err = r.DB.Snapshot(ctx, func(tx *db.Tx) error {
		h, err = replica.HashOf(ctx, tx, r.passing())
		return err
	})
	return h, err
}

// passing lists the shared tables whose rows are not configuration.
func (r *Room) passing() []string {
	var names []string
	for _, t := range r.Resources.Tables() {
		if t.Where == resource.Passing {
			names = append(names, t.Name)
		}
	}
	return names
}

// spreadWithin limits the wait until the standbys have what was stored here.
const spreadWithin = 5 * time.Second

// Spread waits until the standbys that follow have everything that this node has now, but only for some seconds.
func (r *Room) Spread(ctx context.Context) {
	if err := replica.Spread(ctx, r.DB, spreadWithin); err != nil && ctx.Err() == nil {
		r.Log.Warn("not all standbys have what was stored here", "err", err)
	}
}
