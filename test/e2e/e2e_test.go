// Package e2e drives the whole gateway with a real browser.
package e2e

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m) }

// TestBrowser runs the Playwright tests of the UI against a fresh lab: setup, login, and every page. GATEWAY_PLAYWRIGHT
// names another script, such as the one that takes the screenshots.
func TestBrowser(t *testing.T) {
	script := cmp.Or(os.Getenv("GATEWAY_PLAYWRIGHT"), "e2e")
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
	cmd, err := l.Command(t.Context(), lab.Lan, "npm", "--prefix", ui, "run", "--silent", script)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(),
		"GATEWAY_URL=https://10.10.0.1:3443",
		"GATEWAY_SETUP_TOKEN="+token,
		"GATEWAY_EXEC="+onGateway(t),
	)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("playwright: %v", err)
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
