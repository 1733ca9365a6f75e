package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestJournalKeepsOneOlderFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log", "unit.log")
	line := append(bytes.Repeat([]byte("x"), 1<<20-1), '\n')
	size := func(path string) int64 {
		info, err := os.Stat(path)
		if err != nil {
			return -1
		}
		return info.Size()
	}
	j := newJournal(path)
	for range 6 {
		if _, err := j.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if size(path) != 6<<20 || size(path+".1") != -1 {
		t.Errorf("%d and %d bytes", size(path), size(path+".1"))
	}
	j = newJournal(path) // a new lab continues where the last one stopped
	for range 8 {
		if _, err := j.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if size(path) != 1<<20 || size(path+".1") != 6<<20 {
		t.Errorf("%d and %d bytes", size(path), size(path+".1"))
	}
	if others, _ := filepath.Glob(path + "*"); len(others) != 2 {
		t.Errorf("files %q", others)
	}
}
