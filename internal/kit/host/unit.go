package host

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/job"
)

// Unit is one daemon of the gateway.
type Unit string

// The units, the gateway's own programs first.
const (
	Helper     Unit = "gateway-helper"
	API        Unit = "gateway-api"
	Scheduler  Unit = "gateway-scheduler"
	WAF        Unit = "gateway-waf"
	Chrony     Unit = "chrony"
	HAProxy    Unit = "haproxy"
	Unbound    Unit = "unbound"
	Squid      Unit = "squid"
	Kea        Unit = "kea-dhcp4-server"
	FreeRADIUS Unit = "freeradius"
	CrowdSec   Unit = "crowdsec"
	Bouncer    Unit = "crowdsec-firewall-bouncer"
	Keepalived Unit = "keepalived"
)

// Service is systemd's name of the unit.
func (u Unit) Service() string { return service(u) }

func service[N ~string](name N) string { return string(name) + ".service" }

// services are systemd's names of units or jobs.
func services[N ~string](names ...N) (list []string) {
	for _, name := range names {
		list = append(list, service(name))
	}
	return list
}

// UnitSpec is how a unit is run: by systemd under its service name, or by the lab's supervisor as a plain process.
type UnitSpec struct {
	Unit Unit
	// Binary tells whether the unit is installed. It is empty for the gateway's own programs, which come with the gateway.
	Binary string
	// Argv runs it in the foreground. It is empty for the gateway's own programs: who starts them knows where they are.
	Argv []string
	// User is whom the lab runs it as, with that user's groups and without any privilege; empty for root.
	User string
	// Folders must be there before it starts. Those below /run are made anew, the others keep their content.
	Folders []Folder
	// Ports are those that it receives on, unless its configuration says otherwise. Some daemons do not say which one is taken.
	Ports []int
	// Ready is a path that is there as soon as the daemon serves.
	Ready string
	// Unless is a path that keeps it from starting as long as it is there.
	Unless string
	// Reload has it read its files again; zero where it must be restarted for that, or is told in another way.
	Reload syscall.Signal
	// Stop asks it to end; after Grace it is killed.
	Stop  syscall.Signal
	Grace time.Duration
}

// Folder is a folder that a unit needs.
type Folder struct {
	Path         string
	Mode         fs.FileMode
	Owner, Group string
}

// User is whom the gateway's own programs run as, but for the helper and the agent of the web application firewall.
const User = "gateway"

// WAFUser is whom the agent of the web application firewall runs as: it reads what strangers send, and must not reach what is User's.
// User is a member of its group.
const WAFUser = "gateway-waf"

// WAFSocket is where it tells how it stands.
const WAFSocket = "/run/gateway-waf/status.sock"

// HelperSocket is where the helper listens.
const HelperSocket = "/run/gateway-helper/helper.sock"

// stateFolders belong to the gateway's own programs.
var stateFolders = []Folder{
	{"/etc/gateway", 0o750, "root", User},
	{"/var/lib/gateway", 0o700, User, User},
	{BackupFolder, 0o700, User, User},
	{"/var/log/gateway", 0o750, User, User},
	{"/run/gateway", 0o755, User, User},
}

// ownGrace is longer than the gateway's own programs give requests and jobs to end.
const ownGrace = 30 * time.Second

