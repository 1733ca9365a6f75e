// Package network reads and changes the kernel's interfaces, addresses, routes and routing rules, and finds the processes that use a
// port.
package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sort"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

type Network struct{ home home.Home }

func New(h home.Home) *Network { return &Network{h} }

// Links lists the kernel's network interfaces in the order of their indexes.
func (s *Network) Links(ctx context.Context) ([]host.Link, error) {
	found, err := Dump(ctx, netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	addrs, err := Dump(ctx, addresses)
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	names := map[int]string{}
	for _, l := range found {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	links := make([]host.Link, 0, len(found))
	for _, l := range found {
		link := newLink(l, names)
		link.Addrs = addrs[link.Index]
		links = append(links, link)
	}
	sort.Slice(links, func(i, j int) bool { return links[i].Index < links[j].Index })
	return links, nil
}

// Dump reads a list from the kernel, again if it changed in between.
func Dump[T any](ctx context.Context, ask func() (T, error)) (list T, err error) {
	for range 10 {
		if err := ctx.Err(); err != nil {
			return list, err
		}
		if list, err = ask(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}

func newLink(l netlink.Link, names map[int]string) host.Link {
	a := l.Attrs()
	link := host.Link{
		Index: a.Index, Name: a.Name, MTU: a.MTU, Type: a.EncapType,
		Flags:   flagNames(a.RawFlags),
		Address: a.HardwareAddr.String(),
		Kind:    l.Type(), Alias: a.Alias, Master: names[a.MasterIndex], AcceptRA: acceptRA(a.Name),
	}
	switch l := l.(type) {
	case *netlink.Vlan:
		link.Parent, link.VLANID = names[a.ParentIndex], l.VlanId
	case *netlink.Bond:
		link.BondMode = l.Mode.String()
	}
	if link.Address == "" && a.EncapType == "loopback" { // netlink omits an address of zeros
		link.Address = "00:00:00:00:00:00"
	}
	if n := a.Statistics; n != nil {
		link.RxBytes, link.TxBytes = n.RxBytes, n.TxBytes
		link.RxPackets, link.TxPackets = n.RxPackets, n.TxPackets
		link.RxDrop, link.TxDrop = n.RxDropped, n.TxDropped
	}
	return link
}

// addresses lists the addresses of all interfaces, by index. It does so itself because the library does not read an address's protocol.
func addresses() (map[int][]host.LinkAddr, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
	req.AddData(nl.NewIfAddrmsg(unix.AF_UNSPEC))
	messages, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
	if err != nil {
		return nil, err
	}
	byLink := map[int][]host.LinkAddr{}
	for _, m := range messages {
		header := nl.DeserializeIfAddrmsg(m)
		attrs, err := nl.ParseRouteAttr(m[header.Len():])
		if err != nil {
			return nil, err
		}
		if a, ok := linkAddr(header, attrs); ok {
			byLink[int(header.Index)] = append(byLink[int(header.Index)], a)
		}
	}
	return byLink, nil
}

func linkAddr(header *nl.IfAddrmsg, attrs []syscall.NetlinkRouteAttr) (host.LinkAddr, bool) {
	a := host.LinkAddr{PrefixLen: int(header.Prefixlen), Scope: scopeName(int(header.Scope))}
	flags := uint32(header.Flags)
	var address, local netip.Addr
	for _, attr := range attrs {
		switch attr.Attr.Type {
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(attr.Value)
		case unix.IFA_LOCAL: // on point-to-point links IFA_ADDRESS is the peer
			local, _ = netip.AddrFromSlice(attr.Value)
		case unix.IFA_FLAGS:
			flags = binary.NativeEndian.Uint32(attr.Value)
		case ifaProto:
			a.Protocol = attr.Value[0]
		}
	}
	if !local.IsValid() {
		local = address
	}
	a.Family, a.Local = "inet6", local.String()
	if local.Is4() {
		a.Family = "inet"
	}
	a.Dynamic = flags&unix.IFA_F_PERMANENT == 0
	a.Duplicate = flags&unix.IFA_F_DADFAILED != 0
	return a, local.IsValid()
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

// linkFlags are the flags in iproute2's order and with its names.
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
