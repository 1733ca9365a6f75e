package network

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
)

// unprivileged is the lowest port that every user may listen on.
const unprivileged = 1024

// Listen listens on a port that other sockets may share (SO_REUSEPORT).
func (s *Network) Listen(ctx context.Context, network, address string) (*os.File, error) {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if port, err := strconv.Atoi(text); err != nil || port != 0 && port < unprivileged || network != "tcp" && network != "tcp4" {
		return nil, fmt.Errorf("the gateway may not listen on %s %s", network, address)
	}
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(failed, err)
	}}
	shared.SetMultipathTCP(false) // its sockets accept no BPF filter, which DrainListener needs
	l, err := shared.Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.(*net.TCPListener).File()
}

func (s *Network) DrainListener(_ context.Context, listener *os.File) error {
	raw, err := listener.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) {
		program := unix.SockFprog{Len: uint16(len(dropSYN)), Filter: &dropSYN[0]}
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	})
	return errors.Join(failed, err)
}

// dropSYN drops the first packet of a connection: SYN without ACK, in byte 13 of the TCP header.
var dropSYN = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0x12},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: 0x02},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},
}

// PortUsers finds the processes that receive on a port.
func (s *Network) PortUsers(port int) ([]host.PortUser, error) {
	sockets := map[string]host.PortUser{} // by the target of the links in /proc/PID/fd
	for _, table := range []struct{ file, protocol string }{{"tcp", "TCP"}, {"tcp6", "TCP"}, {"udp", "UDP"}, {"udp6", "UDP"}} {
		// Of this thread: another thread may be in another network namespace.
		content, err := os.ReadFile("/proc/thread-self/net/" + table.file)
		if os.IsNotExist(err) {
			continue // no IPv6
		}
		if err != nil {
			return nil, err
		}
		for inode, user := range portSockets(string(content), table.protocol, port) {
			sockets["socket:["+inode+"]"] = user
		}
	}
	if len(sockets) == 0 {
		return nil, nil
	}
	return holders(sockets)
}

func holders(sockets map[string]host.PortUser) (list []host.PortUser, err error) {
	processes, err := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes {
		descriptors, err := os.ReadDir(dir + "/fd")
		if err != nil {
			continue // it has ended
		}
		for _, d := range descriptors {
			link, _ := os.Readlink(filepath.Join(dir, "fd", d.Name())) // it may have been closed
			user, ok := sockets[link]
			if !ok {
				continue
			}
			delete(sockets, link)
			name, _ := os.ReadFile(dir + "/comm")
			user.PID, _ = strconv.Atoi(filepath.Base(dir))
			user.Program = strings.TrimSpace(string(name))
			list = append(list, user)
		}
	}
	return list, err
}

// listening is the kernel's number of the TCP state LISTEN.
const listening = "0A"

// portSockets returns the sockets of a kernel table that receive on a port, by inode.
func portSockets(table, protocol string, port int) map[string]host.PortUser {
	found := map[string]host.PortUser{}
	for lines := bufio.NewScanner(strings.NewReader(table)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || protocol == "TCP" && f[3] != listening {
			continue
		}
		address, number, _ := strings.Cut(f[1], ":")
		if n, err := strconv.ParseUint(number, 16, 16); err != nil || int(n) != port {
			continue
		}
		if a, ok := kernelAddress(address); ok {
			found[f[9]] = host.PortUser{Protocol: protocol, Address: a, Port: port}
		}
	}
	return found
}

// kernelAddress reads an address in the form of the kernel's tables: 32-bit words in hex, in the machine's byte order.
func kernelAddress(text string) (netip.Addr, bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b)%4 != 0 {
		return netip.Addr{}, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, ok := netip.AddrFromSlice(b)
	return a.Unmap(), ok
}
