package agent

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/user"
	"slices"
	"strings"
	"sync"
	"time"
)

// Peers lets in connections by whose they are. Every local user reaches the agent's port, and what is asked there takes the time of
// those who have a right to ask, and ends as a record.
type Peers struct {
	// Users are those who may ask, by name or number.
	Users []string
	Log   *slog.Logger

	mu    sync.Mutex
	begun time.Time         // when the kernel's tables were last read
	here  netip.AddrPort    // the end of the connections that were looked for
	users map[string]string // whose their other ends are, by the form that the kernel's tables have
}

// Admit tells whether the other end of a connection belongs to one of the users. If that cannot be found out, it does not.
func (p *Peers) Admit(c net.Conn) bool {
	uid, err := p.user(c)
	if err != nil {
		p.Log.Debug("whose connection it is cannot be found out", "peer", c.RemoteAddr().String(), "err", err)
		return false
	}
	return slices.ContainsFunc(p.Users, func(name string) bool {
		if name == uid {
			return true
		}
		u, err := user.Lookup(name) // each time: HAProxy's package may come later
		return err == nil && u.Uid == uid
	})
}

// user is the number of the user who has the other end of a connection on this machine. The kernel's tables may be long, and a HAProxy that
// has just started opens many connections: those that were there before a look share it.
func (p *Peers) user(c net.Conn) (string, error) {
	here, err := endpoint(c.LocalAddr())
	if err != nil {
		return "", err
	}
	there, err := endpoint(c.RemoteAddr())
	if err != nil {
		return "", err
	}
	since := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun.After(since) || p.here != here {
		p.begun, p.here, p.users = time.Now(), here, map[string]string{}
		for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
			f, err := os.Open(table)
			if err != nil {
				continue // without IPv6
			}
			socketUsers(f, here, p.users)
			f.Close()
		}
	}
	for _, form := range kernelForms(there) {
		if uid, ok := p.users[form]; ok {
			return uid, nil
		}
	}
	return "", fmt.Errorf("the kernel has no socket from %s to %s", there, here)
}

func endpoint(a net.Addr) (netip.AddrPort, error) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%s is no address of TCP", a)
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), nil
}

// established is the state of a socket that a process has and both sides use. One that its process has closed has no owner any more,
// and the kernel shows it as root's.
const established = "01"

// socketUsers finds, in a table of the kernel's, whose the sockets are that lead to an address.
func socketUsers(table io.Reader, remote netip.AddrPort, users map[string]string) {
	to := kernelForms(remote)
	for lines := bufio.NewScanner(table); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) > 7 && f[3] == established && slices.Contains(to, f[2]) {
			users[f[1]] = f[7]
		}
	}
}

// kernelForms are the ways in which the kernel's tables have an end of a connection: words of 32 bits in the machine's order, in hex,
// and IPv4 also as a part of IPv6.
func kernelForms(at netip.AddrPort) []string {
	words := func(b []byte) string {
		var text strings.Builder
		for ; len(b) > 0; b = b[4:] {
			fmt.Fprintf(&text, "%08X", binary.NativeEndian.Uint32(b))
		}
		return fmt.Sprintf("%s:%04X", text.String(), at.Port())
	}
	long := at.Addr().As16()
	forms := []string{words(long[:])}
	if at.Addr().Is4() {
		short := at.Addr().As4()
		forms = append(forms, words(short[:]))
	}
	return forms
}
