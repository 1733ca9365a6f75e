package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/kittest"
)

// installed returns a machine as an installer leaves it: an uplink with a lease, and other ports.
func installed(t *testing.T, inside ...host.Link) (house, string) {
	t.Helper()
	b := kittest.New(t)
	port := host.Link{Kind: "device", Type: "ether", MTU: 1500, Flags: []string{"UP", "LOWER_UP"}}
	links := []host.Link{{Index: 1, Name: "lo", Kind: "device", Type: "loopback", Flags: []string{"UP"}}}
	out := port
	out.Index, out.Name, out.Addrs = 2, "eth0", []host.LinkAddr{{Local: "192.168.1.77", PrefixLen: 24, Scope: "global", Dynamic: true}}
	links = append(links, out)
	for i, l := range inside {
		flags := l.Flags
		name, addrs := l.Name, l.Addrs
		l = port
		l.Index, l.Name, l.Addrs = 3+i, name, addrs
		if flags != nil {
			l.Flags = flags
		}
		links = append(links, l)
	}
	b.Machine.SetLinks(links...)
	b.Machine.SetFilter(host.FilterState{Present: true}, "")
	b.Machine.SetRoutes(host.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("192.168.1.1"), Dev: "eth0", Type: "unicast", Protocol: 16, TableName: "main"})
	h := build(t, b)
	return h, h.setUp(t)
}

