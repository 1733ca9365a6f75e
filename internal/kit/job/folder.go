package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/disk"
	"edge.internal/gateway/internal/kit/secret"
)

// Folder holds what a job needs: only root writes there, and the gateway's group reads.
type Folder struct {
	root string // prefix of every path
	name Name
	path string
	gid  int
}

// readable is the mode of files for the gateway's group.
const readable = 0o640

// OpenFolder creates the folder of a job below root if necessary, and assigns it to a group; if gid is negative, to that of this
// process.
func OpenFolder(root string, n Name, gid int) (Folder, error) {
	f := Folder{root, n, filepath.Join(root, n.Folder()), gid}
	if err := disk.MakeFolder(f.path, 0o750); err != nil {
		return f, err
	}
	return f, os.Chown(f.path, -1, gid)
}

func (f Folder) Path(name string) string { return filepath.Join(f.path, filepath.Base(name)) }

// Load reads a file; a missing one is fs.ErrNotExist.
func (f Folder) Load(name string, into any) error { return ReadJSON(f.Path(name), into) }

// Save replaces a file, and returns when it is on disk.
func (f Folder) Save(name string, v any) error {
	pending, err := f.write(name, v)
	if err != nil {
		return err
	}
	defer pending.Cleanup()
	if err := pending.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return disk.Sync(f.path)
}

// Create creates a file atomically; an existing one is fs.ErrExist.
func (f Folder) Create(name string, v any) error {
	pending, err := f.write(name, v)
	if err != nil {
		return err
	}
	defer pending.Cleanup()
	if err := pending.Sync(); err != nil {
		return err
	}
	if err := os.Link(pending.Name(), f.Path(name)); err != nil {
		return err
	}
	return disk.Sync(f.path)
}

// Remove removes a file; a missing file or an empty name is no error.
func (f Folder) Remove(name string) error {
	if name == "" {
		return nil
	}
	if err := os.Remove(f.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return disk.Sync(f.path)
}

// Keep replaces a file that only root may read, and returns when it is on disk.
func (f Folder) Keep(name string, content []byte) error {
	return secret.Save(f.Path(name), content)
}

func (f Folder) write(name string, v any) (*renameio.PendingFile, error) {
	content, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	pending, err := renameio.NewPendingFile(f.Path(name), renameio.WithTempDir(f.path), renameio.WithStaticPermissions(readable))
	if err != nil {
		return nil, err
	}
	if _, err = pending.Write(append(content, '\n')); err == nil {
		err = pending.Chown(-1, f.gid)
	}
	if err != nil {
		pending.Cleanup()
		return nil, err
	}
	return pending, nil
}

// ErrLocked says that another process runs the job.
var ErrLocked = errors.New("another process does this")

// Lock keeps other processes from running the job until release is called.
func (f Folder) Lock() (release func(), err error) {
	lock, err := os.OpenFile(f.Path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("%w (%w)", ErrLocked, err)
	}
	return func() { lock.Close() }, nil
}

// sweep removes temporary files of processes that died. It is safe because wishes are written under the lock of wishes, and no
// other process writes the other files.
func (f Folder) sweep(names ...string) error {
	unlock, err := f.lockWishes()
	if err != nil {
		return err
	}
	defer unlock()
	for _, name := range append(names, wishFile) {
		left, err := filepath.Glob(filepath.Join(f.path, "."+filepath.Base(name)+"[0-9]*"))
		if err != nil {
			return err
		}
		for _, path := range left {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// reserve is the name of the file that reserves space.
const reserve = "reserve"

// Reserve reserves space, so that a disk that fills up in the meantime does not keep a job from being taken back.
func (f Folder) Reserve(bytes int64) error {
	file, err := os.OpenFile(f.Path(reserve), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Fallocate(int(file.Fd()), 0, 0, bytes); errors.Is(err, unix.EOPNOTSUPP) {
		return nil // not supported by the file system
	} else if err != nil {
		return fmt.Errorf("setting %d MiB aside: %w", bytes>>20, err)
	}
	return nil
}

func (f Folder) Release() error { return f.Remove(reserve) }

// ReadJSON reads a file of a folder; a missing one is fs.ErrNotExist.
func ReadJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("reading %s: %w", filepath.Base(path), err)
	}
	return nil
}
