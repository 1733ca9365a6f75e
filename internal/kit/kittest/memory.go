package kittest

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// WatchMemory starts to observe the heap. grown stops that, and returns by how many bytes the heap has grown at most.
func WatchMemory(t *testing.T) (grown func() int64) {
	t.Helper()
	inUse := func() int64 {
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return int64(now.HeapInuse)
	}
	runtime.GC()
	before := inUse()
	done, watched, peak := make(chan struct{}), make(chan struct{}), int64(0)
	go func() {
		defer close(watched)
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
				peak = max(peak, inUse())
			}
		}
	}()
	end := sync.OnceFunc(func() { close(done); <-watched })
	t.Cleanup(end)
	return func() int64 {
		end()
		return peak - before
	}
}
