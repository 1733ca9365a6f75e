package firewall

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host/machine/filter/nfnl"
	"edge.internal/gateway/internal/kit/value"
)

// world is a gateway in the kernel: the namespace of the tests has interfaces, addresses and routes, and the other ends of its cables are
// in another namespace, from where frames are sent.
type world struct {
	t     testing.TB
	fd    int // sends frames in the other namespace
	links []cable
	// near lists the networks at the other ends, far those that a route leads to.
	near, far []routed
	// netfilter reads the counters.
	netfilter nfnl.Socket
}

// cable is an interface of the gateway with its other end.
type cable struct {
	name value.IfName
	mac  net.HardwareAddr
	peer int // index of the other end
	// own are the gateway's addresses on it.
	own [2]netip.Addr
	// near and far are the networks behind it, by family.
	near, far [2]netip.Prefix
}

// routed is a route to a network, by a cable or to nowhere.
type routed struct {
	network netip.Prefix
	link    int
}

const cables = 6

// everywhere is the destination of the default routes.
var everywhere = [2]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// nowhere lists networks without a route.
var nowhere = [2]netip.Prefix{netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("fd99::/16")}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := paper(t)
	settings(t, map[string]string{
		"ipv4/ip_forward": "1", "ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0", "ipv6/conf/all/forwarding": "1",
		// Neither answers nor neighbour messages may disturb the counting.
		"ipv6/conf/default/accept_dad": "0", "ipv6/conf/default/addr_gen_mode": "1", "ipv6/conf/default/router_solicitations": "0",
		// Every refusal is answered.
		"ipv4/icmp_ratelimit": "0", "ipv6/icmp/ratelimit": "0", "ipv4/icmp_msgs_per_sec": "1000000", "ipv4/icmp_msgs_burst": "100000",
	})
	runtime.LockOSThread()
	here := w.must(netns.Get())
	there := w.must(netns.New())
	settings(t, map[string]string{"ipv6/conf/all/disable_ipv6": "1", "ipv6/conf/default/disable_ipv6": "1"})
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	w.ok(err)
	w.ok(netns.Set(here))
	runtime.UnlockOSThread()
	w.fd = fd
	t.Cleanup(func() {
		for i := range w.links {
			if l, err := netlink.LinkByName(w.links[i].name.String()); err == nil {
				_ = netlink.LinkDel(l)
			}
		}
		unix.Close(fd)
		there.Close()
		here.Close()
	})
	other, err := netlink.NewHandleAt(there)
	w.ok(err)
	defer other.Close()
	for i := range cables {
		w.lay(i, there, other)
	}
	for _, r := range w.far {
		w.route(r.network, r.link)
	}
	w.probe()
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) must(h netns.NsHandle, err error) netns.NsHandle {
	w.t.Helper()
	w.ok(err)
	return h
}

func settings(t testing.TB, values map[string]string) {
	t.Helper()
	for name, v := range values {
		// Settings that this kernel lacks do not matter.
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(v), 0); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// lay creates one cable.
func (w *world) lay(i int, there netns.NsHandle, other *netlink.Handle) {
	w.t.Helper()
	name, end := fmt.Sprintf("g%d", i), fmt.Sprintf("p%d", i)
	w.ok(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: end}))
	c := &w.links[i]
	peer, err := netlink.LinkByName(end)
	w.ok(err)
	w.ok(netlink.LinkSetNsFd(peer, int(there)))
	peer, err = other.LinkByName(end)
	w.ok(err)
	w.ok(other.LinkSetUp(peer))
	own, err := netlink.LinkByName(name)
	w.ok(err)
	settings(w.t, map[string]string{"ipv4/conf/" + name + "/rp_filter": "0"})
	// Without ARP: a packet that leaves has left.
	w.ok(netlink.LinkSetARPOff(own))
	w.ok(netlink.LinkSetUp(own))
	c.mac, c.peer = own.Attrs().HardwareAddr, peer.Attrs().Index
	for f := range c.own {
		w.ok(netlink.AddrAdd(own, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(c.own[f], c.near[f].Bits())), Flags: unix.IFA_F_NODAD}))
	}
}

