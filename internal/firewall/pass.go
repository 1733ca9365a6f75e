package firewall

import (
	"context"
	"slices"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

func (r *Room) Zones(ctx context.Context, q db.Querier) ([]value.Zone, error) {
	rows, err := r.zones.All(ctx, q)
	names := make([]value.Zone, len(rows))
	for i, z := range rows {
		names[i] = z.Name
	}
	return names, err
}

func (r *Room) AddZone(d *resource.Bundle, zone value.Zone) {
	d.Create(r.zones.Name, map[string]any{"name": zone})
}

// Pass adds a rule to a draft that lets one zone reach another, unless there is one.
func (r *Room) Pass(ctx context.Context, q db.Querier, d *resource.Bundle, from, to value.Zone) error {
	rules, err := r.rules.All(ctx, q)
	if err != nil {
		return err
	}
	passes := func(x Rule) bool {
		return x.Enabled && x.Action == "accept" && x.SrcZone == from && x.DstZone == to && x.SrcKind == "any" && x.DstKind == "any" && x.ServiceObjectID == nil && x.ServiceGroupID == nil
	}
	if !slices.ContainsFunc(rules, passes) {
		d.Create(r.rules.Name, map[string]any{"name": from.String() + " to " + to.String(), "src_zone": from, "dst_zone": to, "action": "accept"})
	}
	return nil
}

// Masquerade adds a masquerade rule for traffic to a zone to a draft, unless there is one.
func (r *Room) Masquerade(ctx context.Context, q db.Querier, d *resource.Bundle, to value.Zone) error {
	rules, err := r.nat.All(ctx, q)
	if err != nil {
		return err
	}
	masquerades := func(x NATRule) bool {
		return x.Enabled && x.Kind == natMasquerade && x.OutZone == to && x.InZone.String() == zoneAny && x.Protocol == "any" && x.SrcCIDR.IsZero() && x.DstCIDR.IsZero()
	}
	if !slices.ContainsFunc(rules, masquerades) {
		d.Create(r.nat.Name, map[string]any{"name": "masquerade to " + to.String(), "kind": natMasquerade, "in_zone": zoneAny, "out_zone": to, "protocol": "any"})
	}
	return nil
}
