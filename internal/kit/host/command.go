package host

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/value"
)

// Command is one program that the gateway runs, with its arguments.
type Command string

// The commands, by daemon.
const (
	ChronyCheck    Command = "chrony.check"    // does the staged ChronyDropIn parse?
	ChronyTracking Command = "chrony.tracking" // how well the clock is known
	ChronySources  Command = "chrony.sources"  // the time sources and their state
	ChronyBurst    Command = "chrony.burst"    // measure every source now
	ChronyMakestep Command = "chrony.makestep" // jump the clock to the measured time

	NftCheck Command = "nft.check" // would the kernel take the staged PacketFilterTable?
	NftLoad  Command = "nft.load"  // load the staged PacketFilterTable, in one transaction

	HAProxyCheck   Command = "haproxy.check"   // is the staged ProxyConfig good, with the staged files that it names?
	HAProxyVersion Command = "haproxy.version" // which version it is, and what is built in

	UnboundCheck Command = "unbound.check" // is the staged UnboundDropIn good?

	SquidCheck Command = "squid.check" // does the staged SquidDropIn parse?

	KeaCheck Command = "kea.check" // is the staged KeaConfig good?

	FreeRADIUSCheck Command = "freeradius.check" // is the staged RadiusConfig good, with the staged files that it names?

	DetectionMachines      Command = "crowdsec.machines"       // who reports to CrowdSec
	DetectionMachineAdd    Command = "crowdsec.machine-add"    // make an account for the machine of the operand, or another password for it, and print that
	DetectionBouncers      Command = "crowdsec.bouncers"       // who asks CrowdSec for its decisions
	DetectionBouncerAdd    Command = "crowdsec.bouncer-add"    // let the bouncer of the operand ask, and print its key
	DetectionBouncerRemove Command = "crowdsec.bouncer-remove" // the bouncer of the operand may ask no more
	DetectionCollections   Command = "crowdsec.collections"    // what CrowdSec knows to look for
	DetectionUnban         Command = "crowdsec.unban"          // end every decision about the address of the operand

	VRRPCheck Command = "keepalived.check" // is the staged VRRPConfig good, on this machine's links?

	WireguardGo Command = "wireguard.go" // do the work of the WireGuard link with the name of the operand, in the background
)

// CommandSpec is the program, its constant arguments, and how long it may take. An argument {place} stands for the path of the
// staged file of that place, and {place}/.. for its folder.
type CommandSpec struct {
	Argv    []string
	Timeout time.Duration
	Asks    string             // whom on the machine it talks to, if anyone: a running daemon, or the kernel
	Operand func(string) error // what its one operand must be; nil for those that take none
	Rights  Rights             // what it may do
	Reads   []string           // the folders that it reads besides, if it is Owning
	Writes  string             // the one of them that it also writes
	Env     []string           // what it needs in its environment
}

// Rights are what a program may do. One that reads a file that the caller has written never has those of the helper: a file that was made
// for it could have it do something.
type Rights int

const (
	// Own rights are those of the process that runs it.
	Own Rights = iota
	// Checking takes none: it is a user who owns nothing, and reads the staged files and what every program reads.
	Checking
	// CheckingAsNobody is Checking as the user nobody, for a program that must be the user that its scripts run as. Its files hold no secrets.
	CheckingAsNobody
	// CheckingApart is Checking in a network of its own, which is empty and which it may change.
	CheckingApart
	// Loading is to be that user, and to change the network of the machine.
	Loading
	// Owning is to be root without a capability, for a program that must own its files: it reads and writes those of its folders alone.
	Owning
)

// CheckUser is that user. Staged files are readable for its group, and for nobody else.
const CheckUser = "gateway-check"

// CheckFolder is where they are staged.
const CheckFolder = "/run/gateway-check"

