// Package program runs the programs of a job. Their output is stored with the step that runs them.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/disk"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/job"
)

// environment keeps Debian's programs from asking questions and from restarting other packages' daemons.
var environment = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1"}

// Program is a program that a job runs, without a shell.
type Program struct {
	Argv []string
	Dir  string
	// Env is added to the environment of all such programs.
	Env []string
	// As is the user that runs it; nil for the user of this process.
	As *syscall.Credential
	// In and Out are its standard input and output. Without Out, its output is returned, and stored with the step.
	In, Out *os.File
	// Also is the file that it sees as /proc/self/fd/3; nil for none.
	Also   *os.File
	Within time.Duration
}

// Run runs a program, and returns its standard output if p.Out is nil.
func Run(ctx context.Context, p Program) (string, error) {
	name := filepath.Base(p.Argv[0])
	ctx, cancel := context.WithTimeoutCause(ctx, p.Within, fmt.Errorf("%s took longer than %s", name, p.Within))
	defer cancel()
	fmt.Fprintf(job.Output(ctx), "$ %s\n", strings.Join(p.Argv, " "))
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, p.Argv[0], p.Argv[1:]...)
	cmd.Env, cmd.Dir = append(environment[:len(environment):len(environment)], p.Env...), p.Dir
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	if p.In != nil {
		cmd.Stdin = p.In
	}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&stdout, job.Output(ctx)), io.MultiWriter(&stderr, job.Output(ctx))
	if p.Out != nil {
		cmd.Stdout = p.Out
	}
	if p.Also != nil {
		cmd.ExtraFiles = []*os.File{p.Also}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.As, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return stdout.String(), context.Cause(ctx)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		message := host.FirstLines(stderr.String())
		if message == "" {
			message = exit.Error()
		}
		return stdout.String(), &Failed{name, message}
	}
	return stdout.String(), err
}

// Failed says that a program exited with a status other than zero.
type Failed struct{ Name, Message string }

func (f *Failed) Error() string { return f.Name + ": " + f.Message }

// Into runs a program whose standard output becomes a file. If the program fails, an existing file stays as it is.
func Into(ctx context.Context, path string, p Program) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	p.Out = f
	if _, err := Run(ctx, p); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return disk.Sync(filepath.Dir(path))
}
