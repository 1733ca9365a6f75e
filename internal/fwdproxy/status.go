package fwdproxy

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/history"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/httpd"
)

// Stats are the proxy's counters since its start.
type Stats struct {
	Requests         int64   `json:"requests" doc:"Requests of clients."`
	Hits             int64   `json:"hits" doc:"Requests that the cache answered."`
	HitRate          float64 `json:"hit_rate" doc:"Share of the requests that the cache answered, from 0 to 1."`
	Errors           int64   `json:"errors" doc:"Requests that were denied or failed."`
	BytesToClients   int64   `json:"bytes_to_clients" doc:"Bytes sent to clients, including a few KiB each time the gateway reads these figures."`
	BytesFromServers int64   `json:"bytes_from_servers" doc:"Bytes fetched from servers."`
	Clients          int64   `json:"clients" doc:"Addresses of clients that it has seen, without the gateway itself."`
	CacheMemoryBytes int64   `json:"cache_memory_bytes" doc:"Memory of the cache that is in use."`
	CacheObjects     int64   `json:"cache_objects" doc:"Cached objects."`
	UptimeSeconds    float64 `json:"uptime_seconds" doc:"Since when it counts."`
	Error            string  `json:"error" doc:"Why the proxy could not be asked; empty when it could."`
}

// History is the traffic of the last hour.
type History struct {
	StepSeconds int       `json:"step_seconds" doc:"Seconds between two points."`
	Points      []Traffic `json:"points" doc:"The oldest first. A step in which the proxy could not be asked is missing."`
}

type Traffic struct {
	At       time.Time `json:"at" doc:"End of the step."`
	Requests float64   `json:"requests" doc:"Requests per second."`
	HitRate  float64   `json:"hit_rate" doc:"Share of them that the cache answered, from 0 to 1."`
	Bytes    float64   `json:"bytes" doc:"Bytes sent to clients per second."`
}

// trafficHistory holds the traffic of the last hour.
type trafficHistory = history.History[totals, Traffic]

// totals are squid's counters, and what the gateway itself has read from it.
type totals struct{ requests, hits, out, own int64 }

// traffic returns the traffic between two readings. If totals went down, a new process has started at zero.
func traffic(at time.Time, was, now totals, seconds float64) Traffic {
	if now.requests < was.requests || now.out < was.out {
		was = totals{own: was.own}
	}
	requests := now.requests - was.requests
	// squid counts in KiB, so less than one does not count.
	bytes := max(0, now.out-was.out-(now.own-was.own)) &^ 1023
	return Traffic{At: at, Requests: float64(requests) / seconds, HitRate: history.Share(now.hits-was.hits, requests), Bytes: float64(bytes) / seconds}
}

// Run records the traffic until the context ends.
func (r *Room) Run(ctx context.Context) {
	r.history.Run(ctx, r.Clock, func(ctx context.Context) (totals, error) {
		own := r.asked.Load()
		counters, err := r.report(ctx, squid.Counters)
		return totals{counters.int("client_http.requests"), counters.int("client_http.hits"), counters.int("client_http.kbytes_out") << 10, own}, err
	})
}

// report is one of squid's reports: lines with a name and a figure, separated by a sign or, in the last part of info, the figure before
// the name.
type report map[string]string

// figure matches a line of a report.
var figure = regexp.MustCompile(`(?m)^\s*([A-Za-z_.][^:=\n]*?)\s*[:=]\s*(-?[0-9.]+)|^\s+([0-9]+) ([A-Za-z][^\n]*)$`)

func (r *Room) report(ctx context.Context, which squid.Report) (report, error) {
	text, err := r.ask(ctx, which)
	if err != nil {
		return nil, err
	}
	figures := report{}
	for _, m := range figure.FindAllStringSubmatch(text, -1) {
		figures[m[1]+strings.TrimSpace(m[4])] = m[2] + m[3]
	}
	return figures, nil
}

// ask asks squid for a report, and counts what that adds to squid's own figures.
func (r *Room) ask(ctx context.Context, which squid.Report) (string, error) {
	text, bytes, err := r.Host.SquidReport(ctx, which)
	r.asked.Add(bytes)
	return text, err
}

func (f report) int(name string) int64 {
	n, _ := strconv.ParseInt(f[name], 10, 64)
	return n
}

func (f report) float(name string) float64 {
	n, _ := strconv.ParseFloat(f[name], 64)
	return n
}

func (r *Room) stats(ctx context.Context) (Stats, error) {
	ctx, cancel := host.Asking(ctx)
	defer cancel()
	counters, err := r.report(ctx, squid.Counters)
	if err != nil {
		return Stats{}, err
	}
	info, err := r.report(ctx, squid.Info)
	if err != nil {
		return Stats{}, err
	}
	requests, hits := counters.int("client_http.requests"), counters.int("client_http.hits")
	return Stats{
		Requests: requests, Hits: hits, HitRate: history.Share(hits, requests), Errors: counters.int("client_http.errors"),
		BytesToClients: counters.int("client_http.kbytes_out") << 10, BytesFromServers: counters.int("server.all.kbytes_in") << 10,
		// The gateway itself is one of them.
		Clients:          max(0, info.int("Number of clients accessing cache")-1),
		CacheMemoryBytes: info.int("Storage Mem size") << 10, CacheObjects: info.int("Hot Object Cache Items"), UptimeSeconds: info.float("UP Time"),
	}, nil
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/forward-proxy/stats", httpd.Read, httpd.Doc{ID: "forward-proxy.stats", Tag: "forward-proxy", Summary: "Statistics of the forward proxy"},
		func(c *httpd.Call, _ struct{}) (Stats, error) {
			s, err := r.stats(c)
			if err != nil {
				return Stats{Error: httpd.Problem(c, "The forward proxy", err)}, nil
			}
			return s, nil
		})
	httpd.Handle(r.Router, http.MethodGet, "/forward-proxy/stats/history", httpd.Read, httpd.Doc{ID: "forward-proxy.stats.history", Tag: "forward-proxy", Summary: "Traffic in the last hour"},
		func(*httpd.Call, struct{}) (History, error) {
			return History{StepSeconds: int(history.Step.Seconds()), Points: r.history.Points()}, nil
		})
}
