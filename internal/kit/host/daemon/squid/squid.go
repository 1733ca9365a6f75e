// Package squid describes the forward proxy to the kit, and has the clients of squid and of its judge, a program that decides about
// requests.
package squid

import (
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
)

const Unit daemon.Unit = "squid"

// Configuration files. Main includes DropIn.
const (
	Main   daemon.Place = "squid.main"
	DropIn daemon.Place = "squid.dropin"
	// AccessList is the part of the access list that the judge evaluates for squid.
	AccessList daemon.Place = "squid.acls"
)

const accessListPath = "/etc/squid/gateway.acls"

const Check daemon.Command = "squid.check"

const AccessLog daemon.Log = "squid.access"

const LogSource daemon.LogSource = "forward-proxy"

const binary = "/usr/sbin/squid"

var Daemon = daemon.Daemon{
	Packages: []string{"squid"},
	Units: []daemon.UnitSpec{{
		Unit: Unit, Name: "Squid", Binary: binary,
		Argv: []string{binary, "--foreground", "-f", "/etc/squid/gateway.conf"},
		Folders: []daemon.Folder{
			daemon.FolderAt("/etc/squid", 0o755, "root", "root"),
			daemon.FolderAt("/etc/squid/conf.d", 0o755, "root", "root"),
			daemon.FolderAt("/var/log/squid", 0o750, "proxy", "proxy"),
			daemon.FolderAt("/var/spool/squid", 0o750, "proxy", "proxy"),
			daemon.FolderAt("/run/squid", 0o775, "root", "proxy"),
			daemon.FolderAt("/run/gateway-squid", 0o755, "root", "root"),
		},
		Ports:  []int{3128},
		Ready:  JudgeSocket,
		Reload: syscall.SIGHUP, Stop: syscall.SIGTERM, Grace: 10 * time.Second,
	}},
	Places: map[daemon.Place]daemon.PlaceSpec{
		Main:   daemon.FileAt("/etc/squid/gateway.conf", 0o644, "root", "root", admit),
		DropIn: daemon.FileAt("/etc/squid/conf.d/gateway.conf", 0o644, "root", "root", admit),
		// The judge runs as squid's user.
		AccessList: daemon.FileAt(accessListPath, 0o640, "root", "proxy", nil),
	},
	Commands: map[daemon.Command]daemon.CommandSpec{
		Check: {Argv: []string{binary, "-k", "parse", "-f", "{squid.dropin}"}, Timeout: 30 * time.Second, Rights: daemon.Checking,
			Staged: []daemon.Place{DropIn}},
	},
	// Debian's logrotate rotates it.
	Logs:    map[daemon.Log]daemon.LogSpec{AccessLog: {Path: "/var/log/squid/access.log"}},
	Sources: map[daemon.LogSource]daemon.LogSourceSpec{LogSource: {Services: daemon.Services(Unit)}},
	LogViews: []daemon.LogView{
		{Order: 2, Name: "forward-proxy", Title: "Forward proxy",
			Description: "Messages of squid.", Sources: []daemon.LogSource{LogSource}},
		{Order: 2, Name: "forward-proxy-access", Title: "Forward proxy, requests",
			Description: "Requests of the forward proxy's clients.", Files: []daemon.Log{AccessLog}},
	},
	Verbs: verbs,
}
