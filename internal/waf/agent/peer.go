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

// Peers admits connections by their user. Every local user can reach the agent's port, but questions cost time and end as records, so
// only permitted users may ask.
type Peers struct {
	// Users lists the permitted users, by name or number.
	Users []string
	Log   *slog.Logger

	mu    sync.Mutex
	begun time.Time         // when the kernel's tables were last read
	here  netip.AddrPort    // our end of the connections that were looked up
	users map[string]string // users of the other ends, by the form in the kernel's tables
}

// Admit reports whether the other end of a connection belongs to a permitted user. If that cannot be determined, it does not.
func (p *Peers) Admit(c net.Conn) bool {
	uid, err := p.user(c)
	if err != nil {
		p.Log.Debug("the user of a connection cannot be determined", "peer", c.RemoteAddr().String(), "err", err)
		return false
	}
	return slices.ContainsFunc(p.Users, func(name string) bool {
		if name == uid {
			return true
		}
		u, err := user.Lookup(name) // each time: HAProxy's package may be installed later
		return err == nil && u.Uid == uid
	})
}

// user returns the user id of the local process at the other end of a connection. The kernel's tables may be long, and a HAProxy that has
// just started opens many connections: those that existed before a read share it.
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

// established is the state of a socket in use by its process and both sides. A socket closed by its process has no owner any more, and
// the kernel shows it as root's.
const established = "01"

// socketUsers finds the users of the sockets connected to an address in a table of the kernel.
func socketUsers(table io.Reader, remote netip.AddrPort, users map[string]string) {
	to := kernelForms(remote)
	for lines := bufio.NewScanner(table); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) > 7 && f[3] == established && slices.Contains(to, f[2]) {
			users[f[1]] = f[7]
		}
	}
}

// kernelForms returns the forms of an address in the kernel's tables: 32-bit words in the machine's byte order, in hex, and IPv4 also
// mapped into IPv6.
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
