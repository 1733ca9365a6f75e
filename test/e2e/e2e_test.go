// Package e2e drives the whole gateway with a real browser.
package e2e

import (
	"cmp"
	"os"
	"os/exec"
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
	l.WaitDatabase(t)
	token, err := l.SetupToken()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "npm", "run", "--silent", script)
	cmd.Dir = filepath.Join("..", "..", "ui")
	cmd.Env = append(os.Environ(),
		"GATEWAY_URL="+l.URL(),
		"GATEWAY_SETUP_TOKEN="+token,
		"GATEWAY_EXEC="+filepath.Join(labtest.Programs(t), "gateway-lab")+" exec --dir "+l.Dir(),
	)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("playwright: %v", err)
	}
}
