package appliance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// address is the node's on its WAN.
const address = "198.51.100.2"

// node is a Debian with systemd as its first process.
type node struct {
	outer   *exec.Cmd // ends with the node
	console *bytes.Buffer
	folder  string
}

// boot boots a bare Debian, which goes with the test.
func boot(t *testing.T, release string) *node {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("only root can boot a Debian in systemd-nspawn")
	}
	root, err := filepath.Abs("../../.cache/appliance/" + release)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); err != nil {
		t.Fatalf("%v: run packaging/appliance.sh %s first", err, release)
	}
	n := &node{console: new(bytes.Buffer), folder: t.TempDir()}
	cgroup := fmt.Sprintf("gateway-appliance-%d", os.Getpid())
	n.outer = exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "./node.sh", root, n.folder, cgroup)
	n.outer.Stdout, n.outer.Stderr = n.console, n.console
	if err := n.outer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("console:\n%s", tail(n.console.String()))
		}
		n.outer.Process.Kill()
		n.outer.Wait()
		for _, hierarchy := range []string{"systemd", "unified"} {
			removeGroup(t, filepath.Join("/sys/fs/cgroup", hierarchy, cgroup))
		}
	})
	n.waitBooted(t)
	return n
}

// removeGroup removes a group of processes and those in it, which takes the kernel a moment after the last process has gone.
func removeGroup(t *testing.T, group string) {
	t.Helper()
	var folders []string
	filepath.WalkDir(group, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			folders = append(folders, path)
		}
		return nil
	})
	for i := len(folders) - 1; i >= 0; i-- {
		err := os.Remove(folders[i])
		for deadline := time.Now().Add(10 * time.Second); errors.Is(err, syscall.EBUSY) && time.Now().Before(deadline); err = os.Remove(folders[i]) {
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

// children are the processes that a process has started.
func children(pid int) (found []int) {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, f := range strings.Fields(string(content)) {
		var child int
		fmt.Sscan(f, &child)
		found = append(found, child)
	}
	return found
}

// first is the node's first process, seen from here, or 0 while there is none.
func (n *node) first() int {
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
func (n *node) outside() int {
	if pids := children(n.outer.Process.Pid); len(pids) > 0 {
		return pids[0]
	}
	return n.outer.Process.Pid
}

// poll waits until something is so, for as long as a busy machine needs.
func poll(t *testing.T, what string, within time.Duration, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(4 * within); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after %s: %s", 4*within, what)
		}
	}
}

func (n *node) waitBooted(t *testing.T) {
	t.Helper()
	poll(t, "the node has booted", time.Minute, func() bool {
		out, err := n.run(t.Context(), "systemctl", "is-system-running")
		return err == nil || strings.TrimSpace(out) == "degraded"
	})
}

// reboot reboots the node, and waits until it is back.
func (n *node) reboot(t *testing.T) {
	t.Helper()
	before := n.first()
	n.run(t.Context(), "systemctl", "reboot")
	poll(t, "the node goes down", time.Minute, func() bool { pid := n.first(); return pid != 0 && pid != before })
	n.waitBooted(t)
}

// off switches the node off, and does something with its root, which is gone afterwards. The mounts are those of its outside.
func (n *node) off(t *testing.T, do func(mounts string)) {
	t.Helper()
	mounts, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", n.outside()))
	if err != nil {
		t.Fatal(err)
	}
	defer mounts.Close()
	n.run(t.Context(), "systemctl", "poweroff")
	poll(t, "the node is off", time.Minute, func() bool { return n.first() == 0 })
	do(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), mounts.Fd()))
}

func (n *node) run(ctx context.Context, argv ...string) (string, error) {
	pid := n.first()
	if pid == 0 {
		return "", errors.New("the node is down")
	}
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", fmt.Sprint(pid), "-a", "--"}, argv...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// copy copies a file of this machine into the node.
func (n *node) copy(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	n.write(t, to, content)
}

// write writes a file in the node.
func (n *node) write(t *testing.T, path string, content []byte) {
	t.Helper()
	path = filepath.Join(fmt.Sprintf("/proc/%d/root", n.first()), path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// inNetworkOf runs a function on a thread that is in the network namespace of a process. Sockets that it opens belong there.
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

// dialFrom connects to an address from the network namespace of a process.
func dialFrom(ctx context.Context, pid int, network, address string) (conn net.Conn, err error) {
	err = inNetworkOf(pid, func() error {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

func (n *node) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return dialFrom(ctx, n.outside(), network, address)
}
