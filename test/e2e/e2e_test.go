// Package e2e drives the whole gateway with a real browser.
package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
	"edge.internal/gateway/test/offsite"
)

// ui is the folder of the UI.
const ui = "../../ui"

func TestMain(m *testing.M) { labtest.Main(m) }

// withPages are the files that share a gateway with pages.spec.ts in the long run. All others share one with jobs.spec.ts, and take about as long.
var withPages = []string{"alerts", "backups", "clients", "configuration", "diagnostics", "draft", "firewall", "network", "ntp", "users"}

// TestBrowser runs the Playwright tests of the UI against two fresh labs, in parallel. The short run has every page and the ten main tasks, the long one
// all files. A file, page or test is selected by its name: go test ./test/e2e -run TestBrowser//firewall.spec. ui/test-results has a
// screenshot of each failure, and a trace of its second try, or of every test with GATEWAY_TRACE=1. GATEWAY_PLAYWRIGHT names another script
// for one lab, such as the one that takes the screenshots.
func TestBrowser(t *testing.T) {
	t.Parallel()
	w := world{programs: labtest.Programs(t), key: labtest.LicenseKey(t), provider: provider(t)}
	if script := os.Getenv("GATEWAY_PLAYWRIGHT"); script != "" {
		w.browse(t, "one", true, script)
		return
	}
	only := chosen(flag.Lookup("test.run").Value.String())
	var ran atomic.Int64
	t.Cleanup(func() {
		if ran.Load() == 0 && !t.Failed() {
			t.Error("no test of the browser has this name")
		}
	})
	for shard, files := range shards(t, longtest.On || only != "") {
		t.Run(shard, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"e2e"}, files...)
			if only != "" {
				args = append(args, "--pass-with-no-tests", "--grep", only)
			}
			ran.Add(w.browse(t, shard, shard == "jobs" && only == "", args...))
		})
	}
}

// shards are the files of each lab: in the short run one each.
func shards(t *testing.T, all bool) map[string][]string {
	t.Helper()
	shards := map[string][]string{"pages": {"/pages.spec.ts"}, "jobs": {"/jobs.spec.ts"}}
	if !all {
		return shards
	}
	specs, err := filepath.Glob(filepath.Join(ui, "e2e", "*.spec.ts"))
	if err != nil || len(specs) == 0 {
		t.Fatal("no tests", err)
	}
	for _, path := range specs {
		switch name := strings.TrimSuffix(filepath.Base(path), ".spec.ts"); {
		case name == "pages" || name == "jobs":
		case name == "cluster": // see TestCluster
		case slices.Contains(withPages, name):
			shards["pages"] = append(shards["pages"], "/"+name+".spec.ts")
		default:
			shards["jobs"] = append(shards["jobs"], "/"+name+".spec.ts")
		}
	}
	return shards
}

// chosen translates -run for the tests of a lab to Playwright: its titles have spaces where names of Go have underscores, and no colons
// between their parts. It is empty when all of them run, which is also the case when one of the setup tests is selected.
func chosen(run string) string {
	_, below, _ := strings.Cut(run, "/")
	_, title, _ := strings.Cut(below, "/")
	if strings.HasPrefix(strings.TrimPrefix(title, "^"), "door") {
		return ""
	}
	if rest, anchored := strings.CutPrefix(title, "^"); anchored {
		title = "^e2e " + rest
	}
	return strings.NewReplacer(":_", ":?[ _]", ": ", ":? ", "_", "[ _]").Replace(title)
}

// world is what all labs of a test share.
type world struct {
	programs, key string // of the gateway, and for its licenses
	provider      string // the program
}

// browse runs a script of the UI with its arguments, against a fresh lab, and returns the number of tests. They set the gateway up in the browser, unless
// the API has done so.
func (w world) browse(t *testing.T, part string, door bool, script ...string) int64 {
	t.Helper()
	expectTry(t)
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
	// The internet has at least this name, also where the lab reaches no other.
	l.Names(t, lab.Wan, "198.51.100.2:53").Set(t, "example.com. 60 IN A 198.51.100.2")
	issuer, clientID, clientSecret := w.signOn(t, l)
	return run(t, cmd,
		"GATEWAY_RUN="+part,
		"GATEWAY_LONG="+flagged(longtest.On),
		"GATEWAY_KEY="+flagged(!door),
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

// flagged is a flag as a variable of the environment.
func flagged(on bool) string {
	if on {
		return "1"
	}
	return ""
}

// run runs Playwright, shows each of its tests as a subtest, and answers how many there were.
func run(t *testing.T, cmd *exec.Cmd, env ...string) (count int64) {
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
		fmt.Fprintln(report, "{}") // after the reports of all tests
	}()
	for tests := json.NewDecoder(report); next(t, tests); count++ {
	}
	err := <-ended
	t.Logf("%s", &said)
	if err != nil {
		t.Errorf("playwright: %v", err)
	}
	return count
}

// newReport is a pipe through which Playwright reports on its tests.
func newReport(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// Opened for writing, too, so that it does not end before Playwright opens it.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// result is Playwright's report on a test: its name when it begins, the rest when it has ended.
type result struct {
	Name, Outcome, Wrong string
	Tries                int
}

// next reports the next browser test as a subtest, which takes as long as that test. It is false when there is none.
func next(t *testing.T, report *json.Decoder) bool {
	t.Helper()
	tell := func() (told result) {
		if err := report.Decode(&told); err != nil {
			t.Fatal(err)
		}
		return told
	}
	begun := tell()
	if begun.Name == "" {
		return false
	}
	var ended *result
	end := func(t *testing.T) {
		t.Helper()
		told := tell()
		ended = &told
		judge(t, told)
	}
	t.Run(begun.Name, end)
	if ended == nil { // -run does not select it, but the selected tests need it
		end(t)
	}
	if ended.Tries > 1 && ended.Outcome != "flaky" {
		noteTries(t)
	}
	return ended.Name != ""
}

// judge fails a test that did in the browser.
func judge(t *testing.T, told result) {
	t.Helper()
	switch told.Outcome {
	case "expected":
	case "flaky": // see test/summary
		wrong, err := json.Marshal(told.Wrong)
		if err != nil {
			t.Fatal(err)
		}
		t.Attr("flaky", string(wrong))
	default: // also when it was skipped
		t.Errorf("%s is %q: %s", told.Name, told.Outcome, told.Wrong)
	}
}

// noteTries records in GATEWAY_TRIED that a browser test has failed twice. The script that retries failed Go tests sets that variable.
func noteTries(t *testing.T) {
	t.Helper()
	if note := triesNote(t); note != "" {
		if err := os.WriteFile(note, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// expectTry fails a test for which that is noted: it gets no third try.
func expectTry(t *testing.T) {
	t.Helper()
	if note := triesNote(t); note != "" {
		if _, err := os.Stat(note); err == nil {
			t.Fatal("it has had its second try in the browser: see what the first run said")
		}
	}
}

func triesNote(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("GATEWAY_TRIED")
	if folder == "" {
		return ""
	}
	return filepath.Join(folder, strings.ReplaceAll(t.Name(), "/", "-"))
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
