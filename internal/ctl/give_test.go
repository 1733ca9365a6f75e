package ctl

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file is given to the gateway's user, but neither the target of a link in its place nor a file with a second name elsewhere.
func TestGiveFollowsNoLink(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("only root may give files away: run this test as root")
	}
	outside := filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	owner := func(path string) uint32 {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Uid
	}
	const other = 65534
	for _, x := range []struct {
		name string
		put  func(path string) error
		good bool
	}{
		{"a file", func(path string) error { return os.WriteFile(path, nil, 0o600) }, true},
		{"a link", func(path string) error { return os.Symlink(outside, path) }, false},
		{"another name", func(path string) error { return os.Link(outside, path) }, false},
		{"a folder", func(path string) error { return os.Mkdir(path, 0o700) }, false},
		{"a pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }, false},
		{"nothing", func(string) error { return nil }, false},
	} {
		folder := t.TempDir()
		path := filepath.Join(folder, "x.archive")
		if err := x.put(path); err != nil {
			t.Fatal(err)
		}
		if err := give(folder, []string{"x.archive"}, other, other); (err == nil) != x.good {
			t.Errorf("%s: %v", x.name, err)
		}
		if x.good && (owner(path) != other || owner(folder) != other) {
			t.Errorf("%s is not given", x.name)
		}
	}
	if owner(outside) == other {
		t.Error("a file outside was given away")
	}
}