// commands is the closed list: what is not in it cannot be run.
var commands = map[Command]CommandSpec{
	ChronyCheck:    {Argv: []string{chronyd, "-p", "-f", "{chrony.dropin}"}, Timeout: 10 * time.Second, Rights: Checking},
	ChronyTracking: {Argv: []string{chronyc, "-c", "-n", "tracking"}, Timeout: 5 * time.Second, Asks: string(Chrony)},
	ChronySources:  {Argv: []string{chronyc, "-c", "-n", "sources"}, Timeout: 5 * time.Second, Asks: string(Chrony)},
	ChronyBurst:    {Argv: []string{chronyc, "-n", "burst", "4/4"}, Timeout: 5 * time.Second, Asks: string(Chrony)},
	ChronyMakestep: {Argv: []string{chronyc, "-n", "makestep"}, Timeout: 5 * time.Second, Asks: string(Chrony)},
	NftCheck:       {Argv: []string{nftables, "-c", "-f", "{packet-filter.table}"}, Timeout: 30 * time.Second, Asks: PacketFilter, Rights: CheckingApart},
	NftLoad:        {Argv: []string{nftables, "-f", "{packet-filter.table}"}, Timeout: 30 * time.Second, Asks: PacketFilter, Rights: Loading},
	HAProxyCheck:   {Argv: []string{haproxy, "-c", "-f", "{haproxy.config}"}, Timeout: time.Minute, Rights: Checking},
	HAProxyVersion: {Argv: []string{haproxy, "-vv"}, Timeout: 5 * time.Second},

	UnboundCheck: {Argv: []string{"/usr/sbin/unbound-checkconf", "{unbound.dropin}"}, Timeout: 30 * time.Second, Rights: Checking},

	SquidCheck: {Argv: []string{squid, "-k", "parse", "-f", "{squid.dropin}"}, Timeout: 30 * time.Second, Rights: Checking},

	KeaCheck: {Argv: []string{kea, "-t", "{kea.config}"}, Timeout: 30 * time.Second, Rights: Checking, Env: []string{"KEA_LOCKFILE_DIR=none"}},

	FreeRADIUSCheck: {Argv: []string{freeradius, "-C", "-l", "stdout", "-d", "{freeradius.config}/.."}, Timeout: 30 * time.Second, Rights: Checking},

	DetectionMachines:      cscli(nil, "machines", "list"),
	DetectionMachineAdd:    cscli(isDetectionName, "machines", "add", "--auto", "--force", "--file", "-"),
	DetectionBouncers:      cscli(nil, "bouncers", "list"),
	DetectionBouncerAdd:    cscli(isDetectionName, "bouncers", "add"),
	DetectionBouncerRemove: cscli(IsBouncer, "bouncers", "delete"),
	DetectionCollections:   cscli(nil, "collections", "list"),
	DetectionUnban:         cscli(isAddress, "decisions", "delete", "--ip"),

	VRRPCheck: {Argv: []string{keepalived, "-t", "-f", "{keepalived.config}"}, Timeout: 10 * time.Second, Asks: "the network", Rights: CheckingAsNobody},

	WireguardGo: {Argv: []string{wireguardGo}, Timeout: 10 * time.Second, Asks: "the network", Operand: isIfName},
}

const (
	chronyd    = "/usr/sbin/chronyd"
	chronyc    = "/usr/bin/chronyc"
	nftables   = "/usr/sbin/nft"
	haproxy    = "/usr/sbin/haproxy"
	unbound    = "/usr/sbin/unbound"
	squid      = "/usr/sbin/squid"
	kea        = "/usr/sbin/kea-dhcp4"
	freeradius = "/usr/sbin/freeradius"

	crowdsec = "/usr/bin/crowdsec"
	bouncer  = "/usr/bin/crowdsec-firewall-bouncer"

	keepalived = "/usr/sbin/keepalived"

	wireguardGo = "/usr/bin/wireguard-go"
)

// cscliTimeout is how long CrowdSec's own tool may take: it may wait for the database that CrowdSec writes.
const cscliTimeout = 20 * time.Second

// cscli runs CrowdSec's own tool with the gateway's configuration, and has it answer in JSON. It sets the mode of CrowdSec's database, for which
// it must own that.
func cscli(operand func(string) error, args ...string) CommandSpec {
	return CommandSpec{
		Argv:    append([]string{"/usr/bin/cscli", "--config", DetectionConfig.Path(), "--error", "--output", "json"}, args...),
		Timeout: cscliTimeout, Asks: string(CrowdSec), Operand: operand,
		Rights: Owning, Reads: []string{"/etc/crowdsec", "/var/lib/crowdsec"}, Writes: "/var/lib/crowdsec/data",
	}
}

func isDetectionName(s string) error {
	_, err := value.Parse[DetectionName](s)
	return err
}

func isAddress(s string) error {
	_, err := value.Parse[value.Addr](s)
	return err
}

func isIfName(s string) error {
	_, err := value.Parse[value.IfName](s)
	return err
}

// Spec returns the command's entry in the closed list.
func (c Command) Spec() (CommandSpec, error) {
	spec, ok := commands[c]
	if !ok {
		return spec, fmt.Errorf("no command %q in the list", string(c))
	}
	return spec, nil
}

// Program is the name of the command's program, for messages.
func (c Command) Program() string {
	spec, ok := commands[c]
	if !ok {
		return string(c)
	}
	return filepath.Base(spec.Argv[0])
}

// timestamp is what daemons put before their messages.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ `)

// Error gives the operator the first lines of what the program said.
func (e *ExitError) Error() string {
	said := FirstLines(alerts(e.Output.Stderr))
	if said == "" {
		said = FirstLines(e.Output.Stdout)
	}
	if said == "" {
		said = fmt.Sprintf("ended with status %d", e.Output.ExitCode)
	}
	return e.Command.Program() + ": " + said
}

// FirstLines keeps of a program's words what fits into a message.
func FirstLines(text string) string {
	const maxLines, maxLength = 5, 500
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(timestamp.ReplaceAllString(line, ""))
		if line != "" {
			lines = append(lines, line)
		}
		if len(lines) == maxLines {
			break
		}
	}
	said := strings.ToValidUTF8(strings.Join(lines, "; "), "?")
	if len(said) > maxLength {
		said = strings.ToValidUTF8(said[:maxLength], "") + "…"
	}
	return said
}
