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

// Folder is where root keeps what a job needs: root alone writes there, and the gateway's group reads.
type Folder struct {
	root string // stands before every path
	name Name
	path string
	gid  int
}

// readable is the mode of what the gateway's group may read.
const readable = 0o640

// OpenFolder makes the folder of a job below a root if it is missing, and gives it to a group; a negative one is that of who runs this.
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

// Save replaces a file, and returns when the disk has it.
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

// Create makes a file that is not there yet, whole or not at all; one that is there is fs.ErrExist.
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

// Remove removes a file; one that is gone already, or has no name, is no error.
func (f Folder) Remove(name string) error {
	if name == "" {
		return nil
	}
	if err := os.Remove(f.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return disk.Sync(f.path)
}

// Keep replaces a file that root alone may read, and returns when the disk has it.
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

// ErrLocked says that another process does the job.
var ErrLocked = errors.New("another process does this")

// Lock keeps other processes from doing the job until the returned function is called.
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

// sweep removes what a process that died while writing a file has left. What writes a wish holds the lock of wishes, and no other process
// writes the other files.
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

// reserve is the name of the file that keeps space free.
const reserve = "reserve"

// Reserve sets space aside, so that a disk that fills up meanwhile does not keep a job from being taken back.
func (f Folder) Reserve(bytes int64) error {
	file, err := os.OpenFile(f.Path(reserve), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Fallocate(int(file.Fd()), 0, 0, bytes); errors.Is(err, unix.EOPNOTSUPP) {
		return nil // a file system that cannot do that
	} else if err != nil {
		return fmt.Errorf("setting %d MiB aside: %w", bytes>>20, err)
	}
	return nil
}

// Release gives the space back.
func (f Folder) Release() error { return f.Remove(reserve) }

// ReadJSON reads a file that a folder keeps; a missing one is fs.ErrNotExist.
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
