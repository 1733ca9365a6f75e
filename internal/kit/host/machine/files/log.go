package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"edge.internal/gateway/internal/kit/host"
)

// ReadLog returns the last lines of a log, with those that TrimLog has moved to the file .1 if there are not enough.
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
	if from > 0 { // it may begin within a line
		_, b, _ = bytes.Cut(b, []byte("\n"))
	}
	return b[:bytes.LastIndexByte(b, '\n')+1], nil
}

// ReadLogBefore reads a log backwards, piece by piece, and then the file .1.
func (s *Files) ReadLogBefore(l host.Log, at host.LogPlace, most int64) (host.LogPiece, error) {
	spec, err := l.Spec()
	if err != nil {
		return host.LogPiece{}, err
	}
	if most <= 0 || most > longestPiece || at.Offset < 0 {
		return host.LogPiece{}, fmt.Errorf("a piece of a log must have between 1 and %d bytes", longestPiece)
	}
	dir, err := s.enter(spec.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return host.LogPiece{}, nil
	} else if err != nil {
		return host.LogPiece{}, err
	}
	defer dir.Close()
	found := at.File == 0
	for i, path := range []string{dir.path(spec.Path), dir.path(spec.Path) + ".1"} {
		f, info, err := openPlain(path, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return host.LogPiece{}, fmt.Errorf("reading %s: %w", spec.Path, err)
		}
		defer f.Close()
		number := info.Sys().(*syscall.Stat_t).Ino
		end := info.Size()
		if !found {
			if number != at.File {
				continue
			}
			found = true
			// A file that is shorter than the place was trimmed: the lines before the place are in .1.
			end = min(end, at.Offset)
			if at.Offset > info.Size() {
				end = 0
			}
		}
		if end == 0 {
			continue
		}
		piece, err := pieceOf(f, number, end, most)
		piece.More = piece.From.Offset > 0 || i == 0
		return piece, err
	}
	return host.LogPiece{}, nil
}

const longestPiece = 4 << 20 // bytes of a log that are read at once

// pieceOf reads the whole lines before a place in a file. It skips a line without an end, and one longer than most.
func pieceOf(f *os.File, number uint64, end, most int64) (host.LogPiece, error) {
	from := max(0, end-most)
	b := make([]byte, end-from)
	if _, err := f.ReadAt(b, from); err != nil && !errors.Is(err, io.EOF) {
		return host.LogPiece{}, err
	}
	to := from + int64(bytes.LastIndexByte(b, '\n')+1)
	b = b[:to-from]
	if from > 0 {
		first := int64(bytes.IndexByte(b, '\n') + 1)
		switch {
		case first < int64(len(b)): // there is a whole line
			from, b = from+first, b[first:]
		case to < end: // the next piece ends with the last newline, and may hold its line whole
			from, b = to, nil
		default:
			b = nil
		}
	}
	return host.LogPiece{Lines: b, From: host.LogPlace{File: number, Offset: from}, To: host.LogPlace{File: number, Offset: to}}, nil
}

// TrimLog shortens a log that has become too long. It truncates the file because daemons keep it open and append to it.
func (s *Files) TrimLog(l host.Log) error {
	spec, err := l.Spec()
	if err != nil {
		return err
	}
	if spec.Limit == 0 {
		return fmt.Errorf("the gateway does not trim %s", spec.Path)
	}
	dir, err := s.enter(spec.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer dir.Close()
	if err := trim(dir.path(spec.Path), spec.Limit); err != nil {
		return fmt.Errorf("trimming %s: %w", spec.Path, err)
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
	older := path + ".1"
	if err := os.Remove(older); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old, _, err := openPlain(older, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	defer old.Close()
	if _, err := old.Write(kept); err != nil {
		return err
	}
	return f.Truncate(0)
}
