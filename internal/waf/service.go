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
)

// Settings are those of the agent itself.
type Settings struct {
	resource.Meta
	Enabled bool `json:"enabled" doc:"Whether the agent runs. While it does not, requests of domains with the WAF on pass or are refused, depending on fail_open."`
}

// Label is how people know it.
func (s *Settings) Label() string { return "WAF settings" }

var settings = resource.Singleton[Settings]{
	Name: "waf.settings", Title: "WAF settings", Path: "/waf/settings", Table: "waf_settings", Feeds: []apply.ID{apply.WAF}, Local: true,
}

const (
	// readyWithin is how long the agent may take until its engines are built, and readyAgain how often it is asked.
	readyWithin = 30 * time.Second
	readyAgain  = 100 * time.Millisecond
)

// registerAgent makes the agent a component. It reads what domains want from the database, so that there are no files.
func (r *Room) registerAgent() {
	apply.Register(r.Engine, apply.Component[Settings]{
		ID: apply.WAF, Unit: host.WAF, Enabled: func(s Settings) bool { return s.Enabled },
		Load: func(ctx context.Context, q db.Querier) (Settings, error) {
			s, err := r.agents.Load(ctx, q)
			if err != nil {
				return Settings{}, err
			}
			return *s, nil
		},
		Render: func(Settings) ([]host.File, error) { return nil, nil },
		Check:  func(context.Context, []host.File) error { return nil },
		Apply:  r.startAgent,
		Verify: r.verifyAgent,
	})
}

// startAgent starts the agent again, unless it answers, and waits until it has built its engines.
func (r *Room) startAgent(ctx context.Context, s Settings, files []host.File) error {
	if r.verifyAgent(ctx, s, files) == nil {
		return nil
	}
	if err := r.Host.Restart(ctx, host.WAF); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for r.agent(ctx).State == "starting" {
		select {
		case <-ctx.Done():
		case <-time.After(readyAgain):
		}
	}
	return nil
}

// verifyAgent says whether the agent runs and answers.
func (r *Room) verifyAgent(ctx context.Context, _ Settings, _ []host.File) error {
	state, err := r.Host.State(ctx, host.WAF)
	if err != nil {
		return err
	}
	if state.Active != "active" {
		return fmt.Errorf("%s is %s: %s", host.WAF, state.Active, state.Detail)
	}
	if agent := r.agent(ctx); agent.State != "up" {
		return errors.New(agent.Reason)
	}
	return nil
}

// Switch switches the agent on or off, as the settings do.
func (r *Room) Switch(c *httpd.Call, on bool) error {
	return r.Resources.Switch(c, settings.Name, "enabled", on)
}
