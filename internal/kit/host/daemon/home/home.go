// Package home says where on a machine the gateway is at home.
package home

import (
	"context"
	"fmt"
	"path/filepath"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Home is what the gateway may touch of its machine.
type Home struct {
	// Root is put before every path. It is empty on a real gateway.
	Root string
	// Foreign says that the kernel and the daemons are the machine's own, and not for the gateway to touch.
	Foreign bool
}

// Path is where a path of a real gateway is here.
func (h Home) Path(p string) string { return filepath.Join(h.Root, p) }

// Here refuses to talk to daemons and to a kernel that are not the gateway's.
func (h Home) Here(whom string) error {
	if h.Foreign {
		return notHere(whom)
	}
	return nil
}

// notHere is ErrNotInstalled in other words: what is there is not ours.
type notHere string

func (n notHere) Error() string { return string(n) + " does not run here" }

func (notHere) Is(target error) bool { return target == daemon.ErrNotInstalled }

// Network refuses to change the network of a machine whose files must not be touched either.
func (h Home) Network(ctx context.Context) error {
	if h.Foreign {
		return fmt.Errorf("the network is not managed here: a gateway below a root folder leaves the machine's network alone (%w)", daemon.ErrNotInstalled)
	}
	return ctx.Err()
}
