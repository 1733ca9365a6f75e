// Package private runs a private PostgreSQL server from the machine's PostgreSQL programs, for the lab and for tests.
//
// By default the server listens only on a unix socket in a folder that only its owner and root can enter, and trusts everyone who
// reaches it. It never runs as root, and dies with the process that started it.
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

// Options configure a server.
type Options struct {
	// Dir is the server's folder. The first start creates and initialises it; the owner of the server must be able to reach it.
	Dir string
	// SocketDir is the folder of the unix socket; Dir/run if empty. A socket's path may have at most 107 bytes.
	SocketDir string
	// Group is a group of users who may use the socket in addition to the owner and root; optional.
	Group string
	// Settings is an optional file with additional settings, which the server reads on start and on SIGHUP. Without it the server
	// listens only on its socket.
	Settings string
	// Fsync makes commits survive a power cut. Tests do without.
	Fsync bool
	// Log receives the server's output; nil discards it. Errors of Start include its last lines in any case.
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

// Start starts the server and returns when it accepts connections. It waits until an earlier server in the same folder is gone,
// even one in another PID namespace.
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

// filler creates a data folder with the programs in bin.
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

// initialise creates the data folder if it does not exist. It is built in another folder and renamed, so that it is complete or
// absent.
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
	var output child.Tail
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := child.Run(cmd); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, output.LastLines())
	}
	return nil
}

// launch runs the postmaster and waits until it is ready.
func launch(ctx context.Context, bin string, who owner, data string, lock *os.File, opts Options) (*Server, error) {
	// The lock proves that no server runs here. After a crash, the file would name a PID that may belong to another process in a
	// new PID namespace.
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
		// access is restricted by the folder
		"config_file=" + base, "unix_socket_directories=" + opts.SocketDir, "unix_socket_permissions=0777",
		"max_connections=200", "shared_buffers=64MB", "log_destination=stderr", "logging_collector=off", "timezone=UTC", "log_timezone=UTC",
		// Databases of one server may be the nodes of a cluster.
		"wal_level=logical", "max_replication_slots=40", "max_wal_senders=40", "max_logical_replication_workers=20", "max_worker_processes=32", "wal_retrieve_retry_interval=200ms",
	}
	onDeath := syscall.SIGINT // fast shutdown
	if !opts.Fsync {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off")
		onDeath = syscall.SIGQUIT // immediate shutdown
	}
	args := []string{"-D", data}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	output := &child.Tail{Next: opts.Log}
	cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
	cmd.Dir, cmd.SysProcAttr = "/", who.attr()
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = time.Second
	// The server and its children share the lock, which is released when the last of them is gone.
	cmd.ExtraFiles = []*os.File{lock}
	// Ctrl-C in a terminal must not reach the server.
	cmd.SysProcAttr.Setpgid = true

	ended, err := child.Start(cmd, onDeath)
	if err != nil {
		return nil, err
	}
	s := &Server{socketDir: opts.SocketDir, cmd: cmd, done: make(chan struct{})}
	go func() {
		if err := <-ended; err != nil {
			s.err = fmt.Errorf("postgresql ended: %w: %s", err, output.LastLines())
		}
		close(s.done)
	}()
	if err := s.waitReady(ctx, pidFile); err != nil {
		_ = s.Stop()
		return nil, err
	}
	return s, nil
}

// waitReady waits for "ready" in the server's PID file, as pg_ctl does.
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

// URL returns the connection URL for a database of the server, as its superuser. The first database is "postgres".
func (s *Server) URL(database string) string { return URL(s.socketDir, database) }

// URL returns the connection URL for a database of the server whose socket is in socketDir, for a program that does not start the
// server itself.
func URL(socketDir, database string) string { return RoleURL(socketDir, database, User) }

// RoleURL is URL for another role than the superuser.
func RoleURL(socketDir, database, role string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(role), Path: "/" + database,
		RawQuery: url.Values{"host": {socketDir}, "sslmode": {"disable"}}.Encode(),
	}
	return u.String()
}

// CreateDatabase creates an empty database if it does not exist.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	return s.create(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize(), "42P04") // duplicate_database
}

// CreateRole creates a role that may only log in, if it does not exist.
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

// Err returns, after Done, why the server ended; nil if it ended without an error.
func (s *Server) Err() error { return s.err }

// Stop shuts the server down, disconnecting its clients, and returns when it is gone.
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
