package clients

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/value"
)

// onlineWithin is how recently an online client must have been seen. The kernel does not probe idle neighbours, so a shorter time would
// make quiet devices look gone.
const onlineWithin = 5 * time.Minute

// gathered is what the sources report.
type gathered struct {
	zones        map[string]string // by interface
	neighbours   []host.Neighbour
	leases       []Lease
	subnets      []Subnet
	reservations []Reservation
	peers        []Peer
	logins       []Login
	blocks       map[netip.Addr][]Block
	problems     []Problem
}

// ask asks all sources concurrently: one that does not answer only delays the others until it times out. A failing source is reported as
// a problem, but stored data is required.
func (r *Room) ask(ctx context.Context) (t gathered, err error) {
	zones, err := r.deps.Zones(ctx)
	if err != nil {
		return t, err
	}
	t.zones = map[string]string{}
	for zone, interfaces := range zones {
		for _, name := range interfaces {
			t.zones[name.String()] = zone.String()
		}
	}
	if t.subnets, err = r.deps.Subnets(ctx); err != nil {
		return t, err
	}
	if t.reservations, err = r.deps.Reservations(ctx); err != nil {
		return t, err
	}
	if t.blocks, err = r.deps.Blocks(ctx); err != nil {
		return t, err
	}
	var asking sync.WaitGroup
	errs := [4]error{}
	asking.Go(func() { t.neighbours, errs[0] = host.Ask(ctx, r.Host.Neighbours) })
	asking.Go(func() { t.leases, errs[1] = r.deps.Leases(ctx) })
	asking.Go(func() { t.peers, errs[2] = r.deps.Peers(ctx) })
	asking.Go(func() { t.logins, errs[3] = r.deps.Logins(ctx) })
	asking.Wait()
	for i, source := range []string{fromNeighbours, fromLeases, fromTunnels, fromRADIUS} {
		t.failed(r.Log, source, errs[i])
	}
	return t, nil
}

// words say that a source could not be asked.
var words = map[string]string{
	fromNeighbours: "The kernel's neighbour table cannot be read.", fromLeases: "The DHCP server cannot be asked for its leases.",
	fromTunnels: "WireGuard cannot be asked about its peers.", fromRADIUS: "The log of RADIUS logins cannot be read.", fromTraffic: "The kernel's connection table cannot be read.",
}

// failed records that a source could not be asked. It only logs at debug level: pages ask every few seconds, and the components report
// their own problems.
func (t *gathered) failed(log *slog.Logger, source string, err error) {
	if err != nil {
		log.Debug("a source of clients cannot be asked", "component", source, "err", err)
		t.problems = append(t.problems, Problem{Source: source, Error: words[source]})
	}
}

// all returns every client that some source knows.
func (r *Room) all(ctx context.Context) (Clients, error) {
	t, err := r.ask(ctx)
	if err != nil {
		return Clients{}, err
	}
	now := r.Clock.Now()
	list := t.merge(now)
	all := Clients{Clients: list, Total: len(list), Matching: len(list)}
	traffic, err := host.Ask(ctx, func(ctx context.Context) (host.Traffic, error) { return r.Host.Traffic(ctx, addressesOf(list)) })
	t.failed(r.Log, fromTraffic, err)
	all.Counted = traffic.Counted
	count(list, traffic)
	if err := r.vendors(list); err != nil {
		return Clients{}, err
	}
	for i := range list {
		if list[i].Online {
			all.Online++
		}
	}
	all.Problems = append([]Problem{}, t.problems...)
	return all, nil
}

// merge makes one client of what the sources report about the same device.
func (t *gathered) merge(now time.Time) []Client {
	b := book{t: t, byID: map[string]*Client{}}
	for _, n := range t.neighbours {
		c := b.device(n.MAC)
		c.known(fromNeighbours)
		c.seen(n.Link, now.Add(-n.Confirmed))
		b.address(c, n.Address, n.Link)
	}
	for _, l := range t.leases {
		b.lease(l)
	}
	for _, p := range t.peers {
		b.peer(p)
	}
	for _, l := range t.logins {
		b.login(l)
	}
	for _, x := range t.reservations {
		if c := b.byID[x.MAC]; c != nil {
			c.ReservationID = &x.ID
			c.name(x.Hostname, "reservation")
		}
	}
	list := make([]Client, 0, len(b.byID))
	for _, c := range b.byID {
		b.complete(c, now)
		list = append(list, *c)
	}
	slices.SortFunc(list, func(x, y Client) int { return cmp.Or(compareAddresses(x.first(), y.first()), cmp.Compare(x.ID, y.ID)) })
	return list
}

