package machine

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

var siteTests = []siteTest{
	{"LansReachOneAnother", lansReachOneAnother},
	{"PhonesReachEverybody", phonesReachEverybody},
	{"EverythingThroughTheTunnel", everythingThroughTheTunnel},
}

type siteTest struct {
	name string
	test func(*testing.T, *twoSites)
}

// Two gateways with the internet between them. The main one serves a tunnel; the branch is a client of it, and so are phones
// somewhere in the internet. What one test has set up serves the next.
func TestTunnelSites(t *testing.T) {
	t.Parallel()
	s := upSites(t)
	for _, x := range siteTests {
		if !t.Run(x.name, func(t *testing.T) { x.test(t, s) }) {
			return
		}
	}
}

// The addresses of the branch, and those in the tunnel.
const (
	branchWan4, branchWan6       = "203.0.113.1", "2001:db8:2::1"
	branchLan4, branchLan6       = "10.20.0.2", "fd00:20::2"
	hubTunnel4                   = "10.88.0.1"
	branchTunnel4, branchTunnel6 = "10.88.0.100", "fd00:88::100"

	hubLink, branchLink = "gwhub", "gwbranch"
	sitePort            = 7001
)

type twoSites struct {
	main, branch   *rig
	server, client string // paths of the tunnel interfaces
	phone1         string // address of the first phone in the tunnel
	branchZone     string // path of the interface that puts the branch's tunnel into a zone
}

func upSites(t *testing.T) *twoSites {
	t.Helper()
	up := func(site int) *rig {
		return &rig{Lab: labtest.UpAsAdmin(t, lab.Options{Site: site, Volatile: true}), services: map[string]string{}}
	}
	s := &twoSites{main: up(0), branch: up(1)}
	s.join(t)
	for r, isp := range map[*rig][]string{s.main: {wan4, wan6}, s.branch: {"203.0.113.2", "2001:db8:2::2"}} {
		for _, address := range isp {
			to := "0.0.0.0/0"
			if netip.MustParseAddr(address).Is6() {
				to = "::/0"
			}
			r.row(t, "/routes", fields{"destination": to, "gateway": address})
		}
		r.row(t, "/firewall/zones", fields{"name": "vpn"})
	}
	s.serve(t, s.main, lab.Lan)
	s.serve(t, s.main, lab.Wan)
	s.serve(t, s.branch, lab.Lan)
	return s
}

func (s *twoSites) join(t *testing.T) {
	t.Helper()
	if err := s.main.Join(s.branch.Lab.Lab); err != nil {
		t.Fatal(err)
	}
}

// serve answers on a side until the test ends, with its name and the client's address.
func (s *twoSites) serve(t *testing.T, r *rig, side lab.Side) {
	t.Helper()
	r.listen(t, side, fmt.Sprintf(":%d", sitePort), func(seen netip.AddrPort) string {
		return fmt.Sprintf("%s %s\n", side, seen.Addr())
	})
}

// reaches waits until a server at an address answers, and checks the client address that it sees.
func (s *twoSites) reaches(t *testing.T, r *rig, from lab.Side, address, want string) {
	t.Helper()
	p := probe{from, "tcp", address, sitePort, open + " " + want}
	waittest.Within(t, 3*time.Minute, p.String(), func() error {
		got, _ := r.attempt(p, time.Second)
		if matches(p.want, got) {
			return nil
		}
		// A path that is not up yet is silent, or has no route; an answer of another server is an error.
		if matches(open, got) {
			t.Fatalf("%s: %s instead of %s", p, got, p.want)
		}
		return fmt.Errorf("%s instead of %s", got, p.want)
	})
}

// pings sends one echo request to each address.
func (s *twoSites) pings(t *testing.T, r *rig, from lab.Side, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		if got, _ := r.attempt(probe{from: from, proto: "icmp", addr: address}, patience); !matches(open, got) {
			t.Errorf("%s does not answer the %s: %s", address, from, got)
		}
	}
}

// cannotReach checks that there is no answer.
func (s *twoSites) cannotReach(t *testing.T, r *rig, from lab.Side, address string) {
	t.Helper()
	if got, _ := r.attempt(probe{from: from, proto: "tcp", addr: address, port: sitePort}, silence); got != silent {
		t.Errorf("%s answers the %s: %s", address, from, got)
	}
}

func (s *twoSites) routes(t *testing.T, r *rig, link string, networks ...string) {
	t.Helper()
	for _, network := range networks {
		family := "-4"
		if strings.Contains(network, ":") {
			family = "-6"
		}
		if out := r.Run(t, lab.Gateway, "ip", family, "route", "show", network); !strings.HasPrefix(out, network+" dev "+link+" proto gateway-tunnel") {
			t.Errorf("the route to %s is %q", network, out)
		}
	}
}

