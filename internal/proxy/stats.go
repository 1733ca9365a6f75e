package proxy

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/history"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
)

// Stats are the proxy's statistics since its start.
type Stats struct {
	Backends  []BackendStats  `json:"backends" doc:"Each backend as a whole, and each of its servers."`
	Frontends []FrontendStats `json:"frontends" doc:"Each frontend."`
	Error     string          `json:"error" doc:"Why the proxy could not be asked; empty when it could."`
}

// BackendStats describes a backend, or one of its servers.
type BackendStats struct {
	Name              string `json:"name" doc:"The backend as the proxy calls it: gateway_backend_ and its id."`
	BackendID         string `json:"backend_id" doc:"Id of the backend."`
	Server            string `json:"server" doc:"Name of the server as the proxy has it; BACKEND for the backend as a whole."`
	Status            string `json:"status" enum:"UP,DOWN,DEGRADED,MAINT,DRAIN,NO CHECK" doc:"Health. A backend is DEGRADED if some of its servers are down, and DOWN if none can be used."`
	CheckStatus       string `json:"check_status" doc:"Result of the last health check, for example L4CON; empty if there are no checks."`
	CheckDetail       string `json:"check_detail" doc:"The same in words."`
	Sessions          int64  `json:"sessions" doc:"Sessions now."`
	SessionsTotal     int64  `json:"sessions_total" doc:"Sessions so far."`
	BytesIn           int64  `json:"bytes_in" doc:"Bytes of requests."`
	BytesOut          int64  `json:"bytes_out" doc:"Bytes of answers."`
	LastChangeSeconds int64  `json:"last_change_seconds" doc:"Seconds since it last went up or down."`
	ReqTot            int64  `json:"req_tot" doc:"Requests so far."`
	ReqRate           int64  `json:"req_rate" doc:"Requests per second."`
	Responses2xx      int64  `json:"responses_2xx" doc:"Responses with status 2xx."`
	Responses4xx      int64  `json:"responses_4xx" doc:"Responses with status 4xx."`
	Responses5xx      int64  `json:"responses_5xx" doc:"Responses with status 5xx."`
	Weight            int64  `json:"weight" doc:"Its share of the requests now."`
}

type FrontendStats struct {
	Name         string `json:"name" doc:"The frontend as the proxy calls it."`
	Sessions     int64  `json:"sessions" doc:"Sessions now."`
	MaxSessions  int64  `json:"max_sessions" doc:"The most sessions at a time so far."`
	BytesIn      int64  `json:"bytes_in" doc:"Bytes of requests."`
	BytesOut     int64  `json:"bytes_out" doc:"Bytes of answers."`
	ReqTot       int64  `json:"req_tot" doc:"Requests so far."`
	ReqRate      int64  `json:"req_rate" doc:"Requests per second."`
	Responses2xx int64  `json:"responses_2xx" doc:"Responses with status 2xx."`
	Responses4xx int64  `json:"responses_4xx" doc:"Responses with status 4xx."`
	Responses5xx int64  `json:"responses_5xx" doc:"Responses with status 5xx."`
}

// History is the traffic of the last hour.
type History struct {
	StepSeconds int       `json:"step_seconds" doc:"Seconds between two points."`
	Points      []Traffic `json:"points" doc:"The oldest first. A step in which the proxy could not be asked is missing."`
}

type Traffic struct {
	At       time.Time `json:"at" doc:"End of the step."`
	Requests float64   `json:"requests" doc:"Requests per second."`
	Errors   float64   `json:"errors" doc:"Responses with status 500 or higher, per second."`
	BytesIn  float64   `json:"bytes_in" doc:"Bytes of requests per second."`
	BytesOut float64   `json:"bytes_out" doc:"Bytes of responses per second."`
	Sessions int64     `json:"sessions" doc:"Sessions at the end of the step."`
}

// Status describes the capabilities of the proxy.
type Status struct {
	Version        string `json:"version" doc:"Version of HAProxy; empty when it is not installed."`
	HTTP3          bool   `json:"http3" doc:"Whether it speaks HTTP/3."`
	HTTP3Why       string `json:"http3_why" doc:"Why it does not; empty when it does."`
	Management     string `json:"management" enum:"proxy,service,nobody" doc:"What answers on the management port: HAProxy, or the gateway itself while HAProxy does not."`
	Reloads        int64  `json:"reloads" doc:"Reloads since the service started."`
	RuntimeChanges int64  `json:"runtime_changes" doc:"Changes since the service started that needed no reload."`
	OldWorkers     int    `json:"old_workers" doc:"Replaced processes that still serve open connections."`
	Error          string `json:"error" doc:"Why it could not be asked; empty when it could."`
}

func (r *Room) mountStats() {
	httpd.Handle(r.Router, http.MethodGet, "/proxy/stats", httpd.Read.Offline(), httpd.Doc{ID: "proxy.stats", Tag: "proxy", Summary: "Statistics of the proxy"},
		func(c *httpd.Call, _ struct{}) (Stats, error) {
			s, err := r.stats(c)
			s.Error = httpd.Problem(c, "HAProxy", err)
			return s, nil
		})
	httpd.Handle(r.Router, http.MethodGet, "/proxy/stats/history", httpd.Read.Offline(), httpd.Doc{ID: "proxy.stats.history", Tag: "proxy", Summary: "Traffic in the last hour"},
		func(*httpd.Call, struct{}) (History, error) {
			return History{StepSeconds: int(history.Step.Seconds()), Points: r.history.Points()}, nil
		})
	httpd.Handle(r.Router, http.MethodGet, "/proxy/status", httpd.Read.Offline(), httpd.Doc{ID: "proxy.status", Tag: "proxy", Summary: "State and features of the proxy"},
		func(c *httpd.Call, _ struct{}) (Status, error) { return r.status(c), nil })
}

