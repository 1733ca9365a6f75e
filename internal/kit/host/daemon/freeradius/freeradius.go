// Package freeradius describes the RADIUS server to the kit, and has the client that tests logins.
package freeradius

import (
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
)

const Unit daemon.Unit = "freeradius"

// Configuration files. Config includes Clients and Users.
const (
	Config  daemon.Place = "freeradius.config"
	Clients daemon.Place = "freeradius.clients"
	Users   daemon.Place = "freeradius.users"
)

// Check validates the staged Config together with the staged Clients and Users.
const Check daemon.Command = "freeradius.check"

const (
	Logins    daemon.Log = "freeradius.logins" // login attempts
	ServerLog daemon.Log = "freeradius.server" // the server's own messages, and dropped requests
)

const LogSource daemon.LogSource = "radius"

const binary = "/usr/sbin/freeradius"

var Daemon = daemon.Daemon{
	Packages: []string{"freeradius"},
	Units: []daemon.UnitSpec{{
		Unit: Unit, Name: "FreeRADIUS", Binary: binary,
		// As the package's unit runs it: unprivileged from the start. Without -P it would write no pid file to tell that it serves.
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
	LogViews: []daemon.LogView{{
		Order: 6, Name: "radius", Title: "RADIUS", Description: "FreeRADIUS and its login attempts.",
		Sources: []daemon.LogSource{LogSource}, Files: []daemon.Log{ServerLog, Logins}, Admins: true,
	}},
	Verbs: verbs,
}
