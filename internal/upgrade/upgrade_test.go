package upgrade_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/upgrade"
	"edge.internal/gateway/internal/upgrade/runner"
)

var at = time.Date(2026, 6, 1, 2, 0, 0, 0, time.UTC)

// known is what apt knows of a gateway with two newer versions.
var known = host.PackageVersions{
	Packages: []host.PackageVersion{
		{Name: "gateway", Installed: "1.0.0", Available: "1.2.0", Newer: []string{"1.2.0", "1.1.0"}},
		{Name: "haproxy", Installed: "2.6-1", Available: "2.6-2", Newer: []string{"2.6-2"}, Security: true},
		{Name: "squid", Available: "5.7"},
		{Name: "chrony", Installed: "4.3", Available: "4.3"},
	},
	Lists: host.PackageLists{RefreshedAt: at, Error: "no network"},
}

func bench(t *testing.T) *kittest.Bench {
	t.Helper()
	b := kittest.New(t)
	upgrade.New(b.Kit, upgrade.Deps{Clustered: func(context.Context) (bool, error) { return false, nil }}).Mount()
	b.Start(t)
	b.Machine.SetPackages(known, nil)
	return b
}

func TestPackageVersions(t *testing.T) {
	b := bench(t)
	var v upgrade.Versions
	b.Get(t, "/system/package-versions").Want(t, 200).Into(t, &v)
	if len(v.Packages) != 4 || !v.Packaged || v.RefreshedAt == nil || !v.RefreshedAt.Equal(at) || v.Error != "" {
		t.Fatalf("%+v", v)
	}
	for i, want := range []struct{ upgradable, security bool }{{true, false}, {true, true}, {false, false}, {false, false}} {
		if p := v.Packages[i]; p.Upgradable != want.upgradable || p.Security != want.security {
			t.Errorf("%+v", p)
		}
	}
	for role, want := range map[string]string{"admin": "no network", "viewer": ""} {
		var v upgrade.Versions
		if b.Do(t, role, http.MethodGet, "/system/package-versions", nil).Want(t, 200).Into(t, &v); v.RefreshErr != want {
			t.Errorf("%s: %q", role, v.RefreshErr)
		}
	}
	b.Machine.SetPackages(host.PackageVersions{}, errors.New("no apt here"))
	if a := b.Get(t, "/system/package-versions").Want(t, 200); !strings.Contains(string(a.Data), `"error":"The versions cannot be read from apt`) {
		t.Errorf("%s", a.Data)
	}
	b.Do(t, "admin", http.MethodPost, "/system/upgrade", nil).Want(t, 503)
}

// An apt that hangs blocks no callers.
func TestAptThatHangs(t *testing.T) {
	b := bench(t)
	b.Machine.Hang(true)
	defer b.Machine.Hang(false)
	if a := b.Get(t, "/system/package-versions").Want(t, 200); !strings.Contains(string(a.Data), `"error":"The versions cannot be read from apt`) {
		t.Errorf("%s", a.Data)
	}
}

func TestRefresh(t *testing.T) {
	b := bench(t)
	var v upgrade.Versions
	b.Do(t, "admin", http.MethodPost, "/system/package-versions/refresh", nil).Want(t, 200).Into(t, &v)
	if !v.Refreshing || b.Machine.Refreshes() != 1 || b.Audited(t, "system.package-versions.refresh") != 1 {
		t.Errorf("%+v", v)
	}
	b.Do(t, "viewer", http.MethodPost, "/system/package-versions/refresh", nil).Want(t, 403)
	b.Machine.RefusePackages(host.ErrNotInstalled)
	b.Do(t, "admin", http.MethodPost, "/system/package-versions/refresh", nil).Want(t, 501)
	if b.Audited(t, "system.package-versions.refresh") != 1 {
		t.Error("what did not happen has an entry")
	}
}