// book collects the clients while they are put together.
type book struct {
	t    *gathered
	byID map[string]*Client
}

func (b *book) client(id string) *Client {
	c := b.byID[id]
	if c == nil {
		c = &Client{ID: id, Addresses: []Address{}, Networks: []string{}, Sources: []string{}, BlockedBy: []Block{}, seenAt: map[string]time.Time{}}
		b.byID[id] = c
	}
	return c
}

func (b *book) device(mac string) *Client {
	c := b.client(mac)
	c.MAC = mac
	first, _ := hex.DecodeString(mac[:2])
	c.RandomMAC = len(first) == 1 && first[0]&2 != 0
	return c
}

// at returns the client that has an address; nil if there is none.
func (b *book) at(a netip.Addr) *Client {
	for _, c := range b.byID {
		if slices.ContainsFunc(c.Addresses, func(x Address) bool { return x.ip == a }) {
			return c
		}
	}
	return nil
}

func (b *book) address(c *Client, a netip.Addr, link string) {
	if !slices.ContainsFunc(c.Addresses, func(x Address) bool { return x.ip == a && x.Interface == link }) {
		c.Addresses = append(c.Addresses, Address{Address: a.String(), Interface: link, Zone: b.t.zones[link], ip: a})
	}
}

// lease adds what the DHCP server knows. The address of an expired lease is no longer in use, but the device was there.
func (b *book) lease(l Lease) {
	mac, err := value.Parse[value.MAC](l.MAC)
	if err != nil {
		return // declined: the address belongs to a device that never asked for one
	}
	c := b.device(mac.String())
	c.known(fromLeases)
	link := ""
	for _, s := range b.t.subnets {
		if s.ID == l.SubnetID {
			link = s.Interface
		}
	}
	c.seen(link, l.Renewed)
	c.name(l.Hostname, "lease")
	if l.Active {
		c.LeaseEnds, c.SubnetID = &l.Ends, &l.SubnetID
		b.address(c, l.Address, link)
	}
}

func (b *book) peer(p Peer) {
	id := p.ID.String()
	for _, n := range p.Networks {
		if n.IsSingleIP() {
			id = n.Addr().String()
			break
		}
	}
	c := b.client(id)
	c.known(fromTunnels)
	c.seen(p.Interface, p.Heard)
	c.name(p.Name, "tunnel")
	c.PeerID, c.TunnelID = &p.ID, &p.TunnelID
	c.SentBytes, c.ReceivedBytes = &p.Rx, &p.Tx
	for _, n := range p.Networks {
		if n.IsSingleIP() {
			b.address(c, n.Addr(), p.Interface)
		} else {
			c.Networks = append(c.Networks, n.String())
		}
	}
}

// login adds the user of a device. The equipment reports where someone logged in: usually a MAC address, sometimes an IP address.
func (b *book) login(l Login) {
	var c *Client
	if mac, err := value.Parse[value.MAC](l.Station); err == nil {
		c = b.device(mac.String())
	} else if a, err := netip.ParseAddr(l.Station); err == nil {
		c = b.at(a.Unmap())
	}
	if c == nil {
		return
	}
	c.known(fromRADIUS)
	c.seen("", l.At)
	if c.User == "" { // the newest comes first
		c.User = l.User
	}
}

// complete derives the rest from what is known.
func (b *book) complete(c *Client, now time.Time) {
	slices.SortFunc(c.Addresses, func(x, y Address) int {
		return cmp.Or(compareAddresses(x.ip, y.ip), cmp.Compare(x.Interface, y.Interface))
	})
	var last time.Time
	for link, at := range c.seenAt {
		if at.After(last) {
			last = at
		}
		if link != "" && (c.Interface == "" || at.After(c.seenAt[c.Interface]) || at.Equal(c.seenAt[c.Interface]) && link < c.Interface) {
			c.Interface, c.Zone = link, b.t.zones[link]
		}
	}
	if !last.IsZero() {
		last = last.UTC().Truncate(time.Second) // with more precision it would change with every query
		c.LastSeen, c.Online = &last, now.Sub(last) <= onlineWithin
	}
	for _, a := range c.Addresses {
		if c.SubnetID == nil {
			for _, s := range b.t.subnets {
				if s.Interface == a.Interface && s.Network.Contains(a.ip) && c.MAC != "" {
					c.SubnetID = &s.ID
				}
			}
		}
		for _, x := range b.t.blocks[a.ip] {
			if x.Zone == "" || x.Zone == a.Zone {
				x.Address = a.Address
				c.BlockedBy = append(c.BlockedBy, x)
			}
		}
	}
	slices.Sort(c.Sources)
}

