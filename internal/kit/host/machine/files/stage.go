package files

import (
	"errors"
	"os"
	"path/filepath"

	"edge.internal/gateway/internal/kit/host"
)

// stagingFolder is where files are staged: in memory with the gateway's sockets, so that a secret never touches a disk, or
// in the folder for temporary files where the gateway is not at home.
func (s *Files) stagingFolder() string {
	if dir := s.home.Path("/run/gateway-helper"); isFolder(dir) {
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
	left, err := filepath.Glob(filepath.Join(s.home.Path("/run/gateway-helper"), staged+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// Stage writes the files below a new private folder, each at the path of its place. The folder is the caller's to remove.
func (s *Files) Stage(files []host.File) (string, error) {
	dir, err := os.MkdirTemp(s.stagingFolder(), staged) // 0700
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if err := stageFile(dir, f); err != nil {
			os.RemoveAll(dir)
			return "", err
		}
	}
	return dir, nil
}

func stageFile(dir string, f host.File) error {
	spec, err := f.Place.Spec()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, spec.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, f.Content, 0o600)
}
