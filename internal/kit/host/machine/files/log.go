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

// ReadLogBefore reads a log from its end on, piece by piece, and then what was put aside.
func (s *Files) ReadLogBefore(l host.Log, at host.LogPlace, most int64) (host.LogPiece, error) {
	spec, err := l.Spec()
	if err != nil {
		return host.LogPiece{}, err
	}
	if most <= 0 || most > longestPiece || at.Offset < 0 {
		return host.LogPiece{}, fmt.Errorf("a piece of a log has between 1 and %d bytes", longestPiece)
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
			// A file that was cut begins again: what was before the place has been put aside.
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

// longestPiece is how much of a log is read at once.
const longestPiece = 4 << 20

// pieceOf reads the whole lines before a place of a file. What has no end yet, and a line that does not fit, is passed over.
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
		case first < int64(len(b)): // at least one line is whole
			from, b = from+first, b[first:]
		case to < end: // the last one is, seen from its own end
			from, b = to, nil
		default:
			b = nil
		}
	}
	return host.LogPiece{Lines: b, From: host.LogPlace{File: number, Offset: from}, To: host.LogPlace{File: number, Offset: to}}, nil
}

// TrimLog cuts a log. Daemons keep theirs open and write at its end, wherever that is.
func (s *Files) TrimLog(l host.Log) error {
	spec, err := l.Spec()
	if err != nil {
		return err
	}
	if spec.Limit == 0 {
		return fmt.Errorf("%s is not the gateway's to cut", spec.Path)
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
