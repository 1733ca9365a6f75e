package conntrack

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

// track makes the kernel track the connections over the namespace's loopback, and apply NAT to some.
func track(t *testing.T) {
	t.Helper()
	cmd := exec.Command("/usr/sbin/nft", "-f", "-")
	cmd.Stdin = strings.NewReader(`table inet tracked {
		chain out { type filter hook output priority 0; ct state new accept; }
		chain nat { type nat hook output priority -100; ip daddr 127.0.0.9 tcp dport 81 dnat ip to 127.0.0.1:82; }
	}`)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("/usr/sbin/nft", "delete", "table", "inet", "tracked").Run() })
	if err := os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_acct", []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, table *Table, q host.ConnectionQuery) host.ConnectionPage {
	t.Helper()
	page, err := table.Connections(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestConnections(t *testing.T) {
	track(t)
	table := New(home.Home{})
	defer table.netfilter.Close()
	l, err := net.Listen("tcp", "127.0.0.1:82")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", "127.0.0.9:81")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	six, err := net.Dial("udp", "[::1]:4000")
	if err != nil {
		t.Fatal(err)
	}
	defer six.Close()
	if _, err := six.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("/usr/bin/ping", "-c", "1", "127.0.0.1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tcp := read(t, table, host.ConnectionQuery{Protocol: unix.IPPROTO_TCP, Port: 82, Limit: 10})
	if len(tcp.List) != 1 || tcp.Total < 3 || tcp.Matching != 1 || tcp.More {
		t.Fatalf("%+v", tcp)
	}
	c := tcp.List[0]
	local := conn.LocalAddr().(*net.TCPAddr).AddrPort()
	if c.Source != local.Addr() || c.SourcePort != local.Port() || c.Destination.String() != "127.0.0.9" || c.DestinationPort != 81 ||
		c.Reply.Source.String() != "127.0.0.1" || c.Reply.SourcePort != 82 {
		t.Errorf("%+v", c)
	}
	if c.State.String() != "established" || !c.Assured || !c.Replied || !c.DestinationNAT || c.SourceNAT || c.SentPackets < 2 ||
		c.ReceivedBytes == 0 || c.Seconds == 0 || c.ID == 0 {
		t.Errorf("%+v", c)
	}
	for name, q := range map[string]host.ConnectionQuery{
		"the destination after NAT": {Destination: netip.MustParsePrefix("127.0.0.9/32")},
		"before NAT":                {Destination: netip.MustParsePrefix("127.0.0.1/32"), Port: 81},
		"IPv6":                      {Source: netip.MustParsePrefix("::1/128"), Protocol: unix.IPPROTO_UDP},
		"state":                     {States: []host.ConnectionState{3}, Port: 81},
		"ICMP":                      {Protocol: unix.IPPROTO_ICMP}, "unreplied": {Unreplied: true, Port: 4000},
	} {
		q.Limit = 10
		if page := read(t, table, q); len(page.List) != 1 {
			t.Errorf("%s: %+v", name, page)
		}
	}
	for name, q := range map[string]host.ConnectionQuery{
		"source": {Source: netip.MustParsePrefix("10.0.0.0/8")}, "port": {Port: 9}, "state": {States: []host.ConnectionState{1}},
	} {
		q.Limit = 10
		if page := read(t, table, q); len(page.List) != 0 || page.Total < 3 {
			t.Errorf("%s: %+v", name, page)
		}
	}
	// Both ends of the redirected connection are counted, with the destination after NAT.
	traffic, err := table.Traffic(t.Context(), []netip.Addr{
		local.Addr(), netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("::1"), netip.MustParseAddr("10.0.0.1"),
	})
	if err != nil || !traffic.Counted || len(traffic.List) != 2 {
		t.Fatalf("%+v, %v", traffic, err)
	}
	if six := traffic.List[1]; six.Address.String() != "::1" || six.Connections < 1 || six.Sent == 0 {
		t.Errorf("%+v", six)
	}
	if four := traffic.List[0]; four.Address != local.Addr() || four.Connections < 2 ||
		four.Sent < c.SentBytes || four.Received < c.ReceivedBytes {
		t.Errorf("%+v", four)
	}
	// A connection is ended only by its whole key.
	other := c.ConnectionKey
	other.ID++
	if err := table.EndConnection(t.Context(), other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("with another id: %v", err)
	}
	all := read(t, table, host.ConnectionQuery{Limit: 100})
	for _, c := range all.List {
		if err := table.EndConnection(t.Context(), c.ConnectionKey); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: %v", c, err)
		}
		if err := table.EndConnection(t.Context(), c.ConnectionKey); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v was ended twice: %v", c, err)
		}
	}
	if page := read(t, table, host.ConnectionQuery{Port: 82, Limit: 10}); len(page.List) != 0 {
		t.Errorf("%+v", page)
	}
	foreign := New(home.Home{Foreign: true})
	if _, err := foreign.Connections(t.Context(), host.ConnectionQuery{Limit: 1}); !errors.Is(err, host.ErrNotInstalled) {
		t.Errorf("connections of a foreign machine: %v", err)
	}
	if _, err := foreign.Traffic(t.Context(), nil); !errors.Is(err, host.ErrNotInstalled) {
		t.Errorf("traffic of a foreign machine: %v", err)
	}
}

