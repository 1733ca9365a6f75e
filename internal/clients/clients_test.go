package clients_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/clients"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/value"
)

// bench is the room on a machine in memory, with test doubles for other rooms.
type bench struct {
	*kittest.Bench
	leases       []clients.Lease
	unleased     error
	subnets      []clients.Subnet
	reservations []clients.Reservation
	peers        []clients.Peer
	logins       []clients.Login
	blocks       map[netip.Addr][]clients.Block
}

func start(t *testing.T) *bench {
	t.Helper()
	b := &bench{Bench: kittest.New(t)}
	clients.New(b.Kit, clients.Deps{
		Zones: func(context.Context) (map[value.Zone][]value.IfName, error) {
			return map[value.Zone][]value.IfName{
				value.Must[value.Zone]("lan"): {value.Must[value.IfName]("lan0")}, value.Must[value.Zone]("vpn"): {value.Must[value.IfName]("wg0")},
			}, nil
		},
		Leases:       func(context.Context) ([]clients.Lease, error) { return b.leases, b.unleased },
		Subnets:      func(context.Context) ([]clients.Subnet, error) { return b.subnets, nil },
		Reservations: func(context.Context) ([]clients.Reservation, error) { return b.reservations, nil },
		Peers:        func(context.Context) ([]clients.Peer, error) { return b.peers, nil },
		Logins:       func(context.Context) ([]clients.Login, error) { return b.logins, nil },
		Blocks:       func(context.Context) (map[netip.Addr][]clients.Block, error) { return b.blocks, nil },
	}).Mount()
	b.Start(t)
	return b
}

func (b *bench) list(t *testing.T, query string) (list clients.Clients) {
	t.Helper()
	b.Get(t, "/clients"+query).Want(t, 200).Into(t, &list)
	return list
}

func ids(list clients.Clients) (ids []string) {
	for _, c := range list.Clients {
		ids = append(ids, c.ID)
	}
	return ids
}

const (
	laptop = "00:00:0c:00:00:01"
	phone  = "da:a1:19:00:00:02"
	gone   = "00:00:0c:00:00:03"
	badge  = "00:00:0c:00:00:04"
)

// fill makes every source know something.
func (b *bench) fill() (subnet, tunnel uuid.UUID) {
	now := b.Clock.Now()
	subnet, tunnel = uuid.New(), uuid.New()
	b.subnets = []clients.Subnet{{ID: subnet, Network: netip.MustParsePrefix("10.10.0.0/24"), Interface: "lan0"}}
	b.Machine.SetVendors(map[string]string{"00:00:0c": "Cisco", "da:a1:19": "Google"})
	b.Machine.SetNeighbours(
		host.Neighbour{Address: netip.MustParseAddr("fe80::1"), MAC: laptop, Link: "lan0", Confirmed: time.Minute},
		host.Neighbour{Address: netip.MustParseAddr("10.10.0.20"), MAC: laptop, Link: "lan0", Confirmed: 10 * time.Second},
		host.Neighbour{Address: netip.MustParseAddr("10.10.0.9"), MAC: phone, Link: "lan0", Confirmed: 2 * time.Hour},
	)
	b.leases = []clients.Lease{
		{MAC: laptop, Hostname: "thinkpad", Address: netip.MustParseAddr("10.10.0.20"), SubnetID: subnet, Renewed: now.Add(-time.Hour), Ends: now.Add(time.Hour), Active: true},
		{MAC: gone, Hostname: "old", Address: netip.MustParseAddr("10.10.0.21"), SubnetID: subnet, Renewed: now.Add(-48 * time.Hour), Ends: now.Add(-47 * time.Hour)},
		{Address: netip.MustParseAddr("10.10.0.22"), SubnetID: subnet, Renewed: now, Ends: now.Add(time.Hour)}, // declined
	}
	b.peers = []clients.Peer{
		{ID: uuid.New(), TunnelID: tunnel, Name: "Anna", Interface: "wg0", Networks: []netip.Prefix{netip.MustParsePrefix("10.9.0.2/32"), netip.MustParsePrefix("10.20.0.0/16")}, Heard: now.Add(-time.Minute), Rx: 5, Tx: 7},
		{ID: uuid.New(), TunnelID: tunnel, Name: "Site", Interface: "wg0", Networks: []netip.Prefix{netip.MustParsePrefix("10.30.0.0/16")}, Heard: now.Add(-time.Hour)},
	}
	b.logins = []clients.Login{
		{At: now.Add(-time.Minute), User: "bob", Station: "00-00-0C-00-00-04"}, {At: now.Add(-2 * time.Minute), User: "eve", Station: "00-00-0C-00-00-04"},
		{At: now.Add(-time.Minute), User: "anna", Station: "10.9.0.2"}, {At: now, User: "nobody", Station: "ttyS0"}, {At: now, User: "far", Station: "192.0.2.99"},
	}
	return subnet, tunnel
}

