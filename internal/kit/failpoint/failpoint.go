// Package failpoint names the places where a test may make the program fail or die.
//
// A point does nothing unless GATEWAY_FAILPOINTS names a folder with a file of the point's name. The file holds what
// shall happen, "kill" or "error", and the point uses it up: it strikes once.
package failpoint

import (
	"os"
	"path/filepath"
	"syscall"
)

// Names of the points, in the order in which a mutation meets them.
const (
	TxWritten     = "tx.written"           // rows and audit entry written, not committed
	TxChecked     = "tx.checked"           // the daemon's checker has agreed, not committed
	TxCommitted   = "tx.committed"         // committed, nothing on disk yet
	Staged        = "host.install.staged"  // the new file lies beside the old one
	Renamed       = "host.install.renamed" // the new file is in place, the daemon does not know
	ApplyReloaded = "apply.reloaded"       // the daemon has been told, nothing verified
	ApplyVerified = "apply.verified"       // verified, last known good not yet written
	ApplyDone     = "apply.done"           // everything done but the answer
)

// All lists every point.
func All() []string {
	return []string{TxWritten, TxChecked, TxCommitted, Staged, Renamed, ApplyReloaded, ApplyVerified, ApplyDone}
}

// Error is what an armed point with the action "error" returns.
type Error struct{ Point string }

func (e *Error) Error() string { return "failpoint " + e.Point }

var folder = os.Getenv("GATEWAY_FAILPOINTS")

// Hit is called at the point. It returns nil unless the point is armed: "error" returns an *Error, "kill" ends the
// process as kill -9 does.
func Hit(name string) error {
	if folder == "" {
		return nil
	}
	path := filepath.Join(folder, name)
	action, err := os.ReadFile(path)
	if err != nil || os.Remove(path) != nil {
		return nil
	}
	if string(action) == "kill" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return &Error{Point: name}
}

// InHelper tells whether a point is where gateway-helper works: the API survives a death there, and asks again.
func InHelper(point string) bool { return point == Staged || point == Renamed }
