package filter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/machine/command"
	"edge.internal/gateway/internal/kit/host/machine/files"
)

// machine combines the parts of a machine that these tests need.
type machine struct {
	*command.Commands
	*Filter
}

// at returns a machine with its files below a root, or the real one.
func at(root string) machine {
	h := home.Home{Root: root, Foreign: root != ""}
	f := files.New(h)
	c := command.New(h, f)
	return machine{c, New(h, c)}
}

const (
	ruleA = "01890000-0000-7000-8000-00000000000a"
	ruleB = "01890000-0000-7000-8000-00000000000b"
	ruleC = "01890000-0000-7000-8000-00000000000c"
)

// table is like the gateway's tables, with a bit of everything.
const table = `
table inet gateway
delete table inet gateway
table inet gateway {
	comment "fp:%s"
	set hosts {
		type ipv4_addr
		flags interval
		elements = { 192.0.2.0/24, 198.51.100.7 }
	}
	set seen {
		type ipv4_addr
		flags dynamic,timeout
		timeout 1m
	}
	map verdicts {
		type inet_service : verdict
		elements = { 7 : jump ops, 8 : accept }
	}
	counter named { }
	quota spare { 10 mbytes }
	chain ops {
		udp dport 4001 counter accept comment "gid:` + ruleA + `"
		tcp dport { 4002, 4003 } counter reject with tcp reset comment "gid:` + ruleB + `"
		ip6 daddr ::1 udp dport 4001 counter accept comment "gid:` + ruleA + `"
		udp dport 4009 counter accept comment "something else"
		udp dport 4008 accept comment "gid:no counter"
	}
	chain unused {
	}
	chain input {
		type filter hook input priority 0; policy accept;
		ip saddr 127.0.0.1 udp dport 4001 update @seen { ip saddr counter } quota 10 mbytes counter name named
		ip saddr @hosts drop
		jump ops
		meta l4proto { icmp, ipv6-icmp } counter comment "gid:` + ruleC + `"
	}
}
`

// load loads a table with nft, as the gateway does.
func load(t testing.TB, s machine, content string) {
	t.Helper()
	for _, c := range []host.Command{nftables.Check, nftables.Load} {
		if _, err := s.Run(t.Context(), c, host.Input{Staged: []host.File{{Place: nftables.Table, Content: []byte(content)}}}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { nftRun(t, "flush", "ruleset") })
}

// nftRun runs nft as an operator would.
func nftRun(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("/usr/sbin/nft", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("nft %s: %v: %s", args, err, out)
	}
	return string(out)
}

func send(t testing.TB, network, addr string, payload string) {
	t.Helper()
	conn, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(payload)); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatal(err)
	}
}

// knock tries to connect to a TCP port on which no program listens.
func knock(t testing.TB, addr string) {
	t.Helper()
	if conn, err := net.DialTimeout("tcp", addr, 2*time.Second); err == nil {
		conn.Close()
		t.Fatalf("a program listens on %s", addr)
	}
}

func ping(t testing.TB, network, addr string, kind byte) {
	t.Helper()
	conn, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := []byte{kind, 0, 0, 0, 0, 1, 0, 1}
	if kind == 8 { // the kernel computes ICMPv6's checksum itself
		sum := ^(uint16(kind)<<8 + 1 + 1)
		request[2], request[3] = byte(sum>>8), byte(sum)
	}
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
}

