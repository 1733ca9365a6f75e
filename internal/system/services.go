package system

import (
	"context"
	"errors"
	"net/http"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
)

// Service is a daemon with its present state.
type Service struct {
	Name   string     `json:"name" doc:"Name of the daemon."`
	Active string     `json:"active" enum:"active,activating,inactive,failed,not_installed,unknown,kernel-loaded,no-table" doc:"State; unknown if systemd or the kernel does not say. The firewall is not a daemon: its table is either in the kernel or not."`
	Since  *time.Time `json:"since" doc:"Since when."`
	Detail string     `json:"detail" doc:"Why it failed, or why its state is unknown. The daemon's own words are for administrators."`
}

// Services lists the daemons.
type Services struct {
	Services []Service `json:"services" doc:"The daemons of the gateway."`
}

// Restart selects the daemon to restart.
type Restart struct {
	Kind string `json:"kind" required:"true" enum:"reverse-proxy,forward-proxy,dns,ntp,scheduler" doc:"Which daemon."`
}

// Toggle switches a daemon on or off.
type Toggle struct {
	Service string `json:"service" required:"true" enum:"ids-agent,ids-firewall-bouncer,waf" doc:"Which daemon."`
	Enabled bool   `json:"enabled" given:"true" doc:"Whether it runs, now and after the next boot."`
}

// Outcome is the result of a restart or toggle.
type Outcome struct {
	Name   string `json:"name" doc:"Which daemon."`
	Active string `json:"active" enum:"active,activating,inactive,failed,not_installed,unknown" doc:"What it does now; unknown if systemd does not say."`
	Error  string `json:"error" doc:"Why it failed; empty on success."`
	Note   string `json:"note" doc:"What else there is to know until the daemon runs; empty if nothing."`
}

// passing maps temporary states to those that they lead to.
var passing = map[string]string{"reloading": "active", "deactivating": "inactive"}

// units maps the API's names to daemons.
var units = map[string]host.Unit{
	"reverse-proxy":        haproxy.Unit,
	"forward-proxy":        squid.Unit,
	"dns":                  unbound.Unit,
	"ntp":                  chrony.Unit,
	"scheduler":            host.Scheduler,
	"waf":                  host.WAF,
	"ids-agent":            crowdsec.Unit,
	"ids-firewall-bouncer": crowdsec.Bouncer,
}

const (
	// restartWithin limits a restart.
	restartWithin = time.Minute
	// parting is how long the reverse proxy has to deliver an answer before it is restarted.
	parting = 500 * time.Millisecond
)

func (r *Room) mountServices() {
	httpd.Handle(r.Router, http.MethodGet, "/system/services", httpd.Read.Offline(), tag.Doc("system.services", "List the daemons and their states"),
		func(c *httpd.Call, _ struct{}) (Services, error) {
			ctx, cancel := host.Asking(c)
			defer cancel()
			var list Services
			for _, spec := range host.UnitSpecs() {
				list.Services = append(list.Services, r.service(ctx, spec.Unit))
			}
			list.Services = append(list.Services, r.packetFilter(ctx))
			return list, nil
		})
	httpd.Handle(r.Router, http.MethodPost, "/system/service-restart", httpd.Write.Offline().Here(), tag.Audited(restarted, "Restart a daemon. A restart of the reverse proxy cuts all its connections, including yours; proxy-reload cuts none"),
		func(c *httpd.Call, in struct{ Body Restart }) (Outcome, error) {
			u := units[in.Body.Kind]
			if u == haproxy.Unit && r.service(c, u).Active == "active" {
				return r.restartLater(c, in.Body.Kind)
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(c), restartWithin)
			defer cancel()
			return r.restart(ctx, in.Body.Kind)
		})
	httpd.Handle(r.Router, http.MethodPost, "/system/service-toggle", httpd.Write.Here(), tag.Audited(toggled, "Turn a daemon on or off. It changes the settings that the daemon follows"), r.toggle)
}

// toggled is the audit action of a toggle.
const toggled = "system.service-toggle"

// toggle changes the settings that a daemon follows. If they cannot be stored, it fails without effect.
func (r *Room) toggle(c *httpd.Call, in struct{ Body Toggle }) (Outcome, error) {
	note, err := r.deps.Switches[in.Body.Service](c, resource.Alias{Action: toggled, Subject: in.Body.Service}, in.Body.Enabled)
	if err != nil {
		return Outcome{}, err
	}
	o := r.outcome(c, in.Body.Service)
	o.Note = note
	return o, nil
}

// outcome returns the present state of a daemon.
func (r *Room) outcome(ctx context.Context, name string) Outcome {
	s := r.service(ctx, units[name])
	o := Outcome{Name: name, Active: s.Active}
	switch s.Active {
	case "not_installed":
		o.Error = host.ErrNotInstalled.Error()
	case "unknown":
		o.Error = s.Detail
	}
	return o
}

func (r *Room) packetFilter(ctx context.Context) Service {
	s := Service{Name: "packet-filter", Active: "no-table"}
	state, err := r.Host.FilterState(ctx)
	switch {
	case errors.Is(err, host.ErrNotInstalled):
		s.Active, s.Detail = "not_installed", httpd.Problem(ctx, "The packet filter", err)
	case err != nil:
		s.Active, s.Detail = "unknown", httpd.Problem(ctx, "The packet filter", err)
	case state.Present:
		s.Active = "kernel-loaded"
	}
	return s
}

func (r *Room) service(ctx context.Context, u host.Unit) Service {
	s := Service{Name: string(u)}
	state, err := r.Host.State(ctx, u)
	switch {
	case err != nil:
		s.Active, s.Detail = "unknown", httpd.Problem(ctx, "The service manager", err)
	case !state.Installed:
		s.Active = "not_installed"
	default:
		s.Active, s.Detail = state.Active, httpd.Words(ctx, state.Detail)
		if short, ok := passing[s.Active]; ok {
			s.Active = short
		}
		if !state.Since.IsZero() {
			since := state.Since.UTC()
			s.Since = &since
		}
	}
	return s
}

// restart restarts a daemon and returns the result; a missing daemon is not an error of ours.
func (r *Room) restart(ctx context.Context, name string) (o Outcome, err error) {
	err = r.Audit.Do(ctx, restarted, name, func() (any, error) {
		err := r.Engine.Restart(ctx, units[name])
		if o = r.outcome(ctx, name); o.Error == "" && err != nil && !errors.Is(err, host.ErrNotInstalled) {
			o.Error = err.Error()
		}
		return nil, nil
	})
	return o, err
}

// restarted is the audit action of a restart.
const restarted = "system.service-restart"

// restartLater restarts a daemon that carries the answer, after the answer was sent.
func (r *Room) restartLater(c *httpd.Call, name string) (o Outcome, err error) {
	ctx := context.WithoutCancel(c)
	c.Afterwards(func() {
		ctx, cancel := context.WithTimeout(ctx, restartWithin)
		defer cancel()
		time.Sleep(parting)
		if err := r.Engine.Restart(ctx, units[name]); err != nil {
			r.Log.Error("a service did not restart", "service", name, "err", err)
		}
	})
	return Outcome{Name: name, Active: "activating", Note: "The restart begins now and cuts all connections of the reverse proxy, including yours. The list of services shows when it runs again."},
		r.Audit.Do(c, restarted, name, func() (any, error) { return nil, nil })
}
