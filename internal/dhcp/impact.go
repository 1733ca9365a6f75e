package dhcp

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
)

// mountImpact lets previews list the clients that get something else, or nothing, at their next renewal.
func (r *Room) mountImpact() {
	resource.Assess(r.Resources, resource.Assessor[Config]{
		Area: resource.DHCPClients, Feeds: []apply.ID{apply.DHCP}, Load: r.load, Compare: r.compareClients,
	})
}

// compareClients renews every lease before and after a change.
func (r *Room) compareClients(ctx context.Context, was, now Config) (checked int, reached []resource.Affected, err error) {
	if !was.on() {
		return 0, nil, nil // no one is served
	}
	at := r.Clock.Now()
	before, after := newRenewals(was), newRenewals(now)
	err = r.eachLease(ctx, func(k keaLease) {
		n := slices.IndexFunc(was.Subnets, func(s Subnet) bool { return s.CIDR.Netip().Contains(k.IP) })
		if n < 0 || k.lease(was.Subnets[n].ID, at).State != "active" {
			return
		}
		checked++
		a, b := before.renew(k, was.Subnets[n].Interface.String()), after.renew(k, was.Subnets[n].Interface.String())
		x := resource.Affected{What: k.called(), Before: a.words(), After: b.words()}
		switch {
		case a.refused != "" || a == b:
			return
		case b.refused != "":
			x.Effect = resource.Blocked
		default:
			x.Effect = resource.Redirected
		}
		reached = append(reached, x)
	})
	if err != nil {
		err = fault.Wrap(fault.Unavailable, err, "The DHCP server could not be asked for its leases.")
	}
	return checked, reached, err
}

// called describes a client for people.
func (k keaLease) called() string {
	if k.Hostname == "" {
		return fmt.Sprintf("%s at %s", k.MAC, k.IP)
	}
	return fmt.Sprintf("%s (%s) at %s", k.Hostname, k.MAC, k.IP)
}

// renewals answers what clients get from a configuration.
type renewals struct {
	Config
	byMAC map[string]netip.Addr // in any subnet: a machine has one reservation in each
	byIP  map[netip.Addr]string
}

func newRenewals(c Config) *renewals {
	r := &renewals{Config: c, byMAC: map[string]netip.Addr{}, byIP: map[netip.Addr]string{}}
	for i := range c.Reservations {
		x := &c.Reservations[i]
		r.byMAC[x.SubnetID.String()+x.MAC.String()] = x.IP.Netip()
		r.byIP[x.IP.Netip()] = x.MAC.String()
	}
	return r
}

// renewal is what a client gets when it renews its lease.
type renewal struct {
	refused string // why it gets nothing
	// Address is invalid if it is another one from the range.
	address                        netip.Addr
	gateway, dns, ntp, domain, net string
}

// renew returns what a client on an interface gets.
func (r *renewals) renew(k keaLease, link string) renewal {
	n := slices.IndexFunc(r.Subnets, func(s Subnet) bool { return s.Interface.String() == link })
	switch {
	case !r.Settings.Enabled:
		return renewal{refused: "the DHCP server is off"}
	case n < 0:
		return renewal{refused: "no addresses are handed out on " + link}
	}
	s := &r.Subnets[n]
	x := renewal{gateway: s.Gateway.String(), dns: joined(s.DNSServers), ntp: joined(s.NTPServers), domain: s.DomainName.String(), net: s.CIDR.String()}
	reserved, has := r.byMAC[s.ID.String()+k.MAC]
	holder, taken := r.byIP[k.IP]
	switch {
	case has:
		x.address = reserved
	case s.hands(k.IP) && (!taken || holder == k.MAC):
		x.address = k.IP
	}
	return x
}

// words describes what a client gets.
func (x renewal) words() string {
	if x.refused != "" {
		return x.refused
	}
	text := "another address of " + x.net
	if x.address.IsValid() {
		text = x.address.String() + " in " + x.net
	}
	for _, o := range []struct{ name, data string }{{"gateway", x.gateway}, {"DNS", x.dns}, {"NTP", x.ntp}, {"domain", x.domain}} {
		if o.data != "" {
			text += fmt.Sprintf(", %s %s", o.name, o.data)
		}
	}
	return text
}
