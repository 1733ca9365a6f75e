package hosttest

import (
	"context"
	"net"
	"os"
)

// Listen listens on a port of the real machine, which the tests of a memory's machine share.
func (m *Machine) Listen(ctx context.Context, network, address string) (*os.File, error) {
	l, err := new(net.ListenConfig).Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.(*net.TCPListener).File()
}

// Deafen does nothing: the tests' listeners are closed soon after.
func (m *Machine) Deafen(context.Context, *os.File) error { return nil }
