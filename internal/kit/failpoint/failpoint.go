// Package failpoint names the places where a test may make the program fail or die.
//
// A point does nothing unless GATEWAY_FAILPOINTS names a folder with a file of the point's name. The file holds an action,
// "kill", "full" (the disk) or "error", and optionally its target: "kill ntp" waits for that component. The file is removed when
// the point strikes, so it strikes once.
package failpoint

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Names of the points, in the order in which a mutation passes them.
const (
	TxWritten     = "tx.written"           // rows and audit entry written, not committed
	TxChecked     = "tx.checked"           // accepted by the daemon's checker, not committed
	TxCommitted   = "tx.committed"         // committed, nothing on disk yet
	Staged        = "host.install.staged"  // the new file lies beside the old one
	Renamed       = "host.install.renamed" // the new file is in place, the daemon does not know
	ApplyReloaded = "apply.reloaded"       // the daemon was reloaded, nothing verified
	ApplyVerified = "apply.verified"       // verified, last known good not yet written
	ApplyDone     = "apply.done"           // everything done but the answer
)

// All lists the points of a mutation.
func All() []string {
	return []string{TxWritten, TxChecked, TxCommitted, Staged, Renamed, ApplyReloaded, ApplyVerified, ApplyDone}
}

// Restore lists the points of a restore: before and after each of its steps, and between the parts of the one that replaces the
// data.
func Restore() []string {
	var points []string
	for _, step := range []string{"verify", "load", "check", "swap", "confirm"} {
		points = append(points, "restore."+step+".begun")
		if step == "swap" {
			points = append(points, "restore.swap.held", "restore.swap.kept", "restore.swap.files", "restore.swap.database")
		}
		points = append(points, "restore."+step+".done")
	}
	return points
}

// Sync lists the points of a sync with the primary, in order.
func Sync() []string {
	return []string{"sync.paused", "sync.slot", "sync.copied", "sync.saved", "sync.replaced", "sync.subscribed", "sync.committed"}
}

// Promote lists the points of a standby that becomes the primary: the primary has stepped down, its last change has arrived,
// everything is written, and committed.
func Promote() []string {
	return []string{"promote.stepped-down", "promote.arrived", "promote.written", "promote.committed"}
}

// Rolling lists the points of a rolling update on the primary, in order: each phase has been written to disk; within a phase, a
// node has given its virtual addresses away, has been asked to upgrade itself, and has its addresses again; finally the standbys
// have been asked to compare all their data, and the audit log has an entry.
func Rolling() []string {
	return []string{
		"rolling.updating-secondary", "rolling.drained", "rolling.triggered", "rolling.waiting-secondary", "rolling.back",
		"rolling.updating-primary", "rolling.primary-drained", "rolling.primary-triggered", "rolling.primary-back", "rolling.compared", "rolling.told",
	}
}

// Error is what an armed point returns.
type Error struct {
	Point string
	// Full says that it is the error of a full disk.
	Full bool
}

func (e *Error) Error() string {
	if e.Full {
		return "failpoint " + e.Point + ": " + syscall.ENOSPC.Error()
	}
	return "failpoint " + e.Point
}

// Unwrap makes the error match that of a full disk.
func (e *Error) Unwrap() error {
	if e.Full {
		return syscall.ENOSPC
	}
	return nil
}

var folder = os.Getenv("GATEWAY_FAILPOINTS")

// Arm arms a point in a folder: the next code that reaches it performs the action, or, if of is given, the next one for that
// component or file.
func Arm(folder, point, action, of string) error {
	// Renamed into place, because a process may look for it at any time.
	path := filepath.Join(folder, point)
	beside := path + ".new"
	if err := os.WriteFile(beside, []byte(strings.TrimSpace(action+" "+of)), 0o644); err != nil {
		return err
	}
	return os.Rename(beside, path)
}

// Hit is called at the point, with the components or the file that the work is for. It returns nil unless the point is armed for
// one of them or for all: "error" and "full" return an *Error, "kill" ends the process like kill -9.
func Hit(name string, of ...string) error {
	if folder == "" {
		return nil
	}
	path := filepath.Join(folder, name)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	action, only, one := strings.Cut(string(content), " ")
	if one && !slices.Contains(of, only) || os.Remove(path) != nil {
		return nil
	}
	if action == "kill" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return &Error{Point: name, Full: action == "full"}
}

// InHelper reports whether a point is in gateway-helper, whose death the API survives by asking again.
func InHelper(point string) bool { return point == Staged || point == Renamed }
