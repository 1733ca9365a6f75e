// Package freeradius is the RADIUS server: what the kit knows of it, and the conversation with it.
package freeradius

import (
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Unit is FreeRADIUS.
const Unit daemon.Unit = "freeradius"

// The files.
const (
	Config  daemon.Place = "freeradius.config"
	Clients daemon.Place = "freeradius.clients"
	Users   daemon.Place = "freeradius.users"
)

// Check asks: is the staged Config good, with the staged files that it names?
const Check daemon.Command = "freeradius.check"

// The logs.
const (
	Logins    daemon.Log = "freeradius.logins" // who tried to log in
	ServerLog daemon.Log = "freeradius.server" // what the server says about itself and about what it drops
)

// LogSource is what it says to the journal.
const LogSource daemon.LogSource = "radius"

const binary = "/usr/sbin/freeradius"

// Daemon is its entry in the closed lists.
var Daemon = daemon.Daemon{
	Packages: []string{"freeradius"},
	Units: []daemon.UnitSpec{{
		Unit: Unit, Name: "FreeRADIUS", Binary: binary,
		// As the package's unit runs it: without a privilege from the start. -P: or it would not say when it serves.
		Argv: []string{
			"/usr/bin/setpriv", "--reuid=freerad", "--regid=freerad", "--init-groups", binary, "-f", "-P", "-d", "/etc/freeradius/gateway",
		},
		Folders: []daemon.Folder{
			daemon.FolderAt("/etc/freeradius", 0o750, "freerad", "freerad"),
			daemon.FolderAt("/etc/freeradius/gateway", 0o750, "root", "freerad"),
			daemon.FolderAt("/var/log/freeradius", 0o750, "freerad", "freerad"),
			daemon.FolderAt("/run/freeradius", 0o755, "freerad", "freerad"),
		},
		Ports: []int{1812, 1813},
		Ready: "/run/freeradius/freeradius.pid",
		Stop:  syscall.SIGTERM, Grace: 5 * time.Second,
	}},
	Places: map[daemon.Place]daemon.PlaceSpec{
		Config:  daemon.FileAt("/etc/freeradius/gateway/radiusd.conf", 0o640, "root", "freerad", admit),
		Clients: daemon.FileAt("/etc/freeradius/gateway/gateway-clients.conf", 0o640, "root", "freerad", admitClients),
		Users:   daemon.FileAt("/etc/freeradius/gateway/gateway-users", 0o640, "root", "freerad", admitUsers),
	},
	Commands: map[daemon.Command]daemon.CommandSpec{
		Check: {Argv: []string{binary, "-C", "-l", "stdout", "-d", "{freeradius.config}/.."}, Timeout: 30 * time.Second,
			Rights: daemon.Checking,
			Staged: []daemon.Place{Config, Clients, Users}},
	},
	Logs: map[daemon.Log]daemon.LogSpec{
		Logins:    {Path: "/var/log/freeradius/gateway-logins.log", Limit: 8 << 20},
		ServerLog: {Path: "/var/log/freeradius/radius.log", Limit: 8 << 20},
	},
	Sources: map[daemon.LogSource]daemon.LogSourceSpec{LogSource: {Services: daemon.Services(Unit)}},
	Shown: []daemon.Shown{{
		Order: 6, Name: "radius", Title: "RADIUS", Description: "FreeRADIUS and its login attempts.",
		Sources: []daemon.LogSource{LogSource}, Files: []daemon.Log{ServerLog, Logins}, Admins: true,
	}},
	Verbs: verbs,
}
