package network

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/value"
)

// routers is a machine that already forwards.
var routers = host.Forwarding{IPv4: true, IPv6: true, KeepsSecondaries: true}

func id(n byte) uuid.UUID { return uuid.UUID{15: n} }

func alias(n byte) string { return host.OwnAlias + id(n).String() }

func up(name, kind string, change ...func(*host.Link)) host.Link {
	l := host.Link{Name: name, Kind: kind, Type: "ether", MTU: 1500, Flags: []string{"UP", "LOWER_UP"}}
	for _, f := range change {
		f(&l)
	}
	return l
}

func down(l *host.Link)                    { l.Flags = nil }
func aliased(text string) func(*host.Link) { return func(l *host.Link) { l.Alias = text } }
func in(master string) func(*host.Link)    { return func(l *host.Link) { l.Master = master } }
func on(parent string, n int) func(*host.Link) {
	return func(l *host.Link) { l.Parent, l.VLANID = parent, n }
}
func moded(mode string) func(*host.Link) { return func(l *host.Link) { l.BondMode = mode } }
func addr(text string, protocol uint8) func(*host.Link) {
	p := netip.MustParsePrefix(text)
	return func(l *host.Link) {
		l.Addrs = append(l.Addrs, host.LinkAddr{Local: p.Addr().String(), PrefixLen: p.Bits(), Scope: "global", Protocol: protocol})
	}
}

func want(text ...string) (list []WantedAddress) {
	for _, x := range text {
		list = append(list, WantedAddress{Address: netip.MustParsePrefix(x)})
	}
	return list
}

func route(dst, via, dev string, metric uint32, protocol uint8) host.Route {
	r := host.Route{Destination: netip.MustParsePrefix(dst), Dev: dev, Metric: metric, Table: 254, Protocol: protocol, Type: "unicast"}
	if via != "" {
		r.Gateway = netip.MustParseAddr(via)
	}
	return r
}

func wantRoute(dst, via, dev string, metric uint32, table string) WantedRoute {
	r := WantedRoute{Destination: netip.MustParsePrefix(dst), Dev: dev, Metric: metric, Table: value.Must[Table](table)}
	if via != "" {
		r.Gateway = netip.MustParseAddr(via)
	}
	return r
}

