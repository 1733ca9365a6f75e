// Package labtest runs a lab for tests, with the programs built into bin/, and talks to it as an administrator does.
package labtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/packaging"
)

// The administrator of the lab.
const (
	AdminEmail    = "admin@example.net"
	AdminPassword = "correct horse battery"
)

// Slow is the factor by which operations may take longer than on an idle machine: the one that runs the tests has other work,
// too.
const Slow = 4

type Lab struct {
	*lab.Lab
	*Browser
}

// Main is the TestMain of a package that runs labs.
func Main(m *testing.M) {
	lab.Init()
	os.Exit(m.Run())
}

// Programs returns the folder of the built programs, without which the test fails.
func Programs(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root(t), "bin"))
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"gateway-api", "gateway-scheduler", "gateway-waf", "gateway-restore", "gateway-repair", "gateway-ctl", "gateway-lab", "gateway-acl", "gateway-license"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			t.Fatalf("%v: run make build first", err)
		}
	}
	return dir
}

// LicenseKey returns the file of the private key that signs licenses for development builds.
func LicenseKey(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root(t), "packaging", "license", "development.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// root returns the folder of go.mod.
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

// Up runs a lab until the test ends. Without an administrator in the options, the setup is left to the test.
func Up(t testing.TB, opts lab.Options) *Lab {
	t.Helper()
	leave, err := packaging.Place(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(leave)
	if opts.Dir == "" {
		// Not t.TempDir: PostgreSQL's own user must be able to reach it.
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
			for _, node := range l.All() {
				for _, u := range []host.Unit{host.API, chrony.Unit, haproxy.Unit} {
					log, _ := os.ReadFile(node.Log(u))
					t.Logf("%s of %s:\n%s", u, node.Name(), log[max(0, len(log)-4000):])
				}
			}
		}
		if err := l.Down(); err != nil {
			t.Errorf("stopping the lab: %v", err)
		}
	})
	return &Lab{Lab: l, Browser: NewBrowser(t, l.URL(), nil)}
}

// UpNodes runs a lab with several nodes that form a cluster, and logs in at each of them. The first one is the primary.
func UpNodes(t testing.TB, opts lab.Options) []*Lab {
	t.Helper()
	opts.AdminEmail, opts.AdminPassword = AdminEmail, AdminPassword
	var all []*Lab
	for _, l := range Up(t, opts).All() {
		all = append(all, &Lab{Lab: l, Browser: NewBrowser(t, l.URL(), nil)})
		all[len(all)-1].Login(t)
	}
	return all
}

// UpAsAdmin runs a lab that is set up, and logs in.
func UpAsAdmin(t testing.TB, opts lab.Options) *Lab {
	t.Helper()
	opts.AdminEmail, opts.AdminPassword = AdminEmail, AdminPassword
	l := Up(t, opts)
	l.Login(t)
	return l
}

// Run runs a command on one side of the lab and returns its output.
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
