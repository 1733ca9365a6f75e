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

// Where Kea takes commands, and keeps its leases.
const (
	control = "/run/kea/kea4-ctrl-socket"
	leases  = "/var/lib/kea/kea-leases4.csv"
)

// Paths are the paths that Kea's own configuration names.
type Paths struct {
	// Control is the socket that it takes commands on.
	Control string
	// Leases is the file that it keeps its leases in.
	Leases string
	// LeaseCommands is the part of Kea that tells its leases.
	LeaseCommands string
}

// Where is where Kea has its things on Debian.
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

// Command is one command of Kea's control socket.
type Command string

// The commands.
const (
	Reload    Command = "config-reload"   // read the installed file anew
	Mark      Command = "server-tag-get"  // the mark of the configuration that it has
	Status    Command = "status-get"      // since when it runs, and whether it listens everywhere
	LeasePage Command = "lease4-get-page" // leases, in the order of their addresses
)

// commands is the closed list: no other command reaches Kea.
var commands = []Command{Reload, Mark, Status, LeasePage}

// Known complains about a command that is not in the list.
func (c Command) Known() error {
	if !slices.Contains(commands, c) {
		return fmt.Errorf("no command %q for kea in the list", string(c))
	}
	return nil
}

// Leases is the running Kea.
type Leases interface {
	// LeaseServerAsk gives Kea one command, with arguments where it takes some, and returns what Kea answers, which may be nothing.
	// What Kea refuses is a *Refused; a Kea that does not run is daemon.ErrNotRunning.
	LeaseServerAsk(ctx context.Context, c Command, arguments json.RawMessage) (json.RawMessage, error)
}

var verbs = daemon.Verbs{"LeaseServerAsk": daemon.Served}

// ServedLeases is the running Kea, by way of the helper.
type ServedLeases struct{ Helper daemon.Helper }

func (s ServedLeases) LeaseServerAsk(ctx context.Context, c Command, arguments json.RawMessage) (json.RawMessage, error) {
	return daemon.Ask[json.RawMessage](ctx, s.Helper, "LeaseServerAsk", c, arguments)
}

// Ask gives Kea one command, with arguments unless they are nil, and decodes the answer into a pointer, which may be nil.
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

// Refused is a command that Kea refused.
type Refused struct {
	Command Command
	// Text is what Kea said.
	Text string
}

func (e *Refused) Error() string {
	return fmt.Sprintf("Kea refuses %s: %s", e.Command, daemon.FirstLines(e.Text))
}

// unknownLink is how Kea 2.2 and 2.6 say that they do not know the link of a subnet.
var unknownLink = regexp.MustCompile(`Specified network interface name (\S+) for subnet \S+ is not present in the system`)

// UnknownLink is the link whose subnet Kea refused because it knows no such link; empty when it refused something else. Kea 2.6
// looks which links there are only after it has read the subnets, so that it does not know one that was made since it last looked.
func (e *Refused) UnknownLink() string {
	if found := unknownLink.FindStringSubmatch(e.Text); found != nil {
		return found[1]
	}
	return ""
}
