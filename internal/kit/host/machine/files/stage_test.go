package files

import (
	"os"
	"path/filepath"
	"testing"

	"edge.internal/gateway/internal/kit/host"
)

func TestStagedFilesArePrivate(t *testing.T) {
	dir, err := at(t.TempDir()).Stage([]host.File{{Place: host.ChronyDropIn, Content: []byte("secret")}})
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for path, want := range map[string]os.FileMode{dir: os.ModeDir | 0o700, filepath.Join(dir, host.ChronyDropIn.Path()): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// What a killed process has staged is removed by the next one; nothing else is.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	s := at(root)
	run := filepath.Join(root, "run/gateway-helper")
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(run, "helper.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stage([]host.File{{Place: host.ChronyDropIn, Content: []byte("secret")}}); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(run); len(left) != 2 {
		t.Fatalf("nothing was staged there: %v", left)
	}
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(run); len(left) != 1 || left[0].Name() != "helper.sock" {
		t.Errorf("left: %v", left)
	}
}
