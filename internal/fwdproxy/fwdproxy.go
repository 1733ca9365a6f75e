// Package fwdproxy manages the forward proxy: its settings, its ordered access list, and the squid daemon.
package fwdproxy

import (
	"context"
	"sync/atomic"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
)

// Room manages the forward proxy.
type Room struct {
	*kit.Kit
	settings resource.Singleton[Settings]
	acls     resource.Kind[ACL]
	history  trafficHistory
	// asked counts the bytes that the gateway itself has read from the proxy.
	asked atomic.Int64
}

// feeds: the settings also decide what the packet filter opens.
var feeds = []apply.ID{apply.ForwardProxy, apply.PacketFilter}

func New(k *kit.Kit) *Room {
	r := &Room{Kit: k, settings: settings, acls: acls, history: trafficHistory{Point: traffic}}
	apply.Register(k.Engine, apply.Component[Config]{
		ID: apply.ForwardProxy, Unit: unit, Enabled: func(c Config) bool { return c.Settings.Enabled },
		Load: r.load, Adapt: r.adapt, Render: Render, Check: r.check, Apply: r.take, Verify: r.verify,
		Openings: func(c Config) []policy.Opening { return c.Settings.openings() },
	})
	return r
}

func (r *Room) Mount() {
	r.settings.Mount(r.Resources)
	r.acls.Mount(r.Resources)
	r.mountStatus()
}

// Openings requests the proxy's port while it is on.
func (r *Room) Openings(ctx context.Context, q db.Querier) ([]policy.Opening, error) {
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return nil, err
	}
	return s.openings(), nil
}
