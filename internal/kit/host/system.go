package host

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"golang.zx2c4.com/wireguard/wgctrl"

	"edge.internal/gateway/internal/kit/host/nfnl"
)

// Options say how a System sees its machine.
type Options struct {
	// Root is put before every place and the state folder. It is empty on a real gateway; where the machine's own files
	// must not be touched it is a folder, and what talks to a running daemon or to the packet filter is refused.
	Root string
	// OwnKernel says that the kernel's network is the gateway's own though its files are below a root folder: the network
	// namespace of a test.
	OwnKernel bool
	// Units runs the daemons.
	Units Units
	// State is the gateway's own folder. It is /var/lib/gateway when empty.
	State string
}

// System is the real machine.
type System struct {
	Units
	root  string
	state string
	// foreign says that the kernel and the daemons are the machine's own, which are none of our business.
	foreign bool

	installing sync.Mutex
	swept      map[string]bool // folders without leftovers; under installing
	netfilter  nfnl.Socket

	tunnels         sync.Mutex
	wireguardClient *wgctrl.Client // under tunnels; nil until somebody speaks to WireGuard
	kernelTunnels   sync.Once      // done with the first link of the kernel's own

	machineID func() string
}

var _ Machine = (*System)(nil)

// New returns the machine that this process runs on.
func New(opts Options) (*System, error) {
	if opts.Units == nil {
		return nil, fmt.Errorf("a machine needs something that runs its units")
	}
	if opts.Root != "" && !filepath.IsAbs(opts.Root) {
		return nil, fmt.Errorf("root %q is not an absolute path", opts.Root)
	}
	s := &System{Units: opts.Units, root: opts.Root, state: opts.State, foreign: opts.Root != "" && !opts.OwnKernel, swept: map[string]bool{}}
	if s.state == "" {
		s.state = "/var/lib/gateway"
	}
	s.machineID = sync.OnceValue(s.readMachineID)
	return s, nil
}

// ParseUnits returns the Units that a program's --units flag names: "systemd", "lab" or "lab:SOCKET" for the lab's supervisor,
// or "none:REASON" where no daemon can run.
func ParseUnits(flag string) (Units, error) {
	kind, detail, _ := strings.Cut(flag, ":")
	switch {
	case flag == "systemd":
		return Systemd{}, nil
	case flag == "lab":
		return Supervisor{Socket: SupervisorSocket}, nil
	case kind == "lab" && filepath.IsAbs(detail):
		return Supervisor{Socket: detail}, nil
	case kind == "none" && detail != "":
		return NoUnits{Reason: detail}, nil
	}
	return nil, fmt.Errorf("units %q: want systemd, lab, lab:SOCKET or none:REASON", flag)
}

func (s *System) path(p string) string { return filepath.Join(s.root, p) }
