package fwdproxy

import (
	"net/http"
	"time"

	"edge.internal/gateway/internal/kit/history"
	"edge.internal/gateway/internal/kit/httpd"
)

// Stats is what the proxy has done since it started.
type Stats struct {
	Requests         int64   `json:"requests" doc:"Requests of clients."`
	Hits             int64   `json:"hits" doc:"Requests that the cache answered."`
	HitRate          float64 `json:"hit_rate" doc:"Share of the requests that the cache answered, from 0 to 1."`
	Errors           int64   `json:"errors" doc:"Requests that failed."`
	BytesToClients   int64   `json:"bytes_to_clients" doc:"Bytes sent to clients."`
	BytesFromServers int64   `json:"bytes_from_servers" doc:"Bytes fetched from servers."`
	Clients          int64   `json:"clients" doc:"Clients that it has seen."`
	CacheMemoryBytes int64   `json:"cache_memory_bytes" doc:"Memory of the cache that is in use."`
	CacheObjects     int64   `json:"cache_objects" doc:"Things in the cache."`
	UptimeSeconds    float64 `json:"uptime_seconds" doc:"Since when it counts."`
	Error            string  `json:"error" doc:"Why the proxy could not be asked; empty when it could."`
}

// History is the last hour.
type History struct {
	StepSeconds int       `json:"step_seconds" doc:"Seconds between two points."`
	Points      []Traffic `json:"points" doc:"The oldest first. A step in which the proxy could not be asked is missing."`
}

// Traffic is what went through the proxy in one step.
type Traffic struct {
	At       time.Time `json:"at" doc:"End of the step."`
	Requests float64   `json:"requests" doc:"Requests a second."`
	HitRate  float64   `json:"hit_rate" doc:"Share of them that the cache answered, from 0 to 1."`
	Bytes    float64   `json:"bytes" doc:"Bytes sent to clients, a second."`
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/forward-proxy/stats", httpd.Read, httpd.Doc{ID: "forward-proxy.stats", Tag: "forward-proxy", Summary: "What the forward proxy has done"},
		func(*httpd.Call, struct{}) (Stats, error) { return Stats{}, nil })
	httpd.Handle(r.Router, http.MethodGet, "/forward-proxy/stats/history", httpd.Read, httpd.Doc{ID: "forward-proxy.stats.history", Tag: "forward-proxy", Summary: "The traffic of the last hour"},
		func(*httpd.Call, struct{}) (History, error) {
			return History{StepSeconds: int(history.Step.Seconds()), Points: []Traffic{}}, nil
		})
}
