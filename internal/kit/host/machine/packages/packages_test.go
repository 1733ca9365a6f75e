package packages

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/backups"
	"edge.internal/gateway/internal/kit/host/machine/home"
	"edge.internal/gateway/internal/kit/host/machine/job"
)

const said = `gateway:
  Installed: 1.0.0
  Candidate: 1.2.0
  Version table:
     1.2.0 500
        500 http://apt.example.net stable/main amd64 Packages
     1.1.0 500
        500 http://apt.example.net stable-security/main amd64 Packages
        100 /var/lib/apt/lists/x stable/main amd64 Packages
 *** 1.0.0 500
        500 http://apt.example.net stable/main amd64 Packages
        100 /var/lib/dpkg/status
     0.9.0 500
        500 http://apt.example.net stable-security/main amd64 Packages
haproxy:
  Installed: 2.6.12-1+deb12u4
  Candidate: 2.6.12-1+deb12u4
  Version table:
 *** 2.6.12-1+deb12u4 500
        500 http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
        100 /var/lib/dpkg/status
     2.6.12-1+deb12u3 500
        500 http://deb.debian.org/debian bookworm/main amd64 Packages
squid:
  Installed: (none)
  Candidate: 5.7-2+deb12u3
  Version table:
     5.7-2+deb12u3 500
        500 http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
chrony:
  Installed: 4.3-2
  Candidate: 4.3-2
  Version table:
 *** 4.3-2 100
        100 /var/lib/dpkg/status
elsewhere:
  Installed: 1
  Candidate: 2
  Version table:
     2 -10
        -10 http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
`

func TestParsePolicy(t *testing.T) {
	want := []host.PackageVersion{
		{Name: "gateway", Installed: "1.0.0", Available: "1.2.0", Newer: []string{"1.2.0", "1.1.0"}, Security: true},
		{Name: "haproxy", Installed: "2.6.12-1+deb12u4", Available: "2.6.12-1+deb12u4"},
		{Name: "squid", Available: "5.7-2+deb12u3"},
		{Name: "chrony", Installed: "4.3-2", Available: "4.3-2"},
		{Name: "unknown"},
	}
	if diff := cmp.Diff(want, parsePolicy(said, []string{"gateway", "haproxy", "squid", "chrony", "unknown"})); diff != "" {
		t.Error(diff)
	}
}

// The machine's own apt says something that can be read.
func TestAptOfThisMachine(t *testing.T) {
	p := New(home.Home{Root: t.TempDir()}, nil)
	v, err := p.PackageVersions(t.Context())
	if err != nil || len(v.Packages) != len(host.PackageNames()) {
		t.Fatalf("%+v %v", v, err)
	}
	for _, x := range v.Packages {
		if x.Name == "haproxy" && (host.IsVersion(x.Installed) != nil || host.IsVersion(x.Available) != nil) {
			t.Errorf("%+v", x)
		}
	}
}

// jobs remembers what was begun.
type jobs struct {
	mu    sync.Mutex
	begun []host.Job
	fails error
}

func (j *jobs) Begin(_ context.Context, job host.Job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begun = append(j.begun, job)
	return j.fails
}

