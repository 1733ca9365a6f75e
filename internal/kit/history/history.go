// Package history records the counters of a daemon for the last hour.
package history

import (
	"context"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/clock"
)

const (
	// Step is the time between two points. capacity is the number of points in an hour.
	Step     = 5 * time.Second
	capacity = int(time.Hour / Step)
)

// History turns counters C into points P.
type History[C, P any] struct {
	// Point computes what happened between two readings of the counters, seconds apart. It must tolerate a daemon that was
	// restarted in between.
	Point func(at time.Time, was, now C, seconds float64) P

	mu     sync.Mutex
	points []P
	last   C
	lastAt time.Time
}

// Points returns those of the last hour, oldest first. Steps in which the daemon did not answer are missing.
func (h *History[C, P]) Points() []P {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]P{}, h.points...)
}

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

// Run reads the counters at every step until ctx ends.
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

// Share returns part of whole as a fraction from 0 to 1; 0 if whole is 0.
func Share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
