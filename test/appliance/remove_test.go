package appliance

import (
	"strings"
	"testing"

	"edge.internal/gateway/test/node"
)

// remove leaves Debian's daemons with Debian's configuration, and no file of another package changed.
func remove(t *testing.T, g *appliance) {
	g.backUp(t) // for purge
	out := g.sh(t, "apt-get remove -y -q gateway 2>&1")
	t.Log(node.Tail(out))
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

// purge leaves nothing but the backups and one last copy.
func purge(t *testing.T, g *appliance) {
	g.sh(t, "mkdir -p /var/tmp/systemd-private-00000000000000000000000000000000-gateway-waf.service-cutoff/tmp")
	out := g.sh(t, "apt-get purge -y -q gateway 2>&1")
	saved := g.sh(t, "ls /var/backups/gateway-purged-*.tar.gz")
	if !strings.Contains(out, saved) {
		t.Errorf("%s is not named: %s", saved, node.Tail(out))
	}
	if list := g.sh(t, "tar -tzf "+saved); !strings.Contains(list, "database.dump") || !strings.Contains(list, "etc/gateway/master.key") {
		t.Errorf("the last copy has %s", list)
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
