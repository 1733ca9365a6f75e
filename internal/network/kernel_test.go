package network_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/hosttest"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/host/nettest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/network"
)

// The tests of this package have a network namespace of their own.
func TestMain(m *testing.M) { nettest.Main(m) }

// kernel is a machine with the real network; the rest is in memory. It counts writes.
type kernel struct {
	host.Network
	memory // deeper, so that the network's method wins if both have one
	writes atomic.Int64
}

type memory struct{ *hosttest.Machine }

func (k *kernel) CreateLink(ctx context.Context, l host.NewLink) error {
	k.writes.Add(1)
	return k.Network.CreateLink(ctx, l)
}
func (k *kernel) ChangeLink(ctx context.Context, name string, c host.LinkChange) error {
	k.writes.Add(1)
	return k.Network.ChangeLink(ctx, name, c)
}
func (k *kernel) RemoveLink(ctx context.Context, name string) error {
	k.writes.Add(1)
	return k.Network.RemoveLink(ctx, name)
}
func (k *kernel) SetAddress(ctx context.Context, link string, a host.NewAddr) error {
	k.writes.Add(1)
	return k.Network.SetAddress(ctx, link, a)
}
func (k *kernel) RemoveAddress(ctx context.Context, link string, a netip.Prefix) error {
	k.writes.Add(1)
	return k.Network.RemoveAddress(ctx, link, a)
}
func (k *kernel) AddRoute(ctx context.Context, r host.NewRoute) error {
	k.writes.Add(1)
	return k.Network.AddRoute(ctx, r)
}
func (k *kernel) ReplaceRoute(ctx context.Context, r host.NewRoute) error {
	k.writes.Add(1)
	return k.Network.ReplaceRoute(ctx, r)
}
func (k *kernel) RemoveRoute(ctx context.Context, r host.NewRoute) error {
	k.writes.Add(1)
	return k.Network.RemoveRoute(ctx, r)
}
func (k *kernel) Forward(ctx context.Context, on bool) error {
	k.writes.Add(1)
	return k.Network.Forward(ctx, on)
}
func (k *kernel) AcceptRouters(ctx context.Context, link string) error {
	k.writes.Add(1)
	return k.Network.AcceptRouters(ctx, link)
}

// ip runs iproute2, like an operator on the machine.
func ip(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// cable creates two connected links, and clears the namespace when the test ends.
func cable(t *testing.T, name, other string) {
	t.Helper()
	ip(t, "link", "add", name, "type", "veth", "peer", "name", other)
	ip(t, "link", "set", other, "up")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", name).Run() })
}

// clear removes what a test may have left.
func clear(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		out, _ := exec.Command("ip", "-br", "link", "show", "type", "bridge").Output()
		for line := range strings.Lines(string(out)) {
			_ = exec.Command("ip", "link", "del", strings.Fields(line)[0]).Run()
		}
	})
}

// here means that virtual addresses are bound like all others.
func here(context.Context, db.Querier) (bool, error) { return false, nil }

// gateway is the room on the real kernel.
type gateway struct {
	*kittest.Bench
	kernel *kernel
}

func onKernel(t *testing.T) gateway {
	t.Helper()
	clear(t)
	b := kittest.New(t)
	system, err := machine.New(machine.Options{Units: units.None{Reason: "a test"}})
	if err != nil {
		t.Fatal(err)
	}
	k := &kernel{Network: system, memory: memory{b.Machine}}
	b.Machine.SetFilter(host.FilterState{Present: true}, "")
	b.Kit = kit.New(b.DB, k, clock.Real, b.Log, b.Secrets, b.Paths, "1.0.0")
	b.Router.SetupDone = func() bool { return true }
	b.Router.Sessions = kittest.Roles{}
	network.New(b.Kit, network.Deps{VIPsElsewhere: here}).Mount()
	b.Resources.MountChangeSets()
	b.Start(t)
	g := gateway{b, k}
	g.settle(t)
	return g
}

// settle brings the kernel to what is stored.
func (g gateway) settle(t *testing.T) {
	t.Helper()
	if _, failed := g.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatalf("not live: %v", failed)
	}
}

// quiet fails the test unless applying again writes nothing.
func (g gateway) quiet(t *testing.T) {
	t.Helper()
	before := g.kernel.writes.Load()
	g.settle(t)
	if n := g.kernel.writes.Load() - before; n != 0 {
		t.Fatalf("applying twice wrote %d times", n)
	}
}

