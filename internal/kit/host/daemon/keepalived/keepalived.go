// Package keepalived is what moves the virtual addresses of a cluster: what the kit knows of it, and the conversation with it.
package keepalived

import (
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Unit is keepalived.
const Unit daemon.Unit = "keepalived"

// The files.
const (
	Config daemon.Place = "keepalived.config"
	// Drain is 1 while this node gives the virtual addresses to any other that can have them, and 0 otherwise.
	Drain daemon.Place = "keepalived.drain"
)

const (
	configPath = "/etc/keepalived/gateway.conf"
	// folder is where keepalived and the gateway leave each other word.
	folder    = "/run/keepalived"
	drainPath = folder + "/drain"
	// States is the pipe in which keepalived says what it becomes.
	States = folder + "/states"
)

// Check asks: is the staged Config good, on this machine's links?
const Check daemon.Command = "keepalived.check"

// LogSource is what it says.
const LogSource daemon.LogSource = "vrrp"

const (
	// ProbeUser and ProbeGroup are who runs Probe.
	ProbeUser, ProbeGroup = "nobody", "nogroup"
	// Probe is what keepalived runs to see whether the reverse proxy answers.
	Probe = `"/usr/bin/curl -q --silent --output /dev/null --noproxy 127.0.0.1 --max-time 2 http://127.0.0.1/"`

	binary = "/usr/sbin/keepalived"
)

// Daemon is its entry in the closed lists.
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
		// Debian 13's refuses to check anything unless it can read how it was built.
		Check: {Argv: []string{binary, "-t", "-f", "{keepalived.config}"}, Timeout: 10 * time.Second, Asks: "the network",
			Rights: daemon.CheckingAsNobody,
			Staged: []daemon.Place{Config}, Reads: []string{"/etc/keepalived/keepalived.config-opts"}},
	},
	Sources: map[daemon.LogSource]daemon.LogSourceSpec{LogSource: {Services: daemon.Services(Unit)}},
	Shown: []daemon.Shown{{
		Order: 9, Name: "vrrp", Title: "Virtual addresses",
		Description: "keepalived, which moves the virtual addresses of a cluster.", Sources: []daemon.LogSource{LogSource},
	}},
	Verbs: verbs,
}
