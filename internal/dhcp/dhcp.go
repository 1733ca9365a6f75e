// Package dhcp manages the addresses of internal machines: the DHCP server's settings, its subnets and reservations, and the Kea daemon
// that serves them.
package dhcp

import (
	"context"
	"maps"
	"slices"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Deps holds what other rooms provide.
type Deps struct {
	// Interfaces returns the declared interfaces of the gateway, active or not, by name.
	Interfaces func(ctx context.Context, q db.Querier) ([]Interface, error)
	// Serves reports whether this node of the cluster hands out addresses, instead of another one. It may be nil.
	Serves func(ctx context.Context, q db.Querier) (bool, error)
}

// Interface is a declared interface of the gateway.
type Interface struct {
	Name   value.IfName
	Zone   value.Zone
	Active bool
}

// Room manages the DHCP server.
type Room struct {
	*kit.Kit
	deps         Deps
	settings     resource.Singleton[Settings]
	subnets      resource.Kind[Subnet]
	reservations resource.Kind[Reservation]
}

// feeds: the settings also decide what the packet filter opens.
var feeds = []apply.ID{apply.DHCP, apply.PacketFilter}

func New(k *kit.Kit, d Deps) *Room {
	r := &Room{Kit: k, deps: d}
	r.settings, r.subnets, r.reservations = r.settingsKind(), r.subnetKind(), r.reservationKind()
	apply.Register(k.Engine, apply.Component[Config]{
		ID: apply.DHCP, Unit: unit, Enabled: Config.on,
		Load: r.load, Adapt: r.adapt, Render: Render, Apply: r.reload, Verify: r.verify,
		// Kea's own check takes longer than the reload, and would refuse nothing that the types and the rows allow.
		Check:    func(context.Context, []host.File) error { return nil },
		Openings: func(c Config) []policy.Opening { return c.Settings.openings(c.LAN) },
	})
	return r
}

func (r *Room) Mount() {
	r.settings.Mount(r.Resources)
	r.subnets.Mount(r.Resources)
	r.reservations.Mount(r.Resources)
	r.mountStatus()
	r.mountImpact()
}

// The zones that matter: addresses are handed out to internal machines, never to strangers.
var (
	lan = value.Must[value.Zone]("lan")
	wan = value.Must[value.Zone]("wan")
)

// port is the server's port.
const port = 67

// Openings requests udp 67 on the interfaces of the zone lan while the server is on.
func (r *Room) Openings(ctx context.Context, q db.Querier) ([]policy.Opening, error) {
	s, err := r.settings.Load(ctx, q)
	if err != nil || !s.Enabled {
		return nil, err
	}
	interfaces, err := r.deps.Interfaces(ctx, q)
	return s.openings(inside(interfaces)), err
}

// inside returns the interfaces of the zone lan.
func inside(all []Interface) (names []value.IfName) {
	for _, i := range all {
		if i.Active && i.Zone == lan {
			names = append(names, i.Name)
		}
	}
	return names
}

func (s *Settings) openings(interfaces []value.IfName) []policy.Opening {
	if !s.Enabled || len(interfaces) == 0 {
		return nil
	}
	return []policy.Opening{{Service: "dhcp", Proto: policy.UDP, Port: port, Interfaces: interfaces}}
}

// RenameLinks moves subnets to other links, as on a machine where they have other names.
func (r *Room) RenameLinks(ctx context.Context, tx *db.Tx, names map[string]string) error {
	var was, now []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, now = append(was, name), append(now, names[name])
	}
	_, err := tx.Exec(ctx, `UPDATE dhcp_subnets s SET interface = m.now FROM unnest($1::text[], $2::text[]) m (was, now) WHERE s.interface = m.was`, was, now)
	return err
}
