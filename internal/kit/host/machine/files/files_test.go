package files

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/parts"
	"edge.internal/gateway/internal/kit/waittest"
)

// at returns the files below a root, or the real ones.
func at(root string) *Files { return New(home.Home{Root: root, Foreign: root != ""}) }

func TestInstallReadRemove(t *testing.T) {
	s := at(t.TempDir())
	if _, err := s.Read(chrony.DropIn); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("reading a missing place: %v", err)
	}
	for _, content := range []string{"one\n", "two, longer\n", ""} {
		if err := s.Install(chrony.DropIn, []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := s.Read(chrony.DropIn)
		if err != nil || string(got) != content {
			t.Fatalf("read %q, %v; want %q", got, err, content)
		}
	}
	info, err := os.Stat(s.Path(chrony.DropIn))
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for range 2 {
		if err := s.Remove(chrony.DropIn); err != nil {
			t.Fatal(err)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(s.Path(chrony.DropIn))); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// Places that are missing, changed or not plain files differ; an empty file does not differ from an empty one.
func TestDiffering(t *testing.T) {
	s := at(t.TempDir())
	same := host.File{Place: chrony.DropIn, Content: []byte("ours\n")}
	changed := host.File{Place: nftables.Table, Content: []byte("table\n")}
	missing := host.File{Place: haproxy.Hosts}
	link := host.File{Place: haproxy.Config, Content: []byte("ours\n")}
	for _, f := range []host.File{same, changed} {
		if err := s.Install(f.Place, f.Content); err != nil {
			t.Fatal(err)
		}
	}
	changed.Content = []byte("table\n\n")
	if err := os.MkdirAll(filepath.Dir(s.Path(link.Place)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(s.Path(same.Place), s.Path(link.Place)); err != nil {
		t.Fatal(err)
	}
	got, err := s.Differing([]host.Digest{same.Digest(), changed.Digest(), missing.Digest(), link.Digest()})
	if want := []host.Place{changed.Place, missing.Place, link.Place}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v differ, %v; want %v", got, err, want)
	}
	if err := s.Install(missing.Place, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Differing([]host.Digest{missing.Digest()}); err != nil || len(got) > 0 {
		t.Errorf("an empty file: %v differ, %v", got, err)
	}
}

// Amend writes the whole file, and works only on a file that this process has installed.
func TestAmend(t *testing.T) {
	root := t.TempDir()
	s := at(root)
	const begin, end = "table inet gateway\ndelete table inet gateway\ntable inet gateway {\n", "}\n"
	first, second := begin+"\t# one\n"+end, begin+"\t# one\n\tchain x {\n\t}\n"+end
	split := func(text string) parts.Text {
		p, err := nft.Split(nftables.Name, text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	there, ok := parts.Between(split(first), split(second))
	back, ok2 := parts.Between(split(second), split(first))
	if !ok || !ok2 {
		t.Fatal("no change between them")
	}
	has := func(want string) {
		t.Helper()
		if got, err := s.Read(nftables.Table); err != nil || string(got) != want {
			t.Fatalf("%v\n%s\ninstead of\n%s", err, got, want)
		}
	}
	other := func(err error) {
		t.Helper()
		if !errors.Is(err, parts.ErrOther) {
			t.Fatalf("a change of another text was accepted: %v", err)
		}
	}
	other(s.Amend(nftables.Table, there))
	if err := s.Install(nftables.Table, []byte(first)); err != nil {
		t.Fatal(err)
	}
	other(s.Amend(nftables.Table, back))
	other(s.Amend(chrony.DropIn, there))
	other(at(root).Amend(nftables.Table, there)) // as in a process that has not installed it
	has(first)
	for range 3 {
		for _, x := range []struct {
			change parts.Change
			want   string
		}{{there, second}, {back, first}} {
			if err := s.Amend(nftables.Table, x.change); err != nil {
				t.Fatal(err)
			}
			has(x.want)
		}
	}
	// A change by another program is overwritten.
	if err := os.WriteFile(s.Path(nftables.Table), []byte("else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Amend(nftables.Table, there); err != nil {
		t.Fatal(err)
	}
	has(second)
	if err := s.Remove(nftables.Table); err != nil {
		t.Fatal(err)
	}
	other(s.Amend(nftables.Table, back))
	if err := s.Install(nftables.Table, []byte("no table")); err != nil {
		t.Fatal(err)
	}
	other(s.Amend(nftables.Table, back))
}

// What was replaced is freed, although nobody waits for that.
func TestReplacedFilesAreFreed(t *testing.T) {
	root := t.TempDir()
	s := at(root)
	for i := range 50 {
		if err := s.Install(chrony.DropIn, []byte(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	waittest.Until(t, "nothing that was replaced is open", func() bool {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(open, func(e os.DirEntry) bool {
			target, err := os.Readlink("/proc/self/fd/" + e.Name())
			return err == nil && strings.HasPrefix(target, root) && strings.HasSuffix(target, " (deleted)")
		})
	})
}

// An attacker with a daemon's rights can replace the gateway's files with links and other files; Read refuses them.
func TestReadTrustsOnlyPlainFilesOfTheOwner(t *testing.T) {
	s := at(t.TempDir())
	path := s.Path(chrony.DropIn)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(elsewhere, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func() error{
		"a symbolic link": func() error { return os.Symlink(elsewhere, path) },
		"a pipe":          func() error { return syscall.Mkfifo(path, 0o644) },
		"a folder":        func() error { return os.Mkdir(path, 0o755) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Read(chrony.DropIn); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(elsewhere, path); err != nil {
		t.Fatal(err)
	}
	if err := s.Install(chrony.DropIn, []byte("ours")); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(elsewhere); string(got) != "secret" {
		t.Errorf("the file behind the link is now %q", got)
	}
	if got, err := s.Read(chrony.DropIn); err != nil || string(got) != "ours" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestInstallIgnoresTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	s := at(t.TempDir())
	if err := s.Install(chrony.DropIn, nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(s.Path(chrony.DropIn))
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestInstallSetsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("only root may give files away: run this test as root")
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := at("").install(host.PlaceSpec{Path: path, Mode: 0o640, Owner: "root", Group: "_chrony"}, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	_, gid, err := LookupOwner("root", "_chrony")
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o640 || int(info.Sys().(*syscall.Stat_t).Gid) != gid {
		t.Errorf("%v, %v", info, err)
	}
}

func TestUnknownNamesAreRefused(t *testing.T) {
	s := at(t.TempDir())
	if err := s.Install("../../etc/passwd", nil); err == nil {
		t.Error("install")
	}
	if _, err := s.Read("x"); err == nil {
		t.Error("read")
	}
	if err := s.Remove("x"); err == nil {
		t.Error("remove")
	}
}

// TestInstallIsAtomic kills a process between staging and renaming, and right after renaming.
func TestInstallIsAtomic(t *testing.T) {
	if root := os.Getenv("HOST_TEST_INSTALL"); root != "" {
		err := at(root).Install(chrony.DropIn, bytes.Repeat([]byte("new\n"), 10_000))
		t.Fatalf("still alive: %v", err)
	}
	for _, c := range []struct{ point, want string }{
		{failpoint.Staged, "old\n"},
		{failpoint.Renamed, strings.Repeat("new\n", 10_000)},
	} {
		t.Run(c.point, func(t *testing.T) {
			root := t.TempDir()
			s := at(root)
			if err := s.Install(chrony.DropIn, []byte("old\n")); err != nil {
				t.Fatal(err)
			}
			points := t.TempDir()
			if err := os.WriteFile(filepath.Join(points, c.point), []byte("kill"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestInstallIsAtomic$")
			cmd.Env = append(os.Environ(), "HOST_TEST_INSTALL="+root, "GATEWAY_FAILPOINTS="+points)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the process was not killed: %v: %s", err, out)
			}
			got, err := s.Read(chrony.DropIn)
			if err != nil || string(got) != c.want {
				t.Errorf("after the kill: %d bytes, %v; want %d", len(got), err, len(c.want))
			}
			// The next process removes what the dead one staged, and nothing else.
			hidden := filepath.Join(filepath.Dir(s.Path(chrony.DropIn)), ".mine2")
			if err := os.WriteFile(hidden, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := at(root).Install(chrony.DropIn, []byte("next\n")); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(hidden); err != nil {
				t.Error(err)
			}
			if entries, _ := os.ReadDir(filepath.Dir(s.Path(chrony.DropIn))); len(entries) != 1 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}

func TestInstallErrors(t *testing.T) {
	root := t.TempDir()
	s := at(root)
	if err := os.WriteFile(filepath.Join(root, "etc"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err := s.Install(chrony.DropIn, nil)
	if !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), "/etc/chrony/conf.d/gateway.conf") {
		t.Errorf("err = %v", err)
	}
}

// A daemon's user who owns the parent folder cannot redirect the gateway's folder with a link.
func TestLinkedFoldersAreNotFollowed(t *testing.T) {
	root := t.TempDir()
	s, elsewhere := at(root), filepath.Join(root, "elsewhere")
	place := freeradius.Users
	file := filepath.Join(elsewhere, filepath.Base(place.Path()))
	folder := filepath.Join(root, filepath.Dir(place.Path()))
	if err := errors.Join(os.MkdirAll(elsewhere, 0o755), os.MkdirAll(filepath.Dir(folder), 0o755),
		os.WriteFile(file, []byte("theirs"), 0o600), os.Symlink(elsewhere, folder)); err != nil {
		t.Fatal(err)
	}
	if err := s.Install(place, []byte("ours")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("install: %v", err)
	}
	if content, err := s.Read(place); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("read: %q, %v", content, err)
	}
	if err := s.Remove(place); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("remove: %v", err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "theirs" {
		t.Errorf("%q, %v", content, err)
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}
