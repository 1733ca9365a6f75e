// Package network manages the gateway's links, addresses and static routes: their declarations, and the kernel's network.
package network

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Room manages the network.
type Room struct {
	*kit.Kit
	deps       Deps
	interfaces resource.Kind[Interface]
	addresses  resource.Child[Address]
	routes     resource.Kind[Route]
}

// Deps holds what other rooms provide.
type Deps struct {
	// VIPsElsewhere reports whether VRRP binds the virtual addresses, as in a cluster.
	VIPsElsewhere func(ctx context.Context, q db.Querier) (bool, error)
	// Away reports whether another node is the primary.
	Away func(ctx context.Context) (bool, error)
	// Services are the parts of a network in other rooms.
	Services Services
}

func New(k *kit.Kit, d Deps) *Room {
	r := &Room{Kit: k, deps: d}
	r.interfaces, r.addresses, r.routes = r.interfaceKind(), r.addressKind(), r.routeKind()
	apply.Register(k.Engine, apply.Component[Config]{
		ID: apply.Network, Load: r.load, Render: Render, Apply: r.apply, Verify: r.verify, Volatile: true,
		// There is no checker: the types and the rows refuse what must be refused.
		Check: func(context.Context, []host.File) error { return nil },
	})
	return r
}

func (r *Room) Mount() {
	r.interfaces.Mount(r.Resources)
	r.addresses.Mount(r.Resources)
	r.routes.Mount(r.Resources)
	r.mountStatus()
	r.mountSetup()
}

// Interfaces returns the declared interfaces, active or not, by name.
func (r *Room) Interfaces(ctx context.Context, q db.Querier) ([]Interface, error) {
	return r.interfaces.All(ctx, q)
}

// AddressesOf returns the declared addresses by interface.
func (r *Room) AddressesOf(ctx context.Context, q db.Querier) (map[uuid.UUID][]Address, error) {
	rows, err := r.addresses.All(ctx, q)
	of := map[uuid.UUID][]Address{}
	for _, a := range rows {
		of[a.InterfaceID] = append(of[a.InterfaceID], a)
	}
	return of, err
}

// ZoneInterfaces returns the names of the active interfaces of each zone, sorted.
func (r *Room) ZoneInterfaces(ctx context.Context, q db.Querier) (map[value.Zone][]value.IfName, error) {
	list, err := r.interfaces.All(ctx, q) // by name
	zones := map[value.Zone][]value.IfName{}
	for _, i := range list {
		if i.Active {
			zones[i.Role] = append(zones[i.Role], i.Name)
		}
	}
	return zones, err
}

// ZoneUsers returns the interfaces in a zone, active or not.
func (r *Room) ZoneUsers(ctx context.Context, q db.Querier, zone value.Zone) ([]resource.User, error) {
	list, err := r.interfaces.All(ctx, q)
	users := []resource.User{}
	for _, i := range list {
		if i.Role == zone {
			users = append(users, i.user())
		}
	}
	return users, err
}

// Addresses returns the addresses of all active interfaces, including virtual ones, sorted.
func (r *Room) Addresses(ctx context.Context, q db.Querier) ([]netip.Addr, error) {
	interfaces, err := r.interfaces.All(ctx, q)
	if err != nil {
		return nil, err
	}
	rows, err := r.addresses.All(ctx, q)
	list := []netip.Addr{}
	for _, a := range rows {
		if slices.ContainsFunc(interfaces, func(i Interface) bool { return i.ID == a.InterfaceID && i.Active }) {
			list = append(list, a.Address.Netip())
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list, err
}

// Links returns the machine's links that the configuration uses but does not create, sorted.
func (r *Room) Links(ctx context.Context, q db.Querier) ([]string, error) {
	declared, err := r.interfaces.All(ctx, q)
	if err != nil {
		return nil, err
	}
	routes, err := r.routes.All(ctx, q)
	if err != nil {
		return nil, err
	}
	named, own := map[string]bool{}, map[string]bool{}
	for _, i := range declared {
		if i.Type != ethernet {
			own[i.Name.String()] = true
		}
		named[i.Name.String()], named[i.Parent.String()] = true, true
		for _, member := range i.Members {
			named[member.String()] = true
		}
	}
	for _, route := range routes {
		named[route.Dev.String()] = true
	}
	delete(named, "")
	maps.DeleteFunc(named, func(name string, _ bool) bool { return own[name] })
	return slices.Sorted(maps.Keys(named)), nil
}

// IsVirtual reports whether an address moves between the nodes of a cluster.
func (r *Room) IsVirtual(ctx context.Context, address string) (is bool, err error) {
	err = r.DB.QueryRow(ctx, "SELECT EXISTS (SELECT FROM network_addresses WHERE is_vip AND address = $1)", address).Scan(&is)
	return is, err
}

// LeaveVIPs deletes the virtual addresses when this machine leaves the cluster, which keeps them: on its own, the machine would bind
// them.
func (r *Room) LeaveVIPs(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, `DELETE FROM network_addresses WHERE is_vip`)
	return err
}

// RenameLinks renames the links in the configuration, as for a machine where they have other names. Two may swap names.
func (r *Room) RenameLinks(ctx context.Context, tx *db.Tx, names map[string]string) error {
	var was, now []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, now = append(was, name), append(now, names[name])
	}
	for _, sql := range []string{
		// Via temporary names, because two rows must never have the same name, not even for a moment.
		`UPDATE network_interfaces i SET name = '/' || m.now FROM unnest($1::text[], $2::text[]) m (was, now) WHERE i.name = m.was`,
		`UPDATE network_interfaces i SET name = m.now FROM unnest($1::text[], $2::text[]) m (was, now) WHERE i.name = '/' || m.now`,
		`UPDATE network_interfaces i SET parent = m.now FROM unnest($1::text[], $2::text[]) m (was, now) WHERE i.parent = m.was`,
		`UPDATE network_interfaces i SET members = (SELECT array_agg(coalesce((SELECT m.now FROM unnest($1::text[], $2::text[]) m (was, now) WHERE m.was = x.member), x.member) ORDER BY x.n)
			FROM unnest(i.members) WITH ORDINALITY x (member, n)) WHERE i.members && $1::text[]`,
		`UPDATE network_routes r SET dev = m.now FROM unnest($1::text[], $2::text[]) m (was, now) WHERE r.dev = m.was`,
	} {
		if _, err := tx.Exec(ctx, sql, was, now); err != nil {
			return err
		}
	}
	return nil
}
