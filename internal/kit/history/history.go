// Package history remembers what the counters of a daemon did in the last hour.
package history

import (
	"context"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/clock"
)

const (
	// Step is the time between two points, and capacity are as many as fit into an hour.
	Step     = 5 * time.Second
	capacity = int(time.Hour / Step)
)

// History turns counters C into points P.
type History[C, P any] struct {
	// Point is what happened from one reading of the counters to the next, which many seconds later. It has to bear a
	// daemon that began anew in between.
	Point func(at time.Time, was, now C, seconds float64) P

	mu     sync.Mutex
	points []P
	last   C
	lastAt time.Time
}

// Points are those of the last hour, the oldest first. A step in which the daemon could not be asked is missing.
func (h *History[C, P]) Points() []P {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]P{}, h.points...)
}

// Add notes the counters at a time.
func (h *History[C, P]) Add(at time.Time, now C) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was, since := h.last, at.Sub(h.lastAt)
	first := h.lastAt.IsZero() || since > 3*Step
	h.last, h.lastAt = now, at
	if first || since <= 0 {
		return
	}
	h.points = append(h.points, h.Point(at.UTC(), was, now, since.Seconds()))
	if extra := len(h.points) - capacity; extra > 0 {
		h.points = append([]P{}, h.points[extra:]...)
	}
}

// Run reads the counters at every step until the context ends.
func (h *History[C, P]) Run(ctx context.Context, c clock.Clock, read func(ctx context.Context) (C, error)) {
	tick := time.NewTicker(Step)
	defer tick.Stop()
	for {
		if now, err := read(ctx); err == nil {
			h.Add(c.Now(), now)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Share is a part of a whole, from 0 to 1; of nothing it is 0.
func Share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