func (c *Client) known(source string) {
	if !slices.Contains(c.Sources, source) {
		c.Sources = append(c.Sources, source)
	}
}

func (c *Client) seen(link string, at time.Time) {
	if at.After(c.seenAt[link]) {
		c.seenAt[link] = at
	}
}

// ranks orders the sources of names: what an operator typed counts more than what a device calls itself.
var ranks = []string{"", "lease", "tunnel", "reservation"}

func (c *Client) name(name, by string) {
	if name != "" && slices.Index(ranks, by) > slices.Index(ranks, c.NamedBy) {
		c.Name, c.NamedBy = name, by
	}
}

// label returns the name for people.
func (c *Client) label() string {
	if c.Name == "" {
		return c.ID
	}
	return c.Name + " (" + c.ID + ")"
}

// first returns the main address of a client; invalid if it has none.
func (c *Client) first() netip.Addr {
	if len(c.Addresses) == 0 {
		return netip.Addr{}
	}
	return c.Addresses[0].ip
}

// compareAddresses sorts IPv4 first, link-local addresses last, and invalid ones behind them.
func compareAddresses(a, b netip.Addr) int {
	rank := func(a netip.Addr) int {
		switch {
		case !a.IsValid():
			return 3
		case a.IsLinkLocalUnicast():
			return 2
		case a.Is6():
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Compare(b))
}

// addressesOf returns the addresses whose connections are counted. Link-local ones are ambiguous, and no connection through the gateway
// uses them.
func addressesOf(list []Client) (all []netip.Addr) {
	for i := range list {
		for _, a := range list[i].Addresses {
			if !a.ip.IsLinkLocalUnicast() {
				all = append(all, a.ip)
			}
		}
	}
	return all
}

// count adds the traffic of clients' connections. WireGuard's own counters are higher: they include connections that have ended.
func count(list []Client, traffic host.Traffic) {
	of := map[netip.Addr]host.AddressTraffic{}
	for _, x := range traffic.List {
		of[x.Address] = x
	}
	for i := range list {
		c := &list[i]
		var sent, received uint64
		for _, a := range c.Addresses {
			x := of[a.ip]
			c.Connections += x.Connections
			sent, received = sent+x.Sent, received+x.Received
		}
		if traffic.Counted && c.PeerID == nil {
			c.SentBytes, c.ReceivedBytes = &sent, &received
		}
	}
}

// vendors looks up the makers of the network cards. A machine without the list knows none.
func (r *Room) vendors(list []Client) error {
	var macs []string
	for i := range list {
		if list[i].MAC != "" && !list[i].RandomMAC {
			macs = append(macs, list[i].MAC)
		}
	}
	names, err := r.Host.Vendors(macs)
	if errors.Is(err, host.ErrNotInstalled) {
		return nil
	}
	for i := range list {
		list[i].Vendor = names[list[i].MAC]
	}
	return err
}

func (all Clients) matching(q query) Clients {
	search := strings.ToLower(strings.TrimSpace(q.Search))
	if mac, err := value.Parse[value.MAC](search); err == nil {
		search = mac.String() // in any spelling
	}
	matches := func(c *Client) bool {
		switch {
		case q.Zone != "" && c.Zone != q.Zone,
			q.Source != "" && !slices.Contains(c.Sources, q.Source),
			q.State == "online" && !c.Online, q.State == "offline" && c.Online, q.State == "blocked" && len(c.BlockedBy) == 0:
			return false
		}
		return slices.ContainsFunc(c.texts(), func(text string) bool { return strings.Contains(strings.ToLower(text), search) })
	}
	found := []Client{}
	all.Matching = 0
	limit := defaultLimit
	if q.Limit != nil {
		limit = *q.Limit
	}
	for i := range all.Clients {
		if matches(&all.Clients[i]) {
			if all.Matching++; len(found) < limit {
				found = append(found, all.Clients[i])
			}
		}
	}
	all.Clients = found
	return all
}

// texts lists what a client is found by.
func (c *Client) texts() []string {
	texts := append([]string{c.Name, c.MAC, c.Vendor, c.User}, c.Networks...)
	for _, a := range c.Addresses {
		texts = append(texts, a.Address)
	}
	return texts
}
