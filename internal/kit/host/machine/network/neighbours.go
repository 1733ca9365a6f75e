package network

import (
	"context"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
)

// tick is the unit of the kernel's ages: USER_HZ is 100 on all of Debian's architectures.
const tick = time.Second / 100

// knownStates are the states of neighbours that exist, or did.
const knownStates = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT

// Neighbours lists the machines that the kernel knows on its networks.
func (s *Network) Neighbours(ctx context.Context) ([]host.Neighbour, error) {
	links, err := Dump(ctx, netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	found, err := Dump(ctx, func() ([]netlink.Neigh, error) { return netlink.NeighList(0, unix.AF_UNSPEC) })
	if err != nil {
		return nil, fmt.Errorf("listing neighbours: %w", err)
	}
	var list []host.Neighbour
	for _, n := range found {
		address := AddrOf(n.IP)
		// Entries that a bridge has learned have no address, and multicast groups are not machines.
		if !address.IsValid() || address.IsMulticast() || n.State&knownStates == 0 || len(n.HardwareAddr) != 6 {
			continue
		}
		list = append(list, host.Neighbour{
			Address: address, MAC: n.HardwareAddr.String(), Link: names[n.LinkIndex], Confirmed: time.Duration(n.Confirmed) * tick,
		})
	}
	return list, nil
}
