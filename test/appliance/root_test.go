package appliance

import (
	"fmt"
	"strings"
	"testing"
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

// What faces the network has nothing of root.
func notRoot(t *testing.T, g *appliance) {
	for _, unit := range []string{"gateway-api", "gateway-scheduler"} {
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
	for _, secret := range []string{"/etc/shadow", "/etc/ssl/private", "/etc/freeradius/3.0/clients.conf", "/var/lib/gateway-helper", "/var/lib/postgresql/15/main/PG_VERSION"} {
		if out, err := g.run(t.Context(), "setpriv", "--reuid=gateway", "--regid=gateway", "--init-groups", "cat", secret); err == nil || !strings.Contains(out, "Permission denied") {
			t.Errorf("the user gateway reads %s: %v, %s", secret, err, out)
		}
	}
	if out, err := g.run(t.Context(), "setpriv", "--reuid=gateway", "--regid=gateway", "--init-groups", "dd", "if=/dev/null", "of=/etc/gateway/master.key"); err == nil {
		t.Errorf("the user gateway writes the master key: %s", out)
	}
}

// exposure is how exposed systemd finds each unit, from 0 to 10, at most.
var exposure = map[string]float64{"gateway-api": 2.0, "gateway-scheduler": 2.0, "gateway-helper": 3.5}

func hardening(t *testing.T, g *appliance) {
	for unit, limit := range exposure {
		out := g.sh(t, "systemd-analyze security --no-pager "+unit+".service | tail -1")
		var found float64
		at := strings.LastIndex(out, ": ")
		if _, err := fmt.Sscan(out[at+2:], &found); err != nil || at < 0 {
			t.Fatalf("%s: %v", out, err)
		}
		t.Logf("%s: %.1f", unit, found)
		if found > limit {
			t.Errorf("%s is exposed: %.1f, at most %.1f", unit, found, limit)
		}
	}
}
