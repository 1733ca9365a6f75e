package network

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

func TestNamesAreReadAsInIproute2(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	content := "# a comment\n255\tlocal\n 100 isp # behind it\n0x65 hex\nnonsense\n7\n4294967296 toobig\n-1 negative\n200 two words\n"
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	got := map[string]uint32{"main": 254}
	readNames(file, got)
	readNames(file+"-missing", got)
	if diff := cmp.Diff(map[string]uint32{"main": 254, "local": 255, "isp": 100, "hex": 101, "two": 200}, got); diff != "" {
		t.Error(diff)
	}
}

// Below a root folder every call that changes the network is refused at once.
func TestRootFolderRefusesToTouchTheNetwork(t *testing.T) {
	s, ctx := New(home.Home{Root: t.TempDir(), Foreign: true}), t.Context()
	p := netip.MustParsePrefix("192.0.2.1/24")
	_, kinds := s.LinkKinds(ctx)
	for name, err := range map[string]error{
		"kinds":          kinds,
		"create":         s.CreateLink(ctx, host.NewLink{Name: "x", Kind: "bridge"}),
		"change":         s.ChangeLink(ctx, "lo", host.LinkChange{}),
		"remove":         s.RemoveLink(ctx, "x"),
		"set address":    s.SetAddress(ctx, "lo", host.NewAddr{Prefix: p}),
		"remove address": s.RemoveAddress(ctx, "lo", p),
		"add route":      s.AddRoute(ctx, host.NewRoute{Destination: p, Dev: "lo"}),
		"replace route":  s.ReplaceRoute(ctx, host.NewRoute{Destination: p, Dev: "lo"}),
		"remove route":   s.RemoveRoute(ctx, host.NewRoute{Destination: p, Dev: "lo"}),
		"forward":        s.Forward(ctx, true),
		"accept routers": s.AcceptRouters(ctx, "lo"),
		"add rule":       s.AddRule(ctx, host.Rule{Family: "inet", Priority: 1, Table: 254}),
		"remove rule":    s.RemoveRule(ctx, host.Rule{Family: "inet", Priority: 1, Table: 254}),
	} {
		if !errors.Is(err, host.ErrNotInstalled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Routes(ctx); err != nil {
		t.Error(err)
	}
}

// LinkKinds creates no interface.
func TestLinkKinds(t *testing.T) {
	s, ctx := New(home.Home{}), t.Context()
	kinds, err := s.LinkKinds(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LinkByName("gateway-probe"); err == nil {
		t.Error("a link was created")
	}
	for _, kind := range []string{"bridge", "bond"} {
		err := s.CreateLink(ctx, host.NewLink{Name: "kind-" + kind, Kind: kind, BondMode: "active-backup", Alias: host.OwnAlias + "kind"})
		if has := slices.Contains(kinds, kind); has != (err == nil) {
			t.Errorf("%s: %v, though the kinds are %v", kind, err, kinds)
		}
	}
}

// The value of a kernel setting from before the first change is recorded, and kept by later processes.
func TestOriginalSettingsAreRecorded(t *testing.T) {
	h := home.Home{Root: t.TempDir()}
	if n, ok := setting(forward4); !ok || n != 0 {
		t.Fatalf("the namespace forwards already: %d, %v", n, ok)
	}
	for _, on := range []bool{true, false, true} {
		if err := New(h).Forward(t.Context(), on); err != nil {
			t.Fatal(err)
		}
	}
	if err := New(h).AcceptRouters(t.Context(), "lo"); err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile(h.Path(originalSettings))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"net/ipv4/ip_forward 0\n", "net/ipv6/conf/all/forwarding 0\n", "net/ipv6/conf/lo/accept_ra 1\n"} {
		if strings.Count(string(recorded), want) != 1 {
			t.Errorf("%q is not once in\n%s", want, recorded)
		}
	}
	if n, _ := setting(forward4); n != 1 {
		t.Error("it does not forward")
	}
	if err := New(h).Forward(t.Context(), false); err != nil {
		t.Fatal(err)
	}
}

// TestLinks compares with the output of iproute2.
func TestLinks(t *testing.T) {
	out, err := exec.Command("ip", "-j", "address").Output()
	if err != nil {
		t.Fatalf("ip: %v", err)
	}
	var want []struct {
		Ifindex  int
		Ifname   string
		Flags    []string
		MTU      int
		LinkType string `json:"link_type"`
		Address  string
		AddrInfo []struct {
			Family, Local, Scope string
			PrefixLen            int
		} `json:"addr_info"`
	}
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	links, err := New(home.Home{}).Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(links) != len(want) {
		t.Fatalf("%d links, ip says %d", len(links), len(want))
	}
	for i, w := range want {
		l := links[i]
		l.RxBytes, l.TxBytes, l.RxPackets, l.TxPackets, l.RxDrop, l.TxDrop = 0, 0, 0, 0, 0, 0
		l.Kind, l.Alias, l.Master, l.Parent, l.VLANID, l.BondMode, l.AcceptRA = "", "", "", "", 0, "", 0 // internal/network tests these
		for n := range l.Addrs {
			l.Addrs[n].Protocol, l.Addrs[n].Dynamic, l.Addrs[n].Duplicate = 0, false, false
		}
		expected := host.Link{Index: w.Ifindex, Name: w.Ifname, Flags: w.Flags, MTU: w.MTU, Type: w.LinkType, Address: w.Address}
		for _, a := range w.AddrInfo {
			expected.Addrs = append(expected.Addrs, host.LinkAddr{Family: a.Family, Local: a.Local, PrefixLen: a.PrefixLen, Scope: a.Scope})
		}
		if diff := cmp.Diff(expected, l); diff != "" {
			t.Errorf("%s: %s", w.Ifname, diff)
		}
	}
}
