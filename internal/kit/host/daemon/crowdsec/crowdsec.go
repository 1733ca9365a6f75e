// Package crowdsec is intrusion detection, CrowdSec and its firewall bouncer: what the kit knows of them, and the conversation with them.
package crowdsec

import (
	"errors"
	"regexp"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/value"
)

// The units.
const (
	Unit    daemon.Unit = "crowdsec"
	Bouncer daemon.Unit = "crowdsec-firewall-bouncer"
)

// The files. CrowdSec knows parsers and scenarios that are not of its hub by the names of their files, so that no two of these may have the
// same.
const (
	Config        daemon.Place = "crowdsec.config"
	Sources       daemon.Place = "crowdsec.acquis"    // which logs are read
	Profiles      daemon.Place = "crowdsec.profiles"  // what follows from an alert
	Parsers       daemon.Place = "crowdsec.parsers"   // how the gateway's own logs are read
	AllowList     daemon.Place = "crowdsec.allowlist" // who is never banned for what a log says
	Scenarios     daemon.Place = "crowdsec.scenarios" // what in the gateway's own logs is an attack
	BouncerConfig daemon.Place = "crowdsec.bouncer"   // how bans reach the kernel
)

const (
	configPath        = "/etc/crowdsec/gateway/config.yaml"
	sourcesPath       = "/etc/crowdsec/gateway/acquis.yaml"
	profilesPath      = "/etc/crowdsec/gateway/profiles.yaml"
	bouncerConfigPath = "/etc/crowdsec/gateway/firewall-bouncer.yaml"
)

// The commands.
const (
	Machines      daemon.Command = "crowdsec.machines"       // who reports to CrowdSec
	MachineAdd    daemon.Command = "crowdsec.machine-add"    // make an account for the machine of the operand, or a new password, and print it
	Bouncers      daemon.Command = "crowdsec.bouncers"       // who asks CrowdSec for its decisions
	BouncerAdd    daemon.Command = "crowdsec.bouncer-add"    // let the bouncer of the operand ask, and print its key
	BouncerRemove daemon.Command = "crowdsec.bouncer-remove" // the bouncer of the operand may ask no more
	Collections   daemon.Command = "crowdsec.collections"    // what CrowdSec knows to look for
	Unban         daemon.Command = "crowdsec.unban"          // end every decision about the address of the operand
)

// LogSource is what both say.
const LogSource daemon.LogSource = "ids"

// Port is the port of the loopback where CrowdSec's local API answers. Its package writes the same one into the credentials of its own
// agent and tool.
const Port = 8080

// The logs that CrowdSec reads: a unit's in the journal, files where there is no journal, and those that the gateway writes for it.
const (
	// SSHService is systemd's name of sshd, which is no daemon of the gateway.
	SSHService = "ssh.service"
	// AuthLog is where sshd's words are on a machine without a journal.
	AuthLog = "/var/log/auth.log"
	// ProxyLog is where HAProxy's are there.
	ProxyLog = "/var/log/haproxy.log"
	// WAFLog has a line of JSON for each request that the web application firewall found fault with.
	WAFLog = "/var/log/gateway-waf/alerts.json"
	// DropLog has a line of JSON for each packet that the packet filter dropped and logged.
	DropLog = "/var/log/gateway/drops.json"
)

const (
	binary  = "/usr/bin/crowdsec"
	bouncer = "/usr/bin/crowdsec-firewall-bouncer"
	// cscliTimeout is how long CrowdSec's own tool may take: it may wait for the database that CrowdSec writes.
	cscliTimeout = 20 * time.Second
)

