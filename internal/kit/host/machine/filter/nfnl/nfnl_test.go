package nfnl

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
)

// ipv6 returns a packet with extension headers, each given with its own kind in the first byte, before the protocol.
func ipv6(proto byte, body []byte, extensions ...[]byte) []byte {
	next := proto
	for i := len(extensions) - 1; i >= 0; i-- {
		x := bytes.Clone(extensions[i])
		kind := x[0]
		x[0] = next
		body, next = append(x, body...), kind
	}
	b := make([]byte, 40, 40+len(body))
	b[0], b[6] = 0x60, next
	binary.BigEndian.PutUint16(b[4:], uint16(len(body)))
	b[23], b[39] = 1, 2
	return append(b, body...)
}

func extension(kind byte, size int, content ...byte) []byte {
	x := make([]byte, size)
	x[0], x[1] = kind, byte(size/8-1)
	copy(x[2:], content)
	return x
}

func TestExtensionHeaders(t *testing.T) {
	ports := []byte{0x0f, 0xa1, 0, 53, 0, 8, 0, 0}
	hop, auth := extension(unix.IPPROTO_HOPOPTS, 8), extension(unix.IPPROTO_AH, 24)
	auth[1] = 4 // its length is in 32-bit words, minus two
	for name, x := range map[string]struct {
		packet   []byte
		proto    uint8
		src, dst uint16
	}{
		"none":               {ipv6(17, ports), 17, 4001, 53},
		"all":                {ipv6(6, ports, hop, extension(unix.IPPROTO_ROUTING, 16), auth, extension(unix.IPPROTO_DSTOPTS, 8)), 6, 4001, 53},
		"first fragment":     {ipv6(17, ports, extension(unix.IPPROTO_FRAGMENT, 8, 0, 1)), 17, 4001, 53},
		"later fragment":     {ipv6(17, ports, extension(unix.IPPROTO_FRAGMENT, 8, 0, 9)), 17, 0, 0},
		"no next header":     {ipv6(unix.IPPROTO_NONE, nil), unix.IPPROTO_NONE, 0, 0},
		"icmpv6":             {ipv6(58, ports), 58, 0, 0},
		"cut within a port":  {ipv6(17, ports)[:43], 17, 0, 0},
		"cut in a header":    {ipv6(17, ports, extension(unix.IPPROTO_HOPOPTS, 16))[:50], 17, 0, 0},
		"header that is cut": {ipv6(17, ports, extension(unix.IPPROTO_HOPOPTS, 16))[:44], unix.IPPROTO_HOPOPTS, 0, 0},
	} {
		var p host.LoggedPacket
		parse(&p, x.packet)
		if p.Proto != x.proto || p.SrcPort != x.src || p.DstPort != x.dst ||
			p.Src != netip.MustParseAddr("::1") || p.Dst != netip.MustParseAddr("::2") {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestIPv4WithOptionsAndFragments(t *testing.T) {
	packet := func(words byte, fragment uint16) []byte {
		b := make([]byte, int(words)*4+8)
		b[0], b[9] = 0x40|words, unix.IPPROTO_TCP
		binary.BigEndian.PutUint16(b[2:], 1500)
		binary.BigEndian.PutUint16(b[6:], fragment)
		copy(b[12:], []byte{192, 0, 2, 1, 192, 0, 2, 2})
		copy(b[int(words)*4:], []byte{0, 22, 0, 23})
		return b
	}
	for name, x := range map[string]struct {
		packet   []byte
		src, dst uint16
	}{
		"plain":             {packet(5, 0), 22, 23},
		"options":           {packet(8, 0), 22, 23},
		"first fragment":    {packet(5, 0x2000), 22, 23},
		"later fragment":    {packet(5, 0x00b9), 0, 0},
		"header is cut off": {packet(15, 0)[:40], 0, 0},
	} {
		var p host.LoggedPacket
		parse(&p, x.packet)
		if p.SrcPort != x.src || p.DstPort != x.dst || p.Proto != 6 || p.Size != 1500 ||
			p.Src.String() != "192.0.2.1" || p.Dst.String() != "192.0.2.2" {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// datagram returns what the kernel sends for packets with these numbers.
func datagram(prefix string, numbers ...uint32) []byte {
	var all []byte
	for _, n := range numbers {
		m := make([]byte, messageLen)
		binary.NativeEndian.PutUint16(m[4:], unix.NFNL_SUBSYS_ULOG<<8|logPacket)
		m = appendAttr(m, logTimestamp, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1700000000), 5))
		m = appendAttr(m, logPrefix, append([]byte(prefix), 0))
		m = appendAttr(m, logPayload, ipv6(17, []byte{0, 1, 0, 2}))
		m = appendAttr(m, logNumber, binary.BigEndian.AppendUint32(nil, n))
		binary.NativeEndian.PutUint32(m, uint32(len(m)))
		all = append(all, m...)
	}
	return all
}

func TestGapsInTheNumbersAreLosses(t *testing.T) {
	r := logReader{prefixes: map[string]string{}}
	for _, x := range []struct {
		numbers []uint32
		lost    uint64
	}{{[]uint32{0, 1, 2}, 0}, {[]uint32{3}, 0}, {[]uint32{14, 15}, 10}, {[]uint32{17}, 1}} {
		if lost := r.read(datagram("p", x.numbers...), time.Now()); lost != x.lost || len(r.batch) != len(x.numbers) {
			t.Errorf("%v: lost %d, %d packets", x.numbers, lost, len(r.batch))
		}
	}
	r.next = 1<<32 - 1
	if lost := r.read(datagram("p", 1<<32-1, 0, 1), time.Now()); lost != 0 {
		t.Errorf("lost %d where the numbers wrap around", lost)
	}
	if p := r.batch[0]; p.Prefix != "p" || !p.Time.Equal(time.Unix(1700000000, 5000)) {
		t.Errorf("%+v", p)
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	r := logReader{prefixes: map[string]string{}, batch: make([]host.LoggedPacket, 0, batchedPackets)}
	d := datagram("gateway:01890000-0000-7000-8000-00000000000a", make([]uint32, 400)...)
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() { r.read(d, now) }); n > 0 {
		t.Errorf("%v allocations for %d packets", n, len(r.batch))
	}
}

// No input causes a panic or an endless loop.
func FuzzHostileMessages(f *testing.F) {
	f.Add(datagram("gateway:x", 1, 2))
	f.Add(ipv6(17, []byte{1, 2, 3, 4}, extension(unix.IPPROTO_HOPOPTS, 8)))
	f.Add(appendAttr(nil, unix.NFTA_RULE_USERDATA, []byte{0, 255, 'g'}))
	f.Add([]byte(`iifname vmap { "lan0" : goto a/b } ip saddr { 10.0.0.0/8, 192.0.2.1-192.0.2.9 } ` +
		`meta l4proto . th dport { tcp . 22, udp . 1-9 } dnat ip6 to [::1]:80-90 comment "x"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := logReader{prefixes: map[string]string{}}
		r.read(b, time.Now())
		var p host.LoggedPacket
		parse(&p, b)
		tally := tally{index: map[string]int{}}
		tally.add(b)
		comment(b)
		new(digester).appendExpressions(nil, b)
		new(digester).appendConfig(nil, b, ruleConfig, nil)
		for m := range messages(b) {
			m.refusal()
		}
		_ = (&batch{table: "t"}).addRule("c", string(b), 0)
	})
}
