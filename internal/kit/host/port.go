package host

import (
	"fmt"
	"net/netip"
)

// Ports tells who uses the machine's ports.
type Ports interface {
	// PortUsers are the processes that receive on a port: TCP listeners, and UDP sockets that are bound to it.
	PortUsers(port int) ([]PortUser, error)
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
