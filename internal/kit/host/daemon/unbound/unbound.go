// Package unbound describes the DNS resolver to the kit, and has the client of its control socket.
package unbound

import (
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
)

const Unit daemon.Unit = "unbound"

// Configuration files. Main includes DropIn.
const (
	Main   daemon.Place = "unbound.main"
	DropIn daemon.Place = "unbound.dropin"
)

// Check validates the staged DropIn.
const Check daemon.Command = "unbound.check"

const LogSource daemon.LogSource = "dns"

const binary = "/usr/sbin/unbound"

var Daemon = daemon.Daemon{
	Packages: []string{"unbound"},
	Units: []daemon.UnitSpec{{
		Unit: Unit, Name: "Unbound", Binary: binary,
		Argv: []string{binary, "-d", "-p", "-c", "/etc/unbound/gateway.conf"},
		Folders: []daemon.Folder{
			daemon.FolderAt("/etc/unbound", 0o755, "root", "root"),
			daemon.FolderAt("/etc/unbound/gateway.conf.d", 0o755, "root", "root"),
			daemon.FolderAt("/var/lib/unbound", 0o755, "unbound", "unbound"),
		},
		Ports: []int{53},
		Ready: Socket,
		Stop:  syscall.SIGTERM, Grace: 5 * time.Second,
	}},
	Places: map[daemon.Place]daemon.PlaceSpec{
		Main:   daemon.FileAt("/etc/unbound/gateway.conf", 0o644, "root", "root", admit),
		DropIn: daemon.FileAt("/etc/unbound/gateway.conf.d/gateway.conf", 0o644, "root", "root", admit),
	},
	Commands: map[daemon.Command]daemon.CommandSpec{
		Check: {Argv: []string{"/usr/sbin/unbound-checkconf", "{unbound.dropin}"}, Timeout: 30 * time.Second, Rights: daemon.Checking,
			Staged: []daemon.Place{DropIn}},
	},
	Sources: map[daemon.LogSource]daemon.LogSourceSpec{LogSource: {Services: daemon.Services(Unit)}},
	LogViews: []daemon.LogView{{
		Order: 3, Name: "dns", Title: "DNS",
		Description: "The resolver, unbound.", Sources: []daemon.LogSource{LogSource},
	}},
	Verbs: verbs,
}