func (g gateway) post(t *testing.T, path string, body any) (id string) {
	t.Helper()
	a := g.Do(t, "admin", http.MethodPost, path, body).Want(t, 201)
	if a.Header.Get("Gateway-Apply") != "network=live" {
		t.Fatalf("%s %v: %s, %+v", path, body, a.Header.Get("Gateway-Apply"), g.Engine.Statuses())
	}
	var row struct{ ID string }
	a.Into(t, &row)
	return row.ID
}

func (g gateway) declare(t *testing.T, name, role string) (id string) {
	t.Helper()
	return g.post(t, "/network-interfaces", map[string]any{"name": name, "type": "ethernet", "role": role})
}

func (g gateway) bind(t *testing.T, iface, address string, prefix int) (id string) {
	t.Helper()
	return g.post(t, "/network-interfaces/"+iface+"/ip-addresses", map[string]any{"address": address, "prefix": prefix})
}

func (g gateway) del(t *testing.T, path string) {
	t.Helper()
	if a := g.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 200); a.Header.Get("Gateway-Apply") != "network=live" {
		t.Fatalf("%s: %s, %+v", path, a.Header.Get("Gateway-Apply"), g.Engine.Statuses())
	}
}

// has fails the test unless the output has each text, and none of those with a leading !.
func has(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if text, not := strings.CutPrefix(text, "!"); strings.Contains(out, text) == not {
			t.Fatalf("has %q: %t\n%s", text, not, out)
		}
	}
}

// protocol returns the protocol of an address, which iproute2 in Debian 12 does not show.
func (g gateway) protocol(t *testing.T, link, address string) uint8 {
	t.Helper()
	links, err := g.kernel.Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		for _, a := range l.Addrs {
			if l.Name == link && a.Prefix().String() == address {
				return a.Protocol
			}
		}
	}
	t.Fatalf("%s has no %s", link, address)
	return 0
}

func TestNE02BridgeComesAndGoes(t *testing.T) {
	cable(t, "p0", "p1")
	g := onKernel(t)
	member := g.declare(t, "p0", "lan")
	bridge := g.post(t, "/network-interfaces", map[string]any{"name": "br0", "type": "bridge", "role": "lan", "members": []string{"p0"}, "mtu": 1400})
	g.bind(t, bridge, "10.1.0.1", 24)
	has(t, ip(t, "-d", "addr", "show", "br0"), "mtu 1400", "bridge ", "alias gateway:"+bridge, "10.1.0.1/24", "UP")
	has(t, ip(t, "link", "show", "p0"), "master br0", "UP")
	g.quiet(t)

	// Someone removes it: the timer's pass creates it again, with everything that belongs to it.
	ip(t, "link", "del", "br0")
	g.Engine.Converge()
	waittest.Until(t, "the bridge is back", func() bool {
		out, err := exec.Command("ip", "addr", "show", "br0").Output()
		return err == nil && strings.Contains(string(out), "10.1.0.1/24")
	})
	waittest.Until(t, "its member too", func() bool { return strings.Contains(ip(t, "link", "show", "p0"), "master br0") })
	g.settle(t) // the pass that recreates it may leave more to do
	g.quiet(t)

	// When inactive, it is removed; the Ethernet port stays.
	g.Do(t, "admin", http.MethodPut, "/network-interfaces/"+bridge, map[string]any{"active": false}).Want(t, 200)
	has(t, ip(t, "link"), "!br0", "p0@p1")
	g.Do(t, "admin", http.MethodPut, "/network-interfaces/"+bridge, map[string]any{"active": true, "name": "br1"}).Want(t, 200)
	has(t, ip(t, "addr", "show", "br1"), "10.1.0.1/24")
	var addresses []network.Address
	g.Get(t, "/ip-addresses").Want(t, 200).Into(t, &addresses)
	g.del(t, "/ip-addresses/"+addresses[0].ID.String())
	g.del(t, "/network-interfaces/"+bridge)
	has(t, ip(t, "link"), "!br1")
	g.del(t, "/network-interfaces/"+member)
	has(t, ip(t, "link", "show", "p0"), "UP", "!master")
	g.quiet(t)
}

