// Package proxytest runs a real HAProxy for tests, with its files below the root folder of a machine.Machine.
package proxytest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"edge.internal/gateway/internal/kit/host/child"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/packaging"
)

const Own = "/usr/sbin/haproxy"

// Next returns the path of the next Debian's HAProxy, which supports HTTP/3. Without it the test fails.
func Next(t testing.TB) string {
	t.Helper()
	path, err := packaging.Path("haproxy3.sh")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Root creates a folder for an HAProxy. Its path is short, because that of a socket is limited, and HAProxy's user can enter it.
func Root(t testing.TB) string {
	t.Helper()
	root, err := os.MkdirTemp("", "haproxy-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"run/haproxy", "run/gateway-haproxy", "run/gateway", "etc/haproxy/gateway"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// Address returns a free address on loopback.
func Address(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// AdminSocket returns the path that the configuration must give the worker's socket.
func AdminSocket(root string) string { return filepath.Join(root, "run/haproxy/admin.sock") }

type Process struct {
	cmd   *exec.Cmd
	ended <-chan error
	gone  bool
}

// Start runs HAProxy with the installed configuration, and returns when it serves. It ends with the test.
func Start(t testing.TB, program, root string) *Process {
	t.Helper()
	log, err := os.Create(filepath.Join(root, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := os.Remove(AdminSocket(root)); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-W", "-S", filepath.Join(root, haproxy.MasterSocket), "-p", filepath.Join(root, haproxy.PIDFile),
		"-f", filepath.Join(root, "etc/haproxy/gateway/haproxy.cfg"))
	cmd.Stdout, cmd.Stderr = log, log
	ended, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{cmd: cmd, ended: ended}
	t.Cleanup(func() {
		p.Stop(syscall.SIGTERM)
		if t.Failed() {
			output, _ := os.ReadFile(log.Name())
			t.Logf("haproxy's output:\n%s", output)
		}
	})
	// The file of the socket exists a moment before HAProxy listens on it.
	waittest.UntilNil(t, "HAProxy listens", func() error {
		conn, err := net.Dial("unix", AdminSocket(root))
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return p
}

// Stop sends the signal, and returns when HAProxy is gone.
func (p *Process) Stop(signal syscall.Signal) {
	if p.gone {
		return
	}
	p.gone = true
	_ = p.cmd.Process.Signal(signal)
	<-p.ended
}
