package host

import (
	"context"
	"fmt"
	"sort"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Links lists the network interfaces of the kernel, by index.
func (s *System) Links(ctx context.Context) ([]Link, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	byLink := map[int][]LinkAddr{}
	for _, a := range addrs {
		byLink[a.LinkIndex] = append(byLink[a.LinkIndex], linkAddr(a))
	}
	links := make([]Link, 0, len(found))
	for _, l := range found {
		link := newLink(l.Attrs())
		link.Addrs = byLink[link.Index]
		links = append(links, link)
	}
	sort.Slice(links, func(i, j int) bool { return links[i].Index < links[j].Index })
	return links, nil
}

func newLink(a *netlink.LinkAttrs) Link {
	link := Link{
		Index: a.Index, Name: a.Name, MTU: a.MTU, Type: a.EncapType,
		Flags:   flagNames(a.RawFlags),
		Address: a.HardwareAddr.String(),
	}
	if link.Address == "" && a.EncapType == "loopback" { // netlink leaves the zero address out
		link.Address = "00:00:00:00:00:00"
	}
	if n := a.Statistics; n != nil {
		link.RxBytes, link.TxBytes = n.RxBytes, n.TxBytes
		link.RxPackets, link.TxPackets = n.RxPackets, n.TxPackets
		link.RxDrop, link.TxDrop = n.RxDropped, n.TxDropped
	}
	return link
}

func linkAddr(a netlink.Addr) LinkAddr {
	family := "inet6"
	if a.IP.To4() != nil {
		family = "inet"
	}
	length, _ := a.Mask.Size()
	return LinkAddr{Family: family, Local: a.IP.String(), PrefixLen: length, Scope: scopeName(a.Scope)}
}

func scopeName(scope int) string {
	switch netlink.Scope(scope) {
	case netlink.SCOPE_UNIVERSE:
		return "global"
	case netlink.SCOPE_SITE:
		return "site"
	case netlink.SCOPE_LINK:
		return "link"
	case netlink.SCOPE_HOST:
		return "host"
	}
	return "nowhere"
}

// linkFlags names the flags as iproute2 does, in its order.
var linkFlags = []struct {
	bit  uint32
	name string
}{
	{unix.IFF_LOOPBACK, "LOOPBACK"},
	{unix.IFF_BROADCAST, "BROADCAST"},
	{unix.IFF_POINTOPOINT, "POINTOPOINT"},
	{unix.IFF_MULTICAST, "MULTICAST"},
	{unix.IFF_NOARP, "NOARP"},
	{unix.IFF_ALLMULTI, "ALLMULTI"},
	{unix.IFF_PROMISC, "PROMISC"},
	{unix.IFF_MASTER, "MASTER"},
	{unix.IFF_SLAVE, "SLAVE"},
	{unix.IFF_DEBUG, "DEBUG"},
	{unix.IFF_DYNAMIC, "DYNAMIC"},
	{unix.IFF_AUTOMEDIA, "AUTOMEDIA"},
	{unix.IFF_PORTSEL, "PORTSEL"},
	{unix.IFF_NOTRAILERS, "NOTRAILERS"},
	{unix.IFF_UP, "UP"},
	{unix.IFF_LOWER_UP, "LOWER_UP"},
	{unix.IFF_DORMANT, "DORMANT"},
	{unix.IFF_ECHO, "ECHO"},
}

func flagNames(raw uint32) []string {
	names := []string{}
	if raw&unix.IFF_UP != 0 && raw&unix.IFF_RUNNING == 0 {
		names = append(names, "NO-CARRIER")
	}
	for _, f := range linkFlags {
		if raw&f.bit != 0 {
			names = append(names, f.name)
		}
	}
	return names
}