// Daemon is their entry in the closed lists.
var Daemon = daemon.Daemon{
	Packages: []string{"crowdsec", "crowdsec-firewall-bouncer"},
	Units: []daemon.UnitSpec{
		{
			Unit: Unit, Name: "CrowdSec", Binary: binary,
			Argv: []string{binary, "-c", configPath},
			// Its other folders are the package's: the parsers and scenarios that it comes with, and its database.
			Folders: []daemon.Folder{
				daemon.FolderAt("/etc/crowdsec/gateway", 0o755, "root", "root"),
				// It looks for new files in folders that are there when it starts.
				daemon.FolderAt("/var/log/gateway-waf", 0o750, "gateway-waf", "gateway-waf"),
			},
			Ports: []int{Port},
			Stop:  syscall.SIGTERM, Grace: 20 * time.Second,
		},
		{
			// It ends when CrowdSec does not answer at its start.
			Unit: Bouncer, Name: "CrowdSec's firewall bouncer", Binary: bouncer,
			Argv:    []string{bouncer, "-c", bouncerConfigPath},
			Folders: []daemon.Folder{daemon.FolderAt("/etc/crowdsec/gateway", 0o755, "root", "root")},
			Stop:    syscall.SIGTERM, Grace: 10 * time.Second,
		},
	},
	Places: map[daemon.Place]daemon.PlaceSpec{
		Config:    daemon.FileAt(configPath, 0o644, "root", "root", configForm.admit),
		Sources:   daemon.FileAt(sourcesPath, 0o644, "root", "root", sourcesForm.admit),
		Profiles:  daemon.FileAt(profilesPath, 0o644, "root", "root", profilesForm.admit),
		Parsers:   daemon.FileAt("/etc/crowdsec/parsers/s01-parse/gateway-logs.yaml", 0o644, "root", "root", parsersForm.admit),
		AllowList: daemon.FileAt("/etc/crowdsec/parsers/s02-enrich/gateway-allow-list.yaml", 0o644, "root", "root", allowListForm.admit),
		Scenarios: daemon.FileAt("/etc/crowdsec/scenarios/gateway-attacks.yaml", 0o644, "root", "root", scenariosForm.admit),
		// It has the bouncer's key.
		BouncerConfig: daemon.FileAt(bouncerConfigPath, 0o600, "root", "root", bouncerForm.admit),
	},
	Commands: map[daemon.Command]daemon.CommandSpec{
		Machines:      cscli(nil, "machines", "list"),
		MachineAdd:    cscli(isName, "machines", "add", "--auto", "--force", "--file", "-"),
		Bouncers:      cscli(nil, "bouncers", "list"),
		BouncerAdd:    cscli(isName, "bouncers", "add"),
		BouncerRemove: cscli(IsBouncer, "bouncers", "delete"),
		Collections:   cscli(nil, "collections", "list"),
		Unban:         cscli(isAddress, "decisions", "delete", "--ip"),
	},
	Sources: map[daemon.LogSource]daemon.LogSourceSpec{LogSource: {Services: daemon.Services(Unit, Bouncer)}},
	Shown: []daemon.Shown{{
		Order: 8, Name: "ids", Title: "Intrusion detection",
		Description: "CrowdSec and its firewall bouncer.", Sources: []daemon.LogSource{LogSource},
	}},
	Verbs: verbs,
}

// cscli runs CrowdSec's own tool with the gateway's configuration, and has it answer in JSON. It sets the mode of CrowdSec's database, and
// must own it for that.
func cscli(operand func(string) error, args ...string) daemon.CommandSpec {
	return daemon.CommandSpec{
		Argv:    append([]string{"/usr/bin/cscli", "--config", configPath, "--error", "--output", "json"}, args...),
		Timeout: cscliTimeout, Asks: string(Unit), Operand: operand,
		Rights: daemon.Owning, Reads: []string{"/etc/crowdsec", "/var/lib/crowdsec"}, Writes: "/var/lib/crowdsec/data",
	}
}

// Name is the name of an account at CrowdSec.
type Name struct{ value.Text[name] }

type name struct{}

var names = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

func (name) Example() string { return "edge-proxy" }

func (name) Parse(s string) (string, error) {
	if !names.MatchString(s) {
		return "", errors.New("must have 1 to 64 lower-case letters, digits and hyphens, and not begin with a hyphen")
	}
	return s, nil
}

func isName(s string) error {
	_, err := value.Parse[Name](s)
	return err
}

func isAddress(s string) error {
	_, err := value.Parse[value.Addr](s)
	return err
}

var bouncerNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// IsBouncer complains about what is not the name of a bouncer. Those that others have made, such as the bouncer's package, are less strict
// than Name.
func IsBouncer(name string) error {
	if !bouncerNames.MatchString(name) {
		return errors.New("must have 1 to 128 letters, digits, dots, hyphens and underscores, and begin with a letter or a digit")
	}
	return nil
}
