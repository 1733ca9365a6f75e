// Package dhcp owns the addresses of the machines inside: the DHCP server's settings, its subnets and reservations, and the
// Kea daemon that follows them.
package dhcp

import (
	"context"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Deps is what other rooms lend.
type Deps struct {
	// Interfaces are the gateway's interfaces by zone.
	Interfaces func(ctx context.Context, q db.Querier) (map[value.Zone][]value.IfName, error)
}

// Room is the DHCP server.
type Room struct {
	*kit.Kit
	deps         Deps
	settings     resource.Singleton[Settings]
	subnets      resource.Kind[Subnet]
	reservations resource.Kind[Reservation]
}

// feeds: the settings also decide what the packet filter opens.
var feeds = []apply.ID{apply.DHCP, apply.PacketFilter}

// New builds the room.
func New(k *kit.Kit, d Deps) *Room {
	return &Room{Kit: k, deps: d, settings: settings, subnets: subnets, reservations: reservations}
}

// Mount adds the room's routes.
func (r *Room) Mount() {
	r.settings.Mount(r.Resources)
	r.subnets.Mount(r.Resources)
	r.reservations.Mount(r.Resources)
	r.mountStatus()
}

// lan is the zone that addresses are handed out in: never where strangers are.
var lan = value.Must[value.Zone]("lan")

// port is where clients ask.
const port = 67

// Openings asks for udp 67 on the interfaces of the lan while the server is enabled.
func (r *Room) Openings(ctx context.Context, q db.Querier) ([]policy.Opening, error) {
	s, err := r.settings.Load(ctx, q)
	if err != nil || !s.Enabled {
		return nil, err
	}
	zones, err := r.deps.Interfaces(ctx, q)
	if err != nil || len(zones[lan]) == 0 {
		return nil, err
	}
	return []policy.Opening{{Service: "dhcp", Proto: policy.UDP, Port: port, Interfaces: zones[lan]}}, nil
}
