package host

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// RouteProtocol marks the gateway's routes and addresses in the kernel, so that we can tell them from others without a list.
const RouteProtocol = 250

// OwnAlias is the prefix of the alias of every link that the gateway made; the interface's id follows.
const OwnAlias = "gateway:"

// Network reads and changes links, addresses and routes in the kernel. On a machine whose network is not the gateway's, verbs that
// change something return ErrNotInstalled.
type Network interface {
	// Links returns the network interfaces with their addresses and counters.
	Links(ctx context.Context) ([]Link, error)
	// LinkKinds returns which of vlan, bridge, bond and wireguard the kernel supports. It creates no link to find out.
	LinkKinds(ctx context.Context) ([]string, error)
	// CreateLink creates a vlan, bridge or bond, which is down at first.
	CreateLink(ctx context.Context, l NewLink) error
	// ChangeLink changes only the fields that are set. A bond accepts only members that are down, so a link that joins one is taken
	// down first.
	ChangeLink(ctx context.Context, name string, c LinkChange) error
	// RemoveLink removes a link with the gateway's alias, if it exists.
	RemoveLink(ctx context.Context, name string) error
	// SetAddress adds an address marked with its owner's protocol, or marks an address that the link already has.
	SetAddress(ctx context.Context, link string, a NewAddr) error
	// RemoveAddress removes an address, if the link has it.
	RemoveAddress(ctx context.Context, link string, a netip.Prefix) error
	// Routes returns the routes of all tables, one for each next hop.
	Routes(ctx context.Context) ([]Route, error)
	// Neighbours returns the ARP and NDP entries of all links, except those that do not answer.
	Neighbours(ctx context.Context) ([]Neighbour, error)
	// AddRoute fails if the table already has a route to the destination with this metric.
	AddRoute(ctx context.Context, r NewRoute) error
	// ReplaceRoute replaces the route to the destination with this metric.
	ReplaceRoute(ctx context.Context, r NewRoute) error
	// RemoveRoute removes a route of the gateway, if it exists.
	RemoveRoute(ctx context.Context, r NewRoute) error
	// RouteTables returns the numbers of the routing tables by name.
	RouteTables() map[string]uint32
	// RouteTo asks the kernel where it would send a packet that arrives on an interface; without one, a packet of the machine
	// itself.
	RouteTo(ctx context.Context, dst, src netip.Addr, in string) (Way, error)
	// Forwarding returns the kernel's forwarding settings.
	Forwarding(ctx context.Context) (Forwarding, error)
	// Forward turns forwarding on or off. Either way it also makes the kernel keep a network's other addresses when its first one
	// is removed.
	Forward(ctx context.Context, on bool) error
	// AcceptRouters lets a link learn its default route from router advertisements although the machine forwards.
	AcceptRouters(ctx context.Context, link string) error
}

var networkVerbs = daemon.Verbs{
	"Links": daemon.Local, "Routes": daemon.Local, "RouteTables": daemon.Local, "RouteTo": daemon.Local,
	"Neighbours": daemon.Local, "Forwarding": daemon.Local, "LinkKinds": daemon.Repeatable,
	"CreateLink": daemon.Served, "ChangeLink": daemon.Served, "RemoveLink": daemon.Served, "SetAddress": daemon.Served,
	"RemoveAddress": daemon.Served, "AddRoute": daemon.Served, "ReplaceRoute": daemon.Served, "RemoveRoute": daemon.Served,
	"Forward": daemon.Served, "AcceptRouters": daemon.Served,
}

type Link struct {
	Index                int
	Name                 string
	Flags                []string
	MTU                  int
	Type                 string // loopback, ether, …
	Address              string // MAC address
	Addrs                []LinkAddr
	RxBytes, TxBytes     uint64
	RxPackets, TxPackets uint64
	RxDrop, TxDrop       uint64

	Kind     string // device, veth, vlan, bridge, bond, wireguard, …
	Alias    string
	Master   string // the bridge or bond that it is a member of
	Parent   string // of a vlan
	VLANID   int    // of a vlan
	BondMode string // of a bond
	// AcceptRA is the kernel's accept_ra: 0 never, 1 unless the machine forwards, 2 always; -1 without IPv6.
	AcceptRA int
}

