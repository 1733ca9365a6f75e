package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host/child"
)

// plainDirLength leaves room for the sockets below root/run, whose paths may have 107 bytes.
const plainDirLength = 70

const (
	downGrace = 90 * time.Second // for a lab to stop cleanly
	bootTime  = 3 * time.Minute  // for a lab to start
)

// Options describe a lab.
type Options struct {
	// Dir is the state folder; DefaultDir if empty.
	Dir string
	// UI is the address on the machine at which the UI is served; 127.0.0.1:3443 if empty. That of the second node is 127.0.0.2,
	// and so on.
	UI string
	// Nodes is the number of gateways in the lab, at most 9; 1 if zero.
	Nodes int
	// Programs is the folder of the gateway's programs; that of the running program if empty.
	Programs string
	// AdminEmail and AdminPassword complete the setup, if it is not complete yet. The other nodes join the first one.
	AdminEmail, AdminPassword string
	// Apart leaves the setup of the other nodes to the lab's user.
	Apart bool
	// Env is added to the environment of the gateway's programs.
	Env []string
	// Volatile turns fsync off, for labs whose data need not survive a crash of the machine.
	Volatile bool
	// Site selects the networks of the lab, 0 or 1. Labs of different sites can be joined, see Join.
	Site int
	// HAProxy is a program that the lab runs instead of the machine's HAProxy, for instance another version.
	HAProxy string
	// Alone runs the gateway's programs as root and without the helper. Its only purpose is to measure the cost of the helper.
	Alone bool
	// Progress is called for each step.
	Progress func(step string)
}

// upkeep is what the process that called Up holds for a node of its lab.
type upkeep struct {
	opts    Options
	first   *Lab          // the node that the others join
	laid    []*os.File    // the namespaces that all nodes share, if there are several
	lock    *os.File      // held while the state folder is in use
	plan    *os.File      // init ends when it is closed
	done    chan struct{} // closed when init has ended
	forward *forwarder
	once    sync.Once
	err     error
}

// Up starts a lab, and returns when its API answers. The lab ends with Down, or with this process.
func Up(ctx context.Context, opts Options) (*Lab, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	first, err := upNode(ctx, opts, 1, &Lab{up: new(upkeep)})
	if err != nil {
		return nil, err
	}
	for n := 2; n <= opts.Nodes; n++ {
		node, err := upNode(ctx, opts, n, first)
		if err != nil {
			_ = first.Down()
			return nil, fmt.Errorf("starting node %d: %w", n, err)
		}
		first.others = append(first.others, node)
	}
	return first, nil
}

// upNode starts one node, beside the first one.
func upNode(ctx context.Context, opts Options, n int, first *Lab) (*Lab, error) {
	opts, err := opts.of(n)
	if err != nil {
		return nil, err
	}
	lock, err := claim(opts.Dir)
	if err != nil {
		return nil, err
	}
	l := &Lab{
		dir:    opts.Dir,
		record: record{Outer: newProcess(os.Getpid()), UI: opts.UI, Programs: opts.Programs, Site: opts.Site, Node: n, Nodes: opts.Nodes, Started: time.Now()},
		up:     &upkeep{opts: opts, first: first, laid: first.up.laid, lock: lock},
	}
	if err := l.Boot(ctx); err != nil {
		_ = l.up.down(l)
		return nil, err
	}
	return l, nil
}

// Boot starts a crashed node again, and returns when its API answers.
func (l *Lab) Boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootTime, fmt.Errorf("the lab did not start within %s", bootTime))
	defer cancel()
	l.up.done = make(chan struct{})
	return l.boot(ctx, l.up.opts)
}

// Crash ends a node immediately, like a power failure. The other nodes and sides remain. Boot starts it again.
func (l *Lab) Crash() error {
	l.up.forward.close()
	l.up.forward = nil
	// Pause all programs first: one that is killed later might notice that a cable is gone, and report that on another one.
	if err := l.signalFamily(context.Background(), "all programs", 1, Pause); err != nil {
		return err
	}
	// The kernel still sends what a killed program has left in its buffers, unlike a machine without power.
	for _, w := range l.wires() {
		if err := l.Within(w.Side, func() error { return removeLink(l.Name()) }); err != nil {
			return err
		}
	}
	if err := l.Init.signal(kill); err != nil {
		return err
	}
	<-l.up.done
	err := l.up.plan.Close()
	l.up.plan = nil
	return err
}

