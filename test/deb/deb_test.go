// Package deb builds the Debian package as a user does, and checks its contents.
package deb

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"edge.internal/gateway/internal/kit/longtest"
)

const root = "../.."

// version is the version of the tested package.
const version = "1.0.0"

// folder has everything that the tests build. gpg keeps its sockets below it: their paths must be short.
var folder string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "deb-")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	folder = dir
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// run runs a command in the repository and returns what it printed.
func run(argv ...string) (string, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = root
	// The make that runs the tests must not pass options to this one.
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return string(out), err
}

func must(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := run(argv...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// build builds the package in a folder of the tests: in a long run as it is published, otherwise without the slow parts: linking the
// programs again, and xz.
func build(name string) (string, error) {
	dist, how := filepath.Join(folder, name), []string{"COMPRESSION=none", "LINKED=bin"}
	if longtest.On {
		how = nil
	}
	if _, err := run(append([]string{"make", "package", "DIST=" + dist, "VERSION=" + version}, how...)...); err != nil {
		return "", err
	}
	list, err := filepath.Glob(filepath.Join(dist, "gateway_"+version+"_*.deb"))
	if err != nil || len(list) != 1 {
		return "", fmt.Errorf("built %q: %w", list, err)
	}
	return list[0], nil
}

var built = sync.OnceValues(func() (string, error) { return build("one") })

// thePackage is the package for all tests.
func thePackage(t *testing.T) string {
	t.Helper()
	deb, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return deb
}

// An interrupted build leaves nothing that looks like a package.
func TestInterruptedBuildLeavesNoPackage(t *testing.T) {
	thePackage(t) // its inputs are built
	dist := filepath.Join(folder, "cut")
	must(t, "cp", "-r", filepath.Join(folder, "one"), dist)
	left := func() []string {
		list, err := filepath.Glob(filepath.Join(dist, "gateway_*.deb"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	for _, deb := range left() {
		if err := os.Remove(deb); err != nil {
			t.Fatal(err)
		}
	}
	// A process that writes more than 40 MiB to a file is killed.
	if out, err := run("bash", "-c", "ulimit -f 40960; COMPRESSION=none packaging/deb/build.sh "+dist+" "+version); err == nil {
		t.Fatalf("it was not cut short: %s", out)
	}
	if list := left(); len(list) != 0 {
		t.Errorf("%q is left", list)
	}
}

// TestContents compares every file, with its mode and owner, with the expected list.
func TestContents(t *testing.T) {
	cmd := exec.Command("dpkg-deb", "--fsys-tarfile", thePackage(t))
	content, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch name := strings.TrimPrefix(h.Name, "."); {
		case h.Typeflag == tar.TypeSymlink:
			got = append(got, fmt.Sprintf("link %s:%s %s -> %s", h.Uname, h.Gname, name, h.Linkname))
		case h.Typeflag != tar.TypeDir:
			got = append(got, fmt.Sprintf("%04o %s:%s %s", h.Mode, h.Uname, h.Gname, name))
		case h.Mode != 0o755 || h.Uname != "root" || h.Gname != "root":
			t.Errorf("folder %s has mode %o and belongs to %s:%s", h.Name, h.Mode, h.Uname, h.Gname)
		}
	}
	want, err := os.ReadFile("testdata/contents.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(string(want)), "\n"), got); diff != "" {
		t.Error(diff)
	}
	if conffiles := must(t, "dpkg-deb", "--info", thePackage(t), "conffiles"); conffiles != "/etc/gateway/gateway.conf\n" {
		t.Errorf("conffiles: %s", conffiles)
	}
	for field, want := range map[string]string{"Version": version, "Section": "net", "Recommends": "wireguard-go, crowdsec, crowdsec-firewall-bouncer"} {
		if got := strings.TrimSpace(must(t, "dpkg-deb", "--field", thePackage(t), field)); got != want {
			t.Errorf("%s: %s, want %s", field, got, want)
		}
	}
}

// TestProgramsKnowTheirVersion runs the programs in the package.
func TestProgramsKnowTheirVersion(t *testing.T) {
	out := filepath.Join(folder, "unpacked")
	must(t, "dpkg-deb", "--extract", thePackage(t), out)
	if got := must(t, filepath.Join(out, "usr/lib/gateway/gateway-api"), "--version"); got != version+"\n" {
		t.Errorf("gateway-api says %q", got)
	}
	if got := must(t, filepath.Join(out, "usr/bin/gateway-ctl"), "--version"); !strings.Contains(got, version) {
		t.Errorf("gateway-ctl says %q", got)
	}
	for shell, file := range map[string]string{"bash": "usr/share/bash-completion/completions/gateway-ctl", "zsh": "usr/share/zsh/vendor-completions/_gateway-ctl"} {
		content, err := os.ReadFile(filepath.Join(out, file))
		if err != nil || !bytes.Contains(content, []byte("__complete")) {
			t.Errorf("completion of %s: %v, %d bytes", shell, err, len(content))
		}
	}
}