func TestPlan(t *testing.T) {
	tables := map[string]uint32{"main": 254, "local": 255, "isp": 100, "trap": 255}
	eth := WantedLink{ID: id(1), Name: "eth0", Type: ethernet, Role: "lan"}
	for _, x := range []struct {
		name     string
		live     Live
		config   Config
		steps    []string
		problems []string
		// unfiltered means that there is no packet filter.
		unfiltered bool
	}{
		{name: "no packet filter, no forwarding", unfiltered: true, live: Live{Forwarding: host.Forwarding{IPv4: true, IPv6: true, KeepsSecondaries: true}},
			steps: []string{"stop forwarding packets"}, problems: []string{"The gateway does not forward packets, because the firewall is not loaded."}},
		{name: "nothing to stop on a kernel without IPv6", unfiltered: true, live: Live{Forwarding: host.Forwarding{IPv6: true, NoIPv6: true, KeepsSecondaries: true}},
			problems: []string{"The gateway does not forward packets, because the firewall is not loaded."}},
		{name: "nothing declared, nothing touched", live: Live{
			Links:  []host.Link{up("lo", "device"), up("eth0", "device", addr("10.0.0.1/24", 0)), up("br0", "bridge"), up("eth1", "device", in("br0"))},
			Routes: []host.Route{route("0.0.0.0/0", "10.0.0.2", "eth0", 0, 4)},
		}},
		{name: "an alias does not make an ethernet link ours", live: Live{Links: []host.Link{up("eth0", "device", aliased(alias(9))), up("eth1", "veth", aliased(alias(9)))}}},
		{name: "the alias of somebody else is not ours", live: Live{Links: []host.Link{up("br0", "bridge", aliased("gatewayd"))}}},
		{name: "forwarding, and routers are listened to first", live: Live{
			Links:      []host.Link{up("eth0", "device", func(l *host.Link) { l.AcceptRA = 1 }), up("eth1", "device", func(l *host.Link) { l.AcceptRA = 1 }), up("eth2", "device", func(l *host.Link) { l.AcceptRA = 1 }), up("ppp@x", "device", func(l *host.Link) { l.AcceptRA = 1 })},
			Routes:     []host.Route{route("::/0", "fe80::1", "eth1", 1024, 9), route("::/0", "fe80::1", "ppp@x", 1024, 9)},
			Forwarding: host.Forwarding{IPv4: true, KeepsSecondaries: true},
		}, config: Config{Links: []WantedLink{{Name: "eth0", Type: ethernet, Role: "wan"}, {Name: "eth2", Type: ethernet, Role: "lan"}}},
			steps: []string{"accept routers on eth0", "accept routers on eth1", "forward packets"}},
		{name: "an ethernet link is set up, and given the mtu that is stated", live: Live{Links: []host.Link{up("eth0", "device", down)}},
			config: Config{Links: []WantedLink{{Name: "eth0", Type: ethernet, MTU: 9000}}}, steps: []string{"set the MTU of eth0 to 9000", "set up eth0"}},
		{name: "a missing ethernet link does not stop the rest", live: Live{Links: []host.Link{up("eth1", "device")}}, config: Config{
			Links:  []WantedLink{{Name: "eth0", Type: ethernet, Addresses: want("10.0.0.1/24")}, {Name: "eth1", Type: ethernet, Addresses: want("10.0.1.1/24")}, {Name: "eth0.5", Type: vlan, Parent: "eth0", VLANID: 5, Addresses: want("10.0.5.1/24")}},
			Routes: []WantedRoute{wantRoute("10.9.0.0/16", "10.0.0.2", "eth0", 0, "main"), wantRoute("10.8.0.0/16", "10.0.1.2", "eth1", 0, "main")},
		}, steps: []string{"bind 10.0.1.1/24 on eth1", "add the route to 10.8.0.0/16 via 10.0.1.2 by eth1"},
			problems: []string{"Interface eth0 is missing.", "VLAN eth0.5 cannot be created: parent interface eth0 is missing.", "Route to 10.9.0.0/16 via 10.0.0.2 by eth0: interface eth0 is missing."}},
		{name: "a tunnel is looked after elsewhere", live: Live{Links: []host.Link{up("wg1", "wireguard", down)}}, config: Config{Links: []WantedLink{
			{Name: "wg0", Type: wireguard}, {Name: "wg1", Type: wireguard}, {Name: "wg2", Type: wireguard, Addresses: want("10.0.0.1/24")},
		}}, problems: []string{"The tunnel wg2 is missing, so it has no addresses."}},
		{name: "the mtu of a tunnel of the gateway is the tunnel's", live: Live{Links: []host.Link{up("wg0", "tun", aliased(host.OwnTunnel+"x")), up("wg1", "tun", aliased(host.OwnTunnel+"y")), up("wg2", "wireguard")}}, config: Config{Links: []WantedLink{
			{Name: "wg0", Type: wireguard, MTU: 1280}, {Name: "wg1", Type: wireguard, MTU: 1500}, {Name: "wg2", Type: wireguard, MTU: 1280},
		}}, steps: []string{"set the MTU of wg2 to 1280"}, problems: []string{"wg0 is a tunnel of the gateway with an MTU of 1500. Change the MTU there, or remove the 1280 from the interface."}},
		{name: "parents before vlans, whatever their names; bond before its vlan, members at last", live: Live{Links: []host.Link{up("eth0", "device"), up("eth1", "device")}}, config: Config{Links: []WantedLink{
			{ID: id(1), Name: "a.7", Type: vlan, Parent: "b.6", VLANID: 7, MTU: 1400}, {ID: id(2), Name: "b.6", Type: vlan, Parent: "c0", VLANID: 6},
			{ID: id(3), Name: "c0", Type: bond, BondMode: "802.3ad", Members: []string{"eth0", "eth1"}, MTU: 9000},
		}}, steps: []string{
			"create interface c0 (bond)", "create interface b.6 (vlan)", "create interface a.7 (vlan)", "add the member eth0 of c0", "add the member eth1 of c0",
			"set the MTU of c0 to 9000", "set up c0", "set up b.6", "set the MTU of a.7 to 1400", "set up a.7",
		}},
		{name: "removed deepest first, and what is on them goes with them", live: Live{Links: []host.Link{
			up("c0", "bond", aliased(alias(3)), moded("802.3ad")), up("eth0", "device", in("c0")), up("b.6", "vlan", aliased(alias(2)), on("c0", 6), addr("10.0.6.1/24", 250)), up("a.7", "vlan", aliased(alias(1)), on("b.6", 7)),
		}, Routes: []host.Route{route("10.9.0.0/16", "10.0.6.2", "b.6", 0, 250)}}, steps: []string{"remove interface a.7", "remove interface b.6", "remove interface c0"}},
		{name: "made anew when it is another now", live: Live{Links: []host.Link{
			up("eth0", "device"), up("eth1", "device"), up("x", "vlan", aliased(alias(1)), on("eth0", 5), addr("10.0.5.1/24", 250)), up("y", "bond", aliased(alias(2)), moded("balance-rr")), up("eth2", "device", in("y")),
		}}, config: Config{Links: []WantedLink{
			{ID: id(1), Name: "x", Type: vlan, Parent: "eth1", VLANID: 5, Addresses: want("10.0.5.1/24")}, {ID: id(2), Name: "y", Type: bond, BondMode: "active-backup", Members: []string{"eth2"}},
		}}, steps: []string{"remove interface x", "remove interface y", "create interface x (vlan)", "create interface y (bond)", "add the member eth2 of y", "set up x", "set up y", "bind 10.0.5.1/24 on x"}},
		{name: "taken over when it fits, in the way when not", live: Live{Links: []host.Link{
			up("eth0", "device"), up("br0", "bridge"), up("br1", "bridge", aliased("by hand")), up("v", "vlan", on("eth0", 6)), up("br2", "bridge", aliased(alias(9))),
		}}, config: Config{Links: []WantedLink{
			{ID: id(1), Name: "br0", Type: bridge, Members: []string{"eth0"}}, {ID: id(2), Name: "br1", Type: bridge, Members: []string{"eth1"}}, {ID: id(3), Name: "v", Type: vlan, Parent: "eth0", VLANID: 5}, {ID: id(4), Name: "br2", Type: bridge},
		}}, steps: []string{"mark interface br0", "mark interface br2", "add the member eth0 of br0"}, problems: []string{
			"br1 should be a bridge, but the machine has another interface with this name. Remove that, or choose another name.",
			"v should be a vlan, but the machine has another interface with this name. Remove that, or choose another name.",
		}},
		{name: "members come and go", live: Live{Links: []host.Link{
			up("br0", "bridge", aliased(alias(1))), up("eth0", "device", in("br0")), up("eth1", "device", in("br0")), up("eth2", "device", down), up("eth3", "device", in("docker0")), up("docker0", "bridge"),
		}}, config: Config{Links: []WantedLink{{ID: id(1), Name: "br0", Type: bridge, Members: []string{"eth1", "eth2", "away"}}}},
			steps: []string{"free the member eth0 of br0", "add the member eth2 of br0", "set up eth2"}, problems: []string{"away cannot be a member of br0, because it is missing."}},
		{name: "addresses are bound before others are unbound; what is not ours stays", live: Live{Links: []host.Link{
			up("eth0", "device", addr("10.0.0.1/24", 250), addr("10.0.0.9/24", 0), addr("10.0.0.8/24", 0), addr("fe80::1/64", 3)), up("eth1", "device", addr("10.0.1.1/24", 250), addr("10.0.1.2/24", 0)),
		}}, config: Config{Links: []WantedLink{{Name: "eth0", Type: ethernet, Addresses: want("10.0.0.2/24", "10.0.0.9/24")}}},
			steps: []string{"bind 10.0.0.2/24 on eth0", "bind 10.0.0.9/24 on eth0", "unbind 10.0.0.1/24 on eth0", "unbind 10.0.1.1/24 on eth1"}},
		{name: "IPv6 has an address once, whatever its length", live: Live{Links: []host.Link{up("eth0", "device", addr("fd00::1/64", 250), addr("fd00::2/64", 250), addr("fd00::3/64", 0), addr("10.0.0.1/24", 0))}},
			config:   Config{Links: []WantedLink{{Name: "eth0", Type: ethernet, Addresses: want("fd00::1/48", "fd00::3/48", "10.0.0.1/16")}}},
			steps:    []string{"unbind fd00::1/64 on eth0", "bind fd00::1/48 on eth0", "bind 10.0.0.1/16 on eth0", "unbind fd00::2/64 on eth0"},
			problems: []string{"fd00::3 is already on eth0 with prefix length 64, set by another program. Remove it there, or use this prefix length."}},
		{name: "an address that another machine has", live: Live{Links: []host.Link{up("eth0", "device", addr("fd00::1/64", 250), func(l *host.Link) { l.Addrs[0].Duplicate = true })}},
			config:   Config{Links: []WantedLink{{Name: "eth0", Type: ethernet, Addresses: want("fd00::1/64")}}},
			problems: []string{"fd00::1 on eth0 is not used, because another device on the network has it."}},
		{name: "routes: kept, replaced, added, removed; others stay", live: Live{Links: []host.Link{up("eth0", "device")}, Routes: []host.Route{
			route("10.1.0.0/16", "10.0.0.2", "eth0", 0, 250), route("10.2.0.0/16", "10.0.0.2", "eth0", 0, 250), route("10.3.0.0/16", "10.0.0.2", "eth0", 0, 250), route("10.3.0.0/16", "10.0.0.2", "eth0", 5, 4),
			route("fd00:1::/64", "fe80::2", "eth0", 1024, 250),
		}}, config: Config{Links: []WantedLink{eth}, Routes: []WantedRoute{
			wantRoute("10.1.0.0/16", "10.0.0.2", "", 0, "main"), wantRoute("10.2.0.0/16", "10.0.0.3", "eth0", 0, "254"), wantRoute("10.4.0.0/16", "10.0.0.2", "eth0", 0, "isp"), wantRoute("fd00:1::/64", "fe80::2", "eth0", 1024, "main"),
		}}, steps: []string{"replace the route to 10.2.0.0/16 via 10.0.0.3 by eth0", "add the route to 10.4.0.0/16 via 10.0.0.2 by eth0", "remove the route to 10.3.0.0/16 via 10.0.0.2 by eth0"}},
		{name: "a route of another: taken over when it is the same, in the way when not", live: Live{Links: []host.Link{up("eth0", "device")}, Routes: []host.Route{
			route("10.1.0.0/16", "10.0.0.2", "eth0", 0, 4), route("10.2.0.0/16", "10.0.0.2", "eth0", 0, 4), route("10.0.0.0/24", "", "eth0", 0, 2), route("10.5.0.0/16", "10.0.0.2", "eth0", 0, 250), route("10.5.0.0/16", "10.0.0.4", "eth0", 0, 4),
		}}, config: Config{Links: []WantedLink{eth}, Routes: []WantedRoute{
			wantRoute("10.1.0.0/16", "10.0.0.2", "eth0", 0, "main"), wantRoute("10.2.0.0/16", "10.0.0.3", "eth0", 0, "main"), wantRoute("10.0.0.0/24", "", "eth0", 0, "main"), wantRoute("10.5.0.0/16", "10.0.0.2", "eth0", 0, "main"),
		}}, steps: []string{"replace the route to 10.1.0.0/16 via 10.0.0.2 by eth0"}, problems: []string{
			"Route to 10.2.0.0/16 via 10.0.0.3 by eth0: the kernel has another route with the same metric that the gateway did not create. Remove that, or choose another metric.",
			"Route to 10.0.0.0/24 by eth0: the kernel has another route with the same metric that the gateway did not create. Remove that, or choose another metric.",
		}},
		{name: "tables that are not there, and one that is the kernel's in disguise", live: Live{Links: []host.Link{up("eth0", "device")}}, config: Config{Links: []WantedLink{eth}, Routes: []WantedRoute{
			wantRoute("10.1.0.0/16", "", "eth0", 0, "gone"), wantRoute("10.2.0.0/16", "", "eth0", 0, "trap"), wantRoute("10.3.0.0/16", "", "eth0", 0, "isp"), wantRoute("10.3.0.0/16", "10.0.0.1", "eth0", 0, "100"),
		}}, steps: []string{"add the route to 10.3.0.0/16 by eth0"}, problems: []string{
			"Route to 10.1.0.0/16 by eth0: this system has no routing table gone.", "Route to 10.2.0.0/16 by eth0: this system has no routing table trap.",
			"Route to 10.3.0.0/16 via 10.0.0.1 by eth0: another route in table 100 has the same metric.",
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.live.Tables, x.live.Filtered = tables, !x.unfiltered
			if x.live.Forwarding == (host.Forwarding{}) {
				x.live.Forwarding = routers
			}
			plan := MakePlan(x.live, x.config)
			var steps []string
			for _, s := range plan.Steps {
				steps = append(steps, s.String())
			}
			if diff := cmp.Diff(x.steps, steps); diff != "" {
				t.Errorf("steps: %s", diff)
			}
			if diff := cmp.Diff(x.problems, plan.Problems); diff != "" {
				t.Errorf("problems: %s", diff)
			}
		})
	}
}

