package private

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/files"
)

// owner is the user that runs the server.
type owner struct {
	uid, gid int
	other    bool // another user than that of this process
}

// serverOwner returns the machine's postgres user if this process is root, as which the server refuses to run, and otherwise the
// user of this process.
func serverOwner() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	uid, gid, err := files.LookupOwner("postgres", "postgres")
	if err != nil {
		return owner{}, fmt.Errorf("postgresql needs its system user: %w", err)
	}
	return owner{uid: uid, gid: gid, other: true}, nil
}

// attr makes a program run as the owner.
func (o owner) attr() *syscall.SysProcAttr {
	if !o.other {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}}
}

// makeFolder makes a folder that only the owner and root can enter.
func (o owner) makeFolder(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	return os.Chown(dir, o.uid, o.gid)
}

// admit lets a group enter a folder.
func (o owner) admit(group, dir string) error {
	g, err := user.LookupGroup(group)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return err
	}
	return errors.Join(os.Chown(dir, o.uid, gid), os.Chmod(dir, 0o750))
}

// programs returns the folder of the newest PostgreSQL installed.
func programs() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return "", fmt.Errorf("postgresql: %w", host.ErrNotInstalled)
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(version(a), version(b)) })
	return filepath.Dir(newest), nil
}

// version returns the number in /usr/lib/postgresql/15/bin/postgres.
func version(program string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(program))))
	return n
}
