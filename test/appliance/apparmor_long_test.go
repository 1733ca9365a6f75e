//go:build long

package appliance

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// denial is what AppArmor kept a program from: the profile, and the file or capability.
type denial struct{ profile, what string }

// harmless are denials that keep nothing from working, and why.
var harmless = map[denial]string{
	{"unbound", "net_admin"}: "it asks for larger socket buffers than the kernel allows, and goes on with what it gets",
}

// Every Debian has AppArmor, which denies daemons, and the same programs when they check a configuration, what their profiles do not
// list. A node has none, because it runs on this machine's kernel: so this test boots what was installed there with Debian's kernel.
func TestAppArmor(t *testing.T) {
	installed := newAppliance(t)
	installed.install(t, append([]string{"apparmor"}, detection...)...)
	image := installed.disk(t)
	began := time.Now()
	// Debian 12's kernel does not allow binding the IPv4 address of the installation again: the gateway gets another one.
	g := newGateway(t, emulate(t, image), emulationPace, "198.51.100.3")
	g.waitUp(t)
	t.Logf("up %s after power-on", time.Since(began).Round(time.Second))

	// This must be found in the log: otherwise the test would not find anything.
	refused := denial{"/usr/sbin/chronyd", "/srv/agent"}
	if out, err := g.Run(t.Context(), "chronyd", "-p", "-f", refused.what); err == nil || !strings.Contains(out, "Permission denied") {
		t.Fatalf("chronyd reads what it must not: %v, %s", err, out)
	}
	g.setUp(t)
	g.everyComponentChanges(t)
	t.Logf("every component has its change after %s", time.Since(began).Round(time.Second))

	for _, unit := range []string{"chrony", "unbound", "kea-dhcp4-server"} {
		if profile := g.sh(t, "cat /proc/$(systemctl show --property=MainPID --value "+unit+")/attr/current"); !strings.HasSuffix(profile, " (enforce)") {
			t.Errorf("AppArmor does not confine %s: %s", unit, profile)
		}
	}
	g.nothingFailed(t)
	denied := g.denials(t)
	if len(denied[refused]) == 0 {
		t.Errorf("the log does not have what AppArmor denies: %v", denied)
	}
	delete(denied, refused)
	for d, lines := range denied {
		if why, ok := harmless[d]; ok {
			t.Logf("%s: %s: %s", d.profile, d.what, why)
		} else {
			t.Errorf("denied %d times: %s", len(lines), lines[0])
		}
	}
}

var deniedField = regexp.MustCompile(`\b(profile|name|capname)="([^"]*)"`)

// denials returns the denials of AppArmor in the kernel's log since boot.
func (g *gateway) denials(t *testing.T) map[denial][]string {
	t.Helper()
	if first := g.sh(t, "dmesg | head -n 1"); !strings.Contains(first, "Linux version") {
		t.Fatalf("the log has lost its beginning: it begins with %s", first)
	}
	found := map[denial][]string{}
	for line := range strings.Lines(g.sh(t, `dmesg | grep -F 'apparmor="DENIED"' || true`)) {
		var d denial
		for _, field := range deniedField.FindAllStringSubmatch(line, -1) {
			if field[1] == "profile" {
				d.profile = field[2]
			} else {
				d.what = field[2]
			}
		}
		found[d] = append(found[d], strings.TrimSpace(line))
	}
	return found
}
