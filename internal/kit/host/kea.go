package host

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
)

// Where Kea takes commands, and keeps its leases.
const (
	keaControl = "/run/kea/kea4-ctrl-socket"
	keaLeases  = "/var/lib/kea/kea-leases4.csv"
)

// LeaseServerPaths are the paths that Kea's own configuration names.
type LeaseServerPaths struct {
	// Control is the socket that it takes commands on.
	Control string
	// Leases is the file that it keeps its leases in.
	Leases string
	// LeaseCommands is the part of Kea that tells its leases.
	LeaseCommands string
}

// LeaseServer is where Kea has its things on Debian.
func LeaseServer() LeaseServerPaths {
	folder := runtime.GOARCH + "-linux-gnu"
	switch runtime.GOARCH {
	case "amd64":
		folder = "x86_64-linux-gnu"
	case "arm64":
		folder = "aarch64-linux-gnu"
	}
	return LeaseServerPaths{Control: keaControl, Leases: keaLeases, LeaseCommands: filepath.Join("/usr/lib", folder, "kea/hooks/libdhcp_lease_cmds.so")}
}

// LeaseCommand is one command of Kea's control socket.
type LeaseCommand string

// The commands.
const (
	LeaseServerReload LeaseCommand = "config-reload"   // read the installed file anew
	LeaseServerMark   LeaseCommand = "server-tag-get"  // the mark of the configuration that it has
	LeaseServerStatus LeaseCommand = "status-get"      // since when it runs, and whether it listens everywhere
	LeaseServerLeases LeaseCommand = "lease4-get-page" // leases, in the order of their addresses
)

// leaseCommands is the closed list: no other command reaches Kea.
var leaseCommands = []LeaseCommand{LeaseServerReload, LeaseServerMark, LeaseServerStatus, LeaseServerLeases}

// Known complains about a command that is not in the list.
func (c LeaseCommand) Known() error {
	if !slices.Contains(leaseCommands, c) {
		return fmt.Errorf("no command %q for kea in the list", string(c))
	}
	return nil
}

// Leases is the running Kea.
type Leases interface {
	// LeaseServerAsk gives Kea one command, with arguments where it takes some, and returns what Kea answers, which may be nothing.
	// What Kea refuses is a *LeaseServerRefused; a Kea that does not run is ErrNotRunning.
	LeaseServerAsk(ctx context.Context, c LeaseCommand, arguments json.RawMessage) (json.RawMessage, error)
}

// AskLeaseServer gives Kea one command, with arguments unless they are nil, and decodes the answer into a pointer, which may be nil.
func AskLeaseServer(ctx context.Context, l Leases, c LeaseCommand, arguments, into any) error {
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

// LeaseServerRefused is a command that Kea refused.
type LeaseServerRefused struct {
	Command LeaseCommand
	// Text is what Kea said.
	Text string
}

func (e *LeaseServerRefused) Error() string {
	return fmt.Sprintf("Kea refuses %s: %s", e.Command, FirstLines(e.Text))
}

// keaUnknownLink is how Kea 2.2 and 2.6 say that they do not know the link of a subnet.
var keaUnknownLink = regexp.MustCompile(`Specified network interface name (\S+) for subnet \S+ is not present in the system`)

// UnknownLink is the link whose subnet Kea refused because it knows no such link; empty when it refused something else. Kea 2.6
// looks which links there are only after it has read the subnets, so that it does not know one that was made since it last looked.
func (e *LeaseServerRefused) UnknownLink() string {
	if found := keaUnknownLink.FindStringSubmatch(e.Text); found != nil {
		return found[1]
	}
	return ""
}
