package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/value"
)

// Command is one program that the gateway runs, with its arguments.
type Command string

// The commands, by daemon.
const (
	ChronyCheck    Command = "chrony.check"    // does the staged ChronyDropIn parse?
	ChronyTracking Command = "chrony.tracking" // how well the clock is known
	ChronySources  Command = "chrony.sources"  // the time sources and their state
	ChronyBurst    Command = "chrony.burst"    // measure every source now
	ChronyMakestep Command = "chrony.makestep" // jump the clock to the measured time

	NftCheck Command = "nft.check" // would the kernel take the staged PacketFilterTable?
	NftLoad  Command = "nft.load"  // load the staged PacketFilterTable, in one transaction

	HAProxyCheck   Command = "haproxy.check"   // is the staged ProxyConfig good, with the staged files that it names?
	HAProxyVersion Command = "haproxy.version" // which version it is, and what is built in

	UnboundCheck Command = "unbound.check" // is the staged UnboundDropIn good?

	SquidCheck       Command = "squid.check"       // does the staged SquidDropIn parse?
	SquidReconfigure Command = "squid.reconfigure" // tell the running squid to read its files

	KeaCheck Command = "kea.check" // is the staged KeaConfig good?

	FreeRADIUSCheck Command = "freeradius.check" // is the staged RadiusConfig good, with the staged files that it names?

	WireguardGo Command = "wireguard.go" // do the work of the WireGuard link with the name of the operand, in the background
)

// commandSpec is the program, its constant arguments, and how long it may take. An argument {place} stands for the path of the
// staged file of that place, and {place}/.. for its folder.
type commandSpec struct {
	argv    []string
	timeout time.Duration
	asks    string             // whom on the machine it talks to, if anybody: a running daemon, or the kernel
	operand func(string) error // what its one operand must be; nil for those that take none
}

// commands is the closed list: what is not in it cannot be run.
var commands = map[Command]commandSpec{
	ChronyCheck:    {argv: []string{chronyd, "-p", "-f", "{chrony.dropin}"}, timeout: 10 * time.Second},
	ChronyTracking: {argv: []string{chronyc, "-c", "-n", "tracking"}, timeout: 5 * time.Second, asks: string(Chrony)},
	ChronySources:  {argv: []string{chronyc, "-c", "-n", "sources"}, timeout: 5 * time.Second, asks: string(Chrony)},
	ChronyBurst:    {argv: []string{chronyc, "-n", "burst", "4/4"}, timeout: 5 * time.Second, asks: string(Chrony)},
	ChronyMakestep: {argv: []string{chronyc, "-n", "makestep"}, timeout: 5 * time.Second, asks: string(Chrony)},
	NftCheck:       {argv: []string{nft, "-c", "-f", "{packet-filter.table}"}, timeout: 30 * time.Second, asks: packetFilter},
	NftLoad:        {argv: []string{nft, "-f", "{packet-filter.table}"}, timeout: 30 * time.Second, asks: packetFilter},
	HAProxyCheck:   {argv: []string{haproxy, "-c", "-f", "{haproxy.config}"}, timeout: time.Minute},
	HAProxyVersion: {argv: []string{haproxy, "-vv"}, timeout: 5 * time.Second},

	UnboundCheck: {argv: []string{"/usr/sbin/unbound-checkconf", "{unbound.dropin}"}, timeout: 30 * time.Second},

	SquidCheck:       {argv: []string{squid, "-k", "parse", "-f", "{squid.dropin}"}, timeout: 30 * time.Second},
	SquidReconfigure: {argv: []string{squid, "-k", "reconfigure", "-f", "/etc/squid/squid.conf"}, timeout: 30 * time.Second, asks: string(Squid)},

	KeaCheck: {argv: []string{kea, "-t", "{kea.config}"}, timeout: 30 * time.Second},

	FreeRADIUSCheck: {argv: []string{freeradius, "-C", "-l", "stdout", "-d", "{freeradius.config}/.."}, timeout: 30 * time.Second},

	WireguardGo: {argv: []string{wireguardGo}, timeout: 10 * time.Second, asks: "the network", operand: isIfName},
}

const (
	chronyd    = "/usr/sbin/chronyd"
	chronyc    = "/usr/bin/chronyc"
	nft        = "/usr/sbin/nft"
	haproxy    = "/usr/sbin/haproxy"
	unbound    = "/usr/sbin/unbound"
	squid      = "/usr/sbin/squid"
	kea        = "/usr/sbin/kea-dhcp4"
	freeradius = "/usr/sbin/freeradius"

	wireguardGo = "/usr/bin/wireguard-go"
)

func isIfName(s string) error {
	_, err := value.Parse[value.IfName](s)
	return err
}

// Program is the name of the command's program, for messages.
func (c Command) Program() string {
	spec, ok := commands[c]
	if !ok {
		return string(c)
	}
	return filepath.Base(spec.argv[0])
}

// environment is all that a command sees of ours.
var environment = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}

