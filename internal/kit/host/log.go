package host

import "edge.internal/gateway/internal/kit/host/daemon"

// Logs reads the log files of daemons. Those in the journal are Journal's.
type Logs interface {
	// ReadLog returns the last whole lines of a log that fit into most bytes. A missing log is empty.
	ReadLog(l Log, most int64) ([]byte, error)
	// ReadLogBefore returns whole lines that end at a place in a log or its rotated files, most bytes in all. The zero place is the
	// end of the log. A line that does not fit is left out.
	ReadLogBefore(l Log, at LogPlace, most int64) (LogPiece, error)
	// TrimLog rotates a log that is longer than its limit: the newer half stays in a file with the suffix .1.
	TrimLog(l Log) error
}

var logsVerbs = daemon.Verbs{
	"ReadLog": daemon.Repeatable, "ReadLogBefore": daemon.Repeatable,
	"TrimLog": daemon.Served,
}

// LogPlace is a position in one of the files of a log.
type LogPlace struct {
	File   uint64 // inode; 0 for the end of the newest file
	Offset int64
}

type LogPiece struct {
	Lines    []byte
	From, To LogPlace
	// More is set if there may be earlier lines.
	More bool
}
