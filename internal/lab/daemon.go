package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/child"
)

const (
	readyTimeout = time.Minute            // for a daemon to become ready
	settleTime   = 200 * time.Millisecond // for a daemon without a ready file to fail
)

// daemon is a running process of a unit.
type daemon struct {
	spec host.UnitSpec
	cmd  *exec.Cmd
	done chan struct{}
	err  error // why it ended; set before done is closed
}

// launchDaemon starts a unit as a plain process and returns when it is ready.
func launchDaemon(ctx context.Context, spec host.UnitSpec, root string, env []string, log io.Writer) (*daemon, error) {
	for _, f := range spec.Folders {
		if err := makeFolder(filepath.Join(root, f.Path), f); err != nil {
			return nil, err
		}
	}
	ready := ""
	if spec.Ready != "" {
		ready = filepath.Join(root, spec.Ready)
		// The file of an earlier process says nothing about this one.
		if err := os.Remove(ready); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	d, err := startDaemon(spec, env, log)
	if err != nil {
		return nil, err
	}
	if err := d.waitReady(ctx, ready); err != nil {
		_ = d.Stop()
		return nil, err
	}
	return d, nil
}

// startDaemon starts the process of a unit without waiting for anything.
func startDaemon(spec host.UnitSpec, env []string, log io.Writer) (*daemon, error) {
	output := &child.Tail{Next: log}
	cmd := exec.Command(spec.Argv[0], spec.Argv[1:]...)
	cmd.Env, cmd.Dir = env, "/"
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = time.Second
	ended, err := child.Start(cmd, syscall.SIGKILL)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", filepath.Base(spec.Argv[0]), host.ErrNotInstalled)
	} else if err != nil {
		return nil, err
	}
	d := &daemon{spec: spec, cmd: cmd, done: make(chan struct{})}
	go func() {
		d.err = exitReason(<-ended, output)
		close(d.done)
	}()
	return d, nil
}

// errEnded is the reason of a process that has exited successfully.
var errEnded = errors.New("exited without an error")

// exitReason adds the last lines of a process's output to the reason of its end: the last line alone is often not enough.
func exitReason(err error, output *child.Tail) error {
	if err == nil {
		err = errEnded
	}
	if words := output.LastLines(); words != "" {
		return fmt.Errorf("%w: %s", err, words)
	}
	return err
}

// waitReady waits for the file that says that the daemon is ready.
func (d *daemon) waitReady(ctx context.Context, file string) error {
	deadline := time.After(readyTimeout)
	if file == "" {
		deadline = time.After(settleTime)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-d.done:
			return d.err
		case <-deadline:
			if file == "" {
				return nil
			}
			return fmt.Errorf("not ready after %s: no %s", readyTimeout, file)
		case <-tick.C:
			if file == "" {
				continue
			}
			if _, err := os.Stat(file); err == nil {
				return nil
			}
		}
	}
}

func (d *daemon) PID() int { return d.cmd.Process.Pid }

// Done is closed when the process has ended.
func (d *daemon) Done() <-chan struct{} { return d.done }

// Err returns, after Done, why it ended.
func (d *daemon) Err() error { return d.err }

// Stop ends the process and returns when it is gone.
func (d *daemon) Stop() error {
	d.cmd.Process.Signal(d.spec.Stop)
	select {
	case <-d.done:
		return nil
	case <-time.After(d.spec.Grace):
	}
	d.cmd.Process.Kill()
	<-d.done
	return fmt.Errorf("%s did not stop in time and was killed", d.spec.Unit)
}
