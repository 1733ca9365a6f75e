package dhcp

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/value"
)

// Config is all that Kea's file depends on. Kea refuses a file that names a link which is not there, so that the links of the
// machine are a part of it: a link that comes, goes, or is made anew is a change like any other.
type Config struct {
	Settings Settings `json:"settings"`
	// Elsewhere says that another node of the cluster hands out addresses: two would not know each other's leases.
	Elsewhere bool `json:"elsewhere"`
	// Wanted are the subnets that are on, and Interfaces those that are declared.
	Wanted       []Subnet      `json:"wanted"`
	Interfaces   []Interface   `json:"interfaces"`
	Subnets      []Subnet      `json:"subnets"` // those that can be served
	Links        []Link        `json:"links"`   // of these
	Reservations []Reservation `json:"reservations"`
	Paths        kea.Paths     `json:"paths"`
	// LAN are the interfaces that the server asks the packet filter to open.
	LAN []value.IfName `json:"lan"`
	// Left says what cannot be served, and why.
	Left []string `json:"left"`
}

// Link is a link that addresses are handed out on. Kea looks at the number and the addresses of a link only when it reads its
// file.
type Link struct {
	Name      string       `json:"name"`
	Index     int          `json:"index"`
	Addresses []netip.Addr `json:"addresses"`
}

// on tells whether Kea runs here.
func (c Config) on() bool { return c.Settings.Enabled && !c.Elsewhere }

// elsewhere tells whether another node of the cluster hands out addresses.
func (r *Room) elsewhere(ctx context.Context, q db.Querier) (bool, error) {
	if r.deps.Serves == nil {
		return false, nil
	}
	serves, err := r.deps.Serves(ctx, q)
	return !serves, err
}

func (r *Room) load(ctx context.Context, q db.Querier) (Config, error) {
	c := Config{Paths: kea.Where()}
	settings, err := r.settings.Load(ctx, q)
	if err != nil {
		return c, err
	}
	c.Settings = *settings
	if c.Elsewhere, err = r.elsewhere(ctx, q); err != nil {
		return c, err
	}
	if c.Wanted, err = r.subnets.All(ctx, q); err != nil {
		return c, err
	}
	c.Wanted = slices.DeleteFunc(slices.Clone(c.Wanted), func(s Subnet) bool { return !s.Active })
	if c.Reservations, err = r.reservations.All(ctx, q); err != nil {
		return c, err
	}
	if c.Interfaces, err = r.deps.Interfaces(ctx, q); err != nil {
		return c, err
	}
	c.LAN = inside(c.Interfaces)
	return r.adapt(ctx, c)
}

// adapt finds the links of the subnets among those that the machine has by now.
func (r *Room) adapt(ctx context.Context, c Config) (Config, error) {
	links, err := r.Host.Links(ctx)
	if err != nil {
		return c, err
	}
	c.Subnets, c.Links, c.Left = nil, nil, nil
	for _, s := range c.Wanted {
		link, reason := linkOf(s.Interface, c.Interfaces, links)
		if reason != "" {
			c.Left = append(c.Left, fmt.Sprintf("%s is not served: %s", s.CIDR, reason))
			continue
		}
		c.Subnets, c.Links = append(c.Subnets, s), append(c.Links, link)
	}
	return c, nil
}

// linkOf is the link of an interface, or the reason why nobody is served on it.
func linkOf(name value.IfName, interfaces []Interface, links []host.Link) (link Link, reason string) {
	if i := slices.IndexFunc(interfaces, func(i Interface) bool { return i.Name == name }); i >= 0 {
		switch {
		case interfaces[i].Zone == wan:
			return link, fmt.Sprintf("Interface %s belongs to the zone wan, where addresses are never handed out", name)
		case !interfaces[i].Active:
			return link, fmt.Sprintf("the interface %s is off", name)
		}
	}
	i := slices.IndexFunc(links, func(l host.Link) bool { return l.Name == name.String() })
	if i < 0 {
		return link, fmt.Sprintf("there is no interface %s", name)
	}
	link = Link{Name: name.String(), Index: links[i].Index}
	for _, a := range links[i].Addrs {
		if ip := a.Prefix().Addr(); ip.Is4() {
			link.Addresses = append(link.Addresses, ip)
		}
	}
	slices.SortFunc(link.Addresses, netip.Addr.Compare)
	return link, ""
}