// apt is asked again only when its data has changed, and who asks does not wait longer than they want.
func TestQuestionsToApt(t *testing.T) {
	p := New(home.Home{Root: t.TempDir()}, nil)
	asked, answer := 0, make(chan string)
	p.ask = func(context.Context) (string, error) { asked++; return <-answer, nil }
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.PackageVersions(hurried); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	answer <- said // to the question of before
	for range 2 {
		if v, err := p.PackageVersions(t.Context()); err != nil || v.Packages[0].Installed != "1.0.0" {
			t.Fatalf("%+v %v", v, err)
		}
	}
	folder, err := job.OpenFolder(p.home, host.UpgradeFolder)
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.Save(host.ListsFile, Refresh{BeganAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	go func() { answer <- strings.ReplaceAll(said, "1.0.0", "1.0.1") }()
	v, err := p.PackageVersions(t.Context())
	if err != nil || v.Packages[0].Installed != "1.0.1" || !v.Lists.Refreshing || v.Lists.Error != "" || asked != 2 {
		t.Errorf("%+v %v after %d questions", v, err, asked)
	}
}

func TestListsTellHowTheRefreshWent(t *testing.T) {
	p := New(home.Home{Root: t.TempDir()}, nil)
	folder, err := job.OpenFolder(p.home, host.UpgradeFolder)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for _, c := range []struct {
		is   Refresh
		want host.PackageLists
	}{
		{Refresh{BeganAt: at, EndedAt: at}, host.PackageLists{RefreshedAt: at}},
		{Refresh{BeganAt: at}, host.PackageLists{Refreshing: true}},
		{Refresh{BeganAt: at, EndedAt: at, Error: "no network"}, host.PackageLists{Error: "no network"}},
		{Refresh{BeganAt: at.Add(-24 * time.Hour)}, host.PackageLists{Error: "The last refresh was interrupted."}},
	} {
		if err := folder.Save(host.ListsFile, c.is); err != nil {
			t.Fatal(err)
		}
		got := p.lists()
		if c.want.RefreshedAt.IsZero() { // that of the machine's apt
			got.RefreshedAt = time.Time{}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// Of many wishes one is granted, and the others learn that one is.
func TestOneUpgradeAtATime(t *testing.T) {
	j := &jobs{}
	p := New(home.Home{Root: t.TempDir()}, j)
	if _, err := p.LastUpgrade(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() { errs <- p.BeginUpgrade(t.Context(), "1.1.0") }()
	}
	granted := 0
	for range cap(errs) {
		if err := <-errs; err == nil {
			granted++
		} else if !errors.Is(err, host.ErrUpgradeRuns) {
			t.Error(err)
		}
	}
	u, err := p.LastUpgrade()
	if granted != 1 || err != nil || u.To != "1.1.0" || u.State != host.JobRunning || u.ID == "" || u.BeganAt.IsZero() || len(j.begun) != cap(errs) {
		t.Errorf("%d granted, %+v, %v, %v", granted, u, err, j.begun)
	}
	info, err := os.Stat(p.home.Path(host.UpgradeWishFile))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", info, err)
	}
	if err := p.RefreshPackages(t.Context()); err != nil || j.begun[len(j.begun)-1] != host.RefreshJob {
		t.Error(j.begun, err)
	}
}

// Of an upgrade and a restore that are wished for at the same moment exactly one is granted, and the other one's wish is not written down.
func TestOfAnUpgradeAndARestoreOneWins(t *testing.T) {
	for round := range 300 {
		h := home.Home{Root: t.TempDir()}
		p, b := New(h, &jobs{}), backups.New(h, &jobs{}, "", nil)
		start := make(chan struct{})
		var upgrade, restore error
		var both sync.WaitGroup
		both.Go(func() { <-start; upgrade = p.BeginUpgrade(t.Context(), "1.1.0") })
		both.Go(func() {
			<-start
			restore = b.BeginRestore(t.Context(), host.RestoreWish{Backup: "00000000-0000-7000-8000-000000000001"})
		})
		close(start)
		both.Wait()
		_, noUpgrade := os.Stat(h.Path(host.UpgradeWishFile))
		_, noRestore := os.Stat(h.Path(host.RestoreWishFile))
		switch {
		case upgrade == nil && noUpgrade == nil && errors.Is(restore, host.ErrUpgradeRuns) && noRestore != nil:
		case restore == nil && noRestore == nil && errors.Is(upgrade, host.ErrRestoreRuns) && noUpgrade != nil:
		default:
			t.Fatalf("round %d: upgrade %v, restore %v; wishes: %v, %v", round, upgrade, restore, noUpgrade, noRestore)
		}
	}
}

// What is no version, and what cannot be granted, leaves no wish.
func TestWishesThatAreRefused(t *testing.T) {
	j := &jobs{}
	p := New(home.Home{Root: t.TempDir()}, j)
	for _, version := range []string{"", "-o", "--purge", "1.0 x", "../1", "1.0;id", "a", "1\n", "1" + strings.Repeat("0", 80)} {
		if err := p.BeginUpgrade(t.Context(), version); err == nil {
			t.Errorf("%q is a version", version)
		}
	}
	if len(j.begun) != 0 {
		t.Error("something was begun")
	}
	j.fails = host.ErrNotInstalled
	if err := p.BeginUpgrade(t.Context(), "1.1.0"); !errors.Is(err, host.ErrNotInstalled) {
		t.Error(err)
	}
	for name, other := range map[string]*Packages{"no one starts jobs": New(p.home, nil), "another's machine": New(home.Home{Root: p.home.Root, Foreign: true}, j)} {
		if err := errors.Join(other.BeginUpgrade(t.Context(), "1.1.0"), other.RefreshPackages(t.Context())); !errors.Is(err, host.ErrNotInstalled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.LastUpgrade(); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a wish is left", err)
	}
}
