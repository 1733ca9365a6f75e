// Package ids manages intrusion detection: the logs that CrowdSec reads, the allow-list, the alerts and decisions, the bouncers, and the
// firewall bouncer that drops the packets of banned addresses.
package ids

import (
	"context"
	"net/netip"
	"sync"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/resource"
)

// Deps holds what other rooms provide.
type Deps struct {
	// Addresses returns the declared addresses of the gateway itself.
	Addresses func(ctx context.Context, q db.Querier) ([]netip.Addr, error)
	// Peers returns the addresses of the other nodes of the cluster.
	Peers func(ctx context.Context, q db.Querier) ([]netip.Addr, error)
	// Proxies returns the networks of trusted proxies: bans apply to the visitor behind a proxy, never to the proxy.
	Proxies func(ctx context.Context, q db.Querier) ([]netip.Prefix, error)
	// Operators returns the addresses from which administrators are logged in.
	Operators func(ctx context.Context) ([]netip.Addr, error)
	// Drops passes on packets that the packet filter drops and logs, until the context ends.
	Drops func(ctx context.Context, emit func([]Drop)) error
}

// Room manages intrusion detection.
type Room struct {
	*kit.Kit
	deps     Deps
	settings resource.Singleton[Settings]
	accounts accounts
	drops    dropLog
	asked    questions

	mu        sync.Mutex
	token     string       // under mu: of the gateway's machine account, once it has logged in
	operators []netip.Addr // under mu: the last known ones

	sparing sync.Mutex
	spared  string // under sparing: which bouncer lets which addresses pass
}

const (
	unit    = crowdsec.Unit
	bouncer = crowdsec.Bouncer
)

// feeds lists the components of the settings.
var feeds = []apply.ID{apply.Detection, apply.Bouncer}

func New(k *kit.Kit, d Deps) *Room {
	r := &Room{Kit: k, deps: d, settings: settings, asked: newQuestions(), accounts: accounts{path: k.Paths.State("ids-accounts.json")}, drops: dropLog{path: k.Paths.Log("drops.json")}}
	// Both daemons start slowly and check their files while they do. The types let nothing through that they would refuse.
	unchecked := func(context.Context, []host.File) error { return nil }
	apply.Register(k.Engine, apply.Component[Config]{
		ID: apply.Detection, Unit: unit, Enabled: func(c Config) bool { return c.Settings.Enabled },
		Load: r.load, Adapt: r.adapt, Render: Render, Check: unchecked, Apply: r.restart, Verify: r.verify,
	})
	apply.Register(k.Engine, apply.Component[BouncerConfig]{
		ID: apply.Bouncer, Unit: bouncer, Enabled: BouncerConfig.on,
		Load: r.loadBouncer, Render: RenderBouncer, Check: unchecked, Apply: r.restartBouncer, Verify: r.verifyBouncer,
	})
	return r
}

func (r *Room) Mount() {
	r.settings.Mount(r.Resources)
	r.mountStatus()
	r.mountDecisions()
	r.mountAlerts()
	r.mountAccounts()
}
