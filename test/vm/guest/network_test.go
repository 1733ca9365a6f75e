//go:build vm

package guest

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/vishvananda/netlink"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/network"
)

func system(t *testing.T) *machine.Machine {
	t.Helper()
	s, err := newSystem()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// router is a system with a packet filter, without which it would not forward.
type router struct{ *machine.Machine }

func (router) FilterState(context.Context) (host.FilterState, error) {
	return host.FilterState{Present: true}, nil
}

func newSystem() (*machine.Machine, error) {
	return machine.New(machine.Options{Units: units.None{Reason: "a test"}})
}

// apply brings the kernel to the configuration, and checks that nothing is left to do after that.
func apply(t *testing.T, s *machine.Machine, c network.Config) {
	t.Helper()
	if err := network.Converge(t.Context(), router{s}, c); err != nil {
		t.Fatal(err)
	}
	live, err := network.ReadLive(t.Context(), router{s})
	if err != nil {
		t.Fatal(err)
	}
	if plan := network.MakePlan(live, c); len(plan.Steps) > 0 || len(plan.Problems) > 0 {
		t.Fatalf("not done: %v %v", plan.Steps, plan.Problems)
	}
}

func find(t *testing.T, s *machine.Machine, name string) *host.Link {
	t.Helper()
	links, err := s.Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l.Name == name {
			return &l
		}
	}
	return nil
}

func bound(l *host.Link, address string) bool {
	for _, a := range l.Addrs {
		if a.Prefix() == netip.MustParsePrefix(address) && a.Protocol == host.RouteProtocol {
			return true
		}
	}
	return false
}

func ethernet(name string) network.WantedLink {
	return network.WantedLink{ID: uuid.New(), Name: name, Type: "ethernet", Role: "lan"}
}

func addresses(list ...string) (wanted []network.WantedAddress) {
	for _, a := range list {
		wanted = append(wanted, network.WantedAddress{Address: netip.MustParsePrefix(a)})
	}
	return wanted
}

// NE-02: a vlan appears and disappears with its declaration, also one on top of another.
func TestNetworkVLAN(t *testing.T) {
	s := system(t)
	add(t, &netlink.Dummy{LinkAttrs: named("net0")})
	outer := network.WantedLink{ID: uuid.New(), Name: "net0.10", Type: "vlan", Role: "lan", Parent: "net0", VLANID: 10, MTU: 1400, Addresses: addresses("10.10.0.1/24", "fd00:10::1/64")}
	inner := network.WantedLink{ID: uuid.New(), Name: "a-inner", Type: "vlan", Role: "lan", Parent: "net0.10", VLANID: 20}
	all := network.Config{Links: []network.WantedLink{inner, ethernet("net0"), outer}}
	apply(t, s, all)
	l := find(t, s, "net0.10")
	if l == nil || l.Kind != "vlan" || l.VLANID != 10 || l.Parent != "net0" || l.MTU != 1400 || !l.Up() || l.Alias != host.OwnAlias+outer.ID.String() || !bound(l, "10.10.0.1/24") || !bound(l, "fd00:10::1/64") {
		t.Fatalf("%+v", l)
	}
	if in := find(t, s, "a-inner"); in == nil || in.Parent != "net0.10" || in.VLANID != 20 {
		t.Fatalf("%+v", in)
	}
	// Another number requires a new interface, and the interfaces on top of it are created again, too.
	outer.VLANID = 11
	apply(t, s, network.Config{Links: []network.WantedLink{inner, ethernet("net0"), outer}})
	if l, in := find(t, s, "net0.10"), find(t, s, "a-inner"); l == nil || l.VLANID != 11 || !bound(l, "10.10.0.1/24") || in == nil {
		t.Fatalf("%+v %+v", l, in)
	}
	apply(t, s, network.Config{Links: []network.WantedLink{ethernet("net0")}})
	if find(t, s, "net0.10") != nil || find(t, s, "a-inner") != nil || find(t, s, "net0") == nil {
		t.Fatal("a vlan stays, or its parent went with it")
	}
}

