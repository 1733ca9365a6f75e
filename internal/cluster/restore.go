package cluster

import (
	"context"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
)

// MayRestore returns why the data of this node must not be replaced by a backup. Those of a standby belong to the primary.
func (r *Room) MayRestore(ctx context.Context) error {
	s, err := Load(ctx, r.DB)
	if err != nil {
		return nil // the restore may be needed because the database is down
	}
	if s.Role == Standby || s.Role == Fenced {
		return fault.New(fault.Conflict, "This node is %s. Restore the backup on the primary: the other nodes follow it.", s.Role.words())
	}
	return nil
}

// Restored gives the room's database, which is about to replace the live one, this node's place in the cluster, because a backup does not
// contain it. A primary begins a new epoch, so that the other nodes compare everything with it.
func (r *Room) Restored(ctx context.Context, live *db.DB) error {
	return r.decide(ctx, func(tx *db.Tx, archived State) error {
		now, err := place(ctx, live)
		switch {
		case err == nil && (now.Role == Primary || now.Role == SteppingDown):
			now.Role, now.Epoch = Primary, now.Epoch+1
		case err == nil && now.Role == Single:
		case err == nil:
			now.Role = Fenced
		case archived.Role == Single:
			now = archived
		default:
			// The node's place is lost. It accepts no changes until that is decided.
			now = State{Role: Fenced, Epoch: archived.Epoch}
		}
		become(tx, now.Role, now.Epoch, Node{now.PrimaryID, now.PrimaryName}, r.Clock.Now())
		tx.Queue("UPDATE ha_state SET slot = '', synced_at = NULL")
		return nil
	})
}

// place reads the node's state from its live database.
func place(ctx context.Context, live *db.DB) (State, error) {
	conn, err := live.Server().Connect(ctx)
	if err != nil {
		return State{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return Load(ctx, conn)
}