func TestMemberIsFreed(t *testing.T) {
	cable(t, "p0", "p1")
	cable(t, "q0", "q1")
	g := onKernel(t)
	bridge := g.post(t, "/network-interfaces", map[string]any{"name": "br0", "type": "bridge", "role": "lan", "members": []string{"p0", "q0"}})
	has(t, ip(t, "link", "show", "q0"), "master br0", "UP")
	g.Do(t, "admin", http.MethodPut, "/network-interfaces/"+bridge, map[string]any{"members": []string{"p0"}}).Want(t, 200)
	has(t, ip(t, "link", "show", "p0"), "master br0")
	has(t, ip(t, "link", "show", "q0"), "!master")
	g.quiet(t)
}

func TestNE03WhatOthersMadeStays(t *testing.T) {
	for _, family := range []struct{ own, hand, other, via, handVia, first, second string }{
		{"10.2.0.1/24", "10.2.9.9/24", "10.2.0.8/24", "10.2.0.77", "10.2.9.77", "10.20.0.0/16", "10.21.0.0/16"},
		{"fd00:2::1/64", "fd00:2:0:9::9/64", "fd00:2::8/64", "fd00:2::77", "fd00:2:0:9::77", "fd00:20::/64", "fd00:21::/64"},
	} {
		t.Run(family.own, func(t *testing.T) {
			cable(t, "p0", "p1")
			ip(t, "link", "set", "p0", "up")
			ip(t, "addr", "add", family.hand, "dev", "p0")
			ip(t, "route", "add", family.second, "via", family.handVia, "dev", "p0", "proto", "static")
			g := onKernel(t)
			own := netip.MustParsePrefix(family.own)
			iface := g.declare(t, "p0", "lan")
			address := g.bind(t, iface, own.Addr().String(), own.Bits())
			// After ours, in the same network: the kernel would remove it together with the first one.
			ip(t, "addr", "add", family.other, "dev", "p0")
			route := g.post(t, "/routes", map[string]any{"destination": family.first, "gateway": family.via})
			all := func() string { return ip(t, "addr", "show", "p0") + ip(t, "route") + ip(t, "-6", "route") }
			has(t, all(), family.own, family.hand, family.other, family.first, family.second)
			if p := g.protocol(t, "p0", family.own); p != 250 {
				t.Fatalf("the address carries the protocol %d", p)
			}
			if p := g.protocol(t, "p0", family.hand); p == 250 {
				t.Fatal("the address of another is marked as ours")
			}
			var live []network.LiveRoute
			g.Get(t, "/routes/live").Want(t, 200).Into(t, &live)
			if !slices.ContainsFunc(live, func(r network.LiveRoute) bool {
				return r.Destination == family.first && r.Protocol == 250 && r.Proto == "gateway" && r.Gateway == family.via && r.Dev == "p0" && r.TableName == "main"
			}) || !slices.ContainsFunc(live, func(r network.LiveRoute) bool { return r.TableName == "local" && r.Type == "local" }) {
				t.Fatalf("%+v", live)
			}
			g.quiet(t)

			g.Do(t, "admin", http.MethodPut, "/routes/"+route, map[string]any{"active": false}).Want(t, 200)
			has(t, all(), "!"+family.first, family.second)
			g.Do(t, "admin", http.MethodPut, "/routes/"+route, map[string]any{"active": true, "metric": 50}).Want(t, 200)
			has(t, all(), family.first, "metric 50", family.second)
			g.del(t, "/routes/"+route)
			has(t, all(), "!"+family.first, family.second)
			g.del(t, "/ip-addresses/"+address)
			has(t, all(), "!"+family.own, family.hand, family.other, family.second)
			g.del(t, "/network-interfaces/"+iface)
			has(t, all(), family.hand, family.other, family.second, "p0@p1")
			g.quiet(t)
		})
	}
}

