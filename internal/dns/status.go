package dns

import (
	"net/http"
	"time"

	"edge.internal/gateway/internal/kit/history"
	"edge.internal/gateway/internal/kit/httpd"
)

// Stats is what the resolver has done since it started.
type Stats struct {
	Queries          int64   `json:"queries" doc:"Questions from clients."`
	CacheHits        int64   `json:"cache_hits" doc:"Questions that the cache answered."`
	CacheMisses      int64   `json:"cache_misses" doc:"Questions that somebody else had to be asked for."`
	HitRate          float64 `json:"hit_rate" doc:"Share of the questions that the cache answered, from 0 to 1."`
	RecursiveReplies int64   `json:"recursive_replies" doc:"Answers that were found by asking others."`
	Prefetch         int64   `json:"prefetch" doc:"Answers that were asked for again before they ran out."`
	RateLimited      int64   `json:"rate_limited" doc:"Questions that were refused because of too many."`
	Unwanted         int64   `json:"unwanted" doc:"Answers that nobody had asked for."`
	CacheMemoryBytes int64   `json:"cache_memory_bytes" doc:"Memory of the cache."`
	UptimeSeconds    float64 `json:"uptime_seconds" doc:"Since when it counts."`
	Error            string  `json:"error" doc:"Why the resolver could not be asked; empty when it could."`
}

// History is the last hour.
type History struct {
	StepSeconds int       `json:"step_seconds" doc:"Seconds between two points."`
	Points      []Traffic `json:"points" doc:"The oldest first. A step in which the resolver could not be asked is missing."`
}

// Traffic is what was asked in one step.
type Traffic struct {
	At      time.Time `json:"at" doc:"End of the step."`
	Queries float64   `json:"queries" doc:"Questions a second."`
	HitRate float64   `json:"hit_rate" doc:"Share of them that the cache answered, from 0 to 1."`
}

// Flushed says what a flush did.
type Flushed struct {
	Error string `json:"error" doc:"Why the cache is not empty; empty when it is."`
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/dns/stats", httpd.Read, httpd.Doc{ID: "dns.stats", Tag: "dns", Summary: "What the resolver has done"},
		func(*httpd.Call, struct{}) (Stats, error) { return Stats{}, nil })
	httpd.Handle(r.Router, http.MethodGet, "/dns/stats/history", httpd.Read, httpd.Doc{ID: "dns.stats.history", Tag: "dns", Summary: "The questions of the last hour"},
		func(*httpd.Call, struct{}) (History, error) {
			return History{StepSeconds: int(history.Step.Seconds()), Points: []Traffic{}}, nil
		})
	httpd.Handle(r.Router, http.MethodPost, "/dns/flush-cache", httpd.Write, httpd.Doc{ID: "dns.flush-cache", Tag: "dns", Summary: "Forget all that others answered", Audit: "dns.flush-cache"},
		func(*httpd.Call, struct{}) (Flushed, error) { return Flushed{}, nil })
}
