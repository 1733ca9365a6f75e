// Package dbtest gives each test its own migrated database on a private PostgreSQL.
package dbtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/schema"
)

const template = "template_gateway"

// Copying the files takes a quarter of the time of writing every page to the log, which is the default.
const fromTemplate = " TEMPLATE " + template + " STRATEGY FILE_COPY"

var (
	once    sync.Once
	server  *private.Server
	failure error
)

// Server returns the private PostgreSQL of the test process.
func Server(t testing.TB) *private.Server {
	t.Helper()
	once.Do(func() {
		server, failure = private.StartCached(context.Background(), "schema-"+digest(), prepare)
	})
	if failure != nil {
		t.Fatalf("private PostgreSQL: %v", failure)
	}
	return server
}

// digest identifies the schema, so that a changed migration gets a new template.
func digest() string {
	h := sha256.New()
	names, _ := fs.Glob(schema.Migrations, "*.sql")
	for _, name := range names {
		b, _ := fs.ReadFile(schema.Migrations, name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(b), b)
	}
	h.Write([]byte(schema.Cluster + schema.Grants))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func prepare(ctx context.Context, s *private.Server) error {
	if err := execute(ctx, s.URL("postgres"), "CREATE DATABASE "+template); err != nil {
		return err
	}
	d, err := db.Open(s.URL(template))
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Attach(ctx, schema.Migrations); err != nil {
		return err
	}
	if err := execute(ctx, s.URL(template), schema.Cluster); err != nil {
		return err
	}
	return execute(ctx, s.URL(template), schema.Grants)
}

// URL creates a migrated database and returns its URL.
func URL(t testing.TB) string {
	t.Helper()
	return create(t, fromTemplate)
}

// EmptyURL creates a database without a schema.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return create(t, "")
}

func create(t testing.TB, from string) string {
	t.Helper()
	return createOn(t, Server(t), from)
}

func createOn(t testing.TB, s *private.Server, from string) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	if err := execute(t.Context(), s.URL("postgres"), "CREATE DATABASE "+name+from); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := execute(context.Background(), s.URL("postgres"), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return s.URL(name)
}

// New creates a migrated database and attaches to it.
func New(t testing.TB) *db.DB {
	t.Helper()
	return attach(t, URL(t))
}

// Own creates a migrated database on its own server, which the test may stop.
func Own(t testing.TB) (*db.DB, *private.Server) {
	t.Helper()
	s, err := private.StartCached(t.Context(), "schema-"+digest(), prepare)
	if err != nil {
		t.Fatalf("private PostgreSQL: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return attach(t, createOn(t, s, fromTemplate)), s
}

// Pair creates two migrated databases on one server as nodes of a cluster: one may follow the other.
func Pair(t testing.TB, s *private.Server) (one, other *db.DB) {
	t.Helper()
	for _, d := range []**db.DB{&one, &other} {
		url := createOn(t, s, fromTemplate)
		*d = attach(t, url)
		t.Cleanup(func() { part(t, url) })
	}
	return one, other
}

// part ends the replication that keeps a database from being dropped.
func part(t testing.TB, url string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(ctx)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, err := conn.Exec(ctx, "SELECT gateway_cluster.unsubscribe()")
		var active int
		if err == nil {
			_, err = conn.Exec(ctx, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database() AND active")
		}
		if err == nil {
			_, err = conn.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database() AND NOT active")
		}
		if err == nil {
			err = conn.QueryRow(ctx, "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()").Scan(&active)
		}
		if err == nil && active == 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("replication does not end: %d slots, %v", active, err)
			return
		}
	}
}

// Freeze stops all processes of a server until thaw is called. Connections stay open, but nothing answers.
func Freeze(t testing.TB, s *private.Server) (thaw func()) {
	t.Helper()
	frozen := []int{s.PID()}
	signal := func(pid int, sig syscall.Signal) {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	signal(s.PID(), syscall.SIGSTOP) // before its children are listed: it forks no more
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		b, _ := os.ReadFile(path) // the process may have ended
		_, after, _ := bytes.Cut(b, []byte(") "))
		fields := strings.Fields(string(after))
		if len(fields) < 2 || fields[1] != strconv.Itoa(s.PID()) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		signal(pid, syscall.SIGSTOP)
		frozen = append(frozen, pid)
	}
	thaw = sync.OnceFunc(func() {
		for _, pid := range frozen {
			signal(pid, syscall.SIGCONT)
		}
	})
	t.Cleanup(thaw)
	return thaw
}

func attach(t testing.TB, url string) *db.DB {
	t.Helper()
	d, err := db.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	urls.Store(d, url)
	t.Cleanup(d.Close)
	// A machine that is busy with other tests may take longer than a gateway waits.
	err = d.Attach(t.Context(), schema.Migrations)
	for end := time.Now().Add(time.Minute); db.Away(err) && time.Now().Before(end); {
		err = d.Attach(t.Context(), schema.Migrations)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// urls maps the databases of New to their URLs.
var urls sync.Map

// Exec runs SQL that only a test needs, such as the tables of a toy kind, on a database of New.
func Exec(t testing.TB, d *db.DB, sql string, args ...any) {
	t.Helper()
	url, ok := urls.Load(d)
	if !ok {
		t.Fatal("not a database of New")
	}
	if err := execute(t.Context(), url.(string), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func execute(ctx context.Context, url, sql string, args ...any) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql, args...)
	return err
}

// Address returns the URL of a database of New; empty for any other.
func Address(d *db.DB) string {
	url, _ := urls.Load(d)
	address, _ := url.(string)
	return address
}
