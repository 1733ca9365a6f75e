package vrrp

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/value"
)

// Config is everything that keepalived's file depends on.
type Config struct {
	// Clustered means that there are other nodes.
	Clustered bool `json:"clustered"`
	RouterID  int  `json:"router_id"`
	// Priority is this node's priority while it is healthy.
	Priority int `json:"priority"`
	// Link is where the nodes hear each other, by these addresses. It is absent if no link has the node's own.
	Link   value.IfName `json:"link"`
	Own    value.Addr   `json:"own"`
	Others []value.Addr `json:"others"`
	VIPs   []VIP        `json:"vips"`
	// Problems are sentences about what is wanted but impossible.
	Problems []string `json:"problems,omitempty"`
}

// VIP is a virtual address and its link.
type VIP struct {
	Link    value.IfName `json:"link"`
	Address netip.Prefix `json:"address"`
}

// on reports whether there are virtual addresses for keepalived to move.
func (c Config) on() bool { return c.Clustered && len(c.VIPs)+len(c.Problems) > 0 }

// able reports whether there is anything that keepalived can do.
func (c Config) able() bool { return len(c.VIPs) > 0 && len(c.Others) > 0 && !c.Link.IsZero() }

// What keepalived runs, as which user, and where it reports its state.
const (
	probe      = keepalived.Probe
	probeUser  = keepalived.ProbeUser
	probeGroup = keepalived.ProbeGroup
	states     = keepalived.States
)

// The priorities: a node with a problem is behind one that is drained, and that behind all others.
const (
	failing = 1
	drained = 2
	lowest  = 3
	highest = 254
)

func (r *Room) load(ctx context.Context, q db.Querier) (Config, error) {
	own, others, err := r.deps.Members(ctx, q)
	if err != nil || len(others) == 0 {
		return Config{}, err
	}
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return Config{}, err
	}
	declared, err := r.deps.Interfaces(ctx, q)
	if err != nil {
		return Config{}, err
	}
	links, err := r.Host.Links(ctx)
	if err != nil {
		return Config{}, err
	}
	c := Config{Clustered: true, RouterID: s.VRRPRouterID, Priority: wanted(declared)}
	for _, i := range declared {
		for _, a := range i.Addresses {
			if i.Active && a.VIP {
				c.add(links, VIP{i.Name, a.Prefix})
			}
		}
	}
	if ip := s.VIPAddress.Netip(); ip.IsValid() && !slices.ContainsFunc(c.VIPs, func(v VIP) bool { return v.Address.Addr() == ip }) {
		c.add(links, VIP{s.VIPInterface, within(links, s.VIPInterface, ip)})
	}
	if c.on() {
		c.reach(links, own, others)
	}
	slices.SortFunc(c.VIPs, func(a, b VIP) int {
		return cmp.Or(a.Address.Addr().Compare(b.Address.Addr()), cmp.Compare(a.Link.String(), b.Link.String()))
	})
	return c, nil
}

// wanted returns the priority of a node: the highest of its virtual addresses, because they all move together.
func wanted(declared []Interface) int {
	most := 0
	for _, i := range declared {
		for _, a := range i.Addresses {
			if i.Active && a.VIP {
				most = max(most, a.Priority)
			}
		}
	}
	if most == 0 {
		most = 100
	}
	return min(max(most, lowest), highest)
}

// reach determines the link by which the nodes reach each other.
func (c *Config) reach(links []host.Link, own netip.Addr, others []netip.Addr) {
	at := slices.IndexFunc(links, func(l host.Link) bool {
		return slices.ContainsFunc(l.Addrs, func(a host.LinkAddr) bool { return a.Prefix().Addr() == own })
	})
	if !own.IsValid() || at < 0 {
		c.Problems = append(c.Problems, fmt.Sprintf("no interface of this node has the address by which the other nodes know it, %s", own))
		return
	}
	link, err := value.Parse[value.IfName](links[at].Name)
	if err != nil {
		c.Problems = append(c.Problems, fmt.Sprintf("the interface %s %s", links[at].Name, err))
		return
	}
	c.Link, c.Own = link, value.Must[value.Addr](own.String())
	for _, a := range others {
		if a.Is4() == own.Is4() {
			c.Others = append(c.Others, value.Must[value.Addr](a.String()))
		} else {
			c.Problems = append(c.Problems, fmt.Sprintf("the node at %s is not heard, because this node is known to it by %s, which is of the other family", a, own))
		}
	}
	slices.SortFunc(c.Others, func(a, b value.Addr) int { return a.Netip().Compare(b.Netip()) })
}

// add adds a virtual address, if its link exists.
func (c *Config) add(links []host.Link, v VIP) {
	switch {
	case v.Link.String() == "include": // which keepalived parses as something else
		c.Problems = append(c.Problems, fmt.Sprintf("%s cannot be on an interface with the name %s", v.Address.Addr(), v.Link))
	case !slices.ContainsFunc(links, func(l host.Link) bool { return l.Name == v.Link.String() }):
		c.Problems = append(c.Problems, fmt.Sprintf("%s cannot be on %s: this interface does not exist", v.Address.Addr(), v.Link))
	default:
		c.VIPs = append(c.VIPs, v)
	}
}

// within returns a virtual address with the length of its link's matching network, or as a single address.
func within(links []host.Link, link value.IfName, ip netip.Addr) netip.Prefix {
	found := netip.PrefixFrom(ip, ip.BitLen())
	longest := 0
	for _, l := range links {
		for _, a := range l.Addrs {
			if n := a.Prefix(); l.Name == link.String() && n.Addr() != ip && n.Contains(ip) && n.Bits() > longest {
				found, longest = netip.PrefixFrom(ip, n.Bits()), n.Bits()
			}
		}
	}
	return found
}
