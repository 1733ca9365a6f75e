package host

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/grammar"
	"edge.internal/gateway/internal/kit/job"
)

// The gateway's own programs.
const (
	Helper    Unit = "gateway-helper"
	API       Unit = "gateway-api"
	Scheduler Unit = "gateway-scheduler"
	WAF       Unit = "gateway-waf"
)

// The files that are nobody else's.
const (
	// RouteProtocols names the gateway's protocol for those who list routes.
	RouteProtocols Place = "iproute2.protocols"
	// NetworkState is what links, addresses and routes shall be, for people to read.
	NetworkState Place = "network.state"
	// MasterKey is the key of the sealed secrets. A node that joins a cluster gets the cluster's.
	MasterKey Place = "gateway.master-key"
	// NodeFile says what the machine is in a cluster, for people and scripts.
	NodeFile Place = "gateway.node"
)

// The logs of the gateway's own programs, and of the journal itself.
const (
	APILogSource       LogSource = "api"
	SchedulerLogSource LogSource = "scheduler"
	HelperLogSource    LogSource = "helper"
	WAFLogSource       LogSource = "waf"
	JournalLogSource   LogSource = "journal"
)

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
	daemon.FolderAt("/etc/gateway", 0o750, "root", User),
	daemon.FolderAt("/var/lib/gateway", 0o700, User, User),
	daemon.FolderAt(BackupFolder, 0o700, User, User),
	daemon.FolderAt("/var/log/gateway", 0o750, User, User),
	daemon.FolderAt("/run/gateway", 0o755, User, User),
}

// ownGrace is longer than the gateway's own programs give requests and jobs to end.
const ownGrace = 30 * time.Second

// own is what the closed lists have of the gateway itself.
var own = daemon.Daemon{
	Packages: []string{GatewayPackage},
	Units: []UnitSpec{
		{
			Unit: Helper,
			Folders: []Folder{
				daemon.FolderAt("/etc/gateway", 0o750, "root", User),
				daemon.FolderAt("/var/lib/gateway-helper", 0o700, "root", "root"),
				daemon.FolderAt(job.Restore.Folder(), 0o750, "root", User),
				daemon.FolderAt(job.Repair.Folder(), 0o750, "root", User),
				daemon.FolderAt("/run/gateway-helper", 0o750, "root", User),
				daemon.FolderAt(CheckFolder, 0o711, "root", "root"),
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
				daemon.FolderAt("/var/lib/gateway-waf", 0o700, WAFUser, WAFUser),
				daemon.FolderAt("/var/log/gateway-waf", 0o750, WAFUser, WAFUser),
				daemon.FolderAt("/run/gateway-waf", 0o750, WAFUser, WAFUser),
			},
			Ports: []int{9000},
			Ready: WAFSocket,
			Stop:  syscall.SIGTERM, Grace: 10 * time.Second,
		},
	},
	Places: map[Place]PlaceSpec{
		RouteProtocols: daemon.FileAt("/etc/iproute2/rt_protos.d/gateway.conf", 0o644, "root", "root", nil),
		NetworkState:   daemon.FileAt("/var/lib/gateway-helper/network.json", 0o644, "root", "root", nil),
		MasterKey:      daemon.FileAt("/etc/gateway/master.key", 0o640, "root", User, admitKey),
		NodeFile:       daemon.FileAt("/etc/gateway/node.conf", 0o644, "root", "root", admitNodeFile),
	},
	Sources: map[LogSource]daemon.LogSourceSpec{
		APILogSource:       {Services: daemon.Services(API)},
		SchedulerLogSource: {Services: daemon.Services(Scheduler)},
		// systemd alone starts the last two.
		HelperLogSource: {Services: slices.Concat(
			daemon.Services(Helper), daemon.Services(job.Names()...), daemon.Services("gateway-firewall", "gateway-probe"))},
		WAFLogSource: {Services: daemon.Services(WAF)},
	},
	Shown: []daemon.Shown{
		{Name: "api", Title: "API",
			Description: "The service behind the console, and the changes it applies.", Sources: []LogSource{APILogSource}, Admins: true},
		{Name: "scheduler", Title: "Scheduler", Description: "Background jobs.", Sources: []LogSource{SchedulerLogSource}, Admins: true},
		{Name: "helper", Title: "Helper", Description: "What the gateway does as root: its start, upgrades, restores and diagnostics.",
			Sources: []LogSource{HelperLogSource}, Admins: true},
		{Name: "waf", Title: "WAF agent",
			Description: "The agent of the web application firewall.", Sources: []LogSource{WAFLogSource}, Admins: true},
	},
}

// journald is the daemon that keeps what the others say.
var journald = daemon.Daemon{
	Sources: map[LogSource]daemon.LogSourceSpec{JournalLogSource: {Services: daemon.Services("systemd-journald")}},
	Shown: []daemon.Shown{{
		Order: 10, Name: "journal", Title: "Log daemon",
		Description: "The journal itself: what it rotates, and what it had to drop.", Sources: []LogSource{JournalLogSource},
	}},
}

// admitKey takes a key and nothing else.
func admitKey(text string) error {
	if len(text) != 32 {
		return fmt.Errorf("it has %d bytes", len(text))
	}
	return nil
}

var nodeLine = regexp.MustCompile(`^(NODE_ID|HOSTNAME|MGMT_IP|ROLE|PEER_HOSTS)=[A-Za-z0-9.:,_-]*$`)

// admitNodeFile takes settings whose values a shell reads as they are.
func admitNodeFile(text string) error {
	return grammar.Lines(text, grammar.Longest, func(words []string) error {
		if len(words) != 1 || !nodeLine.MatchString(words[0]) {
			return fmt.Errorf("it has %q", strings.Join(words, " "))
		}
		return nil
	})
}
