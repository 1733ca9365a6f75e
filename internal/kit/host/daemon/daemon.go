// Package daemon defines how each folder below it describes its daemon to the kit: units, files, commands, logs and packages, the
// grammar of its files, and the privileges of its verbs.
package daemon

import "errors"

// ErrNotInstalled means that the program of a unit or a command is missing on this machine.
var ErrNotInstalled = errors.New("not installed")

// ErrNotRunning means that a daemon was asked for something while it does not run.
var ErrNotRunning = errors.New("not running")

// Daemon is a daemon's entries in the closed lists. What is in no list cannot be run, written, read or asked for.
type Daemon struct {
	// Packages are its Debian packages. The UI shows their versions.
	Packages []string
	Units    []UnitSpec
	Places   map[Place]PlaceSpec
	Families []Family
	Commands map[Command]CommandSpec
	Logs     map[Log]LogSpec
	Sources  map[LogSource]LogSourceSpec
	// LogViews are the logs that the UI offers.
	LogViews []LogView
	// Verbs are the methods of its client, such as haproxy.Proxy.
	Verbs Verbs
	// Refusals has a typed nil pointer for each of its error types that cross the helper's socket.
	Refusals []error
}
