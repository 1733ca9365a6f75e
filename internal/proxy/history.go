package proxy

import (
	"context"
	"time"

	"edge.internal/gateway/internal/kit/history"
)

// totals are HAProxy's counters, over all frontends.
type totals struct{ requests, errors, in, out, sessions int64 }

// trafficHistory holds the traffic of the last hour.
type trafficHistory = history.History[totals, Traffic]

// traffic returns the traffic between two readings. If totals went down, a new process has started at zero.
func traffic(at time.Time, was, now totals, seconds float64) Traffic {
	if now.requests < was.requests {
		was = totals{}
	}
	return Traffic{
		At: at, Requests: float64(now.requests-was.requests) / seconds, Errors: float64(now.errors-was.errors) / seconds,
		BytesIn: float64(now.in-was.in) / seconds, BytesOut: float64(now.out-was.out) / seconds, Sessions: now.sessions,
	}
}

// Run records the traffic until the context ends.
func (r *Room) Run(ctx context.Context) {
	r.history.Run(ctx, r.Clock, func(ctx context.Context) (sum totals, err error) {
		s, err := r.stats(ctx)
		for _, f := range s.Frontends {
			sum.requests += f.ReqTot
			sum.errors += f.Responses5xx
			sum.in += f.BytesIn
			sum.out += f.BytesOut
			sum.sessions += f.Sessions
		}
		return sum, err
	})
}
