package lab

import (
	"os"
	"path/filepath"
	"sync"
)

// journalSize is the size at which a log file is rotated.
const journalSize = 5 << 20

// journal is the log file of a unit. One rotated file is kept.
type journal struct {
	path string
	most int64

	mu   sync.Mutex
	file *os.File
	size int64
}

func newJournal(path string) *journal { return &journal{path: path, most: journalSize} }

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil && j.size > j.most {
		j.file.Close()
		j.file = nil
		if err := os.Rename(j.path, j.path+".1"); err != nil {
			return 0, err
		}
	}
	if j.file == nil {
		if err := j.open(); err != nil {
			return 0, err
		}
	}
	n, err := j.file.Write(p)
	j.size += int64(n)
	return n, err
}

func (j *journal) open() error {
	if err := os.MkdirAll(filepath.Dir(j.path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	j.file, j.size = f, info.Size()
	return nil
}
