package vrrp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/nettest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/vrrp"
)

// The tests of this package have a network namespace of their own, in which the real keepalived runs.
func TestMain(m *testing.M) { nettest.Main(m) }

// house is the room with test doubles for others.
type house struct {
	*kittest.Bench
	room       *vrrp.Room
	own        string
	others     []string
	interfaces []vrrp.Interface
	closed     error // why the packet filter admits nobody
	moved      atomic.Int64
}

func (h *house) deps() vrrp.Deps {
	return vrrp.Deps{
		Members: func(context.Context, db.Querier) (own netip.Addr, others []netip.Addr, err error) {
			for _, a := range h.others {
				others = append(others, netip.MustParseAddr(a))
			}
			return netip.MustParseAddr(h.own), others, nil
		},
		Interfaces: func(context.Context, db.Querier) ([]vrrp.Interface, error) { return h.interfaces, nil },
		Open:       func(context.Context) error { return h.closed },
		Moved:      func() { h.moved.Add(1) },
	}
}

// link is a link of the machine in memory.
func link(name string, addresses ...string) host.Link {
	l := host.Link{Name: name, Type: map[bool]string{true: "loopback", false: "ether"}[name == "lo"]}
	for _, a := range addresses {
		p := netip.MustParsePrefix(a)
		l.Addrs = append(l.Addrs, host.LinkAddr{Local: p.Addr().String(), PrefixLen: p.Bits()})
	}
	return l
}

func newHouse(t *testing.T, change func(*house)) *house {
	t.Helper()
	h := &house{Bench: kittest.New(t), own: "10.0.0.1", others: []string{"10.0.0.2"}}
	h.Machine.SetLinks(link("lo", "127.0.0.1/8"), link("eth0", "10.0.0.1/24"), link("eth1", "192.0.2.1/26", "2001:db8::1/64"))
	if change != nil {
		change(h)
	}
	h.room = vrrp.New(h.Kit, h.deps())
	h.room.Mount()
	h.Resources.MountChangeSets()
	h.Start(t)
	h.Engine.ApplyAll(t.Context())
	return h
}

func (h *house) put(t *testing.T, body string) *kittest.Answer {
	t.Helper()
	return h.Do(t, "admin", http.MethodPut, "/cluster/vip-settings", body)
}

