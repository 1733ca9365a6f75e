package network

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
)

// Routes lists the routes of all tables, one for each next hop.
func (s *Network) Routes(ctx context.Context) ([]host.Route, error) {
	links, err := Dump(ctx, netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	tables, protocols := numbered(s.RouteTables()), numbered(protocolNames())
	var routes []host.Route
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		found, err := Dump(ctx, func() ([]netlink.Route, error) {
			// Without this filter the library lists the main table alone.
			return netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, fmt.Errorf("listing routes: %w", err)
		}
		for _, r := range found {
			route := newRoute(r, family)
			route.TableName, route.ProtocolName = tables[route.Table], protocols[uint32(route.Protocol)]
			hops := r.MultiPath
			if len(hops) == 0 {
				hops = []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw}}
			}
			for _, hop := range hops {
				route.Dev, route.Gateway = names[hop.LinkIndex], AddrOf(hop.Gw)
				routes = append(routes, route)
			}
		}
	}
	return routes, nil
}

// AddrOf converts an address; it unmaps IPv4-mapped IPv6.
func AddrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

func newRoute(r netlink.Route, family int) host.Route {
	route := host.Route{
		Metric: uint32(r.Priority), Table: uint32(r.Table), Protocol: uint8(r.Protocol),
		Scope: scopeName(int(r.Scope)), Type: typeNames[r.Type], PrefSrc: AddrOf(r.Src),
		Destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0),
	}
	if family == netlink.FAMILY_V6 {
		route.Destination = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	if r.Dst != nil {
		bits, _ := r.Dst.Mask.Size()
		// A route to IPv4-mapped addresses is still an IPv6 route.
		ip, _ := netip.AddrFromSlice(r.Dst.IP)
		if family == netlink.FAMILY_V4 {
			ip = ip.Unmap()
		}
		route.Destination = netip.PrefixFrom(ip, bits)
	}
	return route
}

var typeNames = map[int]string{
	unix.RTN_UNICAST: "unicast", unix.RTN_LOCAL: "local", unix.RTN_BROADCAST: "broadcast", unix.RTN_ANYCAST: "anycast",
	unix.RTN_MULTICAST: "multicast", unix.RTN_BLACKHOLE: "blackhole", unix.RTN_UNREACHABLE: "unreachable",
	unix.RTN_PROHIBIT: "prohibit", unix.RTN_THROW: "throw", unix.RTN_NAT: "nat",
}

func (s *Network) AddRoute(ctx context.Context, r host.NewRoute) error {
	return s.route(ctx, r, netlink.RouteAdd)
}

// ReplaceRoute adds a route, or replaces the one with the same destination and metric.
func (s *Network) ReplaceRoute(ctx context.Context, r host.NewRoute) error {
	return s.route(ctx, r, netlink.RouteReplace)
}

