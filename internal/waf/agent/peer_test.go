package agent

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// accepted makes a connection and returns its accepting end.
func accepted(t *testing.T, dial func(address string)) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial(l.Addr().String())
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestPeersAreKnownByTheirUser(t *testing.T) {
	own := func(address string) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	// Another user's connection: a shell that holds it until its input ends.
	nobody := func(address string) {
		host, port, _ := net.SplitHostPort(address)
		cmd := exec.Command("bash", "-c", "exec 3<>/dev/tcp/"+host+"/"+port+"; cat")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	}
	log := slog.New(slog.DiscardHandler)
	self := strconv.Itoa(os.Getuid())
	for _, c := range []struct {
		name  string
		dial  func(string)
		users string
		want  bool
	}{
		{"the own user", own, self, true},
		{"by name", own, "root", os.Getuid() == 0},
		{"one of several", own, "nosuchuser," + self, true},
		{"another", own, "65534", false},
		{"no one", own, "", false},
		{"another's connection", nobody, "65534", true},
		{"by its name", nobody, "nobody", true},
		{"another's, where only this one's is taken", nobody, self, false},
	} {
		if got := (&Peers{Users: strings.Split(c.users, ","), Log: log}).Admit(accepted(t, c.dial)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}

	// A socket without a process looks like root's.
	c := accepted(t, func(address string) {
		gone, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		gone.Close()
	})
	_ = c.SetReadDeadline(time.Now().Add(long))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if (&Peers{Users: []string{"0", self}, Log: log}).Admit(c) {
		t.Error("a connection that no one has is let in")
	}
	// Many at once share a read, and each is known.
	peers := &Peers{Users: []string{self}, Log: log}
	var all sync.WaitGroup
	for range 50 {
		c := accepted(t, own)
		all.Go(func() {
			if !peers.Admit(c) {
				t.Error("one of many is not known")
			}
		})
	}
	all.Wait()
	inMemory, other := net.Pipe()
	defer inMemory.Close()
	defer other.Close()
	if (&Peers{Users: []string{"0", self}, Log: log}).Admit(inMemory) {
		t.Error("a connection that is none of TCP's is let in")
	}
}

// In the form of a little-endian machine, like all that the gateway runs on.
func TestSocketUser(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2328 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 1
   1: 0100007F:9C40 0100007F:2328 06 00000000:00000000 00:00000000 00000000     0        0 0
   2: 0100007F:9C41 0100007F:2328 01 00000000:00000000 00:00000000 00000000   111        0 2
   3: 0000000000000000FFFF00000100007F:9C42 0000000000000000FFFF00000100007F:2328 01 00000000:00000000 00:00000000 00000000   112        0 3
   4: 0100007F:2328 0100007F:9C41 01 00000000:00000000 00:00000000 00000000  1001        0 4
   5: short
`
	agent := netip.MustParseAddrPort("127.0.0.1:9000")
	users := map[string]string{}
	socketUsers(strings.NewReader(table), agent, users)
	for port, want := range map[uint16]string{40000: "", 40001: "111", 40002: "112", 40003: ""} {
		uid := ""
		for _, form := range kernelForms(netip.AddrPortFrom(agent.Addr(), port)) {
			uid += users[form]
		}
		if uid != want {
			t.Errorf("%d: %q", port, uid)
		}
	}
}
