package secret_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"edge.internal/gateway/internal/kit/secret"
)

func TestKeyFileIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etc", "master.key")
	if _, err := secret.Open(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a key that is not there: %v", err)
	}
	first, err := secret.Make(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != 32 {
		t.Fatal(info.Mode(), info.Size(), err)
	}
	sealed, err := first.Seal("s", "t", "c", "1")
	if err != nil {
		t.Fatal(err)
	}
	again, err := secret.Open(path)
	if err != nil || again.KeyID() != first.KeyID() {
		t.Fatal(err)
	}
	if plain, err := again.Open(sealed, "t", "c", "1"); err != nil || plain != "s" {
		t.Fatal(plain, err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := secret.Open(path); err == nil {
		t.Fatal("a damaged key is taken")
	}
	if _, err := secret.Make(path); err == nil {
		t.Fatal("a damaged key is replaced")
	}
}

// If several programs start together on a fresh machine, one creates the file, and all of them read what is on disk.
func TestFileMadeAtOnceIsOne(t *testing.T) {
	for round := range 30 {
		path := filepath.Join(t.TempDir(), "key")
		const programs = 8
		got := make([][]byte, programs)
		start := make(chan struct{})
		var all sync.WaitGroup
		for i := range programs {
			all.Go(func() {
				<-start
				b, err := secret.File(path, 32)
				if err != nil {
					t.Error(err)
				}
				got[i] = b
			})
		}
		close(start)
		all.Wait()
		stored, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range got {
			if !bytes.Equal(b, stored) {
				t.Fatalf("round %d: program %d has a key that is not on the disk", round, i)
			}
		}
		if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
			t.Fatalf("round %d: %v is left, %v", round, left, err)
		}
	}
}

func TestSealedBelongsToItsPlace(t *testing.T) {
	box, err := secret.NewBox(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := box.Seal("s", "table", "column", "row")
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range [][3]string{{"other", "column", "row"}, {"table", "other", "row"}, {"table", "column", "other"}, {"table\x00column", "", "row"}} {
		if _, err := box.Open(sealed, place[0], place[1], place[2]); err == nil {
			t.Errorf("opens at %v", place)
		}
	}
	for i := range sealed {
		broken := bytes.Clone(sealed)
		broken[i] ^= 1
		if _, err := box.Open(broken, "table", "column", "row"); err == nil {
			t.Errorf("opens with byte %d changed", i)
		}
	}
	other, err := secret.NewBox(bytes.Repeat([]byte{2}, 32))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Open(sealed, "table", "column", "row"); !errors.Is(err, secret.ErrOtherKey) {
		t.Errorf("another key: %v", err)
	}
	if _, err := box.Open(nil, "table", "column", "row"); err == nil {
		t.Error("nothing opens")
	}
}

func TestRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "key")
	if err := secret.Remove(path); err != nil {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := secret.Save(path, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := secret.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := secret.Save(filepath.Join(path, "inside"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := secret.Remove(path); err == nil {
		t.Error("a folder with a file in it is removed")
	}
}
