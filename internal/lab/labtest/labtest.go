// Package labtest runs a lab for tests, with the programs that were built into bin/, and talks to it as an admin does.
package labtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/lab"
)

// The admin of the lab.
const (
	AdminEmail    = "admin@example.net"
	AdminPassword = "correct horse battery"
)

// Slow is how many times longer than on an idle machine things may take: that of the tests has other work, too.
const Slow = 4

// Lab is a lab for a test.
type Lab struct {
	*lab.Lab
	http *http.Client
}

// Main is the TestMain of a package that runs labs.
func Main(m *testing.M) {
	lab.Init()
	os.Exit(m.Run())
}

// Programs is the folder of the built programs. A test that needs them fails without them.
func Programs(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root(t), "bin"))
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"gateway-api", "gateway-scheduler", "gateway-ctl", "gateway-lab", "gateway-acl", "gateway-license"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			t.Fatalf("%v: run make build first", err)
		}
	}
	return dir
}

// Issuer makes a key pair for licenses: programs are those of a gateway that has its public key, key is the file of the
// private one, which gateway-license signs with.
func Issuer(t testing.TB) (programs, key string) {
	t.Helper()
	built, dir := Programs(t), t.TempDir()
	key = filepath.Join(dir, "issuer.pem")
	public, err := exec.Command(filepath.Join(built, "gateway-license"), "keypair", key).Output()
	if err != nil {
		t.Fatalf("making a key pair: %v", err)
	}
	programs = filepath.Join(dir, "bin")
	if err := os.Mkdir(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(built)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() == "gateway-api" {
			continue
		}
		if err := os.Symlink(filepath.Join(built, f.Name()), filepath.Join(programs, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-ldflags", "-s -w -X edge.internal/gateway/internal/app.LicensePublicKey="+strings.TrimSpace(string(public)), "-o", programs+"/", "./cmd/gateway-api")
	build.Dir = root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building gateway-api: %v\n%s", err, out)
	}
	return programs, key
}

// root is the folder of go.mod.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod above the test")
	return ""
}

// Up runs a lab until the test ends. Without an admin in the options the setup is left to the test.
func Up(t testing.TB, opts lab.Options) *Lab {
	t.Helper()
	if opts.Dir == "" {
		// Not t.TempDir: PostgreSQL's own user has to reach it.
		dir, err := os.MkdirTemp("", "gateway-lab-test-")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		opts.Dir = dir
	}
	if opts.UI == "" {
		opts.UI = "127.0.0.1:0"
	}
	if opts.Programs == "" {
		opts.Programs = Programs(t)
	}
	l, err := lab.Up(t.Context(), opts)
	if err != nil {
		t.Fatalf("starting the lab: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, u := range []host.Unit{host.API, host.Chrony, host.HAProxy} {
				log, _ := os.ReadFile(l.Log(u))
				t.Logf("%s:\n%s", u, log[max(0, len(log)-4000):])
			}
		}
		if err := l.Down(); err != nil {
			t.Errorf("stopping the lab: %v", err)
		}
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Lab{Lab: l, http: &http.Client{Jar: jar, Timeout: 2 * time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the gateway's certificate is self-signed
	}}}
}

// UpAsAdmin runs a lab that is set up, and logs in.
func UpAsAdmin(t testing.TB, opts lab.Options) *Lab {
	t.Helper()
	opts.AdminEmail, opts.AdminPassword = AdminEmail, AdminPassword
	l := Up(t, opts)
	l.Login(t)
	return l
}

// Login logs the admin in.
func (l *Lab) Login(t testing.TB) {
	t.Helper()
	l.Must(t, http.MethodPost, "/auth/login", map[string]string{"email": AdminEmail, "password": AdminPassword}, 200, nil)
}

// WaitDatabase waits until the API has its database: who logs in before that has a session for system routes alone.
func (l *Lab) WaitDatabase(t testing.TB) {
	t.Helper()
	var health struct{ Database string }
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if l.Must(t, http.MethodGet, "/system/health", nil, 200, &health); health.Database == "up" {
			return
		}
	}
	t.Fatal("the API has no database")
}

// Answer is what a request got.
type Answer struct {
	Status int
	Header http.Header
	Data   json.RawMessage
	Body   []byte
}

// Do makes a request to the API through the front door, as a browser does.
func (l *Lab) Do(ctx context.Context, method, path string, body any) (*Answer, error) {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, l.URL()+"/api/v1"+path, r)
	if err != nil {
		return nil, err
	}
	res, err := l.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	a := &Answer{Status: res.StatusCode, Header: res.Header}
	if a.Body, err = io.ReadAll(res.Body); err != nil {
		return nil, err
	}
	var envelope struct{ Data json.RawMessage }
	if err := json.Unmarshal(a.Body, &envelope); err != nil {
		return nil, fmt.Errorf("%s %s: %w in %q", method, path, err, a.Body)
	}
	a.Data = envelope.Data
	return a, nil
}

// Must makes a request that has to be answered with the status, and decodes the data.
func (l *Lab) Must(t testing.TB, method, path string, body any, status int, into any) *Answer {
	t.Helper()
	a, err := l.Do(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	if a.Status != status {
		t.Fatalf("%s %s answers %d instead of %d: %s", method, path, a.Status, status, a.Body)
	}
	if into != nil {
		if err := json.Unmarshal(a.Data, into); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// Run runs a command on one side of the lab and answers what it printed.
func (l *Lab) Run(t testing.TB, side lab.Side, argv ...string) string {
	t.Helper()
	cmd, err := l.Command(t.Context(), side, argv...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// Component is the state of a component.
type Component struct {
	Name, State, Daemon, Detail string
	LastError                   string `json:"last_error"`
}

// components waits until the components are as they should be, for as long as an idle machine needs at most and more.
func (l *Lab) components(t testing.TB, what string, within time.Duration, so func([]Component) bool) {
	t.Helper()
	within *= Slow
	deadline := time.Now().Add(within)
	var last []Component
	for {
		if a, err := l.Do(t.Context(), http.MethodGet, "/system/components", nil); err == nil && a.Status == 200 {
			if err := json.Unmarshal(a.Data, &last); err != nil {
				t.Fatal(err)
			}
			if so(last) {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s after %s: %+v", what, within, last)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// WaitState waits until a component is in a state.
func (l *Lab) WaitState(t testing.TB, name, state string, within time.Duration) (found Component) {
	t.Helper()
	l.components(t, name+" is not "+state, within, func(all []Component) bool {
		for _, found = range all {
			if found.Name == name && found.State == state {
				return true
			}
		}
		return false
	})
	return found
}

// WaitSettled waits until nothing is pending: a point of failure that is armed then waits for the next change, and is not met by
// what an API that has just started still does.
func (l *Lab) WaitSettled(t testing.TB) {
	t.Helper()
	l.components(t, "something is pending", 20*time.Second, func(all []Component) bool {
		return !slices.ContainsFunc(all, func(c Component) bool { return c.State == "pending" })
	})
}
