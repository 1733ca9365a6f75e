// Package clients shows who is on the network: it combines what the kernel, the DHCP server, the tunnels and the RADIUS server know about
// each device. It stores nothing itself.
package clients

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

// Deps holds what other rooms provide.
type Deps struct {
	// Zones returns the interfaces of each zone.
	Zones func(ctx context.Context) (map[value.Zone][]value.IfName, error)
	// Leases returns the DHCP server's leases, including expired ones.
	Leases func(ctx context.Context) ([]Lease, error)
	// Subnets returns the networks in which addresses can be reserved.
	Subnets func(ctx context.Context) ([]Subnet, error)
	// Reservations returns the devices with reserved addresses.
	Reservations func(ctx context.Context) ([]Reservation, error)
	// Peers returns the tunnel peers that have been heard from.
	Peers func(ctx context.Context) ([]Peer, error)
	// Logins returns the last successful RADIUS logins, newest first.
	Logins func(ctx context.Context) ([]Login, error)
	// Blocks returns the rules that refuse everything from an address.
	Blocks func(ctx context.Context) (map[netip.Addr][]Block, error)
}

// Lease is an address that a device got.
type Lease struct {
	MAC, Hostname string
	Address       netip.Addr
	SubnetID      uuid.UUID
	Renewed, Ends time.Time
	Active        bool
}

// Subnet is a network in which addresses can be reserved.
type Subnet struct {
	ID        uuid.UUID
	Network   netip.Prefix
	Interface string
}

// Reservation is a device with a reserved address.
type Reservation struct {
	ID       uuid.UUID
	MAC      string
	Hostname string
}

type Peer struct {
	ID, TunnelID uuid.UUID
	Name         string
	Interface    string
	Networks     []netip.Prefix
	Heard        time.Time
	Rx, Tx       uint64 // bytes from it and to it
}

type Login struct {
	At      time.Time
	User    string
	Station string // where, according to the equipment
}

// Room lists clients.
type Room struct {
	*kit.Kit
	deps Deps
}

func New(k *kit.Kit, d Deps) *Room { return &Room{Kit: k, deps: d} }

const (
	fromNeighbours = "neighbours"
	fromLeases     = "leases"
	fromTunnels    = "tunnels"
	fromRADIUS     = "radius"
	fromTraffic    = "connections"
)

// Client is a device on the network.
type Client struct {
	ID            string     `json:"id" doc:"Its MAC address; without one its address, or the id of a tunnel peer that has no address of its own."`
	Name          string     `json:"name" doc:"Name of the device; empty if no source knows one."`
	NamedBy       string     `json:"named_by" enum:",reservation,tunnel,lease" doc:"Where the name comes from: a DHCP reservation, a tunnel peer, or the device itself when it asked for a lease."`
	MAC           string     `json:"mac" doc:"MAC address; empty if it is not known, as for tunnel peers."`
	RandomMAC     bool       `json:"random_mac" doc:"Whether the MAC address is locally administered: phones make up a random one for each network, and virtual machines have one too. It says nothing about the vendor and may change."`
	Vendor        string     `json:"vendor" doc:"Who made the network card, from the list of the IEEE; empty if it is not known."`
	Addresses     []Address  `json:"addresses" doc:"Its addresses, IPv4 first."`
	Networks      []string   `json:"networks" doc:"Networks behind a tunnel peer."`
	Interface     string     `json:"interface" doc:"Interface of the gateway that it was last seen at; empty if that is not known."`
	Zone          string     `json:"zone" doc:"Zone of that interface; empty if it has none."`
	User          string     `json:"user" doc:"User of its last RADIUS login; empty if there was none lately."`
	Sources       []string   `json:"sources" enum:"neighbours,leases,tunnels,radius" doc:"Who knows it: the kernel's neighbour table, DHCP leases, tunnels, RADIUS logins."`
	LastSeen      *time.Time `json:"last_seen" doc:"When it last answered, renewed its lease, did a handshake or logged in; null if that is not known."`
	Online        bool       `json:"online" doc:"Whether that was in the last 5 minutes."`
	Connections   int        `json:"connections" doc:"Connections that it has through the gateway or with it."`
	SentBytes     *uint64    `json:"sent_bytes" doc:"Bytes that it sent: in its open connections, or for a tunnel peer since the tunnel was started. null if the kernel does not count them."`
	ReceivedBytes *uint64    `json:"received_bytes" doc:"Bytes that it received, counted in the same way."`
	LeaseEnds     *time.Time `json:"lease_expires_at" doc:"When its DHCP lease ends; null if it has none."`
	SubnetID      *uuid.UUID `json:"subnet_id" doc:"DHCP subnet in which its address can be reserved; null if there is none."`
	ReservationID *uuid.UUID `json:"reservation_id" doc:"Its DHCP reservation; null if it has none."`
	TunnelID      *uuid.UUID `json:"tunnel_id" doc:"Tunnel of a peer."`
	PeerID        *uuid.UUID `json:"peer_id" doc:"The tunnel peer."`
	BlockedBy     []Block    `json:"blocked_by" doc:"Firewall rules that drop or reject everything from one of its addresses."`

	seenAt map[string]time.Time // when it was last seen, by interface
}

type Address struct {
	Address   string `json:"address" doc:"IPv4 or IPv6 address."`
	Interface string `json:"interface" doc:"Interface of the gateway that it is behind."`
	Zone      string `json:"zone" doc:"Zone of that interface; empty if it has none."`

	ip netip.Addr
}

