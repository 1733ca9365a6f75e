package host

import (
	"context"
	"errors"
	"time"
)

// RepairFolder is where root keeps the wish for a repair of replication. The gateway's user may read there.
const RepairFolder = "/var/lib/gateway-repair"

// RepairWishFile is there from the wish for a repair until the repair has ended.
const RepairWishFile = RepairFolder + "/wish.json"

// ErrRepairRuns says that a repair of replication has not ended yet.
var ErrRepairRuns = errors.New("replication is already being repaired")

// Repairs is the repair of replication, which has a program of its own: it outlives the one that was asked for it.
type Repairs interface {
	// BeginRepair has this node made the same as its primary again, and does not wait for it. With force, more than half of its rows may go. While a repair runs it
	// is ErrRepairRuns, and while an upgrade or a restore does ErrUpgradeRuns or ErrRestoreRuns; on a machine that has no such job it is ErrNotInstalled.
	BeginRepair(ctx context.Context, force bool) error
	// RepairWish is the wish for the repair that has not ended; fs.ErrNotExist when there is none.
	RepairWish() (RepairWish, error)
	// EndRepair says that the repair with the id of a wish has ended.
	EndRepair(ctx context.Context, id string) error
}

// RepairWish asks for a repair.
type RepairWish struct {
	ID    string    `json:"id"` // in the order of time
	At    time.Time `json:"at"`
	Force bool      `json:"force"`
}
