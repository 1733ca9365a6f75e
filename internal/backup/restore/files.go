package restore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"edge.internal/gateway/internal/backup/archive"
)

// Files locates the gateway's state files and their owner. Folders that the gateway's user can write are opened so that no link leads out
// of them.
type Files struct {
	// State and Config are the folders.
	State, Config string
	// UID and GID identify the gateway's user; negative values keep the owner of this process.
	UID, GID int
}

// folders returns the places of all parts except the database.
func (f Files) folders() map[string]string {
	return map[string]string{archive.State: f.State, archive.Config: f.Config}
}

// present lists the parts that exist below the folders.
func (f Files) present() (map[string]bool, error) {
	found := map[string]bool{}
	for prefix, folder := range f.folders() {
		root, err := os.OpenRoot(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		err = presentIn(root, prefix, found)
		root.Close()
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func presentIn(root *os.Root, prefix string, found map[string]bool) error {
	names, err := fs.Glob(root.FS(), "acme/*.json")
	if err != nil {
		return err
	}
	for _, name := range archive.Names() {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			names = append(names, rest)
		}
	}
	for _, name := range names {
		info, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if archive.Known(prefix+name) && info.Mode().IsRegular() {
			found[prefix+name] = true
		}
	}
	return nil
}

// read reads a part. It never follows a link in its place.
func (f Files) read(part string) ([]byte, error) {
	for prefix, folder := range f.folders() {
		name, ok := strings.CutPrefix(part, prefix)
		if !ok {
			continue
		}
		root, err := os.OpenRoot(folder)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		// Opening a pipe in its place would block forever.
		in, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		open, err := in.Stat()
		if err != nil {
			return nil, err
		}
		named, err := root.Lstat(name)
		if err != nil {
			return nil, err
		}
		if !named.Mode().IsRegular() || !os.SameFile(open, named) {
			return nil, fmt.Errorf("%s is not a plain file", part)
		}
		return io.ReadAll(in)
	}
	return nil, fmt.Errorf("%s is no part", part)
}

// keep copies the live files aside. It can start over each time, because no live file is replaced before it is done.
func (f Files) keep(aside string) error {
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	present, err := f.present()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(aside)
	if err != nil {
		return err
	}
	defer root.Close()
	for name := range present {
		content, err := f.read(name)
		if err != nil {
			return err
		}
		if err := save(root, name, content, 0o600, -1, -1); err != nil {
			return err
		}
	}
	return nil
}

// replace makes the live files equal to those of a folder: it copies what is there and deletes what is not. The master key is only
// replaced if key is set. It may be repeated.
func (f Files) replace(from string, key bool) error {
	here, err := f.present()
	if err != nil {
		return err
	}
	source := Files{State: filepath.Join(from, "state"), Config: filepath.Join(from, "config")}
	there, err := source.present()
	if err != nil {
		return err
	}
	for prefix, folder := range f.folders() {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		root, err := os.OpenRoot(folder)
		if err != nil {
			return err
		}
		err = f.replaceIn(root, prefix, source, here, there, key)
		root.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (f Files) replaceIn(root *os.Root, prefix string, source Files, here, there map[string]bool, key bool) error {
	// The programs may read the machine's files, and change their own.
	mode, uid := fs.FileMode(0o600), f.UID
	if prefix == archive.Config {
		mode, uid = 0o640, min(0, f.UID)
	}
	for part := range there {
		name, ok := strings.CutPrefix(part, prefix)
		if !ok || part == archive.MasterKey && !key {
			continue
		}
		content, err := source.read(part)
		if err != nil {
			return err
		}
		if err := save(root, name, content, mode, uid, f.GID); err != nil {
			return err
		}
	}
	for part := range here {
		name, ok := strings.CutPrefix(part, prefix)
		if !ok || there[part] || part == archive.MasterKey {
			continue
		}
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncRoot(root, ".")
}

// save replaces a file, and returns when it is on disk.
func save(root *os.Root, name string, content []byte, mode fs.FileMode, uid, gid int) (err error) {
	folder := filepath.Dir(name)
	if err := makeFolders(root, folder, uid, gid); err != nil {
		return err
	}
	pending := name + ".restored"
	if err := root.Remove(pending); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := root.OpenFile(pending, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = root.Remove(pending)
		}
	}()
	_, err = out.Write(content)
	if err == nil {
		err = out.Chown(uid, gid)
	}
	if err == nil {
		err = out.Chmod(mode)
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := root.Rename(pending, name); err != nil {
		return err
	}
	return syncRoot(root, folder)
}

// makeFolders creates a folder and its parents where they are missing.
func makeFolders(root *os.Root, folder string, uid, gid int) error {
	if folder == "." {
		return nil
	}
	if err := makeFolders(root, filepath.Dir(folder), uid, gid); err != nil {
		return err
	}
	if err := root.Mkdir(folder, 0o700); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return root.Chown(folder, uid, gid)
}

func syncRoot(root *os.Root, folder string) error {
	d, err := root.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// copyFolder copies a part of an unpacked archive.
func copyFolder(to, from, part string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	source := filepath.Join(from, part)
	target := filepath.Join(to, part)
	if err := os.MkdirAll(target, 0o700); err != nil {
		return err
	}
	if _, err := os.Stat(source); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.CopyFS(target, os.DirFS(source))
}