// Block is a firewall rule that refuses everything from an address.
type Block struct {
	Address  string     `json:"address" doc:"Which address."`
	RuleID   uuid.UUID  `json:"rule_id" doc:"The rule."`
	RuleName string     `json:"rule_name" doc:"Name of the rule."`
	ObjectID uuid.UUID  `json:"object_id" doc:"Address object that names the address."`
	GroupID  *uuid.UUID `json:"group_id" doc:"Address group by which the rule has the object; null if it names the object itself."`
	// Zone is the rule's source zone; empty for any.
	Zone string `json:"-"`
}

// Problem is a source that could not be asked.
type Problem struct {
	Source string `json:"source" enum:"neighbours,leases,tunnels,radius,connections" doc:"Which source."`
	Error  string `json:"error" doc:"Why it could not be asked."`
}

// Clients lists the devices on the network.
type Clients struct {
	Clients  []Client  `json:"clients" doc:"Those that match, by address."`
	Matching int       `json:"matching" doc:"How many match, also those beyond the limit."`
	Total    int       `json:"total" doc:"How many are known."`
	Online   int       `json:"online" doc:"How many of all are online."`
	Counted  bool      `json:"counted" doc:"Whether the kernel counts the bytes of connections (net.netfilter.nf_conntrack_acct)."`
	Problems []Problem `json:"problems" doc:"Sources that could not be asked. What only they know is missing."`
}

const (
	defaultLimit = 500
	maxLimit     = 5000
)

type query struct {
	Search string `query:"search" doc:"Part of a name, address, MAC address, vendor or user; case does not matter."`
	Zone   string `query:"zone" doc:"Only clients in this zone."`
	Source string `query:"source" doc:"Only clients that this source knows: neighbours, leases, tunnels or radius."`
	State  string `query:"state" doc:"online, offline or blocked."`
	Limit  *int   `query:"limit" doc:"How many, at most 5000; 500 by default."`
}

func (q *query) Validate() error {
	var c check.List
	c.That(slices.Contains([]string{"", fromNeighbours, fromLeases, fromTunnels, fromRADIUS}, q.Source), "source", "must be neighbours, leases, tunnels or radius")
	c.That(slices.Contains([]string{"", "online", "offline", "blocked"}, q.State), "state", "must be online, offline or blocked")
	c.That(q.Limit == nil || *q.Limit >= 1 && *q.Limit <= maxLimit, "limit", "must be between 1 and %d", maxLimit)
	return c.Err()
}

func (r *Room) Mount() {
	httpd.Handle(r.Router, http.MethodGet, "/clients", httpd.Read, httpd.Doc{ID: "clients.list", Tag: "clients", Summary: "List who is on the network"},
		func(c *httpd.Call, in query) (Clients, error) {
			all, err := r.all(c)
			if err != nil {
				return Clients{}, err
			}
			return all.matching(in), nil
		})
	httpd.Handle(r.Router, http.MethodGet, "/clients/{id}", httpd.Read, httpd.Doc{ID: "clients.get", Tag: "clients", Summary: "Show a client"},
		func(c *httpd.Call, in struct {
			ID string `path:"id" doc:"Id of the client."`
		}) (Client, error) {
			return r.one(c, in.ID)
		})
	httpd.Handle(r.Router, http.MethodPost, "/clients/{id}/disconnect", httpd.Write.Here(),
		httpd.Doc{ID: "clients.disconnect", Tag: "clients", Summary: "End the connections of a client. Its next packets are checked against the current rules", Audit: "clients.disconnect"},
		func(c *httpd.Call, in struct {
			ID string `path:"id" doc:"Id of the client."`
		}) (Ended, error) {
			return r.disconnect(c, in.ID)
		})
}

func (r *Room) one(ctx context.Context, id string) (Client, error) {
	all, err := r.all(ctx)
	if err != nil {
		return Client{}, err
	}
	for _, x := range all.Clients {
		if x.ID == id {
			return x, nil
		}
	}
	return Client{}, fault.New(fault.NotFound, "No source knows this client now. It may have left the network.")
}

// Ended counts ended connections.
type Ended struct {
	Ended int `json:"ended" doc:"How many connections were removed from the table."`
}

// page is how many connections are read at once.
const page = 1000

// disconnect ends the connections of a client. Connections that end by themselves in the meantime are not counted.
func (r *Room) disconnect(ctx context.Context, id string) (Ended, error) {
	client, err := r.one(ctx, id)
	if err != nil {
		return Ended{}, err
	}
	var done Ended
	addresses := addressesOf([]Client{client})
	err = r.Audit.Do(ctx, "clients.disconnect", client.label(), func() (any, error) {
		var failed error
		for _, a := range addresses {
			alone := netip.PrefixFrom(a, a.BitLen())
			for _, q := range []host.ConnectionQuery{{Source: alone, Limit: page}, {Destination: alone, Limit: page}} {
				n, err := r.end(ctx, q)
				done.Ended, failed = done.Ended+n, errors.Join(failed, err)
			}
		}
		if done.Ended > 0 {
			failed = nil // something was done, which must be reported
		}
		return map[string]any{"addresses": addresses, "ended": done.Ended}, failed
	})
	return done, err
}

// end ends the connections that match a query, page by page: those opened after the first page come later in the order, or are left.
func (r *Room) end(ctx context.Context, q host.ConnectionQuery) (ended int, err error) {
	for {
		found, err := r.Host.Connections(ctx, q)
		if err != nil {
			return ended, fault.Wrap(fault.Unavailable, err, "The kernel's connection table cannot be read.")
		}
		for _, c := range found.List {
			switch err := r.Host.EndConnection(ctx, c.ConnectionKey); {
			case err == nil:
				ended++
			case !errors.Is(err, fs.ErrNotExist):
				return ended, fault.Wrap(fault.Unavailable, err, "A connection could not be ended.")
			}
		}
		if !found.More {
			return ended, nil
		}
		q.After = &found.List[len(found.List)-1].ConnectionKey
	}
}
