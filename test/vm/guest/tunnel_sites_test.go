//go:build vm

package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/firewall"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/tunnel"
)

// The test program also executes the acts inside of a namespace: a thread would not do, because a namespace belongs to a
// thread and the work uses several.
const (
	followHere = "follow" // brings the tunnels to the configuration on the standard input
	serveHere  = "serve"  // sends each client the address that it sees
	dialHere   = "dial"   // prints the server's answer
)

func TestMain(m *testing.M) {
	act := map[string]func() error{followHere: followInput, serveHere: serve, dialHere: dial}[os.Args[1]]
	if act == nil {
		os.Exit(m.Run())
	}
	if err := act(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func followInput() error {
	var c tunnel.Config
	if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		return err
	}
	s, err := newSystem()
	if err != nil {
		return err
	}
	return followTo(context.Background(), s, c)
}

const servedAt = ":7001"

func serve() error {
	l, err := net.Listen("tcp", servedAt)
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		seen := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		fmt.Fprintf(conn, "%s sees %s", os.Args[2], seen)
		conn.Close()
	}
}

func dial() error {
	conn, err := net.DialTimeout("tcp", os.Args[2]+servedAt, 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = io.Copy(os.Stdout, conn)
	return err
}

// inside is a command in a namespace; the test program itself if the first argument is one of its acts.
func inside(ctx context.Context, place string, argv ...string) *exec.Cmd {
	if argv[0] == followHere || argv[0] == serveHere || argv[0] == dialHere {
		argv = append([]string{os.Args[0]}, argv...)
	}
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", place}, argv...)...)
}

func must(t *testing.T, stdin []byte, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stdin = bytes.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(cmd.Args, " "), err, out)
	}
}

// site is a gateway with a machine behind it.
type site struct {
	name, wan, lan, machine string
	private, public         tunnel.Key
	filter                  firewall.Config
}

