package app

import (
	"context"
	"net/netip"

	"edge.internal/gateway/internal/clients"
	"edge.internal/gateway/internal/kit/value"
)

// clientDeps gives the clients what other rooms know about devices.
func (h *House) clientDeps() clients.Deps {
	return clients.Deps{
		Zones: func(ctx context.Context) (map[value.Zone][]value.IfName, error) {
			return h.Network.ZoneInterfaces(ctx, h.DB)
		},
		Leases: func(ctx context.Context) ([]clients.Lease, error) {
			rows, err := h.DHCP.Holders(ctx)
			var list []clients.Lease
			for _, x := range rows {
				ip, bad := netip.ParseAddr(x.IP)
				if bad == nil {
					list = append(list, clients.Lease{
						MAC: x.MAC, Hostname: x.Hostname, Address: ip, SubnetID: x.SubnetID, Renewed: x.StartsAt, Ends: x.ExpiresAt, Active: x.State == "active",
					})
				}
			}
			return list, err
		},
		Subnets: func(ctx context.Context) ([]clients.Subnet, error) {
			rows, err := h.DHCP.Subnets(ctx, h.DB)
			list := make([]clients.Subnet, len(rows))
			for i, x := range rows {
				list[i] = clients.Subnet{ID: x.ID, Network: x.CIDR.Netip(), Interface: x.Interface.String()}
			}
			return list, err
		},
		Reservations: func(ctx context.Context) ([]clients.Reservation, error) {
			rows, err := h.DHCP.Reservations(ctx, h.DB)
			list := make([]clients.Reservation, len(rows))
			for i, x := range rows {
				list[i] = clients.Reservation{ID: x.ID, MAC: x.MAC.String(), Hostname: x.Hostname.String()}
			}
			return list, err
		},
		Peers: func(ctx context.Context) ([]clients.Peer, error) {
			rows, err := h.Tunnel.Callers(ctx)
			list := make([]clients.Peer, len(rows))
			for i, x := range rows {
				list[i] = clients.Peer{ID: x.ID, TunnelID: x.InterfaceID, Name: x.Name.String(), Interface: x.Link.String(), Heard: x.LastHandshake, Rx: uint64(x.Rx), Tx: uint64(x.Tx)}
				for _, n := range x.AllowedIPs.List() {
					list[i].Networks = append(list[i].Networks, n.Netip())
				}
			}
			return list, err
		},
		Logins: func(ctx context.Context) ([]clients.Login, error) {
			rows, err := h.RADIUS.Admitted(ctx)
			list := make([]clients.Login, len(rows))
			for i, x := range rows {
				list[i] = clients.Login{At: x.At, User: x.User, Station: x.Station}
			}
			return list, err
		},
		Blocks: func(ctx context.Context) (map[netip.Addr][]clients.Block, error) {
			rows, err := h.Firewall.Blocks(ctx, h.DB)
			list := make(map[netip.Addr][]clients.Block, len(rows))
			for address, blocks := range rows {
				for _, x := range blocks {
					list[address] = append(list[address], clients.Block{RuleID: x.Rule, RuleName: x.RuleName, ObjectID: x.Object, GroupID: x.Group, Zone: x.Zone.String()})
				}
			}
			return list, err
		},
	}
}
