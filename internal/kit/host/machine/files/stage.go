package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
)

// stagingFolder returns a folder in memory, so that secrets never touch a disk. Where the gateway is not installed it is the one for
// temporary files.
func (s *Files) stagingFolder() string {
	if dir := s.home.Path(host.CheckFolder); isFolder(dir) {
		return dir
	}
	return os.TempDir()
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// staged is the prefix of the names of folders with staged files.
const staged = "stage-"

// Sweep removes the staged files, which may hold secrets, of processes that died. Those of running processes stay: the helper may start
// while another of root's programs checks files.
func (s *Files) Sweep() error {
	folder := s.home.Path(host.CheckFolder)
	lock, err := locked(folder, unix.LOCK_EX)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	left, err := filepath.Glob(filepath.Join(folder, staged+"*"))
	for _, dir := range left {
		mine, busy := locked(dir, unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(busy, unix.EWOULDBLOCK) {
			continue
		}
		err = errors.Join(err, os.RemoveAll(dir))
		if busy == nil {
			mine.Close()
		}
	}
	return err
}

// locked opens a folder and locks it until it is closed or the process ends.
func locked(folder string, how int) (*os.File, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), how)
	}
	if err != nil {
		f.Close()
		return nil, os.NewSyscallError("flock", err)
	}
	return f, nil
}

// Stage writes the files below a new folder, each at the path of its place, and returns a function that removes the folder. If this
// process is root, the group may read the files; no other user may read or change them.
func (s *Files) Stage(files []host.File, gid int) (dir string, remove func(), err error) {
	dir, lock, err := makeStage(s.stagingFolder())
	if err != nil {
		return "", nil, err
	}
	remove = func() {
		os.RemoveAll(dir)
		lock.Close()
	}
	err = share(dir, gid)
	for _, f := range files {
		err = errors.Join(err, stageFile(dir, f, gid))
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return dir, remove, nil
}

// makeStage creates a folder and locks it before another process can sweep it.
func makeStage(in string) (dir string, lock *os.File, err error) {
	above, err := locked(in, unix.LOCK_SH)
	if err != nil {
		return "", nil, err
	}
	defer above.Close()
	if dir, err = os.MkdirTemp(in, staged); err != nil {
		return "", nil, err
	}
	if lock, err = locked(dir, unix.LOCK_SH); err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, lock, nil
}

func stageFile(dir string, f host.File, gid int) error {
	spec, err := f.Place.Spec()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, spec.Path)
	if err := makeShared(dir, filepath.Dir(path), gid); err != nil {
		return err
	}
	if err := os.WriteFile(path, f.Content, 0o600); err != nil {
		return err
	}
	return share(path, gid)
}

// makeShared creates a folder below the staging folder, with its parents.
func makeShared(dir, folder string, gid int) error {
	if folder == dir || isFolder(folder) {
		return nil
	}
	if err := makeShared(dir, filepath.Dir(folder), gid); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	return share(folder, gid)
}

// share lets the group read a new file or folder, whatever the umask.
func share(path string, gid int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	mode := info.Mode().Perm()
	return errors.Join(os.Chown(path, -1, gid), os.Chmod(path, mode|mode>>3&0o050))
}
