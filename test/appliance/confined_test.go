package appliance

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// capabilities are what a daemon may have of root, at most.
func capabilities(numbers ...int) (set uint64) {
	for _, n := range numbers {
		set |= 1 << n
	}
	return set
}

// confinedDaemons are those of a single node with their allowed capabilities. Debian lets chronyd set the clock and bind its ports, and
// removes a list of others.
var confinedDaemons = map[string]uint64{
	"haproxy":                   capabilities(unix.CAP_NET_BIND_SERVICE, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_CHOWN, unix.CAP_KILL),
	"squid":                     capabilities(unix.CAP_NET_BIND_SERVICE, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_DAC_OVERRIDE, unix.CAP_KILL),
	"unbound":                   capabilities(unix.CAP_NET_BIND_SERVICE, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_KILL),
	"kea-dhcp4-server":          capabilities(unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW),
	"freeradius":                0,
	"crowdsec":                  capabilities(unix.CAP_DAC_READ_SEARCH),
	"crowdsec-firewall-bouncer": capabilities(unix.CAP_NET_ADMIN),
	"chrony":                    1<<(unix.CAP_LAST_CAP+1) - 1 - capabilities(unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO),
}

// clusterDaemons are those that run besides on a node of a cluster.
var clusterDaemons = map[string]uint64{
	"keepalived": capabilities(unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_NET_BROADCAST, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL),
}

// outOfReach prints what a daemon must neither read nor write nor talk to, and does, where it runs.
const outOfReach = `
for file in /etc/shadow /etc/gateway/master.key /etc/gateway/gateway.conf; do [ ! -s "$file" ] || echo "reads $file"; done
for socket in /run/dbus/system_bus_socket /run/systemd/private /run/gateway-helper/helper.sock; do [ ! -S "$socket" ] || echo "reaches $socket"; done
for folder in /etc /usr /root /boot /var/lib/dpkg /var/lib/gateway $RUN /run/systemd /run/systemd/system /run/gateway-helper; do ! touch "$folder/written" 2>/dev/null || echo "writes $folder"; done
`

// areConfined checks that the running daemons, most of which start as root, lack root's capabilities.
func (g *appliance) areConfined(t *testing.T, daemons map[string]uint64) {
	t.Helper()
	for _, socket := range []string{"/run/dbus/system_bus_socket", "/run/systemd/private", "/run/gateway-helper/helper.sock"} {
		g.sh(t, "test -S "+socket) // or nothing is shown by its absence elsewhere
	}
	for _, unit := range slices.Sorted(maps.Keys(daemons)) {
		run := "/run"
		if unit == "unbound" || unit == "chrony" { // Debian's AppArmor profile denies it the rest there
			run = ""
		}
		if reached := g.sh(t, "RUN="+run+" nsenter --target "+g.pid(t, unit)+" --mount sh -c '"+outOfReach+"'"); reached != "" {
			t.Errorf("%s: %s", unit, reached)
		}
		processes := strings.Fields(g.sh(t, "cat /sys/fs/cgroup$(systemctl show --property=ControlGroup --value "+unit+")/cgroup.procs"))
		if len(processes) == 0 {
			t.Errorf("%s has no process", unit)
		}
		for _, pid := range processes {
			status, err := g.Run(t.Context(), "cat", "/proc/"+pid+"/status")
			if err != nil {
				continue // it has ended
			}
			found := map[string]string{}
			for line := range strings.Lines(status) {
				name, value, _ := strings.Cut(line, ":")
				found[name] = strings.TrimSpace(value)
			}
			var bound uint64
			if _, err := fmt.Sscanf(found["CapBnd"], "%x", &bound); err != nil || bound&^daemons[unit] != 0 {
				t.Errorf("%s (%s) may have the capabilities %s: %v", unit, found["Name"], found["CapBnd"], err)
			}
			if found["NoNewPrivs"] != "1" || found["Seccomp"] != "2" {
				t.Errorf("%s (%s): new privileges %s, filter of calls %s", unit, found["Name"], found["NoNewPrivs"], found["Seccomp"])
			}
		}
	}
}

func daemonsAreConfined(t *testing.T, g *appliance) {
	g.areConfined(t, confinedDaemons)
	// squid rereads its files inside of its sandbox, without a restart.
	squid := g.pid(t, "squid")
	g.live(t, http.MethodPost, "/forward-proxy/acls", fields{"name": "elsewhere", "type": "dst", "value": "203.0.113.0/24", "action": "deny"})
	if g.pid(t, "squid") != squid {
		t.Error("squid was restarted to read its files")
	}
	// What serves strangers is not root, whatever has started it.
	for unit, user := range map[string]string{"haproxy": "haproxy", "squid": "proxy", "unbound": "unbound", "kea-dhcp4-server": "_kea", "freeradius": "freerad", "chrony": "_chrony"} {
		if users := g.sh(t, "for pid in $(cat /sys/fs/cgroup$(systemctl show --property=ControlGroup --value "+unit+")/cgroup.procs); do id -un $(awk '/^Uid:/ {print $2}' /proc/$pid/status); done"); !strings.Contains(users, user) {
			t.Errorf("%s runs as %q", unit, users)
		}
	}
}

// exposure is the most that systemd may find open in a unit, by its own measure from 0 to 10. Two run apt, and are not closed.
var exposure = map[string]float64{
	"gateway-api": 2.0, "gateway-scheduler": 2.0, "gateway-repair": 2.0, "gateway-waf": 2.0, "gateway-probe": 2.3, "gateway-wireguard@": 3.2, "gateway-database": 2.7,
	"gateway-helper": 3.6, "gateway-firewall": 3.6, "gateway-restore": 4.1, "gateway-packages": 10, "gateway-upgrade": 10,
	"haproxy": 3.0, "squid": 3.2, "unbound": 3.2, "chrony": 3.7, "kea-dhcp4-server": 2.4, "freeradius": 2.2, "keepalived": 3.3, "crowdsec": 2.5, "crowdsec-firewall-bouncer": 2.5,
}

// The units close what they can, as they are installed, with all drop-ins.
func unitsAreClosed(t *testing.T, g *appliance) {
	units := strings.Fields(g.sh(t, "cd /usr/lib/systemd/system; ls gateway-*.service"))
	for _, daemons := range []map[string]uint64{confinedDaemons, clusterDaemons} {
		for daemon := range daemons {
			units = append(units, daemon+".service")
		}
	}
	for _, unit := range slices.Sorted(slices.Values(units)) {
		most, known := exposure[strings.TrimSuffix(unit, ".service")]
		is := g.exposed(t, strings.Replace(unit, "@", "@x", 1))
		t.Logf("systemd finds %.1f open in %s", is, unit)
		if !known || is > most {
			t.Errorf("systemd finds %.1f open in %s, and may find %.1f", is, unit, most)
		}
	}
}

// exposed is how much systemd finds open in a unit.
func (g *appliance) exposed(t *testing.T, unit string) (sum float64) {
	t.Helper()
	said := g.sh(t, "systemd-analyze security --no-pager "+unit+" | tail -n 1")
	_, text, _ := strings.Cut(said, ".service: ")
	if _, err := fmt.Sscan(text, &sum); err != nil {
		t.Fatalf("%s: %s: %v", unit, said, err)
	}
	return sum
}
