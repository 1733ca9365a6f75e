// Package crowdsec describes CrowdSec and its firewall bouncer to the kit, and has their clients.
package crowdsec

import (
	"errors"
	"regexp"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/value"
)

const (
	Unit    daemon.Unit = "crowdsec"
	Bouncer daemon.Unit = "crowdsec-firewall-bouncer"
)

// Configuration files. CrowdSec identifies local parsers and scenarios by their file names, so no two may have the same one.
const (
	Config        daemon.Place = "crowdsec.config"
	Sources       daemon.Place = "crowdsec.acquis"    // log files to read
	Profiles      daemon.Place = "crowdsec.profiles"  // decisions that follow an alert
	Parsers       daemon.Place = "crowdsec.parsers"   // for the gateway's own logs
	AllowList     daemon.Place = "crowdsec.allowlist" // addresses that are never banned because of a log line
	Scenarios     daemon.Place = "crowdsec.scenarios" // for the gateway's own logs
	BouncerConfig daemon.Place = "crowdsec.bouncer"   // of the firewall bouncer
)

const (
	configPath        = "/etc/crowdsec/gateway/config.yaml"
	sourcesPath       = "/etc/crowdsec/gateway/acquis.yaml"
	profilesPath      = "/etc/crowdsec/gateway/profiles.yaml"
	bouncerConfigPath = "/etc/crowdsec/gateway/firewall-bouncer.yaml"
)

// Commands of cscli.
const (
	Machines      daemon.Command = "crowdsec.machines"       // list the machines that report to CrowdSec
	MachineAdd    daemon.Command = "crowdsec.machine-add"    // create an account for the machine, or give it a new password, and print it
	Bouncers      daemon.Command = "crowdsec.bouncers"       // list the bouncers
	BouncerAdd    daemon.Command = "crowdsec.bouncer-add"    // register a bouncer, and print its key
	BouncerRemove daemon.Command = "crowdsec.bouncer-remove" // revoke a bouncer
	Collections   daemon.Command = "crowdsec.collections"    // list the installed collections
	Unban         daemon.Command = "crowdsec.unban"          // delete every decision about an address
)

// LogSource is the log of both in the journal.
const LogSource daemon.LogSource = "ids"

// Port is the loopback port of CrowdSec's local API. CrowdSec's package configures the same one for its own agent and tool.
const Port = 8080

// Logs that CrowdSec reads: from the journal or, without one, from files, and those that the gateway writes for it.
const (
	// SSHService is sshd's systemd unit. The gateway does not manage it.
	SSHService = "ssh.service"
	// AuthLog is sshd's log on a machine without a journal.
	AuthLog = "/var/log/auth.log"
	// ProxyLog is HAProxy's log there.
	ProxyLog = "/var/log/haproxy.log"
	// WAFLog has a line of JSON for each request that the web application firewall has flagged.
	WAFLog = "/var/log/gateway-waf/alerts.json"
	// DropLog has a line of JSON for each dropped packet that the packet filter logged.
	DropLog = "/var/log/gateway/drops.json"
)

const (
	binary  = "/usr/bin/crowdsec"
	bouncer = "/usr/bin/crowdsec-firewall-bouncer"
	// cscliTimeout allows for a wait while CrowdSec writes to its database.
	cscliTimeout = 20 * time.Second
)

var Daemon = daemon.Daemon{
	Packages: []string{"crowdsec", "crowdsec-firewall-bouncer"},
	Units: []daemon.UnitSpec{
		{
			Unit: Unit, Name: "CrowdSec", Binary: binary,
			Argv: []string{binary, "-c", configPath},
			// Its other folders come with its package: bundled parsers and scenarios, and its database.
			Folders: []daemon.Folder{
				daemon.FolderAt("/etc/crowdsec/gateway", 0o755, "root", "root"),
				// It watches for new files only in folders that exist when it starts.
				daemon.FolderAt("/var/log/gateway-waf", 0o750, "gateway-waf", "gateway-waf"),
			},
			Ports: []int{Port},
			Stop:  syscall.SIGTERM, Grace: 20 * time.Second,
		},
		{
			// It exits if CrowdSec does not answer when it starts.
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
		// It contains the bouncer's key.
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
	LogViews: []daemon.LogView{{
		Order: 8, Name: "ids", Title: "Intrusion detection",
		Description: "CrowdSec and its firewall bouncer.", Sources: []daemon.LogSource{LogSource},
	}},
	Verbs: verbs,
}

// cscli runs CrowdSec's own tool with the gateway's configuration and JSON output. The tool sets the mode of CrowdSec's database,
// so it must run as its owner.
func cscli(operand func(string) error, args ...string) daemon.CommandSpec {
	return daemon.CommandSpec{
		Argv:    append([]string{"/usr/bin/cscli", "--config", configPath, "--error", "--output", "json"}, args...),
		Timeout: cscliTimeout, Asks: string(Unit), Operand: operand,
		Rights: daemon.Owning, Reads: []string{"/etc/crowdsec", "/var/lib/crowdsec"}, Writes: "/var/lib/crowdsec/data",
	}
}

// Name is the name of an account that the gateway makes in CrowdSec.
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

// IsBouncer validates the name of a bouncer. It accepts more than Name, because others, such as the bouncer's package, make
// bouncers, too.
func IsBouncer(name string) error {
	if !bouncerNames.MatchString(name) {
		return errors.New("must have 1 to 128 letters, digits, dots, hyphens and underscores, and begin with a letter or a digit")
	}
	return nil
}
