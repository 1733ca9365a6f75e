package network

import (
	"net/netip"
	"testing"

	"edge.internal/gateway/internal/kit/host"
)

func TestForecast(t *testing.T) {
	const ours, kernel = host.RouteProtocol, 2
	live := Live{
		Links: []host.Link{
			up("wan0", "device", addr("198.51.100.1/24", ours), addr("198.51.100.77/24", ours)),
			up("lan0", "device", addr("10.10.0.1/24", ours)),
			up("lan1", "device", addr("10.20.0.1/24", ours)),
			up("vlan7", "vlan", on("lan0", 7), addr("10.7.0.1/24", ours), aliased(alias(7))),
		},
		Routes: []host.Route{
			route("198.51.100.0/24", "", "wan0", 0, kernel), route("10.10.0.0/24", "", "lan0", 0, kernel), route("10.20.0.0/24", "", "lan1", 0, kernel), route("10.7.0.0/24", "", "vlan7", 0, kernel),
			route("0.0.0.0/0", "198.51.100.2", "wan0", 0, 4), route("172.16.0.0/16", "10.10.0.9", "lan0", 0, ours),
		},
		Tables: map[string]uint32{"main": 254, "isp": 100}, Forwarding: routers, Filtered: true,
	}
	wan := WantedLink{ID: id(1), Name: "wan0", Type: ethernet, Role: "wan", Addresses: want("198.51.100.1/24", "198.51.100.77/24")}
	lan := WantedLink{ID: id(2), Name: "lan0", Type: ethernet, Role: "lan", Addresses: want("10.10.0.1/24")}
	other := WantedLink{ID: id(3), Name: "lan1", Type: ethernet, Role: "lan", Addresses: want("10.20.0.1/24")}
	tagged := WantedLink{ID: id(7), Name: "vlan7", Type: vlan, Role: "lan", Parent: "lan0", VLANID: 7, Addresses: want("10.7.0.1/24")}
	far := wantRoute("172.16.0.0/16", "10.10.0.9", "lan0", 0, "main")
	by := func(dev string) host.Way { return host.Way{Interface: dev} }
	through := func(dev, router string) host.Way {
		return host.Way{Interface: dev, Via: netip.MustParseAddr(router)}
	}
	local, gone := host.Way{Local: true}, host.Way{Unreachable: "gone"}
	for _, x := range []struct {
		name   string
		config Config
		same   bool // nothing moves
		fails  bool // nobody can tell
		to     string
		is, so host.Way
	}{
		{name: "nothing changes", config: Config{Links: []WantedLink{wan, lan, other, tagged}, Routes: []WantedRoute{far}}, same: true},
		{name: "a second address goes", config: Config{Links: []WantedLink{{ID: id(1), Name: "wan0", Type: ethernet, Addresses: want("198.51.100.1/24")}, lan, other, tagged}, Routes: []WantedRoute{far}},
			to: "198.51.100.77", is: local, so: gone},
		{name: "and its network stays", config: Config{Links: []WantedLink{{ID: id(1), Name: "wan0", Type: ethernet, Addresses: want("198.51.100.1/24")}, lan, other, tagged}, Routes: []WantedRoute{far}},
			to: "198.51.100.9", is: by("wan0"), so: by("wan0")},
		{name: "the last address takes its network along, which the default route has then", config: Config{Links: []WantedLink{wan, {ID: id(2), Name: "lan0", Type: ethernet}, other, tagged}},
			to: "10.10.0.5", is: by("lan0"), so: through("wan0", "198.51.100.2")},
		{name: "and all other routes of the link", config: Config{Links: []WantedLink{{ID: id(1), Name: "wan0", Type: ethernet}, lan, other, tagged}, Routes: []WantedRoute{far}},
			to: "203.0.113.1", is: by("wan0"), so: gone},
		{name: "a route goes", config: Config{Links: []WantedLink{wan, lan, other, tagged}}, to: "172.16.3.4", is: through("lan0", "10.10.0.9"), so: through("wan0", "198.51.100.2")},
		{name: "a route moves", config: Config{Links: []WantedLink{wan, lan, other, tagged}, Routes: []WantedRoute{wantRoute("172.16.0.0/16", "10.20.0.9", "lan1", 0, "main")}},
			to: "172.16.3.4", is: through("lan0", "10.10.0.9"), so: through("lan1", "10.20.0.9")},
		{name: "a route gets another router", config: Config{Links: []WantedLink{wan, lan, other, tagged}, Routes: []WantedRoute{wantRoute("172.16.0.0/16", "10.10.0.8", "lan0", 0, "main")}},
			to: "172.16.3.4", is: through("lan0", "10.10.0.9"), so: through("lan0", "10.10.0.8")},
		{name: "who was on the link is behind a router", config: Config{Links: []WantedLink{wan, lan, other, tagged}, Routes: []WantedRoute{far, wantRoute("10.10.0.5/32", "10.10.0.9", "lan0", 0, "main")}},
			to: "10.10.0.5", is: by("lan0"), so: through("lan0", "10.10.0.9")},
		{name: "a smaller network comes", config: Config{Links: []WantedLink{wan, lan, other, tagged}, Routes: []WantedRoute{far, wantRoute("172.16.3.0/24", "10.20.0.9", "", 0, "main")}},
			to: "172.16.3.4", is: through("lan0", "10.10.0.9"), so: through("lan1", "10.20.0.9")},
		{name: "others are left alone", config: Config{Links: []WantedLink{wan, lan, other, tagged}}, to: "10.20.0.7", is: by("lan1"), so: by("lan1")},
		{name: "a new address", config: Config{Links: []WantedLink{wan, {ID: id(2), Name: "lan0", Type: ethernet, Addresses: want("10.10.0.1/24", "10.10.0.2/24")}, other, tagged}, Routes: []WantedRoute{far}},
			to: "10.10.0.2", is: by("lan0"), so: local},
		{name: "a vlan goes", config: Config{Links: []WantedLink{wan, lan, other}, Routes: []WantedRoute{far}}, to: "10.7.0.9", is: by("vlan7"), so: through("wan0", "198.51.100.2")},
		{name: "a rule sends it elsewhere", config: Config{Links: []WantedLink{wan, lan, other, tagged}}, to: "172.16.3.4", is: by("wg0"), fails: true},
		{name: "another table", config: Config{Links: []WantedLink{wan, lan, other, tagged}, Routes: []WantedRoute{far, wantRoute("172.17.0.0/16", "10.20.0.9", "lan1", 0, "isp")}}, fails: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			f, err := foresee(live, MakePlan(live, x.config).Steps)
			if err != nil {
				if !x.fails {
					t.Fatal(err)
				}
				return
			}
			if f.Still() != x.same {
				t.Fatalf("%+v", f)
			}
			if x.same {
				return
			}
			so, err := f.Way(netip.MustParseAddr(x.to), x.is)
			if (err != nil) != x.fails {
				t.Fatal(err)
			}
			if x.so.Unreachable != "" && so.Unreachable != "" {
				so.Unreachable = x.so.Unreachable
			}
			if !x.fails && so != x.so {
				t.Errorf("%+v instead of %+v", so, x.so)
			}
		})
	}
}
