package network

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/kit/host"
)

// PortUsers reads the kernel's tables of sockets, and finds the processes that hold them.
func (s *Network) PortUsers(port int) ([]host.PortUser, error) {
	sockets := map[string]host.PortUser{} // by the link that a process has to it
	for _, table := range []struct{ file, protocol string }{{"tcp", "TCP"}, {"tcp6", "TCP"}, {"udp", "UDP"}, {"udp6", "UDP"}} {
		content, err := os.ReadFile("/proc/thread-self/net/" + table.file) // of the thread: another one may be in another network namespace
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

// holders finds the processes that hold sockets.
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

// listening is the state of a TCP socket that waits for connections.
const listening = "0A"

// portSockets are the sockets of one of the kernel's tables that receive on a port, by inode.
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

// kernelAddress reads an address as the kernel's tables have it: words of 32 bits in the machine's order, in hex.
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
