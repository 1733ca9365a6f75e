package ntp

import (
	"context"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Sources returns the gateway's time sources.
func (r *Room) Sources(ctx context.Context, q db.Querier) ([]value.Host, error) {
	rows, err := r.pools.All(ctx, q)
	list := make([]value.Host, len(rows))
	for i, p := range rows {
		list[i] = p.Address
	}
	return list, err
}

// Serve adds to a draft that time is served on addresses of the gateway, to their networks, and, if sources is not nil, comes from these
// sources.
func (r *Room) Serve(ctx context.Context, q db.Querier, d *resource.Bundle, bound []netip.Prefix, sources *[]value.Host) error {
	if sources != nil {
		if err := r.replace(ctx, q, d, *sources); err != nil {
			return err
		}
	}
	if len(bound) == 0 {
		return nil
	}
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return err
	}
	fields := map[string]any{}
	if !s.ServeClients {
		fields["serve_clients"] = true
	}
	if listen := policy.Listening(s.ListenAddresses, bound); !slices.Equal(listen, s.ListenAddresses) {
		fields["listen_addresses"] = listen
	}
	if acl := policy.Admitting(s.AllowACL, bound); !slices.Equal(acl, s.AllowACL) {
		fields["allow_acl"] = acl
	}
	if len(fields) > 0 {
		d.Update(r.settings.Name, s.ID, fields)
	}
	return nil
}

// replace makes these the only sources of the gateway.
func (r *Room) replace(ctx context.Context, q db.Querier, d *resource.Bundle, sources []value.Host) error {
	rows, err := r.pools.All(ctx, q)
	if err != nil {
		return err
	}
	for _, p := range rows {
		if !slices.Contains(sources, p.Address) {
			d.Delete(r.pools.Name, p.ID)
		}
	}
	for _, source := range sources {
		if slices.ContainsFunc(rows, func(p Pool) bool { return p.Address == source }) {
			continue
		}
		kind := "pool"
		if _, err := netip.ParseAddr(source.String()); err == nil {
			kind = "server"
		}
		d.Create(r.pools.Name, map[string]any{"kind": kind, "address": source})
	}
	return nil
}
