package appliance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/waittest"
)

// lastUpgrade is what root has written down of an upgrade.
type lastUpgrade struct {
	State, Reason, From, To, Step string
	span
	Steps []struct {
		Name, State, Error, Output string
		span
	}
}

type span struct {
	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at"`
}

func (s span) took() time.Duration { return s.EndedAt.Sub(s.BeganAt).Round(100 * time.Millisecond) }

// upgrade upgrades the gateway to the next version while a client uses the API.
func upgrade(t *testing.T, g *appliance) {
	// What the machine is: the installed version, and none that is newer.
	if p := g.versions(t); p.Installed != "1.0.0" || p.Available != "1.0.0" {
		t.Errorf("%+v", p)
	}
	g.Must(t, http.MethodPost, "/system/upgrade", fields{"version": "9.9.9"}, 400, nil)

	g.publish(t, "1.1.0")
	g.begin(t, "1.1.0")
	if u := g.ended(t, "1.1.0"); u.State != "done" {
		t.Fatalf("%+v", u)
	}
	g.runs(t, "1.1.0")
	var entries []struct{ Action, Actor string }
	g.Must(t, http.MethodGet, "/audit?action=system.upgrade", nil, 200, &entries)
	if len(entries) == 0 || entries[0].Action != "system.upgrade" {
		t.Errorf("not in the audit log: %+v", entries)
	}
}

// killedUpgrades tests that upgrades continue after their program is killed.
func killedUpgrades(t *testing.T, g *appliance) {
	for n, at := range []string{"unpacked", "fetch", "back-up", "verify", "install", "confirm"} {
		version := fmt.Sprintf("1.1.%d", n+1)
		g.publish(t, version)
		g.sh(t, "systemctl reset-failed gateway-upgrade") // systemd starts it ten times in ten minutes at most
		g.begin(t, version)
		g.killUpgrade(t, at)
		if u := g.ended(t, version); u.State != "done" {
			t.Fatalf("killed at %s: %+v", at, u)
		}
		g.runs(t, version)
	}
}

const (
	exits    = `printf '#!/bin/sh\nexit 1\n' >usr/lib/gateway/gateway-api`
	notReady = `printf '#!/bin/sh\nexec sleep infinity\n' >usr/lib/gateway/gateway-api`
	// hangs has programs that do not even end when they are asked to, and that systemd lets start forever.
	hangs = `printf '#!/bin/sh\ntrap "" TERM\nexec sleep infinity\n' >usr/lib/gateway/gateway-api
		sed -i 's/^TimeoutStartSec=.*/TimeoutStartSec=infinity/' lib/systemd/system/gateway-*.service`
	// silentFor is more than the rollback of a version that never answers may take: until then there is no console. confirm waits two minutes, and
	// systemd kills each of the two programs after half a minute.
	silentFor = 6 * time.Minute
)

// brokenUpgrades tests that broken upgrades are rolled back, with a reason, and in time.
func brokenUpgrades(t *testing.T, g *appliance) {
	version := g.versions(t).Installed
	for _, x := range []struct {
		name, version string
		build         func(t *testing.T, version string)
		reason        string
	}{
		{"does not start", "1.2.0", func(t *testing.T, v string) { g.publishBroken(t, version, v, exits) }, "did not start"},
		{"starts and is not ready", "1.3.0", func(t *testing.T, v string) { g.publishBroken(t, version, v, notReady) }, "did not start"},
		{"hangs", "1.3.1", func(t *testing.T, v string) { g.publishBroken(t, version, v, hangs) }, "did not start"},
		{"cannot migrate the database", "1.4.0", func(t *testing.T, v string) { g.publishWithMigration(t, v, "SELECT nothing;") }, "did not work"},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.build(t, x.version)
			g.begin(t, x.version)
			u := g.ended(t, x.version)
			if u.State != "taken_back" || !strings.Contains(u.Reason, x.reason) || u.From != version {
				t.Fatalf("%+v", u)
			}
			t.Log(u.Reason)
			if x.reason == "did not start" && u.took() > silentFor {
				t.Errorf("%s until the previous version was back", u.took())
			}
			g.runs(t, version)
		})
	}
	// A disk without room refuses, and nothing has changed.
	g.publish(t, "1.5.0")
	g.sh(t, "mkdir -p /var/lib/gateway-upgrade/backups; mount -t tmpfs -o size=64k tmpfs /var/lib/gateway-upgrade/backups")
	g.begin(t, "1.5.0")
	if u := g.ended(t, "1.5.0"); u.State != "refused" || !strings.Contains(u.Reason, "space") {
		t.Errorf("%+v", u)
	}
	g.sh(t, "umount /var/lib/gateway-upgrade/backups")
	g.runs(t, version)
}

type packageVersion struct{ Name, Installed, Available string }

