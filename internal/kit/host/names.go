package host

import "edge.internal/gateway/internal/kit/host/daemon"

// The words that all daemons' folders share.
type (
	Unit        = daemon.Unit
	UnitSpec    = daemon.UnitSpec
	Folder      = daemon.Folder
	Place       = daemon.Place
	PlaceSpec   = daemon.PlaceSpec
	File        = daemon.File
	Digest      = daemon.Digest
	Command     = daemon.Command
	CommandSpec = daemon.CommandSpec
	Rights      = daemon.Rights
	Input       = daemon.Input
	Output      = daemon.Output
	ExitError   = daemon.ExitError
	Log         = daemon.Log
	LogSpec     = daemon.LogSpec
	LogSource   = daemon.LogSource
)

var (
	ErrNotInstalled = daemon.ErrNotInstalled
	ErrNotRunning   = daemon.ErrNotRunning
)

const (
	Own              = daemon.Own
	Checking         = daemon.Checking
	CheckingAsNobody = daemon.CheckingAsNobody
	CheckingApart    = daemon.CheckingApart
	Loading          = daemon.Loading
	Owning           = daemon.Owning
	CheckUser        = daemon.CheckUser
	CheckFolder      = daemon.CheckFolder
	FileLimit        = daemon.FileLimit
)

// UnitSpecs returns the closed list of units, in the order in which they start.
func UnitSpecs() []UnitSpec { return daemon.UnitSpecs() }

// IsPlace tells whether a path is that of a place.
func IsPlace(path string) bool { return daemon.IsPlace(path) }

// FirstLines keeps of a program's words what fits into a message.
func FirstLines(text string) string { return daemon.FirstLines(text) }

// Redacted shows nothing.
func Redacted(content []byte) []byte { return daemon.Redacted(content) }
