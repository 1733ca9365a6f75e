package dhcp

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Subnet is a network whose machines get their addresses here.
type Subnet struct {
	resource.Meta
	Interface    value.IfName `json:"interface" required:"true" doc:"Interface of the gateway on this network. It can serve one subnet that is on, and must not belong to the zone wan."`
	CIDR         value.Prefix `json:"cidr" required:"true" doc:"The IPv4 network, from /8 to /30. Subnets do not overlap."`
	RangeStart   value.Addr   `json:"range_start" required:"true" doc:"First address to hand out."`
	RangeEnd     value.Addr   `json:"range_end" required:"true" doc:"Last address to hand out."`
	Gateway      value.Addr   `json:"gateway" doc:"Default gateway for clients, outside the range; empty to send none."`
	DNSServers   []value.Addr `json:"dns_servers" doc:"DNS servers for clients."`
	NTPServers   []value.Addr `json:"ntp_servers" doc:"NTP servers for clients."`
	DomainName   Name         `json:"domain_name" doc:"Domain of the clients."`
	LeaseSeconds *int         `json:"lease_seconds" minimum:"60" maximum:"31536000" doc:"Lease time in seconds; null for the default."`
	Active       bool         `json:"active" doc:"When off, the subnet is kept but no addresses are handed out."`
}

func (s *Subnet) Label() string { return s.CIDR.String() }

const (
	// The lengths of a subnet's prefix: with less than two bits for machines there is nobody to serve.
	shortest, longest = 8, 30
	// serversMost is how many servers fit into one DHCP option.
	serversMost = 63
)

func (s *Subnet) Validate() error {
	var c check.List
	network := s.CIDR.Netip()
	c.That(s.Interface.String() != "lo", "interface", "must not be lo, the loopback interface")
	c.That(!network.IsValid() || network.Addr().Is4(), "cidr", "must be an IPv4 network, because the server supports DHCP for IPv4 only")
	for field, servers := range map[string][]value.Addr{"dns_servers": s.DNSServers, "ntp_servers": s.NTPServers} {
		c.That(len(servers) <= serversMost, field, "must have at most %d items", serversMost)
		for i, server := range servers {
			ip := server.Netip()
			c.That(ip.Is4() && !ip.IsUnspecified() && !ip.IsMulticast(), field, "must contain IPv4 addresses that clients can use, which %s is not", server)
			c.That(!slices.Contains(servers[:i], server), field, "contains %s twice", server)
		}
	}
	if !network.IsValid() || c.Has("cidr") {
		return c.Err()
	}
	c.That(network.Bits() >= shortest && network.Bits() <= longest, "cidr", "must have a prefix from /%d to /%d", shortest, longest)
	first := network.Addr()
	c.That(first.As4()[0] != 0 && first.As4()[0] < 224 && !first.IsLoopback(), "cidr", "must be a network with usable addresses")
	if c.Has("cidr") {
		return c.Err()
	}
	for field, a := range map[string]value.Addr{"range_start": s.RangeStart, "range_end": s.RangeEnd, "gateway": s.Gateway} {
		if !a.IsZero() {
			s.complain(&c, field, a.Netip())
		}
	}
	if start, end := s.RangeStart.Netip(), s.RangeEnd.Netip(); !c.Has("range_start") && !c.Has("range_end") && start.IsValid() && end.IsValid() {
		c.That(!end.Less(start), "range_end", "must not be before range_start")
		c.That(!s.hands(s.Gateway.Netip()), "gateway", "must be outside the range, so that it is not handed out")
	}
	return c.Err()
}

// complain reports an address that no machine of the subnet can have.
func (s *Subnet) complain(c *check.List, field string, ip netip.Addr) {
	network := s.CIDR.Netip()
	c.That(network.Contains(ip), field, "must be in %s", network)
	c.That(ip != network.Addr(), field, "must not be the network address of %s", network)
	c.That(ip != value.Last(network), field, "must not be the broadcast address of %s", network)
}

// hands reports whether an address is in the range.
func (s *Subnet) hands(ip netip.Addr) bool {
	return ip.IsValid() && !ip.Less(s.RangeStart.Netip()) && !s.RangeEnd.Netip().Less(ip)
}

func (r *Room) subnetKind() resource.Kind[Subnet] {
	return resource.Kind[Subnet]{
		Name: "dhcp.subnet", Title: "DHCP subnet", Path: "/dhcp/subnets", Table: "dhcp_subnets", Order: "cidr::inet", Feeds: feeds[:1],
		New:   func() Subnet { return Subnet{Active: true} },
		Check: r.checkSubnet,
	}
}