// lansReachOneAnother sets two sites up, one step after the other, for each has its reason.
func lansReachOneAnother(t *testing.T, s *twoSites) {
	type tunnel struct {
		ID        string
		PublicKey string `json:"public_key"`
	}
	var server, client tunnel
	s.main.Must(t, http.MethodPost, "/tunnel/interfaces", fields{"name": hubLink, "address_cidr": hubTunnel4 + "/24,fd00:88::1/64", "endpoint_host": gwWan4,
		"client_routes": "10.10.0.0/24,10.20.0.0/24,fd00:10::/64,fd00:20::/64"}, 201, &server)
	s.server = "/tunnel/interfaces/" + server.ID
	s.branch.Must(t, http.MethodPost, "/tunnel/interfaces", fields{"name": branchLink, "mode": "client", "active": false, "address_cidr": branchTunnel4 + "/32," + branchTunnel6 + "/128",
		"upstream_public_key": server.PublicKey, "upstream_endpoint": gwWan4 + ":51820", "upstream_allowed_ips": "10.88.0.0/24,10.10.0.0/24,fd00:88::/64,fd00:10::/64"}, 201, &client)
	s.client = "/tunnel/interfaces/" + client.ID
	a := s.main.Must(t, http.MethodPost, s.server+"/peers", fields{"name": "branch", "public_key": client.PublicKey,
		"allowed_ips": branchTunnel4 + "/32," + branchTunnel6 + "/128,10.20.0.0/24,fd00:20::/64"}, 201, nil)
	if got := a.Header.Get("Gateway-Apply"); got != "tunnel=live" {
		t.Fatal(got)
	}
	// A client that is not known yet gets no answer, and retries only after seconds.
	s.branch.put(t, s.client, fields{"active": true})
	s.routes(t, s.main, hubLink, "10.20.0.0/24", "fd00:20::/64")
	s.routes(t, s.branch, branchLink, "10.88.0.0/24", "10.10.0.0/24", "fd00:88::/64", "fd00:10::/64")

	// Packets of the branch's gateway itself have its address in the tunnel, and the main gateway forwards them.
	s.reaches(t, s.branch, lab.Gateway, lan4, "lan "+branchTunnel4)
	s.reaches(t, s.branch, lab.Gateway, lan6, "lan "+branchTunnel6)
	// It does not forward into the tunnel by default, and the client forwards nothing at all.
	s.cannotReach(t, s.branch, lab.Lan, lan4)
	s.cannotReach(t, s.main, lab.Lan, branchLan4)

	s.main.row(t, "/network-interfaces", fields{"name": hubLink, "type": "wireguard", "role": "vpn"})
	s.main.rules(t, fields{"src_zone": "lan", "dst_zone": "vpn"})
	s.cannotReach(t, s.main, lab.Lan, branchLan4)
	s.branchZone = "/network-interfaces/" + s.branch.row(t, "/network-interfaces", fields{"name": branchLink, "type": "wireguard", "role": "vpn"})
	s.branch.rules(t, fields{"src_zone": "lan", "dst_zone": "vpn"})
	s.reaches(t, s.branch, lab.Lan, lan4, "lan "+branchLan4)
	s.cannotReach(t, s.main, lab.Lan, branchLan4)
	s.branch.rules(t, fields{"src_zone": "vpn", "dst_zone": "lan"})
	s.reaches(t, s.main, lab.Lan, branchLan4, "lan "+lan4)

	// IPv6 as well.
	s.reaches(t, s.branch, lab.Lan, lan6, "lan "+branchLan6)
	s.reaches(t, s.main, lab.Lan, branchLan6, "lan "+lan6)
	s.pings(t, s.branch, lab.Lan, lan4, lan6)
	s.pings(t, s.main, lab.Lan, branchLan4, branchLan6)
}

// phone creates a device that only has the tunnel: its interface is in a separate namespace, and only its encrypted packets are on the
// internet.
func (s *twoSites) phone(t *testing.T, name lab.Side) (v4, v6 string) {
	t.Helper()
	var p tunnelPeer
	s.main.Must(t, http.MethodPost, s.server+"/peers", fields{"name": name}, 201, &p)
	link := "gw" + string(name)
	configure(t, s.main.Lab, s.branch.Lab, link, p)
	s.branch.Run(t, lab.Wan, "ip", "netns", "add", string(name))
	s.branch.Run(t, lab.Wan, "ip", "link", "set", link, "netns", string(name))
	v4, v6, _ = strings.Cut(p.AllowedIPs, ",")
	s.branch.Run(t, name, "bash", "-ec", fmt.Sprintf(`
		ip link set lo up
		ip address add %[2]s dev %[1]s
		ip address add %[3]s dev %[1]s nodad
		ip link set %[1]s up
		for network in $(wg show %[1]s allowed-ips | cut -f 2); do ip route add $network dev %[1]s; done`, link, v4, v6))
	return strings.TrimSuffix(v4, "/32"), strings.TrimSuffix(v6, "/128")
}

