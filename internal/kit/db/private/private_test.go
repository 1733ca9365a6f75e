package private_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/waittest"
)

// helper makes the test binary start a cached server, print its URL and wait, so that a test can kill it.
const helper = "PRIVATE_TEST_HELPER"

func TestMain(m *testing.M) {
	if name := os.Getenv(helper); name != "" {
		s, err := private.StartCached(context.Background(), name, nothing)
		if err != nil {
			panic(err)
		}
		os.Stdout.WriteString(s.URL("postgres") + "\n")
		select {}
	}
	goleak.VerifyTestMain(m)
}

func nothing(context.Context, *private.Server) error { return nil }

// tempDir returns a folder that the server's owner can reach; those of testing.T may be closed to others.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "private-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func query(t *testing.T, url, sql string) (answer string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), sql).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return answer
}

func exec1(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

func TestServerKeepsItsDataAndSettings(t *testing.T) {
	opts := private.Options{Dir: filepath.Join(tempDir(t), "db"), Fsync: true}
	s, err := private.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := exec1(t.Context(), s.URL("postgres"), "CREATE TABLE kept AS SELECT 'yes' AS answer"); err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{"listen_addresses": "", "fsync": "on", "max_connections": "200", "server_encoding": "UTF8"} {
		if got := query(t, s.URL("postgres"), "SHOW "+setting); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if s.Err() != nil {
		t.Errorf("a stopped server says %v", s.Err())
	}
	began := time.Now()
	if s, err = private.Start(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	t.Logf("second start: %s", time.Since(began))
	defer s.Stop()
	if got := query(t, s.URL("postgres"), "SELECT answer FROM kept"); got != "yes" {
		t.Errorf("kept = %q", got)
	}
	for _, dir := range []string{opts.Dir, filepath.Join(opts.Dir, "run"), filepath.Join(opts.Dir, "data")} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", dir, info.Mode())
		}
	}
}

func TestServerNeverRunsAsRoot(t *testing.T) {
	s, err := private.StartCached(t.Context(), "private-test", nothing)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	info, err := os.Stat(fmt.Sprintf("/proc/%d", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid == 0 {
		t.Error("the server runs as root")
	}
}

func TestSecondServerWaitsForTheFolder(t *testing.T) {
	opts := private.Options{Dir: filepath.Join(tempDir(t), "db")}
	s, err := private.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := private.Start(ctx, opts); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second server: %v", err)
	}
}

func TestServerThatDiesIsNoticed(t *testing.T) {
	s, err := private.StartCached(t.Context(), "private-test", nothing)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	syscall.Kill(s.PID(), syscall.SIGKILL)
	select {
	case <-s.Done():
	case <-time.After(time.Minute):
		t.Fatal("not noticed")
	}
	if s.Err() == nil {
		t.Error("no reason")
	}
}

func TestStartSaysWhyItFails(t *testing.T) {
	dir := tempDir(t)
	data := filepath.Join(dir, "db", "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := private.Start(t.Context(), private.Options{Dir: filepath.Join(dir, "db")})
	if err == nil || !strings.Contains(err.Error(), data) {
		t.Errorf("err = %v", err)
	}
	if _, err := private.Start(t.Context(), private.Options{Dir: filepath.Join(dir, strings.Repeat("long", 30))}); err == nil {
		t.Error("a socket path of more than 107 bytes is accepted")
	}
}

func TestCachedPreparesOnce(t *testing.T) {
	name := "private-test-once-" + strings.ReplaceAll(time.Now().Format("150405.000000"), ".", "")
	var prepared atomic.Int32
	start := func() *private.Server {
		s, err := private.StartCached(t.Context(), name, func(ctx context.Context, s *private.Server) error {
			prepared.Add(1)
			for range 2 { // the second time it exists
				if err := s.CreateDatabase(ctx, "ready"); err != nil {
					return err
				}
			}
			return exec1(ctx, s.URL("ready"), "CREATE TABLE t AS SELECT 'prepared' AS answer")
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	one := start()
	defer one.Stop()
	two := start()
	defer two.Stop()
	if prepared.Load() != 1 {
		t.Errorf("prepared %d times", prepared.Load())
	}
	if err := exec1(t.Context(), one.URL("ready"), "UPDATE t SET answer = 'changed'"); err != nil {
		t.Fatal(err)
	}
	if got := query(t, two.URL("ready"), "SELECT answer FROM t"); got != "prepared" {
		t.Errorf("the copies share their data: %q", got)
	}
	templates, _ := filepath.Glob(filepath.Join(os.TempDir(), "gateway-postgresql-*", "template-"+name+"*"))
	for _, dir := range templates {
		os.RemoveAll(dir)
	}
}

func TestFailedPreparationIsNotKept(t *testing.T) {
	broken := errors.New("broken")
	for range 2 {
		_, err := private.StartCached(t.Context(), "private-test-broken", func(context.Context, *private.Server) error { return broken })
		if !errors.Is(err, broken) {
			t.Errorf("err = %v", err)
		}
	}
}

func TestServerDiesWithItsProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), helper+"=private-test")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 4096)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgx.ParseConfig(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(config.Host)
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()

	// As soon as the last process of the server is gone, the next caller removes the copy.
	waittest.Until(t, dir+" is gone", func() bool {
		s, err := private.StartCached(t.Context(), "private-test", nothing)
		if err != nil {
			t.Fatal(err)
		}
		s.Stop()
		_, err = os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	})
}