func (h *house) file(t *testing.T) string {
	t.Helper()
	b, err := h.Machine.Read(keepalived.Config)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (h *house) status(t *testing.T) (s vrrp.Status) {
	t.Helper()
	h.Get(t, "/cluster/vip-status").Want(t, 200).Into(t, &s)
	return s
}

func (h *house) component(t *testing.T) apply.Status {
	t.Helper()
	return h.Engine.Refresh(t.Context(), apply.VRRP, false)
}

func TestBadSettings(t *testing.T) {
	h := newHouse(t, func(h *house) {
		h.interfaces = []vrrp.Interface{{Name: value.Must[value.IfName]("vlan7"), Active: true, Addresses: []vrrp.Address{{Prefix: netip.MustParsePrefix("192.0.2.7/26")}}}}
	})
	for body, field := range map[string]string{
		`{"vrrp_router_id":0}`:                                  "vrrp_router_id",
		`{"vrrp_router_id":256}`:                                "vrrp_router_id",
		`{"vrrp_router_id":"51"}`:                               "vrrp_router_id",
		`{"vip_address":"192.0.2.9"}`:                           "vip_interface",
		`{"vip_interface":"eth1"}`:                              "vip_address",
		`{"vip_address":"192.0.2.9","vip_interface":"gone0"}`:   "vip_interface",
		`{"vip_address":"192.0.2.9","vip_interface":"lo"}`:      "vip_interface",
		`{"vip_address":"192.0.2.9","vip_interface":"a b"}`:     "vip_interface",
		`{"vip_address":"192.0.2.9/24","vip_interface":"eth1"}`: "vip_address",
		`{"vip_address":"192.0.2.999","vip_interface":"eth1"}`:  "vip_address",
		`{"vip_address":"0.0.0.0","vip_interface":"eth1"}`:      "vip_address",
		`{"vip_address":"127.0.0.1","vip_interface":"eth1"}`:    "vip_address",
		`{"vip_address":"224.0.0.18","vip_interface":"eth1"}`:   "vip_address",
		`{"vip_address":"fe80::1","vip_interface":"eth1"}`:      "vip_address",
		`{"vip_address":"fe80::1%x","vip_interface":"eth1"}`:    "vip_address",
		`{"vip_address":"10.0.0.1","vip_interface":"eth1"}`:     "vip_address", // this node's
		`{"vip_address":"10.0.0.2","vip_interface":"eth1"}`:     "vip_address", // another node's
		`{"vip_address":"192.0.2.7","vip_interface":"eth1"}`:    "vip_address", // declared, and not virtual
		`{"vip":"192.0.2.9"}`:                                   "vip",
	} {
		h.put(t, body).WantField(t, field)
	}
	var s vrrp.Settings
	h.Get(t, "/cluster/vip-settings").Want(t, 200).Into(t, &s)
	if !s.VIPAddress.IsZero() || s.VRRPRouterID != 51 {
		t.Errorf("%+v", s)
	}
	h.Do(t, "viewer", http.MethodPut, "/cluster/vip-settings", `{"vrrp_router_id":7}`).Want(t, 403)
}

func TestSettingsReachKeepalived(t *testing.T) {
	h := newHouse(t, nil)
	if h.Machine.Starts(keepalived.Unit)+h.Machine.Restarts(keepalived.Unit) != 0 {
		t.Error("keepalived runs although there is no virtual address")
	}
	if got := h.put(t, `{"vip_address":"192.0.2.9","vip_interface":"eth1","vrrp_router_id":7}`).Want(t, 200).Header.Get("Gateway-Apply"); got != "vrrp=live" {
		t.Fatal(got, h.component(t))
	}
	// The address has the interface's matching network; it is advertised on the link with the node's own address.
	for _, line := range []string{"interface eth0", "virtual_router_id 7", "priority 100", "unicast_src_ip 10.0.0.1", "        10.0.0.2", "        192.0.2.9/26 dev eth1"} {
		if !strings.Contains(h.file(t), line+"\n") {
			t.Errorf("no %q in\n%s", line, h.file(t))
		}
	}
	if h.Machine.Restarts(keepalived.Unit) != 1 || !h.Machine.Enabled(keepalived.Unit) || h.Audited(t, "cluster.vip-settings.update") != 1 {
		t.Error("it was not started, or not audited")
	}
	h.put(t, `{"vip_address":"2001:db8::9"}`).Want(t, 200)
	if !strings.Contains(h.file(t), "        2001:db8::9/64 dev eth1\n") || h.Machine.Restarts(keepalived.Unit) != 1 || h.Machine.Reloads(keepalived.Unit) != 1 {
		t.Errorf("%d restarts, %d reloads\n%s", h.Machine.Restarts(keepalived.Unit), h.Machine.Reloads(keepalived.Unit), h.file(t))
	}
	h.put(t, `{"vip_address":"","vip_interface":""}`).Want(t, 200)
	if h.Machine.Stops(keepalived.Unit) == 0 || h.Machine.Enabled(keepalived.Unit) {
		t.Error("keepalived runs on without a virtual address")
	}
}

// The preview shows keepalived's new file beside the present one, and changes nothing.
func TestPreview(t *testing.T) {
	h := newHouse(t, nil)
	h.put(t, `{"vip_address":"192.0.2.9","vip_interface":"eth1","vrrp_router_id":7}`).Want(t, 200)
	preview := func(diff string) {
		t.Helper()
		files, diffs, err := h.Engine.Render(t.Context(), apply.VRRP)
		if err != nil || !slices.ContainsFunc(files, func(f apply.RenderedFile) bool {
			return f.Path == keepalived.Config.Path() && strings.Contains(f.Content, "        192.0.2.9/26 dev eth1\n") && strings.Contains(f.Content, "virtual_router_id 7\n")
		}) {
			t.Fatalf("%+v, %v", files, err)
		}
		var all string
		for _, d := range diffs {
			all += d.Diff
		}
		if (all != "") != (diff != "") || !strings.Contains(all, diff) {
			t.Errorf("%q instead of %q", all, diff)
		}
	}
	preview("")
	const byHand = "# by hand\n"
	if err := h.Machine.Install(keepalived.Config, []byte(byHand)); err != nil {
		t.Fatal(err)
	}
	preview("-" + byHand)
	if h.file(t) != byHand {
		t.Errorf("the preview has written\n%s", h.file(t))
	}
}

func vip(a string, priority int) vrrp.Address {
	return vrrp.Address{Prefix: netip.MustParsePrefix(a), VIP: true, Priority: priority}
}

// Virtual addresses of interfaces move in the same way; the highest of their priorities counts.
func TestVirtualAddressesOfInterfaces(t *testing.T) {
	h := newHouse(t, func(h *house) {
		h.interfaces = []vrrp.Interface{
			{Name: value.Must[value.IfName]("eth0"), Active: true, Addresses: []vrrp.Address{vip("10.0.0.9/24", 150), {Prefix: netip.MustParsePrefix("10.0.0.5/24"), Priority: 250}}},
			{Name: value.Must[value.IfName]("eth1"), Active: true, Addresses: []vrrp.Address{vip("192.0.2.9/26", 1), vip("2001:db8::9/64", 1)}},
			{Name: value.Must[value.IfName]("eth2"), Active: false, Addresses: []vrrp.Address{vip("198.51.100.9/24", 254)}},
		}
	})
	if s := h.component(t); s.State != apply.Live || s.Daemon != apply.Running {
		t.Fatalf("%+v", s)
	}
	for _, line := range []string{"priority 150", "weight -148", "        10.0.0.9/24 dev eth0 no_track", "        192.0.2.9/26 dev eth1 no_track", "        2001:db8::9/64 dev eth1 no_track", "        eth1 weight -253"} {
		if !strings.Contains(h.file(t), line+"\n") {
			t.Errorf("no %q in\n%s", line, h.file(t))
		}
	}
	for _, other := range []string{"198.51.100.9", "10.0.0.5"} {
		if strings.Contains(h.file(t), other) {
			t.Errorf("%s is in\n%s", other, h.file(t))
		}
	}
	if s := h.status(t); !s.Clustered || len(s.Addresses) != 3 {
		t.Errorf("%+v", s)
	}
}

// Other rooms ask whether this node has the addresses: the kernel knows, and each move is announced.
func TestHolds(t *testing.T) {
	h := newHouse(t, nil)
	is := func(holds, move bool) {
		t.Helper()
		if a, b, err := h.room.Holds(t.Context(), h.DB); err != nil || a != holds || b != move {
			t.Errorf("holds: %v, they move: %v, %v", a, b, err)
		}
	}
	is(false, false)
	h.put(t, `{"vip_address":"192.0.2.9","vip_interface":"eth1"}`).Want(t, 200)
	is(false, true)
	moved := h.moved.Load()
	h.Machine.SetLinks(link("lo", "127.0.112.1/32"), link("eth0", "10.0.0.1/24"), link("eth1", "192.0.2.1/26", "192.0.2.9/26"))
	is(true, true)
	for range 2 {
		if s := h.component(t); s.State != apply.Live || h.moved.Load() != moved+1 {
			t.Errorf("%+v, told %d times", s, h.moved.Load()-moved)
		}
	}
	h.others = nil
	is(false, false)
}

func TestWhatCannotBe(t *testing.T) {
	h := newHouse(t, nil)
	h.put(t, `{"vip_address":"192.0.2.9","vip_interface":"eth1"}`).Want(t, 200)
	problem := func(text string, running bool) {
		t.Helper()
		s := h.component(t)
		if s.State != apply.Degraded || !strings.Contains(strings.ToLower(s.LastError), strings.ToLower(text)) {
			t.Errorf("%+v", s)
		}
		if state, _ := h.Machine.State(t.Context(), keepalived.Unit); (state.Active == "active") != running {
			t.Errorf("%s: %s", text, state.Active)
		}
	}
	h.Machine.SetLinks(link("lo"), link("eth0", "10.0.0.1/24"))
	problem("this interface does not exist", false)
	h.Machine.SetLinks(link("lo"), link("eth0", "10.0.0.3/24"), link("eth1"))
	problem("No interface of this node has the address by which the other nodes know it, 10.0.0.1", false)
	h.Machine.SetLinks(link("lo"), link("eth0", "10.0.0.1/24"), link("eth1"))
	h.closed = errors.New("it is not there")
	problem("the packet filter does not let the other nodes in yet", false)
	h.closed = nil
	if s := h.component(t); s.State != apply.Live {
		t.Errorf("%+v", s)
	}
	h.others = append(h.others, "fd00::3")
	problem("the node at fd00::3 is not heard", true)
	// Only this node is left of the cluster: it binds its addresses itself.
	h.others = nil
	if s := h.component(t); s.State != apply.Live || s.Daemon != apply.Off {
		t.Errorf("%+v", s)
	}
	if elsewhere, err := h.room.Elsewhere(t.Context(), h.DB); elsewhere || err != nil {
		t.Error(elsewhere, err)
	}
}

// The addresses are on a node exactly if it is the master, and its state survives a restart of the gateway.
func TestWhoHasTheAddresses(t *testing.T) {
	h := newHouse(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go h.room.Run(ctx)
	h.put(t, `{"vip_address":"192.0.2.9","vip_interface":"eth1"}`).Want(t, 200)
	is := func(state keepalived.State) (since time.Time) {
		t.Helper()
		waittest.UntilNil(t, fmt.Sprintf("it is %s", state), func() error {
			s := h.status(t)
			if s.State != state {
				return fmt.Errorf("%+v", s)
			}
			if s.Since == nil {
				t.Fatalf("%+v", s)
			}
			since = *s.Since
			return nil
		})
		return since
	}
	is(keepalived.Backup)
	h.Machine.SetRouter(keepalived.Master)
	is(keepalived.Master)
	h.Machine.SetLinks(link("lo", "127.0.112.1/32"), link("eth0", "10.0.0.1/24"), link("eth1", "192.0.2.1/26", "192.0.2.9/26"))
	if s := h.component(t); s.State != apply.Live {
		t.Fatalf("%+v", s)
	}
	since := is(keepalived.Master)
	cancel()
	restarted := newHouse(t, func(again *house) {
		again.Paths = h.Paths
		again.Machine.SetLinks(link("lo", "127.0.112.1/32"), link("eth0", "10.0.0.1/24"), link("eth1", "192.0.2.1/26", "192.0.2.9/26"))
	})
	restarted.put(t, `{"vip_address":"192.0.2.9","vip_interface":"eth1"}`).Want(t, 200)
	if s := restarted.status(t); s.State != keepalived.Master || s.Since == nil || !s.Since.Equal(since) {
		t.Errorf("%+v, and not since %s", s, since)
	}
	// The component reports an address that is on the wrong node.
	h.Machine.SetLinks(link("lo"), link("eth0", "10.0.0.1/24"), link("eth1", "192.0.2.1/26", "192.0.2.9/26"))
	if s := h.Engine.Refresh(t.Context(), apply.VRRP, true); !strings.Contains(s.LastError, "192.0.2.9 is on eth1, although another node has the virtual addresses") {
		t.Errorf("%+v", s)
	}
}
