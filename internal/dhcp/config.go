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

// Config is everything that Kea's file depends on. Because Kea refuses a file that names a missing link, the machine's links are part of
// it: a link that appears, disappears, or is recreated is a change like any other.
type Config struct {
	Settings Settings `json:"settings"`
	// Elsewhere means that another node of the cluster hands out addresses: two servers would not know each other's leases.
	Elsewhere bool `json:"elsewhere"`
	// Wanted lists the subnets that are on, and Interfaces the declared ones.
	Wanted       []Subnet      `json:"wanted"`
	Interfaces   []Interface   `json:"interfaces"`
	Subnets      []Subnet      `json:"subnets"` // the ones that can be served
	Links        []Link        `json:"links"`   // of those subnets
	Reservations []Reservation `json:"reservations"`
	Paths        kea.Paths     `json:"paths"`
	// LAN lists the interfaces that the packet filter must open.
	LAN []value.IfName `json:"lan"`
	// Left lists what cannot be served, and why.
	Left []string `json:"left"`
}

// Link is a link on which addresses are handed out. Kea only looks up the number and the addresses of a link when it reads its file.
type Link struct {
	Name      string       `json:"name"`
	Index     int          `json:"index"`
	Addresses []netip.Addr `json:"addresses"`
}

// on reports whether Kea runs here.
func (c Config) on() bool { return c.Settings.Enabled && !c.Elsewhere }

// elsewhere reports whether another node of the cluster hands out addresses.
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

// adapt adds the machine's present links of the subnets.
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

// linkOf returns the link of an interface, or the reason why nobody is served on it.
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