// paper is a world without the kernel: only its networks and routes.
func paper(t testing.TB) *world {
	w := &world{t: t}
	for i := range cables {
		c := cable{
			name: value.Must[value.IfName](fmt.Sprintf("g%d", i)),
			own:  [2]netip.Addr{netip.MustParseAddr(fmt.Sprintf("10.0.%d.1", i)), netip.MustParseAddr(fmt.Sprintf("fd00:0:0:%d::1", i))},
			near: [2]netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.0.%d.0/24", i)), netip.MustParsePrefix(fmt.Sprintf("fd00:0:0:%d::/64", i))},
			far:  [2]netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", 10+i)), netip.MustParsePrefix(fmt.Sprintf("fd00:0:%d::/48", 10+i))},
		}
		w.links = append(w.links, c)
		for f := range c.own {
			w.near = append(w.near, routed{c.near[f], i})
			w.far = append(w.far, routed{c.far[f], i})
		}
	}
	for f := range nowhere {
		w.far = append(w.far, routed{nowhere[f], -1}, routed{everywhere[f], 0})
	}
	return w
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// route adds a route by a cable, or to nowhere.
func (w *world) route(to netip.Prefix, link int) {
	w.t.Helper()
	r := &netlink.Route{Dst: ipNet(to), Type: unix.RTN_UNREACHABLE}
	if link >= 0 {
		own, err := netlink.LinkByName(w.links[link].name.String())
		w.ok(err)
		gateway := w.links[link].own[nft.FamilyOf(to.Addr())].AsSlice()
		gateway[len(gateway)-1] = 0xfe
		r = &netlink.Route{Dst: ipNet(to), LinkIndex: own.Attrs().Index, Gw: gateway}
	}
	w.ok(netlink.RouteAdd(r))
}

// way returns the route of packets in this world.
func (w *world) way(to netip.Addr) Way {
	best := routed{link: -1}
	found := -1
	for _, r := range append(slices.Clone(w.near), w.far...) {
		if r.network.Contains(to) && r.network.Bits() > found {
			best, found = r, r.network.Bits()
		}
	}
	for i := range w.links {
		if w.links[i].own[nft.FamilyOf(to)] == to {
			return Way{Local: true}
		}
	}
	if best.link < 0 {
		return Way{}
	}
	l := &w.links[best.link]
	return Way{Interface: l.name.String(), Source: l.own[nft.FamilyOf(to)]}
}

func (w *world) cable(name value.IfName) *cable {
	for i := range w.links {
		if w.links[i].name == name {
			return &w.links[i]
		}
	}
	return nil
}

// probe is a foreign table that counts what comes out of ours.
func (w *world) probe() {
	w.t.Helper()
	var out strings.Builder
	for i := range w.links {
		fmt.Fprintf(&out, "iifname \"g*\" oifname \"%s\" counter comment \"out:%s\"\n", w.links[i].name, w.links[i].name)
	}
	w.nft(`table inet probe {
		chain before { type filter hook prerouting priority -400; iifname "g*" counter comment "arrived"; }
		chain in { type filter hook input priority 200; iifname "g*" counter comment "in"; iifname "lo" counter comment "in:lo"; }
		chain out { type filter hook postrouting priority 300;
			ip6 daddr ff00::/8 accept # what IPv6 tells its neighbours by itself
			` + out.String() + `
		}
		# A reset would end the connection before anybody has looked at it.
		chain resets { type filter hook output priority -400; meta l4proto tcp drop; }
		chain refusals { type filter hook output priority 200;
			icmp type destination-unreachable icmp code port-unreachable counter comment "refused"
			icmpv6 type destination-unreachable icmpv6 code port-unreachable counter comment "refused"
		}
	}`)
	w.t.Cleanup(func() { w.nft("flush ruleset") })
}

func (w *world) nft(text string) {
	w.t.Helper()
	if err := loadText(text); err != nil {
		w.t.Fatal(err)
	}
}

func loadText(text string) error {
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// observation has the counters of the gateway and of the probe.
type observation map[string]uint64

func (w *world) read() observation {
	w.t.Helper()
	seen := observation{}
	for _, table := range []string{tableName, "probe"} {
		read, err := w.netfilter.ReadCounters(context.Background(), table, "")
		w.ok(err)
		for _, c := range read.List {
			seen[c.Tag] = c.Packets
		}
	}
	return seen
}

// since returns the counters that have moved.
func (o observation) since(before observation) observation {
	moved := observation{}
	for tag, n := range o {
		if n != before[tag] {
			moved[tag] = n - before[tag]
		}
	}
	return moved
}

// send injects a packet at the far end of its cable.
func (w *world) send(p *Packet) {
	w.t.Helper()
	c := w.cable(p.In)
	frame := append(append([]byte(nil), c.mac...), 2, 0, 0, 0, 0, 1)
	if p.family() == nft.V4 {
		frame = append(frame, 0x08, 0x00)
	} else {
		frame = append(frame, 0x86, 0xdd)
	}
	frame = append(frame, p.bytes()...)
	w.ok(unix.Sendto(w.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: c.peer, Halen: 6}))
}

// bytes encodes the packet.
func (p *Packet) bytes() []byte {
	var body []byte
	sum := 16
	switch p.Proto {
	case nft.TCP:
		body = make([]byte, 20)
		body[12], body[13], body[14] = 5<<4, 0x02, 0xff // a header of five words, SYN, some window
	case nft.UDP:
		body = make([]byte, 12)
		binary.BigEndian.PutUint16(body[4:], 12)
		sum = 6
	default:
		body = make([]byte, 16)
		body[0] = p.ICMPType
		binary.BigEndian.PutUint16(body[4:], p.SourcePort)
		sum = 2
	}
	if ported(p.Proto) {
		binary.BigEndian.PutUint16(body, p.SourcePort)
		binary.BigEndian.PutUint16(body[2:], p.DestinationPort)
	}
	from, to := p.Source.AsSlice(), p.Destination.AsSlice()
	pseudo := append(append([]byte(nil), from...), to...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(body)))
	pseudo = append(pseudo, 0, 0, 0, p.Proto)
	if p.Proto == nft.ICMP {
		pseudo = nil
	}
	binary.BigEndian.PutUint16(body[sum:], checksum(append(pseudo, body...)))
	if p.family() == nft.V6 {
		head := []byte{0x60, 0, 0, 0, 0, byte(len(body)), p.Proto, 64}
		return append(append(append(head, from...), to...), body...)
	}
	head := []byte{0x45, 0, 0, byte(20 + len(body)), 0, 1, 0, 0, 64, p.Proto, 0, 0}
	head = append(append(head, from...), to...)
	binary.BigEndian.PutUint16(head[10:], checksum(head))
	return append(head, body...)
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// flow returns the connection that a packet began: its addresses after NAT.
func (w *world) flow(p *Packet) (from, to netip.AddrPort, found bool) {
	w.t.Helper()
	family := netlink.InetFamily(unix.AF_INET)
	if p.family() == nft.V6 {
		family = unix.AF_INET6
	}
	flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
	w.ok(err)
	addr := func(ip net.IP) netip.Addr { a, _ := netip.AddrFromSlice(ip); return a.Unmap() }
	for _, f := range flows {
		if f.Forward.Protocol == p.Proto && addr(f.Forward.SrcIP) == p.Source && addr(f.Forward.DstIP) == p.Destination &&
			(!ported(p.Proto) || f.Forward.SrcPort == p.SourcePort && f.Forward.DstPort == p.DestinationPort) {
			return netip.AddrPortFrom(addr(f.Reverse.DstIP), f.Reverse.DstPort), netip.AddrPortFrom(addr(f.Reverse.SrcIP), f.Reverse.SrcPort), true
		}
	}
	return from, to, false
}

// forget makes the kernel forget every connection.
func (w *world) forget() {
	w.t.Helper()
	w.ok(netlink.ConntrackTableFlush(netlink.ConntrackTable))
}
