package packaging

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// places is how many labs, nodes and virtual machines may run at once on this machine. More of them would only wait for each
// other.
const places = 2

// place is held by a test, together with its subtests.
type place struct {
	take    sync.Once
	file    *os.File
	err     error
	holders int
}

var (
	placesMutex sync.Mutex
	held        = map[string]*place{} // by the name of the test
)

// Place waits for one of the places that this machine has for heavy fixtures. leave releases it; if the process dies, so does the
// kernel. A test and its subtests share one place: if a test waited for a second one, two of them could deadlock.
func Place(ctx context.Context, test string) (leave func(), err error) {
	folder, err := cache()
	if err != nil {
		return nil, err
	}
	placesMutex.Lock()
	holder := holderFor(test)
	p := held[holder]
	if p == nil {
		p = new(place)
		held[holder] = p
	}
	p.holders++
	placesMutex.Unlock()

	leave = sync.OnceFunc(func() {
		placesMutex.Lock()
		defer placesMutex.Unlock()
		if p.holders--; p.holders == 0 {
			delete(held, holder)
			if p.file != nil {
				_ = p.file.Close()
			}
		}
	})
	p.take.Do(func() { p.file, p.err = waitForPlace(ctx, folder) })
	if p.err != nil {
		leave()
		return nil, fmt.Errorf("waiting for a place: %w", p.err)
	}
	return leave, nil
}

// cache returns the same folder as cache.sh.
func cache() (string, error) {
	folder := os.Getenv("GATEWAY_CACHE")
	if folder == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		folder = filepath.Join(user, "gateway")
	}
	return folder, os.MkdirAll(folder, 0o755)
}

// holderFor returns the test whose place the given test uses: an enclosing test that holds one, or itself.
func holderFor(test string) string {
	for name := test; ; {
		if held[name] != nil {
			return name
		}
		end := strings.LastIndexByte(name, '/')
		if end < 0 {
			return test
		}
		name = name[:end]
	}
}

// waitForPlace queues, and then waits for the first free place.
func waitForPlace(ctx context.Context, folder string) (*os.File, error) {
	turn, err := lock(ctx, filepath.Join(folder, "places.turn"))
	if err != nil {
		return nil, err
	}
	defer turn.Close()
	for {
		for i := range places {
			file, err := os.Create(filepath.Join(folder, fmt.Sprintf("places.%d", i+1)))
			if err != nil {
				return nil, err
			}
			if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
				return file, nil
			}
			_ = file.Close()
			if !errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lock locks a file until it is closed. The kernel serves waiters in the order of their arrival.
func lock(ctx context.Context, path string) (*os.File, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	locked := make(chan error, 1)
	go func() { locked <- syscall.Flock(int(file.Fd()), syscall.LOCK_EX) }()
	select {
	case err := <-locked:
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return file, nil
	case <-ctx.Done():
		go func() { // nothing interrupts the system call
			<-locked
			_ = file.Close()
		}()
		return nil, context.Cause(ctx)
	}
}
