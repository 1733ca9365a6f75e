package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/bus"
	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/job"
)

// supervisor runs the units of a lab. It is the server side of units.Supervisor.
type supervisor struct {
	plan    plan
	units   []*unit // in the order in which they start
	changes bus.Topic[host.Unit]
	logs    *chronicle
	loading sync.Mutex
}

var _ units.Supervised = (*supervisor)(nil)

// database is the name of the gateway's database.
const database = "gateway"

const socketFolder = "/run/postgresql"

// searchPath is the PATH inside a lab.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

var environment = []string{"PATH=" + searchPath, "LC_ALL=C.UTF-8"}

func newSupervisor(p plan) *supervisor {
	s := &supervisor{plan: p, logs: newChronicle(filepath.Join(p.Dir, "log", "chronicle.jsonl"))}
	s.addDatabase()
	if p.isolated() && p.Node == 1 {
		s.addTimeServer()
	}
	// The daemons first, as when a machine boots: the programs find them running.
	for _, own := range []bool{false, true} {
		for _, spec := range host.UnitSpecs() {
			// Without namespaces the programs do everything themselves, below a root folder.
			if own == (len(spec.Argv) == 0) && (p.isolated() && !p.Alone || spec.Unit != host.Helper) {
				s.addUnit(spec)
			}
		}
	}
	if p.isolated() && !p.Alone {
		s.addJob(job.Restore, nil, private.URL(p.path(socketFolder), database))
		s.addJob(job.Repair, unprivileged(host.User), private.RoleURL(p.path(socketFolder), database, private.User))
	}
	return s
}

// addJob adds a job with the prefix of its command line that sets its user. It starts on request and when the lab starts, and is
// repeated until it succeeds.
func (s *supervisor) addJob(j job.Name, as []string, database string) {
	spec := host.UnitSpec{
		Unit: host.Unit(j), Binary: filepath.Join(s.plan.Programs, string(j)), Stop: syscall.SIGTERM, Grace: 5 * time.Second,
		Argv: append(as, filepath.Join(programFolder, string(j)), "--units", "lab", "--db", database),
	}
	log := newJournal(logFile(s.plan.Dir, spec.Unit))
	u := s.add(newUnit(spec.Unit, func(context.Context) (running, error) {
		return startDaemon(spec, slices.Concat(environment, s.plan.Env), log)
	}))
	u.keep, u.once = true, true
	u.able = func() error {
		if !spec.Installed() {
			return fmt.Errorf("%s: %w", filepath.Base(spec.Binary), host.ErrNotInstalled)
		}
		return nil
	}
}

func (s *supervisor) Begin(ctx context.Context, j job.Name) error {
	if j == job.Database && s.plan.isolated() {
		go s.loadDatabaseSettings()
		return nil
	}
	if u, err := s.find(host.Unit(j)); err != nil || !u.once {
		return fmt.Errorf("%s: %w", string(j), host.ErrNotInstalled)
	}
	return s.Start(ctx, host.Unit(j))
}

func (s *supervisor) add(u *unit) *unit {
	u.changed = func() { s.changes.Publish(u.name) }
	s.units = append(s.units, u)
	return u
}

// addUnit adds a unit of the list: a daemon, or one of the gateway's own programs.
func (s *supervisor) addUnit(spec host.UnitSpec) {
	own := len(spec.Argv) == 0
	if own {
		spec.Argv = s.programArgv(spec)
		spec.Binary = filepath.Join(s.plan.Programs, string(spec.Unit))
	}
	env := environment
	if own {
		env = slices.Concat(environment, s.plan.Env)
	}
	log := s.log(spec.Unit)
	u := s.add(newUnit(spec.Unit, func(ctx context.Context) (running, error) {
		d, err := launchDaemon(ctx, spec, s.plan.root(), env, log)
		if err != nil {
			return nil, err
		}
		return d, nil
	}))
	u.keep = own
	u.able = func() error {
		switch {
		case !spec.Installed():
			return fmt.Errorf("%s: %w", filepath.Base(spec.Binary), host.ErrNotInstalled)
		case !own && !s.plan.isolated():
			return fmt.Errorf("cannot run here: %s", s.plan.Reason)
		}
		if spec.Unless != "" {
			if _, err := os.Stat(s.plan.path(spec.Unless)); err == nil {
				return errHeld
			}
		}
		return nil
	}
}

// log returns the writer for a unit's output: its own file, and the chronicle.
func (s *supervisor) log(u host.Unit) io.Writer {
	return both{newJournal(logFile(s.plan.Dir, u)), s.logs.of(u)}
}

// both writes to two writers, even if the first one fails.
type both struct{ first, second io.Writer }

