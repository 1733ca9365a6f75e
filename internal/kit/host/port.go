package host

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Ports tells who uses the machine's ports.
type Ports interface {
	// PortUsers are the processes that receive on a port: TCP listeners, and UDP sockets that are bound to it.
	PortUsers(port int) ([]PortUser, error)
	// Listen listens on a TCP port that needs no privilege, and that root's daemons may share: the kernel lets only sockets of one
	// user share a port. The network is tcp or tcp4, and the address one of those that the gateway is configured with. The file is the caller's.
	Listen(ctx context.Context, network, address string) (*os.File, error)
	// Deafen makes a listener drop the first packet of every new connection: its clients try again, and find another listener that
	// shares the port. Those that have begun to connect are not disturbed.
	Deafen(ctx context.Context, listener *os.File) error
}

var portsVerbs = daemon.Verbs{
	"PortUsers": daemon.Repeatable,
	"Listen":    daemon.Served, "Deafen": daemon.Served,
}

// PortUser is a process that uses a port.
type PortUser struct {
	Protocol string // TCP or UDP
	Address  netip.Addr
	Port     int
	PID      int
	Program  string
}

// String says who uses the port, as a sentence.
func (u PortUser) String() string {
	at := "on " + u.Address.String()
	if u.Address.IsUnspecified() {
		at = "on all addresses"
	}
	return fmt.Sprintf("%s %d %s is used by %s (pid %d).", u.Protocol, u.Port, at, u.Program, u.PID)
}
