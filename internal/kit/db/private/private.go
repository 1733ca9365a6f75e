// Package private runs a PostgreSQL server of one's own, from the machine's PostgreSQL programs, for the lab and for tests.
//
// The server listens on a unix socket only, in a folder that nobody but its owner and root can enter, and trusts whoever
// reaches it, unless it is given other settings. It never runs as root, and it dies with the process that started it.
package private

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"edge.internal/gateway/internal/kit/host/child"
)

// User is the name of the server's superuser, which URL connects as.
const User = "gateway"

// Options say where a server lives.
type Options struct {
	// Dir is the server's folder. It is made and initialised at the first start; the owner of the server must be able to
	// reach it.
	Dir string
	// SocketDir is the folder of the unix socket: Dir/run when empty. A socket's path may have 107 bytes at most.
	SocketDir string
	// Group is a group of users who may reach the socket besides the owner and root; empty for none.
	Group string
	// Settings is a file that has more settings than those of this package, from the next start on; the server takes them again on SIGHUP.
	// It may be missing. Without it the server listens on its socket only.
	Settings string
	// Fsync makes commits survive a power cut. Tests do without.
	Fsync bool
	// Log receives what the server says. Nil drops it; errors of Start carry the last lines anyway.
	Log io.Writer
}

// Server is a running PostgreSQL server.
type Server struct {
	socketDir string
	cmd       *exec.Cmd
	done      chan struct{}
	err       error // why it ended; set before done is closed
	stopped   sync.Once
	cleanup   func() error
}

// stopGrace is how long a server may take to stop before it is killed.
const stopGrace = 30 * time.Second

// Start starts the server and returns when it accepts connections. It waits for an earlier server in the same folder to
// be gone, also one in another process namespace.
func Start(ctx context.Context, opts Options) (*Server, error) {
	fill := initdb
	if !opts.Fsync {
		fill = copyEmpty
	}
	s, err := start(ctx, opts, fill)
	if err != nil {
		return nil, fmt.Errorf("starting private postgresql in %s: %w", opts.Dir, err)
	}
	return s, nil
}

// filler makes a data folder for the programs of a version of PostgreSQL.
type filler func(ctx context.Context, bin string, who owner, data string) error

func start(ctx context.Context, opts Options, fill filler) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	who, err := serverOwner()
	if err != nil {
		return nil, err
	}
	if opts.SocketDir == "" {
		opts.SocketDir = filepath.Join(opts.Dir, "run")
	}
	if path := filepath.Join(opts.SocketDir, ".s.PGSQL.5432"); len(path) > 107 {
		return nil, fmt.Errorf("the socket's path %s is longer than 107 bytes", path)
	}
	for _, dir := range []string{opts.Dir, opts.SocketDir} {
		if err := who.makeFolder(dir); err != nil {
			return nil, err
		}
	}
	if opts.Group != "" {
		if err := who.admit(opts.Group, opts.SocketDir); err != nil {
			return nil, err
		}
	}
	lock, err := lockFolder(ctx, opts.Dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	data := filepath.Join(opts.Dir, "data")
	if err := initialise(ctx, bin, who, data, fill); err != nil {
		return nil, err
	}
	return launch(ctx, bin, who, data, lock, opts)
}

// initialise makes the data folder unless it is there. It is made beside and renamed, so that it is whole or absent.
func initialise(ctx context.Context, bin string, who owner, data string, fill filler) error {
	if _, err := os.Stat(data); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := data + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := fill(ctx, bin, who, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, data)
}

func initdb(ctx context.Context, bin string, who owner, data string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", User, "-A", "trust", "-E", "UTF8", "--no-locale", "-k")
	cmd.Dir, cmd.SysProcAttr = "/", who.attr()
	var said child.Tail
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := child.Run(cmd); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, said.LastLines())
	}
	return nil
}

