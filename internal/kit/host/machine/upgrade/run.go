package upgrade

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

	"edge.internal/gateway/internal/kit/host"
)

// environment keeps Debian's programs from asking questions and from restarting daemons of others.
var environment = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1"}

// program is one program that an upgrade runs. There is no shell.
type program struct {
	argv []string
	dir  string
	// as is whom it runs as; nil for root.
	as *syscall.Credential
	// in and out are its standard input and output. Without out, what it says belongs to the step's output.
	in, out *os.File
	within  time.Duration
}

// run runs a program, and returns what it said on its standard output, unless that goes elsewhere.
func run(ctx context.Context, p program) (string, error) {
	name := filepath.Base(p.argv[0])
	ctx, cancel := context.WithTimeoutCause(ctx, p.within, fmt.Errorf("%s took longer than %s", name, p.within))
	defer cancel()
	fmt.Fprintf(output(ctx), "$ %s\n", strings.Join(p.argv, " "))
	var said, complained bytes.Buffer
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Env, cmd.Dir = environment, p.dir
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	if p.in != nil {
		cmd.Stdin = p.in
	}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&said, output(ctx)), io.MultiWriter(&complained, output(ctx))
	if p.out != nil {
		cmd.Stdout = p.out
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return said.String(), context.Cause(ctx)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		words := host.FirstLines(complained.String())
		if words == "" {
			words = exit.Error()
		}
		return said.String(), &failed{name: name, words: words}
	}
	return said.String(), err
}

// failed is a program that ended with a status other than zero.
type failed struct{ name, words string }

func (f *failed) Error() string { return f.name + ": " + f.words }

// into runs a program whose standard output becomes a file, which is there whole or not at all.
func into(ctx context.Context, path string, p program) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	p.out = f
	if _, err := run(ctx, p); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
