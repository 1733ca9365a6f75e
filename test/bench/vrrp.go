package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived/vrrptest"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/vrrp"
)

// move is a way in which the virtual address leaves a node.
type move struct {
	name string
	// begin has it move from the first node to the second, and end leaves the first one as it was.
	begin, end func(from *vrrptest.Node) error
	stays      bool    // it does not move at all
	bar        float64 // 0 for lines without a bar
}

// noGap is the longest time for a move without a gap. A client sends a request every 10 ms; an open connection is lost, and the kernel retransmits after 200 ms.
const noGap = 0.5

// vrrpConfig is what the gateway writes for a node.
func vrrpConfig(own, other string) ([]byte, error) {
	link := value.Must[value.IfName](vrrptest.Link)
	files, err := vrrp.Render(vrrp.Config{
		RouterID: 51, Priority: 100, Link: link, Own: value.Must[value.Addr](own), Others: []value.Addr{value.Must[value.Addr](other)},
		VIPs: []vrrp.VIP{{Link: link, Address: netip.MustParsePrefix(vrrptest.VIP + "/24")}},
	})
	if err != nil {
		return nil, err
	}
	return files[0].Content, nil
}

// measureVRRP measures for how long a client has no answer from the virtual address while it moves between two nodes.
func measureVRRP(ctx context.Context, s settings) ([]goal, error) {
	dir, err := os.MkdirTemp("", "bench-vrrp-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	net, err := vrrptest.New()
	if err != nil {
		return nil, err
	}
	defer net.Close()
	nodes := make([]*vrrptest.Node, 2)
	for i := range nodes {
		if nodes[i], err = net.Add(filepath.Join(dir, fmt.Sprint(i)), false); err != nil {
			return nil, err
		}
	}
	for i, n := range nodes {
		content, err := vrrpConfig(n.Own, nodes[1-i].Own)
		if err := errors.Join(err, n.Write(content), n.Start()); err != nil {
			return nil, err
		}
	}
	change := func(was, now string) func(*vrrptest.Node) error {
		return func(n *vrrptest.Node) error {
			path := filepath.Join(n.Root, keepalived.Config.Path())
			b, err := os.ReadFile(path)
			return errors.Join(err, n.Write(bytes.Replace(b, []byte(was), []byte(now), 1)), n.Reload())
		}
	}
	on := func(f func(*vrrptest.Node, bool) error, arg bool) func(*vrrptest.Node) error {
		return func(n *vrrptest.Node) error { return f(n, arg) }
	}
	both := func(f func(*vrrptest.Node) error) func(*vrrptest.Node) error {
		return func(*vrrptest.Node) error { return errors.Join(f(nodes[0]), f(nodes[1])) }
	}
	const address = "        10.9.0.9/24 dev vrrp0\n"
	var goals []goal
	for _, m := range []move{
		{"V1 no answer while a node is drained", on((*vrrptest.Node).Drain, true), on((*vrrptest.Node).Drain, false), false, noGap},
		{"V2 no answer while a node gets another address", change(address, address+"        10.9.0.8/24 dev vrrp0\n"), change("        10.9.0.8/24 dev vrrp0\n", ""), true, noGap},
		{"V3 no answer after an orderly stop", (*vrrptest.Node).Stop, (*vrrptest.Node).Start, false, 1},
		{"   no answer after the cable is out", on((*vrrptest.Node).Unplug, true), on((*vrrptest.Node).Unplug, false), false, 0},
		{"V4 no answer after the node is gone, as without power", on((*vrrptest.Node).Cut, true), on((*vrrptest.Node).Cut, false), false, 4},
		{"V5 no answer after the proxy is gone", on((*vrrptest.Node).Answer, false), on((*vrrptest.Node).Answer, true), false, 7},
		{"   no answer after another router id on both", both(change("router_id 51", "router_id 52")), both(change("router_id 52", "router_id 51")), true, 0},
	} {
		var gaps []float64
		lost, asked := 0, 0
		for range min(s.rounds, 5) {
			p, err := moved(ctx, net, nodes, m)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
			gaps = append(gaps, p.Longest.Seconds())
			lost, asked = lost+p.Lost, asked+p.Asked
		}
		goals = append(goals, goal{m.name, median(gaps), "s", m.bar, m.bar == 0, fmt.Sprintf("%s; %d of %d questions lost", inSeconds(gaps), lost, asked)})
	}
	var twice []float64
	for range min(s.rounds, 5) {
		took, err := healed(ctx, nodes)
		if err != nil {
			return nil, err
		}
		twice = append(twice, took)
	}
	return append(goals, goal{"V6 the address on both nodes after they hear each other again", slices.Max(twice), "s", 3, false, inSeconds(twice)}), nil
}

// healed makes both nodes take the address because they do not reach each other, and measures how long both have it when they do again.
func healed(ctx context.Context, nodes []*vrrptest.Node) (float64, error) {
	both := func() bool { return nodes[0].Has(vrrptest.VIP) && nodes[1].Has(vrrptest.VIP) }
	err := nodes[1].Cut(true)
	for ; err == nil && !both(); time.Sleep(10 * time.Millisecond) {
		err = ctx.Err()
	}
	if err := errors.Join(err, nodes[1].Cut(false)); err != nil {
		return 0, err
	}
	return seconds(func() error {
		for ; both(); time.Sleep(10 * time.Millisecond) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	})
}

// moved makes the address leave the first node in some way, with a client that sends requests all the time.
func moved(ctx context.Context, net *vrrptest.Network, nodes []*vrrptest.Node, m move) (*vrrptest.Prober, error) {
	from, to := nodes[0], nodes[1]
	holds := func(n, not *vrrptest.Node) error {
		for ; !n.Has(vrrptest.VIP) || not != nil && not.Has(vrrptest.VIP); time.Sleep(10 * time.Millisecond) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	}
	if err := errors.Join(to.Drain(true), holds(from, to), to.Drain(false)); err != nil {
		return nil, err
	}
	time.Sleep(3 * time.Second) // for the probe of the proxy to have succeeded twice
	p := net.Probe(100 * time.Millisecond)
	time.Sleep(500 * time.Millisecond)
	err := m.begin(from)
	if m.stays {
		time.Sleep(5 * time.Second)
	} else {
		err = errors.Join(err, holds(to, nil))
		time.Sleep(time.Second)
	}
	p.End()
	return p, errors.Join(err, m.end(from))
}
