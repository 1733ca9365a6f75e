package system

import (
	"context"
	"net/http"
	"time"

	"edge.internal/gateway/internal/kit/history"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
)

// Load is the load of the machine at a time.
type Load struct {
	At         time.Time `json:"at" doc:"When it was measured."`
	Load1      float64   `json:"load1" doc:"Load average over a minute."`
	MemoryUsed float64   `json:"memory_used" doc:"Share of the memory that is not available to programs, from 0 to 1."`
	Conntrack  uint64    `json:"conntrack_count" doc:"Tracked connections."`
}

// LoadHistory is the load of the last hour.
type LoadHistory struct {
	StepSeconds int    `json:"step_seconds" doc:"Seconds between two points."`
	Points      []Load `json:"points" doc:"The points of the last hour, the oldest first. Where the machine could not be asked, points are missing. Kept in memory, since the service started."`
}

// load returns the load at the end of a step: none of the values is a counter.
func load(at time.Time, _, now host.Resources, _ float64) Load {
	return Load{At: at, Load1: now.Load1, MemoryUsed: history.Share(int64(now.MemoryTotal-now.MemoryAvailable), int64(now.MemoryTotal)), Conntrack: now.ConntrackCount}
}

func (r *Room) mountLoad() {
	httpd.Handle(r.Router, http.MethodGet, "/system/resources/history", httpd.Read.Offline(), tag.Doc("system.resources.history", "Load, memory and connection tracking in the last hour"),
		func(*httpd.Call, struct{}) (LoadHistory, error) {
			return LoadHistory{StepSeconds: int(history.Step.Seconds()), Points: r.history.Points()}, nil
		})
}

// Run records the load until the context ends.
func (r *Room) Run(ctx context.Context) {
	r.history.Run(ctx, r.Clock, func(context.Context) (host.Resources, error) { return r.Host.Resources() })
}
