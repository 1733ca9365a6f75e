// Package radius manages logins to network equipment: the RADIUS server's settings, its clients and users, and the FreeRADIUS daemon.
package radius

import (
	"context"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
)

// Room manages the RADIUS server.
type Room struct {
	*kit.Kit
	settings resource.Singleton[Settings]
	clients  resource.Kind[Client]
	users    resource.Kind[User]
}

// feeds: the settings also decide what the packet filter opens.
var feeds = []apply.ID{apply.RADIUS, apply.PacketFilter}

func New(k *kit.Kit) *Room {
	r := &Room{Kit: k, settings: settings, clients: clients, users: users}
	apply.Register(k.Engine, apply.Component[Config]{
		ID: apply.RADIUS, Unit: unit, Load: r.load, Render: Render, Check: r.check, Apply: r.restart, Verify: r.verify,
		Enabled:  func(c Config) bool { return c.Settings.Enabled },
		Openings: func(c Config) []policy.Opening { return c.Settings.openings() },
	})
	return r
}

func (r *Room) Mount() {
	r.settings.Mount(r.Resources)
	r.clients.Mount(r.Resources)
	r.users.Mount(r.Resources)
	r.mountStatus()
}

// Openings requests the server's ports while it is on.
func (r *Room) Openings(ctx context.Context, q db.Querier) ([]policy.Opening, error) {
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return nil, err
	}
	return s.openings(), nil
}