// made lists the changes of a setup, in order: the kind, and the relevant fields of each row.
func made(t *testing.T, a *kittest.Answer) (list []string) {
	t.Helper()
	var out struct {
		Operations []struct{ Kind, Verb string }
		Changes    []struct {
			Kind, Verb, Name string
			After            map[string]any
		}
	}
	a.Want(t, 200).Into(t, &out)
	if len(out.Operations) != len(out.Changes) {
		t.Errorf("%d operations and %d changes", len(out.Operations), len(out.Changes))
	}
	telling := map[string][]string{
		"network.interface": {"role"}, "dns.settings": {"listen_addresses", "upstream_forwards"}, "ntp.settings": {"serve_clients", "listen_addresses", "allow_acl"}, "ntp.pool": {"kind", "iburst"},
		"dhcp.subnet": {"interface", "range_start", "range_end", "gateway", "dns_servers", "ntp_servers"}, "dhcp.settings": {"enabled"},
		"proxy.server": {"address", "port"}, "tunnel.interface": {"address_cidr", "client_routes", "endpoint_host"}, "tunnel.peer": {"allowed_ips", "has_private_key"},
		"firewall.rule": {"src_zone", "dst_zone", "action"}, "firewall.nat-rule": {"kind", "in_zone", "out_zone"}, "network.route": {"metric"},
	}
	for _, c := range out.Changes {
		line := c.Kind + " " + c.Name
		if c.Verb != "create" {
			line = c.Verb + " " + c.Kind
		}
		for _, field := range telling[c.Kind] {
			text, err := json.Marshal(c.After[field])
			if err != nil {
				t.Fatal(err)
			}
			line += " " + strings.NewReplacer(`"`, "").Replace(string(text))
		}
		list = append(list, line)
	}
	return list
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("made:\n%s\ninstead of:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// One request without any parameters sets up a working network on a port that has none, and touches neither the lease nor its
// network.
func TestFirstSetupOfAMachine(t *testing.T) {
	h, admin := installed(t, host.Link{Name: "eth1", Flags: []string{"UP"}}, host.Link{Name: "eth2"})
	want := []string{
		"network.interface eth0 wan", "network.interface eth1 lan", "network.interface eth2 lan", "network.ip-address 192.168.2.1/24",
		"update dns.settings [127.0.0.1,::1,192.168.2.1] [9.9.9.9,1.1.1.1]", "update ntp.settings true [192.168.2.1] [192.168.2.0/24]",
		"dhcp.subnet 192.168.2.0/24 eth2 192.168.2.128 192.168.2.254 192.168.2.1 [192.168.2.1] [192.168.2.1]", "update dhcp.settings true",
		"firewall.rule lan to wan lan wan accept", "firewall.nat-rule masquerade to wan masquerade any wan",
	}
	expect(t, made(t, h.call(t, admin, http.MethodPost, "/network/setup", `{"preview":true}`)), want...)
	var rows []any
	if h.call(t, admin, http.MethodGet, "/network-interfaces", nil).Want(t, 200).Into(t, &rows); len(rows) > 0 {
		t.Fatalf("a preview has stored %v", rows)
	}
	a := h.call(t, admin, http.MethodPost, "/network/setup", `{}`)
	expect(t, made(t, a), want...)
	if a.Header.Get("Gateway-Change-Set") == "" {
		t.Error("it is no change set")
	}
	h.call(t, admin, http.MethodPost, "/network/setup", `{}`).Want(t, 409)
}

// A proposal can be sent back; a static address and its default route are taken over unchanged.
func TestProposalIsWhatIsDone(t *testing.T) {
	h, admin := installed(t, host.Link{Name: "lan0", Addrs: []host.LinkAddr{{Local: "10.10.0.254", PrefixLen: 24, Scope: "global"}, {Local: "fd00::1", PrefixLen: 64, Scope: "global"}}},
		host.Link{Name: "wan1", Addrs: []host.LinkAddr{{Local: "198.51.100.7", PrefixLen: 24, Scope: "global"}}})
	h.Machine.SetRoutes(host.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("198.51.100.1"), Dev: "wan1", Type: "unicast", Protocol: 3, TableName: "main", Metric: 7})
	proposal := h.call(t, admin, http.MethodGet, "/network/setup", nil).Want(t, 200)
	want := []string{
		"network.interface eth0 lan", "network.interface lan0 lan", "network.ip-address 10.10.0.254/24", "network.ip-address fd00::1/64",
		"network.interface wan1 wan", "network.ip-address 198.51.100.7/24", "network.route 0.0.0.0/0 via 198.51.100.1 dev wan1 7",
		"update dns.settings [127.0.0.1,::1,10.10.0.254,fd00::1] [9.9.9.9,1.1.1.1]", "update ntp.settings true [10.10.0.254,fd00::1] [10.10.0.0/24,fd00::/64]",
		"dhcp.subnet 10.10.0.0/24 lan0 10.10.0.1 10.10.0.127 10.10.0.254 [10.10.0.254] [10.10.0.254]", "update dhcp.settings true",
		"firewall.rule lan to wan lan wan accept", "firewall.nat-rule masquerade to wan masquerade any wan",
	}
	expect(t, made(t, h.call(t, admin, http.MethodPost, "/network/setup", string(proposal.Data))), want...)
}

// An additional network gets what it lacks, and no more.
func TestAnotherNetwork(t *testing.T) {
	h, admin := installed(t, host.Link{Name: "eth1"})
	made(t, h.call(t, admin, http.MethodPost, "/network/setup", `{"time_servers":[],"upstream_forwards":["198.51.100.53"],"masquerade":false}`))
	guest := `{"networks":[{"name":"guest20","parent":"eth1","vlan_id":20,"role":"guest","addresses":["10.20.0.1/24"],"dhcp":true,"range_start":"10.20.0.10","range_end":"10.20.0.99","dns":true,"internet":true,"ntp":%t,"lan":%t}],"time_servers":["192.0.2.123"]}`
	expect(t, made(t, h.call(t, admin, http.MethodPost, "/network/setup", fmt.Sprintf(guest, false, true))),
		"firewall.zone guest", "network.interface guest20 guest", "network.ip-address 10.20.0.1/24",
		"update dns.settings [127.0.0.1,::1,192.168.2.1,10.20.0.1] [198.51.100.53]",
		"ntp.pool 192.0.2.123 server true",
		"dhcp.subnet 10.20.0.0/24 guest20 10.20.0.10 10.20.0.99 10.20.0.1 [10.20.0.1] []",
		"firewall.rule guest to wan guest wan accept", "firewall.rule guest to lan guest lan accept", "firewall.rule lan to guest lan guest accept",
		"firewall.nat-rule masquerade to wan masquerade any wan")
	// A port that is added later becomes part of the inside, and has no network of its own until someone asks for one.
	links, err := h.Machine.Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.Machine.SetLinks(append(links, host.Link{Index: 9, Name: "eth3", Kind: "device", Type: "ether", Flags: []string{"UP", "LOWER_UP"}})...)
	expect(t, made(t, h.call(t, admin, http.MethodPost, "/network/setup", `{"preview":true}`)), "network.interface eth3 lan")
	// Existing rows are not created twice: the interface, its address, the source and the rules.
	expect(t, made(t, h.call(t, admin, http.MethodPost, "/network/setup", `{"networks":[{"name":"guest20","role":"guest","addresses":["10.20.0.1/24"],"dns":true,"ntp":true,"internet":true}],"time_servers":["192.0.2.123"]}`)),
		"update ntp.settings true [192.168.2.1,10.20.0.1] [192.168.2.0/24,10.20.0.0/24]")
}

// The first site and the first VPN device come with the same change set. The tunnel's network does not overlap the LAN's.
func TestFirstSiteAndDevice(t *testing.T) {
	h, admin := installed(t, host.Link{Name: "eth1", Addrs: []host.LinkAddr{{Local: "10.8.0.1", PrefixLen: 24, Scope: "global"}}})
	site := `{"site":{"name":"www.example.net","address":"10.8.0.5","port":8080}`
	beyond := []string{
		"proxy.backend www.example.net", "proxy.server server-1 10.8.0.5 8080", "proxy.domain www.example.net",
		"tunnel.interface wg0 10.8.1.1/24 10.8.0.0/24 vpn.example.net", "tunnel.peer Phone 10.8.1.2/32 true",
		"firewall.zone vpn", "network.interface wg0 vpn", "firewall.rule vpn to lan vpn lan accept",
	}
	all := made(t, h.call(t, admin, http.MethodPost, "/network/setup", site+`,"vpn":{"peer":"Phone","endpoint":"vpn.example.net"}}`))
	expect(t, all[len(all)-len(beyond):], beyond...)
	if got := all[0]; got != "network.interface eth0 wan" {
		t.Errorf("the networks are not set up before: %s", got)
	}
	// Another VPN gets another name and network, and uses the existing zone and rule.
	expect(t, made(t, h.call(t, admin, http.MethodPost, "/network/setup", `{"networks":[],"vpn":{"peer":"Laptop"}}`)),
		"tunnel.interface wg1 10.8.2.1/24 10.8.0.0/24 ", "tunnel.peer Laptop 10.8.2.2/32 true", "network.interface wg1 vpn")
	h.call(t, admin, http.MethodPost, "/network/setup", site+"}").Want(t, 409)
}

func TestSetupThatCannotBe(t *testing.T) {
	h, admin := installed(t, host.Link{Name: "eth1"})
	for body, field := range map[string]string{
		`{"networks":[{"role":"lan"}]}`:                                                                "networks.0.name",
		`{"networks":[{"name":"eth1"}]}`:                                                               "networks.0.role",
		`{"networks":[{"name":"eth1","role":"lan","dhcp":true}]}`:                                      "networks.0.addresses",
		`{"networks":[{"name":"eth1","role":"lan","dhcp":true,"addresses":["10.0.0.1/31"]}]}`:          "networks.0.addresses",
		`{"networks":[{"name":"eth1","role":"lan","dns":true}]}`:                                       "networks.0.addresses",
		`{"networks":[{"name":"eth1","role":"wan","dns":true,"addresses":["10.0.0.1/24"]}]}`:           "networks.0.role",
		`{"networks":[{"name":"eth1","role":"lan","addresses":["10.0.0.1"]}]}`:                         "networks",
		`{"networks":[{"name":"eth9","role":"lan","addresses":["10.0.0.1/24"],"vlan_id":4095}]}`:       "vlan_id",
		`{"networks":[{"name":"eth1","role":"lan","addresses":["10.0.0.1/24"],"gateway":"10.0.0.1"}]}`: "gateway",
		`{"site":{"address":"10.0.0.5"}}`:                                                              "site.name",
		`{"site":{"name":"www.example.net"}}`:                                                          "site.address",
		`{"site":{"name":"www.example.net","address":"-"}}`:                                            "site",
		`{"vpn":{}}`: "vpn.peer",
		`{"networks":[],"site":{"name":"gw","address":"10.0.0.5"}}`: "site",
	} {
		a := h.call(t, admin, http.MethodPost, "/network/setup", body).Want(t, 400)
		if a.Error.Fields[field] == "" {
			t.Errorf("%s: no complaint about %s: %v", body, field, a.Error.Fields)
		}
	}
	_, viewer := h.user(t, admin, "viewer@example.net", "viewer")
	h.call(t, viewer, http.MethodPost, "/network/setup", `{}`).Want(t, 403)
}