// versions retries until there is an answer: on a busy machine apt takes longer than a request may.
func (g *appliance) versions(t *testing.T) (found packageVersion) {
	t.Helper()
	waittest.Within(t, 4*time.Minute, "apt tells the versions", func() error {
		var v struct{ Packages []packageVersion }
		g.Must(t, http.MethodGet, "/system/package-versions", nil, 200, &v)
		for _, found = range v.Packages {
			if found.Name == "gateway" {
				return nil
			}
		}
		return fmt.Errorf("%+v", v)
	})
	return found
}

// begin requests an upgrade; the answer is sent before anything is replaced.
func (g *appliance) begin(t *testing.T, version string) {
	t.Helper()
	if p := g.versions(t); p.Available != version {
		t.Fatalf("%+v", p)
	}
	g.Must(t, http.MethodPost, "/system/upgrade", fields{"version": version}, 200, nil)
}

// killUpgrade kills the program that does the upgrade at a step of it, or when the new package is half there.
func (g *appliance) killUpgrade(t *testing.T, at string) {
	t.Helper()
	out := g.sh(t, `at=`+at+`
		for i in $(seq 3000); do
			case $at in
			unpacked) case $(dpkg-query -W -f '${Status}' gateway) in *half*|*unpacked*) break ;; esac ;;
			*) grep -qs "\"step\": \"$at\"" /var/lib/gateway-upgrade/upgrade.json && break ;;
			esac
			[ -e /var/lib/gateway-upgrade/wish.json ] || break
			sleep 0.02
		done
		dpkg-query -W -f '${Status}, ' gateway
		grep '"step"' /var/lib/gateway-upgrade/upgrade.json
		systemctl kill --signal=KILL gateway-upgrade`)
	t.Logf("killed at %s: %s", at, out)
	if !strings.Contains(out, at) && !strings.Contains(out, "half") {
		t.Fatal("too late")
	}
}

// ended waits until an upgrade has ended, as root has written it down.
func (g *appliance) ended(t *testing.T, version string) (u lastUpgrade) {
	t.Helper()
	waittest.Within(t, 24*time.Minute, "the upgrade to "+version+" ends", func() error {
		out, err := g.Run(t.Context(), "cat", "/var/lib/gateway-upgrade/upgrade.json")
		u = lastUpgrade{}
		if err != nil || json.Unmarshal([]byte(out), &u) != nil || u.To != version || u.State == "running" {
			return fmt.Errorf("%v: %s", err, out)
		}
		return nil
	})
	var steps []string
	for _, s := range u.Steps {
		steps = append(steps, fmt.Sprintf("%s %s", s.Name, s.took()))
	}
	t.Logf("%s: %s after %s: %s", version, u.State, u.took(), strings.Join(steps, ", "))
	return u
}

// runs checks that a version works, with all components, and that the API shows the result of the last upgrade.
func (g *appliance) runs(t *testing.T, version string) {
	t.Helper()
	g.waitUp(t)
	g.allLive(t)
	g.serves(t)
	var health struct{ Version string }
	if g.Must(t, http.MethodGet, "/system/health", nil, 200, &health); health.Version != version {
		t.Errorf("version %s serves, want %s", health.Version, version)
	}
	if p := g.versions(t); p.Installed != version {
		t.Errorf("%+v", p)
	}
	if state := g.sh(t, "dpkg-query -W -f '${Status}' gateway"); state != "install ok installed" {
		t.Errorf("dpkg says %s", state)
	}
	var told lastUpgrade
	g.Must(t, http.MethodGet, "/system/upgrade", nil, 200, &told)
	if told.State == "running" || told.To == "" || len(told.Steps) == 0 {
		t.Errorf("%+v", told)
	}
}

// publishBroken offers a version that is another one but for what a script changes in its files.
func (g *appliance) publishBroken(t *testing.T, from, version, script string) {
	t.Helper()
	g.withdraw(t)
	cmd := exec.Command("bash", "-euc", `cd "$1"; rm -rf broken; dpkg-deb -R gateway_"$2"_*.deb broken
		sed -i "s/^Version: .*/Version: $3/" broken/DEBIAN/control
		(cd broken; eval "$4")
		dpkg-deb --root-owner-group -Znone -b broken "gateway_$3_$(dpkg --print-architecture).deb"`, "-", g.dist, from, version, script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g.offer(t, "repository")
}

// publishWithMigration offers a version that has one migration more.
func (g *appliance) publishWithMigration(t *testing.T, version, sql string) {
	t.Helper()
	dir := t.TempDir()
	tree, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	migration, overlay := filepath.Join(dir, "migration.sql"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(tree, "internal/schema/9999_broken.sql"): migration}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{migration: []byte(sql), overlay: replace} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -overlay="+overlay)
	g.publish(t, version)
}
