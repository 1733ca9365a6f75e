package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// here finds the parts of one of the programs and those of the console.
func here(t *testing.T) sources {
	t.Helper()
	env, err := exec.Command("go", "env", "GOMODCACHE", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(env))
	programs := t.TempDir()
	build := exec.Command("go", "build", "-o", programs+"/", "edge.internal/gateway/cmd/gateway-api")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return sources{Programs: programs, UI: "../../ui", Modules: words[0], Go: words[1]}
}

// TestEverythingIsListed compares both documents with go.sum and package-lock.json.
func TestEverythingIsListed(t *testing.T) {
	parts, err := here(t).parts()
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile("../../ui/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	copyright := notices(parts)
	bill, err := materials(parts, "1.2.3", time.Unix(0, 0).UTC())
	if err != nil {
		t.Fatal(err)
	}
	var read struct{ Components []component }
	if err := json.Unmarshal(bill, &read); err != nil {
		t.Fatal(err)
	}
	if len(read.Components) != len(parts) {
		t.Errorf("%d components of %d parts", len(read.Components), len(parts))
	}
	count := map[string]int{}
	for i, p := range parts {
		count[p.Kind]++
		locked := map[string]string{"golang": p.Name + " " + p.Version + " h1:", "npm": `"node_modules/` + p.Name + `"`}[p.Kind]
		if p.Name != "std" && !bytes.Contains(append(sum, lock...), []byte(locked)) {
			t.Errorf("%s %s is not locked", p.Name, p.Version)
		}
		if p.License == "" || !bytes.Contains(copyright, []byte("\nFiles: "+p.Kind+"/"+p.Name+"@"+p.Version+"/*\nCopyright: ")) {
			t.Errorf("%s %s: license %q", p.Name, p.Version, p.License)
		}
		if c := read.Components[i]; c.Name != p.Name || c.Version != p.Version || len(c.Licenses) != 1 || c.Licenses[0].License.ID != p.License || (p.Kind == "npm") != (len(c.Hashes) == 1) {
			t.Errorf("%+v for %s", c, p.Name)
		}
	}
	if count["golang"] < 30 || count["npm"] < 30 {
		t.Errorf("found %v", count)
	}
	for _, name := range []string{"react", "@mantine/core"} {
		if !bytes.Contains(copyright, []byte("\nFiles: npm/"+name+"@")) {
			t.Errorf("%s is in the console and not in the notices", name)
		}
	}
	for _, name := range []string{"vite", "vitest", "@playwright/test"} {
		if bytes.Contains(copyright, []byte("\nFiles: npm/"+name+"@")) {
			t.Errorf("%s is for development alone, and in the notices", name)
		}
	}
	// The text of each license that a paragraph names is included.
	texts := map[string]bool{"Gateway": true}
	for _, m := range regexp.MustCompile(`\n\nLicense: (\S+)\n \S`).FindAllSubmatch(copyright, -1) {
		texts[string(m[1])] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^License: (\S+)$`).FindAllSubmatch(copyright, -1) {
		if !texts[string(m[1])] {
			t.Errorf("the license %s has no text", m[1])
		}
	}
	if !bytes.Contains(copyright, []byte("NOTICE:")) {
		t.Error("the notices that Apache's license asks for are missing")
	}
}

func TestUnknownLicense(t *testing.T) {
	folder := t.TempDir()
	if _, _, _, err := license(folder); !errors.Is(err, errNoLicense) {
		t.Errorf("without one: %v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "LICENSE"), []byte("Ask the author before you ship this.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := license(folder); err == nil || !strings.Contains(err.Error(), "review it") {
		t.Errorf("an unknown one: %v", err)
	}
}

func TestHolders(t *testing.T) {
	p := part{Name: "x", Text: "MIT License\n\n> Copyright (c) 2020 A <a@example.net>\nOriginal work Copyright (c) 2012 B\n(c) You must retain the copyright notice\nCopyright [yyyy] [name of copyright owner]\n"}
	if got := holders(p); got != "Copyright (c) 2020 A <a@example.net>\nOriginal work Copyright (c) 2012 B" {
		t.Error(got)
	}
	if got := terms(p.Text); got != "MIT License\n\n(c) You must retain the copyright notice\nCopyright [yyyy] [name of copyright owner]" {
		t.Error(got)
	}
	if got := holders(part{Name: "y", Text: "Apache License"}); got != "the authors of y" {
		t.Error(got)
	}
}

func TestPURL(t *testing.T) {
	for want, p := range map[string]part{
		"pkg:npm/%40mantine/core@9.7.3":                {Kind: "npm", Name: "@mantine/core", Version: "9.7.3"},
		"pkg:golang/github.com/jackc/pgx/v5@v5.11.0":   {Kind: "golang", Name: "github.com/jackc/pgx/v5", Version: "v5.11.0"},
		"pkg:golang/example.net/a@v1.0.0+incompatible": {Kind: "golang", Name: "example.net/a", Version: "v1.0.0+incompatible"},
	} {
		if got := purl(p); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
