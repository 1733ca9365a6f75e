package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"edge.internal/gateway/internal/kit/host"
)

// Cut unplugs the node's cable from the switch of a side. Only labs with several nodes have switches.
func (l *Lab) Cut(side Side) error { return l.cable(side, netlink.LinkSetDown) }

// Heal plugs a cable in again.
func (l *Lab) Heal(side Side) error { return l.cable(side, netlink.LinkSetUp) }

func (l *Lab) cable(side Side, set func(netlink.Link) error) error {
	if l.Nodes == 1 || !slices.ContainsFunc(l.wires(), func(w wire) bool { return w.Side == side }) {
		return fmt.Errorf("%s has no cable to a switch %q: want wan, lan or cluster, in a lab with several nodes", l.Name(), side)
	}
	return l.Within(side, func() error {
		link, err := netlink.LinkByName(l.Name())
		if err != nil {
			return err
		}
		return set(link)
	})
}

// Signals of programs. A killed program is started again if a gateway needs it.
const (
	Kill   = "KILL"
	Pause  = "STOP"
	Resume = "CONT"
)

// Signal sends a signal to the processes of a unit.
func (l *Lab) Signal(ctx context.Context, u host.Unit, signal string) error {
	state, err := l.Units().State(ctx, u)
	if err != nil {
		return err
	}
	if state.PID == 0 {
		return fmt.Errorf("%s: %w", u, host.ErrNotRunning)
	}
	return l.signalFamily(ctx, u, state.PID, signal)
}

// signalFamily sends a signal to a process of the lab and its descendants.
func (l *Lab) signalFamily(ctx context.Context, u host.Unit, pid int, signal string) error {
	family, err := l.family(pid)
	if err != nil {
		return err
	}
	cmd, err := l.Command(ctx, Gateway, append([]string{"kill", "-" + signal}, family...)...)
	if err != nil {
		return err
	}
	// A child may have ended in the meantime.
	if out, err := cmd.CombinedOutput(); err != nil && !bytes.Contains(out, []byte("No such process")) {
		return fmt.Errorf("sending %s to %s: %w: %s", signal, u, err, out)
	}
	return nil
}

// family returns a process of the lab and its descendants.
func (l *Lab) family(pid int) ([]string, error) {
	files, err := filepath.Glob(l.Path("/proc/[0-9]*/stat"))
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || len(fields) < 2 {
			return nil, errors.New("unexpected content of " + file)
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, err
		}
		children[parent] = append(children[parent], child)
	}
	family := []int{pid}
	for i := 0; i < len(family); i++ {
		family = append(family, children[family[i]]...)
	}
	var names []string
	for _, pid := range family {
		names = append(names, strconv.Itoa(pid))
	}
	return names, nil
}
