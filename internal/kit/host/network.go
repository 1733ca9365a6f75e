package host

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// RouteProtocol is the number that routes and addresses of the gateway carry in the kernel, so that the kernel itself says
// which are ours.
const RouteProtocol = 250

// OwnAlias begins the alias of every link that the gateway made; the id of the interface comes behind it.
const OwnAlias = "gateway:"

// Network reads and changes what the kernel knows about links, addresses and routes. Where the gateway must not touch the
// machine, the verbs that change something answer ErrNotInstalled.
type Network interface {
	// Links lists the network interfaces of the kernel, with their addresses and counters.
	Links(ctx context.Context) ([]Link, error)
	// LinkKinds are the kinds of link that the kernel has, of vlan, bridge, bond and wireguard. It makes none.
	LinkKinds(ctx context.Context) ([]string, error)
	// CreateLink makes a vlan, a bridge or a bond. It is not up yet.
	CreateLink(ctx context.Context, l NewLink) error
	// ChangeLink changes what is given. A bond takes only members that are down, so that one which joins is taken down first.
	ChangeLink(ctx context.Context, name string, c LinkChange) error
	// RemoveLink removes a link that carries the alias of the gateway; one that is gone already is no error.
	RemoveLink(ctx context.Context, name string) error
	// SetAddress gives a link an address that carries its owner's protocol, or puts the protocol on one that it has.
	SetAddress(ctx context.Context, link string, a NewAddr) error
	// RemoveAddress takes an address from a link; one that is gone already is no error.
	RemoveAddress(ctx context.Context, link string, a netip.Prefix) error
	// Routes lists the routes of all tables, one for each next hop.
	Routes(ctx context.Context) ([]Route, error)
	// Neighbours lists the machines that the kernel has found on its links, without those that do not answer.
	Neighbours(ctx context.Context) ([]Neighbour, error)
	// AddRoute adds a route of the gateway, unless its table has one to the same destination with the same metric.
	AddRoute(ctx context.Context, r NewRoute) error
	// ReplaceRoute puts a route of the gateway in the place of the one to the same destination with the same metric.
	ReplaceRoute(ctx context.Context, r NewRoute) error
	// RemoveRoute removes a route of the gateway; one that is gone already is no error.
	RemoveRoute(ctx context.Context, r NewRoute) error
	// RouteTables names the routing tables.
	RouteTables() map[string]uint32
	// RouteTo asks the kernel where a packet goes that comes in by an interface; without one, that the machine itself sends.
	RouteTo(ctx context.Context, dst, src netip.Addr, in string) (Way, error)
	// Forwarding tells whether the machine forwards packets.
	Forwarding(ctx context.Context) (Forwarding, error)
	// Forward makes it do so, or makes it stop. Either way it keeps the other addresses of a network when the first one goes.
	Forward(ctx context.Context, on bool) error
	// AcceptRouters lets a link learn its default route from routers even though the machine forwards.
	AcceptRouters(ctx context.Context, link string) error
}

var networkVerbs = daemon.Verbs{
	"Links": daemon.Local, "Routes": daemon.Local, "RouteTables": daemon.Local, "RouteTo": daemon.Local, "Neighbours": daemon.Local, "Forwarding": daemon.Local,
	"LinkKinds":  daemon.Repeatable,
	"CreateLink": daemon.Served, "ChangeLink": daemon.Served, "RemoveLink": daemon.Served, "SetAddress": daemon.Served, "RemoveAddress": daemon.Served,
	"AddRoute": daemon.Served, "ReplaceRoute": daemon.Served, "RemoveRoute": daemon.Served, "Forward": daemon.Served, "AcceptRouters": daemon.Served,
}

