package firewall

import (
	"context"
	"net/netip"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Config is everything that the table depends on.
type Config struct {
	// Interfaces lists the interfaces of each zone.
	Interfaces    map[value.Zone][]value.IfName
	Addresses     []Address
	AddressGroups []AddressGroup
	Services      []Service
	ServiceGroups []ServiceGroup
	Rules         []*Rule // never modified: configurations share them
	NAT           []NATRule
	// Openings are what other rooms need: first those of the stored state, then those of daemons that run with another one.
	Openings []policy.Opening
	stored   int // number of the first ones
	Tunnels  []policy.Tunnel
	// Defaults lists tunnels that take all traffic, whichever interface it came in by.
	Defaults []value.IfName
	// Peers lists the addresses of the other nodes of the cluster.
	Peers []netip.Addr
}

func (r *Room) load(ctx context.Context, q db.Querier) (c Config, err error) {
	read := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	read(func() error { c.Addresses, err = r.addresses.All(ctx, q); return err })
	read(func() error { c.AddressGroups, err = r.addressGroups.All(ctx, q); return err })
	read(func() error { c.Services, err = r.services.All(ctx, q); return err })
	read(func() error { c.ServiceGroups, err = r.serviceGroups.All(ctx, q); return err })
	read(func() error {
		rules, err := r.rules.All(ctx, q)
		c.Rules = pointers(rules)
		return err
	})
	read(func() error { c.NAT, err = r.nat.All(ctx, q); return err })
	read(func() error { return r.borrow(ctx, q, &c) })
	return c, err
}

// borrow reads what other rooms provide.
func (r *Room) borrow(ctx context.Context, q db.Querier, c *Config) (err error) {
	read := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	read(func() error { c.Interfaces, err = r.deps.Interfaces(ctx, q); return err })
	c.Openings = nil
	for _, source := range r.deps.Openings {
		read(func() error {
			list, err := source(ctx, q)
			c.Openings = append(c.Openings, policy.Without(list, c.Openings)...)
			return err
		})
	}
	c.stored = len(c.Openings)
	r.stand(c)
	read(func() error { c.Tunnels, err = r.deps.Tunnels(ctx, q); return err })
	read(func() error { c.Defaults, err = r.deps.Defaults(ctx, q); return err })
	read(func() error { c.Peers, err = r.deps.Peers(ctx, q); return err })
	return err
}

// stand adds the openings of daemons that do not run with the stored state.
func (r *Room) stand(c *Config) {
	stored := c.Openings[:c.stored:c.stored]
	c.Openings = append(stored, policy.Without(r.deps.Standing(), stored)...)
}

// amendMost is the maximum number of changed rows for which the configuration is derived from the previous one, because each row copies a
// list.
const amendMost = 10

// amend derives the configuration after a change of rows from the previous one. The order of objects does not matter. What other rooms
// provide from stored rows is unchanged, because a change of theirs has a revision of its own; what daemons run with is not stored.
func (r *Room) amend(_ context.Context, _ db.Querier, c Config, rows []apply.Row) (Config, bool, error) {
	if len(rows) > amendMost {
		return c, false, nil
	}
	for _, row := range rows {
		switch row.Kind {
		case r.rules.Name:
			c.Rules = r.rules.Amended(c.Rules, row)
		case r.nat.Name:
			c.NAT = amended(&r.nat, c.NAT, row)
		case r.addresses.Name:
			c.Addresses = amended(&r.addresses, c.Addresses, row)
		case r.addressGroups.Name:
			c.AddressGroups = amended(&r.addressGroups, c.AddressGroups, row)
		case r.services.Name:
			c.Services = amended(&r.services, c.Services, row)
		case r.serviceGroups.Name:
			c.ServiceGroups = amended(&r.serviceGroups, c.ServiceGroups, row)
		default:
			return c, false, nil
		}
	}
	r.stand(&c)
	return c, true, nil
}

func amended[T any](k *resource.Kind[T], list []T, row apply.Row) []T {
	rows := k.Amended(pointers(list), row)
	list = make([]T, len(rows))
	for i, row := range rows {
		list[i] = *row
	}
	return list
}

func pointers[T any](list []T) []*T {
	refs := make([]*T, len(list))
	for i := range list {
		refs[i] = &list[i]
	}
	return refs
}
