package packages

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/jobs"
	"edge.internal/gateway/internal/kit/job"
)

const aptPolicy = `gateway:
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
	if diff := cmp.Diff(want, parsePolicy(aptPolicy, []string{"gateway", "haproxy", "squid", "chrony", "unknown"})); diff != "" {
		t.Error(diff)
	}
}

// The output of this machine's own apt can be parsed.
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

// apt is queried again only when its data has changed, and a caller that gives up does not wait.
func TestQueries(t *testing.T) {
	p := New(home.Home{Root: t.TempDir()}, nil)
	asked, answer := 0, make(chan string)
	p.ask = func(context.Context) (string, error) { asked++; return <-answer, nil }
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.PackageVersions(hurried); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	answer <- aptPolicy // to the first query
	for range 2 {
		if v, err := p.PackageVersions(t.Context()); err != nil || v.Packages[0].Installed != "1.0.0" {
			t.Fatalf("%+v %v", v, err)
		}
	}
	folder, err := jobs.Open(p.home, job.Upgrade)
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.Save(host.ListsFile, Refresh{BeganAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	go func() { answer <- strings.ReplaceAll(aptPolicy, "1.0.0", "1.0.1") }()
	v, err := p.PackageVersions(t.Context())
	if err != nil || v.Packages[0].Installed != "1.0.1" || !v.Lists.Refreshing || v.Lists.Error != "" || asked != 2 {
		t.Errorf("%+v %v after %d queries", v, err, asked)
	}
}

func TestListsReportTheRefresh(t *testing.T) {
	p := New(home.Home{Root: t.TempDir()}, nil)
	folder, err := jobs.Open(p.home, job.Upgrade)
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
		if c.want.RefreshedAt.IsZero() { // then it is the age of the machine's own lists
			got.RefreshedAt = time.Time{}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// Lists are refreshed only if the gateway was installed from a package.
func TestRefreshNeedsAPackage(t *testing.T) {
	u := &unit{}
	h := home.Home{Root: t.TempDir()}
	if err := New(h, u).RefreshPackages(t.Context()); err != nil || !slices.Equal(u.begun, []job.Name{job.Refresh}) {
		t.Error(u.begun, err)
	}
	for name, other := range map[string]*Packages{"no units": New(h, nil), "foreign machine": New(home.Home{Root: h.Root, Foreign: true}, u)} {
		if err := other.RefreshPackages(t.Context()); !errors.Is(err, host.ErrNotInstalled) || len(u.begun) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// unit records what was begun.
type unit struct{ begun []job.Name }

func (u *unit) Begin(_ context.Context, n job.Name) error {
	u.begun = append(u.begun, n)
	return nil
}
