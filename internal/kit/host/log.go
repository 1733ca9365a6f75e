package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Log is one log file of a daemon.
type Log string

// The logs.
const (
	RadiusLogins Log = "freeradius.logins" // who tried to log in
	RadiusServer Log = "freeradius.server" // what the server says about itself and about what it drops
)

// logSpec is where a log is, and how long it may become.
type logSpec struct {
	path  string
	limit int64
}

// logs is the closed list: no other file can be read or cut.
var logs = map[Log]logSpec{
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

func (l Log) spec() (logSpec, error) {
	spec, ok := logs[l]
	if !ok {
		return spec, fmt.Errorf("no log %q in the list", string(l))
	}
	return spec, nil
}

// ReadLog returns the last lines of a log, and of what TrimLog has put aside when there are not enough.
func (s *System) ReadLog(l Log, most int64) ([]byte, error) {
	spec, err := l.spec()
	if err != nil {
		return nil, err
	}
	last, err := tail(s.path(spec.path), most)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", spec.path, err)
	}
	earlier, err := tail(s.path(spec.path)+".1", most-int64(len(last)))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", spec.path, err)
	}
	return append(earlier, last...), nil
}

// tail reads the last whole lines of a file.
func tail(path string, most int64) ([]byte, error) {
	f, info, err := openPlain(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	return tailOf(f, info.Size(), most)
}

func tailOf(f *os.File, size, most int64) ([]byte, error) {
	from := max(0, size-most)
	b, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return nil, err
	}
	if from > 0 { // it begins within a line, or just behind one
		_, b, _ = bytes.Cut(b, []byte("\n"))
	}
	return b[:bytes.LastIndexByte(b, '\n')+1], nil
}

// TrimLog cuts a log. Daemons keep theirs open and write at its end, wherever that is.
func (s *System) TrimLog(l Log) error {
	spec, err := l.spec()
	if err != nil {
		return err
	}
	if err := trim(s.path(spec.path), spec.limit); err != nil {
		return fmt.Errorf("cutting %s: %w", spec.path, err)
	}
	return nil
}

func trim(path string, limit int64) error {
	f, info, err := openPlain(path, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer f.Close()
	if info.Size() <= limit {
		return nil
	}
	kept, err := tailOf(f, info.Size(), limit/2)
	if err != nil {
		return err
	}
	aside := path + ".1"
	if err := os.Remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old, _, err := openPlain(aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	defer old.Close()
	if _, err := old.Write(kept); err != nil {
		return err
	}
	return f.Truncate(0)
}
