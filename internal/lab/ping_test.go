package lab_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

var pingTarget = flag.String("ping", "", "the address that TestPing pings, from wherever it runs")

// TestPing sends echo requests until one is answered. Other tests run it inside labs.
func TestPing(t *testing.T) {
	if *pingTarget == "" {
		return // it has a target only inside a lab
	}
	addr := netip.MustParseAddr(*pingTarget)
	family, protocol, request, reply, skip := unix.AF_INET6, unix.IPPROTO_ICMPV6, byte(128), byte(129), 0
	var to unix.Sockaddr = &unix.SockaddrInet6{Addr: addr.As16()}
	if addr.Is4() {
		family, protocol, request, reply, skip = unix.AF_INET, unix.IPPROTO_ICMP, 8, 0, 20 // received packets include the IP header
		to = &unix.SockaddrInet4{Addr: addr.As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW, protocol)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		t.Fatal(err)
	}
	const id = 0x1ab0
	packet := []byte{request, 0, 0, 0, id >> 8, id & 0xff, 0, 1}
	if addr.Is4() { // the kernel fills in that of IPv6
		binary.BigEndian.PutUint16(packet[2:], checksum(packet))
	}
	buf := make([]byte, 1500)
	for range 60 {
		if err := unix.Sendto(fd, packet, 0, to); err != nil {
			t.Fatalf("sending to %s: %v", addr, err)
		}
		for {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			if err != nil {
				t.Fatalf("no reply from %s: %v", addr, err)
			}
			if p := buf[min(skip, n):n]; len(p) >= 8 && p[0] == reply && binary.BigEndian.Uint16(p[4:]) == id {
				return
			}
		}
	}
	t.Fatalf("no reply from %s", addr)
}

// checksum returns the internet checksum of an even number of bytes.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 0; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	return ^uint16(sum + sum>>16)
}
