package kea

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"

	"edge.internal/gateway/internal/kit/host/daemon"
)

const (
	control = "/run/kea/kea4-ctrl-socket"
	leases  = "/var/lib/kea/kea-leases4.csv"
)

type Paths struct {
	Control string
	Leases  string
	// LeaseCommands is the hook library that lists leases.
	LeaseCommands string
}

// Where returns Kea's paths on Debian.
func Where() Paths {
	folder := runtime.GOARCH + "-linux-gnu"
	switch runtime.GOARCH {
	case "amd64":
		folder = "x86_64-linux-gnu"
	case "arm64":
		folder = "aarch64-linux-gnu"
	}
	return Paths{Control: control, Leases: leases, LeaseCommands: filepath.Join("/usr/lib", folder, "kea/hooks/libdhcp_lease_cmds.so")}
}

type Command string

const (
	Reload    Command = "config-reload"   // read the installed Config
	Mark      Command = "server-tag-get"  // get the mark of the loaded configuration
	Status    Command = "status-get"      // get its uptime, and whether it listens on all interfaces
	LeasePage Command = "lease4-get-page" // list leases by address
)

// commands is the closed list. Nothing else may be sent to Kea.
var commands = []Command{Reload, Mark, Status, LeasePage}

// Known returns an error unless the command is in the closed list.
func (c Command) Known() error {
	if !slices.Contains(commands, c) {
		return fmt.Errorf("unknown Kea command %q", string(c))
	}
	return nil
}

type Leases interface {
	// LeaseServerAsk sends a command with arguments, if it takes any, and returns Kea's answer, which may be empty. If Kea refuses,
	// it is a *Refused; if Kea does not run, it is daemon.ErrNotRunning.
	LeaseServerAsk(ctx context.Context, c Command, arguments json.RawMessage) (json.RawMessage, error)
}

var verbs = daemon.Verbs{"LeaseServerAsk": daemon.Served}

// ServedLeases calls the verbs that the helper executes.
type ServedLeases struct{ Helper daemon.Helper }

func (s ServedLeases) LeaseServerAsk(ctx context.Context, c Command, arguments json.RawMessage) (json.RawMessage, error) {
	return daemon.Ask[json.RawMessage](ctx, s.Helper, "LeaseServerAsk", c, arguments)
}

// Ask sends a command and decodes the answer into a pointer. Both arguments and into may be nil.
func Ask(ctx context.Context, l Leases, c Command, arguments, into any) error {
	var encoded json.RawMessage
	if arguments != nil {
		var err error
		if encoded, err = json.Marshal(arguments); err != nil {
			return fmt.Errorf("asking kea for %s: %w", c, err)
		}
	}
	answer, err := l.LeaseServerAsk(ctx, c, encoded)
	if err != nil || into == nil || len(answer) == 0 {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("reading kea's answer to %s: %w", c, err)
	}
	return nil
}

type Refused struct {
	Command Command
	Text    string
}

func (e *Refused) Error() string {
	return fmt.Sprintf("Kea refuses %s: %s", e.Command, daemon.FirstLines(e.Text))
}

// unknownLink matches the message of Kea 2.2 and 2.6 about a subnet on an interface that they do not know.
var unknownLink = regexp.MustCompile(`Specified network interface name (\S+) for subnet \S+ is not present in the system`)

// UnknownLink returns the interface that Kea does not know; empty if it refused for another reason. Kea 2.6 lists the interfaces
// only after it has parsed the subnets, so it does not know those created since it last did.
func (e *Refused) UnknownLink() string {
	if found := unknownLink.FindStringSubmatch(e.Text); found != nil {
		return found[1]
	}
	return ""
}
