package files

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
)

// The checking program's group may read the files. Other users may not, and only root may change them.
func TestStagedFilesArePrivate(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	defer syscall.Umask(syscall.Umask(0o077))
	dir, remove, err := at(t.TempDir()).Stage([]host.File{{Place: chrony.DropIn, Content: []byte("secret")}, {Place: chrony.Main}}, 4711)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	seen := 0
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		want := os.FileMode(0o640)
		if d.IsDir() {
			want = os.ModeDir | 0o750
		}
		info, err := d.Info()
		if owner := info.Sys().(*syscall.Stat_t); err != nil || info.Mode() != want || owner.Uid != 0 || owner.Gid != 4711 {
			t.Errorf("%s: %v of %d:%d, %v", path, info.Mode(), owner.Uid, owner.Gid, err)
		}
		seen++
		return nil
	})
	if err != nil || seen != 6 {
		t.Errorf("%d files and folders, %v", seen, err)
	}
}

// The next process removes what a killed process has staged, but nothing else and nothing of a running process.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	s := at(root)
	if err := s.Sweep(); err != nil {
		t.Fatalf("without a folder: %v", err)
	}
	run := filepath.Join(root, host.CheckFolder)
	if err := os.MkdirAll(filepath.Join(run, staged+"killed"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(run, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	living, remove, err := s.Stage([]host.File{{Place: chrony.DropIn, Content: []byte("secret")}}, 4711)
	if err != nil {
		t.Fatal(err)
	}
	left := func() (names []string) {
		t.Helper()
		if err := at(root).Sweep(); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(run)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	if got := left(); !slices.Equal(got, []string{"other", filepath.Base(living)}) {
		t.Errorf("left: %v", got)
	}
	remove()
	if got := left(); !slices.Equal(got, []string{"other"}) {
		t.Errorf("left in the end: %v", got)
	}
}
