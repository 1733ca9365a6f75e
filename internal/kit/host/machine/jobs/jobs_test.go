package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/job"
)

// units records what was begun.
type units struct {
	mu    sync.Mutex
	begun []job.Name
	fails error
}

func (u *units) Begin(_ context.Context, n job.Name) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.fails == nil {
		u.begun = append(u.begun, n)
	}
	return u.fails
}

func begin(t *testing.T, j *Jobs, n job.Name) error {
	return j.BeginJob(t.Context(), n, []byte(`{"version":"1.1.0"}`), "")
}

// Of many wishes at once one is granted. The others learn that the job runs, and start its unit again in case it was interrupted.
func TestOneAtATime(t *testing.T) {
	u := &units{}
	j := New(home.Home{Root: t.TempDir()}, u)
	if _, err := job.Upgrade.Last(j); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() { errs <- begin(t, j, job.Upgrade) }()
	}
	granted := 0
	for range cap(errs) {
		if err := <-errs; err == nil {
			granted++
		} else if !errors.Is(err, job.ErrUpgradeRuns) {
			t.Error(err)
		}
	}
	last, err := job.Upgrade.Last(j)
	if granted != 1 || err != nil || last.State != job.Running || last.ID == "" || last.BeganAt.IsZero() || len(u.begun) != cap(errs) {
		t.Errorf("%d granted, %+v, %v, %v", granted, last, err, u.begun)
	}
	info, err := os.Stat(j.home.Path(job.Upgrade.WishFile()))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", info, err)
	}
	var wish struct{ ID, Version string }
	content, _, err := j.ReadJob(job.Upgrade)
	if err != nil || json.Unmarshal(content, &wish) != nil || wish.Version != "1.1.0" || wish.ID != last.ID {
		t.Errorf("%s, %v", content, err)
	}
}

// Of an upgrade and a restore that are requested at the same moment exactly one is granted; the other's wish is not stored.
func TestUpgradeAndRestoreExcludeEachOther(t *testing.T) {
	for round := range 300 {
		h := home.Home{Root: t.TempDir()}
		j := New(h, &units{})
		start := make(chan struct{})
		var upgrade, restore error
		var both sync.WaitGroup
		both.Go(func() { <-start; upgrade = begin(t, j, job.Upgrade) })
		both.Go(func() { <-start; restore = begin(t, j, job.Restore) })
		close(start)
		both.Wait()
		_, noUpgrade := os.Stat(h.Path(job.Upgrade.WishFile()))
		_, noRestore := os.Stat(h.Path(job.Restore.WishFile()))
		switch {
		case upgrade == nil && noUpgrade == nil && errors.Is(restore, job.ErrUpgradeRuns) && noRestore != nil:
		case restore == nil && noRestore == nil && errors.Is(upgrade, job.ErrRestoreRuns) && noUpgrade != nil:
		default:
			t.Fatalf("round %d: upgrade %v, restore %v; wishes: %v, %v", round, upgrade, restore, noUpgrade, noRestore)
		}
	}
}

// A repair has one wish, which stays until the repair has ended. A second wish starts the unit again. An upgrade and a repair exclude
// each other. A client can end only a repair.
func TestWish(t *testing.T) {
	h, u := home.Home{Root: t.TempDir()}, &units{}
	j := New(h, u)
	if _, err := job.Repair.Wish(j); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := begin(t, j, job.Repair); err != nil {
		t.Fatal(err)
	}
	wish, err := job.Repair.Wish(j)
	if err != nil || wish.ID == "" || wish.At.IsZero() {
		t.Errorf("%+v, %v", wish, err)
	}
	if info, err := os.Stat(h.Path(job.Repair.WishFile())); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", info, err)
	}
	if err := begin(t, j, job.Repair); !errors.Is(err, job.ErrRepairRuns) || len(u.begun) != 2 || u.begun[1] != job.Repair {
		t.Errorf("%v, %v", err, u.begun)
	}
	if err := begin(t, j, job.Upgrade); !errors.Is(err, job.ErrRepairRuns) {
		t.Error(err)
	}
	if err := j.EndJob(t.Context(), job.Repair, "another"); err != nil {
		t.Error(err)
	}
	if now, err := job.Repair.Wish(j); err != nil || now != wish {
		t.Errorf("%+v, %v", now, err)
	}
	for range 2 {
		if err := j.EndJob(t.Context(), job.Repair, wish.ID); err != nil {
			t.Error(err)
		}
	}
	if err := begin(t, j, job.Upgrade); err != nil {
		t.Error(err)
	}
	if err := begin(t, j, job.Repair); !errors.Is(err, job.ErrUpgradeRuns) {
		t.Error(err)
	}
	if _, err := job.Repair.Wish(j); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a wish is left", err)
	}
	upgrade, err := job.Upgrade.Wish(j)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.EndJob(t.Context(), job.Upgrade, upgrade.ID); err == nil {
		t.Error("an upgrade was ended by a client")
	}
	if now, err := job.Upgrade.Wish(j); err != nil || now != upgrade {
		t.Errorf("%+v, %v", now, err)
	}
}

// A wish that cannot be granted leaves no wish file and no passphrase.
func TestRefusedWishes(t *testing.T) {
	h := home.Home{Root: t.TempDir()}
	for name, j := range map[string]*Jobs{
		"no units": New(h, nil), "foreign machine": New(home.Home{Root: h.Root, Foreign: true}, &units{}),
		"no such unit": New(h, &units{fails: host.ErrNotInstalled}),
	} {
		for _, n := range job.Names() {
			if err := j.BeginJob(t.Context(), n, []byte(`{}`), "canary"); !errors.Is(err, host.ErrNotInstalled) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := n.Wish(j); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: a wish is left: %v", name, err)
			}
			if _, err := os.Stat(h.Path(n.Folder() + "/" + job.Passphrase)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: a passphrase is left: %v", name, err)
			}
		}
	}
}

// A wish is a small JSON object. The machine sets its id and its time, however the client spells them.
func TestWishForm(t *testing.T) {
	u := &units{}
	j := New(home.Home{Root: t.TempDir()}, u)
	for _, wish := range []string{
		"", "null", "7", `"x"`, "[]", `{"version"`, `{} {}`, `{"version":"1","version":"2"}`, `{"ID":"../x"}`, `{"../x":1}`,
		`{"v":"` + strings.Repeat("x", wishLimit) + `"}`,
	} {
		if err := j.BeginJob(t.Context(), job.Upgrade, []byte(wish), ""); err == nil {
			t.Errorf("%.40s was accepted", wish)
		}
	}
	for _, n := range []job.Name{"", "ssh", "../gateway-upgrade", job.Refresh, job.Database} {
		if err := begin(t, j, n); !errors.Is(err, host.ErrNotInstalled) {
			t.Errorf("%q was accepted: %v", n, err)
		}
	}
	if len(u.begun) != 0 {
		t.Errorf("%v was begun", u.begun)
	}
	if err := j.BeginJob(t.Context(), job.Upgrade, []byte(`{"id":"../x","at":"1970-01-01T00:00:00Z"}`), ""); err != nil {
		t.Fatal(err)
	}
	if wish, err := job.Upgrade.Wish(j); err != nil || len(wish.ID) != 36 || wish.At.Year() < 2000 {
		t.Errorf("%+v, %v", wish, err)
	}
}
