// Package vrrptest runs real keepalived nodes, each in its own network namespace, on one bridge with a client.
package vrrptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
)

// Network is the bridge and the client, which share a namespace.
type Network struct {
	hub   *space
	nodes []*Node
}

// space is a network namespace.
type space struct{ file *os.File }

func newSpace() (s *space, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			s, err = here()
		}
	}()
	<-done
	return s, err
}

func here() (*space, error) {
	f, err := os.Open("/proc/thread-self/ns/net")
	return &space{f}, err
}

// path lets other programs enter the namespace.
func (s *space) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.file.Fd()) }

func (s *space) command(name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=" + s.path(), name}, args...)...)
}

// ip runs iproute2 once for each line.
func (s *space) ip(lines ...string) error {
	for _, line := range lines {
		if out, err := s.command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	return nil
}

// do calls f on a thread in the namespace, so that sockets which f opens belong to it.
func (s *space) do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Setns(int(s.file.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err)
		}
		f()
	}()
	<-done
}

// The nodes' own addresses are 10.9.0.1, 10.9.0.2 and so on, and fd09::1, fd09::2.
const (
	VIP  = "10.9.0.9"
	VIP6 = "fd09::9"
	// Link is the name of every node's link to the bridge.
	Link = "vrrp0"
)

func New() (*Network, error) {
	hub, err := newSpace()
	if err != nil {
		return nil, err
	}
	return &Network{hub: hub}, hub.ip("link set lo up", "link add bridge type bridge", "link set bridge up", "addr add 10.9.0.100/24 dev bridge", "addr add fd09::100/64 dev bridge nodad")
}

func (n *Network) Close() {
	for _, x := range n.nodes {
		_ = x.Kill()
		_ = x.Answer(false)
		_ = x.space.command("ip", "link", "del", Link).Run()
		_ = x.space.file.Close()
	}
	_ = n.hub.file.Close()
}

// Node is a machine with a keepalived whose files are below Root. A web server answers on port 80 of all its addresses.
type Node struct {
	Root, Own string
	number    int
	net       *Network
	space     *space
	server    *http.Server

	mu    sync.Mutex
	child *exec.Cmd // under mu; nil while keepalived does not run
	ended chan struct{}
}

// Add connects a new node to the bridge. The node runs in its own namespace, or in the caller's if inside is set.
func (n *Network) Add(root string, inside bool) (x *Node, err error) {
	x = &Node{Root: root, net: n, number: len(n.nodes) + 1}
	x.Own = fmt.Sprintf("10.9.0.%d", x.number)
	if x.space, err = newSpace(); inside {
		x.space, err = here()
	}
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{"etc/keepalived", "run/keepalived"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			return nil, err
		}
	}
	if err := x.space.ip("link set lo up", fmt.Sprintf("link add %s type veth peer name node%d netns %s", Link, x.number, n.hub.path())); err != nil {
		return nil, err
	}
	n.nodes = append(n.nodes, x)
	if err := n.hub.ip(fmt.Sprintf("link set node%d master bridge up", x.number)); err != nil {
		return nil, err
	}
	err = x.space.ip("link set "+Link+" up", fmt.Sprintf("addr add %s/24 dev %s", x.Own, Link), fmt.Sprintf("addr add fd09::%d/64 dev %s nodad", x.number, Link))
	return x, errors.Join(err, x.Answer(true))
}

// Cut removes the node from the bridge, or puts it back. Its link keeps the carrier, but no packets pass.
func (x *Node) Cut(off bool) error {
	if off {
		return x.net.hub.ip(fmt.Sprintf("link set node%d nomaster", x.number))
	}
	return x.net.hub.ip(fmt.Sprintf("link set node%d master bridge", x.number))
}

// Unplug removes the carrier of the node's link, or restores it.
func (x *Node) Unplug(off bool) error {
	if off {
		return x.net.hub.ip(fmt.Sprintf("link set node%d down", x.number))
	}
	return x.net.hub.ip(fmt.Sprintf("link set node%d up", x.number))
}

func (x *Node) IP(line string) error { return x.space.ip(line) }

func (x *Node) Filter(table string) error {
	cmd := x.space.command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader("flush ruleset\n" + table)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Answer starts or stops the node's web server.
func (x *Node) Answer(on bool) (err error) {
	if !on {
		if x.server != nil {
			err = x.server.Close()
			x.server = nil
		}
		return err
	}
	if x.server != nil {
		return nil
	}
	var l net.Listener
	x.space.do(func() { l, err = net.Listen("tcp", ":80") })
	if err != nil {
		return err
	}
	x.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, x.Own) })}
	x.server.SetKeepAlivesEnabled(false)
	go func(s *http.Server) { _ = s.Serve(l) }(x.server)
	return nil
}

