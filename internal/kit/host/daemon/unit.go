package daemon

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Unit names a daemon, or one of the gateway's own programs.
type Unit string

func (u Unit) Service() string { return string(u) + ".service" }

func Services[N ~string](names ...N) (list []string) {
	for _, name := range names {
		list = append(list, string(name)+".service")
	}
	return list
}

// UnitSpec says how a unit runs: under systemd, or as a plain process of the lab's supervisor.
type UnitSpec struct {
	Unit Unit
	// Name is shown to people; empty if it is the unit's own name.
	Name string
	// Binary exists if the unit is installed. It is empty for the gateway's own programs.
	Binary string
	// Argv runs it in the foreground. It is empty for the gateway's own programs: the lab knows where it has built them.
	Argv []string
	// User runs it in a lab, with that user's groups and without privileges; empty for root.
	User string
	// Folders must exist before it starts. In a lab, those below /run start empty and the others persist.
	Folders []Folder
	// Ports are its default ports. If one is taken, some daemons do not say which.
	Ports []int
	// Ready is a path that exists as soon as the daemon serves.
	Ready string
	// Unless is a path that keeps the unit from starting while it exists.
	Unless string
	// Reload makes it read its files again; zero if it has to be restarted, or is reloaded by other means.
	Reload syscall.Signal
	// Stop asks it to end; after Grace it is killed.
	Stop  syscall.Signal
	Grace time.Duration
}

type Folder struct {
	Path         string
	Mode         fs.FileMode
	Owner, Group string
}

func FolderAt(path string, mode fs.FileMode, owner, group string) Folder {
	return Folder{Path: path, Mode: mode, Owner: owner, Group: group}
}

func (u Unit) Spec() (UnitSpec, error) {
	for _, s := range units {
		if s.Unit == u {
			return s, nil
		}
	}
	return UnitSpec{}, fmt.Errorf("unknown unit %q", string(u))
}

func (s UnitSpec) Installed() bool {
	if s.Binary == "" {
		return true
	}
	info, err := os.Stat(s.Binary)
	return err == nil && info.Mode().IsRegular()
}

func (s UnitSpec) program() string {
	if s.Binary == "" {
		return string(s.Unit)
	}
	return filepath.Base(s.Binary)
}

// NotInstalled returns ErrNotInstalled with the program's name.
func (s UnitSpec) NotInstalled() error { return fmt.Errorf("%s: %w", s.program(), ErrNotInstalled) }
