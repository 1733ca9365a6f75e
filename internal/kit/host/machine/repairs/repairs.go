// Package repairs asks for a repair of replication: it keeps the wish, and has the gateway's job start.
package repairs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/home"
	"edge.internal/gateway/internal/kit/host/machine/job"
)

// Repairs is the repair of one machine.
type Repairs struct {
	home home.Home
	jobs job.Starter
}

// New returns that of a machine. Without someone who starts jobs, nothing is repaired.
func New(h home.Home, jobs job.Starter) *Repairs { return &Repairs{h, jobs} }

// BeginRepair writes the wish down and starts what grants it.
func (r *Repairs) BeginRepair(ctx context.Context, force bool) error {
	if r.jobs == nil || r.home.Foreign {
		return fmt.Errorf("this machine has no job that repairs replication: %w", host.ErrNotInstalled)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	folder, err := job.OpenFolder(r.home, host.RepairFolder)
	if err == nil {
		err = folder.Wish(host.RepairWishFile, host.RepairWish{ID: id.String(), At: time.Now().UTC(), Force: force})
	}
	switch {
	case errors.Is(err, host.ErrRepairRuns):
		return errors.Join(err, r.jobs.Begin(ctx, host.RepairJob)) // one that was interrupted goes on
	case errors.Is(err, host.ErrUpgradeRuns), errors.Is(err, host.ErrRestoreRuns):
		return err
	case err != nil:
		return fmt.Errorf("writing down that a repair is wanted: %w", err)
	}
	if err := r.jobs.Begin(ctx, host.RepairJob); err != nil {
		return errors.Join(err, folder.Remove(host.RepairWishFile))
	}
	return nil
}

// RepairWish reads the wish.
func (r *Repairs) RepairWish() (wish host.RepairWish, err error) {
	err = job.ReadJSON(r.home.Path(host.RepairWishFile), &wish)
	return wish, err
}

// EndRepair removes the wish, unless it is another one.
func (r *Repairs) EndRepair(_ context.Context, id string) error {
	switch wish, err := r.RepairWish(); {
	case errors.Is(err, fs.ErrNotExist), err == nil && wish.ID != id:
		return nil
	case err != nil:
		return err
	}
	folder, err := job.OpenFolder(r.home, host.RepairFolder)
	if err != nil {
		return err
	}
	return folder.Remove(host.RepairWishFile)
}
