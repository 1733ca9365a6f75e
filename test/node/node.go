// Package node boots a bare Debian in systemd-nspawn, with systemd as its first process, and offers it the gateway's package: for the
// tests of the package, and to measure it.
package node

import (
	"bytes"
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/packaging"
)

// Address is the node's address on its WAN, and SecondAddress that of a second node.
const (
	Address       = "198.51.100.2"
	SecondAddress = "198.51.100.3"
)

//go:embed node.sh
var script string

// Node is a Debian with systemd as its first process.
type Node struct {
	outer   *exec.Cmd // ends with the node
	console bytes.Buffer
	folder  string
	cgroup  string
	number  int
	leave   func() // its place on this machine
}

// Boot boots a bare Debian of a release, which packaging/appliance.sh creates. Close ends it.
func Boot(ctx context.Context, release string) (*Node, error) {
	return bootNode(ctx, release, 1)
}

// BootBeside boots a second node on the WAN of this one, which must outlive it. They share a place on this machine.
func (n *Node) BootBeside(ctx context.Context, release string) (*Node, error) {
	return bootNode(ctx, release, 2, "nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", n.outside()))
}

// bootNode boots a node in a new network namespace, or in the one that the command enters.
func bootNode(ctx context.Context, release string, number int, enter ...string) (*Node, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("only root can boot a Debian in systemd-nspawn")
	}
	root, err := packaging.Path("appliance.sh", release)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "gateway-node-")
	if err != nil {
		return nil, err
	}
	n := &Node{folder: folder, cgroup: filepath.Base(folder), number: number, leave: func() {}}
	if number == 1 {
		if n.leave, err = packaging.Place(ctx, folder); err != nil {
			return nil, errors.Join(err, os.Remove(folder))
		}
	}
	argv := append(enter, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
	if number == 1 {
		argv = append(argv, "--net")
	}
	argv = append(argv, "bash", "-c", script, "node.sh", root, n.folder, n.cgroup, strconv.Itoa(number))
	n.outer = exec.Command(argv[0], argv[1:]...)
	n.outer.Stdout, n.outer.Stderr = &n.console, &n.console
	if err := n.outer.Start(); err != nil {
		n.leave()
		return nil, errors.Join(err, os.Remove(folder))
	}
	if err := n.waitBooted(ctx); err != nil {
		return nil, errors.Join(err, n.Close(), fmt.Errorf("console:\n%s", n.Console()))
	}
	return n, nil
}

// Close ends the node, and leaves nothing of it.
func (n *Node) Close() error {
	defer n.leave()
	n.outer.Process.Kill()
	_ = n.outer.Wait() // it was killed
	var errs []error
	for _, hierarchy := range []string{"systemd", "unified"} {
		errs = append(errs, removeGroup(filepath.Join("/sys/fs/cgroup", hierarchy, n.cgroup)))
	}
	return errors.Join(append(errs, os.Remove(n.folder))...)
}

// removeGroup removes a control group and those in it, which takes the kernel a moment after the last process has ended.
func removeGroup(group string) error {
	var folders []string
	_ = filepath.WalkDir(group, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			folders = append(folders, path)
		}
		return nil
	})
	var errs []error
	for i := len(folders) - 1; i >= 0; i-- {
		err := os.Remove(folders[i])
		for deadline := time.Now().Add(10 * time.Second); errors.Is(err, syscall.EBUSY) && time.Now().Before(deadline); err = os.Remove(folders[i]) {
			time.Sleep(10 * time.Millisecond)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Console is the end of the node's output. It is complete when the node has been closed.
func (n *Node) Console() string { return Tail(n.console.String()) }

// Tail is the end of a long text.
func Tail(s string) string { return s[max(0, len(s)-4000):] }

// children are the processes that a process has started.
func children(pid int) (found []int) {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, f := range strings.Fields(string(content)) {
		if child, err := strconv.Atoi(f); err == nil {
			found = append(found, child)
		}
	}
	return found
}

// first is the node's first process, seen from here, or 0 while there is none.
func (n *Node) first() int {
	queue := children(n.outer.Process.Pid)
	for len(queue) > 0 {
		pid := queue[0]
		queue = append(queue[1:], children(pid)...)
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(comm) == "systemd\n" {
			return pid
		}
	}
	return 0
}

// outside is the process whose namespaces are the node's outside.
func (n *Node) outside() int {
	if pids := children(n.outer.Process.Pid); len(pids) > 0 {
		return pids[0]
	}
	return n.outer.Process.Pid
}

// Wait waits for a condition, with a limit for a busy machine.
func Wait(ctx context.Context, what string, within time.Duration, so func() bool) error {
	for deadline := time.Now().Add(4 * within); !so(); time.Sleep(50 * time.Millisecond) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not after %s: %s", 4*within, what)
		}
	}
	return nil
}

