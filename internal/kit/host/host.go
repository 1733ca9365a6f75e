// Package host is the only door to the machine: the files that the gateway writes, the daemons that it starts and stops, the
// commands that it runs and the kernel's state.
//
// Every verb takes names from closed lists (Place, Unit, Command), never a path, a unit name or an argument vector. So the
// privileged helper can serve the verbs to callers that it does not trust.
package host

import (
	"context"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/parts"
)

// Machine is everything a room may do on the machine. machine.Machine is the real one; hosttest has one in memory.
type Machine interface {
	Files
	Units
	Network
	Filter
	Conversations
	Logs
	Journal
	Tunnels
	Ports
	Packages
	Probes
	Connections
	Backups
	job.Machine
	// Run runs a command of the closed list. A non-zero exit status is an *ExitError; a missing program is ErrNotInstalled.
	Run(ctx context.Context, c Command, in Input) (Output, error)
	Facts() Facts
	// Vendors returns the makers of the network cards with these MAC addresses, as far as the machine's list knows them. Without a
	// list it is ErrNotInstalled.
	Vendors(macs []string) (map[string]string, error)
	// Resources reads load, memory, disk and connection tracking.
	Resources() (Resources, error)
}

var machineVerbs = daemon.Verbs{
	"Run":   daemon.Served,
	"Facts": daemon.Local, "Vendors": daemon.Local, "Resources": daemon.Local,
}

// Conversations talks to running daemons. Each method is documented in its daemon's folder.
type Conversations interface {
	haproxy.Proxy
	unbound.Resolver
	squid.ForwardProxy
	kea.Leases
	freeradius.Radius
	crowdsec.Detection
	crowdsec.Bans
	keepalived.VirtualRouter
	postgresql.Database
}

// Files reads and replaces files by their place in the closed list.
type Files interface {
	// Read fails with fs.ErrNotExist if the file is missing.
	Read(p Place) ([]byte, error)
	// Differing returns the places whose content differs from the digest, or that are missing. It is one call for thousands of files.
	Differing(want []Digest) ([]Place, error)
	// Install replaces a place atomically: it stages the file beside it, syncs, renames, and syncs the folder. It creates missing
	// folders, and sets the mode and owner from the closed list.
	Install(p Place, content []byte) error
	// Amend changes some parts of a place; the result is the same as installing the whole. It fails with parts.ErrOther unless the
	// change applies to what this process has installed there. Most places have no parts.
	Amend(p Place, c parts.Change) error
	Remove(p Place) error
	// Path is for previews and messages.
	Path(p Place) string
	// Sweep removes what processes that died have staged for a check. It may hold secrets.
	Sweep() error
}

var filesVerbs = daemon.Verbs{
	"Read": daemon.Repeatable, "Differing": daemon.Repeatable, "Install": daemon.Repeatable, "Amend": daemon.Repeatable,
	"Remove": daemon.Repeatable, "Sweep": daemon.Repeatable, "Path": daemon.Local,
}

// Units starts and stops daemons, with systemd in production and with the lab's supervisor in a lab.
type Units interface {
	// State reports a daemon that is not installed as Installed false, not as an error.
	State(ctx context.Context, u Unit) (UnitState, error)
	// Start, Stop and Restart return when the daemon has done it. Reload returns as soon as the daemon was told to.
	Start(ctx context.Context, u Unit) error
	Stop(ctx context.Context, u Unit) error
	Restart(ctx context.Context, u Unit) error
	Reload(ctx context.Context, u Unit) error
	// Enable sets whether the unit starts at boot.
	Enable(ctx context.Context, u Unit, on bool) error
	// Watch calls changed once for every unit, and then for each one whose state may have changed, until the context ends. It fails
	// if the watch breaks.
	Watch(ctx context.Context, changed func(Unit)) error
}

var unitsVerbs = daemon.Verbs{
	"State": daemon.Local, "Watch": daemon.Local,
	"Start": daemon.Served, "Stop": daemon.Served, "Restart": daemon.Served, "Reload": daemon.Served, "Enable": daemon.Served,
}

// UnitState is the current state of a unit, in systemd's words.
type UnitState struct {
	Unit      Unit      `json:"unit"`
	Installed bool      `json:"installed"`
	Active    string    `json:"active"` // active, reloading, activating, deactivating, inactive, failed; empty if not installed
	Since     time.Time `json:"since"`  // when it entered this state
	PID       int       `json:"pid"`
	Detail    string    `json:"detail"` // why it failed, if it did
}

type Facts struct {
	Hostname  string
	OS        string // PRETTY_NAME of /etc/os-release
	Kernel    string // release of uname
	MachineID string // /etc/machine-id, 32 hex digits
	Journal   bool   // whether the daemons' logs are in systemd's journal
}

type Resources struct {
	Load1, Load5, Load15         float64
	NumCPUs                      int
	MemoryTotal, MemoryAvailable uint64 // bytes
	DiskTotal, DiskFree          uint64 // bytes of the root file system, without the blocks reserved for root
	ConntrackCount, ConntrackMax uint64 // zero if the kernel does not track connections
	Uptime                       time.Duration
}
