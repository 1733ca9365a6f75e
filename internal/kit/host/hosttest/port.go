package hosttest

import (
	"context"
	"net"
	"os"
)

// Listen listens on a port of the real machine.
func (m *Machine) Listen(ctx context.Context, network, address string) (*os.File, error) {
	l, err := new(net.ListenConfig).Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.(*net.TCPListener).File()
}

// DrainListener does nothing: tests close their listeners soon afterwards.
func (m *Machine) DrainListener(context.Context, *os.File) error { return nil }
