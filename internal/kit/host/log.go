package host

import "edge.internal/gateway/internal/kit/host/daemon"

// Logs reads the log files of daemons.
type Logs interface {
	// ReadLog returns the last whole lines of a log, as many as fit into so many bytes. A log that is not there is empty.
	ReadLog(l Log, most int64) ([]byte, error)
	// ReadLogBefore returns the whole lines that end at a place in a log or in what was put aside of it, at most so many bytes. The zero
	// place is the end of the log. A line that is longer than that is left out.
	ReadLogBefore(l Log, at LogPlace, most int64) (LogPiece, error)
	// TrimLog cuts a log that is longer than the list allows: its last half stays, beside it under the name with .1 behind.
	TrimLog(l Log) error
}

var logsVerbs = daemon.Verbs{
	"ReadLog": daemon.Repeatable, "ReadLogBefore": daemon.Repeatable,
	"TrimLog": daemon.Served,
}

// LogPlace is a place in one of the files of a log.
type LogPlace struct {
	File   uint64 // the file's number; 0 for the end of the newest one
	Offset int64
}

// LogPiece is a piece of a log.
type LogPiece struct {
	Lines []byte
	// From is where it begins, and To where it ends.
	From, To LogPlace
	// More says that something may be before it.
	More bool
}
