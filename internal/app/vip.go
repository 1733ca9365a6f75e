package app

import (
	"context"
	"errors"
	"net/netip"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/vrrp"
)

// vrrpDeps gives the virtual addresses the nodes of the cluster, this node's interfaces, and the packet filter, which must admit
// the nodes.
func (h *House) vrrpDeps() vrrp.Deps {
	return vrrp.Deps{
		Members: func(ctx context.Context, q db.Querier) (own netip.Addr, others []netip.Addr, err error) {
			members, err := cluster.Members(ctx, q)
			for _, m := range members {
				switch a := m.Addresses(); {
				case m.Expected() || len(a) == 0:
				case m.ID == h.Host.Facts().MachineID:
					own = a[0].Unmap()
				default:
					others = append(others, a[0].Unmap())
				}
			}
			return own, others, err
		},
		Interfaces: func(ctx context.Context, q db.Querier) ([]vrrp.Interface, error) {
			rows, err := h.Network.Interfaces(ctx, q)
			if err != nil {
				return nil, err
			}
			addresses, err := h.Network.AddressesOf(ctx, q)
			list := make([]vrrp.Interface, len(rows))
			for i, row := range rows {
				list[i] = vrrp.Interface{Name: row.Name, Active: row.Active}
				for _, a := range addresses[row.ID] {
					list[i].Addresses = append(list[i].Addresses, vrrp.Address{Prefix: netip.PrefixFrom(a.Address.Netip(), a.Prefix), VIP: a.IsVIP, Priority: a.VIPPriority})
				}
			}
			return list, err
		},
		Open: func(ctx context.Context) error {
			if s := h.Engine.Refresh(ctx, apply.PacketFilter, false); s.State != apply.Live {
				return errors.New(s.LastError)
			}
			return nil
		},
		Moved: h.Engine.Converge,
	}
}

// serves reports whether this node does what only one node of a cluster may do: the one with the virtual addresses or, if none
// can move, the primary.
func (h *House) serves(ctx context.Context, q db.Querier) (bool, error) {
	holds, move, err := h.VRRP.Holds(ctx, q)
	if err != nil || move {
		return holds, err
	}
	s, err := cluster.Load(ctx, q)
	return s.Role == cluster.Single || s.Role == cluster.Primary, err
}

// drain makes another node take over the virtual addresses, if there are any.
func (h *House) drain(ctx context.Context, on bool) error {
	s, err := h.VRRP.Status(ctx, h.DB)
	if err != nil || !s.Clustered || len(s.Addresses) == 0 {
		return err
	}
	return h.VRRP.Drain(ctx, on)
}
