// Package e2e drives the whole gateway with a real browser.
package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
	"edge.internal/gateway/test/offsite"
)

func TestMain(m *testing.M) { labtest.Main(m) }

// TestBrowser runs the Playwright tests of the UI against a fresh lab: setup, login, and every page. GATEWAY_PLAYWRIGHT
// names another script, such as the one that takes the screenshots, or adds arguments: "e2e -g passkey".
func TestBrowser(t *testing.T) {
	script := strings.Fields(cmp.Or(os.Getenv("GATEWAY_PLAYWRIGHT"), "e2e"))
	programs, key := labtest.Issuer(t)
	l := labtest.Up(t, lab.Options{Programs: programs})
	token, err := l.SetupToken()
	if err != nil {
		t.Fatal(err)
	}
	ui, err := filepath.Abs(filepath.Join("..", "..", "ui"))
	if err != nil {
		t.Fatal(err)
	}
	// The browser is a machine on the LAN: it needs the setup token, and crosses a network to get here.
	cmd, err := l.Command(t.Context(), lab.Lan, slices.Concat([]string{"npm", "--prefix", ui, "run", "--silent", script[0], "--"}, script[1:])...)
	if err != nil {
		t.Fatal(err)
	}
	issuer, clientID, clientSecret := provider(t, l)
	report := newReport(t)
	cmd.Env = append(os.Environ(),
		"GATEWAY_URL=https://10.10.0.1:3443",
		"GATEWAY_SETUP_TOKEN="+token,
		"GATEWAY_EXEC="+onGateway(t),
		"GATEWAY_LICENSE_SIGN="+filepath.Join(programs, "gateway-license")+" sign --key "+key,
		"GATEWAY_OIDC_ISSUER="+issuer,
		"GATEWAY_OIDC_CLIENT_ID="+clientID,
		"GATEWAY_OIDC_CLIENT_SECRET="+clientSecret,
		"GATEWAY_S3="+bucket(t, l),
		"GATEWAY_REPORT="+report.Name(),
	)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		fmt.Fprintln(report, "{}") // behind all that the tests have told
	}()
	tests := json.NewDecoder(report)
	for next(t, tests) {
	}
	err = <-ended
	t.Logf("%s", &said)
	if err != nil {
		t.Errorf("playwright: %v", err)
	}
}

// newReport is a pipe through which Playwright tells how its tests fare.
func newReport(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// For writing, too: so there is never an end before it is told.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// next shows the next test of the browser as a subtest, which takes as long as that one does. It is false when there is none.
func next(t *testing.T, report *json.Decoder) (more bool) {
	t.Helper()
	var test struct{ Name, Outcome, Wrong string }
	tell := func() bool {
		test.Name, test.Outcome, test.Wrong = "", "", ""
		if err := report.Decode(&test); err != nil {
			t.Fatal(err)
		}
		return test.Name != ""
	}
	if !tell() {
		return false
	}
	t.Run(test.Name, func(t *testing.T) {
		if more = tell(); test.Outcome != "expected" { // also when it was skipped
			t.Errorf("it is %q: %s", test.Outcome, test.Wrong)
		}
	})
	return more
}

// onGateway is a program for the browser's side that runs a command on the gateway, called as gateway-lab exec is. They
// share everything but the network.
func onGateway(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "exec")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nshift 2\nexec nsenter --target 1 --net -- \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// bucket runs an S3 service on the WAN side, with a bucket that is called backups. Its keys are those of the tests.
func bucket(t *testing.T, l *labtest.Lab) (address string) {
	t.Helper()
	address = "198.51.100.2:9002"
	data := t.TempDir()
	if err := os.MkdirAll(filepath.Join(data, "backups"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd, err := l.Command(t.Context(), lab.Wan, offsite.Tool(t), "--port", address, "--access", "gateway", "--secret", "correct-horse-battery", "--quiet", "posix", "--sidecar", t.TempDir(), data)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return address // it ends with the lab
}

// provider runs an identity provider on the WAN side, where the gateway and the browser both reach it.
func provider(t *testing.T, l *labtest.Lab) (issuer, clientID, clientSecret string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "provider")
	if out, err := exec.Command("go", "build", "-o", program, "./provider").CombinedOutput(); err != nil {
		t.Fatalf("building the provider: %v\n%s", err, out)
	}
	cmd, err := l.Command(t.Context(), lab.Wan, program, "198.51.100.2:9000")
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscan(said, &issuer, &clientID, &clientSecret); err != nil {
		t.Fatalf("the provider says nothing: %v", err)
	}
	return issuer, clientID, clientSecret // it ends with the lab
}
