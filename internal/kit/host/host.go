// Package host is the only door to the machine: the files the gateway writes, the daemons it starts and stops, the
// commands it runs and the kernel it asks.
//
// Every verb takes names from closed lists (Place, Unit, Command), never a path, a unit name or an argument vector, so
// that the verbs can move behind a privileged helper without touching a room.
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

// Machine is all that a room may ask of the machine. System is the real one; hosttest has one in memory.
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
	// Run runs one command of the closed list. A command that ends with a non-zero status is an *ExitError; a command
	// whose program is missing is ErrNotInstalled.
	Run(ctx context.Context, c Command, in Input) (Output, error)
	// Facts tells who the machine is.
	Facts() Facts
	// Vendors names who made the network cards with these MAC addresses. Those that the list does not have are left out. Without a list
	// on the machine, it is ErrNotInstalled.
	Vendors(macs []string) (map[string]string, error)
	// Resources reads load, memory, disk and connection tracking.
	Resources() (Resources, error)
}

var machineVerbs = daemon.Verbs{
	"Run":   daemon.Served,
	"Facts": daemon.Local, "Vendors": daemon.Local, "Resources": daemon.Local,
}

// Conversations are those with running daemons.
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

// Files reads and replaces the files of the closed list of places.
type Files interface {
	// Read returns the content of a place; a missing file is fs.ErrNotExist.
	Read(p Place) ([]byte, error)
	// Differing returns the places that hold something else than they should, or nothing. It is one question for thousands of files.
	Differing(want []Digest) ([]Place, error)
	// Install replaces a place atomically: staged beside it, synced, renamed, the folder synced. It creates the folder
	// when it is missing, and sets the mode and owner that the list gives the place.
	Install(p Place, content []byte) error
	// Amend changes some parts of a place, and leaves it as Install of the whole would. It fails with parts.ErrOther unless the
	// change is for what this process has installed there. Of most places it knows no parts.
	Amend(p Place, c parts.Change) error
	// Remove deletes a place; a missing file is not an error.
	Remove(p Place) error
	// Path tells where a place is, for people: previews, messages.
	Path(p Place) string
	// Sweep removes what a process that died has left staged for a check. Only the process that applies may ask for it.
	Sweep() error
}

var filesVerbs = daemon.Verbs{
	"Read": daemon.Repeatable, "Differing": daemon.Repeatable, "Install": daemon.Repeatable, "Amend": daemon.Repeatable, "Remove": daemon.Repeatable, "Sweep": daemon.Repeatable,
	"Path": daemon.Local,
}

// Units starts and stops daemons: systemd in production, the lab's supervisor in a lab.
type Units interface {
	// State never fails because a daemon is missing: it answers Installed false.
	State(ctx context.Context, u Unit) (UnitState, error)
	// Start, Stop and Restart return when the daemon has done it, or say why it did not. Reload returns when it has been told to.
	Start(ctx context.Context, u Unit) error
	Stop(ctx context.Context, u Unit) error
	Restart(ctx context.Context, u Unit) error
	Reload(ctx context.Context, u Unit) error
	// Enable decides whether the unit starts with the machine.
	Enable(ctx context.Context, u Unit, on bool) error
	// Watch names every unit once, and then each one that may have changed its state, until the context ends. An error says
	// that nothing more will be heard.
	Watch(ctx context.Context, told func(Unit)) error
}

var unitsVerbs = daemon.Verbs{
	"State": daemon.Local, "Watch": daemon.Local,
	"Start": daemon.Served, "Stop": daemon.Served, "Restart": daemon.Served, "Reload": daemon.Served, "Enable": daemon.Served,
}

// UnitState is what a unit does now.
type UnitState struct {
	Unit      Unit      `json:"unit"`
	Installed bool      `json:"installed"`
	Active    string    `json:"active"` // active, reloading, activating, deactivating, inactive, failed (systemd's words); empty when not installed
	Since     time.Time `json:"since"`  // when it entered that state
	PID       int       `json:"pid"`
	Detail    string    `json:"detail"` // why it failed, when it did
}

// Facts tells who the machine is.
type Facts struct {
	Hostname  string
	OS        string // PRETTY_NAME of /etc/os-release
	Kernel    string // release of uname
	MachineID string // /etc/machine-id, 32 hex digits
	Journal   bool   // whether systemd keeps what daemons say
}

// Resources is the load of the machine.
type Resources struct {
	Load1, Load5, Load15         float64
	NumCPUs                      int
	MemoryTotal, MemoryAvailable uint64 // bytes
	DiskTotal, DiskFree          uint64 // bytes of the root file system, without what is reserved
	ConntrackCount, ConntrackMax uint64 // zero where the kernel does not track connections
	Uptime                       time.Duration
}
