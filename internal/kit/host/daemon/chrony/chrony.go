// Package chrony describes the time daemon to the kit.
package chrony

import (
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
)

const Unit daemon.Unit = "chrony"

// Configuration files. Main includes DropIn.
const (
	Main   daemon.Place = "chrony.main"
	DropIn daemon.Place = "chrony.dropin"
)

const (
	Check    daemon.Command = "chrony.check"    // parse the staged DropIn
	Tracking daemon.Command = "chrony.tracking" // offset and error of the clock
	Sources  daemon.Command = "chrony.sources"  // the time servers and their state
	Burst    daemon.Command = "chrony.burst"    // measure every source now
	Makestep daemon.Command = "chrony.makestep" // step the clock to the measured time
)

const LogSource daemon.LogSource = "ntp"

const (
	chronyd = "/usr/sbin/chronyd"
	chronyc = "/usr/bin/chronyc"
)

var Daemon = daemon.Daemon{
	Packages: []string{"chrony"},
	Units: []daemon.UnitSpec{{
		Unit: Unit, Name: "chrony", Binary: chronyd,
		// -x: a lab shares the machine's clock and must never set it.
		Argv: []string{chronyd, "-x", "-d", "-f", "/etc/chrony/gateway.conf"},
		Folders: []daemon.Folder{
			daemon.FolderAt("/etc/chrony", 0o755, "root", "root"),
			daemon.FolderAt("/etc/chrony/conf.d", 0o755, "root", "root"),
			daemon.FolderAt("/var/lib/chrony", 0o750, "_chrony", "_chrony"),
			daemon.FolderAt("/var/log/chrony", 0o755, "_chrony", "_chrony"),
			// With any other mode chronyd refuses its command socket.
			daemon.FolderAt("/run/chrony", 0o750, "_chrony", "_chrony"),
		},
		Ports: []int{123},
		Ready: "/run/chrony/chronyd.sock",
		Stop:  syscall.SIGTERM, Grace: 5 * time.Second,
	}},
	Places: map[daemon.Place]daemon.PlaceSpec{
		Main:   daemon.FileAt("/etc/chrony/gateway.conf", 0o644, "root", "root", admit),
		DropIn: daemon.FileAt("/etc/chrony/conf.d/gateway.conf", 0o644, "root", "root", admit),
	},
	Commands: map[daemon.Command]daemon.CommandSpec{
		Check: {Argv: []string{chronyd, "-p", "-f", "{chrony.dropin}"}, Timeout: 10 * time.Second, Rights: daemon.Checking,
			Staged: []daemon.Place{DropIn}},
		Tracking: {Argv: []string{chronyc, "-c", "-n", "tracking"}, Timeout: 5 * time.Second, Asks: string(Unit)},
		Sources:  {Argv: []string{chronyc, "-c", "-n", "sources"}, Timeout: 5 * time.Second, Asks: string(Unit)},
		Burst:    {Argv: []string{chronyc, "-n", "burst", "4/4"}, Timeout: 5 * time.Second, Asks: string(Unit)},
		Makestep: {Argv: []string{chronyc, "-n", "makestep"}, Timeout: 5 * time.Second, Asks: string(Unit)},
	},
	Sources: map[daemon.LogSource]daemon.LogSourceSpec{LogSource: {Services: daemon.Services(Unit)}},
	LogViews: []daemon.LogView{{
		Order: 4, Name: "ntp", Title: "NTP",
		Description: "The time daemon, chrony.", Sources: []daemon.LogSource{LogSource},
	}},
}