func prefixes(list ...string) (all []netip.Prefix) {
	for _, p := range list {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

// follow applies the tunnels of a namespace.
func (s *site) follow(t *testing.T, w tunnel.Wanted) {
	t.Helper()
	w.ID, w.Name, w.PrivateKey, w.PublicKey = uuid.NewSHA1(uuid.Nil, []byte(s.name)), value.Must[value.IfName]("gw"+s.name), s.private, s.public
	config, err := json.Marshal(tunnel.Config{Tunnels: []tunnel.Wanted{w}})
	if err != nil {
		t.Fatal(err)
	}
	must(t, config, inside(t.Context(), s.name, followHere))
}

// load loads the packet filter of a site.
func (s *site) load(t *testing.T) {
	t.Helper()
	files, err := firewall.Render(s.filter)
	if err != nil {
		t.Fatal(err)
	}
	must(t, files[0].Content, inside(t.Context(), s.name, "nft", "-f", "-"))
}

// allow is a rule between two zones.
func (s *site) allow(from, to string) {
	s.filter.Rules = append(s.filter.Rules, &firewall.Rule{Meta: resource.Meta{ID: uuid.New()}, Name: value.Must[value.Line](from + " to " + to), SrcKind: "any", DstKind: "any",
		SrcZone: value.Must[value.Zone](from), DstZone: value.Must[value.Zone](to), Action: "accept", Enabled: true})
}

// masquerade hides a network behind the address that it leaves by the wan with.
func (s *site) masquerade(network string) {
	s.filter.NAT = append(s.filter.NAT, firewall.NATRule{Meta: resource.Meta{ID: uuid.New()}, Name: value.Must[value.Line]("to the internet"), Kind: "masquerade",
		InZone: value.Must[value.Zone]("any"), OutZone: value.Must[value.Zone]("wan"), Protocol: "any", SrcCIDR: value.Must[value.Prefix](network), Enabled: true})
}

// sees waits until a server answers, and compares the client address that it sees.
func sees(t *testing.T, from, address, want string) {
	t.Helper()
	waittest.UntilNil(t, fmt.Sprintf("%s reaches %s", from, address), func() error {
		out, err := inside(t.Context(), from, dialHere, address).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if string(out) != want {
			t.Fatalf("%s at %s: %s instead of %s", from, address, out, want)
		}
		return nil
	})
}

// What TestTunnelSites of test/machine shows with wireguard-go, with the kernel's own WireGuard: two sites, phones, and everything
// through a tunnel. The tunnels and the packet filters are the gateway's, without the gateway around them.
func TestKernelTunnelSites(t *testing.T) {
	hub := &site{name: "hub", wan: "198.51.100.1", lan: "10.10.0.1", machine: "10.10.0.2"}
	branch := &site{name: "branch", wan: "203.0.113.1", lan: "10.20.0.1", machine: "10.20.0.2"}
	phone1, phone2 := &site{name: "phone1", wan: "192.0.2.11"}, &site{name: "phone2", wan: "192.0.2.12"}
	all := []*site{hub, branch, phone1, phone2}
	build(t, all)
	for _, s := range all {
		s.private, s.public = pair(t)
	}

	// Both sites with a tunnel between them.
	zone := value.Must[value.Zone]
	link := func(names ...string) (list []value.IfName) {
		for _, n := range names {
			list = append(list, value.Must[value.IfName](n))
		}
		return list
	}
	dialled := value.Must[tunnel.Endpoint](hub.wan + ":51820")
	serving := tunnel.Wanted{Addresses: prefixes("10.88.0.1/24"), ListenPort: 51820, Peers: []tunnel.WantedPeer{
		{Name: "branch", PublicKey: branch.public, AllowedIPs: prefixes("10.88.0.100/32", "10.20.0.0/24")},
		{Name: "phone1", PublicKey: phone1.public, AllowedIPs: prefixes("10.88.0.11/32")},
		{Name: "phone2", PublicKey: phone2.public, AllowedIPs: prefixes("10.88.0.12/32")},
	}}
	through := func(own string, networks ...string) tunnel.Wanted {
		return tunnel.Wanted{Addresses: prefixes(own), Peers: []tunnel.WantedPeer{{Name: "upstream", PublicKey: hub.public, AllowedIPs: prefixes(networks...), Endpoint: dialled, Keepalive: 1}}}
	}
	hub.filter = firewall.Config{
		Interfaces: map[value.Zone][]value.IfName{zone("wan"): link("wan0"), zone("lan"): link("lan0"), zone("vpn"): link("gwhub")},
		Openings:   []policy.Opening{{Service: "tunnel", Proto: policy.UDP, Port: 51820}},
		Tunnels:    []policy.Tunnel{{Interface: link("gwhub")[0], Networks: []value.Prefix{value.Must[value.Prefix]("10.88.0.0/24")}}},
	}
	hub.allow("lan", "vpn")
	branch.filter = firewall.Config{Interfaces: map[value.Zone][]value.IfName{zone("wan"): link("wan0"), zone("lan"): link("lan0"), zone("vpn"): link("gwbranch")}}
	branch.allow("lan", "vpn")
	branch.allow("vpn", "lan")
	hub.load(t)
	branch.load(t)
	hub.follow(t, serving)
	branch.follow(t, through("10.88.0.100/32", "10.88.0.0/24", "10.10.0.0/24"))
	for _, p := range []*site{phone1, phone2} {
		p.follow(t, through("10.88.0."+strings.TrimPrefix(p.wan, "192.0.2.")+"/32", "10.88.0.0/24", "10.10.0.0/24", "10.20.0.0/24"))
	}

	// Site to site, in both directions; each machine is seen as itself.
	sees(t, "branch-lan", hub.machine, "hub-lan sees "+branch.machine)
	sees(t, "hub-lan", branch.machine, "branch-lan sees "+hub.machine)
	must(t, nil, inside(t.Context(), "hub-lan", "ping", "-c", "1", "-W", "60", branch.machine))
	// A phone reaches both sites and another phone. Packets back into the tunnel have the hub's address.
	sees(t, "phone1", hub.machine, "hub-lan sees 10.88.0.11")
	sees(t, "phone1", branch.machine, "branch-lan sees 10.88.0.1")
	sees(t, "phone1", "10.88.0.12", "phone2 sees 10.88.0.1")

	// Everything through the tunnel, at first with an address that only this internet answers; then with the operator's rule.
	phone1.follow(t, through("10.88.0.11/32", "0.0.0.0/0"))
	sees(t, "phone1", "198.51.100.254", "internet sees 10.88.0.11")
	hub.masquerade("10.88.0.0/24")
	hub.load(t)
	sees(t, "phone1", "198.51.100.254", "internet sees "+hub.wan)
	// The route to the upstream is outside of the tunnel, and is removed with it.
	phone1.follow(t, through("10.88.0.11/32", "10.88.0.0/24"))
	sees(t, "phone1", "198.51.100.254", "internet sees "+phone1.wan)

	// Adding another peer and removing the first one does not affect the others.
	_, stranger := pair(t)
	serving.Peers = append(serving.Peers[1:], tunnel.WantedPeer{Name: "stranger", PublicKey: stranger, AllowedIPs: prefixes("10.88.0.13/32")})
	hub.follow(t, serving)
	sees(t, "phone2", hub.machine, "hub-lan sees 10.88.0.12")
	if out, err := inside(t.Context(), "branch-lan", dialHere, hub.machine).CombinedOutput(); err == nil {
		t.Errorf("who is no peer any more is answered: %s", out)
	}
}

// build creates the namespaces: each site and its machine, and the internet, which routes between them and also has a route to the
// tunnel's network.
func build(t *testing.T, sites []*site) {
	t.Helper()
	// The shell's own ip knows no namespaces.
	const shell = "set -e; ip() { /sbin/ip \"$@\"; }\n"
	script := shell + `
		internet() { ip netns exec internet "$@"; }
		ip netns add internet
		internet sysctl -qw net.ipv4.ip_forward=1
		internet ip link set lo up
		cable() { # cable PLACE LINK ADDRESS OTHER-PLACE OTHER-LINK OTHER-ADDRESS
			ip link add "$2" netns "$1" type veth peer name "$5" netns "$4"
			ip -n "$1" address add "$3" dev "$2"
			ip -n "$1" link set "$2" up
			ip -n "$4" address add "$6" dev "$5"
			ip -n "$4" link set "$5" up
		}
		place() { ip netns add "$1"; ip -n "$1" link set lo up; }
`
	for _, s := range sites {
		wan := netip.MustParseAddr(s.wan).As4()
		wan[3] = 254
		router, bits := netip.AddrFrom4(wan), 24
		if s.lan == "" { // phones share one network, each on its own veth pair
			bits = 32
		}
		script += fmt.Sprintf("place %[1]s; cable %[1]s wan0 %[2]s/%[4]d internet to-%[1]s %[3]s/%[4]d\n", s.name, s.wan, router, bits)
		if bits == 32 {
			script += fmt.Sprintf("ip -n %[1]s route add %[3]s dev wan0; internet ip route add %[2]s dev to-%[1]s\n", s.name, s.wan, router)
		}
		script += fmt.Sprintf("ip -n %s route add default via %s\n", s.name, router)
		if s.lan != "" {
			script += fmt.Sprintf("ip netns exec %[1]s sysctl -qw net.ipv4.ip_forward=1; place %[1]s-lan; cable %[1]s lan0 %[2]s/24 %[1]s-lan eth0 %[3]s/24; ip -n %[1]s-lan route add default via %[2]s\n", s.name, s.lan, s.machine)
		}
	}
	script += "internet ip route add 10.88.0.0/24 via " + sites[0].wan + "\n"
	t.Cleanup(func() {
		places := ""
		for _, s := range sites {
			places += " " + s.name
			if s.lan != "" {
				places += " " + s.name + "-lan"
			}
		}
		if out, err := exec.Command("sh", "-c", shell+"for p in internet"+places+"; do ip netns delete $p; done").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	must(t, nil, exec.Command("sh", "-c", script))
	for _, place := range []string{"internet", "hub-lan", "branch-lan", "phone2"} {
		cmd := inside(context.Background(), place, serveHere, place)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
}