func TestSourcesAreMerged(t *testing.T) {
	b := start(t)
	subnet, tunnel := b.fill()
	list := b.list(t, "")
	if want := []string{"10.9.0.2", phone, laptop, gone, badge, b.peers[1].ID.String()}; !cmp.Equal(sorted(ids(list)), sorted(want)) {
		t.Fatal(cmp.Diff(sorted(want), sorted(ids(list))))
	}
	if got := ids(list)[:3]; !slices.Equal(got, []string{"10.9.0.2", phone, laptop}) {
		t.Errorf("not by address: %v", got)
	}
	if list.Total != 6 || list.Matching != 6 || list.Online != 3 || list.Counted || len(list.Problems) != 0 {
		t.Errorf("%+v", list)
	}
	of := map[string]clients.Client{}
	for _, c := range list.Clients {
		of[c.ID] = c
	}
	c := of[laptop]
	if c.Name != "thinkpad" || c.NamedBy != "lease" || c.Vendor != "Cisco" || c.RandomMAC || c.Zone != "lan" || c.Interface != "lan0" || !c.Online || *c.SubnetID != subnet || c.LeaseEnds == nil || c.SentBytes != nil {
		t.Errorf("%+v", c)
	}
	if len(c.Addresses) != 2 || c.Addresses[0].Address != "10.10.0.20" || c.Addresses[1].Address != "fe80::1" || !slices.Equal(c.Sources, []string{"leases", "neighbours"}) {
		t.Errorf("%+v", c)
	}
	if ago := b.Clock.Now().Sub(*c.LastSeen); ago < 10*time.Second || ago > 11*time.Second {
		t.Errorf("seen %s ago", ago)
	}
	// A random address has no vendor, whatever its first bytes are. Its subnet is known, so its address can be reserved.
	if c := of[phone]; !c.RandomMAC || c.Vendor != "" || c.Online || c.SubnetID == nil || c.LeaseEnds != nil {
		t.Errorf("%+v", c)
	}
	if c := of[gone]; c.Online || len(c.Addresses) != 0 || c.Name != "old" || c.Zone != "lan" || c.LeaseEnds != nil {
		t.Errorf("%+v", c)
	}
	if c := of["10.9.0.2"]; c.Name != "Anna" || c.User != "anna" || c.Zone != "vpn" || *c.TunnelID != tunnel || *c.SentBytes != 5 || *c.ReceivedBytes != 7 || !slices.Equal(c.Networks, []string{"10.20.0.0/16"}) {
		t.Errorf("%+v", c)
	}
	// Of two logins the newer counts. The login does not say where the device is.
	if c := of[badge]; c.User != "bob" || c.Zone != "" || !c.Online || !slices.Equal(c.Sources, []string{"radius"}) {
		t.Errorf("%+v", c)
	}
	// An operator's name counts more than the device's own.
	b.reservations = []clients.Reservation{{ID: uuid.New(), MAC: laptop, Hostname: "desk"}}
	var one clients.Client
	b.Get(t, "/clients/"+laptop).Want(t, 200).Into(t, &one)
	if one.Name != "desk" || one.NamedBy != "reservation" || *one.ReservationID != b.reservations[0].ID {
		t.Errorf("%+v", one)
	}
	b.Get(t, "/clients/00:00:00:00:00:99").Want(t, 404)
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func TestListIsFilteredAndTagged(t *testing.T) {
	b := start(t)
	b.fill()
	for query, want := range map[string]int{
		"?search=THINK": 1, "?search=10.10.0": 2, "?search=0000.0c00.0001": 1, "?search=cisco": 3, "?search=bob": 1, "?search=10.20.": 1, "?search=nobody": 0,
		"?zone=vpn": 2, "?source=radius": 2, "?state=online": 3, "?state=offline": 3, "?state=blocked": 0, "?zone=lan&state=offline": 2,
	} {
		if list := b.list(t, query); list.Matching != want || len(list.Clients) != want || list.Total != 6 {
			t.Errorf("%s: %v", query, ids(list))
		}
	}
	if list := b.list(t, "?limit=2"); len(list.Clients) != 2 || list.Matching != 6 {
		t.Errorf("%+v", list)
	}
	for _, field := range []string{"source", "state", "limit"} {
		b.Get(t, "/clients?"+field+"=0").WantField(t, field)
	}
	a := b.Do(t, "viewer", http.MethodGet, "/clients", nil).Want(t, 200)
	b.Do(t, "viewer", http.MethodGet, "/clients", nil, "If-None-Match", a.Header.Get("ETag")).Want(t, 304)
}

func TestTraffic(t *testing.T) {
	b := start(t)
	b.fill()
	flow := func(from, to string) host.Flow {
		return host.Flow{Source: netip.MustParseAddr(from), Destination: netip.MustParseAddr(to)}
	}
	b.Machine.SetConnections(
		host.Connection{ConnectionKey: host.ConnectionKey{Flow: flow("10.10.0.20", "192.0.2.1"), ID: 1}, Reply: flow("192.0.2.1", "198.51.100.1"), SentBytes: 10, ReceivedBytes: 1000},
		// A port forward: the client answers.
		host.Connection{ConnectionKey: host.ConnectionKey{Flow: flow("192.0.2.7", "198.51.100.1"), ID: 2}, Reply: flow("10.10.0.20", "192.0.2.7"), SentBytes: 3, ReceivedBytes: 300},
		host.Connection{ConnectionKey: host.ConnectionKey{Flow: flow("10.9.0.2", "192.0.2.1"), ID: 3}, Reply: flow("192.0.2.1", "10.9.0.2"), SentBytes: 1, ReceivedBytes: 1},
	)
	for _, counted := range []bool{false, true} {
		b.Machine.CountTraffic(counted)
		list := b.list(t, "")
		if list.Counted != counted {
			t.Errorf("%+v", list)
		}
		for _, c := range list.Clients {
			switch {
			case c.ID == laptop && c.Connections != 2, c.ID == phone && c.Connections != 0, c.ID == "10.9.0.2" && (c.Connections != 1 || *c.SentBytes != 5):
				t.Errorf("%+v", c)
			case c.MAC != "" && (c.SentBytes != nil) != counted, counted && c.ID == laptop && (*c.SentBytes != 310 || *c.ReceivedBytes != 1003):
				t.Errorf("counted %v: %+v", counted, c)
			}
		}
	}
}

// Whichever end of a connection a client is, its connections end, and those of others do not.
func TestDisconnect(t *testing.T) {
	b := start(t)
	b.fill()
	flow := func(from, to string) host.Flow {
		return host.Flow{Source: netip.MustParseAddr(from), Destination: netip.MustParseAddr(to)}
	}
	connect := func(id uint32, from, to string) host.Connection {
		return host.Connection{ConnectionKey: host.ConnectionKey{Flow: flow(from, to), ID: id}, Reply: flow(to, from)}
	}
	b.Machine.SetConnections(connect(1, "10.10.0.20", "192.0.2.1"), connect(2, "10.10.0.9", "192.0.2.1"), connect(3, "192.0.2.9", "10.10.0.20"))
	path := "/clients/" + laptop + "/disconnect"
	b.Do(t, "viewer", http.MethodPost, path, nil).Want(t, 403)
	var done clients.Ended
	b.Do(t, "admin", http.MethodPost, path, nil).Want(t, 200).Into(t, &done)
	left, err := b.Machine.Connections(t.Context(), host.ConnectionQuery{Limit: 10})
	if done.Ended != 2 || err != nil || len(left.List) != 1 || left.List[0].ID != 2 || b.Audited(t, "clients.disconnect") != 1 {
		t.Errorf("%+v, %+v, %v", done, left, err)
	}
	b.Do(t, "admin", http.MethodPost, "/clients/none/disconnect", nil).Want(t, 404)
}

func TestBlocked(t *testing.T) {
	b := start(t)
	b.fill()
	rule := clients.Block{RuleID: uuid.New(), RuleName: "Blocked clients", ObjectID: uuid.New()}
	elsewhere := rule
	elsewhere.Zone = "wan"
	b.blocks = map[netip.Addr][]clients.Block{netip.MustParseAddr("10.10.0.20"): {rule}, netip.MustParseAddr("10.10.0.9"): {elsewhere}}
	list := b.list(t, "?state=blocked")
	if !slices.Equal(ids(list), []string{laptop}) {
		t.Fatalf("%+v", list)
	}
	if got := list.Clients[0].BlockedBy; len(got) != 1 || got[0].Address != "10.10.0.20" || got[0].RuleID != rule.RuleID {
		t.Errorf("%+v", got)
	}
}

// What one source does not report leaves what the others do.
func TestASourceThatDoesNotAnswer(t *testing.T) {
	b := start(t)
	b.fill()
	b.leases, b.unleased = nil, errors.New("connect: /run/kea/socket: no such file")
	a := b.Get(t, "/clients").Want(t, 200)
	if strings.Contains(string(a.Body), "/run/") {
		t.Error("the answer has the source's own words")
	}
	list := b.list(t, "")
	if len(list.Problems) != 1 || list.Problems[0].Source != "leases" || list.Total != 5 {
		t.Errorf("%+v", list)
	}
}
