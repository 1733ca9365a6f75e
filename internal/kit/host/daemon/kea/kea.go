// Package kea describes the DHCP server to the kit, and has the client of its control socket.
package kea

import (
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Unit is the systemd unit of Kea's DHCPv4 server.
const Unit daemon.Unit = "kea-dhcp4-server"

const Config daemon.Place = "kea.config"

const Check daemon.Command = "kea.check"

const LogSource daemon.LogSource = "dhcp"

const binary = "/usr/sbin/kea-dhcp4"

var Daemon = daemon.Daemon{
	Packages: []string{"kea-dhcp4-server"},
	Units: []daemon.UnitSpec{{
		Unit: Unit, Name: "Kea", Binary: binary,
		Argv: []string{binary, "-c", "/etc/kea/gateway/kea-dhcp4.conf"},
		Folders: []daemon.Folder{
			daemon.FolderAt("/etc/kea", 0o755, "root", "root"),
			daemon.FolderAt("/etc/kea/gateway", 0o755, "root", "root"),
			daemon.FolderAt("/var/lib/kea", 0o750, "_kea", "_kea"),
			// Since 2.6, Kea refuses any other mode for the folder of its control socket.
			daemon.FolderAt("/run/kea", 0o750, "_kea", "_kea"),
		},
		Ports: []int{67},
		Ready: control,
		Stop:  syscall.SIGTERM, Grace: 5 * time.Second,
	}},
	Places: map[daemon.Place]daemon.PlaceSpec{
		Config: daemon.FileAt("/etc/kea/gateway/kea-dhcp4.conf", 0o644, "root", "root", admit),
	},
	Commands: map[daemon.Command]daemon.CommandSpec{
		Check: {Argv: []string{binary, "-t", "{kea.config}"}, Timeout: 30 * time.Second,
			Rights: daemon.Checking, Env: []string{"KEA_LOCKFILE_DIR=none"},
			Staged: []daemon.Place{Config}},
	},
	Sources: map[daemon.LogSource]daemon.LogSourceSpec{LogSource: {Services: daemon.Services(Unit)}},
	LogViews: []daemon.LogView{{
		Order: 5, Name: "dhcp", Title: "DHCP",
		Description: "The DHCP server, Kea.", Sources: []daemon.LogSource{LogSource},
	}},
	Verbs:    verbs,
	Refusals: []error{(*Refused)(nil)},
}
