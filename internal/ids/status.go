package ids

import (
	"context"
	"net/http"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
)

// Daemon is one of the two daemons, and what it does.
type Daemon struct {
	State  string     `json:"state" enum:"running,starting,stopped,failed,not_installed,unknown" doc:"What it does; unknown if systemd does not say."`
	Since  *time.Time `json:"since" doc:"Since when."`
	Detail string     `json:"detail" doc:"Why it failed, or why its state is unknown. The daemon's own words are for administrators."`
}

// Status is what intrusion detection does.
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
		s.Error = told(ctx, err)
	}
	s.Decisions = len(list)
	for _, d := range list {
		s.Origins[d.Origin]++
	}
	return s, nil
}

// states are the daemons' states in the words of the API.
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

// why says why a daemon that does not run answers nothing.
func why(d Daemon) string {
	switch d.State {
	case "not_installed":
		return "CrowdSec is not installed."
	case "unknown":
		return d.Detail
	}
	return "CrowdSec is not running."
}

// told is an error about asking CrowdSec, in a sentence; empty if there is none.
func told(ctx context.Context, err error) string { return httpd.Problem(ctx, "CrowdSec", err) }
