package network

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

func local(a net.Addr) netip.AddrPort { return netip.MustParseAddrPort(a.String()) }

// The sockets that receive on a port are found, with their addresses and programs.
func TestPortUsers(t *testing.T) {
	s := New(home.Home{})
	program, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	name := string(program[:len(program)-1])
	for _, want := range []host.PortUser{
		{Protocol: "TCP", Address: local(tcp.Addr()).Addr(), Port: int(local(tcp.Addr()).Port()), PID: os.Getpid(), Program: name},
		{Protocol: "UDP", Address: local(udp.LocalAddr()).Addr(), Port: int(local(udp.LocalAddr()).Port()), PID: os.Getpid(), Program: name},
	} {
		users, err := s.PortUsers(want.Port)
		if err != nil || len(users) != 1 || users[0] != want {
			t.Errorf("%+v instead of %+v, %v", users, want, err)
		}
	}
	tcp.Close()
	if users, err := s.PortUsers(tcp.Addr().(*net.TCPAddr).Port); err != nil || len(users) != 0 {
		t.Errorf("after the listener was closed: %+v, %v", users, err)
	}
}
