package host

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Ports finds out who uses a port, and listens on ports that root's daemons share.
type Ports interface {
	// PortUsers lists the processes with a TCP listener or a bound UDP socket on a port.
	PortUsers(port int) ([]PortUser, error)
	// Listen listens on an unprivileged TCP port that can be shared with root's daemons: the kernel lets only sockets of the same
	// user share one. The network is tcp or tcp4, and the address one that the gateway is configured with. The caller closes the
	// file.
	Listen(ctx context.Context, network, address string) (*os.File, error)
	// DrainListener makes a listener ignore new connections: it drops their first packet, so clients retry and reach another
	// listener that shares the port. Handshakes under way complete.
	DrainListener(ctx context.Context, listener *os.File) error
}

var portsVerbs = daemon.Verbs{
	"PortUsers": daemon.Repeatable,
	"Listen":    daemon.Served, "DrainListener": daemon.Served,
}

type PortUser struct {
	Protocol string // TCP or UDP
	Address  netip.Addr
	Port     int
	PID      int
	Program  string
}

// String returns a sentence for the UI.
func (u PortUser) String() string {
	at := "on " + u.Address.String()
	if u.Address.IsUnspecified() {
		at = "on all addresses"
	}
	return fmt.Sprintf("%s %d %s is used by %s (pid %d).", u.Protocol, u.Port, at, u.Program, u.PID)
}
