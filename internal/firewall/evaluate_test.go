package firewall

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/value"
)

// smallHouse is a small configuration; each case below uses a part of it.
func smallHouse() Config {
	lan, wan := value.Must[value.Zone]("lan"), value.Must[value.Zone]("wan")
	id := func(n byte) (id uuid.UUID) { id[15] = n; return id }
	c := Config{
		Interfaces: map[value.Zone][]value.IfName{lan: {value.Must[value.IfName]("lan0")}, wan: {value.Must[value.IfName]("wan0")}},
		Openings: []policy.Opening{
			{Service: "ntp", Proto: policy.UDP, Port: 123, Addresses: []value.Addr{value.Must[value.Addr]("10.1.0.1")}},
			{Service: "dhcp", Proto: policy.UDP, Port: 67, Interfaces: []value.IfName{value.Must[value.IfName]("lan0")}},
		},
		Tunnels: []policy.Tunnel{{Interface: value.Must[value.IfName]("wg0"), Networks: []value.Prefix{value.Must[value.Prefix]("10.8.0.0/24")}}},
		Peers:   []netip.Addr{netip.MustParseAddr("192.0.2.9")},
	}
	rule := func(n byte, name string, src, dst value.Zone, cidr, action string) *Rule {
		r := &Rule{Name: value.Must[value.Line](name), SrcZone: src, DstZone: dst, SrcKind: selectCIDR, SrcCIDR: value.Must[value.Prefix](cidr), DstKind: selectAny, Action: action, Enabled: true}
		r.ID = id(n)
		return r
	}
	c.Rules = []*Rule{
		rule(1, "bad host", lan, anywhere, "10.1.0.66", "drop"),
		rule(2, "inside out", lan, wan, "10.1.0.0/16", "accept"),
		rule(3, "to self", lan, self, "10.1.0.0/24", "reject"),
		rule(4, "v6 out", lan, wan, "2001:db8::/32", "accept"),
	}
	c.NAT = []NATRule{
		{Kind: natDestination, InZone: wan, OutZone: anywhere, Protocol: "tcp", DstPort: pointer(8000), DstPortEnd: pointer(8009), TargetAddress: value.Must[value.Addr]("10.1.0.9"), TargetPort: pointer(9000), TargetPortEnd: pointer(9009)},
		{Kind: natDestination, InZone: wan, OutZone: anywhere, Protocol: "tcp", DstPort: pointer(22), TargetAddress: value.Must[value.Addr]("10.1.0.1"), TargetPort: pointer(23)},
		{Kind: natDestination, InZone: wan, OutZone: anywhere, Protocol: "tcp", TargetAddress: value.Must[value.Addr]("10.1.0.9"), DstCIDR: value.Must[value.Prefix]("192.0.2.70"), TargetPort: pointer(7100), TargetPortEnd: pointer(7109)},
		{Kind: natDestination, InZone: wan, OutZone: anywhere, Protocol: "any", TargetAddress: value.Must[value.Addr]("10.1.0.8"), DstCIDR: value.Must[value.Prefix]("10.1.0.8")},
		{Kind: natSource, InZone: lan, OutZone: wan, Protocol: "udp", DstPort: pointer(53), TargetAddress: value.Must[value.Addr]("192.0.2.2"), TargetPort: pointer(4000), TargetPortEnd: pointer(4999)},
		{Kind: natMasquerade, InZone: anywhere, OutZone: wan, Protocol: "any"},
	}
	for i := range c.NAT {
		c.NAT[i].ID, c.NAT[i].Name, c.NAT[i].Enabled = id(byte(11+i)), value.Must[value.Line]("nat"), true
	}
	return c
}