func (b both) Write(p []byte) (int, error) {
	n, err := b.first.Write(p)
	_, _ = b.second.Write(p)
	return n, err
}

// errHeld says that a unit must not run now.
var errHeld = errors.New("must not run while the gateway's data are being replaced")

// unprivileged returns the prefix of a command line that runs a program as a user, without any way to gain privileges.
func unprivileged(user string) []string {
	return []string{"/usr/bin/setpriv", "--reuid=" + user, "--regid=" + user, "--init-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"}
}

// programArgv returns the command line of one of the gateway's own programs.
func (s *supervisor) programArgv(spec host.UnitSpec) []string {
	name := string(spec.Unit)
	if spec.Unit == host.Helper {
		return []string{filepath.Join(programFolder, name), "--units", "lab", "--with-probe"}
	}
	role := private.User
	if spec.Unit == host.WAF {
		role = host.WAFUser
	}
	argv := []string{"--db", private.RoleURL(s.plan.path(socketFolder), database, role)}
	if !s.plan.isolated() {
		// The machine's ports are not ours: the forwarder uses the API's socket.
		argv = append(argv, "--root", s.plan.root(), "--listen", "")
	}
	switch {
	case spec.Unit == host.WAF: // it runs no daemons, and has no metrics
	case s.plan.isolated():
		argv = append(argv, "--units", "lab")
	default:
		argv = append(argv, "--units", "lab:"+s.plan.path(units.SupervisorSocket), "--metrics", "")
	}
	if s.plan.isolated() {
		program := append([]string{filepath.Join(programFolder, name)}, argv...)
		if s.plan.Alone && spec.Unit != host.WAF {
			return append(program, "--helper", "")
		}
		return slices.Concat(unprivileged(spec.User), program)
	}
	return append([]string{filepath.Join(s.plan.Programs, name)}, argv...)
}

func (s *supervisor) addDatabase() {
	log := s.log(PostgreSQL)
	u := s.add(newUnit(PostgreSQL, func(ctx context.Context) (running, error) { return s.launchDatabase(ctx, log) }))
	u.keep = true
}

func (s *supervisor) launchDatabase(ctx context.Context, log io.Writer) (running, error) {
	group := ""
	if s.plan.isolated() {
		group = host.WAFUser // host.User is a member
	}
	server, err := private.Start(ctx, private.Options{
		Group:     group,
		Dir:       filepath.Join(s.plan.path(databaseFolder.Path), "gateway"),
		SocketDir: s.plan.path(socketFolder),
		Settings:  s.plan.path(postgresql.Settings.Path()),
		Fsync:     !s.plan.Volatile,
		Log:       log,
	})
	if err != nil {
		return nil, err
	}
	if err := server.CreateDatabase(ctx, database); err != nil {
		_ = server.Stop()
		return nil, fmt.Errorf("creating the database: %w", err)
	}
	if err := server.CreateRole(ctx, host.WAFUser); err != nil {
		_ = server.Stop()
		return nil, fmt.Errorf("creating the role of the web application firewall's agent: %w", err)
	}
	return server, nil
}

// loadDatabaseSettings does what gateway-database does on a machine.
func (s *supervisor) loadDatabaseSettings() {
	s.loading.Lock() // so that a finished reload is not repeated
	defer s.loading.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	restart, err := private.Reload(ctx, private.URL(s.plan.path(socketFolder), database))
	if err == nil && restart {
		err = s.Restart(ctx, PostgreSQL)
	}
	if err != nil {
		slog.Warn("PostgreSQL's settings", "err", err)
	}
}

// addTimeServer adds a time server for the lab: a second chronyd on the wan side that trusts the machine's clock.
func (s *supervisor) addTimeServer() {
	const folder = "/run/gateway-lab/wan-time"
	config := filepath.Join(folder, "chrony.conf")
	own, err := chrony.Unit.Spec()
	if err != nil {
		panic(err) // the unit is in the list
	}
	spec := host.UnitSpec{
		Unit: WanTime, Binary: own.Binary,
		Argv:    []string{nsenter, "--net=" + namespaceFile(Wan), "--", own.Binary, "-x", "-d", "-f", config},
		Folders: []host.Folder{{Path: folder, Mode: 0o750, Owner: "_chrony", Group: "_chrony"}},
		Ready:   filepath.Join(folder, "pid"),
		Stop:    syscall.SIGTERM, Grace: 5 * time.Second,
	}
	lines := []string{"local stratum 8", "allow", "bindaddress " + bare(sites[s.plan.Site][0].Client[0]), "cmdport 0", "bindcmdaddress /", "pidfile " + spec.Ready}
	log := s.log(WanTime)
	u := s.add(newUnit(WanTime, func(ctx context.Context) (running, error) {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return nil, err
		}
		if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			return nil, err
		}
		d, err := launchDaemon(ctx, spec, "", environment, log)
		if err != nil {
			return nil, err
		}
		return d, nil
	}))
	u.keep = true
	u.able = func() error {
		if !spec.Installed() {
			return fmt.Errorf("%s: %w", filepath.Base(spec.Binary), host.ErrNotInstalled)
		}
		return nil
	}
}