// checkSubnet checks a subnet against the others, the interfaces, and its reservations. Deleting a subnet deletes its reservations.
func (r *Room) checkSubnet(ctx context.Context, tx *db.Tx, was, now *Subnet) error {
	if now == nil {
		return nil
	}
	var c check.List
	others, err := r.subnets.All(ctx, tx)
	if err != nil {
		return err
	}
	for _, o := range others {
		if was != nil && o.ID == was.ID {
			continue
		}
		c.That(!o.CIDR.Netip().Overlaps(now.CIDR.Netip()), "cidr", "overlaps with the subnet %s", o.CIDR)
		c.That(!o.Active || !now.Active || o.Interface != now.Interface, "interface", "already serves the subnet %s. An interface can have one subnet that is on", o.CIDR)
	}
	settings, err := r.settings.Load(ctx, tx)
	if err != nil {
		return err
	}
	c.That(now.LeaseSeconds == nil || *now.LeaseSeconds <= settings.MaxLeaseSeconds, "lease_seconds", "must not be greater than the maximum lease time in the settings, %d seconds", settings.MaxLeaseSeconds)
	if err := r.checkInterface(ctx, tx, &c, was, now); err != nil {
		return err
	}
	if was != nil && (was.CIDR != now.CIDR || was.Gateway != now.Gateway) {
		if err := r.checkReserved(ctx, tx, &c, now); err != nil {
			return err
		}
	}
	return c.Err()
}

// checkInterface checks whether the subnet's interface can serve it. A problem that existed before does not block another change.
func (r *Room) checkInterface(ctx context.Context, tx *db.Tx, c *check.List, was, now *Subnet) error {
	interfaces, err := r.deps.Interfaces(ctx, tx)
	if err != nil {
		return err
	}
	links, err := r.Host.Links(ctx)
	if err != nil {
		return err
	}
	if was == nil || was.Interface != now.Interface || !was.Active && now.Active {
		declared := slices.IndexFunc(interfaces, func(i Interface) bool { return i.Name == now.Interface })
		link := slices.IndexFunc(links, func(l host.Link) bool { return l.Name == now.Interface.String() })
		c.That(declared >= 0 || link >= 0, "interface", "Interface %s does not exist.", now.Interface)
		c.That(link < 0 || links[link].Type == ethernet, "interface", "Interface %s has no DHCP, because it is not an Ethernet interface.", now.Interface)
		c.That(declared < 0 || interfaces[declared].Zone != wan, "interface", "Interface %s belongs to the zone wan, where addresses are never handed out.", now.Interface)
	}
	if was == nil || was.RangeStart != now.RangeStart || was.RangeEnd != now.RangeEnd {
		for _, ip := range ownAddresses(links) {
			c.That(!now.hands(ip), "range_start", "must not be %s, the gateway's own address", ip)
		}
	}
	return nil
}

// ethernet is the kernel's name for links that DHCP works on.
const ethernet = "ether"

// ownAddresses returns the gateway's addresses.
func ownAddresses(links []host.Link) (own []netip.Addr) {
	for _, l := range links {
		for _, a := range l.Addrs {
			own = append(own, a.Prefix().Addr())
		}
	}
	return own
}

// checkReserved checks whether the reservations of a subnet still fit.
func (r *Room) checkReserved(ctx context.Context, tx *db.Tx, c *check.List, s *Subnet) error {
	list, err := r.reservations.Where(ctx, tx, "subnet_id = $1", s.ID)
	if err != nil {
		return err
	}
	var outside []string
	for _, x := range list {
		var fits check.List
		s.complain(&fits, "ip", x.IP.Netip())
		if fits.Err() != nil {
			outside = append(outside, x.IP.String())
		}
		c.That(x.IP != s.Gateway, "gateway", "is reserved for %s", x.MAC)
	}
	if len(outside) > 3 {
		outside = append(outside[:3], fmt.Sprintf("and %d more", len(outside)-3))
	}
	c.That(len(outside) == 0, "cidr", "does not include the reservations %s. Change or delete them first", strings.Join(outside, ", "))
	return nil
}

// size returns the number of addresses in the range.
func (s *Subnet) size() int64 {
	first, last := s.RangeStart.Netip().As4(), s.RangeEnd.Netip().As4()
	return int64(binary.BigEndian.Uint32(last[:])) - int64(binary.BigEndian.Uint32(first[:])) + 1
}