func (x *Node) Write(content []byte) error {
	return os.WriteFile(filepath.Join(x.Root, keepalived.Config.Path()), content, 0o644)
}

// Drain makes the node give away its addresses, or stops that.
func (x *Node) Drain(on bool) error {
	content := "0\n"
	if on {
		content = "1\n"
	}
	return os.WriteFile(filepath.Join(x.Root, keepalived.Drain.Path()), []byte(content), 0o644)
}

// Start starts keepalived, and returns when its states pipe exists.
func (x *Node) Start() error {
	spec, err := keepalived.Unit.Spec()
	if err != nil {
		return err
	}
	states := filepath.Join(x.Root, keepalived.States)
	_ = os.Remove(states)
	// keepalived's paths are fixed, so a mount namespace shows it the node's folders.
	script := filepath.Join(x.Root, "start")
	if err := os.WriteFile(script, fmt.Appendf(nil, `#!/bin/sh
mount -t tmpfs none /run && mkdir /run/keepalived && mount --bind %[1]s/run/keepalived /run/keepalived && mount --bind %[1]s/etc/keepalived /etc/keepalived && exec "$@"
`, x.Root), 0o755); err != nil {
		return err
	}
	cmd := x.space.command("unshare", append([]string{"--mount", script}, spec.Argv...)...)
	log, err := os.OpenFile(filepath.Join(x.Root, "keepalived.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	x.mu.Lock()
	x.child, x.ended = cmd, ended
	x.mu.Unlock()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(states); err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("keepalived has ended:\n%s", x.Log())
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("keepalived is not ready:\n%s", x.Log())
		}
	}
}

func (x *Node) Log() string {
	b, _ := os.ReadFile(filepath.Join(x.Root, "keepalived.log"))
	return string(b)
}

// PID returns keepalived's process id; 0 if it does not run.
func (x *Node) PID() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.child == nil {
		return 0
	}
	select {
	case <-x.ended:
		return 0
	default:
		return x.child.Process.Pid
	}
}

func (x *Node) Reload() error { return x.signal(x.PID(), syscall.SIGHUP) }

// Stop shuts keepalived down in an orderly way.
func (x *Node) Stop() error {
	pid := x.PID()
	if pid == 0 {
		return nil
	}
	return errors.Join(x.signal(pid, syscall.SIGTERM), x.wait())
}

// Kill kills keepalived and its child, so that neither announces that it leaves.
func (x *Node) Kill() error {
	pid := x.PID()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil // not running
	}
	all := append(strings.Fields(string(children)), fmt.Sprint(pid))
	// Stop them first: a child that notices its parent's death would leave in an orderly way.
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, one := range all {
			if n, err := strconv.Atoi(one); err == nil {
				_ = syscall.Kill(n, s)
			}
		}
	}
	return x.wait()
}

func (x *Node) wait() error {
	select {
	case <-x.ended:
		return nil
	case <-time.After(time.Minute):
		return errors.New("keepalived does not end")
	}
}

func (x *Node) signal(pid int, s syscall.Signal) error {
	if pid == 0 {
		return daemon.ErrNotRunning
	}
	return syscall.Kill(pid, s)
}

func (x *Node) Has(address string) (has bool) {
	want := netip.MustParseAddr(address)
	x.space.do(func() {
		list, _ := net.InterfaceAddrs()
		for _, a := range list {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == want {
				has = true
			}
		}
	})
	return has
}

// Prober polls the virtual address as the client.
type Prober struct {
	cancel context.CancelFunc
	done   chan struct{}
	// Asked and Lost count requests. A failed request is repeated once before it counts as lost: if the address moves while a
	// connection is open, the new node does not know the connection.
	Asked, Lost int
	// Longest is the longest time between two answers, and From the node that gave the last one.
	Longest time.Duration
	From    string
}

// Probe polls until End. within bounds each answer; the kernel repeats a lost SYN only after a second.
func (n *Network) Probe(within time.Duration) *Prober {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Prober{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		n.hub.do(func() { p.run(ctx, within) })
	}()
	return p
}

func (p *Prober) End() { p.cancel(); <-p.done }

func (p *Prober) run(ctx context.Context, within time.Duration) {
	for last := time.Now(); ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		from, err := ask(within)
		if err != nil {
			from, err = ask(within)
		}
		p.Asked++
		if err != nil {
			p.Lost++
			continue
		}
		now := time.Now()
		p.Longest, last, p.From = max(p.Longest, now.Sub(last)), now, from
	}
}

// ask must run on a thread in the client's namespace.
func ask(within time.Duration) (string, error) {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(VIP, "80"), within)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(within))
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\nHost: a\r\n\r\n"); err != nil {
		return "", err
	}
	b, err := io.ReadAll(conn)
	_, body, ok := strings.Cut(string(b), "\r\n\r\n")
	if err == nil && !ok {
		err = errors.New("no answer")
	}
	return body, err
}
