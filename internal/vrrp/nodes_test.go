package vrrp_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived/vrrptest"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/vrrp"
)

// supervisor runs the keepalived of a node.
type supervisor struct {
	units.None
	node *vrrptest.Node
}

func (s supervisor) State(_ context.Context, u host.Unit) (host.UnitState, error) {
	state := host.UnitState{Unit: u, Installed: true, Active: "inactive", PID: s.node.PID()}
	if state.PID != 0 {
		state.Active = "active"
	}
	return state, nil
}

func (s supervisor) Restart(context.Context, host.Unit) error {
	return errors.Join(s.node.Stop(), s.node.Start())
}
func (s supervisor) Stop(context.Context, host.Unit) error         { return s.node.Stop() }
func (s supervisor) Reload(context.Context, host.Unit) error       { return s.node.Reload() }
func (s supervisor) Enable(context.Context, host.Unit, bool) error { return nil }
func (s supervisor) Watch(ctx context.Context, _ func(host.Unit)) error {
	<-ctx.Done()
	return nil
}

// pair is two nodes: a complete room, and a keepalived with the configuration that the other node's room would give it.
type pair struct {
	*house
	net         *vrrptest.Network
	mine, other *vrrptest.Node
}

func newPair(t *testing.T) *pair {
	t.Helper()
	net, err := vrrptest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(net.Close)
	p := &pair{net: net}
	if p.mine, err = net.Add(t.TempDir(), true); err != nil {
		t.Fatal(err)
	}
	if p.other, err = net.Add(t.TempDir(), false); err != nil {
		t.Fatal(err)
	}
	c := config()
	c.Own, c.Others = value.Must[value.Addr](p.other.Own), []value.Addr{value.Must[value.Addr](p.mine.Own)}
	ok(t, p.other.Write(rendered(t, c)))

	b := kittest.New(t)
	m, err := machine.New(machine.Options{Root: p.mine.Root, OwnKernel: true, Units: supervisor{node: p.mine}})
	if err != nil {
		t.Fatal(err)
	}
	b.Kit = kit.New(b.DB, m, clock.Real, b.Log, b.Secrets, b.Paths, "1.0.0")
	b.Router.SetupDone = func() bool { return true }
	b.Router.Sessions = kittest.Roles{}
	p.house = &house{Bench: b, own: p.mine.Own, others: []string{p.other.Own}}
	p.room = vrrp.New(b.Kit, p.deps())
	p.room.Mount()
	b.Start(t)
	go p.room.Run(t.Context())
	return p
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// on waits until a node has all the addresses, and the other none.
func (p *pair) on(t *testing.T, node *vrrptest.Node) {
	t.Helper()
	other := p.mine
	if node == p.mine {
		other = p.other
	}
	p.wait(t, "only "+node.Own+" has the address", func() bool { return node.Has(vrrptest.VIP) && !other.Has(vrrptest.VIP) })
	if node == p.mine {
		p.is(t, keepalived.Master)
	} else {
		p.is(t, keepalived.Backup)
	}
}

// is waits until the room knows its node's state.
func (p *pair) is(t *testing.T, state keepalived.State) {
	t.Helper()
	waittest.UntilNil(t, fmt.Sprintf("the room knows that its node is %s", state), func() error {
		if s := p.status(t); s.State != state {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// rests checks that nothing moves for a while: longer than a node waits before it takes the addresses wrongly.
func (p *pair) rests(t *testing.T, node *vrrptest.Node) {
	t.Helper()
	p.on(t, node)
	taken := func() int { return strings.Count(p.mine.Log()+p.other.Log(), "Entering MASTER") }
	before := taken()
	time.Sleep(5 * time.Second)
	p.on(t, node)
	if taken() != before {
		t.Errorf("it has moved meanwhile:\n%s\n%s", p.mine.Log(), p.other.Log())
	}
}

// TestNodes runs two nodes in each of three situations in parallel. One of them is in the network of the test's own process, so each
// needs its own process.
func TestNodes(t *testing.T) {
	const within = "VRRP_NODES"
	for name, test := range map[string]func(*testing.T){"moves": moves, "failures": failures, "deaf": deafNode} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(within) != "" {
				test(t)
				return
			}
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestNodes$/^"+name+"$")
			cmd.Env = append(os.Environ(), within+"=1", "GATEWAY_NETTEST_INSIDE=")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// begin makes the room's node have the address, and the other one wait.
func (p *pair) begin(t *testing.T) {
	t.Helper()
	p.put(t, `{"vip_address":"`+vrrptest.VIP+`","vip_interface":"`+vrrptest.Link+`"}`).Want(t, 200)
	p.on(t, p.mine)
	ok(t, p.other.Start())
}

// The address moves when it must, stays otherwise, and a drain has no gap.
func moves(t *testing.T) {
	p := newPair(t)
	p.begin(t)
	p.rests(t, p.mine) // the other one has come, and takes nothing
	since := p.status(t).Since

	probe := p.net.Probe(time.Second)
	ok(t, p.room.Drain(t.Context(), true))
	p.on(t, p.other)
	if s := p.status(t); !s.Drained || since == nil || !s.Since.After(*since) {
		t.Errorf("%+v, and before that since %v", s, since)
	}
	ok(t, p.room.Drain(t.Context(), false))
	p.rests(t, p.other) // it does not come back by itself
	ok(t, p.other.Drain(true))
	p.on(t, p.mine)
	ok(t, p.other.Drain(false))
	probe.End()
	if probe.Lost != 0 || probe.Asked < 100 {
		t.Errorf("%d of %d questions had no answer while it was moved", probe.Lost, probe.Asked)
	}
	// The client learns of the move a moment after the node has the address.
	p.wait(t, "the node that has the address answers", func() bool {
		probe := p.net.Probe(time.Second)
		probe.End()
		return probe.From == p.mine.Own
	})

	// A reload with other addresses removes none, and a new one that not both nodes have yet moves nothing.
	probe = p.net.Probe(time.Second)
	p.interfaces = []vrrp.Interface{{Name: value.Must[value.IfName](vrrptest.Link), Active: true, Addresses: []vrrp.Address{vip("10.9.0.8/24", 100), vip(vrrptest.VIP6+"/64", 100)}}}
	if s := p.Engine.Refresh(t.Context(), apply.VRRP, false); s.State != apply.Live {
		t.Fatalf("%+v", s)
	}
	if !p.mine.Has("10.9.0.8") || !p.mine.Has(vrrptest.VIP6) {
		t.Error("the new addresses are not there")
	}
	p.rests(t, p.mine)
	probe.End()
	if probe.Lost != 0 {
		t.Errorf("%d of %d questions had no answer during a reload", probe.Lost, probe.Asked)
	}

	// Stopped properly, and started again: the other one has it and keeps it.
	ok(t, p.mine.Stop())
	p.wait(t, "taken over from a node that was stopped", func() bool { return p.other.Has(vrrptest.VIP) })
	if s := p.Engine.Refresh(t.Context(), apply.VRRP, false); s.State != apply.Live {
		t.Fatalf("%+v", s)
	}
	p.rests(t, p.other)
	if p.mine.Has("10.9.0.8") || p.mine.Has(vrrptest.VIP6) {
		t.Error("the backup has addresses")
	}

	// Without a virtual address nothing is left.
	ok(t, p.other.Drain(true))
	p.on(t, p.mine)
	p.interfaces = nil
	p.put(t, `{"vip_address":"","vip_interface":""}`).Want(t, 200)
	if p.mine.PID() != 0 || p.mine.Has(vrrptest.VIP) || p.mine.Has("10.9.0.8") || p.mine.Has("127.0.112.1") {
		t.Error("something is left")
	}
}

// wait waits for a condition. On a timeout the test fails with the nodes' logs.
func (p *pair) wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	waittest.UntilNil(t, what, func() error {
		if !is() {
			return fmt.Errorf("\n%s\n%s", p.mine.Log(), p.other.Log())
		}
		return nil
	})
}

// A node whose proxy does not answer gives the address away, unless the other one is no better; so does one that dies. After a
// separation, one of the nodes has it.
func failures(t *testing.T) {
	p := newPair(t)
	p.begin(t)
	p.rests(t, p.mine)
	ok(t, p.mine.Answer(false))
	p.on(t, p.other)
	ok(t, p.other.Answer(false))
	p.wait(t, "the other one fails, too", func() bool { return strings.Contains(p.other.Log(), "Changing effective priority from 100 to 1") })
	p.rests(t, p.other)
	// A drained node is better than a failing one.
	ok(t, p.mine.Drain(true))
	ok(t, p.mine.Answer(true))
	p.on(t, p.mine)
	ok(t, p.mine.Drain(false))
	ok(t, p.other.Answer(true))
	p.rests(t, p.mine)

	// Killed without notice: the address stays on the dead node until keepalived is started again.
	ok(t, p.mine.Kill())
	if !p.mine.Has(vrrptest.VIP) {
		t.Error("keepalived has cleaned up although it was killed")
	}
	p.wait(t, "taken over from a node that is dead", func() bool { return p.other.Has(vrrptest.VIP) })
	if s := p.Engine.Refresh(t.Context(), apply.VRRP, false); s.State != apply.Live {
		t.Fatalf("%+v", s)
	}
	p.rests(t, p.other)

	// Two nodes that do not hear each other both have it; once they do, one has it.
	ok(t, p.mine.Cut(true))
	p.wait(t, "both have it while they are apart", func() bool { return p.mine.Has(vrrptest.VIP) && p.other.Has(vrrptest.VIP) })
	ok(t, p.mine.Cut(false))
	p.wait(t, "one has it when they are together", func() bool { return p.mine.Has(vrrptest.VIP) != p.other.Has(vrrptest.VIP) })

	// A cable is unplugged.
	ok(t, p.other.Drain(true))
	p.on(t, p.mine)
	ok(t, p.other.Drain(false))
	ok(t, p.mine.Unplug(true))
	p.wait(t, "taken over from a node without a cable", func() bool { return p.other.Has(vrrptest.VIP) && !p.mine.Has(vrrptest.VIP) })
	p.is(t, keepalived.Fault)
	ok(t, p.mine.Unplug(false))
	p.rests(t, p.other)
}

// If the packet filter blocks the protocol, both nodes take the address, whatever they have heard before.
func deafNode(t *testing.T) {
	p := newPair(t)
	p.begin(t)
	p.rests(t, p.mine)
	const closed = `table inet t { chain input { type filter hook input priority 0; policy drop
		iifname "lo" accept
		tcp dport 80 accept
		%s
	}
	}
`
	ok(t, p.other.Filter(strings.Replace(closed, "%s", "", 1)))
	p.wait(t, "both have it", func() bool { return p.other.Has(vrrptest.VIP) })
	ok(t, p.other.Filter(strings.Replace(closed, "%s", "ip saddr { "+p.mine.Own+" } meta l4proto 112 accept", 1)))
	p.wait(t, "one has it", func() bool { return p.mine.Has(vrrptest.VIP) != p.other.Has(vrrptest.VIP) })
	// A problem with the packet filter prevents keepalived's start.
	p.closed = errors.New("not yet")
	ok(t, p.mine.Stop())
	if s := p.Engine.Refresh(t.Context(), apply.VRRP, false); s.State != apply.Degraded || p.mine.PID() != 0 {
		t.Errorf("%+v", s)
	}
	if _, err := os.Stat(p.mine.Root + keepalived.Config.Path()); err != nil {
		t.Error(err)
	}
}