func (r *Room) status(ctx context.Context) Status {
	ctx, cancel := host.Asking(ctx)
	defer cancel()
	f := r.capabilities(ctx)
	s := Status{Version: f.Version, HTTP3: f.QUIC, Management: r.deps.Management(), Reloads: r.reloads.Load(), RuntimeChanges: r.changes.Load()}
	switch {
	case f.Version == "":
		s.HTTP3Why, s.Error = "HAProxy is not installed", "HAProxy is not installed."
	case !f.QUIC:
		s.HTTP3Why = "HAProxy " + f.Version + " was built without QUIC"
	}
	if process, err := r.Host.ProxyProcess(ctx); err != nil {
		s.Error = httpd.Problem(ctx, "HAProxy", err)
	} else {
		s.OldWorkers = process.OldWorkers
	}
	return s
}

// stats asks HAProxy. It leaves out the gateway's own parts: the backends for the API and for certificate validation, the spare ones, and
// the tables of the rate limits.
func (r *Room) stats(ctx context.Context) (Stats, error) {
	s := Stats{Backends: []BackendStats{}, Frontends: []FrontendStats{}}
	ctx, cancel := host.Asking(ctx)
	defer cancel()
	answers, err := r.Host.ProxyAsk(ctx, ask("show", "stat"))
	if err != nil {
		return s, err
	}
	r.mu.Lock()
	spares := maps.Clone(r.spares)
	r.mu.Unlock()
	down, usable := map[string]bool{}, map[string]bool{}
	err = eachLine(answers[0], func(x line) {
		switch {
		case x.text("svname") == "FRONTEND" && (x.text("pxname") == httpFrontend || x.text("pxname") == httpsFrontend):
			s.Frontends = append(s.Frontends, FrontendStats{
				Name: x.text("pxname"), Sessions: x.number("scur"), MaxSessions: x.number("smax"), BytesIn: x.number("bin"), BytesOut: x.number("bout"),
				ReqTot: x.number("req_tot"), ReqRate: x.number("req_rate"),
				Responses2xx: x.number("hrsp_2xx"), Responses4xx: x.number("hrsp_4xx"), Responses5xx: x.number("hrsp_5xx"),
			})
		case strings.HasPrefix(x.text("pxname"), backendPrefix) && !spares[x.text("pxname")]:
			b := x.backend()
			down[b.Name] = down[b.Name] || b.Server != "BACKEND" && b.Status == "DOWN"
			usable[b.Name] = usable[b.Name] || b.Server != "BACKEND" && (b.Status == "UP" || b.Status == "NO CHECK")
			switch {
			case b.Server != "BACKEND" || b.Status != "UP":
			case !usable[b.Name]: // HAProxy reports a backend without servers as up
				b.Status = "DOWN"
			case down[b.Name]:
				b.Status = "DEGRADED"
			}
			s.Backends = append(s.Backends, b)
		}
	})
	if err != nil {
		return s, fmt.Errorf("reading the output of haproxy: %w", err)
	}
	return s, nil
}

// line is one line of HAProxy's statistics.
type line struct {
	columns map[string]int
	fields  []string
}

// text returns the value of a column, empty where there is none. It shares memory with the whole line.
func (x line) text(column string) string {
	if i, named := x.columns[column]; named && i < len(x.fields) {
		return x.fields[i]
	}
	return ""
}

// eachLine parses HAProxy's statistics line by line: with thousands of servers, all of its hundred columns take hundreds of megabytes.
func eachLine(output string, f func(x line)) error {
	reader := csv.NewReader(strings.NewReader(strings.TrimPrefix(output, "# ")))
	reader.FieldsPerRecord, reader.ReuseRecord = -1, true
	var columns map[string]int
	for {
		record, err := reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case columns != nil:
			f(line{columns, record})
			continue
		}
		columns = make(map[string]int, len(record))
		for i, name := range record {
			columns[name] = i
		}
	}
}

func (x line) number(column string) int64 {
	n, _ := strconv.ParseInt(x.text(column), 10, 64) // absent where it does not apply
	return n
}

func (x line) backend() BackendStats {
	b := BackendStats{
		Name: strings.Clone(x.text("pxname")), Server: strings.Clone(x.text("svname")), Status: x.state(),
		CheckStatus: strings.Clone(strings.TrimPrefix(x.text("check_status"), "* ")), CheckDetail: strings.Clone(x.text("last_chk")),
		Sessions: x.number("scur"), SessionsTotal: x.number("stot"), BytesIn: x.number("bin"), BytesOut: x.number("bout"), LastChangeSeconds: x.number("lastchg"),
		ReqTot: x.number("req_tot"), ReqRate: x.number("rate"),
		Responses2xx: x.number("hrsp_2xx"), Responses4xx: x.number("hrsp_4xx"), Responses5xx: x.number("hrsp_5xx"), Weight: x.number("weight"),
	}
	b.BackendID = strings.TrimPrefix(b.Name, backendPrefix)
	if b.Server != "BACKEND" && b.ReqTot == 0 {
		b.ReqTot = b.SessionsTotal
	}
	return b
}

// state returns the state of a server or backend in the API's words. HAProxy also reports the progress of a transition, such as "UP 1/3".
func (x line) state() string {
	word, _, _ := strings.Cut(x.text("status"), " ")
	switch word {
	case "UP", "OPEN":
		return "UP"
	case "no":
		return "NO CHECK"
	case "MAINT", "DRAIN", "DOWN":
		return strings.Clone(word)
	case "NOLB":
		return "DRAIN"
	}
	return "DOWN"
}