func smallWay(to netip.Addr) Way {
	local := map[string]bool{"10.1.0.1": true, "192.0.2.1": true, "2001:db8::1": true}
	switch {
	case local[to.String()]:
		return Way{Local: true}
	case netip.MustParsePrefix("10.1.0.0/16").Contains(to):
		return Way{Interface: "lan0"}
	case netip.MustParsePrefix("10.8.0.0/24").Contains(to):
		return Way{Interface: "wg0", Source: netip.MustParseAddr("10.8.0.1")}
	case netip.MustParsePrefix("172.16.0.0/12").Contains(to):
		return Way{Reason: "no route"}
	}
	if to.Is6() {
		return Way{Interface: "wan0", Source: netip.MustParseAddr("2001:db8::1")}
	}
	return Way{Interface: "wan0", Source: netip.MustParseAddr("192.0.2.1")}
}

func TestEvaluate(t *testing.T) {
	rs := compile(smallHouse())
	for _, x := range []struct {
		name, in, from, to string
		proto              uint8
		port               uint16 // or the type of an ICMP message
		want               string // path, verdict and decider
		after              string // addresses and ports after NAT, if they differ
	}{
		{"loopback", "lo", "127.0.0.1", "10.1.0.1", nft.TCP, 9, "input accept auto:loopback", ""},
		{"loopback is not redirected", "lo", "192.0.2.1", "192.0.2.1", nft.TCP, 8000, "input accept auto:loopback", ""},
		{"neighbours", "wan0", "2001:db8::5", "2001:db8::1", nft.ICMPv6, 135, "input accept auto:icmpv6", ""},
		{"packet too big, through", "wan0", "2001:db8:9::5", "2001:db8:8::1", nft.ICMPv6, 2, "forward accept auto:icmpv6", ""},
		{"ping is no neighbour", "wan0", "2001:db8::5", "2001:db8::1", nft.ICMPv6, 128, "input drop Default input", ""},
		{"SSH before a rule that rejects", "lan0", "10.1.0.5", "10.1.0.1", nft.TCP, 22, "input accept auto:anti-lockout", ""},
		{"management", "lan0", "10.1.0.5", "10.1.0.1", nft.TCP, 3443, "input accept auto:anti-lockout", ""},
		{"QUIC", "lan0", "10.1.0.5", "10.1.0.1", nft.UDP, 443, "input accept auto:anti-lockout", ""},
		{"not udp 22", "lan0", "10.1.0.5", "10.1.0.1", nft.UDP, 22, "input reject to self", ""},
		{"anti-lockout is for the gateway alone", "lan0", "10.2.0.5", "10.8.0.7", nft.TCP, 22, "forward drop Default forward", ""},
		{"a peer", "wan0", "192.0.2.9", "192.0.2.1", nft.TCP, 5432, "input accept auto:cluster", ""},
		{"a peer elsewhere", "wan0", "192.0.2.9", "192.0.2.1", nft.TCP, 5433, "input drop Default input", ""},
		{"no peer", "wan0", "192.0.2.8", "192.0.2.1", nft.TCP, 5432, "input drop Default input", ""},
		{"any is self, too", "lan0", "10.1.0.66", "10.1.0.1", nft.UDP, 67, "input drop bad host", ""},
		{"any is forwarded, too", "lan0", "10.1.0.66", "198.51.100.1", nft.UDP, 67, "forward drop bad host", ""},
		{"an opening after the rules", "lan0", "10.1.0.5", "10.1.0.1", nft.UDP, 123, "input reject to self", ""},
		{"an opening of an address", "wan0", "198.51.100.1", "10.1.0.1", nft.UDP, 123, "input accept auto:opening-ntp", ""},
		{"not that address", "wan0", "198.51.100.1", "192.0.2.1", nft.UDP, 123, "input drop Default input", ""},
		{"an opening of an interface", "lan0", "0.0.0.0", "10.1.0.1", nft.UDP, 67, "input accept auto:opening-dhcp", ""},
		{"not that interface", "wan0", "198.51.100.1", "192.0.2.1", nft.UDP, 67, "input drop Default input", ""},
		{"masqueraded", "lan0", "10.1.0.5", "198.51.100.1", nft.TCP, 80, "forward accept inside out", "192.0.2.1:5000 198.51.100.1:80"},
		{"a ping, too", "lan0", "10.1.0.5", "198.51.100.1", nft.ICMP, 8, "forward accept inside out", "192.0.2.1:5000 198.51.100.1:0"},
		{"what begins no connection has no NAT", "lan0", "10.1.0.5", "198.51.100.1", nft.ICMP, 0, "forward accept inside out", "10.1.0.5:5000 198.51.100.1:0"},
		{"snat before masquerade, with a port of the kernel's choice", "lan0", "10.1.0.5", "198.51.100.1", nft.UDP, 53, "forward accept inside out", "192.0.2.2:0 198.51.100.1:53"},
		{"snat for the other family is not", "lan0", "2001:db8::7", "2001:db8:1::1", nft.UDP, 53, "forward accept v6 out", "[2001:db8::1]:5000 [2001:db8:1::1]:53"},
		{"redirected port by port", "wan0", "198.51.100.1", "192.0.2.1", nft.TCP, 8003, "forward accept auto:dnat", "198.51.100.1:5000 10.1.0.9:9003"},
		{"redirected to another port of the gateway", "wan0", "198.51.100.1", "192.0.2.1", nft.TCP, 22, "input drop Default input", "198.51.100.1:5000 10.1.0.1:23"},
		{"redirected to the first port of a range", "wan0", "198.51.100.1", "192.0.2.70", nft.TCP, 7000, "forward accept auto:dnat", "198.51.100.1:5000 10.1.0.9:7100"},
		{"a port that is in the range stays", "wan0", "198.51.100.1", "192.0.2.70", nft.TCP, 7105, "forward accept auto:dnat", "198.51.100.1:5000 10.1.0.9:7105"},
		{"redirected onto itself is not redirected", "wan0", "198.51.100.1", "10.1.0.8", nft.TCP, 80, "forward drop Default forward", ""},
		{"only from its zone", "lan0", "10.1.0.5", "192.0.2.1", nft.TCP, 8003, "input reject to self", ""},
		{"only the gateway's addresses", "wan0", "198.51.100.1", "10.1.0.7", nft.TCP, 8003, "forward drop Default forward", ""},
		{"from a tunnel", "wg0", "10.8.0.5", "10.1.0.7", nft.TCP, 80, "forward accept auto:tunnel", ""},
		{"out through a tunnel again", "wg0", "10.8.0.5", "10.8.0.7", nft.TCP, 80, "forward accept auto:tunnel", "10.8.0.1:5000 10.8.0.7:80"},
		{"an interface without a zone", "eth9", "10.1.0.5", "198.51.100.1", nft.TCP, 80, "forward drop Default forward", ""},
		{"no route", "lan0", "10.1.0.5", "172.16.0.1", nft.TCP, 80, "unroutable drop Routing unroutable", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := Packet{In: value.Must[value.IfName](x.in), Source: netip.MustParseAddr(x.from), Destination: netip.MustParseAddr(x.to), Proto: x.proto, SourcePort: 5000}
			p.InZone = rs.zoneOf(p.In)
			if ported(x.proto) {
				p.DestinationPort = x.port
			} else {
				p.ICMPType = uint8(x.port)
			}
			d := rs.evaluate(p, smallWay, nil)
			by := d.decider()
			if d.By.Rule != nil {
				by = d.By.Rule.Name
			}
			if got := d.Path + " " + d.Verdict + " " + by; got != x.want {
				t.Fatalf("%s", d.summary())
			}
			after := netip.AddrPortFrom(d.Packet.Source, d.Packet.SourcePort).String() + " " + netip.AddrPortFrom(d.Packet.Destination, d.Packet.DestinationPort).String()
			want := x.after
			if want == "" {
				want = netip.AddrPortFrom(p.Source, p.SourcePort).String() + " " + netip.AddrPortFrom(p.Destination, p.DestinationPort).String()
			}
			if after != want {
				t.Errorf("after NAT %s", after)
			}
		})
	}
}

