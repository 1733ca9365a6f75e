package daemon

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Unit is one daemon of the gateway.
type Unit string

// Service is systemd's name of the unit.
func (u Unit) Service() string { return string(u) + ".service" }

// Services are systemd's names of units or jobs.
func Services[N ~string](names ...N) (list []string) {
	for _, name := range names {
		list = append(list, string(name)+".service")
	}
	return list
}

// UnitSpec is how a unit is run: by systemd under its service name, or by the lab's supervisor as a plain process.
type UnitSpec struct {
	Unit Unit
	// Name is what people call it; empty for the unit's own.
	Name string
	// Binary tells whether the unit is installed. It is empty for the gateway's own programs, which come with the gateway.
	Binary string
	// Argv runs it in the foreground. It is empty for the gateway's own programs: who starts them knows where they are.
	Argv []string
	// User is whom the lab runs it as, with that user's groups and without any privilege; empty for root.
	User string
	// Folders must be there before it starts. Those below /run are made anew, the others keep their content.
	Folders []Folder
	// Ports are those that it receives on, unless its configuration says otherwise. Some daemons do not say which one is taken.
	Ports []int
	// Ready is a path that is there as soon as the daemon serves.
	Ready string
	// Unless is a path that keeps it from starting as long as it is there.
	Unless string
	// Reload has it read its files again; zero where it must be restarted for that, or is told in another way.
	Reload syscall.Signal
	// Stop asks it to end; after Grace it is killed.
	Stop  syscall.Signal
	Grace time.Duration
}

// Folder is a folder that a unit needs.
type Folder struct {
	Path         string
	Mode         fs.FileMode
	Owner, Group string
}

// FolderAt is a folder with its mode, owner and group.
func FolderAt(path string, mode fs.FileMode, owner, group string) Folder {
	return Folder{Path: path, Mode: mode, Owner: owner, Group: group}
}

// Spec returns the unit's entry in the closed list.
func (u Unit) Spec() (UnitSpec, error) {
	for _, s := range units {
		if s.Unit == u {
			return s, nil
		}
	}
	return UnitSpec{}, fmt.Errorf("no unit %q in the list", string(u))
}

// Installed tells whether the unit's program is on this machine.
func (s UnitSpec) Installed() bool {
	if s.Binary == "" {
		return true
	}
	info, err := os.Stat(s.Binary)
	return err == nil && info.Mode().IsRegular()
}

// program is the name of the unit's program, for messages.
func (s UnitSpec) program() string {
	if s.Binary == "" {
		return string(s.Unit)
	}
	return filepath.Base(s.Binary)
}

// NotInstalled is ErrNotInstalled with the program's name.
func (s UnitSpec) NotInstalled() error { return fmt.Errorf("%s: %w", s.program(), ErrNotInstalled) }
