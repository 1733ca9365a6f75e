package proxy

import (
	"context"
	"sync"
	"time"
)

const (
	// historyStep is the time between two points of the history, and historyPoints are as many as fit into an hour.
	historyStep   = 5 * time.Second
	historyPoints = int(time.Hour / historyStep)
)

// history remembers the traffic of the last hour.
type history struct {
	mu     sync.Mutex
	points []Traffic
	// last are the totals that the next point starts from.
	last   totals
	lastAt time.Time
}

// totals are HAProxy's counters, over all its doors.
type totals struct{ requests, errors, in, out, sessions int64 }

func (h *history) list() History {
	h.mu.Lock()
	defer h.mu.Unlock()
	return History{StepSeconds: int(historyStep.Seconds()), Points: append([]Traffic{}, h.points...)}
}

// add notes the totals at a time. Totals that went down belong to a new process, which began at zero.
func (h *history) add(at time.Time, now totals) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was, since := h.last, at.Sub(h.lastAt).Seconds()
	first := h.lastAt.IsZero() || since > 3*historyStep.Seconds()
	h.last, h.lastAt = now, at
	if first || since <= 0 {
		return
	}
	if now.requests < was.requests {
		was = totals{}
	}
	h.points = append(h.points, Traffic{
		At: at.UTC(), Requests: float64(now.requests-was.requests) / since, Errors: float64(now.errors-was.errors) / since,
		BytesIn: float64(now.in-was.in) / since, BytesOut: float64(now.out-was.out) / since, Sessions: now.sessions,
	})
	if extra := len(h.points) - historyPoints; extra > 0 {
		h.points = append([]Traffic{}, h.points[extra:]...)
	}
}

// Run watches the traffic until the context ends.
func (r *Room) Run(ctx context.Context) {
	tick := time.NewTicker(historyStep)
	defer tick.Stop()
	for {
		if s, err := r.stats(ctx); err == nil {
			var sum totals
			for _, f := range s.Frontends {
				sum.requests += f.ReqTot
				sum.errors += f.Responses5xx
				sum.in += f.BytesIn
				sum.out += f.BytesOut
				sum.sessions += f.Sessions
			}
			r.history.add(r.Clock.Now(), sum)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