func TestAddressIsMovedBeforeTheOldOneGoes(t *testing.T) {
	// A link that loses its last address loses its routes, including foreign ones.
	cable(t, "p0", "p1")
	g := onKernel(t)
	iface := g.declare(t, "p0", "lan")
	address := g.bind(t, iface, "10.3.0.1", 24)
	ip(t, "route", "add", "10.30.0.0/16", "dev", "p0", "proto", "static")
	g.Do(t, "admin", http.MethodPut, "/ip-addresses/"+address, map[string]any{"address": "10.4.0.1", "prefix": 25}).Want(t, 200)
	has(t, ip(t, "addr", "show", "p0")+ip(t, "route"), "10.4.0.1/25", "!10.3.0.1", "10.30.0.0/16")
	// The same address with another length, which IPv6 has only once.
	six := g.bind(t, iface, "fd00:3::1", 64)
	g.Do(t, "admin", http.MethodPut, "/ip-addresses/"+six, map[string]any{"prefix": 48}).Want(t, 200)
	has(t, ip(t, "addr", "show", "p0"), "fd00:3::1/48", "!fd00:3::1/64")
	g.quiet(t)
	// When inactive, the link keeps nothing of ours and everything else.
	g.Do(t, "admin", http.MethodPut, "/network-interfaces/"+iface, map[string]any{"active": false}).Want(t, 200)
	has(t, ip(t, "addr", "show", "p0"), "!10.4.0.1", "!fd00:3::1", "UP")
	g.quiet(t)
}

func TestAdoption(t *testing.T) {
	cable(t, "p0", "p1")
	ip(t, "link", "set", "p0", "up")
	ip(t, "addr", "add", "10.5.0.1/24", "dev", "p0")
	ip(t, "addr", "add", "fd00:5::1/64", "dev", "p0", "nodad")
	ip(t, "route", "add", "default", "via", "10.5.0.2")
	ip(t, "route", "add", "10.50.0.0/16", "via", "10.5.0.2", "proto", "static")
	g := onKernel(t)
	var found []network.Adoptable
	g.Get(t, "/network/adoptable").Want(t, 200).Into(t, &found)
	n := slices.IndexFunc(found, func(a network.Adoptable) bool { return a.Name == "p0" })
	if n < 0 || found[n].Role != "wan" || found[n].Type != "ethernet" || found[n].Kind != "veth" || !found[n].Up || len(found[n].Addresses) != 2 ||
		slices.ContainsFunc(found, func(a network.Adoptable) bool { return a.Name == "lo" || a.Name == "p1" && a.Role != "lan" }) {
		t.Fatalf("%+v", found)
	}
	id := uuid.NewString()
	operations := []any{map[string]any{"kind": "network.interface", "verb": "create", "id": id, "body": map[string]any{"name": found[n].Name, "type": found[n].Type, "role": found[n].Role}}}
	for _, a := range found[n].Addresses {
		if a.Dynamic {
			t.Fatalf("%+v", a)
		}
		operations = append(operations, map[string]any{"kind": "network.ip-address", "verb": "create", "body": map[string]any{"interface_id": id, "address": a.Address, "prefix": a.Prefix}})
	}
	if a := g.Do(t, "admin", http.MethodPost, "/change-sets", map[string]any{"operations": operations}).Want(t, 200); a.Header.Get("Gateway-Apply") != "network=live" {
		t.Fatalf("%v %+v", a.Header, g.Engine.Statuses())
	}
	if g.protocol(t, "p0", "10.5.0.1/24") != 250 || g.protocol(t, "p0", "fd00:5::1/64") != 250 {
		t.Fatal("not taken over")
	}
	has(t, ip(t, "route"), "default via 10.5.0.2", "10.50.0.0/16") // were never gone
	// A foreign route that is declared identically becomes ours; one that leads elsewhere is in the way.
	g.post(t, "/routes", map[string]any{"destination": "10.50.0.0/16", "gateway": "10.5.0.2"})
	has(t, ip(t, "route", "show", "10.50.0.0/16"), "proto 250")
	a := g.Do(t, "admin", http.MethodPost, "/routes", map[string]any{"destination": "default", "gateway": "10.5.0.3"}).Want(t, 201)
	if a.Header.Get("Gateway-Apply") != "network=degraded" {
		t.Fatal(a.Header)
	}
	has(t, ip(t, "route"), "default via 10.5.0.2")
	has(t, g.Engine.Statuses()[0].LastError, "choose another metric")
}

