// Package haproxy is the reverse proxy's daemon: what the kit knows of it, and the conversation with it.
package haproxy

import (
	"syscall"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Unit is HAProxy: a master, and the workers that it starts.
const Unit daemon.Unit = "haproxy"

// The files. Paths in the configuration are relative to the folder of Config, so that a staged copy of all of them can be checked.
const (
	Config             daemon.Place = "haproxy.config"
	Hosts              daemon.Place = "haproxy.map.hosts"
	Wildcards          daemon.Place = "haproxy.map.wildcards"
	Routes             daemon.Place = "haproxy.map.routes"
	Headers            daemon.Place = "haproxy.map.headers"
	Switches           daemon.Place = "haproxy.map.switches"
	MaintenancePage    daemon.Place = "haproxy.page.maintenance"
	BlockedPage        daemon.Place = "haproxy.page.blocked"
	Inspection         daemon.Place = "haproxy.inspection" // how it asks the web application firewall
	CertificateList    daemon.Place = "haproxy.certificates"
	ManagementList     daemon.Place = "haproxy.management"
	DefaultCertificate daemon.Place = "haproxy.certificate.default"
)

const (
	certificatePrefix = "haproxy.certificate/"
	certificateFolder = "/etc/haproxy/gateway/certificates/"
)

// Certificate is a certificate of the reverse proxy with its key.
func Certificate(id uuid.UUID) daemon.Place { return daemon.Place(certificatePrefix + id.String()) }

// The commands.
const (
	Check   daemon.Command = "haproxy.check"   // is the staged Config good, with the staged files that it names?
	Version daemon.Command = "haproxy.version" // which version it is, and what is built in
)

// What it says.
const (
	LogSource         daemon.LogSource = "proxy"          // about itself
	RequestsLogSource daemon.LogSource = "proxy-requests" // about the requests that it logs
)

// Requests is the name under which people read of requests: the one log that says which domain it speaks of.
const Requests = "reverse-proxy-access"

const binary = "/usr/sbin/haproxy"

var yes, no = true, false

// Daemon is its entry in the closed lists.
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
		// The signal that ends it at once; there is another one that waits for its clients.
		Stop: syscall.SIGTERM, Grace: 5 * time.Second,
	}},
	Places: map[daemon.Place]daemon.PlaceSpec{
		// HAProxy reads its files as root. The values of headers are nobody else's business.
		Config:             daemon.FileAt("/etc/haproxy/gateway/haproxy.cfg", 0o640, "root", "root", admit),
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
	Shown: []daemon.Shown{
		{Order: 1, Name: "reverse-proxy", Title: "Reverse proxy",
			Description: "Messages of HAProxy about itself and its servers.", Sources: []daemon.LogSource{LogSource}},
		{Order: 1, Name: Requests, Title: "Reverse proxy, requests",
			Description: "Requests of domains whose access log is on, and requests of all domains that failed.",
			Sources:     []daemon.LogSource{RequestsLogSource}},
	},
	Verbs:    verbs,
	Refusals: []error{(*ReloadRefused)(nil)},
}
