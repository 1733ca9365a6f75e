// Package vrrp manages the virtual addresses of a cluster: which node has them, and the keepalived that moves them.
package vrrp

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Room manages the virtual addresses.
type Room struct {
	*kit.Kit
	deps     Deps
	settings resource.Singleton[Settings]

	mu sync.Mutex
	// router is keepalived's last reported state, and since when; under mu.
	router place
}

// place is keepalived's state.
type place struct {
	State keepalived.State `json:"state"`
	Since time.Time        `json:"since"`
}

// Deps holds what other rooms provide.
type Deps struct {
	// Members returns the addresses by which this node and the others of its cluster reach each other. A node without a cluster has no
	// others.
	Members func(ctx context.Context, q db.Querier) (own netip.Addr, others []netip.Addr, err error)
	// Interfaces returns the declared interfaces of this node.
	Interfaces func(ctx context.Context, q db.Querier) ([]Interface, error)
	// Open returns when the packet filter admits the other nodes, or why it does not.
	Open func(ctx context.Context) error
	// Moved is called when this node has got or lost the virtual addresses. It may be nil.
	Moved func()
}

type Interface struct {
	Name      value.IfName
	Active    bool
	Addresses []Address
}

// Address is an address of a declared interface.
type Address struct {
	Prefix   netip.Prefix
	VIP      bool
	Priority int
}

const unit = keepalived.Unit

func New(k *kit.Kit, d Deps) *Room {
	r := &Room{Kit: k, deps: d}
	r.settings = r.settingsKind()
	r.remember()
	apply.Register(k.Engine, apply.Component[Config]{
		ID: apply.VRRP, Unit: unit, Enabled: Config.on, Load: r.load, Render: Render, Check: r.check, Apply: r.apply, Verify: r.verify,
	})
	return r
}

func (r *Room) Mount() {
	r.settings.Mount(r.Resources)
	r.mountStatus()
}

// Elsewhere reports whether keepalived must bind this node's virtual addresses, because other nodes may have them.
func (r *Room) Elsewhere(ctx context.Context, q db.Querier) (bool, error) {
	_, others, err := r.deps.Members(ctx, q)
	return len(others) > 0, err
}

// Holds reports whether this node has the virtual addresses, and whether there are any that move between the nodes.
func (r *Room) Holds(ctx context.Context, q db.Querier) (holds, move bool, err error) {
	c, err := r.load(ctx, q)
	if err != nil || !c.on() {
		return false, false, err
	}
	// Ask the kernel: keepalived's last report may be from before a reboot.
	links, err := r.Host.Links(ctx)
	return master(links), true, err
}

// Shared returns the settings that should be the same on all nodes, by field name.
func (r *Room) Shared(ctx context.Context, q db.Querier) (map[string]string, error) {
	var address, router string
	err := q.QueryRow(ctx, `SELECT vip_address, vrrp_router_id::text FROM vrrp_settings`).Scan(&address, &router)
	return map[string]string{"vip_address": address, "vrrp_router_id": router}, err
}

// LeaveVIP removes the virtual address when this machine leaves the cluster, which keeps it.
func (r *Room) LeaveVIP(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, `UPDATE vrrp_settings SET vip_address = '', vip_interface = ''`)
	return err
}

// RenameLinks moves the virtual address to another link, as on a machine where links have other names.
func (r *Room) RenameLinks(ctx context.Context, tx *db.Tx, names map[string]string) error {
	for was, now := range names {
		if tag, err := tx.Exec(ctx, `UPDATE vrrp_settings SET vip_interface = $2 WHERE vip_interface = $1`, was, now); err != nil || tag.RowsAffected() > 0 {
			return err
		}
	}
	return nil
}
