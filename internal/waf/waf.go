// Package waf manages the web application firewall: the domains' configurations, the alerts, and the way from a false positive to the
// narrowest exclusion. The program that inspects requests consists of the packages below; this package is the part in the service.
package waf

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/live"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/waf/engine"
)

// Deps holds what the room needs from others.
type Deps struct {
	// Domains returns the names of all domains.
	Domains func(ctx context.Context, q db.Querier) (map[uuid.UUID]string, error)
	// DomainTable is the table of the domains.
	DomainTable string
}

// Room manages the web application firewall.
type Room struct {
	*kit.Kit
	deps    Deps
	configs resource.Extension[Config]
	// agents are the settings of the agent itself.
	agents resource.Singleton[Settings]
	// engines are for trying rules and inspecting requests again. They are built on first use, so that the service starts without them.
	engines func() (*engine.Set, error)
	gaps    gaps
	live    live.Feed[Alert]
	// proposing holds a token while a proposal is tried.
	proposing chan struct{}
}

const tag httpd.Tag = "waf"

// feeds lists the components of a domain's configuration. Intrusion detection is one because it must not ban trusted proxies.
var feeds = []apply.ID{apply.ReverseProxy, apply.Detection, apply.WAF}

func New(k *kit.Kit, deps Deps) *Room {
	r := &Room{Kit: k, deps: deps, agents: settings, engines: sync.OnceValues(engine.New), proposing: make(chan struct{}, 1)}
	r.configs = r.configKind()
	r.registerAgent()
	r.live = live.Feed[Alert]{
		DB: k.DB, Channel: channel, Announced: r.announced,
		Newest: func(ctx context.Context, n int) ([]Alert, error) { return r.alerts(ctx, k.DB, AlertFilter{Limit: n}) },
		ID:     func(a Alert) uuid.UUID { return a.ID },
	}
	return r
}

func (r *Room) Mount() {
	r.Resources.Declare("waf_alerts", resource.Local)
	r.Resources.Declare("waf_requests", resource.Local)
	r.configs.Mount(r.Resources)
	r.agents.Mount(r.Resources)
	r.mountAlerts()
	r.mountSummary()
	r.mountTuning()
}
