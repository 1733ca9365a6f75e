// Package files reads and replaces the files of the closed list of places, stages them for checks, and reads the log files of daemons.
package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/disk"
	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/parts"
)

type Files struct {
	home home.Home

	installing sync.Mutex
	swept      map[string]bool // folders that sweep has cleaned; under installing
	// installed are the contents of places that have parts, for Amend; under installing.
	installed map[host.Place]parts.Text
	// freeing is held until the kernel has freed what was replaced last.
	freeing sync.Mutex
}

func New(h home.Home) *Files {
	return &Files{home: h, swept: map[string]bool{}, installed: map[host.Place]parts.Text{}}
}

func (s *Files) Path(p host.Place) string { return s.home.Path(p.Path()) }

// Read returns the content of a place. A folder may belong to a daemon's user, who could put anything there: only a plain file of the
// expected owner, or of this process's user, counts.
func (s *Files) Read(p host.Place) ([]byte, error) {
	spec, err := p.Spec()
	if err != nil {
		return nil, err
	}
	dir, err := s.enter(spec.Path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return s.read(dir, spec)
}

func (s *Files) read(dir folder, spec host.PlaceSpec) ([]byte, error) {
	f, info, err := openPlain(dir.path(spec.Path), os.O_RDONLY)
	if errors.Is(err, errNotPlain) {
		return nil, fmt.Errorf("%s %w: %w", spec.Path, err, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != os.Geteuid() {
		if owner, _, err := s.owner(spec.Owner, spec.Group); err != nil || uid != owner {
			return nil, fmt.Errorf("%s belongs to another user: %w", spec.Path, fs.ErrNotExist)
		}
	}
	return io.ReadAll(f)
}

func (s *Files) Differing(want []host.Digest) ([]host.Place, error) {
	var differing []host.Place
	entered := map[string]folder{}
	defer func() {
		for _, dir := range entered {
			dir.Close()
		}
	}()
	for _, d := range want {
		spec, err := d.Place.Spec()
		if err != nil {
			return nil, err
		}
		name := filepath.Dir(spec.Path)
		dir, ok := entered[name]
		if !ok {
			if dir, err = s.enter(spec.Path); err == nil {
				entered[name] = dir
			}
		}
		var content []byte
		if err == nil {
			content, err = s.read(dir, spec)
		}
		if err != nil || !d.Of(content) {
			differing = append(differing, d.Place)
		}
	}
	return differing, nil
}

type folder struct{ *os.File }

// enter opens the folder of a file, step by step, without following symbolic links: some folders are below those of daemons' users, who
// could replace them with links. (openat2 would do it in one call, but systemd's system call filters block it.)
func (s *Files) enter(file string) (folder, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	dir := filepath.Dir(file)
	fd, err := unix.Open(s.home.Path("/"), flags, 0)
	for _, name := range strings.Split(strings.Trim(dir, "/"), "/") {
		if err != nil {
			break
		}
		above := fd
		fd, err = unix.Openat(above, name, flags|unix.O_NOFOLLOW, 0)
		unix.Close(above)
	}
	if err != nil {
		return folder{}, &fs.PathError{Op: "entering", Path: dir, Err: err}
	}
	return folder{os.NewFile(uintptr(fd), dir)}, nil
}

// path returns a path to a file in the folder that stays valid when the folder is moved.
func (f folder) path(file string) string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(f.Fd())), filepath.Base(file))
}

// sync makes a rename in the folder survive a power cut.
func (f folder) sync() error { return disk.Sync(f.path(".")) }

var errNotPlain = errors.New("is not a plain file")