// units is the closed list, in the order in which they start.
var units = []UnitSpec{
	{
		Unit: Helper,
		Folders: []Folder{
			{"/etc/gateway", 0o750, "root", User},
			{"/var/lib/gateway-helper", 0o700, "root", "root"},
			{job.Restore.Folder(), 0o750, "root", User},
			{job.Repair.Folder(), 0o750, "root", User},
			{"/run/gateway-helper", 0o750, "root", User},
			{CheckFolder, 0o711, "root", "root"},
		},
		Ready: HelperSocket,
		Stop:  syscall.SIGTERM, Grace: 5 * time.Second,
	},
	{
		Unit: API, User: User,
		Folders: stateFolders, Ready: "/run/gateway/api.sock", Unless: RestoreHold,
		Stop: syscall.SIGTERM, Grace: ownGrace,
	},
	{
		Unit: Scheduler, User: User,
		Folders: stateFolders, Unless: RestoreHold,
		Stop: syscall.SIGTERM, Grace: ownGrace,
	},
	{
		Unit: WAF, User: WAFUser,
		Folders: []Folder{
			{"/var/lib/gateway-waf", 0o700, WAFUser, WAFUser},
			{"/var/log/gateway-waf", 0o750, WAFUser, WAFUser},
			{"/run/gateway-waf", 0o750, WAFUser, WAFUser},
		},
		Ports: []int{9000},
		Ready: WAFSocket,
		Stop:  syscall.SIGTERM, Grace: 10 * time.Second,
	},
	{
		Unit: Chrony, Binary: "/usr/sbin/chronyd",
		// -x: a lab shares the machine's clock and must never set it.
		Argv: []string{"/usr/sbin/chronyd", "-x", "-d", "-f", "/etc/chrony/gateway.conf"},
		Folders: []Folder{
			{"/etc/chrony", 0o755, "root", "root"},
			{"/etc/chrony/conf.d", 0o755, "root", "root"},
			{"/var/lib/chrony", 0o750, "_chrony", "_chrony"},
			{"/var/log/chrony", 0o755, "_chrony", "_chrony"},
			// With any other mode chronyd refuses its command socket.
			{"/run/chrony", 0o750, "_chrony", "_chrony"},
		},
		Ports: []int{123},
		Ready: "/run/chrony/chronyd.sock",
		Stop:  syscall.SIGTERM, Grace: 5 * time.Second,
	},
	{
		Unit: HAProxy, Binary: haproxy,
		Argv: []string{haproxy, "-W", "-S", ProxyMasterSocket, "-p", ProxyPIDFile, "-f", "/etc/haproxy/gateway/haproxy.cfg"},
		Folders: []Folder{
			{"/etc/haproxy", 0o755, "root", "root"},
			{"/etc/haproxy/gateway", 0o755, "root", "root"},
			{"/etc/haproxy/gateway/maps", 0o755, "root", "root"},
			{"/etc/haproxy/gateway/pages", 0o755, "root", "root"},
			{"/etc/haproxy/gateway/certificates", 0o700, "root", "root"},
			{"/var/lib/haproxy", 0o755, "root", "root"},
			{"/run/haproxy", 0o755, "root", "root"},
			{"/run/gateway-haproxy", 0o755, "root", "root"},
		},
		Ports: []int{80, 443, 3443},
		Ready: ProxyAdminSocket,
		// The signal that ends it at once; there is another one that waits for its clients.
		Stop: syscall.SIGTERM, Grace: 5 * time.Second,
	},
	{
		Unit: Unbound, Binary: unbound,
		Argv: []string{unbound, "-d", "-p", "-c", "/etc/unbound/gateway.conf"},
		Folders: []Folder{
			{"/etc/unbound", 0o755, "root", "root"},
			{"/etc/unbound/gateway.conf.d", 0o755, "root", "root"},
			{"/var/lib/unbound", 0o755, "unbound", "unbound"},
		},
		Ports: []int{53},
		Ready: ResolverSocket,
		Stop:  syscall.SIGTERM, Grace: 5 * time.Second,
	},
	{
		Unit: Squid, Binary: squid,
		Argv: []string{squid, "--foreground", "-f", "/etc/squid/gateway.conf"},
		Folders: []Folder{
			{"/etc/squid", 0o755, "root", "root"},
			{"/etc/squid/conf.d", 0o755, "root", "root"},
			{"/var/log/squid", 0o750, "proxy", "proxy"},
			{"/var/spool/squid", 0o750, "proxy", "proxy"},
			{"/run/squid", 0o775, "root", "proxy"},
			{"/run/gateway-squid", 0o755, "root", "root"},
		},
		Ports:  []int{3128},
		Ready:  JudgeSocket,
		Reload: syscall.SIGHUP, Stop: syscall.SIGTERM, Grace: 10 * time.Second,
	},
	{
		Unit: Kea, Binary: kea,
		Argv: []string{kea, "-c", "/etc/kea/gateway/kea-dhcp4.conf"},
		Folders: []Folder{
			{"/etc/kea", 0o755, "root", "root"},
			{"/etc/kea/gateway", 0o755, "root", "root"},
			{"/var/lib/kea", 0o750, "_kea", "_kea"},
			// Since 2.6 Kea takes no other mode for the folder of its command socket.
			{"/run/kea", 0o750, "_kea", "_kea"},
		},
		Ports: []int{67},
		Ready: keaControl,
		Stop:  syscall.SIGTERM, Grace: 5 * time.Second,
	},
	{
		Unit: FreeRADIUS, Binary: freeradius,
		// As the package's unit runs it: without a privilege from the start. -P: or it would not say when it serves.
		Argv: []string{"/usr/bin/setpriv", "--reuid=freerad", "--regid=freerad", "--init-groups", freeradius, "-f", "-P", "-d", "/etc/freeradius/gateway"},
		Folders: []Folder{
			{"/etc/freeradius", 0o750, "freerad", "freerad"},
			{"/etc/freeradius/gateway", 0o750, "root", "freerad"},
			{"/var/log/freeradius", 0o750, "freerad", "freerad"},
			{"/run/freeradius", 0o755, "freerad", "freerad"},
		},
		Ports: []int{1812, 1813},
		Ready: "/run/freeradius/freeradius.pid",
		Stop:  syscall.SIGTERM, Grace: 5 * time.Second,
	},
	{
		Unit: CrowdSec, Binary: crowdsec,
		Argv: []string{crowdsec, "-c", DetectionConfig.Path()},
		// Its other folders are the package's: the parsers and scenarios that it comes with, and its database.
		Folders: []Folder{
			{"/etc/crowdsec/gateway", 0o755, "root", "root"},
			// It looks for new files in folders that are there when it starts.
			{"/var/log/gateway-waf", 0o750, "gateway-waf", "gateway-waf"},
		},
		Ports: []int{DetectionPort},
		Stop:  syscall.SIGTERM, Grace: 20 * time.Second,
	},
	{
		// It ends when CrowdSec does not answer at its start.
		Unit: Bouncer, Binary: bouncer,
		Argv:    []string{bouncer, "-c", DetectionBouncer.Path()},
		Folders: []Folder{{"/etc/crowdsec/gateway", 0o755, "root", "root"}},
		Stop:    syscall.SIGTERM, Grace: 10 * time.Second,
	},
	{
		Unit: Keepalived, Binary: keepalived,
		Argv: []string{keepalived, "--dont-fork", "--log-console", "--use-file", VRRPConfig.Path()},
		Folders: []Folder{
			{"/etc/keepalived", 0o755, "root", "root"},
			{vrrpFolder, 0o755, "root", "root"},
		},
		Ready:  VRRPStates,
		Reload: syscall.SIGHUP, Stop: syscall.SIGTERM, Grace: 5 * time.Second,
	},
}

// UnitSpecs returns the closed list, in the order in which the units start.
func UnitSpecs() []UnitSpec { return units }

// Spec returns the unit's entry in the closed list.
func (u Unit) Spec() (UnitSpec, error) {
	for _, s := range units {
		if s.Unit == u {
			return s, nil
		}
	}
	return UnitSpec{}, fmt.Errorf("no unit %q in the list", string(u))
}

// Installed tells whether the unit's program is on this machine.
func (s UnitSpec) Installed() bool {
	if s.Binary == "" {
		return true
	}
	info, err := os.Stat(s.Binary)
	return err == nil && info.Mode().IsRegular()
}

// program is the name of the unit's program, for messages.
func (s UnitSpec) program() string {
	if s.Binary == "" {
		return string(s.Unit)
	}
	return filepath.Base(s.Binary)
}

// NotInstalled is ErrNotInstalled with the program's name.
func (s UnitSpec) NotInstalled() error { return fmt.Errorf("%s: %w", s.program(), ErrNotInstalled) }
