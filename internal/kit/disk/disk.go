// Package disk makes folders and new directory entries survive a power cut.
package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeFolder creates a folder and its parents; each new entry survives a power cut.
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

// Sync returns when the entries of a folder are on disk.
func Sync(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