// complete fills in the defaults.
func (o *Options) complete() (err error) {
	if o.Dir == "" {
		o.Dir = DefaultDir
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	if o.Dir, err = filepath.EvalSymlinks(o.Dir); err != nil {
		return err
	}
	if o.UI == "" {
		o.UI = "127.0.0.1:3443"
	}
	if o.Programs == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o.Programs = filepath.Dir(self)
	}
	if o.HAProxy != "" {
		if o.HAProxy, err = filepath.Abs(o.HAProxy); err != nil {
			return err
		}
		if _, err := os.Stat(o.HAProxy); err != nil {
			return fmt.Errorf("the HAProxy to run: %w", err)
		}
	}
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.Nodes < 1 || o.Nodes > 9 {
		return fmt.Errorf("a lab has 1 to 9 nodes, and not %d", o.Nodes)
	}
	if o.Site < 0 || o.Site >= len(sites) {
		return fmt.Errorf("no site %d: there are %d", o.Site, len(sites))
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return nil
}

func (o Options) of(n int) (Options, error) {
	if n == 1 {
		return o, nil
	}
	host, port, err := net.SplitHostPort(o.UI)
	if err != nil {
		return o, fmt.Errorf("the UI's address: %w", err)
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return o, fmt.Errorf("with several nodes the UI's address begins with that of the first one: %w", err)
	}
	for range n - 1 {
		address = address.Next()
	}
	o.UI = net.JoinHostPort(address.String(), port)
	o.Dir = NodeDir(o.Dir, n)
	progress := o.Progress
	o.Progress = func(step string) { progress(nodeName(n, o.Nodes) + ": " + step) }
	return o, os.MkdirAll(o.Dir, 0o755)
}

// claim locks the state folder for this process and removes what a killed lab has left in it.
func claim(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if r, err := readRecord(dir); err == nil {
			return nil, fmt.Errorf("a lab already runs in %s (process %d, UI at https://%s): stop it with gateway-lab down --dir %s, or choose another --dir",
				dir, r.Outer.PID, r.UI, dir)
		}
		return nil, fmt.Errorf("a lab is already starting in %s", dir)
	}
	if r, err := readRecord(dir); err == nil {
		// The kernel kills the rest of a killed lab, which takes a moment.
		if !r.Init.waitGone(5 * time.Second) {
			lock.Close()
			return nil, fmt.Errorf("process %d of an earlier lab in %s does not end", r.Init.PID, dir)
		}
	}
	err = errors.Join(remove(recordFile(dir)), os.RemoveAll(filepath.Join(dir, "root", "run")))
	if err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// boot starts everything.
func (l *Lab) boot(ctx context.Context, opts Options) error {
	listener, err := net.Listen("tcp", l.UI)
	if err != nil {
		return fmt.Errorf("the UI's address: %w", err)
	}
	l.UI = listener.Addr().String()
	opts.Progress("state folder " + l.dir)

	p := plan{
		Dir: l.dir, Programs: opts.Programs, Env: opts.Env, Volatile: opts.Volatile, Site: opts.Site, Node: l.Node, Nodes: l.Nodes, Laid: len(l.up.laid),
		HAProxy: opts.HAProxy, Alone: opts.Alone,
	}
	err = l.startInit(ctx, p, opts.Progress)
	var no *deniedError
	if errors.As(err, &no) && l.Nodes == 1 {
		p.Reason = no.Error()
		l.Reason, l.up.plan, l.up.done = p.Reason, nil, make(chan struct{})
		opts.Progress("going without: " + p.Reason)
		if len(l.dir) > plainDirLength {
			listener.Close()
			return fmt.Errorf("without namespaces the state folder's path may have %d bytes, because sockets lie below it: %s", plainDirLength, l.dir)
		}
		err = l.startInit(ctx, p, opts.Progress)
	}
	if err != nil {
		listener.Close()
		return err
	}
	l.up.forward = forward(listener, l.Path(apiSocket))
	if err := l.keepLaid(); err != nil {
		return err
	}
	if err := l.waitHealthy(ctx); err != nil {
		return err
	}
	opts.Progress("the API answers")
	if opts.AdminEmail == "" || opts.Apart && l.Node > 1 {
		return nil
	}
	return l.ensureSetup(ctx)
}

// keepLaid keeps the shared namespaces as long as the lab exists: the first node may end and come back.
func (l *Lab) keepLaid() error {
	if l.Nodes == 1 || len(l.up.laid) > 0 {
		return nil
	}
	for _, w := range l.wires() {
		f, err := os.Open(l.Path(namespaceFile(w.Side)))
		if err != nil {
			return err
		}
		l.up.laid = append(l.up.laid, f)
	}
	return nil
}

// deniedError says why a lab can have no namespaces.
type deniedError struct{ why string }

func (e *deniedError) Error() string { return "namespaces are not permitted (" + e.why + ")" }

// startInit starts init and waits until everything that it supervises runs.
func (l *Lab) startInit(ctx context.Context, p plan, progress func(string)) error {
	log, err := openLog(logFile(p.Dir, "lab"))
	if err != nil {
		return err
	}
	defer log.Close()
	reportReader, reportWriter, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reportReader.Close()
	defer reportWriter.Close()
	planReader, planWriter, err := os.Pipe()
	if err != nil {
		return err
	}
	defer planReader.Close()

	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{initName}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = append([]*os.File{planReader, reportWriter}, l.up.laid...) // planFD, reportFD, laidFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}                        // a terminal's Ctrl-C is for us
	if p.isolated() {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	}
	ended, err := child.Start(cmd, kill)
	reportWriter.Close()
	if err != nil {
		planWriter.Close()
		if errno := syscall.Errno(0); p.isolated() && errors.As(err, &errno) {
			return &deniedError{"clone: " + errno.Error()}
		}
		return fmt.Errorf("starting the lab's init: %w", err)
	}
	l.Init = newProcess(cmd.Process.Pid)
	l.up.plan = planWriter
	done := l.up.done
	go func() {
		<-ended
		close(done)
	}()
	if err := l.write(l.dir); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { reportReader.SetReadDeadline(time.Unix(1, 0)) })()
	if err := json.NewEncoder(planWriter).Encode(p); err != nil {
		return fmt.Errorf("telling init the plan: %w", err)
	}
	return l.follow(ctx, bufio.NewScanner(reportReader), progress)
}

