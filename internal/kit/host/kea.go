package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

// Where Kea takes commands, and keeps its leases.
const (
	keaControl = "/run/kea/kea4-ctrl-socket"
	keaLeases  = "/var/lib/kea/kea-leases4.csv"
)

// leaseServerWithin is how long Kea may take for one answer: a reload reads all reservations and all leases.
const leaseServerWithin = 30 * time.Second

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

// Leases is the running Kea.
type Leases interface {
	// LeaseServerAsk gives Kea one command, with arguments where it takes some, and decodes what Kea answers into a pointer,
	// which may be nil. What Kea refuses is a *LeaseServerRefused; a Kea that does not run is ErrNotRunning.
	LeaseServerAsk(ctx context.Context, c LeaseCommand, arguments, into any) error
}

// LeaseServerRefused is a command that Kea refused.
type LeaseServerRefused struct {
	Command LeaseCommand
	// Text is what Kea said.
	Text string
}

func (e *LeaseServerRefused) Error() string {
	return fmt.Sprintf("kea refuses %s: %s", e.Command, firstLines(e.Text))
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

// What Kea's results mean; every other one is a refusal.
const (
	keaDone  = 0
	keaEmpty = 3 // done, and there is nothing
)

// LeaseServerAsk gives Kea one command. Each has a connection of its own.
func (s *System) LeaseServerAsk(ctx context.Context, c LeaseCommand, arguments, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, leaseServerWithin, fmt.Errorf("kea did not answer within %s: %w", leaseServerWithin, context.DeadlineExceeded))
	defer cancel()
	question, err := json.Marshal(struct {
		Command   LeaseCommand `json:"command"`
		Arguments any          `json:"arguments,omitempty"`
	}{c, arguments})
	if err != nil {
		return fmt.Errorf("asking kea for %s: %w", c, err)
	}
	said, err := s.tell(ctx, keaControl, string(question))
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("kea: %w", ErrNotRunning)
	case err == nil && said == "":
		err = errors.New("it went away")
	}
	var answer struct {
		Result    int             `json:"result"`
		Text      string          `json:"text"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(said), &answer)
	}
	switch {
	case err != nil:
		return fmt.Errorf("asking kea for %s: %w", c, err)
	case answer.Result != keaDone && answer.Result != keaEmpty:
		return &LeaseServerRefused{Command: c, Text: answer.Text}
	case into == nil || answer.Arguments == nil:
		return nil
	}
	if err := json.Unmarshal(answer.Arguments, into); err != nil {
		return fmt.Errorf("reading kea's answer to %s: %w", c, err)
	}
	return nil
}