func phonesReachEverybody(t *testing.T, s *twoSites) {
	first4, first6 := s.phone(t, "phone1")
	s.phone1 = first4
	second4, second6 := s.phone(t, "phone2")
	s.serve(t, s.branch, "phone2")
	s.reaches(t, s.branch, "phone1", lan4, "lan "+first4)
	s.reaches(t, s.branch, "phone1", lan6, "lan "+first6)
	// The main gateway masquerades packets from the tunnel's network back into the tunnel.
	s.reaches(t, s.branch, "phone2", lan4, "lan "+second4)
	s.reaches(t, s.branch, "phone1", second4, "phone2 "+hubTunnel4)
	s.reaches(t, s.branch, "phone1", second6, "phone2 fd00:88::1")
	s.reaches(t, s.branch, "phone1", branchLan4, "lan "+hubTunnel4)
	s.reaches(t, s.branch, "phone1", branchLan6, "lan fd00:88::1")
	s.pings(t, s.branch, "phone1", second4, second6, branchLan4, branchLan6)
	// A machine at the branch is seen as itself.
	s.reaches(t, s.branch, lab.Lan, second4, "phone2 "+branchLan4)
}

func everythingThroughTheTunnel(t *testing.T, s *twoSites) {
	before := s.branch.Run(t, lab.Gateway, "ip", "rule")
	s.reaches(t, s.branch, lab.Lan, wan4, "wan "+branchWan4)

	// The tunnel becomes the branch's internet: what leaves by it has one address, as with any provider.
	s.branch.put(t, s.branchZone, fields{"role": "wan"})
	s.branch.put(t, s.client, fields{"upstream_allowed_ips": "0.0.0.0/0,::/0"})
	// Connections to what the branch publishes are still answered directly.
	for _, x := range []struct{ wan, lan string }{{branchWan4, branchLan4}, {branchWan6, branchLan6}} {
		s.branch.nat(t, fields{"kind": "dnat", "in_zone": "wan", "protocol": "tcp", "dst_cidr": x.wan, "dst_port": sitePort, "target_address": x.lan, "target_port": sitePort})
	}
	s.reaches(t, s.main, lab.Wan, branchWan4, "lan")
	s.reaches(t, s.main, lab.Wan, branchWan6, "lan")
	// The main gateway only masquerades its own lan.
	var rules []struct{ ID string }
	s.main.Must(t, http.MethodGet, "/nat-rules", nil, 200, &rules)
	s.main.put(t, "/nat-rules/"+rules[0].ID, fields{"in_zone": "lan"})
	s.main.put(t, s.server, fields{"client_routes": "0.0.0.0/0,::/0"})
	phone4, phone6 := s.phone(t, "phone3")
	// Addresses that no router of the internet would know.
	s.reaches(t, s.branch, lab.Lan, wan4, "wan "+branchTunnel4)
	s.reaches(t, s.branch, "phone3", wan4, "wan "+phone4)
	s.reaches(t, s.branch, "phone3", wan6, "wan "+phone6)
	// The rule that the console offers, and its like for IPv6.
	for _, network := range []string{"10.88.0.0/24", "fd00:88::/64"} {
		s.main.nat(t, fields{"kind": "masquerade", "out_zone": "wan", "src_cidr": network, "protocol": "any"})
	}
	s.reaches(t, s.branch, lab.Lan, wan4, "wan "+gwWan4)
	s.reaches(t, s.branch, "phone3", wan4, "wan "+gwWan4)
	s.reaches(t, s.branch, "phone3", wan6, "wan "+gwWan6)

	// The branch can still be reached by others: from its own network, and from the internet.
	s.console(t, s.branch, lab.Lan, "10.20.0.1")
	s.console(t, s.main, lab.Wan, branchWan4)
	s.pings(t, s.branch, lab.Gateway, branchLan4, branchLan6)
	s.reaches(t, s.branch, lab.Lan, lan4, "lan "+branchTunnel4)
	for _, x := range []struct{ mark, link string }{{"0", branchLink}, {"51251", "wan0"}} {
		if out := s.branch.Run(t, lab.Gateway, "ip", "route", "get", gwWan4, "mark", x.mark); !strings.Contains(out, " dev "+x.link+" ") {
			t.Errorf("the way of mark %s: %s", x.mark, out)
		}
	}

	s.branch.put(t, s.client, fields{"active": false})
	s.reaches(t, s.branch, lab.Lan, wan4, "wan "+branchWan4)
	if after := s.branch.Run(t, lab.Gateway, "ip", "rule"); after != before {
		t.Errorf("the rules are %s and were %s", after, before)
	}
	s.branch.put(t, s.client, fields{"active": true})
	s.reaches(t, s.branch, lab.Lan, wan4, "wan "+gwWan4)
}

// console requests the API at an address of a gateway.
func (s *twoSites) console(t *testing.T, r *rig, from lab.Side, address string) {
	t.Helper()
	if out := r.Run(t, from, "curl", "-sSk", "--max-time", "60", "https://"+address+":3443/api/v1/system/health"); !strings.Contains(out, `"data"`) {
		t.Errorf("the console at %s says %s", address, out)
	}
}
