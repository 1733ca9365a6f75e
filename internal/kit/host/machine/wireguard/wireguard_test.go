package wireguard

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/wireguard"
	"edge.internal/gateway/internal/kit/host/machine/command"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/host/machine/network"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/waittest"
)

// machine combines the parts of a machine that these tests need.
type machine struct {
	*command.Commands
	*network.Network
	*Tunnels
}

func at(h home.Home) machine {
	c := command.New(h, files.New(h))
	return machine{c, network.New(h), New(h, c, units.None{Reason: "a test of interfaces"})}
}

// ownKernel returns a machine with the network of the test's namespace.
func ownKernel(t *testing.T) machine { return at(home.Home{Root: t.TempDir()}) }

// tunnelName returns a unique name: the userspace implementations of all network namespaces share one folder for their sockets.
func tunnelName(t *testing.T) string {
	t.Helper()
	var b [4]byte
	_, _ = rand.Read(b[:])
	name := "gwt" + hex.EncodeToString(b[:])
	t.Cleanup(func() {
		if link, err := netlink.LinkByName(name); err == nil {
			_ = netlink.LinkDel(link)
		}
		_ = os.Remove(filepath.Join(sockets, name+".sock"))
	})
	return name
}

func randomKey() (k host.TunnelKey) {
	_, _ = rand.Read(k[:])
	return k
}

func device(t *testing.T, s machine, name string) host.TunnelDevice {
	t.Helper()
	list, err := s.TunnelDevices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := slices.IndexFunc(list, func(d host.TunnelDevice) bool { return d.Name == name })
	if n < 0 {
		t.Fatalf("no tunnel %s in %+v", name, list)
	}
	return list[n]
}

