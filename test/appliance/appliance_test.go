// Package appliance installs the package on a Debian with systemd as its first process, and lives through what a machine lives
// through: set-up, reboots, upgrades, removal.
package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab/labtest"
	"edge.internal/gateway/test/node"
)

// tree is the checkout.
const tree = "../.."

type fields map[string]any

// machine is what a gateway is installed on.
type machine interface {
	// Run runs a command there, and returns its output.
	Run(ctx context.Context, argv ...string) (string, error)
	// Dial connects to it from its WAN.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// gateway is a machine with a gateway on it, and an admin's browser.
type gateway struct {
	machine
	*labtest.Browser
	pace time.Duration // how many times longer than on a node things take
	wan  string        // its address on the WAN
}

func newGateway(t *testing.T, m machine, pace time.Duration, wan string) *gateway {
	t.Helper()
	return &gateway{m, labtest.NewBrowser(t, "https://"+node.Address+":3443", m.Dial), pace, wan}
}

// appliance is a node with a gateway on it.
type appliance struct {
	*node.Node
	*gateway
	dist string // where packages are built
}

func newAppliance(t *testing.T) *appliance {
	t.Helper()
	n := boot(t, release())
	return &appliance{n, newGateway(t, n, 1, node.Address), t.TempDir()}
}

// release is the Debian that is installed: GATEWAY_RELEASE, or Debian 12.
func release() string {
	if name := os.Getenv("GATEWAY_RELEASE"); name != "" {
		return name
	}
	return "bookworm"
}

// always and long say which run has a stage.
const (
	always = true
	long   = longtest.On
)

// TestAppliance is the life of a gateway on one machine.
func TestAppliance(t *testing.T) {
	g := newAppliance(t)
	g.listenOutside(t, "198.51.100.1:8080", origin)
	for _, stage := range []struct {
		name string
		runs bool
		do   func(*testing.T, *appliance)
	}{
		{"Install", always, func(t *testing.T, g *appliance) { g.install(t, detection...) }},
		{"SetUp", always, func(t *testing.T, g *appliance) { g.setUp(t) }},
		{"Database", long, database},
		{"NotRoot", always, notRoot},
		{"Diagnostics", long, diagnostics},
		{"EveryComponentChanges", always, func(t *testing.T, g *appliance) { g.everyComponentChanges(t) }},
		{"FilterBeforeTheNetwork", always, filterBeforeTheNetwork},
		{"DaemonsAreConfined", always, daemonsAreConfined},
		{"KeepalivedServes", always, keepalivedServes},
		{"UnitsAreClosed", always, unitsAreClosed},
		{"Traffic", always, traffic},
		{"Services", long, services},
		{"Logs", long, logs},
		{"HostileAPI", always, hostileAPI},
		{"HostileFiles", long, hostileFiles},
		{"Restore", long, restore},
		{"PowerCuts", long, powerCuts},
		{"Reboot", long, reboot},
		{"RebootWithoutDatabase", long, rebootWithoutDatabase},
		{"Upgrade", always, upgrade},
		{"KilledUpgrades", long, killedUpgrades},
		{"BrokenUpgrades", long, brokenUpgrades},
		{"MirrorsAway", always, mirrorsAway},
		{"Remove", always, remove},
		{"Purge", always, purge},
	} {
		if stage.runs && !t.Run(stage.name, func(t *testing.T) { stage.do(t, g) }) {
			t.Fatalf("what follows %s needs it", stage.name)
		}
	}
}

// detection is what the gateway's package recommends, and need not be there.
var detection = []string{"crowdsec", "crowdsec-firewall-bouncer"}

// install installs the gateway, and further packages of Debian.
func (g *appliance) install(t *testing.T, packages ...string) {
	t.Helper()
	if err := g.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.offer(t, "package", "repository", "VERSION=1.0.0", "LINKED=bin")
	started := time.Now()
	if err := g.Install(t.Context(), append([]string{"gateway", "wireguard-go"}, packages...)...); err != nil {
		t.Fatal(err)
	}
	t.Logf("installed in %s", time.Since(started).Round(time.Second))
	g.waitUp(t)
	g.nothingFailed(t)
}

// publish builds a version of the package into the node's repository, as the vendor does.
func (g *appliance) publish(t *testing.T, version string) {
	t.Helper()
	g.withdraw(t)
	g.offer(t, "package", "repository", "VERSION="+version)
}

// withdraw removes all versions except the installed one from the folder of builds, because each of them takes up much
// memory.
func (g *appliance) withdraw(t *testing.T) {
	t.Helper()
	packages, err := filepath.Glob(filepath.Join(g.dist, "gateway_*.deb"))
	if err != nil {
		t.Fatal(err)
	}
	installed := g.sh(t, "dpkg-query -W -f '${Version}' gateway || true")
	for _, path := range append(packages, filepath.Join(g.dist, "build")) {
		if strings.HasPrefix(filepath.Base(path), "gateway_"+installed+"_") {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

// offer runs make to fill the node's repository, and updates the node's package lists.
func (g *appliance) offer(t *testing.T, targets ...string) {
	t.Helper()
	if err := node.Make(t.Context(), tree, g.dist, []string{"COMPRESSION=none"}, targets...); err != nil {
		t.Fatal(err)
	}
	if err := g.Offer(t.Context(), g.dist); err != nil {
		t.Fatal(err)
	}
}

// waitUp waits until the API answers, and has its database.
func (g *gateway) waitUp(t *testing.T) {
	t.Helper()
	waittest.Within(t, g.pace*4*time.Minute, "the console answers, and has its database", func() error {
		a, err := g.Do(t.Context(), http.MethodGet, "/system/health", nil)
		var health struct{ Database string }
		if err == nil && (a.Status != 200 || json.Unmarshal(a.Data, &health) != nil || health.Database != "up") {
			err = fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return err
	})
}

func (g *gateway) setUp(t *testing.T) {
	t.Helper()
	g.completeSetup(t)
	g.allLive(t)
}

// completeSetup sets the gateway up, and does not wait for its components.
func (g *gateway) completeSetup(t *testing.T) {
	t.Helper()
	g.Must(t, http.MethodPost, "/setup/complete", fields{
		"admin_email": labtest.AdminEmail, "admin_password": labtest.AdminPassword, "fqdn": "gateway.example.net", "acme_email": labtest.AdminEmail,
		"acme_enabled": false, "ipv6_enabled": true, "setup_token": g.sh(t, "gateway-ctl setup-token"),
	}, 200, nil)
	g.Login(t)
}

// nothingFailed: there is no unit that systemd could not start, or that ended badly.
func (g *gateway) nothingFailed(t *testing.T) {
	t.Helper()
	if failed := g.sh(t, "systemctl list-units --failed --no-legend --plain"); failed != "" {
		t.Errorf("failed: %s\n%s", failed, g.sh(t, "systemctl status --no-pager --full --failed --lines=30 || true"))
	}
}

// What the machine does at boot, before the network is up, loads the table that was kept.
func filterBeforeTheNetwork(t *testing.T, g *appliance) {
	look := func() (handle, rules string) {
		return g.sh(t, "nft --handle list table inet gateway | head -n 1"), g.sh(t, "nft --stateless list table inet gateway | grep -w -e chain -e jump -e accept -e drop")
	}
	was, before := look()
	if out := g.sh(t, "systemctl restart gateway-firewall.service 2>&1"); out != "" {
		t.Error(out)
	}
	g.nothingFailed(t)
	if now, after := look(); now == was || after != before {
		t.Errorf("%s has\n%s\nand %s had\n%s", now, after, was, before)
	}
}

// components of a gateway.
var components = []string{"network", "ntp", "dns", "forward-proxy", "dhcp", "radius", "tunnel", "packet-filter", "reverse-proxy", "waf", "ids", "ids-firewall-bouncer"}

func (g *gateway) allLive(t *testing.T) {
	t.Helper()
	for _, c := range components {
		g.WaitState(t, c, "live", g.pace*30*time.Second)
	}
}

// tells returns an error unless a command succeeds and prints a text.
func (g *gateway) tells(t *testing.T, text string, argv ...string) error {
	t.Helper()
	out, err := g.Run(t.Context(), argv...)
	if err != nil || !strings.Contains(out, text) {
		return fmt.Errorf("%v: %s", err, out)
	}
	return nil
}

// sh runs a script on the machine, which must succeed.
func (g *gateway) sh(t *testing.T, script string) string {
	t.Helper()
	out, err := g.Run(t.Context(), "sh", "-ec", script)
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(out)
}
