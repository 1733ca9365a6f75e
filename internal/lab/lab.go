// Package lab runs a whole gateway in its own namespaces on a development machine, to try it out, develop and test.
//
// A lab is a tree of processes below two of ours. Up, in the machine's own namespaces, forwards the UI to the loopback. It starts
// the lab's init (see Init) as the first process of new namespaces, where it sets up the mounts and the network and supervises
// PostgreSQL, the gateway's programs and the daemons. The kernel kills init with Up and everything else with init, so that
// nothing is left behind however a lab ends.
//
// Programs run with their production paths. The folders that they write are bound from root/ in the state folder; whatever else
// they write below /etc, /var and /run stays in the lab's memory. The wan and lan sides are only network namespaces and share
// everything else with the gateway.
//
// A lab may have several gateways, its nodes. Each has its own process tree below the one process that called Up, and its own
// state folder; they share the wan and the lan side, and are connected by a cluster switch.
//
// If namespaces are not permitted, the gateway's programs and PostgreSQL run with root/ in the state folder as the prefix of
// their paths, and the daemons do not run.
package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/httpd"
)

// DefaultDir is the default state folder of a lab.
const DefaultDir = "/var/lib/gateway-lab"

// Side is one of the network namespaces of a lab: one of those below, or any that was created inside the lab with "ip netns add".
type Side string

// Sides of a lab: the gateway is between the two others.
const (
	Gateway Side = "gateway"
	Wan     Side = "wan"
	Lan     Side = "lan"
	// Cluster is the switch between several nodes.
	Cluster Side = "cluster"
)

// Units that exist only in labs.
const (
	PostgreSQL host.Unit = "postgresql"
	WanTime    host.Unit = "wan-time" // the time server on the wan side
)

// Paths inside a lab.
const (
	controlSocket = "/run/gateway/control.sock"
	apiSocket     = "/run/gateway/api.sock"
	tokenFile     = "/var/lib/gateway/setup-token"
)

// Lab is a running lab: one gateway and its surroundings. In a lab with several gateways it is one node, of which the first
// represents the lab.
type Lab struct {
	dir string
	record
	up     *upkeep // nil in processes other than the one that called Up
	others []*Lab  // the other nodes, if this is the first one
}

// ErrNotRunning says that no lab runs in a state folder.
var ErrNotRunning = errors.New("no lab runs here")

// Find returns the lab that another process runs in the folder.
func Find(dir string) (*Lab, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	r, err := readRecord(dir)
	if err != nil || !r.Outer.alive() {
		return nil, fmt.Errorf("%w: %s (start one with: gateway-lab up --dir %s)", ErrNotRunning, dir, dir)
	}
	l := &Lab{dir: dir, record: r}
	for n := 2; r.Node == 1 && n <= r.Nodes; n++ {
		if other, err := readRecord(NodeDir(dir, n)); err == nil { // otherwise it is not starting yet
			l.others = append(l.others, &Lab{dir: NodeDir(dir, n), record: other})
		}
	}
	return l, nil
}

// NodeDir returns the state folder of a node: the first one has that of the lab.
func NodeDir(dir string, node int) string {
	if node == 1 {
		return dir
	}
	return filepath.Join(dir, fmt.Sprintf("node%d", node))
}

// All returns the nodes of the lab, of which l is the first.
func (l *Lab) All() []*Lab { return append([]*Lab{l}, l.others...) }

// Name returns the name of the node: gateway, or gateway1 and so on if there are several.
func (l *Lab) Name() string { return nodeName(l.Node, l.Nodes) }

// At returns the node and side with a name: gateway2 is the gateway of the second node, and wan and lan are entered from the
// first.
func (l *Lab) At(name string) (*Lab, Side) {
	for _, node := range l.All() {
		if name == node.Name() {
			return node, Gateway
		}
	}
	return l, Side(name)
}

func (l *Lab) wires() []wire { return wires(l.Site, l.Node, l.Nodes) }

