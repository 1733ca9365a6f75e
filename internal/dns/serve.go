package dns

import (
	"context"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
)

// Forwards returns the resolvers that it asks.
func (r *Room) Forwards(ctx context.Context, q db.Querier) ([]string, error) {
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return nil, err
	}
	list := make([]string, len(s.UpstreamForwards))
	for i, f := range s.UpstreamForwards {
		list[i] = f.String()
	}
	return list, nil
}

// Serve adds to a draft that the resolver answers on addresses of the gateway, for their networks, and, if forwards is not nil, asks
// these resolvers.
func (r *Room) Serve(ctx context.Context, q db.Querier, d *resource.Bundle, bound []netip.Prefix, forwards *[]string) error {
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return err
	}
	fields := map[string]any{}
	if listen := policy.Listening(s.ListenAddresses, bound); !slices.Equal(listen, s.ListenAddresses) {
		fields["listen_addresses"] = listen
	}
	if acl := policy.Admitting(s.AccessACL, bound); !slices.Equal(acl, s.AccessACL) {
		fields["access_acl"] = acl
	}
	if forwards != nil && !slices.EqualFunc(*forwards, s.UpstreamForwards, func(text string, f Forward) bool { return text == f.String() }) {
		fields["upstream_forwards"] = *forwards
	}
	if len(fields) > 0 {
		d.Update(r.settings.Name, s.ID, fields)
	}
	return nil
}