// launch runs the postmaster and waits until it is ready.
func launch(ctx context.Context, bin string, who owner, data string, lock *os.File, opts Options) (*Server, error) {
	// The lock proves that no server lives here. After a crash the file would name a process number that in a new process
	// namespace belongs to somebody else.
	pidFile := filepath.Join(data, "postmaster.pid")
	if err := os.Remove(pidFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	base := filepath.Join(opts.Dir, "private.conf")
	text := "listen_addresses = ''\n"
	if opts.Settings != "" {
		text += "include_if_exists = '" + opts.Settings + "'\n"
	}
	if err := os.WriteFile(base, []byte(text), 0o644); err != nil {
		return nil, err
	}
	settings := []string{
		"config_file=" + base, "unix_socket_directories=" + opts.SocketDir, "unix_socket_permissions=0777", // the folder decides who gets there
		"max_connections=200", "shared_buffers=64MB", "log_destination=stderr", "logging_collector=off", "timezone=UTC", "log_timezone=UTC",
		// Databases of one server may be the nodes of a cluster.
		"wal_level=logical", "max_replication_slots=40", "max_wal_senders=40", "max_logical_replication_workers=20", "max_worker_processes=32", "wal_retrieve_retry_interval=200ms",
	}
	onDeath := syscall.SIGINT // fast shutdown
	if !opts.Fsync {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off")
		onDeath = syscall.SIGQUIT // at once
	}
	args := []string{"-D", data}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	said := &child.Tail{Next: opts.Log}
	cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
	cmd.Dir, cmd.SysProcAttr = "/", who.attr()
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.WaitDelay = time.Second
	// The server and all its processes share the lock: it is free when the last of them is gone.
	cmd.ExtraFiles = []*os.File{lock}
	// A terminal's Ctrl-C is for who started the server, not for the server.
	cmd.SysProcAttr.Setpgid = true

	ended, err := child.Start(cmd, onDeath)
	if err != nil {
		return nil, err
	}
	s := &Server{socketDir: opts.SocketDir, cmd: cmd, done: make(chan struct{})}
	go func() {
		if err := <-ended; err != nil {
			s.err = fmt.Errorf("postgresql ended: %w: %s", err, said.LastLines())
		}
		close(s.done)
	}()
	if err := s.waitReady(ctx, pidFile); err != nil {
		_ = s.Stop()
		return nil, err
	}
	return s, nil
}

// waitReady waits for the server to say "ready" in its pid file, as pg_ctl does.
func (s *Server) waitReady(ctx context.Context, pidFile string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		content, _ := os.ReadFile(pidFile)
		lines := strings.Split(string(content), "\n")
		if len(lines) >= 8 && strings.TrimSpace(lines[7]) == "ready" {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.done:
			if s.err == nil {
				return errors.New("postgresql ended")
			}
			return s.err
		case <-tick.C:
		}
	}
}

// URL returns what connects to a database of the server as its superuser. The first database is "postgres".
func (s *Server) URL(database string) string { return URL(s.socketDir, database) }

// URL returns what connects to a database of the server whose socket is in the folder, for a program that does not start
// the server itself.
func URL(socketDir, database string) string { return RoleURL(socketDir, database, User) }

// RoleURL is URL for another role than the superuser.
func RoleURL(socketDir, database, role string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(role), Path: "/" + database,
		RawQuery: url.Values{"host": {socketDir}, "sslmode": {"disable"}}.Encode(),
	}
	return u.String()
}

// CreateDatabase makes an empty database unless it is there.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	return s.create(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize(), "42P04") // duplicate_database
}

// CreateRole makes a role that may log in, and nothing else, unless it is there.
func (s *Server) CreateRole(ctx context.Context, name string) error {
	return s.create(ctx, "CREATE ROLE "+pgx.Identifier{name}.Sanitize()+" LOGIN", "42710") // duplicate_object
}

func (s *Server) create(ctx context.Context, sql, there string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == there {
		return nil
	}
	return err
}

func (s *Server) PID() int { return s.cmd.Process.Pid }

// Done is closed when the server has ended, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err tells, after Done, why the server ended; nil when it ended by itself without a complaint.
func (s *Server) Err() error { return s.err }

// Stop ends the server, disconnecting its clients, and returns when it is gone.
func (s *Server) Stop() error {
	var err error
	s.stopped.Do(func() {
		s.cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-s.done:
		case <-time.After(stopGrace):
			s.cmd.Process.Kill()
			<-s.done
			err = errors.New("private postgresql did not stop in time and was killed")
		}
		if s.cleanup != nil {
			err = errors.Join(err, s.cleanup())
		}
	})
	<-s.done
	return err
}
