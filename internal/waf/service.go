package waf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/waf/agent"
)

// Settings are those of the agent itself.
type Settings struct {
	resource.Meta
	Enabled bool `json:"enabled" doc:"Whether the agent runs. While it does not, requests of domains with the WAF on pass or are refused, depending on fail_open."`
}

func (s *Settings) Label() string { return "WAF settings" }

var settings = resource.Singleton[Settings]{
	Name: "waf.settings", Title: "WAF settings", Path: "/waf/settings", Table: "waf_settings", Feeds: []apply.ID{apply.WAF}, Local: true,
	Unforeseen: unforeseen,
}

// unforeseen is what previews report about sites.
var unforeseen = map[resource.Area]string{resource.Sites: "Which requests the web application firewall refuses is only known when they come."}

const (
	// readyWithin is how long the agent may take until its engines are built, and readyAgain how often we ask.
	readyWithin = 30 * time.Second
	readyAgain  = 10 * time.Millisecond
)

// wanted is the desired state of the agent: whether it runs, and the fingerprint of the domains' configuration.
type wanted struct {
	Enabled       bool
	Configuration string
}

// registerAgent makes the agent a component. It has no files, because it reads the domains' configuration from the database.
func (r *Room) registerAgent() {
	apply.Register(r.Engine, apply.Component[wanted]{
		ID: apply.WAF, Unit: host.WAF, Enabled: func(w wanted) bool { return w.Enabled },
		Load:   r.loadAgent,
		Render: func(wanted) ([]host.File, error) { return nil, nil },
		Check:  func(context.Context, []host.File) error { return nil },
		Apply:  r.startAgent,
		Verify: r.verifyAgent,
	})
}

func (r *Room) loadAgent(ctx context.Context, q db.Querier) (w wanted, err error) {
	s, err := r.agents.Load(ctx, q)
	if err != nil {
		return w, err
	}
	w.Enabled = s.Enabled
	return w, q.QueryRow(ctx, agent.Fingerprint).Scan(&w.Configuration)
}

// startAgent restarts the agent if it does not answer, and waits until it has built its engines and applied what is stored; the database
// notifies it.
func (r *Room) startAgent(ctx context.Context, w wanted, _ []host.File) error {
	if err := r.runs(ctx); err != nil || r.agent(ctx).State == "down" {
		if err := r.Host.Restart(ctx, host.WAF); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for a := r.agent(ctx); ctx.Err() == nil && (a.State == "starting" || a.State == "up" && !r.tookOver(ctx, a, w)); a = r.agent(ctx) {
		select {
		case <-ctx.Done():
		case <-time.After(readyAgain):
		}
	}
	return nil
}

// tookOver reports whether the agent uses the wanted configuration, or already a later one: it applies what is stored, and never goes
// back to what a waiting lane still expects.
func (r *Room) tookOver(ctx context.Context, a Agent, w wanted) bool {
	if a.configuration == w.Configuration {
		return true
	}
	var stored string
	err := r.DB.QueryRow(ctx, agent.Fingerprint).Scan(&stored)
	return err == nil && a.configuration == stored
}

// verifyAgent checks that the agent runs, answers and uses the domains' configuration.
func (r *Room) verifyAgent(ctx context.Context, w wanted, _ []host.File) error {
	if err := r.runs(ctx); err != nil {
		return err
	}
	switch a := r.agent(ctx); {
	case a.State != "up":
		return errors.New(a.Reason)
	case !r.tookOver(ctx, a, w):
		return errors.New("the agent has not taken over the last change of the WAF configuration")
	case a.unusable > 0:
		return &apply.Partial{Problems: []string{fmt.Sprintf("The agent cannot use the WAF configuration of %d domains. Its log names them.", a.unusable)}}
	}
	return nil
}

// runs checks that the agent's unit is active.
func (r *Room) runs(ctx context.Context) error {
	state, err := r.Host.State(ctx, host.WAF)
	if err != nil {
		return err
	}
	if state.Active != "active" {
		return fmt.Errorf("%s is %s: %s", host.WAF, state.Active, state.Detail)
	}
	return nil
}

// Switch switches the agent on or off in the settings.
func (r *Room) Switch(c *httpd.Call, as resource.Alias, on bool) error {
	return r.Resources.Switch(c, as, settings.Name, "enabled", on)
}