// Run runs one command of the closed list, in a process group of its own and without a shell.
func (s *System) Run(ctx context.Context, c Command, in Input) (Output, error) {
	spec, ok := commands[c]
	if !ok {
		return Output{}, fmt.Errorf("no command %q in the list", string(c))
	}
	if err := spec.takes(in.Args); err != nil {
		return Output{}, fmt.Errorf("command %s: %w", c, err)
	}
	if spec.asks != "" {
		if err := s.here(spec.asks); err != nil {
			return Output{}, err
		}
	}
	if in.Timeout > 0 {
		spec.timeout = in.Timeout
	}
	staging, err := stage(s.stagingFolder(), in.Staged)
	if err != nil {
		return Output{}, fmt.Errorf("staging for %s: %w", c, err)
	}
	defer os.RemoveAll(staging)
	argv, err := spec.resolve(staging, in.Staged)
	if err != nil {
		return Output{}, fmt.Errorf("command %s: %w", c, err)
	}
	out, err := run(ctx, append(argv, in.Args...), spec.timeout)
	// Staged files lie below the staging folder at their own path, so that without it every message names the real one.
	out.Stdout = strings.ReplaceAll(out.Stdout, staging, "")
	out.Stderr = strings.ReplaceAll(out.Stderr, staging, "")
	if err == nil && out.ExitCode != 0 {
		err = &ExitError{Command: c, Output: out}
	}
	return out, err
}

// takes complains about operands that the command does not take.
func (spec commandSpec) takes(args []string) error {
	switch {
	case spec.operand == nil && len(args) > 0:
		return errors.New("takes no operands")
	case spec.operand != nil && len(args) != 1:
		return errors.New("takes one operand")
	case spec.operand != nil:
		return spec.operand(args[0])
	}
	return nil
}

// resolve replaces the {place} arguments by the paths of the staged files.
func (spec commandSpec) resolve(staging string, staged []File) ([]string, error) {
	paths := map[string]string{}
	for _, f := range staged {
		path := filepath.Join(staging, f.Place.Path())
		paths["{"+string(f.Place)+"}"] = path
		paths["{"+string(f.Place)+"}/.."] = filepath.Dir(path)
	}
	argv := make([]string, len(spec.argv))
	for i, arg := range spec.argv {
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

// stagingFolder is where files are staged: in memory with the gateway's sockets, so that a secret never touches a disk, or
// in the folder for temporary files where the gateway is not at home.
func (s *System) stagingFolder() string {
	if dir := s.path("/run/gateway"); isFolder(dir) {
		return dir
	}
	return os.TempDir()
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// staged begins the names of folders with staged files.
const staged = "stage-"

// Sweep removes staged files, which may hold secrets, of a process that died before it could.
func (s *System) Sweep() error {
	left, err := filepath.Glob(filepath.Join(s.path("/run/gateway"), staged+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// stage writes the files below a new private folder, each at the path of its place.
func stage(parent string, files []File) (string, error) {
	dir, err := os.MkdirTemp(parent, staged) // 0700
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if err := stageFile(dir, f); err != nil {
			os.RemoveAll(dir)
			return "", err
		}
	}
	return dir, nil
}

func stageFile(dir string, f File) error {
	spec, err := f.Place.spec()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, spec.path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, f.Content, 0o600)
}

// run runs argv; its error is about running it, not about its exit status.
func run(ctx context.Context, argv []string, timeout time.Duration) (Output, error) {
	program := filepath.Base(argv[0])
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%s took longer than %s: %w", program, timeout, context.DeadlineExceeded))
	defer cancel()

	var stdout, stderr capped
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = environment, "/"
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second

	began := time.Now()
	err := cmd.Run()
	out := Output{Stdout: stdout.String(), Stderr: stderr.String(), Duration: time.Since(began)}
	if cmd.ProcessState != nil {
		out.ExitCode = cmd.ProcessState.ExitCode()
	}
	var exit *exec.ExitError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return out, fmt.Errorf("%s: %w", program, ErrNotInstalled)
	case ctx.Err() != nil:
		return out, context.Cause(ctx)
	case errors.As(err, &exit):
		return out, nil
	case err != nil:
		return out, fmt.Errorf("running %s: %w", program, err)
	}
	return out, nil
}

// outputLimit is how much of each output stream of a command is kept.
const outputLimit = 1 << 20

// capped keeps the first outputLimit bytes and lets the rest go by, so that the command never blocks.
type capped struct{ kept bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	c.kept.Write(p[:min(len(p), outputLimit-c.kept.Len())])
	return len(p), nil
}

func (c *capped) String() string { return c.kept.String() }

// timestamp is what daemons put before their messages.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ `)

// Error gives the operator the first lines of what the program said.
func (e *ExitError) Error() string {
	said := firstLines(alerts(e.Output.Stderr))
	if said == "" {
		said = firstLines(e.Output.Stdout)
	}
	if said == "" {
		said = fmt.Sprintf("ended with status %d", e.Output.ExitCode)
	}
	return e.Command.Program() + ": " + said
}

// firstLines keeps what fits into a message.
func firstLines(text string) string {
	const maxLines, maxLength = 5, 500
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(timestamp.ReplaceAllString(line, ""))
		if line != "" {
			lines = append(lines, line)
		}
		if len(lines) == maxLines {
			break
		}
	}
	said := strings.ToValidUTF8(strings.Join(lines, "; "), "?")
	if len(said) > maxLength {
		said = strings.ToValidUTF8(said[:maxLength], "") + "…"
	}
	return said
}
