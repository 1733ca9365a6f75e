// Package command runs the programs of the closed list.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/files"
)

// environment is the whole environment of a command: it must not see the gateway's.
var environment = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}

// atOnce is how many processes of the same program may run at a time. Further callers wait; other programs do not.
const atOnce = 4

type Commands struct {
	home  home.Home
	files *files.Files

	mu    sync.Mutex
	turns map[string]chan struct{} // semaphores by program; under mu
}

func New(h home.Home, f *files.Files) *Commands {
	return &Commands{home: h, files: f, turns: map[string]chan struct{}{}}
}

// turn waits until another process of the program may run.
func (s *Commands) turn(ctx context.Context, program string) (done func(), err error) {
	s.mu.Lock()
	running := s.turns[program]
	if running == nil {
		running = make(chan struct{}, atOnce)
		s.turns[program] = running
	}
	s.mu.Unlock()
	select {
	case running <- struct{}{}:
		return func() { <-running }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Run runs a command of the closed list, without a shell.
func (s *Commands) Run(ctx context.Context, c host.Command, in host.Input) (host.Output, error) {
	spec, err := c.Spec()
	if err != nil {
		return host.Output{}, err
	}
	if err := checkOperands(spec, in.Args); err != nil {
		return host.Output{}, fmt.Errorf("command %s: %w", c, err)
	}
	if spec.Asks != "" {
		if err := s.home.Here(spec.Asks); err != nil {
			return host.Output{}, err
		}
	}
	if in.Timeout > 0 {
		spec.Timeout = in.Timeout
	}
	done, err := s.turn(ctx, spec.Argv[0])
	if err != nil {
		return host.Output{}, err
	}
	defer done()
	uid, gid := checker(spec.Rights)
	staging, remove, err := s.files.Stage(in.Staged, gid)
	if err != nil {
		return host.Output{}, fmt.Errorf("staging for %s: %w", c, err)
	}
	defer remove()
	argv, err := resolve(spec, staging, in.Staged)
	if err != nil {
		return host.Output{}, fmt.Errorf("command %s: %w", c, err)
	}
	p := program{
		argv: append(argv, in.Args...), env: spec.Env, timeout: spec.Timeout, rights: spec.Rights, uid: uid, gid: gid,
		staged: staging, reads: spec.Reads, writes: spec.Writes,
	}
	out, err := p.run(ctx)
	// A staged file's path is its real path below the staging folder. Without the folder's name, messages have the real path.
	out.Stdout = strings.ReplaceAll(out.Stdout, staging, "")
	out.Stderr = strings.ReplaceAll(out.Stderr, staging, "")
	if err == nil && out.ExitCode != 0 {
		err = &host.ExitError{Command: c, Output: out}
	}
	return out, err
}

func checkOperands(spec host.CommandSpec, args []string) error {
	switch {
	case spec.Operand == nil && len(args) > 0:
		return errors.New("takes no operands")
	case spec.Operand != nil && len(args) != 1:
		return errors.New("takes one operand")
	case spec.Operand != nil:
		return spec.Operand(args[0])
	}
	return nil
}

// resolve replaces {place} arguments with the paths of the staged files.
func resolve(spec host.CommandSpec, staging string, staged []host.File) ([]string, error) {
	paths := map[string]string{}
	for _, f := range staged {
		path := filepath.Join(staging, f.Place.Path())
		paths["{"+string(f.Place)+"}"] = path
		paths["{"+string(f.Place)+"}/.."] = filepath.Dir(path)
	}
	argv := make([]string, len(spec.Argv))
	for i, arg := range spec.Argv {
		argv[i] = arg
		if !strings.HasPrefix(arg, "{") {
			continue
		}
		path, ok := paths[arg]
		if !ok {
			return nil, fmt.Errorf("no staged file for %s", arg)
		}
		argv[i] = path
	}
	return argv, nil
}

type program struct {
	argv    []string
	env     []string // in addition to environment
	timeout time.Duration
	rights  host.Rights
	uid     int // the user, unless rights keep that of this process
	gid     int
	staged  string // the folder with its staged files
	reads   []string
	writes  string
}

// Exec runs a program without a shell, in its own process group, so that a timeout kills its children, too. A non-zero exit status is
// not an error.
func Exec(ctx context.Context, argv []string, timeout time.Duration) (host.Output, error) {
	return program{argv: argv, timeout: timeout}.run(ctx)
}

func (p program) run(ctx context.Context) (host.Output, error) {
	program := filepath.Base(p.argv[0])
	late := fmt.Errorf("%s took longer than %s: %w", program, p.timeout, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, late)
	defer cancel()

	var stdout, stderr capped
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Env, cmd.Dir = slices.Concat(environment, p.env), "/"
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = p.attributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second

	began := time.Now()
	err := p.start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	out := host.Output{Stdout: stdout.String(), Stderr: stderr.String(), Duration: time.Since(began)}
	if cmd.ProcessState != nil {
		out.ExitCode = cmd.ProcessState.ExitCode()
	}
	var exit *exec.ExitError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return out, fmt.Errorf("%s: %w", program, host.ErrNotInstalled)
	case ctx.Err() != nil:
		return out, context.Cause(ctx)
	case errors.As(err, &exit):
		return out, nil
	case err != nil:
		return out, fmt.Errorf("running %s: %w", program, err)
	}
	return out, nil
}

const outputLimit = 1 << 20 // bytes of each output stream that are kept

// capped keeps the first outputLimit bytes and discards the rest, so that the command never blocks.
type capped struct{ kept bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	c.kept.Write(p[:min(len(p), outputLimit-c.kept.Len())])
	return len(p), nil
}

func (c *capped) String() string { return c.kept.String() }
