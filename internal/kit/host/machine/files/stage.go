package files

import (
	"errors"
	"os"
	"path/filepath"

	"edge.internal/gateway/internal/kit/host"
)

// stagingFolder is where files are staged: in memory, so that a secret never touches a disk, or in the folder for temporary files where
// the gateway is not at home.
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

// staged begins the names of folders with staged files.
const staged = "stage-"

// Sweep removes staged files, which may hold secrets, of a process that died before it could.
func (s *Files) Sweep() error {
	left, err := filepath.Glob(filepath.Join(s.home.Path(host.CheckFolder), staged+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// Stage writes the files below a new folder, each at the path of its place. When this process is root, the group may read them, and change
// none; otherwise nobody else may. The folder is the caller's to remove.
func (s *Files) Stage(files []host.File, gid int) (string, error) {
	dir, err := os.MkdirTemp(s.stagingFolder(), staged)
	if err != nil {
		return "", err
	}
	err = share(dir, gid)
	for _, f := range files {
		err = errors.Join(err, stageFile(dir, f, gid))
	}
	if err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	return dir, nil
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

// makeShared makes a folder below the staging folder, with those between.
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

// share lets the group read what has just been made, whatever the mask.
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
