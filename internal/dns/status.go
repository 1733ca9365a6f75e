package dns

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/history"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/httpd"
)

// Stats are the resolver's counters since its start.
type Stats struct {
	Queries          int64   `json:"queries" doc:"Queries from clients."`
	CacheHits        int64   `json:"cache_hits" doc:"Queries answered from the cache or from records of the gateway."`
	CacheMisses      int64   `json:"cache_misses" doc:"Queries that were not in the cache."`
	HitRate          float64 `json:"hit_rate" doc:"Cache hit rate, from 0 to 1."`
	RecursiveReplies int64   `json:"recursive_replies" doc:"Replies found by recursion."`
	Prefetch         int64   `json:"prefetch" doc:"Cached answers that were refreshed before they expired."`
	RateLimited      int64   `json:"rate_limited" doc:"Queries refused by the rate limit."`
	Unwanted         int64   `json:"unwanted" doc:"Replies that were not asked for."`
	CacheMemoryBytes int64   `json:"cache_memory_bytes" doc:"Memory of the cache."`
	UptimeSeconds    float64 `json:"uptime_seconds" doc:"Since when it counts."`
	Reloads          int64   `json:"reloads" doc:"Reloads of the resolver since the service started. Changing a record needs none."`
	Error            string  `json:"error" doc:"Why the resolver could not be asked; empty when it could."`
}

// History is the traffic of the last hour.
type History struct {
	StepSeconds int       `json:"step_seconds" doc:"Seconds between two points."`
	Points      []Traffic `json:"points" doc:"The oldest first. A step in which the resolver could not be asked is missing."`
}

type Traffic struct {
	At      time.Time `json:"at" doc:"End of the step."`
	Queries float64   `json:"queries" doc:"Queries per second."`
	HitRate float64   `json:"hit_rate" doc:"Cache hit rate, from 0 to 1."`
}

// Flushed is the result of a flush.
type Flushed struct {
	Error string `json:"error" doc:"Why the cache is not empty; empty when it is."`
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/dns/stats", httpd.Read, httpd.Doc{ID: "dns.stats", Tag: "dns", Summary: "Statistics of the resolver"},
		func(c *httpd.Call, _ struct{}) (Stats, error) {
			s, err := r.stats(c)
			s.Error = httpd.Problem(c, "The resolver", err)
			return s, nil
		})
	httpd.Handle(r.Router, http.MethodGet, "/dns/stats/history", httpd.Read, httpd.Doc{ID: "dns.stats.history", Tag: "dns", Summary: "Queries in the last hour"},
		func(*httpd.Call, struct{}) (History, error) {
			return History{StepSeconds: int(history.Step.Seconds()), Points: r.history.Points()}, nil
		})
	httpd.Handle(r.Router, http.MethodPost, "/dns/flush-cache", httpd.Write.Here(), httpd.Doc{ID: "dns.flush-cache", Tag: "dns", Summary: "Flush the cache", Audit: "dns.flush-cache"},
		func(c *httpd.Call, _ struct{}) (Flushed, error) { return r.flush(c) })
}

// stats asks unbound for its counters.
func (r *Room) stats(ctx context.Context) (Stats, error) {
	s := Stats{Reloads: r.reloads.Load()}
	ctx, cancel := host.Asking(ctx)
	defer cancel()
	answers, err := r.Host.ResolverAsk(ctx, ask("stats_noreset"))
	if err != nil {
		return s, err
	}
	counters := map[string]float64{}
	for line := range strings.Lines(answers[0]) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), "=")
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			counters[name] = n
		}
	}
	count := func(names ...string) (sum int64) {
		for _, name := range names {
			sum += int64(counters[name])
		}
		return sum
	}
	s.Queries, s.CacheHits, s.CacheMisses = count("total.num.queries"), count("total.num.cachehits"), count("total.num.cachemiss")
	s.RecursiveReplies, s.Prefetch = count("total.num.recursivereplies"), count("total.num.prefetch")
	s.RateLimited = count("total.num.queries_ip_ratelimited", "num.query.ratelimited")
	s.Unwanted = count("unwanted.replies")
	s.CacheMemoryBytes = count("mem.cache.rrset", "mem.cache.message")
	s.UptimeSeconds = counters["time.up"]
	s.HitRate = history.Share(s.CacheHits, s.Queries)
	return s, nil
}

// totals are unbound's counters.
type totals struct{ queries, hits int64 }

// trafficHistory holds the traffic of the last hour.
type trafficHistory = history.History[totals, Traffic]

// traffic returns the traffic between two readings. If totals went down, a new process has started.
func traffic(at time.Time, was, now totals, seconds float64) Traffic {
	if now.queries < was.queries {
		was = totals{}
	}
	queries := now.queries - was.queries
	return Traffic{At: at, Queries: float64(queries) / seconds, HitRate: history.Share(now.hits-was.hits, queries)}
}

// Run records the traffic until the context ends.
func (r *Room) Run(ctx context.Context) {
	r.history.Run(ctx, r.Clock, func(ctx context.Context) (totals, error) {
		s, err := r.stats(ctx)
		return totals{s.Queries, s.CacheHits}, err
	})
}

// flush empties the cache of everything that other servers answered, including that a name does not exist, or that its signature is
// wrong. Records of the gateway stay.
func (r *Room) flush(ctx context.Context) (Flushed, error) {
	var done Flushed
	if err := r.run(ctx, []unbound.Question{ask("flush_zone", "."), ask("flush_bogus"), ask("flush_negative")}); err != nil {
		done.Error = err.Error()
	}
	return done, r.Audit.Record(ctx, "dns.flush-cache", "unbound", done)
}
