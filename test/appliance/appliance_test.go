// Package appliance installs the package on a Debian with systemd as its first process, and lives through what a machine lives
// through: set-up, reboots, upgrades, removal.
package appliance

import "testing"

func TestAppliance(t *testing.T) {
	n := boot(t, "bookworm")
	t.Log(n.sh(t, "systemctl is-system-running; uname -a; systemctl --failed; ls /var/cache/apt/archives | wc -l; ip addr"))
}