func (n *Node) waitBooted(ctx context.Context) error {
	return Wait(ctx, "the node has booted", time.Minute, func() bool {
		out, err := n.Run(ctx, "systemctl", "is-system-running")
		return err == nil || strings.TrimSpace(out) == "degraded"
	})
}

// Reboot reboots the node, and waits until it is back.
func (n *Node) Reboot(ctx context.Context) error {
	before := n.first()
	_, _ = n.Run(ctx, "systemctl", "reboot") // it may end before it answers
	if err := Wait(ctx, "the node goes down", time.Minute, func() bool { pid := n.first(); return pid != 0 && pid != before }); err != nil {
		return err
	}
	return n.waitBooted(ctx)
}

// Cut cuts the node's power as soon as a condition, which gets the node's root, is met: all processes end at once. It
// waits until the node is back. If the condition returns an error, the power stays on.
func (n *Node) Cut(ctx context.Context, when func(root string) (bool, error)) error {
	before := n.first()
	root := fmt.Sprintf("/proc/%d/root", before)
	for now := false; !now; time.Sleep(time.Millisecond) {
		var err error
		if now, err = when(root); err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
	mark, err := os.Create(filepath.Join(fmt.Sprintf("/proc/%d/root", n.outside()), n.folder, "cut"))
	if err != nil {
		return err
	}
	if err := errors.Join(mark.Close(), syscall.Kill(before, syscall.SIGKILL)); err != nil {
		return err
	}
	if err := Wait(ctx, "the node boots again", time.Minute, func() bool { pid := n.first(); return pid != 0 && pid != before }); err != nil {
		return err
	}
	return n.waitBooted(ctx)
}

// Off switches the node off, and calls a function with its root, which is deleted afterwards. mounts is outside of the node.
func (n *Node) Off(ctx context.Context, do func(mounts, root string) error) error {
	mounts, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", n.outside()))
	if err != nil {
		return err
	}
	defer mounts.Close()
	_, _ = n.Run(ctx, "systemctl", "poweroff") // it may end before it answers
	if err := Wait(ctx, "the node is off", time.Minute, func() bool { return n.first() == 0 }); err != nil {
		return err
	}
	return do(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), mounts.Fd()), filepath.Join(n.folder, "root"))
}

// Run runs a command in the node, and returns its output.
func (n *Node) Run(ctx context.Context, argv ...string) (string, error) {
	pid := n.first()
	if pid == 0 {
		return "", errors.New("the node is down")
	}
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", fmt.Sprint(pid), "-a", "--"}, argv...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Sh runs a script in the node, and returns its output.
func (n *Node) Sh(ctx context.Context, script string) (string, error) {
	out, err := n.Run(ctx, "sh", "-ec", script)
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	return strings.TrimSpace(out), nil
}

// Copy copies a file of this machine into the node.
func (n *Node) Copy(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return n.Write(to, content)
}

func (n *Node) Write(path string, content []byte) error {
	path = filepath.Join(fmt.Sprintf("/proc/%d/root", n.first()), path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// OnOutside runs a function on a thread that is on the node's outside. Sockets that it opens belong there.
func (n *Node) OnOutside(do func() error) error { return inNetworkOf(n.outside(), do) }

func inNetworkOf(pid int, do func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		var ns *os.File
		if ns, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", pid)); err != nil {
			return
		}
		defer ns.Close()
		if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
			err = do()
		}
	}()
	<-done
	return err
}

// Dial connects to the node from its outside.
func (n *Node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return DialFrom(ctx, n.outside(), network, address)
}

// DialFrom connects to an address from the network namespace of a process.
func DialFrom(ctx context.Context, pid int, network, address string) (conn net.Conn, err error) {
	err = inNetworkOf(pid, func() error {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}