func TestTunnelLife(t *testing.T) {
	s, name := ownKernel(t), tunnelName(t)
	if err := s.CreateTunnel(t.Context(), name, host.OwnTunnel+"x"); err != nil {
		t.Fatal(err)
	}
	d := device(t, s, name)
	if d.PublicKey != (host.TunnelKey{}) || len(d.Peers) != 0 || d.Kind == "" {
		t.Fatalf("a new tunnel is %+v", d)
	}
	private, port, mark := randomKey(), 41820, 51251
	keep, none := 25, 0
	a, b := randomKey(), randomKey()
	psk := randomKey()
	ips := []netip.Prefix{netip.MustParsePrefix("10.8.0.2/32"), netip.MustParsePrefix("fd00:8::2/128")}
	others := []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}
	change := func(c host.TunnelChange) {
		t.Helper()
		if err := s.ChangeTunnel(t.Context(), name, c); err != nil {
			t.Fatal(err)
		}
	}
	change(host.TunnelChange{PrivateKey: &private, ListenPort: &port, Mark: &mark, Peers: []host.TunnelPeerChange{
		{PublicKey: a, PresharedKey: &psk, Endpoint: netip.MustParseAddrPort("192.0.2.1:51820"), Keepalive: &keep, AllowedIPs: &ips},
		{PublicKey: b, AllowedIPs: &others, Keepalive: &none},
	}})
	want := host.TunnelDevice{Name: name, Kind: d.Kind, PublicKey: private.PublicKey(), ListenPort: port, Mark: mark, Peers: []host.TunnelPeer{
		{PublicKey: a, PresharedKey: psk, Endpoint: netip.MustParseAddrPort("192.0.2.1:51820"), Keepalive: keep, AllowedIPs: ips},
		{PublicKey: b, AllowedIPs: others},
	}}
	same := func(step string) {
		t.Helper()
		got := device(t, s, name)
		byKey := func(x, y host.TunnelPeer) int { return strings.Compare(string(x.PublicKey[:]), string(y.PublicKey[:])) }
		for _, d := range []*host.TunnelDevice{&got, &want} {
			slices.SortFunc(d.Peers, byKey)
			for i := range d.Peers {
				d.Peers[i].Rx, d.Peers[i].Tx = 0, 0
				slices.SortFunc(d.Peers[i].AllowedIPs, func(x, y netip.Prefix) int { return x.Addr().Compare(y.Addr()) })
			}
		}
		prefixes := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
		endpoints := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
		if diff := cmp.Diff(want, got, prefixes, endpoints); diff != "" {
			t.Fatalf("%s: %s", step, diff)
		}
	}
	same("after a change of everything")

	// A change of one peer affects only the given fields.
	change(host.TunnelChange{Peers: []host.TunnelPeerChange{{PublicKey: a, Keepalive: &none, PresharedKey: &host.TunnelKey{}}}})
	at := slices.IndexFunc(want.Peers, func(p host.TunnelPeer) bool { return p.PublicKey == a })
	want.Peers[at].Keepalive, want.Peers[at].PresharedKey = 0, host.TunnelKey{}
	same("after a change of one peer")
	change(host.TunnelChange{Peers: []host.TunnelPeerChange{{PublicKey: b, Remove: true}}})
	want.Peers = slices.DeleteFunc(want.Peers, func(p host.TunnelPeer) bool { return p.PublicKey == b })
	same("after the removal of a peer")

	links, err := s.Links(t.Context())
	if err != nil || !slices.ContainsFunc(links, func(l host.Link) bool { return l.Name == name && l.Alias == host.OwnTunnel+"x" }) {
		t.Fatalf("%+v, %v", links, err)
	}
	if err := s.RemoveLink(t.Context(), name); err == nil {
		t.Error("RemoveLink removed a tunnel")
	}
	for range 2 {
		if err := s.RemoveTunnel(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ChangeTunnel(t.Context(), name, host.TunnelChange{ListenPort: &port}); err == nil {
		t.Error("a removed tunnel was changed")
	}
	// The name can be used again at once.
	if err := s.CreateTunnel(t.Context(), name, host.OwnTunnel+"x"); err != nil {
		t.Fatal(err)
	}
}

// A program that was killed leaves its socket behind. It affects no other tunnel and no new one with the name.
func TestKilledProgram(t *testing.T) {
	s, name, other := ownKernel(t), tunnelName(t), tunnelName(t)
	for _, n := range []string{name, other} {
		if err := s.CreateTunnel(t.Context(), n, host.OwnTunnel+"x"); err != nil {
			t.Fatal(err)
		}
	}
	if device(t, s, name).Kind == "kernel" {
		t.Fatal("this kernel has WireGuard: the test is about wireguard-go")
	}
	pids, err := exec.Command("pgrep", "-f", "^/usr/bin/wireguard-go "+name+"$").Output()
	if err != nil || len(strings.Fields(string(pids))) != 1 {
		t.Fatalf("pids %q: %v", pids, err)
	}
	if err := exec.Command("kill", "-9", strings.TrimSpace(string(pids))).Run(); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the link goes", func() bool { _, err := netlink.LinkByName(name); return err != nil })
	if !hasSocket(name) {
		t.Fatal("the socket is gone: this test needs one that is left behind")
	}
	device(t, s, other)
	port := 1
	if err := s.ChangeTunnel(t.Context(), name, host.TunnelChange{ListenPort: &port}); err == nil {
		t.Error("a tunnel without a program was changed")
	}
	if err := s.CreateTunnel(t.Context(), name, host.OwnTunnel+"x"); err != nil {
		t.Fatal(err)
	}
	device(t, s, name)
}

func TestForeignTunnelsStay(t *testing.T) {
	s, name := ownKernel(t), tunnelName(t)
	if err := s.CreateTunnel(t.Context(), name, "mine"); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveTunnel(t.Context(), name); err == nil {
		t.Fatal("removed")
	}
	if err := s.CreateTunnel(t.Context(), name, host.OwnTunnel+"x"); err == nil {
		t.Fatal("made twice")
	}
	if err := s.CreateTunnel(t.Context(), "../x", host.OwnTunnel+"x"); err == nil {
		t.Fatal("made with an invalid name")
	}
}

func TestRoutingRules(t *testing.T) {
	s := ownKernel(t)
	rules := []host.Rule{
		{Family: "inet", Priority: 32700, From: netip.MustParsePrefix("192.0.2.1/32"), Table: 254},
		{Family: "inet", Priority: 32710, Table: 254, Specific: true},
		{Family: "inet", Priority: 32720, NotMark: 51251, Table: 51251},
		{Family: "inet6", Priority: 32710, Table: 254, Specific: true},
		{Family: "inet6", Priority: 32720, NotMark: 51251, Table: 51251},
	}
	for range 2 {
		for _, r := range rules {
			if err := s.AddRule(t.Context(), r); err != nil {
				t.Fatal(r, err)
			}
		}
	}
	foreign := netlink.NewRule()
	foreign.Priority, foreign.Table, foreign.Family = 32710, 254, netlink.FAMILY_V4
	if err := netlink.RuleAdd(foreign); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = netlink.RuleDel(foreign) }()
	got, err := s.Rules(t.Context())
	if err != nil || !slices.Equal(got, rules) {
		t.Fatalf("%+v instead of %+v, %v", got, rules, err)
	}
	for range 2 {
		for _, r := range rules {
			if err := s.RemoveRule(t.Context(), r); err != nil {
				t.Fatal(r, err)
			}
		}
	}
	if got, err := s.Rules(t.Context()); err != nil || len(got) != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	all, err := netlink.RuleList(netlink.FAMILY_V4)
	if err != nil || !slices.ContainsFunc(all, func(r netlink.Rule) bool { return r.Priority == 32710 }) {
		t.Fatalf("another program's rule is gone: %v, %v", all, err)
	}
}

