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
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
)

// root serves the machine's root, as gateway-api does, and answers what gateway-ctl says.
func (h house) root(t *testing.T) func(stdin string, args ...string) (string, error) {
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
	go func() { ended <- (&httpd.Server{Handler: h.Handler(), Log: h.Log, Local: true}).Serve(ctx, socket) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func(stdin string, args ...string) (string, error) {
		var said bytes.Buffer
		ctl := app.Ctl()
		ctl.SetArgs(append(args, "--root", h.Paths.Root))
		ctl.SetIn(strings.NewReader(stdin))
		ctl.SetOut(&said)
		err := ctl.ExecuteContext(t.Context())
		return said.String(), err
	}
}

func TestCtlLicense(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	h.furnish(t, admin)
	ctl := h.root(t)
	want := func(said string, err error, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if err != nil || !strings.Contains(said, line+"\n") {
				t.Errorf("no %q in %q, %v", line, said, err)
			}
		}
	}
	said, err := ctl("", "license")
	want(said, err, "status:        trial", "domains:       1, no limit", "tunnel peers:  1, no limit")
	if _, err := ctl("", "license", "clear"); err == nil || !strings.Contains(err.Error(), "No license is installed") {
		t.Error(err)
	}
	for _, text := range []string{"", "nonsense", "\xff\xfe", canaryLicense + "x", strings.Repeat(canaryLicense, 100)} {
		if said, err := ctl(text, "license", "set", "-"); err == nil || said != "" {
			t.Errorf("%.20q: %q, %v", text, said, err)
		}
	}
	file := filepath.Join(t.TempDir(), "license")
	if err := os.WriteFile(file, []byte("\r\n"+canaryLicense), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err = ctl("", "license", "set", file)
	want(said, err, "status:        active", "subject:       Example Ltd", "features:      all", "nodes:         1, no limit")
	said, err = ctl(canaryLicense, "license", "set", "-")
	want(said, err, "status:        active")
	said, err = ctl("", "license")
	want(said, err, "id:            canary")
	var seen struct{ Status string }
	h.call(t, admin, http.MethodGet, "/license", nil).Want(t, 200).Into(t, &seen)
	if seen.Status != "active" {
		t.Errorf("%+v", seen)
	}
	said, err = ctl("", "license", "clear")
	want(said, err, "status:        trial")
	if h.Audited(t, "license.set") != 2 || h.Audited(t, "license.clear") != 1 {
		t.Error("it is not audited")
	}
}