// fill adds n connections to the kernel's table.
func fill(t testing.TB, n int) {
	t.Helper()
	h, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for i := range n {
		var source [4]byte
		binary.BigEndian.PutUint32(source[:], 0x0a000000+uint32(i/50000))
		from, port := net.IP(source[:]), uint16(1024+i%50000)
		err := h.ConntrackCreate(netlink.ConntrackTable, nl.FAMILY_V4, &netlink.ConntrackFlow{
			FamilyType: nl.FAMILY_V4, TimeOut: 600,
			Forward:   netlink.IPTuple{SrcIP: from, DstIP: net.IP{192, 0, 2, 1}, SrcPort: port, DstPort: 443, Protocol: unix.IPPROTO_TCP},
			Reverse:   netlink.IPTuple{SrcIP: net.IP{192, 0, 2, 1}, DstIP: from, SrcPort: 443, DstPort: port, Protocol: unix.IPPROTO_TCP},
			ProtoInfo: &netlink.ProtoInfoTCP{State: 3},
		})
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
}

// The memory for a page does not depend on the length of the table. The pages together are the table.
func TestMemoryOfALongTable(t *testing.T) {
	track(t)
	const n = 100_000
	fill(t, n)
	table := New(home.Home{})
	defer table.netfilter.Close()
	source := netip.MustParsePrefix("10.0.0.0/8")
	read(t, table, host.ConnectionQuery{Source: source, Limit: 100})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	page := read(t, table, host.ConnectionQuery{Source: source, Limit: 100})
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if page.Matching != n || len(page.List) != 100 || !page.More {
		t.Fatalf("%d match, %d on the page", page.Matching, len(page.List))
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
		t.Errorf("a page of 100 costs %d bytes", grown)
	} else {
		t.Logf("%d connections in %s, %d bytes", n, took, grown)
	}
	q := host.ConnectionQuery{Source: netip.MustParsePrefix("10.0.0.1/32"), Limit: 1000}
	seen := 0
	for last := -1; ; {
		page := read(t, table, q)
		for _, c := range page.List {
			if int(c.SourcePort) <= last {
				t.Fatalf("port %d comes after %d", c.SourcePort, last)
			}
			last = int(c.SourcePort)
		}
		if seen += len(page.List); !page.More {
			break
		}
		q.After = &page.List[len(page.List)-1].ConnectionKey
	}
	if seen != 50000 {
		t.Errorf("the pages have %d connections", seen)
	}
}
