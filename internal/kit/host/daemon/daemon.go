// Package daemon is the form in which the folders below it say what the kit must know of a daemon: its units, files, commands, logs and
// packages, what the helper takes of its files, and which privilege its verbs need.
package daemon

import "errors"

// ErrNotInstalled says that the program behind a unit or a command is not on this machine.
var ErrNotInstalled = errors.New("not installed")

// ErrNotRunning says that a daemon that was asked something does not run.
var ErrNotRunning = errors.New("not running")

// Daemon is all that the closed lists have of one daemon. What is in no list cannot be run, written, read or asked.
type Daemon struct {
	// Packages are the Debian packages that it comes in. Their versions are shown.
	Packages []string
	// Units are in the order in which they start.
	Units    []UnitSpec
	Places   map[Place]PlaceSpec
	Families []Family
	Commands map[Command]CommandSpec
	Logs     map[Log]LogSpec
	Sources  map[LogSource]LogSourceSpec
	// Shown is how people read its logs.
	Shown []Shown
	// Verbs are those of its conversation.
	Verbs Verbs
	// Refusals are the types of its own errors that cross the helper's socket: a nil pointer of each.
	Refusals []error
}
