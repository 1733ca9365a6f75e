// Package probe runs the programs that look at the network for an operator.
package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/child"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

// environment is all that a program sees of ours.
var environment = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}

// ownerless is the user and the group that programs run as when this process is root: those that own nothing on a Debian.
const ownerless = 65534

// Probes runs the programs.
type Probes struct{ home home.Home }

// New returns the probes of a machine.
func New(h home.Home) *Probes { return &Probes{h} }

func (s *Probes) Probe(ctx context.Context, p host.Probe, sink func(output []byte)) (host.ProbeEnd, error) {
	spec, err := p.Spec()
	if err != nil {
		return host.ProbeEnd{}, err
	}
	if p.Tool == host.ProbeCapture {
		if err := s.home.Here("packet capture"); err != nil {
			return host.ProbeEnd{}, err
		}
	}
	return run(ctx, spec, sink)
}

var errTooLong = errors.New("it took too long")

// endsWithin is how long a program that was ended may keep its output open.
const endsWithin = time.Second

// run runs a program in a process group of its own, without a shell and with no more rights than it needs.
func run(ctx context.Context, spec host.ProbeSpec, sink func(output []byte)) (end host.ProbeEnd, err error) {
	program := filepath.Base(spec.Argv[0])
	out, in, err := os.Pipe()
	if err != nil {
		return end, err
	}
	defer out.Close()
	var said child.Tail
	cmd := exec.Command(spec.Argv[0], spec.Argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = environment, "/", in, in
	cmd.WaitDelay = endsWithin
	if spec.Apart {
		cmd.Stderr = &said
	}
	cmd.SysProcAttr = rights(spec.Raw)
	began := time.Now()
	err = cmd.Start()
	in.Close()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return end, fmt.Errorf("%s: %w", program, host.ErrNotInstalled)
	case err != nil:
		return end, fmt.Errorf("starting %s: %w", program, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, spec.Within, errTooLong)
	defer cancel()
	kill := func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = out.SetReadDeadline(time.Now().Add(endsWithin))
	}
	stop := context.AfterFunc(ctx, kill)
	left := spec.Most
	for buffer := make([]byte, 32<<10); ; {
		n, err := out.Read(buffer)
		if int64(n) > left {
			n, end.Truncated = int(left), true
		}
		if n > 0 && ctx.Err() == nil {
			sink(buffer[:n])
			left -= int64(n)
		}
		if end.Truncated {
			kill()
		}
		if err != nil || end.Truncated {
			break
		}
	}
	waited := cmd.Wait()
	stop()
	end.Duration, end.Stderr = time.Since(began), said.LastLines()
	end.ExitStatus = cmd.ProcessState.ExitCode()
	if exit, ok := errors.AsType[*exec.ExitError](waited); waited != nil && !ok && !errors.Is(waited, exec.ErrWaitDelay) {
		return end, fmt.Errorf("running %s: %w", program, waited)
	} else if ok {
		if status, signalled := exit.Sys().(syscall.WaitStatus); signalled && status.Signaled() {
			end.ExitStatus = 128 + int(status.Signal()) // as shells have it
		}
	}
	switch cause := context.Cause(ctx); {
	case end.Truncated:
	case errors.Is(cause, errTooLong):
		end.TimedOut = true
	case cause != nil:
		return end, cause
	}
	return end, nil
}

// rights are those of a program: a user who owns nothing, and raw sockets where they are needed.
func rights(raw bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: ownerless, Gid: ownerless}
	}
	if raw && permitted(unix.CAP_NET_RAW) {
		attr.AmbientCaps = []uintptr{unix.CAP_NET_RAW}
	}
	return attr
}

// permitted tells whether this process has a capability that it can give. Where it has not, ping can do without.
func permitted(capability uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[capability/32].Permitted&(1<<(capability%32)) != 0
}

// Disarm keeps the programs that this process starts from inheriting its capabilities: those that need one get it.
func Disarm() error {
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0)
	if errno != 0 {
		return fmt.Errorf("giving up what programs would inherit: %w", errno)
	}
	return nil
}
