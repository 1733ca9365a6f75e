package secret

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"edge.internal/gateway/internal/kit/disk"
)

// File reads a file of random bytes, and creates it (mode 0600) if it does not exist. If several programs create it at once, one
// wins, and all return its bytes: File returns what is on disk.
func File(path string, size int) ([]byte, error) {
	b, err := read(path, size)
	if !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if err := create(path, size); err != nil {
		return nil, err
	}
	return read(path, size)
}

func read(path string, size int) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err == nil && len(b) != size {
		return nil, fmt.Errorf("%s has %d bytes instead of %d", path, len(b), size)
	}
	return b, err
}

// create creates a file of random bytes unless it exists. A link, unlike a rename, never replaces another program's file, and the
// file is complete when it gets its name.
func create(path string, size int) error {
	b := make([]byte, size)
	if _, err := rand.Read(b); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return disk.Sync(dir)
}

// Save replaces a file that only its owner may read. It is staged in the same folder, because the one for temporary files is no
// place for secrets, and is on disk when Save returns.
func Save(path string, content []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return err
	}
	defer f.Cleanup()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return disk.Sync(dir)
}

// Remove removes a file if it exists. It stays removed after a power cut.
func Remove(path string) error {
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return disk.Sync(filepath.Dir(path))
}
