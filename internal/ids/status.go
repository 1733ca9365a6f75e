package ids

import (
	"context"
	"net/http"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
)

// Daemon is the state of one of the two daemons.
type Daemon struct {
	State  string     `json:"state" enum:"running,starting,stopped,failed,not_installed,unknown" doc:"What it does; unknown if systemd does not say."`
	Since  *time.Time `json:"since" doc:"Since when."`
	Detail string     `json:"detail" doc:"Why it failed, or why its state is unknown. The daemon's own words are for administrators."`
}

// Status is the state of intrusion detection.
type Status struct {
	Agent           Daemon         `json:"agent" doc:"CrowdSec, which reads logs and decides."`
	FirewallBouncer Daemon         `json:"firewall_bouncer" doc:"Daemon that drops packets from banned addresses."`
	Enabled         bool           `json:"enabled" doc:"Whether the settings want CrowdSec to run."`
	Blocking        bool           `json:"blocking" doc:"Whether the settings want packets to be dropped."`
	Decisions       int            `json:"decisions" doc:"Decisions in force."`
	Origins         map[string]int `json:"origins" doc:"How many of them come from where: crowdsec for a scenario, gateway for an operator, cscli for the tool of that name, CAPI for the central API."`
	Error           string         `json:"error" doc:"Why CrowdSec could not be asked; empty when it could."`
}

const tag httpd.Tag = "ids"

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/ids/status", httpd.Read, tag.Doc("ids.status", "State of intrusion detection"),
		func(c *httpd.Call, _ struct{}) (Status, error) { return r.status(c) })
}

func (r *Room) status(ctx context.Context) (Status, error) {
	settings, err := r.settings.Load(ctx, r.DB)
	if err != nil {
		return Status{}, err
	}
	ctx, cancel := host.Asking(ctx)
	defer cancel()
	s := Status{Agent: r.daemon(ctx, unit), FirewallBouncer: r.daemon(ctx, bouncer), Enabled: settings.Enabled, Blocking: settings.Blocking, Origins: map[string]int{}}
	if s.Agent.State != "running" {
		s.Error = why(s.Agent)
		return s, nil
	}
	list, err := r.inForce(ctx)
	if err != nil {
		s.Error = problem(ctx, err)
	}
	s.Decisions = len(list)
	for _, d := range list {
		s.Origins[d.Origin]++
	}
	return s, nil
}

// states maps the daemons' states to the API's words.
var states = map[string]string{
	"active": "running", "reloading": "running", "activating": "starting", "deactivating": "stopped", "inactive": "stopped", "failed": "failed",
}

func (r *Room) daemon(ctx context.Context, u host.Unit) Daemon {
	state, err := r.Host.State(ctx, u)
	switch {
	case err != nil:
		return Daemon{State: "unknown", Detail: httpd.Problem(ctx, "The service manager", err)}
	case !state.Installed:
		return Daemon{State: "not_installed"}
	}
	d := Daemon{State: states[state.Active], Detail: httpd.Words(ctx, state.Detail)}
	if !state.Since.IsZero() {
		since := state.Since.UTC()
		d.Since = &since
	}
	return d
}

// why explains why a daemon that does not run cannot answer.
func why(d Daemon) string {
	switch d.State {
	case "not_installed":
		return "CrowdSec is not installed."
	case "unknown":
		return d.Detail
	}
	return "CrowdSec is not running."
}

// problem explains an error of CrowdSec; empty if there is none.
func problem(ctx context.Context, err error) string { return httpd.Problem(ctx, "CrowdSec", err) }