func TestAddressesAndRoutesCarryTheirOwner(t *testing.T) {
	s, name := ownKernel(t), tunnelName(t)
	if err := s.CreateTunnel(t.Context(), name, host.OwnTunnel+"x"); err != nil {
		t.Fatal(err)
	}
	up := true
	if err := s.ChangeLink(t.Context(), name, host.LinkChange{Up: &up}); err != nil {
		t.Fatal(err)
	}
	address := netip.MustParsePrefix("10.8.0.1/24")
	if err := s.SetAddress(t.Context(), name, host.NewAddr{Prefix: address, Protocol: host.TunnelProtocol}); err != nil {
		t.Fatal(err)
	}
	route := host.NewRoute{Destination: netip.MustParsePrefix("10.99.0.0/16"), Dev: name, Table: 254, Protocol: host.TunnelProtocol}
	if err := s.AddRoute(t.Context(), route); err != nil {
		t.Fatal(err)
	}
	links, err := s.Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := links[slices.IndexFunc(links, func(l host.Link) bool { return l.Name == name })]
	if !slices.ContainsFunc(l.Addrs, func(a host.LinkAddr) bool { return a.Prefix() == address && a.Protocol == host.TunnelProtocol }) {
		t.Fatalf("%+v", l.Addrs)
	}
	find := func() bool {
		routes, err := s.Routes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(routes, func(r host.Route) bool {
			return r.Destination == route.Destination && r.Dev == name && r.Protocol == host.TunnelProtocol && r.ProtocolName == "gateway-tunnel"
		})
	}
	if !find() {
		t.Fatal("no such route")
	}
	other := route
	other.Protocol = 0
	if err := s.RemoveRoute(t.Context(), other); err != nil || !find() {
		t.Fatalf("it was removed as a route of another owner: %v", err)
	}
	if err := s.RemoveRoute(t.Context(), route); err != nil || find() {
		t.Fatalf("it stays: %v", err)
	}
}

func TestTunnelFilesAreConfined(t *testing.T) {
	s := ownKernel(t)
	if list, err := s.TunnelFiles(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	dir := s.Tunnels.home.Path(toolFiles)
	outside := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "folder.conf"), 0o755), os.WriteFile(outside, []byte("secret"), 0o600),
		os.WriteFile(filepath.Join(dir, "wg0.conf"), []byte("zero"), 0o600),
		os.WriteFile(filepath.Join(dir, "wg0.conf.bak"), []byte("old"), 0o600),
		os.WriteFile(filepath.Join(dir, "much-too-long-a-name.conf"), nil, 0o600), os.WriteFile(filepath.Join(dir, ".conf"), nil, 0o600),
		os.WriteFile(filepath.Join(dir, "big.conf"), make([]byte, fileSize+1), 0o600),
		os.Symlink(outside, filepath.Join(dir, "out.conf")), os.Symlink("wg0.conf", filepath.Join(dir, "in.conf")),
		exec.Command("mkfifo", filepath.Join(dir, "pipe.conf")).Run()); err != nil {
		t.Fatal(err)
	}
	list, err := s.TunnelFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range list {
		got[f.Name] = string(f.Content)
		if f.Problem != "" {
			got[f.Name] = "refused"
		}
	}
	want := map[string]string{"wg0": "zero", "in": "zero", "out": "refused", "big": "refused", "pipe": "refused", "folder": "refused"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRootFolderRefusesToTouchTunnels(t *testing.T) {
	s, ctx := at(home.Home{Root: t.TempDir(), Foreign: true}), t.Context()
	_, run := s.Run(ctx, wireguard.Go, host.Input{Args: []string{"x"}})
	for name, err := range map[string]error{
		"create": s.CreateTunnel(ctx, "x", "y"), "change": s.ChangeTunnel(ctx, "x", host.TunnelChange{}), "remove": s.RemoveTunnel(ctx, "x"),
		"run": run,
	} {
		if !errors.Is(err, host.ErrNotInstalled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
