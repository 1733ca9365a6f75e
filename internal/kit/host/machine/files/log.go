package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"edge.internal/gateway/internal/kit/host"
)

// ReadLog returns the last lines of a log, and of what TrimLog has put aside when there are not enough.
func (s *Files) ReadLog(l host.Log, most int64) ([]byte, error) {
	spec, err := l.Spec()
	if err != nil {
		return nil, err
	}
	dir, err := s.enter(spec.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer dir.Close()
	last, err := tail(dir.path(spec.Path), most)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", spec.Path, err)
	}
	earlier, err := tail(dir.path(spec.Path)+".1", most-int64(len(last)))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", spec.Path, err)
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
func (s *Files) TrimLog(l host.Log) error {
	spec, err := l.Spec()
	if err != nil {
		return err
	}
	dir, err := s.enter(spec.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer dir.Close()
	if err := trim(dir.path(spec.Path), spec.Limit); err != nil {
		return fmt.Errorf("cutting %s: %w", spec.Path, err)
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
