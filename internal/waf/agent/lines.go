package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"sync/atomic"
	"time"
)

const (
	// maxLines is how many lines may wait to be written.
	maxLines = 2048
	// rotateAt is the size at which the file becomes the old one, of which there is one.
	rotateAt  = 10 << 20
	oldSuffix = ".1"
)

// Line is a blocked request, for programs that watch the file.
type Line struct {
	Time   time.Time  `json:"time"`
	Client netip.Addr `json:"client"`
	Action string     `json:"action"`
	ID     string     `json:"id"`
	Domain string     `json:"domain"`
	Rule   int        `json:"rule"`
}

// Lines is a file with a JSON line for each blocked request.
type Lines struct {
	path    string
	limit   int64
	log     *slog.Logger
	queue   chan Line
	dropped atomic.Uint64

	file   *os.File
	size   int64
	failed bool // the log already says that nothing can be written
}

// NewLines returns the lines of a file; Recorder.Run writes them.
func NewLines(path string, log *slog.Logger) *Lines {
	return &Lines{path: path, limit: rotateAt, log: log, queue: make(chan Line, maxLines)}
}

// Add queues a line, or drops it if the queue is full.
func (l *Lines) Add(one Line) {
	select {
	case l.queue <- one:
	default:
		l.dropped.Add(1)
	}
}

// run writes until the context ends, and then the rest.
func (l *Lines) run(ctx context.Context) {
	defer func() {
		if l.file != nil {
			l.file.Close()
		}
	}()
	for {
		select {
		case one := <-l.queue:
			l.write(one)
		case <-ctx.Done():
			for {
				select {
				case one := <-l.queue:
					l.write(one)
				default:
					return
				}
			}
		}
	}
}

func (l *Lines) write(one Line) {
	err := l.append(one)
	if err != nil {
		l.dropped.Add(1)
		if !l.failed {
			l.log.Error("blocked requests cannot be written to the file", "file", l.path, "err", err)
		}
	}
	l.failed = err != nil
}

// append adds a line in one write, so that a reader rarely sees an incomplete line.
func (l *Lines) append(one Line) error {
	text, err := json.Marshal(one)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if l.file != nil && l.size+int64(len(text)) > l.limit {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	if l.file == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	n, err := l.file.Write(text)
	l.size += int64(n)
	return err
}

func (l *Lines) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

func (l *Lines) rotate() error {
	err := l.file.Close()
	l.file = nil
	if moved := os.Rename(l.path, l.path+oldSuffix); !errors.Is(moved, fs.ErrNotExist) {
		err = errors.Join(err, moved)
	}
	return err
}
