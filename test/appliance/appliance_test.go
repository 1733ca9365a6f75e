// Package appliance installs the package on a Debian with systemd as its first process, and lives through what a machine lives
// through: set-up, reboots, upgrades, removal.
package appliance

import (
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/lab/labtest"
)

type fields map[string]any

// appliance is a node with a gateway on it.
type appliance struct {
	*node
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
	g := &appliance{n, labtest.NewBrowser(t, "https://"+address+":3443", n.dial), t.TempDir()}
	n.listenOutside(t, "198.51.100.1:8080", origin)
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

// network is what a person who installs a Debian has answered.
const networkFile = `auto lo
iface lo inet loopback
auto eth0
iface eth0 inet static
	address ` + address + `/24
iface eth0 inet6 static
	address 2001:db8:1::2/64
	accept_ra 0
	dad-attempts 0
`

// clockDropIn keeps chrony from setting the clock, which the node shares with this machine.
const clockDropIn = `[Service]
Environment=DAEMON_OPTS=-x
EnvironmentFile=/etc/default/chrony-test
`

func install(t *testing.T, g *appliance) {
	g.write(t, "/etc/hosts", []byte("127.0.0.1 localhost\n127.0.1.1 node.example.net node\n::1 localhost\n"))
	g.write(t, "/etc/network/interfaces", []byte(networkFile))
	g.write(t, "/etc/systemd/system/chrony.service.d/zz-test.conf", []byte(clockDropIn))
	g.write(t, "/etc/default/chrony-test", []byte("DAEMON_OPTS=\"-F 1 -x\"\n"))
	g.sh(t, "systemctl restart networking")
	g.publish(t, "1.0.0")
	started := time.Now()
	out, err := g.run(t.Context(), "apt-get", "install", "-y", "-q", "--no-install-recommends", "gateway", "wireguard-go", "crowdsec", "crowdsec-firewall-bouncer")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
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
	build := exec.Command("make", append([]string{"-C", "../..", "DIST=" + g.dist, "REPOSITORY_URL=file:/srv/apt"}, targets...)...)
	build.Env = append(os.Environ(), "COMPRESSION=none")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("make %v: %v\n%s", targets, err, tail(string(out)))
	}
	apt := filepath.Join(g.dist, "apt")
	err := filepath.WalkDir(apt, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			g.copy(t, path, "/srv/apt/"+strings.TrimPrefix(path, apt+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The Debian is not reached from here; what apt knows of it stays.
	g.sh(t, `cp /srv/apt/gateway.asc /etc/apt/keyrings/
		cp /srv/apt/gateway.sources /etc/apt/sources.list.d/
		apt-get update -q -o Dir::Etc::sourcelist=/etc/apt/sources.list.d/gateway.sources -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 2>&1`)
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
var components = []string{"network", "ntp", "dns", "forward-proxy", "dhcp", "radius", "tunnel", "packet-filter", "reverse-proxy", "ids", "ids-firewall-bouncer"}

func (g *appliance) allLive(t *testing.T) {
	t.Helper()
	for _, c := range components {
		g.WaitState(t, c, "live", 30*time.Second)
	}
}