// A bond takes its members down, releases them, and is recreated for another mode.
func TestNetworkBond(t *testing.T) {
	s := system(t)
	for _, name := range []string{"leg0", "leg1"} {
		leg := add(t, &netlink.Dummy{LinkAttrs: named(name)})
		if err := netlink.LinkSetUp(leg); err != nil {
			t.Fatal(err)
		}
	}
	bond := network.WantedLink{ID: uuid.New(), Name: "bond9", Type: "bond", Role: "lan", BondMode: "active-backup", Members: []string{"leg0", "leg1"}, Addresses: addresses("10.11.0.1/24")}
	vlan := network.WantedLink{ID: uuid.New(), Name: "bond9.5", Type: "vlan", Role: "lan", Parent: "bond9", VLANID: 5, Addresses: addresses("10.11.5.1/24")}
	config := func() network.Config {
		return network.Config{Links: []network.WantedLink{bond, vlan, ethernet("leg0"), ethernet("leg1")}}
	}
	apply(t, s, config())
	if l := find(t, s, "bond9"); l == nil || l.Kind != "bond" || l.BondMode != "active-backup" || !l.Carrier() || !bound(l, "10.11.0.1/24") {
		t.Fatalf("%+v", l)
	}
	for _, name := range []string{"leg0", "leg1"} {
		if l := find(t, s, name); l.Master != "bond9" || !l.Up() {
			t.Fatalf("%+v", l)
		}
	}
	bond.Members = []string{"leg1"}
	apply(t, s, config())
	if find(t, s, "leg0").Master != "" || !find(t, s, "leg0").Up() || find(t, s, "leg1").Master != "bond9" {
		t.Fatal("the member is not free")
	}
	bond.BondMode = "802.3ad"
	apply(t, s, config())
	if l := find(t, s, "bond9"); l.BondMode != "802.3ad" || !bound(l, "10.11.0.1/24") || !bound(find(t, s, "bond9.5"), "10.11.5.1/24") || find(t, s, "leg1").Master != "bond9" {
		t.Fatalf("%+v", l)
	}
	apply(t, s, network.Config{})
	if find(t, s, "bond9") != nil || find(t, s, "bond9.5") != nil || find(t, s, "leg1").Master != "" {
		t.Fatal("the bond stays")
	}
}

// The kernel supports each mode that the API accepts.
func TestNetworkBondModes(t *testing.T) {
	s := system(t)
	for _, mode := range []string{"balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"} {
		apply(t, s, network.Config{Links: []network.WantedLink{{ID: uuid.New(), Name: "bondm", Type: "bond", Role: "lan", BondMode: mode}}})
		if l := find(t, s, "bondm"); l == nil || l.BondMode != mode {
			t.Errorf("%s: %+v", mode, l)
		}
	}
	apply(t, s, network.Config{})
}

// Objects of other programs on a kernel with all devices are not changed, and conflicts are reported.
func TestNetworkLeavesOthersAlone(t *testing.T) {
	s := system(t)
	parent := add(t, &netlink.Dummy{LinkAttrs: named("net1")})
	a := named("hand.7")
	a.ParentIndex = parent.Attrs().Index
	add(t, &netlink.Vlan{LinkAttrs: a, VlanId: 7, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q})
	add(t, netlink.NewLinkBond(named("handbond")))
	apply(t, s, network.Config{})
	err := network.Converge(t.Context(), router{s}, network.Config{Links: []network.WantedLink{
		{ID: uuid.New(), Name: "ours.7", Type: "vlan", Role: "lan", Parent: "net1", VLANID: 7},
		{ID: uuid.New(), Name: "handbond", Type: "bridge", Role: "lan"},
		{ID: uuid.New(), Name: "ours.8", Type: "vlan", Role: "lan", Parent: "net1", VLANID: 8},
	}})
	if err == nil || !strings.Contains(err.Error(), "could not create interface ours.7") || !strings.Contains(err.Error(), "handbond should be a bridge") {
		t.Fatalf("%v", err)
	}
	if find(t, s, "ours.8") == nil || find(t, s, "hand.7") == nil || find(t, s, "handbond").Kind != "bond" {
		t.Fatal("the rest was stopped, or something of others touched")
	}
	apply(t, s, network.Config{})
	if find(t, s, "hand.7") == nil || find(t, s, "handbond") == nil || find(t, s, "ours.8") != nil {
		t.Fatal("something of others is gone, or something of ours stays")
	}
}
