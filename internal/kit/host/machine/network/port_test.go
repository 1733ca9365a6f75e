package network

import (
	"net"
	"os"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

// Whoever receives on a port is found, with the address and the program.
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
		{Protocol: "TCP", Address: tcp.Addr().(*net.TCPAddr).AddrPort().Addr(), Port: tcp.Addr().(*net.TCPAddr).Port, PID: os.Getpid(), Program: name},
		{Protocol: "UDP", Address: udp.LocalAddr().(*net.UDPAddr).AddrPort().Addr(), Port: udp.LocalAddr().(*net.UDPAddr).Port, PID: os.Getpid(), Program: name},
	} {
		users, err := s.PortUsers(want.Port)
		if err != nil || len(users) != 1 || users[0] != want {
			t.Errorf("%+v instead of %+v, %v", users, want, err)
		}
	}
	tcp.Close()
	if users, err := s.PortUsers(tcp.Addr().(*net.TCPAddr).Port); err != nil || len(users) != 0 {
		t.Errorf("nobody listens any more: %+v, %v", users, err)
	}
}
