// Package haproxy describes the reverse proxy to the kit, and has the client of its sockets.
package haproxy

import (
	"syscall"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Unit is HAProxy's systemd unit: a master and its workers.
const Unit daemon.Unit = "haproxy"

// Configuration files. Paths in Config are relative to its folder, so that a staged copy of all files can be checked.
const (
	Config             daemon.Place = "haproxy.config"
	Hosts              daemon.Place = "haproxy.map.hosts"
	Wildcards          daemon.Place = "haproxy.map.wildcards"
	Routes             daemon.Place = "haproxy.map.routes"
	Headers            daemon.Place = "haproxy.map.headers"
	Switches           daemon.Place = "haproxy.map.switches"
	MaintenancePage    daemon.Place = "haproxy.page.maintenance"
	BlockedPage        daemon.Place = "haproxy.page.blocked"
	Inspection         daemon.Place = "haproxy.inspection" // how it queries the WAF agent
	CertificateList    daemon.Place = "haproxy.certificates"
	ManagementList     daemon.Place = "haproxy.management"
	DefaultCertificate daemon.Place = "haproxy.certificate.default"
)

const (
	certificatePrefix = "haproxy.certificate/"
	certificateFolder = "/etc/haproxy/gateway/certificates/"
)

func Certificate(id uuid.UUID) daemon.Place { return daemon.Place(certificatePrefix + id.String()) }

const (
	Check   daemon.Command = "haproxy.check"   // validate the staged Config with the staged files that it names
	Version daemon.Command = "haproxy.version" // version and build options
)

// HAProxy logs to one unit's journal; the kit splits it.
const (
	LogSource         daemon.LogSource = "proxy"          // its own messages
	RequestsLogSource daemon.LogSource = "proxy-requests" // request lines
)

// Requests names the view of the request log, the only one whose entries belong to a domain.
const Requests = "reverse-proxy-access"

const binary = "/usr/sbin/haproxy"

var yes, no = true, false

var Daemon = daemon.Daemon{
	Packages: []string{"haproxy"},
	Units: []daemon.UnitSpec{{
		Unit: Unit, Name: "HAProxy", Binary: binary,
		Argv: []string{binary, "-W", "-S", MasterSocket, "-p", PIDFile, "-f", "/etc/haproxy/gateway/haproxy.cfg"},
		Folders: []daemon.Folder{
			daemon.FolderAt("/etc/haproxy", 0o755, "root", "root"),
			daemon.FolderAt("/etc/haproxy/gateway", 0o755, "root", "root"),
			daemon.FolderAt("/etc/haproxy/gateway/maps", 0o755, "root", "root"),
			daemon.FolderAt("/etc/haproxy/gateway/pages", 0o755, "root", "root"),
			daemon.FolderAt("/etc/haproxy/gateway/certificates", 0o700, "root", "root"),
			daemon.FolderAt("/var/lib/haproxy", 0o755, "root", "root"),
			daemon.FolderAt("/run/haproxy", 0o755, "root", "root"),
			daemon.FolderAt("/run/gateway-haproxy", 0o755, "root", "root"),
		},
		Ports: []int{80, 443, 3443},
		Ready: AdminSocket,
		// SIGTERM ends it immediately; SIGUSR1 would wait for its clients.
		Stop: syscall.SIGTERM, Grace: 5 * time.Second,
	}},
	Places: map[daemon.Place]daemon.PlaceSpec{
		// HAProxy reads its files as root. Header values may be secret, so nobody else can read them.
		Config:             {Path: "/etc/haproxy/gateway/haproxy.cfg", Mode: 0o640, Owner: "root", Group: "root", Grammar: admit, Part: admitPart, Split: Split},
		Hosts:              daemon.FileAt("/etc/haproxy/gateway/maps/hosts.map", 0o640, "root", "root", nil),
		Wildcards:          daemon.FileAt("/etc/haproxy/gateway/maps/wildcards.map", 0o640, "root", "root", nil),
		Routes:             daemon.FileAt("/etc/haproxy/gateway/maps/routes.map", 0o640, "root", "root", nil),
		Headers:            daemon.FileAt("/etc/haproxy/gateway/maps/headers.map", 0o640, "root", "root", nil),
		Switches:           daemon.FileAt("/etc/haproxy/gateway/maps/switches.map", 0o640, "root", "root", nil),
		MaintenancePage:    daemon.FileAt("/etc/haproxy/gateway/pages/maintenance.html", 0o644, "root", "root", nil),
		BlockedPage:        daemon.FileAt("/etc/haproxy/gateway/pages/blocked.html", 0o644, "root", "root", admitPage),
		Inspection:         daemon.FileAt("/etc/haproxy/gateway/spoe.cfg", 0o640, "root", "root", admitInspection),
		CertificateList:    daemon.FileAt("/etc/haproxy/gateway/certificates.list", 0o640, "root", "root", admitCertificates),
		ManagementList:     daemon.FileAt("/etc/haproxy/gateway/management.list", 0o640, "root", "root", admitCertificates),
		DefaultCertificate: daemon.FileAt(certificateFolder+"default.pem", 0o600, "root", "root", nil),
	},
	Families: []daemon.Family{{
		Prefix: certificatePrefix, Folder: certificateFolder, Suffix: ".pem", Mode: 0o600, Owner: "root", Group: "root",
		Names: func(name string) bool {
			id, err := uuid.Parse(name)
			return err == nil && id.String() == name
		},
	}},
	Commands: map[daemon.Command]daemon.CommandSpec{
		Check: {Argv: []string{binary, "-c", "-f", "{haproxy.config}"}, Timeout: time.Minute, Rights: daemon.Checking, Words: alerts,
			Staged: []daemon.Place{
				Config, Inspection, CertificateList, ManagementList, BlockedPage, MaintenancePage, Hosts, Wildcards, Routes, Headers, Switches,
			}},
		Version: {Argv: []string{binary, "-vv"}, Timeout: 5 * time.Second},
	},
	Sources: map[daemon.LogSource]daemon.LogSourceSpec{
		LogSource:         {Services: daemon.Services(Unit), Requests: &no},
		RequestsLogSource: {Services: daemon.Services(Unit), Requests: &yes},
	},
	LogViews: []daemon.LogView{
		{Order: 1, Name: "reverse-proxy", Title: "Reverse proxy",
			Description: "Messages of HAProxy about itself and its servers.", Sources: []daemon.LogSource{LogSource}},
		{Order: 1, Name: Requests, Title: "Reverse proxy, requests",
			Description: "Requests of domains whose access log is on, and requests of all domains that failed.",
			Sources:     []daemon.LogSource{RequestsLogSource}},
	},
	Verbs:    verbs,
	Refusals: []error{(*ReloadRefused)(nil)},
}
