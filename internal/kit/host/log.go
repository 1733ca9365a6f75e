package host

import (
	"fmt"
)

// Log is one log file of a daemon.
type Log string

// The logs.
const (
	RadiusLogins Log = "freeradius.logins" // who tried to log in
	RadiusServer Log = "freeradius.server" // what the server says about itself and about what it drops
	SquidAccess  Log = "squid.access"      // the requests of the forward proxy's clients
)

// LogSpec is where a log is, and how long it may become; 0 if others see to that.
type LogSpec struct {
	Path  string
	Limit int64
}

// logs is the closed list: no other file can be read or cut.
var logs = map[Log]LogSpec{
	RadiusLogins: {"/var/log/freeradius/gateway-logins.log", 8 << 20},
	RadiusServer: {"/var/log/freeradius/radius.log", 8 << 20},
	// Debian's logrotate keeps it short.
	SquidAccess: {"/var/log/squid/access.log", 0},
}

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

// Spec returns the log's entry in the closed list.
func (l Log) Spec() (LogSpec, error) {
	spec, ok := logs[l]
	if !ok {
		return spec, fmt.Errorf("no log %q in the list", string(l))
	}
	return spec, nil
}
