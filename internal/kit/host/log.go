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
)

// LogSpec is where a log is, and how long it may become.
type LogSpec struct {
	Path  string
	Limit int64
}

// logs is the closed list: no other file can be read or cut.
var logs = map[Log]LogSpec{
	RadiusLogins: {"/var/log/freeradius/gateway-logins.log", 8 << 20},
	RadiusServer: {"/var/log/freeradius/radius.log", 8 << 20},
}

// Logs reads the log files of daemons.
type Logs interface {
	// ReadLog returns the last whole lines of a log, as many as fit into so many bytes. A log that is not there is empty.
	ReadLog(l Log, most int64) ([]byte, error)
	// TrimLog cuts a log that is longer than the list allows: its last half stays, beside it under the name with .1 behind.
	TrimLog(l Log) error
}

// Spec returns the log's entry in the closed list.
func (l Log) Spec() (LogSpec, error) {
	spec, ok := logs[l]
	if !ok {
		return spec, fmt.Errorf("no log %q in the list", string(l))
	}
	return spec, nil
}