// follow reads init's reports until it is ready.
func (l *Lab) follow(ctx context.Context, lines *bufio.Scanner, progress func(string)) error {
	for lines.Scan() {
		var r report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("listening to init: %w", err)
		}
		switch {
		case r.Ready:
			return nil
		case r.Error != "":
			return errors.New(r.Error)
		case r.Denied != "":
			<-l.up.done
			l.up.plan.Close()
			return &deniedError{r.Denied}
		default:
			progress(r.Step)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("the lab's init died, see %s", logFile(l.dir, "lab"))
}

func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
}

// Done is closed when the lab has ended, by Down or on its own. It is nil in processes that did not call Up.
func (l *Lab) Done() <-chan struct{} {
	if l.up == nil {
		return nil
	}
	return l.up.done
}

// down stops init, which stops everything else, and releases the state folder.
func (u *upkeep) down(l *Lab) error {
	u.once.Do(func() { u.err = u.stop(l) })
	return u.err
}

func (u *upkeep) stop(l *Lab) (err error) {
	if u.forward != nil {
		u.forward.close()
	}
	if u.plan != nil {
		_ = l.Init.signal(terminate)
		select {
		case <-u.done:
		case <-time.After(downGrace):
			err = fmt.Errorf("the lab did not stop within %s and was killed", downGrace)
			_ = l.Init.signal(kill)
			<-u.done
		}
		u.plan.Close()
	}
	if l.Node == 1 {
		for _, f := range u.laid {
			err = errors.Join(err, f.Close())
		}
	}
	return errors.Join(err, remove(recordFile(l.dir)), u.lock.Close())
}
