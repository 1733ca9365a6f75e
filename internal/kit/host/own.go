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

const (
	Helper    Unit = "gateway-helper"
	API       Unit = "gateway-api"
	Scheduler Unit = "gateway-scheduler"
	WAF       Unit = "gateway-waf"
)

// Files that belong to no daemon.
const (
	// RouteProtocols gives the gateway's routing protocol a name in the output of ip.
	RouteProtocols Place = "iproute2.protocols"
	// NetworkState is the intended state of links, addresses and routes, for people to read.
	NetworkState Place = "network.state"
	// MasterKey encrypts the sealed secrets. A node that joins a cluster receives the cluster's key.
	MasterKey Place = "gateway.master-key"
	// NodeFile states the node's role in the cluster, for people and scripts.
	NodeFile Place = "gateway.node"
)

// Logs of the gateway's own programs, and of the journal itself.
const (
	APILogSource       LogSource = "api"
	SchedulerLogSource LogSource = "scheduler"
	HelperLogSource    LogSource = "helper"
	WAFLogSource       LogSource = "waf"
	JournalLogSource   LogSource = "journal"
)

// User runs the gateway's own programs, except the helper and the WAF agent.
const User = "gateway"

// WAFUser runs the agent of the web application firewall. The agent parses untrusted input and must not reach User's files. User is
// a member of its group.
const WAFUser = "gateway-waf"

// WAFSocket serves the WAF agent's status.
const WAFSocket = "/run/gateway-waf/status.sock"

// HelperSocket serves the verbs that need root.
const HelperSocket = "/run/gateway-helper/helper.sock"

// stateFolders are writable by the gateway's own programs, except /etc/gateway.
var stateFolders = []Folder{
	daemon.FolderAt("/etc/gateway", 0o750, "root", User),
	daemon.FolderAt("/var/lib/gateway", 0o700, User, User),
	daemon.FolderAt(BackupFolder, 0o700, User, User),
	daemon.FolderAt("/var/log/gateway", 0o750, User, User),
	daemon.FolderAt("/run/gateway", 0o755, User, User),
}

// ownGrace is longer than the gateway's programs wait for requests and jobs to end.
const ownGrace = 30 * time.Second

// own describes the gateway's own programs as if they were a daemon.
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
		// Only systemd starts the last two, so they are not in the list of units.
		HelperLogSource: {Services: slices.Concat(
			daemon.Services(Helper), daemon.Services(job.Names()...), daemon.Services("gateway-firewall", "gateway-probe"))},
		WAFLogSource: {Services: daemon.Services(WAF)},
	},
	LogViews: []daemon.LogView{
		{Name: "api", Title: "API",
			Description: "The service behind the console, and the changes it applies.", Sources: []LogSource{APILogSource}, Admins: true},
		{Name: "scheduler", Title: "Scheduler", Description: "Background jobs.", Sources: []LogSource{SchedulerLogSource}, Admins: true},
		{Name: "helper", Title: "Helper", Description: "What the gateway does as root: its start, upgrades, restores and diagnostics.",
			Sources: []LogSource{HelperLogSource}, Admins: true},
		{Name: "waf", Title: "WAF agent",
			Description: "The agent of the web application firewall.", Sources: []LogSource{WAFLogSource}, Admins: true},
	},
}

// journald has no unit here, because the gateway neither starts nor stops it.
var journald = daemon.Daemon{
	Sources: map[LogSource]daemon.LogSourceSpec{JournalLogSource: {Services: daemon.Services("systemd-journald")}},
	LogViews: []daemon.LogView{{
		Order: 10, Name: "journal", Title: "Log daemon",
		Description: "The journal itself: what it rotates, and what it had to drop.", Sources: []LogSource{JournalLogSource},
	}},
}

// admitKey accepts exactly a key's 32 bytes.
func admitKey(text string) error {
	if len(text) != 32 {
		return fmt.Errorf("%d bytes: a key has 32", len(text))
	}
	return nil
}

var nodeLine = regexp.MustCompile(`^(NODE_ID|HOSTNAME|MGMT_IP|ROLE|PEER_HOSTS)=[A-Za-z0-9.:,_-]*$`)

// admitNodeFile accepts only values without shell syntax, because scripts source the file.
func admitNodeFile(text string) error {
	return grammar.Lines(text, grammar.Longest, func(words []string) error {
		if len(words) != 1 || !nodeLine.MatchString(words[0]) {
			return fmt.Errorf("unexpected %q", strings.Join(words, " "))
		}
		return nil
	})
}