// Up reports whether the link is administratively up.
func (l Link) Up() bool { return slices.Contains(l.Flags, "UP") }

func (l Link) Carrier() bool { return slices.Contains(l.Flags, "LOWER_UP") }

// LinkAddr is an address of a link, as ip prints it.
type LinkAddr struct {
	Family    string // inet, inet6
	Local     string
	PrefixLen int
	Scope     string // global, link, host
	Protocol  uint8  // owner's mark; 0 for none
	Dynamic   bool   // it expires unless renewed, such as a DHCP lease
	Duplicate bool   // duplicate address detection found it on another machine
}

// Prefix returns the address with its prefix length; invalid if Local is no address.
func (a LinkAddr) Prefix() netip.Prefix {
	ip, err := netip.ParseAddr(a.Local)
	if err != nil {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(ip, a.PrefixLen)
}

// Neighbour is an address on a link, and the MAC address that answers for it.
type Neighbour struct {
	Address netip.Addr
	MAC     string // as net.HardwareAddr writes it
	Link    string
	// Confirmed is how long ago it last answered.
	Confirmed time.Duration
}

type NewLink struct {
	Name, Alias string
	Kind        string // vlan, bridge, bond
	Parent      string // of a vlan
	VLANID      int    // of a vlan
	BondMode    string // of a bond
}

// LinkChange sets the fields that are not nil.
type LinkChange struct {
	Up     *bool
	MTU    *int
	Alias  *string
	Master *string // empty for none
}

type NewAddr struct {
	Prefix netip.Prefix
	// AtOnce skips duplicate address detection, so that an IPv6 address is usable immediately.
	AtOnce bool
	// Protocol marks the owner; zero for RouteProtocol.
	Protocol uint8
}

type Route struct {
	Destination  netip.Prefix
	Gateway      netip.Addr // invalid if the destination is on the link
	Dev          string
	Metric       uint32
	Table        uint32
	TableName    string
	Protocol     uint8
	ProtocolName string
	Scope        string
	Type         string // unicast, local, broadcast, blackhole, …
	PrefSrc      netip.Addr
}

func (r Route) Family() string {
	if r.Destination.Addr().Is4() {
		return "inet"
	}
	return "inet6"
}

// NewRoute is a route to add, replace or remove. It needs a gateway, a device, or both.
type NewRoute struct {
	Destination netip.Prefix
	Gateway     netip.Addr
	Dev         string
	Metric      uint32
	Table       uint32
	// Protocol marks the owner; zero for RouteProtocol.
	Protocol uint8
}

// Owner returns the mark of an address or a route: RouteProtocol unless the caller has chosen one.
func Owner(protocol uint8) uint8 {
	if protocol == 0 {
		return RouteProtocol
	}
	return protocol
}

// Way is the kernel's decision about a packet.
type Way struct {
	Local       bool       // to the machine itself
	Interface   string     // by which the packet leaves
	Via         netip.Addr // next hop; invalid if the destination is on the link
	Source      netip.Addr // the machine's own source address on this way; may be invalid
	Unreachable string     // why the packet is dropped; empty if it is not
}

// Forwarding holds the kernel settings that make a machine a router.
type Forwarding struct {
	IPv4, IPv6 bool
	// NoIPv6 is set if the kernel has no IPv6. IPv6 is true then, because there is nothing to turn on.
	NoIPv6 bool
	// KeepsSecondaries means that an address survives when the first one of its network is removed.
	KeepsSecondaries bool
}

func (f Forwarding) Any() bool { return f.IPv4 || f.IPv6 && !f.NoIPv6 }
