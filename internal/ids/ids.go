// Package ids owns intrusion detection: which logs CrowdSec reads, who is never banned, what it found and decided, who may ask it, and
// the bouncer that drops the packets of who is banned.
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

// Deps is what other rooms lend.
type Deps struct {
	// Addresses are those that are declared for the gateway itself.
	Addresses func(ctx context.Context, q db.Querier) ([]netip.Addr, error)
	// Peers are the other nodes of the cluster.
	Peers func(ctx context.Context, q db.Querier) ([]netip.Addr, error)
	// Proxies are the networks of those that visitors come through: who is banned is the visitor.
	Proxies func(ctx context.Context, q db.Querier) ([]netip.Prefix, error)
	// Operators are the addresses that administrators are logged in from.
	Operators func(ctx context.Context) ([]netip.Addr, error)
	// Drops tells of packets that the packet filter drops and logs, until the context ends.
	Drops func(ctx context.Context, told func([]Drop)) error
}

// Room is intrusion detection.
type Room struct {
	*kit.Kit
	deps     Deps
	settings resource.Singleton[Settings]
	accounts accounts
	drops    dropLog
	asked    questions

	mu        sync.Mutex
	token     string       // under mu: of the gateway's machine account, once it has logged in
	operators []netip.Addr // under mu: as they were when they were last told

	sparing sync.Mutex
	spared  string // under sparing: which bouncer lets whom pass
}

// The daemons behind the room.
const (
	unit    = crowdsec.Unit
	bouncer = crowdsec.Bouncer
)

// feeds are the components of the settings.
var feeds = []apply.ID{apply.Detection, apply.Bouncer}

// New builds the room.
func New(k *kit.Kit, d Deps) *Room {
	r := &Room{Kit: k, deps: d, settings: settings, asked: newQuestions(), accounts: accounts{path: k.Paths.State("ids-accounts.json")}, drops: dropLog{path: k.Paths.Log("drops.json")}}
	// Both start slowly and check what they read while they do. The types let nothing through that they would refuse.
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
