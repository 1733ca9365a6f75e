package firewall_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/firewall"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/hosttest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
)

// alone is the room on a machine in memory whose lanes do not run, as while the database is away.
func alone(t *testing.T) (*firewall.Room, *hosttest.Machine) {
	b := kittest.New(t)
	return firewall.New(b.Kit, firewall.Deps{}), b.Machine
}

func guarded(t *testing.T, r *firewall.Room) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { r.Guard(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
}

func forwards(m *hosttest.Machine) bool {
	f, err := m.Forwarding(context.Background())
	return err == nil && f.IPv4 && f.IPv6
}

func present(m host.Machine) bool {
	state, err := m.FilterState(context.Background())
	return err == nil && state.Present
}

const keptTable = "table inet gateway {\n\tcomment \"kept\"\n}\n"

// TestForwardingStopsWithTheTable checks that forwarding stops when the table disappears, and resumes with it, without a database.
func TestForwardingStopsWithTheTable(t *testing.T) {
	r, m := alone(t)
	m.SetFilter(host.FilterState{Present: true}, "")
	if err := m.Forward(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	m.Reject(nftables.Load, "no")
	if err := m.Install(nftables.Table, []byte(keptTable)); err != nil {
		t.Fatal(err)
	}
	guarded(t, r)
	m.SetFilter(host.FilterState{}, "")
	waittest.Until(t, "forwarding stops", func() bool { return !forwards(m) })
	waittest.Until(t, "the table that was kept is tried again and again", func() bool { return m.Runs(nftables.Load) > 1 })
	if forwards(m) {
		t.Fatal("forwards without a table")
	}
	m.Script(nftables.Load, m.Load)
	waittest.Until(t, "the table is back", func() bool { return present(m) })
	waittest.Until(t, "forwarding goes on", func() bool { return forwards(m) })
}

// TestForwardingThatWasOffStaysOff checks that the guard only switches on what it has switched off.
func TestForwardingThatWasOffStaysOff(t *testing.T) {
	r, m := alone(t)
	if err := m.Install(nftables.Table, []byte(keptTable)); err != nil {
		t.Fatal(err)
	}
	r.Boot(t.Context())
	if !present(m) || forwards(m) || len(m.NetworkWrites()) > 0 {
		t.Errorf("table %t, forwarding %t", present(m), forwards(m))
	}
}

// TestATableThatIsThereIsAskedForOnce checks that the guard, which looks after every change, does so with one question.
func TestATableThatIsThereIsAskedForOnce(t *testing.T) {
	r, m := alone(t)
	m.SetFilter(host.FilterState{Present: true}, "")
	asked := m.Asked(hosttest.FilterState)
	r.Boot(t.Context())
	if n := m.Asked(hosttest.FilterState) - asked; n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestBootLoadsWhatWasKept checks that the stored table is loaded even if the kernel's state is unknown, and that this is retried.
func TestBootLoadsWhatWasKept(t *testing.T) {
	r, m := alone(t)
	if err := m.Install(nftables.Table, []byte(keptTable)); err != nil {
		t.Fatal(err)
	}
	m.FailFilter(errors.New("no answer"))
	m.Reject(nftables.Load, "no")
	r.Boot(t.Context())
	if m.Runs(nftables.Load) != 1 {
		t.Fatalf("%d loads while the kernel does not say what it has", m.Runs(nftables.Load))
	}
	guarded(t, r)
	waittest.Until(t, "another try", func() bool { return m.Runs(nftables.Load) > 2 })
	m.Script(nftables.Load, m.Load)
	m.FailFilter(nil)
	waittest.Until(t, "the table is there", func() bool { return present(m) })
}

// busyNeighbour keeps changing a table of its own.
func busyNeighbour(t *testing.T) (changes *atomic.Int64) {
	t.Helper()
	run(t, "nft", "add table inet neighbour; add set inet neighbour blocked { type ipv4_addr; }")
	changes = new(atomic.Int64)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if exec.Command("nft", "add element inet neighbour blocked { 192.0.2.1 }").Run() == nil && exec.Command("nft", "delete element inet neighbour blocked { 192.0.2.1 }").Run() == nil {
				changes.Add(2)
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		run(t, "nft", "delete table inet neighbour")
	})
	return changes
}

// TestANeighboursTransactionsTakeNothingBack checks that another program's changes of its own table neither degrade the packet filter nor
// remove a rule whose creation was acknowledged.
func TestANeighboursTransactionsTakeNothingBack(t *testing.T) {
	h := newHouse(t)
	changes := busyNeighbour(t)
	began := changes.Load()
	for i := 0; i < 15 || changes.Load() < began+30; i++ {
		id := h.rule(t, map[string]any{"name": "beside a neighbour"}) // which must be live
		for range 3 {
			if len(readTable(t).with("gid:"+id)) != 1 {
				t.Fatal("a rule that was answered is not in the kernel")
			}
		}
	}
	if s := h.Engine.Statuses()[0]; s.State != "live" {
		t.Errorf("%+v", s)
	}
}

// TestTheTableIsBackAtOnce checks that the kernel's notification of a missing table is acted on without waiting for a timer.
func TestTheTableIsBackAtOnce(t *testing.T) {
	h := newHouse(t)
	id := h.rule(t, map[string]any{})
	h.Engine.ApplyAll(t.Context())
	began := time.Now()
	for i := range 5 {
		run(t, "nft", []string{"flush ruleset", "delete table inet gateway"}[i%2])
		waittest.Until(t, "the table is back", func() bool {
			out, _ := exec.Command("nft", "list", "table", "inet", "gateway").Output()
			return strings.Contains(string(out), id)
		})
	}
	// The lane's own timer would have taken ten seconds each time.
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
}

// TestATableThatCannotBeLookedAtStays checks that a missing proof is reported, and no older table is loaded.
func TestATableThatCannotBeLookedAtStays(t *testing.T) {
	o := newOffice(t)
	before := o.Machine.Runs(nftables.Load)
	o.Machine.Script(nftables.Load, func(ctx context.Context, in host.Input) (host.Output, error) {
		defer o.Machine.FailFilter(errors.New("netlink is away"))
		return o.Machine.Load(ctx, in)
	})
	var row struct{ ID string }
	a := o.Do(t, "admin", "POST", "/firewall/rules", map[string]any{"name": "new", "action": "accept"}).Want(t, 201)
	a.Into(t, &row)
	if got := a.Header.Get("Gateway-Apply"); got != "packet-filter=degraded" {
		t.Errorf("%s", got)
	}
	file, err := o.Machine.Read(nftables.Table)
	if err != nil || !strings.Contains(string(file), row.ID) || o.Machine.Runs(nftables.Load) != before+1 {
		t.Errorf("%v, %d loads, %s", err, o.Machine.Runs(nftables.Load)-before, file)
	}
	o.Machine.Script(nftables.Load, o.Machine.Load)
	o.Machine.FailFilter(nil)
	if s := o.Engine.Refresh(t.Context(), "packet-filter", false); s.State != "live" {
		t.Errorf("%+v", s)
	}
}
