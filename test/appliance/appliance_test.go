// Package appliance installs the package on a Debian with systemd as its first process, and lives through what a machine lives
// through: set-up, reboots, upgrades, removal.
package appliance

import (
	"net/http"
	"os"
	"testing"
	"time"

	"edge.internal/gateway/internal/lab/labtest"
	"edge.internal/gateway/test/node"
)

// tree is the checkout.
const tree = "../.."

type fields map[string]any

// appliance is a node with a gateway on it.
type appliance struct {
	*node.Node
	*labtest.Browser
	dist string // where packages are built
}

// release is the Debian that is installed: GATEWAY_RELEASE, or Debian 12.
func release() string {
	if name := os.Getenv("GATEWAY_RELEASE"); name != "" {
		return name
	}
	return "bookworm"
}

func TestAppliance(t *testing.T) {
	n := boot(t, release())
	g := &appliance{n, labtest.NewBrowser(t, "https://"+node.Address+":3443", n.Dial), t.TempDir()}
	g.listenOutside(t, "198.51.100.1:8080", origin)
	for _, stage := range []struct {
		name string
		do   func(*testing.T, *appliance)
	}{
		{"Install", install},
		{"SetUp", setUp},
		{"NotRoot", notRoot},
		{"EveryComponentChanges", everyComponentChanges},
		{"Traffic", traffic},
		{"Services", services},
		{"HostileAPI", hostileAPI},
		{"Reboot", reboot},
		{"RebootWithoutDatabase", rebootWithoutDatabase},
		{"Upgrade", upgrade},
		{"BrokenUpgrades", brokenUpgrades},
		{"Remove", remove},
		{"Purge", purge},
	} {
		if !t.Run(stage.name, func(t *testing.T) { stage.do(t, g) }) {
			t.Fatalf("what follows %s needs it", stage.name)
		}
	}
}

func install(t *testing.T, g *appliance) {
	if err := g.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.publish(t, "1.0.0")
	started := time.Now()
	if err := g.Install(t.Context(), "gateway", "wireguard-go"); err != nil {
		t.Fatal(err)
	}
	t.Logf("installed in %s", time.Since(started).Round(time.Second))
	g.waitUp(t)
}

// publish builds a version of the package into the node's repository, as the vendor does.
func (g *appliance) publish(t *testing.T, version string) {
	t.Helper()
	g.offer(t, "package", "repository", "VERSION="+version)
}

// offer has make fill the node's repository, and the node look there.
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
func (g *appliance) waitUp(t *testing.T) {
	t.Helper()
	poll(t, "the console answers", 30*time.Second, func() bool {
		a, err := g.Do(t.Context(), http.MethodGet, "/system/health", nil)
		return err == nil && a.Status == 200
	})
	g.WaitDatabase(t)
}

func setUp(t *testing.T, g *appliance) {
	g.Must(t, http.MethodPost, "/setup/complete", fields{
		"admin_email": labtest.AdminEmail, "admin_password": labtest.AdminPassword, "fqdn": "gateway.example.net", "acme_email": labtest.AdminEmail,
		"acme_enabled": false, "ipv6_enabled": true, "setup_token": g.sh(t, "gateway-ctl setup-token"),
	}, 200, nil)
	g.Login(t)
	g.allLive(t)
}

// components of a gateway.
var components = []string{"network", "ntp", "dns", "forward-proxy", "dhcp", "radius", "tunnel", "packet-filter", "reverse-proxy"}

func (g *appliance) allLive(t *testing.T) {
	t.Helper()
	for _, c := range components {
		g.WaitState(t, c, "live", 30*time.Second)
	}
}
