package app_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// example is the daemon that docs/adding-a-daemon.md has for one.
var example = regexp.MustCompile("(?i)keepalived|vrrp")

func addingADaemon(t *testing.T) (root, page string) {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "docs", "adding-a-daemon.md"))
	if err != nil {
		t.Fatal(err)
	}
	return root, string(content)
}

// The page lists every file of the kit that knows the example, and no file that does not.
func TestADaemonIsWhereThePageSays(t *testing.T) {
	root, page := addingADaemon(t)
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(page, -1) {
		listed = append(listed, m[1])
		if content, err := os.ReadFile(filepath.Join(root, m[1])); err != nil || !example.Match(content) {
			t.Errorf("%s does not name keepalived, %v", m[1], err)
		}
	}
	const folder = daemons + "keepalived/"
	outside := 0
	for _, s := range sources(t) {
		path := filepath.ToSlash(s.path)
		if s.test || !strings.HasPrefix(path, "internal/kit/") || !slices.ContainsFunc(s.imports, example.MatchString) {
			continue
		}
		if !strings.HasPrefix(path, folder) {
			outside++
			if !slices.Contains(listed, path) {
				t.Errorf("%s knows keepalived, and the page does not say so", path)
			}
		}
	}
	inFolder := 0
	for _, path := range listed {
		if strings.HasPrefix(path, folder) {
			inFolder++
		}
	}
	t.Logf("%d files in the folder, %d of the kit outside of it, %d in all", inFolder, outside, len(listed))
	if inFolder < 6 || outside > 6 || len(listed) > 20 {
		t.Errorf("%d files in the folder, %d of the kit outside of it, %d in all", inFolder, outside, len(listed))
	}
}

// What the page says about another daemon is enough for that: with its files and lines, the lists and the guard know the daemon.
func TestThePageAddsADaemon(t *testing.T) {
	root, page := addingADaemon(t)
	files := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)`(internal/[^`]+\\.go)`:\n\n```go\n(.*?)```").FindAllStringSubmatch(page, -1) {
		files[m[1]] = m[2]
	}
	if len(files) != 3 {
		t.Fatalf("the page has %d files", len(files))
	}
	line := func(path, imported, behind, entry string) {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		with := strings.Replace(string(content), "import (", "import (\n\t\""+module+imported+"\"", 1)
		with = strings.Replace(with, behind, behind+" "+entry, 1)
		if !strings.Contains(with, entry) {
			t.Fatalf("%s has no %s", path, behind)
		}
		files[path] = with
	}
	line("internal/kit/host/daemons.go", daemons+"lldpd", "keepalived.Daemon,", "lldpd.Daemon,")
	line("internal/kit/host/helper/guard/hostile/hostile.go", daemons+"lldpd/lldpdtest", "keepalivedtest.Hostile,", "lldpdtest.Hostile,")
	files["internal/kit/host/helper/guard/lldpd_test.go"] = tried
	replace, folder := map[string]string{}, t.TempDir()
	for path, content := range files {
		replace[filepath.Join(root, path)] = filepath.Join(folder, strings.ReplaceAll(path, "/", "-"))
		if err := os.WriteFile(replace[filepath.Join(root, path)], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-v", "-overlay", filepath.Join(folder, "overlay.json"),
		"-run", "^(TestLLDPD|TestHostileFilesAreRefused|TestEveryGrammarRefusesSomething)$", "./internal/kit/host/helper/guard")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
}

// tried is what has to be so with the page's daemon.
const tried = `package guard_test

import (
	"slices"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/lldpd"
	"edge.internal/gateway/internal/kit/host/helper/guard"
)

func TestLLDPD(t *testing.T) {
	unit, err := lldpd.Unit.Spec()
	if err != nil || !slices.ContainsFunc(host.UnitSpecs(), func(s host.UnitSpec) bool { return s.Unit == unit.Unit }) {
		t.Error(unit, err)
	}
	if _, err := lldpd.Neighbours.Spec(); err != nil {
		t.Error(err)
	}
	if _, err := lldpd.LogSource.Spec(); err != nil {
		t.Error(err)
	}
	if !host.IsPlace(lldpd.DropIn.Path()) || !slices.Contains(host.PackageNames(), "lldpd") {
		t.Error("it is not in the lists")
	}
	if !slices.ContainsFunc(host.LogViews(), func(s daemon.LogView) bool { return slices.Contains(s.Sources, lldpd.LogSource) }) {
		t.Error("nobody can read its log")
	}
	if err := guard.Admit(host.File{Place: lldpd.DropIn, Content: []byte("configure system hostname gateway\n")}); err != nil {
		t.Error(err)
	}
}
`
