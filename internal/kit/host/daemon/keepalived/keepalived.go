// Package keepalived describes the VRRP daemon to the kit, which moves a cluster's virtual addresses, and has the client of its
// notify pipe.
package keepalived

import (
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
)

const Unit daemon.Unit = "keepalived"

const (
	Config daemon.Place = "keepalived.config"
	// Drain is 1 while this node should give its virtual addresses to any other node that can take them, and 0 otherwise.
	Drain daemon.Place = "keepalived.drain"
)

const (
	configPath = "/etc/keepalived/gateway.conf"
	// folder holds the files with which keepalived and the gateway notify each other.
	folder    = "/run/keepalived"
	drainPath = folder + "/drain"
	// States is the pipe to which keepalived writes its state changes.
	States = folder + "/states"
)

// Check validates the staged Config against this machine's links.
const Check daemon.Command = "keepalived.check"

const LogSource daemon.LogSource = "vrrp"

const (
	// ProbeUser and ProbeGroup run Probe.
	ProbeUser, ProbeGroup = "nobody", "nogroup"
	// Probe is the command with which keepalived checks the reverse proxy.
	Probe = `"/usr/bin/curl -q --silent --output /dev/null --noproxy 127.0.0.1 --max-time 2 http://127.0.0.1/"`

	binary = "/usr/sbin/keepalived"
)

var Daemon = daemon.Daemon{
	Packages: []string{"keepalived"},
	Units: []daemon.UnitSpec{{
		Unit: Unit, Name: "keepalived", Binary: binary,
		Argv: []string{binary, "--dont-fork", "--log-console", "--use-file", configPath},
		Folders: []daemon.Folder{
			daemon.FolderAt("/etc/keepalived", 0o755, "root", "root"),
			daemon.FolderAt(folder, 0o755, "root", "root"),
		},
		Ready:  States,
		Reload: syscall.SIGHUP, Stop: syscall.SIGTERM, Grace: 5 * time.Second,
	}},
	Places: map[daemon.Place]daemon.PlaceSpec{
		Config: daemon.FileAt(configPath, 0o644, "root", "root", admit),
		Drain:  daemon.FileAt(drainPath, 0o644, "root", "root", admitDrain),
	},
	Commands: map[daemon.Command]daemon.CommandSpec{
		// Debian 13's keepalived checks nothing unless it can read its own build options.
		Check: {Argv: []string{binary, "-t", "-f", "{keepalived.config}"}, Timeout: 10 * time.Second, Asks: "the network",
			Rights: daemon.CheckingAsNobody,
			Staged: []daemon.Place{Config}, Reads: []string{"/etc/keepalived/keepalived.config-opts"}},
	},
	Sources: map[daemon.LogSource]daemon.LogSourceSpec{LogSource: {Services: daemon.Services(Unit)}},
	LogViews: []daemon.LogView{{
		Order: 9, Name: "vrrp", Title: "Virtual addresses",
		Description: "keepalived, which moves the virtual addresses of a cluster.", Sources: []daemon.LogSource{LogSource},
	}},
	Verbs: verbs,
}
