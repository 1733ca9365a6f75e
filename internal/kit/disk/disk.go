// Package disk makes folders, and new names in them, survive a power cut.
package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeFolder creates a folder with its parents; each new name survives a power cut.
func MakeFolder(folder string, mode fs.FileMode) error {
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	parent := filepath.Dir(folder)
	if err := MakeFolder(parent, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(folder, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return Sync(parent)
}

// Sync returns when the disk has the names in a folder.
func Sync(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
