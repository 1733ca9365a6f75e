package proxy

import (
	"net/http"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/httpd"
)

// Stats is what the proxy has done so far.
type Stats struct {
	Backends  []BackendStats  `json:"backends" doc:"Each backend as a whole, and each of its servers."`
	Frontends []FrontendStats `json:"frontends" doc:"Each door to the outside."`
	Error     string          `json:"error" doc:"Why the proxy could not be asked; empty when it could."`
}

// BackendStats is a backend, or one server of it.
type BackendStats struct {
	Name              string `json:"name" doc:"The backend as the proxy calls it: gateway_backend_ and its id."`
	BackendID         string `json:"backend_id" doc:"Id of the backend."`
	Server            string `json:"server" doc:"Name of the server as the proxy has it; BACKEND for the backend as a whole."`
	Status            string `json:"status" enum:"UP,DOWN,DEGRADED,MAINT,DRAIN,NO CHECK" doc:"How it is. A backend of which some servers are down is DEGRADED."`
	CheckStatus       string `json:"check_status" doc:"What the last health check found, such as L4CON; empty where nothing is checked."`
	CheckDetail       string `json:"check_detail" doc:"The same in words."`
	Sessions          int64  `json:"sessions" doc:"Sessions now."`
	SessionsTotal     int64  `json:"sessions_total" doc:"Sessions so far."`
	BytesIn           int64  `json:"bytes_in" doc:"Bytes of requests."`
	BytesOut          int64  `json:"bytes_out" doc:"Bytes of answers."`
	LastChangeSeconds int64  `json:"last_change_seconds" doc:"Seconds since it last went up or down."`
	ReqTot            int64  `json:"req_tot" doc:"Requests so far."`
	ReqRate           int64  `json:"req_rate" doc:"Requests a second."`
	Responses2xx      int64  `json:"responses_2xx" doc:"Answers that went well."`
	Responses4xx      int64  `json:"responses_4xx" doc:"Answers that blame the request."`
	Responses5xx      int64  `json:"responses_5xx" doc:"Answers that blame the server."`
	Weight            int64  `json:"weight" doc:"Its share of the requests now."`
}

// FrontendStats is a door to the outside.
type FrontendStats struct {
	Name         string `json:"name" doc:"The frontend as the proxy calls it."`
	Sessions     int64  `json:"sessions" doc:"Sessions now."`
	MaxSessions  int64  `json:"max_sessions" doc:"The most sessions at a time so far."`
	BytesIn      int64  `json:"bytes_in" doc:"Bytes of requests."`
	BytesOut     int64  `json:"bytes_out" doc:"Bytes of answers."`
	ReqTot       int64  `json:"req_tot" doc:"Requests so far."`
	ReqRate      int64  `json:"req_rate" doc:"Requests a second."`
	Responses2xx int64  `json:"responses_2xx" doc:"Answers that went well."`
	Responses4xx int64  `json:"responses_4xx" doc:"Answers that blame the request."`
	Responses5xx int64  `json:"responses_5xx" doc:"Answers that blame a server or the proxy."`
}

// History is the traffic of the last hour.
type History struct {
	StepSeconds int       `json:"step_seconds" doc:"Seconds between two points."`
	Points      []Traffic `json:"points" doc:"The oldest first. A step in which the proxy could not be asked is missing."`
}

// Traffic is what went through the proxy in one step.
type Traffic struct {
	At       time.Time `json:"at" doc:"End of the step."`
	Requests float64   `json:"requests" doc:"Requests a second."`
	Errors   float64   `json:"errors" doc:"Answers of 500 and more, a second."`
	BytesIn  float64   `json:"bytes_in" doc:"Bytes of requests, a second."`
	BytesOut float64   `json:"bytes_out" doc:"Bytes of answers, a second."`
	Sessions int64     `json:"sessions" doc:"Sessions at the end of the step."`
}

// Status is what the proxy is able to do.
type Status struct {
	Version        string `json:"version" doc:"Version of HAProxy; empty when it is not installed."`
	HTTP3          bool   `json:"http3" doc:"Whether it speaks HTTP/3."`
	HTTP3Why       string `json:"http3_why" doc:"Why it does not; empty when it does."`
	Management     string `json:"management" enum:"proxy,service" doc:"Who answers on the management port: HAProxy, or the service itself while HAProxy does not."`
	Reloads        int    `json:"reloads" doc:"Reloads since the service started."`
	RuntimeChanges int    `json:"runtime_changes" doc:"Changes since the service started that needed no reload."`
	Error          string `json:"error" doc:"Why it could not be asked; empty when it could."`
}

func (r *Room) mountStats() {
	httpd.Handle(r.Router, http.MethodGet, "/proxy/stats", httpd.Read.Offline(), httpd.Doc{ID: "proxy.stats", Tag: "proxy", Summary: "What the proxy has done so far"},
		func(c *httpd.Call, _ struct{}) (Stats, error) { return Stats{}, nil })
	httpd.Handle(r.Router, http.MethodGet, "/proxy/stats/history", httpd.Read.Offline(), httpd.Doc{ID: "proxy.stats.history", Tag: "proxy", Summary: "The traffic of the last hour"},
		func(c *httpd.Call, _ struct{}) (History, error) { return History{}, nil })
	httpd.Handle(r.Router, http.MethodGet, "/proxy/status", httpd.Read.Offline(), httpd.Doc{ID: "proxy.status", Tag: "proxy", Summary: "What the proxy is able to do"},
		func(c *httpd.Call, _ struct{}) (Status, error) { return Status{}, nil })
}

func (r *Room) mountReload() {
	httpd.Handle(r.Router, http.MethodPost, "/system/proxy-reload", httpd.Write.Offline(), httpd.Doc{ID: "system.proxy-reload", Tag: "system", Summary: "Reload the proxy", Audit: "system.proxy-reload"},
		func(c *httpd.Call, _ struct{}) (apply.Status, error) { return apply.Status{}, nil })
}