// startAll starts what a gateway needs and the enabled daemons. It continues if a daemon does not start.
func (s *supervisor) startAll(ctx context.Context, done func(step string)) error {
	for _, u := range s.units {
		if !u.keep && !s.enabled(u.name) {
			continue
		}
		began := time.Now()
		err := s.Start(ctx, u.name)
		switch {
		case u.once && errors.Is(err, host.ErrNotInstalled):
		case errors.Is(err, errHeld):
			done(fmt.Sprintf("%s is held", u.name))
		case err == nil:
			done(fmt.Sprintf("%s (%s)", u.name, time.Since(began).Round(time.Millisecond)))
		case slices.Contains([]host.Unit{PostgreSQL, host.Helper, host.API, host.Scheduler}, u.name):
			return fmt.Errorf("starting %s: %w", u.name, err)
		default:
			done(fmt.Sprintf("%s does not run: %s", u.name, err))
		}
	}
	return nil
}

// stopAll stops everything, last started first.
func (s *supervisor) stopAll() {
	for _, u := range slices.Backward(s.units) {
		if err := s.Stop(context.Background(), u.name); err != nil {
			slog.Warn("stopping", "unit", u.name, "err", err)
		}
	}
}

func (s *supervisor) find(name host.Unit) (*unit, error) {
	for _, u := range s.units {
		if u.name == name {
			return u, nil
		}
	}
	return nil, fmt.Errorf("the lab has no unit %q", string(name))
}

func (s *supervisor) State(_ context.Context, name host.Unit) (host.UnitState, error) {
	u, err := s.find(name)
	if err != nil {
		return host.UnitState{}, err
	}
	return u.now(), nil
}

func (s *supervisor) States(context.Context) ([]host.UnitState, error) {
	var states []host.UnitState
	for _, u := range s.units {
		if !u.once { // a job is no daemon
			states = append(states, u.now())
		}
	}
	return states, nil
}

// Watch calls notify on every start, end and failure.
func (s *supervisor) Watch(ctx context.Context, notify func(host.Unit)) error {
	reader := s.changes.Subscribe()
	defer reader.Close()
	for _, u := range s.units {
		if !u.once {
			notify(u.name)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case u := <-reader.C:
			notify(u)
		}
	}
}

func (s *supervisor) Start(ctx context.Context, name host.Unit) error {
	return s.do(ctx, name, func(u *unit) error { return u.start(ctx) })
}

func (s *supervisor) Stop(ctx context.Context, name host.Unit) error {
	return s.do(ctx, name, (*unit).stop)
}

func (s *supervisor) Restart(ctx context.Context, name host.Unit) error {
	return s.do(ctx, name, func(u *unit) error {
		if err := u.refusal(); err != nil {
			return err
		}
		if err := u.stop(); err != nil {
			slog.Warn("restarting", "unit", u.name, "err", err)
		}
		return u.start(ctx)
	})
}

func (s *supervisor) Reload(ctx context.Context, name host.Unit) error {
	return s.do(ctx, name, func(u *unit) error {
		d, ok := u.current().(*daemon)
		switch {
		case !ok:
			return fmt.Errorf("%s: %w", u.name, host.ErrNotRunning)
		case d.spec.Reload == 0:
			return fmt.Errorf("%s cannot reload, it must restart", u.name)
		}
		return d.cmd.Process.Signal(d.spec.Reload)
	})
}

func (s *supervisor) do(ctx context.Context, name host.Unit, verb func(*unit) error) error {
	u, err := s.find(name)
	if err != nil {
		return err
	}
	done, err := u.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer done()
	return verb(u)
}

// Enable records in the state folder which daemons start with the lab.
func (s *supervisor) Enable(_ context.Context, name host.Unit, on bool) error {
	u, err := s.find(name)
	if err != nil {
		return err
	}
	if err := u.able(); errors.Is(err, host.ErrNotInstalled) {
		return err
	}
	mark := s.enabledMark(name)
	if !on {
		if err := os.Remove(mark); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(mark), 0o755); err != nil {
		return err
	}
	return os.WriteFile(mark, nil, 0o644)
}

func (s *supervisor) enabled(name host.Unit) bool {
	_, err := os.Stat(s.enabledMark(name))
	return err == nil
}

func (s *supervisor) enabledMark(name host.Unit) string {
	return filepath.Join(s.plan.Dir, "enabled", string(name))
}
