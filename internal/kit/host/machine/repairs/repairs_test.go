package repairs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/home"
	"edge.internal/gateway/internal/kit/host/machine/packages"
)

// jobs notes what is begun.
type jobs struct {
	begun []host.Job
	fails error
}

func (j *jobs) Begin(_ context.Context, which host.Job) error {
	if j.fails == nil {
		j.begun = append(j.begun, which)
	}
	return j.fails
}

// A repair has one wish, which stays until that repair has ended. Another one has the job go on, and neither an upgrade nor a repair begins while the other one runs.
func TestWish(t *testing.T) {
	h, j := home.Home{Root: t.TempDir()}, &jobs{}
	r, p := New(h, j), packages.New(h, &jobs{})
	if _, err := r.RepairWish(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := r.BeginRepair(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	wish, err := r.RepairWish()
	if err != nil || wish.ID == "" || wish.At.IsZero() || !wish.Force {
		t.Errorf("%+v, %v", wish, err)
	}
	if info, err := os.Stat(h.Path(host.RepairWishFile)); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", info, err)
	}
	if err := r.BeginRepair(t.Context(), false); !errors.Is(err, host.ErrRepairRuns) || len(j.begun) != 2 || j.begun[1] != host.RepairJob {
		t.Errorf("%v, %v", err, j.begun)
	}
	if err := p.BeginUpgrade(t.Context(), "1.1.0"); !errors.Is(err, host.ErrRepairRuns) {
		t.Error(err)
	}
	if err := r.EndRepair(t.Context(), "another"); err != nil {
		t.Error(err)
	}
	if now, err := r.RepairWish(); err != nil || now != wish {
		t.Errorf("%+v, %v", now, err)
	}
	for range 2 {
		if err := r.EndRepair(t.Context(), wish.ID); err != nil {
			t.Error(err)
		}
	}
	if err := p.BeginUpgrade(t.Context(), "1.1.0"); err != nil {
		t.Error(err)
	}
	if err := r.BeginRepair(t.Context(), false); !errors.Is(err, host.ErrUpgradeRuns) {
		t.Error(err)
	}
	if _, err := r.RepairWish(); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a wish is left", err)
	}
}

// What cannot be granted leaves no wish.
func TestWishesThatAreRefused(t *testing.T) {
	h := home.Home{Root: t.TempDir()}
	for name, r := range map[string]*Repairs{
		"no one starts jobs": New(h, nil), "another's machine": New(home.Home{Root: h.Root, Foreign: true}, &jobs{}), "it has no such job": New(h, &jobs{fails: host.ErrNotInstalled}),
	} {
		if err := r.BeginRepair(t.Context(), false); !errors.Is(err, host.ErrNotInstalled) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.RepairWish(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a wish is left: %v", name, err)
		}
	}
}
