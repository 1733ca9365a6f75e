// Package home says where the gateway's files are on a machine, and what else of it the gateway may touch.
package home

import (
	"context"
	"fmt"
	"path/filepath"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Home is the gateway's part of a machine.
type Home struct {
	// Root is prefixed to every path. It is empty on a real gateway.
	Root string
	// Foreign is set if the kernel and the daemons are not the gateway's, so it must leave them alone.
	Foreign bool
}

// Path maps a path on a real gateway to this machine.
func (h Home) Path(p string) string { return filepath.Join(h.Root, p) }

// Here returns an error if the daemon or the part of the kernel with this name is not the gateway's.
func (h Home) Here(name string) error {
	if h.Foreign {
		return notHere(name)
	}
	return nil
}

// notHere is ErrNotInstalled with another text: something may be installed, but it is not ours.
type notHere string

func (n notHere) Error() string { return string(n) + " does not run here" }

func (notHere) Is(target error) bool { return target == daemon.ErrNotInstalled }

// Network returns an error unless the gateway may change the machine's network.
func (h Home) Network(ctx context.Context) error {
	if h.Foreign {
		return fmt.Errorf("the network is not managed here: a gateway below a root folder leaves the machine's network alone (%w)", daemon.ErrNotInstalled)
	}
	return ctx.Err()
}
