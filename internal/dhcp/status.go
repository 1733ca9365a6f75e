package dhcp

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

const (
	// leasePage is how many leases Kea is asked for at once: it hands out no addresses while it answers.
	leasePage = 1000
	// maxLeases is the maximum number of leases in an answer.
	maxLeases = 2000
)

// Lease is an address in use by a machine.
type Lease struct {
	IP            string     `json:"ip" doc:"The address."`
	MAC           string     `json:"mac" doc:"MAC address of the device; empty for a declined address."`
	Hostname      string     `json:"hostname" doc:"Host name sent by the device; empty if it sent none."`
	SubnetID      uuid.UUID  `json:"subnet_id" doc:"Subnet that the address is in."`
	ReservationID *uuid.UUID `json:"reservation_id" doc:"Reservation of the address; null if it is from the range."`
	State         string     `json:"state" enum:"active,declined,expired" doc:"State of the lease. declined: a client refused the address because another device uses it."`
	StartsAt      time.Time  `json:"starts_at" doc:"When it was assigned or last renewed."`
	ExpiresAt     time.Time  `json:"expires_at" doc:"When it ends unless it is renewed."`
}

type Usage struct {
	SubnetID uuid.UUID `json:"subnet_id" doc:"Which subnet."`
	Size     int64     `json:"size" doc:"Addresses in its range."`
	Leased   int64     `json:"leased" doc:"Addresses of the range that are in use."`
	Declined int64     `json:"declined" doc:"Addresses that a device uses without a lease."`
}

// Leases lists the addresses in use.
type Leases struct {
	Leases []Lease `json:"leases" doc:"Those that match, by address; at most 2000."`
	Total  int     `json:"total" doc:"How many match, also those that are not shown."`
	Usage  []Usage `json:"usage" doc:"How full each active subnet is."`
	Error  string  `json:"error" doc:"Why the server could not be asked; empty when it could."`
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/dhcp/leases", httpd.Read, httpd.Doc{ID: "dhcp.leases", Tag: "dhcp", Summary: "List the current leases"},
		func(c *httpd.Call, in struct {
			Search string `query:"search" doc:"Part of an IP address, MAC address or name; case does not matter."`
		}) (Leases, error) {
			return r.leases(c, in.Search)
		})
}

// keaLease is a lease as Kea encodes it.
type keaLease struct {
	IP       netip.Addr `json:"ip-address"`
	MAC      string     `json:"hw-address"`
	Hostname string     `json:"hostname"`
	State    int        `json:"state"`
	Last     int64      `json:"cltt"`
	Life     int64      `json:"valid-lft"`
}

// Kea's states of a lease.
const (
	keaDeclined  = 1
	keaReclaimed = 2
)

// eachLease passes on all leases, in the order of their addresses.
func (r *Room) eachLease(ctx context.Context, yield func(keaLease)) error {
	ctx, cancel := host.Asking(ctx)
	defer cancel()
	from := "start"
	for {
		var page struct {
			Leases []keaLease `json:"leases"`
		}
		if err := kea.Ask(ctx, r.Host, kea.LeasePage, map[string]any{"from": from, "limit": leasePage}, &page); err != nil {
			return err
		}
		for _, l := range page.Leases {
			yield(l)
		}
		if len(page.Leases) < leasePage {
			return nil
		}
		from = page.Leases[leasePage-1].IP.String()
	}
}

