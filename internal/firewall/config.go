package firewall

import (
	"context"
	"net/netip"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/value"
)

// Config is all that the table depends on.
type Config struct {
	// Interfaces are those of each zone.
	Interfaces    map[value.Zone][]value.IfName
	Addresses     []Address
	AddressGroups []AddressGroup
	Services      []Service
	ServiceGroups []ServiceGroup
	Rules         []Rule
	NAT           []NATRule
	// What other rooms ask for.
	Openings []policy.Opening
	Tunnels  []policy.Tunnel
	// Defaults are tunnels that take everything, whatever it came in by.
	Defaults []value.IfName
	// Peers are the addresses of the other nodes of the cluster.
	Peers []netip.Addr
}

func (r *Room) load(ctx context.Context, q db.Querier) (c Config, err error) {
	read := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	read(func() error { c.Interfaces, err = r.deps.Interfaces(ctx, q); return err })
	read(func() error { c.Addresses, err = r.addresses.All(ctx, q); return err })
	read(func() error { c.AddressGroups, err = r.addressGroups.All(ctx, q); return err })
	read(func() error { c.Services, err = r.services.All(ctx, q); return err })
	read(func() error { c.ServiceGroups, err = r.serviceGroups.All(ctx, q); return err })
	read(func() error { c.Rules, err = r.rules.All(ctx, q); return err })
	read(func() error { c.NAT, err = r.nat.All(ctx, q); return err })
	for _, source := range r.deps.Openings {
		read(func() error {
			list, err := source(ctx, q)
			c.Openings = append(c.Openings, policy.Without(list, c.Openings)...)
			return err
		})
	}
	read(func() error { c.Tunnels, err = r.deps.Tunnels(ctx, q); return err })
	read(func() error { c.Defaults, err = r.deps.Defaults(ctx, q); return err })
	read(func() error { c.Peers, err = r.deps.Peers(ctx, q); return err })
	return c, err
}