// Link is one network interface of the kernel.
type Link struct {
	Index                int
	Name                 string
	Flags                []string
	MTU                  int
	Type                 string // loopback, ether, …
	Address              string // hardware address
	Addrs                []LinkAddr
	RxBytes, TxBytes     uint64
	RxPackets, TxPackets uint64
	RxDrop, TxDrop       uint64

	Kind     string // device, veth, vlan, bridge, bond, wireguard, …
	Alias    string
	Master   string // the bridge or bond that it belongs to
	Parent   string // of a vlan
	VLANID   int    // of a vlan
	BondMode string // of a bond
	// AcceptRA is the kernel's setting for router advertisements: 0 no, 1 unless the machine forwards, 2 always. It is -1
	// where there is no IPv6.
	AcceptRA int
}

// Up tells whether the link is administratively up.
func (l Link) Up() bool { return slices.Contains(l.Flags, "UP") }

// Carrier tells whether the link is connected to something.
func (l Link) Carrier() bool { return slices.Contains(l.Flags, "LOWER_UP") }

// LinkAddr is one address of a network interface.
type LinkAddr struct {
	Family    string // inet, inet6
	Local     string
	PrefixLen int
	Scope     string // global, link, host
	Protocol  uint8  // who made it; 0 where nobody said
	Dynamic   bool   // it expires unless whoever made it renews it
	Duplicate bool   // another machine on the link has it
}

// Prefix is the address with the length of its network.
func (a LinkAddr) Prefix() netip.Prefix {
	ip, err := netip.ParseAddr(a.Local)
	if err != nil {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(ip, a.PrefixLen)
}

// Neighbour is an address on a link, and the network card that answers for it.
type Neighbour struct {
	Address netip.Addr
	MAC     string // as net.HardwareAddr writes it
	Link    string
	// Confirmed is how long ago it was last known to answer.
	Confirmed time.Duration
}

// NewLink is a link that the kernel shall make.
type NewLink struct {
	Name, Alias string
	Kind        string // vlan, bridge, bond
	Parent      string // of a vlan
	VLANID      int    // of a vlan
	BondMode    string // of a bond
}

// LinkChange is what shall be different about a link; what is nil stays as it is.
type LinkChange struct {
	Up     *bool
	MTU    *int
	Alias  *string
	Master *string // empty for none
}

// NewAddr is an address that a link shall have.
type NewAddr struct {
	Prefix netip.Prefix
	// AtOnce makes an IPv6 address usable before it is known that nobody else has it.
	AtOnce bool
	// Protocol says whose it is; zero stands for RouteProtocol.
	Protocol uint8
}

// Route is one route of the kernel.
type Route struct {
	Destination  netip.Prefix
	Gateway      netip.Addr // not valid where the destination is on the link
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

// Family is the address family of the route: inet or inet6.
func (r Route) Family() string {
	if r.Destination.Addr().Is4() {
		return "inet"
	}
	return "inet6"
}

// NewRoute is a route of the gateway. It has a gateway, a device, or both.
type NewRoute struct {
	Destination netip.Prefix
	Gateway     netip.Addr
	Dev         string
	Metric      uint32
	Table       uint32
	// Protocol says whose it is; zero stands for RouteProtocol.
	Protocol uint8
}

// Owner is the protocol that marks whose an address or a route is.
func Owner(protocol uint8) uint8 {
	if protocol == 0 {
		return RouteProtocol
	}
	return protocol
}

// Way is where a packet goes.
type Way struct {
	Local       bool       // to the machine itself
	Interface   string     // by which it leaves
	Via         netip.Addr // the router that it is given to; absent if there is none
	Source      netip.Addr // which the machine itself would have there; it may be absent
	Unreachable string     // why it goes nowhere; empty when it does
}

// Forwarding is what makes a machine a router.
type Forwarding struct {
	IPv4, IPv6 bool
	// NoIPv6 says that the kernel has none; IPv6 is true then, for there is nothing to turn on.
	NoIPv6 bool
	// KeepsSecondaries: an address survives when the first one of its network is removed.
	KeepsSecondaries bool
}

// Any tells whether packets of some family are forwarded.
func (f Forwarding) Any() bool { return f.IPv4 || f.IPv6 && !f.NoIPv6 }