// RemoveRoute removes a route of the gateway. The kernel also compares the protocol, so routes of other programs stay.
func (s *Network) RemoveRoute(ctx context.Context, r host.NewRoute) error {
	err := s.route(ctx, r, netlink.RouteDel)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

func (s *Network) route(ctx context.Context, r host.NewRoute, do func(*netlink.Route) error) error {
	if err := s.home.Network(ctx); err != nil {
		return err
	}
	dst := r.Destination.Masked()
	route := &netlink.Route{
		Dst:      &net.IPNet{IP: dst.Addr().AsSlice(), Mask: net.CIDRMask(dst.Bits(), dst.Addr().BitLen())},
		Protocol: netlink.RouteProtocol(host.Owner(r.Protocol)), Priority: int(r.Metric), Table: int(r.Table), Type: unix.RTN_UNICAST,
	}
	if r.Gateway.IsValid() {
		route.Gw = r.Gateway.AsSlice()
	} else if dst.Addr().Is4() {
		route.Scope = netlink.SCOPE_LINK
	}
	if r.Dev != "" {
		link, err := LinkByName(r.Dev)
		if err != nil {
			return err
		}
		route.LinkIndex = link.Attrs().Index
	}
	return do(route)
}

func (s *Network) RouteTo(ctx context.Context, dst, src netip.Addr, in string) (host.Way, error) {
	if err := ctx.Err(); err != nil {
		return host.Way{}, err
	}
	options := &netlink.RouteGetOptions{Iif: in}
	if src.IsValid() {
		options.SrcAddr = src.AsSlice()
	}
	found, err := netlink.RouteGetWithOptions(dst.AsSlice(), options)
	if _, unknown := errors.AsType[netlink.LinkNotFoundError](err); unknown {
		return host.Way{Unreachable: fmt.Sprintf("there is no interface %s", in)}, nil
	}
	if reason := unreachable[errno(err)]; reason != "" {
		return host.Way{Unreachable: reason}, nil
	}
	if err != nil {
		return host.Way{}, fmt.Errorf("asking for the route to %s: %w", dst, err)
	}
	if len(found) == 0 {
		return host.Way{Unreachable: unreachable[unix.ENETUNREACH]}, nil
	}
	switch found[0].Type {
	case unix.RTN_LOCAL, unix.RTN_BROADCAST, unix.RTN_ANYCAST:
		return host.Way{Local: true}, nil
	case unix.RTN_UNREACHABLE:
		return host.Way{Unreachable: unreachable[unix.EHOSTUNREACH]}, nil
	case unix.RTN_BLACKHOLE:
		return host.Way{Unreachable: unreachable[unix.EINVAL]}, nil
	case unix.RTN_PROHIBIT:
		return host.Way{Unreachable: unreachable[unix.EACCES]}, nil
	}
	link, err := netlink.LinkByIndex(found[0].LinkIndex)
	if err != nil {
		return host.Way{}, fmt.Errorf("asking for the interface to %s: %w", dst, err)
	}
	via, _ := netip.AddrFromSlice(found[0].Gw)
	return host.Way{Interface: link.Attrs().Name, Via: via.Unmap(), Source: sourceTo(dst, link.Attrs().Name)}, nil
}

// sourceTo returns the source address of the machine's own packets that leave through the interface.
func sourceTo(dst netip.Addr, link string) netip.Addr {
	found, err := netlink.RouteGetWithOptions(dst.AsSlice(), &netlink.RouteGetOptions{Oif: link})
	if err != nil || len(found) == 0 {
		return netip.Addr{}
	}
	src, _ := netip.AddrFromSlice(found[0].Src)
	return src.Unmap()
}

func errno(err error) unix.Errno {
	n, _ := errors.AsType[unix.Errno](err)
	return n
}

// unreachable explains the errors that the kernel returns instead of a route.
var unreachable = map[unix.Errno]string{
	unix.ENETUNREACH:  "there is no route to it",
	unix.EHOSTUNREACH: "there is no route to it, or the gateway does not forward packets from that interface",
	unix.EACCES:       "a route forbids it",
	unix.EINVAL:       "the addresses do not fit the interface, or a route drops it",
	unix.EXDEV:        "the sender's address does not belong to that interface (reverse path filter)",
}

func (s *Network) RouteTables() map[string]uint32 {
	return names("rt_tables", map[string]uint32{"main": unix.RT_TABLE_MAIN, "local": unix.RT_TABLE_LOCAL, "default": unix.RT_TABLE_DEFAULT})
}

// protocolNames are the routing protocols, including the gateway's own.
func protocolNames() map[string]uint32 {
	return names("rt_protos", map[string]uint32{
		"unspec": 0, "redirect": 1, "kernel": 2, "boot": 3, "static": 4, "ra": 9, "dhcp": 16,
		"gateway": host.RouteProtocol, "gateway-tunnel": host.TunnelProtocol,
	})
}

// names adds iproute2's lists of names to the known ones: the distribution's, then the administrator's, which override them.
func names(list string, known map[string]uint32) map[string]uint32 {
	all := maps.Clone(known)
	for _, dir := range []string{"/usr/lib/iproute2", "/usr/share/iproute2", "/etc/iproute2"} {
		files, _ := filepath.Glob(filepath.Join(dir, list+".d", "*.conf"))
		for _, file := range append([]string{filepath.Join(dir, list)}, files...) {
			readNames(file, all)
		}
	}
	return all
}

// readNames reads lines of a number and a name. It skips malformed lines, as iproute2 does.
func readNames(file string, into map[string]uint32) {
	f, err := os.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		if n, err := strconv.ParseUint(words[0], 0, 32); err == nil {
			into[words[1]] = uint32(n)
		}
	}
}

func numbered(names map[string]uint32) map[uint32]string {
	byNumber := make(map[uint32]string, len(names))
	for name, n := range names {
		if had, ok := byNumber[n]; !ok || name < had {
			byNumber[n] = name
		}
	}
	return byNumber
}
