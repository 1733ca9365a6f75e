// Package ntp manages the time service: its settings, its sources, and the chrony daemon.
package ntp

import (
	"context"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
)

// feeds: the settings also decide what the packet filter opens.
var feeds = []apply.ID{apply.NTP, apply.PacketFilter}

// Room manages the time service.
type Room struct {
	*kit.Kit
	pools    resource.Kind[Pool]
	settings resource.Singleton[Settings]
}

func New(k *kit.Kit) *Room {
	r := &Room{Kit: k, pools: pools, settings: settings}
	apply.Register(k.Engine, apply.Component[Config]{
		ID: apply.NTP, Unit: unit, Load: r.load, Render: Render, Check: r.check, Apply: r.restart, Verify: r.verify,
		Openings: func(c Config) []policy.Opening { return c.Settings.openings() },
	})
	return r
}

func (r *Room) Mount() {
	r.pools.Mount(r.Resources)
	r.settings.Mount(r.Resources)
	r.mountStatus()
}

// Openings requests udp 123 while the gateway serves time on an address that others can reach.
func (r *Room) Openings(ctx context.Context, q db.Querier) ([]policy.Opening, error) {
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return nil, err
	}
	return s.openings(), nil
}