// Dir returns the state folder.
func (l *Lab) Dir() string { return l.dir }

func (l *Lab) URL() string { return "https://" + l.UI }

// Isolated reports whether the lab has namespaces; if not, Reason says why.
func (l *Lab) Isolated() bool { return l.Reason == "" }

// Path translates a path inside the lab into one that this process can open.
func (l *Lab) Path(inside string) string {
	if l.Isolated() {
		return fmt.Sprintf("/proc/%d/root%s", l.Init.PID, inside)
	}
	return filepath.Join(l.dir, "root", inside)
}

func (l *Lab) Log(u host.Unit) string { return logFile(l.dir, u) }

func (l *Lab) Units() units.Supervisor {
	return units.Supervisor{Socket: l.Path(units.SupervisorSocket)}
}

// Command returns a command that will run inside the lab, on one of its sides, with the gateway's programs in its PATH.
func (l *Lab) Command(ctx context.Context, side Side, argv ...string) (*exec.Cmd, error) {
	if !l.Isolated() {
		return nil, fmt.Errorf("cannot enter the lab's namespaces, it has none: %s", l.Reason)
	}
	if len(argv) == 0 {
		return nil, errors.New("no command")
	}
	network, err := l.network(side)
	if err != nil {
		return nil, err
	}
	args := []string{fmt.Sprintf("--target=%d", l.Init.PID), "--mount", "--uts", "--ipc", "--pid", "--net=" + network, "--"}
	cmd := exec.CommandContext(ctx, nsenter, append(args, argv...)...)
	cmd.Env = append(os.Environ(), "PATH="+l.Programs+":"+searchPath)
	return cmd, nil
}

// network returns the file of a side's network namespace.
func (l *Lab) network(side Side) (string, error) {
	if side == Gateway {
		return fmt.Sprintf("/proc/%d/ns/net", l.Init.PID), nil
	}
	file := l.Path(namespaceFile(side))
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("no side %q: want %s, wan or lan", side, l.Name())
	}
	return file, nil
}

// Within runs do on a thread of this process in the namespace of a side. Sockets that do opens belong to that side, on whatever
// thread they are used later.
func (l *Lab) Within(side Side, do func() error) error {
	if !l.Isolated() {
		return fmt.Errorf("cannot enter the lab's namespaces, it has none: %s", l.Reason)
	}
	network, err := l.network(side)
	if err != nil {
		return err
	}
	ns, err := os.Open(network)
	if err != nil {
		return err
	}
	defer ns.Close()
	return within(ns, do)
}

// nsenter enters namespaces; it is part of every Debian.
const nsenter = "/usr/bin/nsenter"

// Client returns a client of the API's control socket, as the local administrator. The host in its URLs is ignored.
func (l *Lab) Client() *http.Client {
	return httpd.SocketClient(l.Path(controlSocket), 30*time.Second)
}

// SetupToken returns the one-time token that completes the setup.
func (l *Lab) SetupToken() (string, error) {
	content, err := os.ReadFile(l.Path(tokenFile))
	return strings.TrimSpace(string(content)), err
}

// Down stops the lab and returns when nothing of it is left.
func (l *Lab) Down() error {
	if l.up != nil {
		var err error
		for _, node := range slices.Backward(l.All()) {
			err = errors.Join(err, node.up.down(node))
		}
		return err
	}
	if err := l.Outer.signal(terminate); err != nil {
		return fmt.Errorf("stopping the lab: %w", err)
	}
	if l.Outer.waitGone(downGrace + 5*time.Second) {
		return nil
	}
	if err := l.Outer.signal(kill); err != nil {
		return fmt.Errorf("killing the lab: %w", err)
	}
	for _, node := range l.All() {
		if !l.Outer.waitGone(5*time.Second) || !node.Init.waitGone(5*time.Second) {
			return errors.New("the lab does not end")
		}
	}
	return nil
}