func TestOneBadThingDoesNotStopTheRest(t *testing.T) {
	cable(t, "p0", "p1")
	g := onKernel(t)
	iface := g.declare(t, "p0", "lan")
	g.Do(t, "admin", http.MethodPost, "/network-interfaces", map[string]any{"name": "away0", "type": "ethernet", "role": "wan"}).Want(t, 201)
	g.Do(t, "admin", http.MethodPost, "/routes", map[string]any{"destination": "10.60.0.0/16", "gateway": "192.0.2.77"}).Want(t, 201)
	g.Do(t, "admin", http.MethodPost, "/routes", map[string]any{"destination": "10.61.0.0/16", "dev": "nowhere0"}).Want(t, 201)
	a := g.Do(t, "admin", http.MethodPost, "/ip-addresses", map[string]any{"interface_id": iface, "address": "10.6.0.1", "prefix": 24}).Want(t, 201)
	if a.Header.Get("Gateway-Apply") != "network=degraded" {
		t.Fatal(a.Header)
	}
	has(t, ip(t, "addr", "show", "p0"), "10.6.0.1/24")
	has(t, g.Engine.Statuses()[0].LastError, "Interface away0 is missing", "10.61.0.0/16 by nowhere0: interface nowhere0 is missing",
		"10.60.0.0/16 via 192.0.2.77: the next hop 192.0.2.77 is not in a network", "!last known good")
	// The cause disappears on its own, and so does the problem.
	cable(t, "away0", "away1")
	ip(t, "link", "add", "nowhere0", "type", "bridge")
	ip(t, "link", "set", "nowhere0", "up")
	ip(t, "addr", "add", "192.0.2.1/24", "dev", "p0")
	g.settle(t)
	has(t, ip(t, "route"), "10.60.0.0/16 via 192.0.2.77", "10.61.0.0/16 dev nowhere0")
	g.quiet(t)
}

