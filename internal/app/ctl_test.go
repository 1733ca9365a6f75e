package app_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edge.internal/gateway/internal/app"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/upgrade/runner"
)

// root serves the machine's root, as gateway-api does, and returns a function that runs gateway-ctl.
func (h house) root(t *testing.T) func(stdin string, args ...string) (string, error) {
	t.Helper()
	return h.rootBy(t, h.Handler())
}

// rootBy is root with another handler in front of gateway-api's.
func (h house) rootBy(t *testing.T, handler http.Handler) func(stdin string, args ...string) (string, error) {
	t.Helper()
	if err := os.MkdirAll(h.Paths.Run(""), 0o755); err != nil {
		t.Fatal(err)
	}
	socket, err := httpd.ListenUnix(h.Paths.Run("control.sock"), 0o600, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- (&httpd.Server{Handler: handler, Log: h.Log, Local: true}).Serve(ctx, socket) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func(stdin string, args ...string) (string, error) { return ctl(t, h.Paths.Root, stdin, args...) }
}

// ctl runs gateway-ctl below a root.
func ctl(t *testing.T, root, stdin string, args ...string) (string, error) {
	t.Helper()
	var output bytes.Buffer
	ctl := app.Ctl()
	ctl.SetArgs(append(args, "--root", root))
	ctl.SetIn(strings.NewReader(stdin))
	ctl.SetOut(&output)
	err := ctl.ExecuteContext(t.Context())
	return output.String(), err
}

func TestCtlLicense(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	h.furnish(t, admin)
	ctl := h.root(t)
	want := func(output string, err error, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if err != nil || !strings.Contains(output, line+"\n") {
				t.Errorf("no %q in %q, %v", line, output, err)
			}
		}
	}
	output, err := ctl("", "license")
	want(output, err, "status:        trial", "domains:       1, no limit", "tunnel peers:  1, no limit")
	if _, err := ctl("", "license", "clear"); err == nil || !strings.Contains(err.Error(), "No license is installed") {
		t.Error(err)
	}
	for _, text := range []string{"", "nonsense", "\xff\xfe", canaryLicense + "x", strings.Repeat(canaryLicense, 100)} {
		if output, err := ctl(text, "license", "set", "-"); err == nil || output != "" {
			t.Errorf("%.20q: %q, %v", text, output, err)
		}
	}
	file := filepath.Join(t.TempDir(), "license")
	if err := os.WriteFile(file, []byte("\r\n"+canaryLicense), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err = ctl("", "license", "set", file)
	want(output, err, "status:        active", "subject:       Example Ltd", "features:      all", "nodes:         1, no limit")
	output, err = ctl(canaryLicense, "license", "set", "-")
	want(output, err, "status:        active")
	output, err = ctl("", "license")
	want(output, err, "id:            canary")
	var seen struct{ Status string }
	h.call(t, admin, http.MethodGet, "/license", nil).Want(t, 200).Into(t, &seen)
	if seen.Status != "active" {
		t.Errorf("%+v", seen)
	}
	output, err = ctl("", "license", "clear")
	want(output, err, "status:        trial")
	if h.Audited(t, "license.set") != 2 || h.Audited(t, "license.clear") != 1 {
		t.Error("it is not audited")
	}
}

func TestCtlUpgrade(t *testing.T) {
	h := build(t, kittest.New(t))
	h.setUp(t)
	// Without gateway-api: a gateway that is no package cannot begin one.
	if _, err := ctl(t, h.Paths.Root, "", "upgrade", "begin", "1.1.0"); err == nil || !strings.Contains(err.Error(), "apt knows no such version") {
		t.Error(err)
	}
	if output, err := ctl(t, h.Paths.Root, "", "upgrade"); err != nil || output != "The gateway has not been upgraded yet.\n" {
		t.Errorf("%q %v", output, err)
	}
	run := h.root(t)
	h.Machine.SetPackages(host.PackageVersions{Packages: []host.PackageVersion{{Name: host.GatewayPackage, Installed: "1.0.0", Available: "1.1.0", Newer: []string{"1.1.0"}}}}, nil)
	if _, err := run("", "upgrade", "begin", "0.9.0"); err == nil || !strings.Contains(err.Error(), "version: This field must be newer than the installed version 1.0.0") {
		t.Error(err)
	}
	if output, err := run("", "upgrade", "begin"); err != nil || !strings.HasPrefix(output, "The upgrade to version 1.1.0 has started.") || h.Audited(t, "system.upgrade") != 1 {
		t.Errorf("%q %v", output, err)
	}
	if _, err := run("", "upgrade", "begin"); err == nil || !strings.Contains(err.Error(), "already running") {
		t.Error(err)
	}
	folder, err := job.OpenFolder(h.Paths.Root, job.Upgrade, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.Save(job.Upgrade.RecordFile(), runner.Upgrade{From: "1.0.0", To: "1.1.0", Record: job.Record{ID: "1", State: job.TakenBack, Reason: "It did not serve.", Steps: []job.Step{
		{Name: "install", State: job.StepFailed, Output: "unpacking\nno\n", Error: "dpkg: no"},
	}}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		has  bool
	}{{[]string{"upgrade"}, false}, {[]string{"upgrade", "--output"}, true}} {
		output, err := run("", c.args...)
		if err != nil || !strings.Contains(output, "state:  taken back\n") || !strings.Contains(output, "reason: It did not serve.\n") || !strings.Contains(output, "install    failed\n") || strings.Contains(output, "| unpacking\n") != c.has {
			t.Errorf("%q %v", output, err)
		}
	}
}
