// Package e2e drives the whole gateway with a real browser.
package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m) }

// TestBrowser runs the Playwright tests of the UI against a fresh lab: setup, login, and every page. GATEWAY_PLAYWRIGHT
// names another script, such as the one that takes the screenshots, or adds arguments: "e2e -g passkey".
func TestBrowser(t *testing.T) {
	script := strings.Fields(cmp.Or(os.Getenv("GATEWAY_PLAYWRIGHT"), "e2e"))
	l := labtest.Up(t, lab.Options{})
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
	report := filepath.Join(t.TempDir(), "report.json")
	cmd.Env = append(os.Environ(),
		"GATEWAY_URL=https://10.10.0.1:3443",
		"GATEWAY_SETUP_TOKEN="+token,
		"GATEWAY_EXEC="+onGateway(t),
		"GATEWAY_OIDC_ISSUER="+issuer,
		"GATEWAY_OIDC_CLIENT_ID="+clientID,
		"GATEWAY_OIDC_CLIENT_SECRET="+clientSecret,
		"GATEWAY_REPORT="+report,
	)
	out, failed := cmd.CombinedOutput()
	t.Logf("%s", out)
	content, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("playwright: %v, %v", failed, err)
	}
	var all suite
	if err := json.Unmarshal(content, &all); err != nil {
		t.Fatal(err)
	}
	all.show(t)
	if failed != nil {
		t.Errorf("playwright: %v", failed)
	}
}

// suite is what Playwright reports of a file or of a group of tests.
type suite struct {
	Suites []suite
	Specs  []struct {
		Title, File string
		Tests       []struct{ Status string }
	}
}

// show shows each test of the browser as a subtest.
func (s suite) show(t *testing.T) {
	for _, spec := range s.Specs {
		t.Run(spec.File+": "+spec.Title, func(t *testing.T) {
			for _, run := range spec.Tests {
				if run.Status != "expected" { // also when it was skipped
					t.Errorf("it is %s: see what the browser's tests have said", run.Status)
				}
			}
		})
	}
	for _, group := range s.Suites {
		group.show(t)
	}
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
