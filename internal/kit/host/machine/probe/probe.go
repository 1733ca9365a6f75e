// Package probe runs network diagnostics, such as ping, for an operator.
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

// environment is the whole environment of a program: it must not see the gateway's.
var environment = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}

// ownerless is the user and the group (nobody, nogroup) that run programs if this process is root. They own nothing on Debian.
const ownerless = 65534

type Probes struct{ home home.Home }

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

// endsWithin is how long the output of a killed program may stay open.
const endsWithin = time.Second

// run runs a program without a shell, with no more rights than it needs, in its own process group, so that its children can be killed.
func run(ctx context.Context, spec host.ProbeSpec, sink func(output []byte)) (end host.ProbeEnd, err error) {
	program := filepath.Base(spec.Argv[0])
	out, in, err := os.Pipe()
	if err != nil {
		return end, err
	}
	defer out.Close()
	var stderr child.Tail
	cmd := exec.Command(spec.Argv[0], spec.Argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = environment, "/", in, in
	cmd.WaitDelay = endsWithin
	if spec.Apart {
		cmd.Stderr = &stderr
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
	end.Duration, end.Stderr = time.Since(began), stderr.LastLines()
	end.ExitStatus = cmd.ProcessState.ExitCode()
	if exit, ok := errors.AsType[*exec.ExitError](waited); waited != nil && !ok && !errors.Is(waited, exec.ErrWaitDelay) {
		return end, fmt.Errorf("running %s: %w", program, waited)
	} else if ok {
		if status, signalled := exit.Sys().(syscall.WaitStatus); signalled && status.Signaled() {
			end.ExitStatus = 128 + int(status.Signal()) // as in shells
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

// rights returns the attributes of a program that runs as a user who owns nothing, with raw sockets if it needs them.
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

// permitted reports whether this process can pass on a capability. ping works without raw sockets, too.
func permitted(capability uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[capability/32].Permitted&(1<<(capability%32)) != 0
}

// Disarm clears the ambient capabilities, so that a program inherits none: run grants the one that a program needs.
func Disarm() error {
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0)
	if errno != 0 {
		return fmt.Errorf("clearing the ambient capabilities: %w", errno)
	}
	return nil
}
