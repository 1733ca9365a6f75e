package dhcp

import (
	"context"
	"net/netip"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Network is a network to hand out addresses in.
type Network struct {
	Interface value.IfName
	// Gateway is the gateway's own address there, with the length of the network.
	Gateway              netip.Prefix
	RangeStart, RangeEnd netip.Addr
	// DNS and NTP mean that the gateway offers these services.
	DNS, NTP bool
}

// Serve adds subnets for the networks to a draft, with the gateway as router.
func (r *Room) Serve(ctx context.Context, q db.Querier, d *resource.Bundle, networks []Network) error {
	if len(networks) == 0 {
		return nil
	}
	for _, n := range networks {
		own := n.Gateway.Addr()
		fields := map[string]any{
			"interface": n.Interface, "cidr": n.Gateway.Masked(), "range_start": n.RangeStart, "range_end": n.RangeEnd, "gateway": own,
		}
		if n.DNS {
			fields["dns_servers"] = []netip.Addr{own}
		}
		if n.NTP {
			fields["ntp_servers"] = []netip.Addr{own}
		}
		d.Create(r.subnets.Name, fields)
	}
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return err
	}
	if !s.Enabled {
		d.Update(r.settings.Name, s.ID, map[string]any{"enabled": true})
	}
	return nil
}
