package host

import "edge.internal/gateway/internal/kit/host/daemon"

// Rooms need only this package for the types that all daemons share.
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

func UnitSpecs() []UnitSpec { return daemon.UnitSpecs() }

func IsPlace(path string) bool { return daemon.IsPlace(path) }

func FirstLines(text string) string { return daemon.FirstLines(text) }

func Redacted(content []byte) []byte { return daemon.Redacted(content) }