func TestFilterState(t *testing.T) {
	s := at("")
	state := func() host.FilterState {
		t.Helper()
		got, err := s.FilterState(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := state(); got.Present {
		t.Fatalf("without a table: %+v", got)
	}
	load(t, s, fmt.Sprintf(table, "one"))
	first := state()
	if !first.Present {
		t.Fatalf("state = %+v", first)
	}
	if again := state(); again != first {
		t.Fatalf("nothing has changed, but the state is %+v after %+v", again, first)
	}
	nftRun(t, "add", "table", "ip", "foreign")
	other := state()
	if other.Generation == first.Generation || !other.Present {
		t.Fatalf("after a change elsewhere: %+v after %+v", other, first)
	}
	load(t, s, fmt.Sprintf(table, "two"))
	if got := state(); got.Generation == other.Generation || !got.Present {
		t.Fatalf("after another load: %+v", got)
	}
	nftRun(t, "delete", "table", "inet", "gateway")
	if got := state(); got.Present {
		t.Fatalf("after the table was deleted: %+v", got)
	}
}

func TestFilterRefusesABadTable(t *testing.T) {
	s := at("")
	bad := host.Input{Staged: []host.File{{Place: nftables.Table, Content: []byte("table inet gateway {\n\tfrobnicate\n}\n")}}}
	_, err := s.Run(t.Context(), nftables.Check, bad)
	var exit *host.ExitError
	if !errors.As(err, &exit) || !strings.Contains(err.Error(), "/var/lib/gateway-helper/packet-filter.nft:2:2-11: Error: syntax error") {
		t.Fatalf("err = %v", err)
	}
	// A check changes nothing.
	good := host.Input{Staged: []host.File{{Place: nftables.Table, Content: []byte("table inet gateway {\n}\n")}}}
	if _, err := s.Run(t.Context(), nftables.Check, good); err != nil {
		t.Fatal(err)
	}
	if state, err := s.FilterState(t.Context()); err != nil || state.Present {
		t.Fatalf("after a check: %+v, %v", state, err)
	}
}

func digest(t testing.TB, s machine) string {
	t.Helper()
	got, err := s.FilterDigest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestFilterDigestNoticesEveryHandEdit(t *testing.T) {
	s := at("")
	if got := digest(t, s); got != "" {
		t.Fatalf("a missing table has the digest %q", got)
	}
	content := fmt.Sprintf(table, "x")
	for _, edit := range []string{
		`add rule inet gateway ops udp dport 9 accept`,
		`insert rule inet gateway ops udp dport 9 accept`,
		`flush chain inet gateway ops`,
		`add element inet gateway hosts { 203.0.113.1 }`,
		`delete element inet gateway hosts { 198.51.100.7 }`,
		`add element inet gateway verdicts { 9 : drop }`,
		`delete element inet gateway verdicts { 8 }; add element inet gateway verdicts { 8 : drop }`,
		`add chain inet gateway more`,
		`delete chain inet gateway unused`,
		`add chain inet gateway input { policy drop ; }`,
		`add set inet gateway more { type ipv4_addr ; }`,
		`add counter inet gateway more`,
		`add quota inet gateway more { 1 mbytes ; }`,
		`add table inet gateway { flags dormant ; }`,
		`add rule inet gateway unused counter comment "gid:` + ruleB + `"`,
	} {
		load(t, s, content)
		before := digest(t, s)
		nftRun(t, edit)
		if after := digest(t, s); after == before || after == "" {
			t.Errorf("%s: the digest is %q as before", edit, after)
		}
	}
	// The same table has the same digest, whatever else the kernel has.
	load(t, s, content)
	first := digest(t, s)
	nftRun(t, "add table ip foreign; add chain ip foreign c; add rule ip foreign c accept")
	nftRun(t, "add table inet foreign; add chain inet foreign input; add rule inet foreign input accept; "+
		"add set inet foreign s { type ipv4_addr; }; add counter inet foreign c")
	if got := digest(t, s); got != first {
		t.Error("another table changes the digest")
	}
	load(t, s, content)
	if got := digest(t, s); got != first {
		t.Error("the same table, loaded again, has another digest")
	}
	if load(t, s, fmt.Sprintf(table, "y")); digest(t, s) == first {
		t.Error("another comment of the table has the same digest")
	}
}

func TestFilterDigestIgnoresTraffic(t *testing.T) {
	s := at("")
	load(t, s, fmt.Sprintf(table, "x"))
	before := digest(t, s)
	for range 5 {
		send(t, "udp", "127.0.0.1:4001", "hello")
		knock(t, "127.0.0.1:4002")
		ping(t, "ip4:icmp", "127.0.0.1", 8)
	}
	listing := nftRun(t, "list", "table", "inet", "gateway")
	for _, moved := range []string{
		"127.0.0.1 counter packets 5", "udp dport 4001 counter packets 5", "quota 10 mbytes used 165 bytes", "counter named {\n\t\tpackets 5",
	} {
		if !strings.Contains(listing, moved) {
			t.Fatalf("the traffic did not change %q:\n%s", moved, listing)
		}
	}
	if got := digest(t, s); got != before {
		t.Error("traffic changes the digest")
	}
}

// listed returns the counters that nft lists.
func listed(t testing.TB) map[string]host.FilterCounter {
	t.Helper()
	var doc struct {
		Nftables []struct {
			Rule *struct {
				Comment string
				Expr    []struct{ Counter json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal([]byte(nftRun(t, "-j", "list", "table", "inet", "gateway")), &doc); err != nil {
		t.Fatal(err)
	}
	sums := map[string]host.FilterCounter{}
	for _, x := range doc.Nftables {
		if x.Rule == nil || !strings.HasPrefix(x.Rule.Comment, "gid:") {
			continue
		}
		for _, e := range x.Rule.Expr {
			var n struct{ Packets, Bytes uint64 }
			if json.Unmarshal(e.Counter, &n) == nil { // a named counter is a string
				tag := x.Rule.Comment[4:]
				was := sums[tag]
				sums[tag] = host.FilterCounter{Tag: tag, Packets: was.Packets + n.Packets, Bytes: was.Bytes + n.Bytes}
			}
		}
	}
	return sums
}

func counters(t testing.TB, s machine) map[string]host.FilterCounter {
	t.Helper()
	read, err := s.FilterCounters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byTag := map[string]host.FilterCounter{}
	for _, c := range read.List {
		if _, twice := byTag[c.Tag]; twice {
			t.Errorf("%s is listed twice", c.Tag)
		}
		byTag[c.Tag] = c
	}
	return byTag
}

func TestFilterCounters(t *testing.T) {
	s := at("")
	if got := counters(t, s); len(got) != 0 {
		t.Fatalf("a missing table has counters: %v", got)
	}
	load(t, s, fmt.Sprintf(table, "x"))
	for range 3 {
		send(t, "udp", "127.0.0.1:4001", "hello")
	}
	send(t, "udp", "[::1]:4001", "hello")
	knock(t, "127.0.0.1:4003")
	got := counters(t, s)
	if diff := cmp.Diff(listed(t), got); diff != "" {
		t.Fatalf("nft lists other counters:\n%s", diff)
	}
	want := host.FilterCounter{Tag: ruleA, Packets: 4, Bytes: 3*(20+8+5) + 40 + 8 + 5}
	if got[ruleA] != want || got[ruleB].Packets != 1 || len(got) != 3 {
		t.Errorf("counters = %v", got)
	}
}

// All counters come from the same table, even while it is being replaced.
func TestFilterCountersWhileTheTableIsReplaced(t *testing.T) {
	s := at("")
	render := func(chains int) string {
		var b strings.Builder
		b.WriteString("table inet gateway\ndelete table inet gateway\ntable inet gateway {\n")
		for i := range chains {
			fmt.Fprintf(&b, "\tchain c%d {\n\t\tcounter packets %d bytes 1 comment \"gid:x\"\n\t}\n", i, chains)
		}
		b.WriteString("}\n")
		return b.String()
	}
	load(t, s, render(40))
	tables := []string{t.TempDir() + "/a", t.TempDir() + "/b"}
	for i, n := range []int{40, 41} {
		if err := os.WriteFile(tables[i], []byte(render(n)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	done, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				if out, err := exec.Command("/usr/sbin/nft", "-f", tables[i%2]).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			}
		}
	}()
	defer func() { close(stop); <-done }()
	seen := map[uint64]bool{}
	for deadline, reads := time.Now().Add(time.Minute), 0; len(seen) < 2 || reads < 100; reads++ {
		if time.Now().After(deadline) {
			t.Fatalf("never saw both tables: %v", seen)
		}
		n := counters(t, s)["x"].Packets
		if n != 40*40 && n != 41*41 {
			t.Fatalf("read %d packets, a mixture of two tables", n)
		}
		seen[n] = true
	}
}

func TestFilterDoesNotRunUnderARoot(t *testing.T) {
	s := at(t.TempDir())
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.HasSuffix(err.Error(), "does not run here") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := s.FilterState(t.Context())
	refused("state", err)
	_, err = s.FilterDigest(t.Context())
	refused("digest", err)
	_, err = s.FilterCounters(t.Context())
	refused("counters", err)
	refused("log", s.PacketLog(t.Context(), func([]host.LoggedPacket, uint64) {}))
	for _, c := range []host.Command{nftables.Check, nftables.Load} {
		_, err := s.Run(t.Context(), c, host.Input{Staged: []host.File{{Place: nftables.Table}}})
		refused(string(c), err)
	}
}

func TestFilterEndsWithItsContext(t *testing.T) {
	s := at("")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.FilterCounters(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// follow collects logged packets in the background.
func follow(t *testing.T, s machine) (packets func(n int) []host.LoggedPacket) {
	t.Helper()
	var mu sync.Mutex
	var all []host.LoggedPacket
	ctx, cancel := context.WithCancel(t.Context())
	open, done, more := make(chan struct{}), make(chan error, 1), make(chan struct{}, 1)
	go func() {
		done <- s.PacketLog(ctx, func(batch []host.LoggedPacket, lost uint64) {
			if batch == nil {
				close(open)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, batch...)
			if lost > 0 {
				t.Errorf("lost %d", lost)
			}
			select {
			case more <- struct{}{}:
			default:
			}
		})
	}()
	select {
	case <-open:
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the log ended with %v", err)
		}
	})
	return func(n int) []host.LoggedPacket {
		t.Helper()
		for timeout := time.After(time.Minute); ; {
			mu.Lock()
			got := all
			if len(got) >= n {
				all = nil
				mu.Unlock()
				return got
			}
			mu.Unlock()
			select {
			case <-more:
			case <-timeout:
				t.Fatalf("%d packets instead of %d: %+v", len(got), n, got)
			}
		}
	}
}

const logged = `
table inet gateway {
	chain input {
		type filter hook input priority 0; policy accept;
		udp dport 4001 log prefix "gateway:` + ruleA + `" group 0 accept
		tcp dport 4002 log prefix "gateway:` + ruleB + `" group 0 reject with tcp reset
		icmp type echo-request log prefix "gateway:` + ruleC + `" group 0
		icmpv6 type echo-request log prefix "gateway:` + ruleC + `" group 0
		udp dport 4003 limit rate 1/hour burst 5 packets log prefix "gateway:drop-input" group 0
		udp dport 4003 drop
	}
	chain output {
		type filter hook output priority 0; policy accept;
		udp dport 4004 log prefix "gateway:out" group 0
	}
}
`

func TestPacketLog(t *testing.T) {
	s := at("")
	load(t, s, logged)
	packets := follow(t, s)
	lo4, lo6 := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")
	for _, x := range []struct {
		name string
		send func()
		want host.LoggedPacket
	}{
		{
			"udp", func() { send(t, "udp", "127.0.0.1:4001", "hello") },
			host.LoggedPacket{Prefix: "gateway:" + ruleA, InIndex: 1, Proto: 17, Src: lo4, Dst: lo4, DstPort: 4001, Size: 33},
		},
		{
			"udp on v6", func() { send(t, "udp", "[::1]:4001", "hello") },
			host.LoggedPacket{Prefix: "gateway:" + ruleA, InIndex: 1, Proto: 17, Src: lo6, Dst: lo6, DstPort: 4001, Size: 53},
		},
		{
			"longer than what is copied", func() { send(t, "udp", "127.0.0.1:4001", strings.Repeat("x", 1000)) },
			host.LoggedPacket{Prefix: "gateway:" + ruleA, InIndex: 1, Proto: 17, Src: lo4, Dst: lo4, DstPort: 4001, Size: 1028},
		},
		{
			"tcp", func() { knock(t, "127.0.0.1:4002") },
			host.LoggedPacket{Prefix: "gateway:" + ruleB, InIndex: 1, Proto: 6, Src: lo4, Dst: lo4, DstPort: 4002, Size: 60},
		},
		{
			"tcp on v6", func() { knock(t, "[::1]:4002") },
			host.LoggedPacket{Prefix: "gateway:" + ruleB, InIndex: 1, Proto: 6, Src: lo6, Dst: lo6, DstPort: 4002, Size: 80},
		},
		{
			"icmp", func() { ping(t, "ip4:icmp", "127.0.0.1", 8) },
			host.LoggedPacket{Prefix: "gateway:" + ruleC, InIndex: 1, Proto: 1, Src: lo4, Dst: lo4, Size: 28},
		},
		{
			"icmpv6", func() { ping(t, "ip6:ipv6-icmp", "::1", 128) },
			host.LoggedPacket{Prefix: "gateway:" + ruleC, InIndex: 1, Proto: 58, Src: lo6, Dst: lo6, Size: 48},
		},
		{
			"leaving", func() { send(t, "udp", "127.0.0.1:4004", "hello") },
			host.LoggedPacket{Prefix: "gateway:out", OutIndex: 1, Proto: 17, Src: lo4, Dst: lo4, DstPort: 4004, Size: 33},
		},
	} {
		began := time.Now()
		x.send()
		got := packets(1)
		if len(got) != 1 {
			t.Fatalf("%s: %d packets", x.name, len(got))
		}
		p := got[0]
		if p.Time.Before(began.Add(-time.Second)) || p.Time.After(time.Now().Add(time.Second)) {
			t.Errorf("%s: time %s", x.name, p.Time)
		}
		if hasPorts := p.Proto == 6 || p.Proto == 17; hasPorts != (p.SrcPort != 0) {
			t.Errorf("%s: source port %d", x.name, p.SrcPort)
		}
		p.Time, p.SrcPort = time.Time{}, 0
		if p != x.want {
			t.Errorf("%s:\n%+v, want\n%+v", x.name, p, x.want)
		}
	}
	// The kernel applies the rule's rate limit: of 20 drops, 5 are logged.
	for range 20 {
		send(t, "udp", "127.0.0.1:4003", "x")
	}
	send(t, "udp", "127.0.0.1:4001", "the last")
	got := packets(6)
	if len(got) != 6 || got[4].Prefix != "gateway:drop-input" || got[5].Prefix != "gateway:"+ruleA {
		t.Errorf("%d packets: %+v", len(got), got)
	}
}

func TestPacketLogOrder(t *testing.T) {
	s := at("")
	load(t, s, logged)
	packets := follow(t, s)
	// More packets than fit into one datagram.
	conn, err := net.Dial("udp", "127.0.0.1:4001")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const n = 5000
	for i := range n {
		if _, err := conn.Write(make([]byte, i%500)); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatal(err)
		}
	}
	// A refused write sends nothing. The other packets are logged in order.
	got, last := packets(n/2), -1
	for i, p := range got {
		size := p.Size - 28
		if next := (last + 1) % 500; size != next && size != (next+1)%500 {
			t.Fatalf("packet %d has %d bytes after %d", i, size, last)
		}
		last = size
	}
}

func TestPacketLogHasOneReader(t *testing.T) {
	s := at("")
	follow(t, s)
	err := s.PacketLog(t.Context(), func([]host.LoggedPacket, uint64) { t.Error("the log has two readers") })
	if !errors.Is(err, syscall.EBUSY) || err.Error() != "another program reads packet log group 0: device or resource busy" {
		t.Errorf("err = %v", err)
	}
}

func TestFilterIsNotPermitted(t *testing.T) {
	s := at("")
	var logErr, stateErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread, which loses its capabilities, ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if logErr = unix.Capset(&header, &none[0]); logErr != nil {
			return
		}
		logErr = s.PacketLog(t.Context(), func([]host.LoggedPacket, uint64) { t.Error("the log was opened") })
		_, stateErr = s.FilterState(t.Context())
	}()
	<-done
	if !errors.Is(logErr, syscall.EPERM) || logErr.Error() != "reading packet log group 0 is not permitted: operation not permitted" {
		t.Errorf("log: %v", logErr)
	}
	if !errors.Is(stateErr, syscall.EPERM) {
		t.Errorf("state: %v", stateErr)
	}
}

func BenchmarkFilterCounters(b *testing.B) {
	s := at("")
	for _, x := range []struct{ chains, rules int }{{40, 250}, {10000, 1}} {
		var text strings.Builder
		text.WriteString("table inet gateway\ndelete table inet gateway\ntable inet gateway {\n")
		for i := range x.chains {
			fmt.Fprintf(&text, "\tchain c%d {\n", i)
			for j := range x.rules {
				rule := "\t\tip saddr 192.0.2.1 tcp dport %d counter accept comment \"gid:01890000-0000-7000-8000-%012d\"\n"
				fmt.Fprintf(&text, rule, j+1, i*x.rules+j)
			}
			text.WriteString("\t}\n")
		}
		text.WriteString("}\n")
		load(b, s, text.String())
		b.Run(fmt.Sprintf("%dx%d", x.chains, x.rules), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if read, err := s.FilterCounters(b.Context()); err != nil || len(read.List) != 10000 {
					b.Fatal(len(read.List), err)
				}
			}
		})
		b.Run(fmt.Sprintf("nft-%dx%d", x.chains, x.rules), func(b *testing.B) {
			for b.Loop() {
				if len(listed(b)) != 10000 {
					b.Fatal("nft lists other rules")
				}
			}
		})
	}
}
