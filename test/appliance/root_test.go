package appliance

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/test/node"
)

// pid is the main process of a unit.
func (g *appliance) pid(t *testing.T, unit string) string {
	t.Helper()
	pid := g.sh(t, "systemctl show --property=MainPID --value "+unit)
	if pid == "0" {
		t.Fatalf("%s does not run", unit)
	}
	return pid
}

// another waits until a unit runs as another process than before.
func (g *appliance) another(t *testing.T, unit, before string) {
	t.Helper()
	waittest.UntilNil(t, unit+" is back", func() error {
		out, err := g.Run(t.Context(), "systemctl", "show", "--property=MainPID", "--value", unit)
		if now := strings.TrimSpace(out); err == nil && (now == "0" || now == before) {
			err = fmt.Errorf("its process is %s, and was %s", now, before)
		}
		return err
	})
}

// What faces the network has nothing of root.
func notRoot(t *testing.T, g *appliance) {
	for _, unit := range []string{"gateway-api", "gateway-scheduler", "gateway-waf"} {
		status := g.sh(t, "cat /proc/"+g.pid(t, unit)+"/status")
		ids := map[string]string{}
		for line := range strings.Lines(status) {
			name, value, _ := strings.Cut(line, ":")
			ids[name] = strings.TrimSpace(value)
		}
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			if ids[set] != "0000000000000000" {
				t.Errorf("%s has capabilities: %s %s", unit, set, ids[set])
			}
		}
		if ids["NoNewPrivs"] != "1" {
			t.Errorf("%s may gain privileges", unit)
		}
		for _, id := range strings.Fields(ids["Uid"] + " " + ids["Gid"] + " " + ids["Groups"]) {
			if id == "0" {
				t.Errorf("%s is root: %s, %s, groups %s", unit, ids["Uid"], ids["Gid"], ids["Groups"])
			}
		}
	}
	for _, secret := range []string{"/etc/shadow", "/etc/ssl/private", "/etc/freeradius/3.0/clients.conf", "/var/lib/gateway-helper", g.sh(t, "ls /var/lib/postgresql/*/main/PG_VERSION")} {
		if out, err := g.Run(t.Context(), "setpriv", "--reuid=gateway", "--regid=gateway", "--init-groups", "cat", secret); err == nil || !strings.Contains(out, "Permission denied") {
			t.Errorf("the user gateway reads %s: %v, %s", secret, err, out)
		}
	}
	if out, err := g.Run(t.Context(), "setpriv", "--reuid=gateway", "--regid=gateway", "--init-groups", "dd", "if=/dev/null", "of=/etc/gateway/master.key"); err == nil {
		t.Errorf("the user gateway writes the master key: %s", out)
	}
	// The programs that parse untrusted requests have no access to the others, either; those may query their state, and only HAProxy may request a verdict.
	for _, secret := range []string{"cat /etc/gateway/master.key", "ls /var/lib/gateway", "ls /run/gateway-helper", "psql -d gateway -c 'SELECT * FROM account_users'"} {
		if out, err := g.Run(t.Context(), "runuser", "-u", "gateway-waf", "--", "sh", "-c", secret); err == nil || !strings.Contains(strings.ToLower(out), "permission denied") {
			t.Errorf("the user gateway-waf, %s: %v, %s", secret, err, out)
		}
	}
	const ask = "curl -sf --unix-socket /run/gateway-waf/status.sock http://waf/status"
	waittest.UntilNil(t, "gateway-waf has asked the database", func() error {
		return g.tells(t, `"version":"1.0.0"`, "runuser", "-u", "gateway", "--", "sh", "-c", ask)
	})
	const knock = "exec 3<>/dev/tcp/127.0.0.1/9000; timeout 2 cat <&3; echo $?"
	for user, want := range map[string]string{"haproxy": "124", "nobody": "0", "gateway": "0"} {
		out, err := g.Run(t.Context(), "runuser", "-u", user, "--", "bash", "-c", knock)
		if err != nil || strings.TrimSpace(out) != want {
			t.Errorf("%s asks gateway-waf: %v, %s", user, err, out)
		}
	}
}

// bringAttacker copies the attacker into the node.
func (g *appliance) bringAttacker(t *testing.T) {
	t.Helper()
	attacker := filepath.Join(t.TempDir(), "attacker")
	build := exec.Command("go", "build", "-o", attacker, "./attacker")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g.copy(t, attacker, "/srv/attacker")
	g.sh(t, "chmod 755 /srv/attacker")
}

// A gateway-api that an attacker has taken over gets nothing from gateway-helper that the gateway does not need.
func hostileAPI(t *testing.T, g *appliance) {
	g.bringAttacker(t)
	g.sh(t, "touch /srv/before")
	helper, processes := g.pid(t, "gateway-helper"), g.sh(t, "systemctl list-units --type=service --state=running --no-legend --plain | cut -d' ' -f1")
	out := g.sh(t, "setpriv --reuid=gateway --regid=gateway --init-groups /srv/attacker")
	t.Log(node.Tail(out))
	if strings.Contains(out, "taken:") {
		t.Errorf("the helper does what it must not: %s", node.Tail(out))
	}
	if now := g.pid(t, "gateway-helper"); now != helper {
		t.Errorf("the helper died: %s, %s", helper, now)
	}
	if now := g.sh(t, "systemctl list-units --type=service --state=running --no-legend --plain | cut -d' ' -f1"); now != processes {
		t.Errorf("what runs has changed:\n%s\n%s", processes, now)
	}
	if written := g.sh(t, "find /etc /usr /root /home /boot /opt /var/lib/gateway-helper /var/spool -xdev -newer /srv/before -not -type d"); written != "" {
		t.Errorf("written: %s", written)
	}
	if t.Failed() {
		t.Log(g.sh(t, "journalctl --no-pager --since=-3min -u gateway-api -u gateway-database -u gateway-helper"))
	}
	// Others do not even reach it.
	if out, err := g.Run(t.Context(), "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "/srv/attacker"); err == nil || !strings.Contains(out, "permission denied") {
		t.Errorf("a stranger: %v, %s", err, node.Tail(out))
	}
	g.allLive(t)
}
