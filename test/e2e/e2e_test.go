// Package e2e drives the whole gateway with a real browser.
package e2e

import (
	"bytes"
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

// ui is the folder of the UI.
const ui = "../../ui"

func TestMain(m *testing.M) { labtest.Main(m) }

// first are the tests that have a gateway of their own: those of all pages, and those before them that leave something to see on them. All others
// have another gateway at the same time, and take about as long.
var first = []string{"alerts", "backups", "clients", "configuration", "diagnostics", "draft", "firewall", "network", "ntp", "pages", "users"}

// TestBrowser runs the Playwright tests of the UI against fresh labs: setup, login, and every page. GATEWAY_PLAYWRIGHT
// names another script, such as the one that takes the screenshots, or adds arguments, for one lab: "e2e -g passkey".
func TestBrowser(t *testing.T) {
	t.Parallel()
	programs, key := labtest.Issuer(t)
	w := world{programs: programs, key: key, provider: provider(t)}
	if script := strings.Fields(os.Getenv("GATEWAY_PLAYWRIGHT")); len(script) > 0 {
		w.browse(t, "one", script...)
		return
	}
	specs, err := filepath.Glob(filepath.Join(ui, "e2e", "*.spec.ts"))
	if err != nil || len(specs) == 0 {
		t.Fatal("no tests", err)
	}
	parts := map[string][]string{}
	for _, path := range specs {
		switch name := strings.TrimSuffix(filepath.Base(path), ".spec.ts"); {
		case name == "cluster": // see TestCluster
		case slices.Contains(first, name):
			parts["first"] = append(parts["first"], "/"+name+".spec.ts")
		default:
			parts["second"] = append(parts["second"], "/"+name+".spec.ts")
		}
	}
	for part, files := range parts {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			w.browse(t, part, append([]string{"e2e"}, files...)...)
		})
	}
}

// world is what all labs of a test share.
type world struct {
	programs, key string // of the gateway, and for its licenses
	provider      string // the program
}

// browse runs a script of the UI with its arguments, against a fresh lab.
func (w world) browse(t *testing.T, part string, script ...string) {
	t.Helper()
	l := labtest.Up(t, lab.Options{Programs: w.programs, Volatile: true})
	token, err := l.SetupToken()
	if err != nil {
		t.Fatal(err)
	}
	folderOfUI, err := filepath.Abs(ui)
	if err != nil {
		t.Fatal(err)
	}
	// The browser is a machine on the LAN: it needs the setup token, and crosses a network to get here.
	cmd, err := l.Command(t.Context(), lab.Lan, slices.Concat([]string{"npm", "--prefix", folderOfUI, "run", "--silent", script[0], "--"}, script[1:])...)
	if err != nil {
		t.Fatal(err)
	}
	issuer, clientID, clientSecret := w.signOn(t, l)
	run(t, cmd,
		"GATEWAY_RUN="+part,
		"GATEWAY_URL=https://10.10.0.1:3443",
		"GATEWAY_SETUP_TOKEN="+token,
		"GATEWAY_EXEC="+onGateway(t),
		"GATEWAY_LICENSE_SIGN="+filepath.Join(w.programs, "gateway-license")+" sign --key "+w.key,
		"GATEWAY_OIDC_ISSUER="+issuer,
		"GATEWAY_OIDC_CLIENT_ID="+clientID,
		"GATEWAY_OIDC_CLIENT_SECRET="+clientSecret,
		"GATEWAY_S3="+bucket(t, l),
		"GATEWAY_SFTP="+folder(t, l),
	)
}

// TestCluster runs the Playwright tests of the cluster's pages against two gateways, the second of which is not set up yet.
func TestCluster(t *testing.T) {
	t.Parallel()
	l := labtest.UpAsAdmin(t, lab.Options{Nodes: 2, Apart: true, Volatile: true})
	second := l.All()[1]
	token, err := second.SetupToken()
	if err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Abs(filepath.Join("..", "..", "bin"))
	if err != nil {
		t.Fatal(err)
	}
	run(t, exec.CommandContext(t.Context(), "npm", "--prefix", ui, "run", "--silent", "e2e-cluster"),
		"GATEWAY_RUN=cluster",
		"GATEWAY_URL="+l.URL(),
		"GATEWAY_SECOND_URL="+second.URL(),
		"GATEWAY_SECOND_SETUP_TOKEN="+token,
		"GATEWAY_ADMIN_EMAIL="+labtest.AdminEmail,
		"GATEWAY_ADMIN_PASSWORD="+labtest.AdminPassword,
		"GATEWAY_LAB="+filepath.Join(programs, "gateway-lab"),
		"GATEWAY_LAB_DIR="+l.Dir(),
	)
}

// run runs Playwright, and shows each of its tests as a subtest.
func run(t *testing.T, cmd *exec.Cmd, env ...string) {
	t.Helper()
	report := newReport(t)
	cmd.Env = append(append(os.Environ(), "GATEWAY_REPORT="+report.Name()), env...)
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
	err := <-ended
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
		switch more = tell(); test.Outcome {
		case "expected":
		case "flaky": // see test/summary
			wrong, err := json.Marshal(test.Wrong)
			if err != nil {
				t.Fatal(err)
			}
			t.Attr("flaky", string(wrong))
		default: // also when it was skipped
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

// folder runs an SSH server on the WAN side, and answers the settings of a target for it, with its fingerprint.
func folder(t *testing.T, l *labtest.Lab) string {
	t.Helper()
	server := offsite.SSHDAt(t, "198.51.100.2", 9022)
	cmd, err := l.Command(t.Context(), lab.Wan, server.Command()...)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	settings := server.Settings()
	settings["host_key_fingerprint"] = server.Fingerprint
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) // it ends with the lab
}

// provider builds an identity provider.
func provider(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "provider")
	if out, err := exec.Command("go", "build", "-o", program, "./provider").CombinedOutput(); err != nil {
		t.Fatalf("building the provider: %v\n%s", err, out)
	}
	return program
}

// signOn runs the identity provider on the WAN side, where the gateway and the browser both reach it.
func (w world) signOn(t *testing.T, l *labtest.Lab) (issuer, clientID, clientSecret string) {
	t.Helper()
	cmd, err := l.Command(t.Context(), lab.Wan, w.provider, "198.51.100.2:9000")
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