// SY05: it is answered when the upgrade has begun, and is in the audit log.
func TestSY05Upgrade(t *testing.T) {
	b := bench(t)
	if a := b.Get(t, "/system/upgrade").Want(t, 200); !strings.Contains(string(a.Data), `"state":"none"`) {
		t.Errorf("%s", a.Data)
	}
	b.Do(t, "viewer", http.MethodPost, "/system/upgrade", nil).Want(t, 403)
	for _, version := range []string{"1.0.0", "0.9.0", "9.9.9", "-o", "1.2.0; id"} {
		a := b.Do(t, "admin", http.MethodPost, "/system/upgrade", map[string]string{"version": version}).WantField(t, "version")
		if !strings.Contains(string(a.Body), "1.2.0, 1.1.0") {
			t.Errorf("%s: %s", version, a.Body)
		}
	}
	b.Do(t, "admin", http.MethodPost, "/system/upgrade", `{"version":1}`).WantField(t, "version")
	if b.Audited(t, "system.upgrade") != 0 {
		t.Error("what did not happen has an entry")
	}
	var u upgrade.Upgrade
	b.Do(t, "admin", http.MethodPost, "/system/upgrade", nil).Want(t, 200).Into(t, &u)
	if u.State != "running" || u.To != "1.2.0" || b.Audited(t, "system.upgrade") != 1 {
		t.Errorf("%+v", u)
	}
	b.Do(t, "admin", http.MethodPost, "/system/upgrade", nil).Want(t, 409)
	b.Do(t, "admin", http.MethodPost, "/system/upgrade", `{"version":"1.1.0"}`).Want(t, 409)
	b.Machine.SetJob(job.Upgrade, runner.Upgrade{Record: job.Record{ID: "1", State: job.Refused}, From: "1.0.0", To: "1.2.0"})
	b.Do(t, "admin", http.MethodPost, "/system/upgrade", `{"version":"1.1.0"}`).Want(t, 200).Into(t, &u)
	if u.To != "1.1.0" || b.Audited(t, "system.upgrade") != 2 {
		t.Errorf("%+v", u)
	}
}

func TestNothingToUpgradeTo(t *testing.T) {
	b := bench(t)
	b.Machine.SetPackages(host.PackageVersions{Packages: []host.PackageVersion{{Name: "gateway", Installed: "1.2.0", Available: "1.2.0"}}}, nil)
	b.Do(t, "admin", http.MethodPost, "/system/upgrade", nil).Want(t, 409)
	b.Do(t, "admin", http.MethodPost, "/system/upgrade", `{"version":"1.3.0"}`).WantField(t, "version")
	// apt prefers an older version, as configured by the operator: that is not an upgrade.
	b.Machine.SetPackages(host.PackageVersions{Packages: []host.PackageVersion{{Name: "gateway", Installed: "1.2.0", Available: "1.1.0", Newer: []string{"1.3.0"}}}}, nil)
	b.Do(t, "admin", http.MethodPost, "/system/upgrade", nil).Want(t, 409)
	// A gateway that was not installed from a package has only its running version.
	b.Machine.SetPackages(host.PackageVersions{Packages: []host.PackageVersion{{Name: "gateway", Available: "1.3.0"}}}, nil)
	b.Do(t, "admin", http.MethodPost, "/system/upgrade", nil).Want(t, 501)
	var v upgrade.Versions
	b.Get(t, "/system/package-versions").Want(t, 200).Into(t, &v)
	if v.Packaged || v.Packages[0].Installed != b.Version || v.Packages[0].Upgradable {
		t.Errorf("%+v", v)
	}
}

// The result of the last upgrade is reported, the output of programs only to administrators.
func TestLastUpgrade(t *testing.T) {
	b := bench(t)
	for state, want := range map[job.State]string{
		job.Done: "was upgraded from version 1.0.0 to 1.2.0", job.Refused: "Nothing was changed", job.TakenBack: "Version 1.0.0 is installed again", job.Stuck: "so did the return",
	} {
		b.Machine.SetJob(job.Upgrade, runner.Upgrade{From: "1.0.0", To: "1.2.0", Record: job.Record{ID: "1", State: state, Reason: "canary", BeganAt: at, EndedAt: at, Steps: []job.Step{
			{Name: "install", State: job.StepFailed, BeganAt: at, EndedAt: at, Output: "canary", Error: "canary"},
		}}})
		for role, words := range map[string]int{"admin": 3, "viewer": 0} {
			a := b.Do(t, role, http.MethodGet, "/system/upgrade", nil).Want(t, 200)
			if strings.Count(string(a.Data), "canary") != words || !strings.Contains(string(a.Data), want) {
				t.Errorf("%s, %s: %s", state, role, a.Data)
			}
		}
	}
}
