// Package dns manages name resolution: its settings, the local zones and records, and the unbound daemon that serves them.
package dns

import (
	"context"
	"sync/atomic"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
)

// Room manages the resolver.
type Room struct {
	*kit.Kit
	settings resource.Singleton[Settings]
	zones    resource.Kind[Zone]
	records  resource.Kind[Record]
	history  trafficHistory
	// reloads counts how often unbound was made to read its files.
	reloads atomic.Int64
}

// feeds: the settings also decide what the packet filter opens.
var feeds = []apply.ID{apply.DNS, apply.PacketFilter}

func New(k *kit.Kit) *Room {
	r := &Room{Kit: k, settings: settings, zones: zones, records: records, history: trafficHistory{Point: traffic}}
	r.zones.Check, r.records.Check = r.checkZone, r.checkRecord
	apply.Register(k.Engine, apply.Component[*Config]{
		ID: apply.DNS, Unit: unit, Load: r.load, Render: Render, Check: r.check, Apply: r.reload, Verify: r.verify,
		Runtime:  &apply.Runtime[*Config]{Can: r.can, Do: r.change, Plan: r.plan},
		Openings: func(c *Config) []policy.Opening { return c.Settings.openings() },
	})
	return r
}

func (r *Room) Mount() {
	r.settings.Mount(r.Resources)
	r.zones.Mount(r.Resources)
	r.records.Mount(r.Resources)
	r.mountStatus()
}

// Openings requests port 53 while the resolver listens on an address that others can reach.
func (r *Room) Openings(ctx context.Context, q db.Querier) ([]policy.Opening, error) {
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return nil, err
	}
	return s.openings(), nil
}
