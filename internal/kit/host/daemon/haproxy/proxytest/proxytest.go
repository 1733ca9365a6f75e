// Package proxytest runs a real HAProxy below a folder, for tests: the root folder of a machine.Machine.
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

// Own is the machine's HAProxy.
const Own = "/usr/sbin/haproxy"

// Next is the HAProxy of the next Debian, which speaks HTTP/3. A test that needs it fails without it.
func Next(t testing.TB) string {
	t.Helper()
	path, err := packaging.Path("haproxy3.sh")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Root makes a folder that an HAProxy can run below. Its user can reach it, and its path leaves room for sockets.
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

// Address is one on loopback that nobody listens on.
func Address(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// AdminSocket is where the worker of an HAProxy below a root answers. Its configuration must say so.
func AdminSocket(root string) string { return filepath.Join(root, "run/haproxy/admin.sock") }

// Process is a running HAProxy.
type Process struct {
	cmd   *exec.Cmd
	ended <-chan error
	gone  bool
}

// Start runs an HAProxy with the configuration at its usual place below the root, and returns when it serves. It ends with the
// test.
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
			said, _ := os.ReadFile(log.Name())
			t.Logf("haproxy said:\n%s", said)
		}
	})
	waittest.UntilNil(t, "HAProxy listens", func() error { _, err := os.Stat(AdminSocket(root)); return err })
	return p
}

// Stop ends it with a signal, and returns when it is gone.
func (p *Process) Stop(signal syscall.Signal) {
	if p.gone {
		return
	}
	p.gone = true
	_ = p.cmd.Process.Signal(signal)
	<-p.ended
}
