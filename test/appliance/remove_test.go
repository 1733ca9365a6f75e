package appliance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"edge.internal/gateway/test/node"
)

// mirrorsAway makes the package mirrors unreachable: the machine keeps working, and the list of versions reports it.
func mirrorsAway(t *testing.T, g *appliance) {
	g.sh(t, "echo 'deb http://127.0.0.1:9/ away main' > /etc/apt/sources.list.d/away.list")
	defer g.sh(t, "rm /etc/apt/sources.list.d/away.list")
	g.sh(t, "systemctl start gateway-packages.service")
	if state := g.sh(t, "systemctl is-failed gateway-packages.service || true"); state != "inactive" {
		t.Errorf("the unit is %s", state)
	}
	var said struct {
		Error string `json:"refresh_error"`
	}
	g.Must(t, http.MethodGet, "/system/package-versions", nil, 200, &said)
	if !strings.Contains(said.Error, "127.0.0.1:9") {
		t.Errorf("%+v", said)
	}
}

// remove leaves Debian's daemons with Debian's configuration, and no file of another package changed.
func remove(t *testing.T, g *appliance) {
	g.backUp(t) // for purge
	const forwards = "cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding"
	if on := g.sh(t, forwards); on != "1\n1" {
		t.Fatalf("the gateway does not forward: %s", on)
	}
	out := g.sh(t, "apt-get remove -y -q gateway 2>&1")
	t.Log(node.Tail(out))
	// Without its packet filter the machine does not forward, as before, and the output lists the open ports.
	if on := g.sh(t, forwards); on != "0\n0" {
		t.Errorf("the machine still forwards: %s", on)
	}
	for _, said := range []string{"the machine no longer forwards packets", "its packet filter is gone", "tcp 3128"} {
		if !strings.Contains(out, said) {
			t.Errorf("it is not said: %s", said)
		}
	}
	if changed := g.sh(t, "dpkg --verify || true"); changed != "" {
		t.Errorf("files of other packages are changed:\n%s", changed)
	}
	if tables := g.sh(t, "nft list tables"); strings.Contains(tables, "gateway") {
		t.Errorf("the table is left: %s", tables)
	}
	if left := g.sh(t, "systemctl list-units --all --no-legend --plain 'gateway*' | grep -v 'not-found' || true"); left != "" {
		t.Errorf("units are left: %s", left)
	}
	for _, daemon := range []string{"chrony", "unbound", "haproxy"} {
		line := g.sh(t, "systemctl is-active "+daemon+" && tr '\\0' ' ' < /proc/$(systemctl show --property=MainPID --value "+daemon+")/cmdline")
		if strings.Contains(line, "gateway") {
			t.Errorf("%s still runs with the gateway's configuration: %s", daemon, line)
		}
	}
	if left := g.sh(t, "ls -d /var/lib/gateway /etc/gateway/master.key /etc/gateway/gateway.conf"); left == "" {
		t.Error("removing took the state, which purging does")
	}
}

// largestLastCopy is how many bytes the last copy may have: the database, the state and the logs of a gateway that was tested for an hour.
const largestLastCopy = 16 << 20

// purge leaves nothing but the backups and one last copy.
func purge(t *testing.T, g *appliance) {
	g.sh(t, "mkdir -p /var/tmp/systemd-private-00000000000000000000000000000000-gateway-waf.service-cutoff/tmp")
	out := g.sh(t, "apt-get purge -y -q gateway 2>&1")
	saved := g.sh(t, "ls /var/backups/gateway-purged-*.tar.gz")
	if !strings.Contains(out, saved) {
		t.Errorf("%s is not named: %s", saved, node.Tail(out))
	}
	if list := g.sh(t, "tar -tzf "+saved); !strings.Contains(list, "database.dump") || !strings.Contains(list, "etc/gateway/master.key") || strings.Contains(list, ".deb") {
		t.Errorf("the last copy has %s", list)
	}
	// It contains neither the installed package nor those of upgrades, so it is small.
	var size int
	if _, err := fmt.Sscan(g.sh(t, "stat -c %s "+saved), &size); err != nil || size > largestLastCopy {
		t.Errorf("the last copy has %d bytes: %v", size, err)
	}
	t.Logf("the last copy has %d bytes", size)
	if left := g.sh(t, "ls -d /var/backups/*gateway*"); left != saved {
		t.Errorf("beside the last copy there is more: %s", left)
	}
	if left := g.sh(t, "grep -s gateway /etc/passwd /etc/shadow /etc/group /etc/gshadow /etc/subuid /etc/subgid || true"); left != "" {
		t.Errorf("users, groups or members of groups are left: %s", left)
	}
	if left := g.sh(t, "find / -xdev \\( -nouser -o -nogroup \\) -not -path '/proc/*' -not -path '/srv/*' | head"); left != "" {
		t.Errorf("files belong to nobody: %s", left)
	}
	left := g.sh(t, "find / -xdev -path '*gateway*' -not -path '/var/backups/*' -not -path '/var/lib/gateway-backups*' -not -path '/srv/*' -not -path '/etc/apt/*' -not -path '/proc/*' -not -path '/sys/*' -not -path '/var/log/apt/*' -not -path '/var/lib/dpkg/*' -not -path '/var/lib/apt/*' -not -path '/var/cache/*' | head -20")
	if left != "" {
		t.Errorf("left: %s", left)
	}
	if kept := g.sh(t, "ls /var/lib/gateway-backups"); !strings.Contains(kept, ".archive") || !strings.Contains(out, "the backups in /var/lib/gateway-backups are kept") {
		t.Errorf("of the backups there are %q, and it is said: %s", kept, node.Tail(out))
	}
	if databases := g.sh(t, "setpriv --reuid=postgres --regid=postgres --clear-groups psql -XAt -c 'select datname from pg_database union select rolname from pg_roles'"); strings.Contains(databases, "gateway") {
		t.Errorf("left in PostgreSQL: %s", databases)
	}
	if changed := g.sh(t, "dpkg --verify || true"); changed != "" {
		t.Errorf("files of other packages are changed:\n%s", changed)
	}
}
