package secret

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// File reads a file of random bytes, and creates it (mode 0600) when there is none.
func File(path string, size int) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err == nil && len(b) != size {
		return nil, fmt.Errorf("%s has %d bytes instead of %d", path, len(b), size)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	b = make([]byte, size)
	if _, err := rand.Read(b); err != nil {
		return nil, err
	}
	return b, Save(path, b)
}

// Save replaces a file that only its owner may read. It is staged beside the old one, because the folder for temporary
// files is not a place for secrets, and on the disk when Save returns.
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
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