// openPlain opens a file in a folder that may be a daemon's, which could replace the file with a symbolic link or a pipe.
func openPlain(path string, flag int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o640)
	if errors.Is(err, syscall.ELOOP) {
		err = errNotPlain
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotPlain
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func (s *Files) Install(p host.Place, content []byte) error {
	spec, err := p.Spec()
	if err != nil {
		return err
	}
	s.installing.Lock()
	defer s.installing.Unlock()
	delete(s.installed, p)
	if err := s.install(spec, bytes.NewReader(content)); err != nil {
		return fmt.Errorf("installing %s: %w", spec.Path, err)
	}
	if spec.Split != nil {
		if text, err := spec.Split(string(content)); err == nil {
			s.installed[p] = text
		}
	}
	return nil
}

// Amend applies a change to what Install wrote last, and writes the whole file: the caller sends only the change.
func (s *Files) Amend(p host.Place, c parts.Change) error {
	spec, err := p.Spec()
	if err != nil {
		return err
	}
	s.installing.Lock()
	defer s.installing.Unlock()
	text, err := s.installed[p].Changed(c)
	if err == nil && text.Len() > host.FileLimit {
		err = fmt.Errorf("it becomes longer than %d MiB", host.FileLimit>>20)
	}
	if err == nil {
		delete(s.installed, p)
		err = s.install(spec, text)
	}
	if err != nil {
		return fmt.Errorf("changing %s: %w", spec.Path, err)
	}
	s.installed[p] = text
	return nil
}

func (s *Files) install(spec host.PlaceSpec, content io.WriterTo) error {
	uid, gid, err := s.owner(spec.Owner, spec.Group)
	if err != nil {
		return err
	}
	// Users who may not read the file may not list its folder, either.
	if err := disk.MakeFolder(s.home.Path(filepath.Dir(spec.Path)), folderMode(spec.Mode)); err != nil {
		return err
	}
	dir, err := s.enter(spec.Path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := s.sweep(dir); err != nil {
		return err
	}
	f, err := renameio.NewPendingFile(dir.path(spec.Path), renameio.WithTempDir(dir.path(".")), renameio.WithStaticPermissions(spec.Mode))
	if err != nil {
		return err
	}
	defer f.Cleanup()
	if err := f.Chown(uid, gid); err != nil {
		return err
	}
	if _, err := content.WriteTo(f); err != nil {
		return err
	}
	if err := failpoint.Hit(failpoint.Staged, spec.Path); err != nil {
		return err
	}
	defer s.hold(dir.path(spec.Path))()
	if err := f.CloseAtomicallyReplace(); err != nil {
		return err
	}
	if err := failpoint.Hit(failpoint.Renamed, spec.Path); err != nil {
		return err
	}
	return dir.sync()
}

// hold keeps a file that is about to be replaced until the returned function is called, which does not wait: with some file systems the
// kernel takes longer to free a large file than to write another.
func (s *Files) hold(path string) (free func()) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {} // there is none yet
	}
	s.freeing.Lock()
	return func() {
		go func() {
			defer s.freeing.Unlock()
			_ = unix.Close(fd)
		}()
	}
}

// sweep removes what a process that died while installing has left in a folder. Once is enough: no other process installs while this one
// runs.
func (s *Files) sweep(dir folder) error {
	if s.swept[dir.Name()] {
		return nil
	}
	entries, err := os.ReadDir(dir.path("."))
	if err != nil {
		return err
	}
	for _, e := range entries {
		hidden, ok := strings.CutPrefix(e.Name(), ".")
		base := strings.TrimRight(hidden, "0123456789") // renameio adds a number
		if !ok || base == hidden || !host.IsPlace(filepath.Join(dir.Name(), base)) {
			continue
		}
		if err := os.Remove(dir.path(e.Name())); err != nil {
			return err
		}
	}
	s.swept[dir.Name()] = true
	return nil
}

// Remove deletes the file of a place; a missing file is not an error.
func (s *Files) Remove(p host.Place) error {
	spec, err := p.Spec()
	if err != nil {
		return err
	}
	s.installing.Lock()
	defer s.installing.Unlock()
	delete(s.installed, p)
	dir, err := s.enter(spec.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer dir.Close()
		err = os.Remove(dir.path(spec.Path))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", spec.Path, err)
	}
	return dir.sync()
}

// owner looks up the owner of a place. Below a root folder owners stay as they are: those of the list may not even exist there.
func (s *Files) owner(name, group string) (uid, gid int, err error) {
	if s.home.Root != "" {
		return -1, -1, nil
	}
	return LookupOwner(name, group)
}

func LookupOwner(name, group string) (uid, gid int, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, err
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return 0, 0, err
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(g.Gid)
	return uid, gid, err
}

func folderMode(file fs.FileMode) fs.FileMode {
	if file&0o077 == 0 {
		return 0o700
	}
	return 0o755
}