func TestForwarding(t *testing.T) {
	for _, key := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		if err := os.WriteFile(filepath.Join("/proc/sys", key), []byte("0"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cable(t, "p0", "p1")
	cable(t, "q0", "q1")
	ip(t, "link", "set", "p0", "up")
	ip(t, "-6", "route", "add", "default", "dev", "p0", "proto", "ra", "metric", "1024")
	g := onKernel(t)
	read := func(key string) string {
		b, err := os.ReadFile(filepath.Join("/proc/sys", key))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	if read("net/ipv4/ip_forward") != "1" || read("net/ipv6/conf/all/forwarding") != "1" {
		t.Fatal("the machine does not forward")
	}
	if read("net/ipv6/conf/p0/accept_ra") != "2" || read("net/ipv6/conf/q0/accept_ra") != "1" {
		t.Fatalf("p0 %s, q0 %s", read("net/ipv6/conf/p0/accept_ra"), read("net/ipv6/conf/q0/accept_ra"))
	}
	g.declare(t, "q0", "wan")
	if read("net/ipv6/conf/q0/accept_ra") != "2" {
		t.Fatal("a link to the outside does not listen to its routers")
	}
	g.quiet(t)

	// Without the packet filter the machine is not a router.
	const without = "The gateway does not forward packets, because the firewall is not loaded."
	g.kernel.SetFilter(host.FilterState{}, "")
	_, failed := g.Engine.ApplyAll(t.Context())
	if read("net/ipv4/ip_forward") != "0" || read("net/ipv6/conf/all/forwarding") != "0" || !strings.Contains(failed[apply.Network], without) {
		t.Fatalf("forwards %s %s without a packet filter: %v", read("net/ipv4/ip_forward"), read("net/ipv6/conf/all/forwarding"), failed)
	}
	// Whether there is one is unknown: nothing is changed.
	g.kernel.FailFilter(errors.New("no answer"))
	if _, failed := g.Engine.ApplyAll(t.Context()); read("net/ipv4/ip_forward") != "0" || !strings.Contains(failed[apply.Network], "no answer") {
		t.Fatalf("%v", failed)
	}
	g.kernel.FailFilter(nil)
	g.kernel.SetFilter(host.FilterState{Present: true}, "")
	g.settle(t)
	if read("net/ipv4/ip_forward") != "1" || read("net/ipv6/conf/all/forwarding") != "1" {
		t.Fatal("the machine does not forward again")
	}
	g.kernel.FailFilter(errors.New("no answer"))
	if _, failed := g.Engine.ApplyAll(t.Context()); read("net/ipv4/ip_forward") != "1" || !strings.Contains(failed[apply.Network], "no answer") {
		t.Fatalf("%v", failed)
	}
}

// iproute2 shows the name of the protocol if the file exists.
func TestProtocolHasAName(t *testing.T) {
	cable(t, "p0", "p1")
	g := onKernel(t)
	iface := g.declare(t, "p0", "lan")
	g.bind(t, iface, "10.7.0.1", 24)
	g.post(t, "/routes", map[string]any{"destination": "10.70.0.0/16", "gateway": "10.7.0.2", "table_name": "100"})
	names, err := g.Machine.Read(host.RouteProtocols)
	if err != nil {
		t.Fatal(err)
	}
	// Mounted over the machine's own, which may lack the folder.
	dir := t.TempDir()
	installed := filepath.Join(dir, host.RouteProtocols.Path())
	if err := os.MkdirAll(filepath.Dir(installed), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(installed, names, 0o644); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("mount -t overlay -o lowerdir=%s/etc:/etc overlay /etc && ip route show table 100", dir)
	out, err := exec.Command("unshare", "-m", "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	has(t, string(out), "10.70.0.0/16 via 10.7.0.2 dev p0 proto gateway")
}

func TestWays(t *testing.T) {
	cable(t, "p0", "p1")
	cable(t, "q0", "q1")
	g := onKernel(t)
	g.bind(t, g.declare(t, "p0", "lan"), "10.8.0.1", 24)
	q := g.declare(t, "q0", "wan")
	g.bind(t, q, "10.9.0.1", 24)
	// A virtual address can be used at once, without duplicate address detection.
	g.post(t, "/ip-addresses", map[string]any{"interface_id": q, "address": "fd00:9::1", "prefix": 64, "is_vip": true})
	for _, x := range []struct {
		dst, src, in string
		want         host.Way
	}{
		{"10.9.0.7", "10.8.0.7", "p0", host.Way{Interface: "q0", Source: netip.MustParseAddr("10.9.0.1")}},
		{"10.9.0.1", "10.8.0.7", "p0", host.Way{Local: true}},
		{"10.9.0.7", "", "", host.Way{Interface: "q0", Source: netip.MustParseAddr("10.9.0.1")}},
		{"fd00:9::7", "", "", host.Way{Interface: "q0", Source: netip.MustParseAddr("fd00:9::1")}},
		{"fd00:9::1", "fd00:9::7", "q0", host.Way{Local: true}},
		{"10.9.0.7", "10.8.0.7", "nothere0", host.Way{Unreachable: "there is no interface nothere0"}},
	} {
		var src netip.Addr
		if x.src != "" {
			src = netip.MustParseAddr(x.src)
		}
		// The kernel takes a moment until an address is usable.
		waittest.Until(t, fmt.Sprintf("%+v", x), func() bool {
			got, err := g.kernel.RouteTo(t.Context(), netip.MustParseAddr(x.dst), src, x.in)
			return err == nil && got == x.want
		})
	}
	for _, dst := range []string{"203.0.113.1", "2001:db8::1"} {
		if got, err := g.kernel.RouteTo(t.Context(), netip.MustParseAddr(dst), netip.Addr{}, ""); err != nil || got.Unreachable == "" {
			t.Errorf("%s: %+v, %v", dst, got, err)
		}
	}
	if got, err := g.kernel.RouteTo(t.Context(), netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("10.8.0.7"), "p0"); err != nil || got.Unreachable == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// With a root folder the machine's network is read, but not touched.
func TestRootFolderLeavesTheNetworkAlone(t *testing.T) {
	cable(t, "p0", "p1")
	system, err := machine.New(machine.Options{Units: units.None{Reason: "a test"}, Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	before := ip(t, "addr")
	links, err := system.Links(t.Context())
	if err != nil || len(links) < 3 {
		t.Fatal(links, err)
	}
	b := kittest.New(t)
	k := &kernel{Network: system, memory: memory{b.Machine}}
	b.Machine.SetFilter(host.FilterState{Present: true}, "")
	b.Kit = kit.New(b.DB, k, clock.Real, b.Log, b.Secrets, b.Paths, "1.0.0")
	b.Router.SetupDone = func() bool { return true }
	b.Router.Sessions = kittest.Roles{}
	network.New(b.Kit, network.Deps{VIPsElsewhere: here}).Mount()
	b.Start(t)
	a := b.Do(t, "admin", http.MethodPost, "/network-interfaces", `{"name":"p0","type":"ethernet","role":"lan"}`).Want(t, 201)
	if a.Header.Get("Gateway-Apply") != "network=not_installed" {
		t.Fatal(a.Header)
	}
	has(t, b.Engine.Statuses()[0].LastError, "not managed here")
	if after := ip(t, "addr"); after != before {
		t.Fatalf("%s\ninstead of\n%s", after, before)
	}
}