func TestConfigureLeavesOutWhatTakesNoPart(t *testing.T) {
	name := func(text string) value.IfName {
		if text == "" {
			return value.IfName{}
		}
		return value.Must[value.IfName](text)
	}
	n := 7
	iface := func(i byte, text, typ, parent string, active bool, members ...string) Interface {
		x := Interface{Name: name(text), Type: typ, Role: value.Must[value.Zone]("lan"), Parent: name(parent), Active: active}
		x.ID = id(i)
		if typ == vlan {
			x.VLANID = &n
		}
		for _, m := range members {
			x.Members = append(x.Members, name(m))
		}
		return x
	}
	address := func(i byte, text string, bits int) Address {
		return Address{InterfaceID: id(i), Address: value.Must[value.Addr](text), Prefix: bits}
	}
	static := func(dst, via, dev string, active bool) Route {
		r := Route{Destination: value.Must[Destination](dst), Dev: name(dev), TableName: value.Must[Table]("main"), Active: active}
		if via != "" {
			r.Gateway = value.Must[value.Addr](via)
		}
		return r
	}
	interfaces := []Interface{
		iface(1, "eth0", ethernet, "", false), iface(2, "eth0.7", vlan, "eth0", true), iface(3, "br0", bridge, "", false, "eth1"), iface(4, "br0.7", vlan, "br0", true),
		iface(5, "br0.7.7", vlan, "br0.7", true), iface(6, "br1", bridge, "", true, "eth0", "eth2"), iface(7, "loop", vlan, "eth9", true),
	}
	addresses := []Address{address(1, "10.1.0.1", 24), address(2, "10.2.0.1", 24), address(4, "10.4.0.1", 24), address(6, "10.0.0.1", 8), address(6, "fd00::1", 64)}
	routes := []Route{
		static("10.90.0.0/16", "10.1.0.2", "", true),  // by an inactive link, the longest match
		static("10.91.0.0/16", "10.2.0.2", "", true),  // by eth0.7
		static("10.92.0.0/16", "10.77.0.2", "", true), // by br1
		static("10.93.0.0/16", "", "br0.7", true),     // by a vlan whose bridge is gone
		static("10.94.0.0/16", "192.0.2.1", "", true), // the kernel may know
		static("10.95.0.0/16", "10.2.0.2", "", false),
		static("fd00:9::/64", "fd00::2", "", true), // IPv6 has no metric 0
	}
	c := configure(interfaces, addresses, routes)
	var links []string
	for _, l := range c.Links {
		text := l.Name + " [" + strings.Join(l.Members, " ") + "]"
		for _, a := range l.Addresses {
			text += " " + a.Address.String()
		}
		links = append(links, text)
	}
	if diff := cmp.Diff([]string{"eth0.7 [] 10.2.0.1/24", "br1 [eth2] 10.0.0.1/8 fd00::1/64", "loop []"}, links); diff != "" {
		t.Error(diff)
	}
	var ways []string
	for _, r := range c.Routes {
		ways = append(ways, r.Destination.String()+" by "+r.Dev)
	}
	if diff := cmp.Diff([]string{"10.91.0.0/16 by eth0.7", "10.92.0.0/16 by br1", "10.94.0.0/16 by ", "fd00:9::/64 by br1"}, ways); diff != "" {
		t.Error(diff)
	}
	if c.Routes[3].Metric != 1024 || c.Routes[0].Metric != 0 {
		t.Error("the metric is not what the kernel makes of it")
	}
	files, err := Render(c)
	if err != nil || len(files) != 2 || !strings.HasSuffix(string(files[0].Content), "\n250\tgateway\n251\tgateway-tunnel\n") {
		t.Fatalf("%v %s", err, files[0].Content)
	}
	var read Config
	if err := json.Unmarshal(files[1].Content, &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, read, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b Table) bool { return a == b })); diff != "" {
		t.Errorf("what is written down is not what is wanted: %s", diff)
	}
}