// leases combines what Kea knows with what is stored.
func (r *Room) leases(ctx context.Context, search string) (Leases, error) {
	list := Leases{Leases: []Lease{}, Usage: []Usage{}}
	settings, err := r.settings.Load(ctx, r.DB)
	if err != nil {
		return list, err
	}
	subnets, err := r.subnets.All(ctx, r.DB)
	if err != nil {
		return list, err
	}
	reservations, err := r.reservations.All(ctx, r.DB)
	if err != nil {
		return list, err
	}
	reserved := make(map[[2]string]uuid.UUID, len(reservations))
	for _, x := range reservations {
		reserved[[2]string{x.MAC.String(), x.IP.String()}] = x.ID
	}
	usage := make([]Usage, len(subnets))
	for i := range subnets {
		usage[i] = Usage{SubnetID: subnets[i].ID, Size: subnets[i].size()}
	}
	if mac, err := value.Parse[value.MAC](search); err == nil {
		search = mac.String() // in any spelling
	}
	search = strings.ToLower(search)
	now := r.Clock.Now()
	err = r.eachLease(ctx, func(k keaLease) {
		for i := range subnets {
			if !subnets[i].CIDR.Netip().Contains(k.IP) {
				continue
			}
			l := k.lease(subnets[i].ID, now)
			usage[i].count(subnets[i].hands(k.IP), l.State)
			if id, ok := reserved[[2]string{l.MAC, l.IP}]; ok {
				l.ReservationID = &id
			}
			list.take(l, search)
		}
	})
	switch {
	case err != nil && !settings.Enabled:
		list.Error = "The DHCP server is off."
	case err != nil && r.isElsewhere(ctx):
		list.Error = "Another node of the cluster hands out addresses and knows the leases: the one that has the virtual addresses or, if there are none, the primary."
	case err != nil:
		list.Error = httpd.Problem(ctx, "The DHCP server", err)
	}
	for i, s := range subnets {
		if s.Active {
			list.Usage = append(list.Usage, usage[i])
		}
	}
	return list, nil
}

func (k keaLease) lease(subnet uuid.UUID, now time.Time) Lease {
	l := Lease{IP: k.IP.String(), MAC: k.MAC, Hostname: k.Hostname, SubnetID: subnet, State: "active", StartsAt: time.Unix(k.Last, 0).UTC()}
	l.ExpiresAt = l.StartsAt.Add(time.Duration(k.Life) * time.Second)
	switch {
	case k.State == keaReclaimed || !l.ExpiresAt.After(now):
		l.State = "expired"
	case k.State == keaDeclined:
		l.State = "declined"
	}
	return l
}

// count counts a lease; reserved addresses may be outside of the range.
func (u *Usage) count(inRange bool, state string) {
	switch {
	case state == "active" && inRange:
		u.Leased++
	case state == "declined":
		u.Declined++
	}
}

// take adds a matching lease.
func (l *Leases) take(x Lease, search string) {
	if !strings.Contains(x.IP, search) && !strings.Contains(x.MAC, search) && !strings.Contains(strings.ToLower(x.Hostname), search) {
		return
	}
	l.Total++
	if len(l.Leases) < maxLeases {
		l.Leases = append(l.Leases, x)
	}
}

// Holders returns all leases, including expired ones, to find out which machines are on the network. While the server is off or on
// another node there are none.
func (r *Room) Holders(ctx context.Context) ([]Lease, error) {
	settings, err := r.settings.Load(ctx, r.DB)
	if err != nil || !settings.Enabled {
		return nil, err
	}
	if r.isElsewhere(ctx) {
		return nil, nil
	}
	subnets, err := r.subnets.All(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	var list []Lease
	now := r.Clock.Now()
	err = r.eachLease(ctx, func(k keaLease) {
		if n := slices.IndexFunc(subnets, func(s Subnet) bool { return s.CIDR.Netip().Contains(k.IP) }); n >= 0 {
			list = append(list, k.lease(subnets[n].ID, now))
		}
	})
	return list, err
}

// isElsewhere reports for live views whether another node of the cluster hands out addresses, if that can be determined in time.
func (r *Room) isElsewhere(ctx context.Context) bool {
	is, err := host.Ask(ctx, func(ctx context.Context) (bool, error) { return r.elsewhere(ctx, r.DB) })
	return err == nil && is
}

// Subnets returns all subnets, served or not, by network.
func (r *Room) Subnets(ctx context.Context, q db.Querier) ([]Subnet, error) {
	return r.subnets.All(ctx, q)
}

func (r *Room) Reservations(ctx context.Context, q db.Querier) ([]Reservation, error) {
	return r.reservations.All(ctx, q)
}