// Every check has its sentence.
func TestNarration(t *testing.T) {
	c := smallHouse()
	c.Rules[1].Enabled = false
	rs := compileAll(c)
	explain := func(p Packet) Explanation {
		p.InZone = rs.zoneOf(p.In)
		n := newNarrator(c, &rs)
		return n.story(p, rs.evaluate(p, smallWay, n.see))
	}
	lan := value.Must[value.IfName]("lan0")
	for _, x := range []struct {
		name string
		p    Packet
		want []string // stage, title, outcome and reason of each step
	}{
		{"to the gateway", Packet{In: lan, Source: netip.MustParseAddr("10.2.0.5"), Destination: netip.MustParseAddr("10.1.0.1"), Proto: nft.UDP, DestinationPort: 123}, []string{
			"routing/Routing/info/10.1.0.1 is an address of the gateway",
			"input/Established connections/not_matched/this is the first packet of a new connection",
			"input/Loopback/not_matched/it does not come from the gateway itself",
			"input/ICMPv6 that IPv6 needs/not_matched/udp port 123 is none of these messages",
			"input/Anti-lockout/not_matched/udp port 123 is none of tcp 22, tcp 443, tcp 3443, udp 443",
			"input/Cluster peers/not_matched/source 10.2.0.5 is not a node of the cluster",
			"input/bad host/not_matched/source 10.2.0.5 is not in 10.1.0.66/32",
			"input/to self/not_matched/source 10.2.0.5 is not in 10.1.0.0/24",
			"input/Service ntp/matched/the service ntp of the gateway is open",
		}},
		{"through it", Packet{In: lan, Source: netip.MustParseAddr("10.1.0.5"), Destination: netip.MustParseAddr("198.51.100.1"), Proto: nft.ICMP, ICMPType: 8}, []string{
			"routing/Routing/info/198.51.100.1 is reached through wan0",
			"forward/Established connections/not_matched/this is the first packet of a new connection",
			"forward/ICMPv6 that IPv6 needs/not_matched/icmp type 8 is none of these messages",
			"forward/Redirected connections/not_matched/no NAT rule redirected it",
			"forward/bad host/not_matched/source 10.1.0.5 is not in 10.1.0.66/32",
			"forward/inside out/skipped_disabled/it is off; it would match: source 10.1.0.5 is in 10.1.0.0/16",
			"forward/v6 out/not_matched/source 10.1.0.5 is not in 2001:db8::/32",
			"forward/Tunnel wg0/not_matched/it does not come in through the tunnel",
			"forward/Default/matched/no rule accepts it, and what no rule accepts is dropped",
		}},
		{"out through a tunnel", Packet{In: value.Must[value.IfName]("wg0"), Source: netip.MustParseAddr("10.8.0.5"), Destination: netip.MustParseAddr("10.8.0.7"), Proto: nft.TCP, DestinationPort: 80, SourcePort: 5000}, []string{
			"routing/Routing/info/10.8.0.7 is reached through wg0",
			"forward/Established connections/not_matched/this is the first packet of a new connection",
			"forward/ICMPv6 that IPv6 needs/not_matched/tcp port 80 is none of these messages",
			"forward/Redirected connections/not_matched/no NAT rule redirected it",
			"forward/Tunnel wg0/matched/what comes from a tunnel that serves peers is forwarded",
			"postrouting/Tunnel wg0/matched/what the networks of a tunnel send out through it carries the gateway's own address; 10.8.0.5:5000 becomes 10.8.0.1:5000",
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			var got []string
			for _, s := range explain(x.p).Steps {
				got = append(got, strings.Join([]string{s.Stage, s.Title, s.Outcome, s.Reason}, "/"))
			}
			if a, b := strings.Join(got, "\n"), strings.Join(x.want, "\n"); a != b {
				t.Errorf("%s\n\ninstead of\n\n%s", a, b)
			}
		})
	}
}
