package private

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockFolder waits for the lock of a folder. It is released when every process that shares the file has closed it.
func lockFolder(ctx context.Context, dir string) (*os.File, error) {
	for {
		f, err := tryLock(dir)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another server uses it: %w", context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// tryLock takes the lock of a folder, or fails with EWOULDBLOCK.
func tryLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
