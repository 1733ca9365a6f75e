// Package tunnel manages the VPN: WireGuard interfaces with their peers or upstream, and their part of the kernel's network.
package tunnel

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// feeds: interfaces also decide what the packet filter opens and forwards; peers do not.
var feeds = []apply.ID{apply.Tunnel, apply.PacketFilter}

// Room manages the tunnels.
type Room struct {
	*kit.Kit
	deps       Deps
	interfaces resource.Kind[Interface]
	peers      resource.Child[Peer]
	dialler    dialler
	meter      meter
}

// Deps holds what other rooms provide.
type Deps struct {
	// FQDN returns the name of the gateway, which peers dial by default; it may be empty.
	FQDN func() string
	// Resolve returns the addresses of a name.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Serves reports whether this node of the cluster dials the upstreams of clients, instead of another one. It may be nil.
	Serves func(ctx context.Context, q db.Querier) (bool, error)
}

func New(k *kit.Kit, d Deps) *Room {
	r := &Room{Kit: k, deps: d}
	r.interfaces, r.peers = r.interfaceKind(), r.peerKind()
	apply.Register(k.Engine, apply.Component[Config]{
		ID: apply.Tunnel, Load: r.load, Render: Render, Apply: r.converge, Verify: r.verify, Volatile: true,
		// There is no checker: the types and the rows refuse what must be refused.
		Check: func(context.Context, []host.File) error { return nil },
		// A full pass also touches only what differs, but it reads everything.
		Runtime:  &apply.Runtime[Config]{Can: func(Config, Config) bool { return false }, Plan: r.plan},
		Openings: Config.openings,
	})
	return r
}

func (r *Room) Mount() {
	r.interfaces.Mount(r.Resources)
	r.peers.Mount(r.Resources)
	r.mountKeys()
	r.mountProfile()
	r.mountStatus()
	r.mountImport()
	r.mountImpact()
}

// Tunnels returns the active interfaces that serve peers.
func (r *Room) Tunnels(ctx context.Context, q db.Querier) ([]policy.Tunnel, error) {
	servers, err := r.servers(ctx, q)
	list := []policy.Tunnel{}
	for _, i := range servers {
		list = append(list, policy.Tunnel{Interface: i.Name, Networks: i.AddressCIDR.Networks()})
	}
	return list, err
}

// Openings requests the port of each active interface that serves peers.
func (r *Room) Openings(ctx context.Context, q db.Querier) ([]policy.Opening, error) {
	servers, err := r.servers(ctx, q)
	list := []policy.Opening{}
	for _, i := range servers {
		list = append(list, opening(i.ListenPort))
	}
	return list, err
}

func (c Config) openings() (list []policy.Opening) {
	for _, t := range c.Tunnels {
		if t.Server {
			list = append(list, opening(t.ListenPort))
		}
	}
	return list
}

func opening(port int) policy.Opening {
	return policy.Opening{Service: "tunnel", Proto: policy.UDP, Port: port}
}

// Defaults returns the active clients whose upstream takes all traffic of a family.
func (r *Room) Defaults(ctx context.Context, q db.Querier) (links []value.IfName, err error) {
	all, err := r.interfaces.All(ctx, q)
	for _, i := range all {
		if i.Active && i.Mode == client && slices.ContainsFunc(i.UpstreamAllowedIPs.List(), func(n value.Prefix) bool { return n.Netip().Bits() == 0 }) {
			links = append(links, i.Name)
		}
	}
	return links, err
}

// Addresses returns the gateway's addresses in its active tunnels.
func (r *Room) Addresses(ctx context.Context, q db.Querier) (list []netip.Addr, err error) {
	all, err := r.interfaces.All(ctx, q)
	for _, i := range all {
		if !i.Active {
			continue
		}
		for _, own := range i.AddressCIDR.List() {
			list = append(list, own.Addr())
		}
	}
	return list, err
}

// CountPeers returns the number of peers, active or not.
func (r *Room) CountPeers(ctx context.Context, q db.Querier) (n int, err error) {
	err = q.QueryRow(ctx, "SELECT count(*) FROM tunnel_peers").Scan(&n)
	return n, err
}

// Carrier returns who has an address at the other end of an active tunnel: of several, the one with the smallest network.
func (r *Room) Carrier(ctx context.Context, q db.Querier, a netip.Addr) (c policy.Carrier, err error) {
	err = q.QueryRow(ctx, `
		WITH ends AS (
			SELECT i.name AS link, p.name, p.allowed_ips, concat_ws(' ', i.public_key, i.listen_port, p.public_key, md5(p.preshared_key)) AS agreed
			FROM tunnel_peers p JOIN tunnel_interfaces i ON i.id = p.interface_id WHERE p.active AND i.active AND i.mode = 'server'
			UNION ALL
			SELECT name, 'the upstream', upstream_allowed_ips, concat_ws(' ', public_key, upstream_public_key, upstream_endpoint, md5(upstream_preshared_key))
			FROM tunnel_interfaces WHERE active AND mode = 'client'
		)
		SELECT link, name, agreed FROM ends, unnest(string_to_array(allowed_ips, ',')) network
		WHERE network::inet >>= $1 ORDER BY masklen(network::inet) DESC LIMIT 1`, a.Unmap()).Scan(&c.Interface, &c.Name, &c.Agreed)
	if errors.Is(err, pgx.ErrNoRows) {
		return policy.Carrier{}, nil
	}
	return c, err
}

// elsewhere reports which tunnels are on another node of the cluster: all nodes have the key of a client, but its upstream can only know
// one of them by it.
func (r *Room) elsewhere(ctx context.Context, q db.Querier) (func(*Interface) bool, error) {
	serves := true
	if r.deps.Serves != nil {
		var err error
		if serves, err = r.deps.Serves(ctx, q); err != nil {
			return nil, err
		}
	}
	return func(i *Interface) bool { return !serves && i.Mode == client }, nil
}

func (r *Room) servers(ctx context.Context, q db.Querier) (servers []Interface, err error) {
	list, err := r.interfaces.All(ctx, q)
	for _, i := range list {
		if i.Active && i.Mode == server {
			servers = append(servers, i)
		}
	}
	return servers, err
}

// single reports whether a network is one address.
func single(p value.Prefix) bool { return p.Netip().IsSingleIP() }
