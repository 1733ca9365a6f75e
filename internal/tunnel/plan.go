package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"edge.internal/gateway/internal/kit/host"
)

const (
	// table holds default routes into a tunnel. All traffic without the mark uses it after the main table, which is consulted for more
	// specific routes first.
	table     = 51251
	mainTable = 254

	// Priorities of the routing rules, all before that of the main table.
	answersFirst  = 32700
	specificFirst = 32710
	thenTunnel    = 32720

	// metric6 is the kernel's default metric for IPv6.
	metric6 = 1024
)

// Live is the kernel's state.
type Live struct {
	Links   []host.Link
	Devices []host.TunnelDevice
	Routes  []host.Route
	Rules   []host.Rule
}

// Plan leads from the kernel's state to the configuration.
type Plan struct {
	// Steps are in order: later ones may need earlier ones.
	Steps []Step
	// Problems are sentences about what cannot be done in a step.
	Problems []string
}

// Step is one change of the kernel's state.
type Step struct {
	// Link is the affected link; empty for routing rules.
	Link string
	Text string
	// Vital means that all other steps of the link need this one.
	Vital bool
	do    func(ctx context.Context, m Machine) error
}

func (s Step) Do(ctx context.Context, m Machine) error { return s.do(ctx, m) }

// Dial returns the endpoint to set for a peer; zero if the kernel's is good, or none is known.
type Dial func(t *Wanted, p *WantedPeer) netip.AddrPort

// MakePlan compares both. It only touches what is ours: links with our alias, and addresses, routes and rules with our protocol.
func MakePlan(live Live, c Config, dial Dial) Plan {
	p := &planner{live: live, dial: dial, links: map[string]host.Link{}, devices: map[string]*host.TunnelDevice{}, there: map[string]bool{}}
	for _, l := range live.Links {
		p.links[l.Name] = l
	}
	for i := range live.Devices {
		p.devices[live.Devices[i].Name] = &live.Devices[i]
	}
	p.removeLinks(c)
	for i := range c.Tunnels {
		p.tunnel(&c.Tunnels[i])
	}
	p.routes(c)
	p.rules(c)
	return p.Plan
}

type planner struct {
	Plan
	live    Live
	dial    Dial
	links   map[string]host.Link
	devices map[string]*host.TunnelDevice
	there   map[string]bool // tunnels that exist once the links are created
}

func (p *planner) step(link, text string, do func(ctx context.Context, m Machine) error) {
	p.Steps = append(p.Steps, Step{Link: link, Text: text, do: do})
}

func (p *planner) vital(link, text string, do func(ctx context.Context, m Machine) error) {
	p.Steps = append(p.Steps, Step{Link: link, Text: text, Vital: true, do: do})
}

func (p *planner) problem(format string, args ...any) {
	p.Problems = append(p.Problems, fmt.Sprintf(format, args...))
}

func alias(t *Wanted) string { return host.OwnTunnel + t.ID.String() }

// removeLinks removes links of ours that are not wanted.
func (p *planner) removeLinks(c Config) {
	for _, l := range p.live.Links {
		if strings.HasPrefix(l.Alias, host.OwnTunnel) && !slices.ContainsFunc(c.Tunnels, func(t Wanted) bool { return t.Name.String() == l.Name }) {
			p.remove(l.Name)
		}
	}
}

func (p *planner) remove(name string) {
	p.vital(name, "remove the tunnel "+name, func(ctx context.Context, m Machine) error { return m.RemoveTunnel(ctx, name) })
	delete(p.links, name)
	delete(p.devices, name)
}

// tunnel plans one link with its peers and addresses.
func (p *planner) tunnel(t *Wanted) {
	name := t.Name.String()
	link, exists := p.links[name]
	if exists && !p.take(t, link) {
		return
	}
	if exists && p.devices[name] == nil {
		// Its program is gone.
		p.remove(name)
		exists = false
	}
	if !exists {
		p.vital(name, "create the tunnel "+name, func(ctx context.Context, m Machine) error { return m.CreateTunnel(ctx, name, alias(t)) })
		link, p.devices[name] = host.Link{}, &host.TunnelDevice{}
	}
	p.there[name] = true
	if change, what := p.change(t, p.devices[name]); len(what) > 0 {
		p.step(name, "set "+strings.Join(what, ", ")+" of "+name, func(ctx context.Context, m Machine) error { return m.ChangeTunnel(ctx, name, change) })
	}
	if t.MTU != 0 && link.MTU != t.MTU {
		p.step(name, fmt.Sprintf("set the MTU of %s to %d", name, t.MTU), func(ctx context.Context, m Machine) error {
			return m.ChangeLink(ctx, name, host.LinkChange{MTU: &t.MTU})
		})
	}
	p.addresses(t, link)
	if !link.Up() {
		up := true
		p.step(name, "set up "+name, func(ctx context.Context, m Machine) error {
			return m.ChangeLink(ctx, name, host.LinkChange{Up: &up})
		})
	}
}

// take makes sure that a link with that name is ours. A foreign one is taken over if it is the same tunnel, as identified by its key, or
// if it has no key yet.
func (p *planner) take(t *Wanted, link host.Link) bool {
	d := p.devices[link.Name]
	same := d != nil && (d.Mark == 0 || d.Mark == host.DirectMark) && (d.PublicKey == host.TunnelKey(t.PublicKey.Bytes()) || d.PublicKey == host.TunnelKey{} && len(d.Peers) == 0)
	switch {
	case link.Alias == alias(t):
	case strings.HasPrefix(link.Alias, host.OwnTunnel), link.Alias == "" && same:
		mine := alias(t)
		p.vital(link.Name, "take over "+link.Name, func(ctx context.Context, m Machine) error {
			return m.ChangeLink(ctx, link.Name, host.LinkChange{Alias: &mine})
		})
	case d != nil && d.PublicKey == host.TunnelKey(t.PublicKey.Bytes()):
		p.problem("Tunnel %[1]s is run by another program with its own routing rules. Stop that (wg-quick down %[1]s), and the gateway creates its own.", link.Name)
		return false
	case d != nil:
		p.problem("Interface %s belongs to another program and has another key. Import its configuration, remove the interface, or choose another name.", link.Name)
		return false
	default:
		p.problem("The machine has another interface with the name %s. Remove that, or choose another name.", link.Name)
		return false
	}
	return true
}

// change returns the necessary changes of a device, and describes them.
func (p *planner) change(t *Wanted, d *host.TunnelDevice) (c host.TunnelChange, what []string) {
	if d.PublicKey != host.TunnelKey(t.PublicKey.Bytes()) {
		k := host.TunnelKey(t.PrivateKey.Bytes())
		c.PrivateKey = &k
		what = append(what, "the key")
	}
	if t.ListenPort != 0 && d.ListenPort != t.ListenPort {
		c.ListenPort = &t.ListenPort
		what = append(what, fmt.Sprintf("the port %d", t.ListenPort))
	}
	if d.Mark != host.DirectMark {
		m := host.DirectMark
		c.Mark = &m
		what = append(what, "the mark")
	}
	has := make(map[host.TunnelKey]*host.TunnelPeer, len(d.Peers))
	for i := range d.Peers {
		has[d.Peers[i].PublicKey] = &d.Peers[i]
	}
	for i := range t.Peers {
		w := &t.Peers[i]
		key := host.TunnelKey(w.PublicKey.Bytes())
		if x, differs := w.change(has[key], p.dial(t, w)); differs {
			c.Peers = append(c.Peers, x)
		}
		delete(has, key)
	}
	for key := range has {
		c.Peers = append(c.Peers, host.TunnelPeerChange{PublicKey: key, Remove: true})
	}
	switch n := len(c.Peers); n {
	case 0:
	case 1:
		what = append(what, "a peer")
	default:
		what = append(what, fmt.Sprintf("%d peers", n))
	}
	return c, what
}

// change returns the necessary changes of a peer, which may not exist yet.
func (w *WantedPeer) change(has *host.TunnelPeer, endpoint netip.AddrPort) (c host.TunnelPeerChange, differs bool) {
	c.PublicKey = host.TunnelKey(w.PublicKey.Bytes())
	if has == nil {
		has, differs = &host.TunnelPeer{}, true
	}
	if psk := host.TunnelKey(w.PresharedKey.Bytes()); psk != has.PresharedKey {
		c.PresharedKey = &psk
	}
	if w.Keepalive != has.Keepalive {
		c.Keepalive = &w.Keepalive
	}
	if !samePrefixes(w.AllowedIPs, has.AllowedIPs) {
		c.AllowedIPs = &w.AllowedIPs
	}
	if endpoint.IsValid() && endpoint != has.Endpoint {
		c.Endpoint = endpoint
	}
	return c, differs || c.PresharedKey != nil || c.Keepalive != nil || c.AllowedIPs != nil || c.Endpoint.IsValid()
}

// samePrefixes compares two lists without duplicates in any order.
func samePrefixes(a, b []netip.Prefix) bool {
	if len(a) != len(b) {
		return false
	}
	for _, x := range a {
		if !slices.Contains(b, x) {
			return false
		}
	}
	return true
}

// addresses adds what is missing, and removes what is ours and not wanted. Addresses added by others are accepted.
func (p *planner) addresses(t *Wanted, link host.Link) {
	name := t.Name.String()
	for _, a := range t.Addresses {
		if !slices.ContainsFunc(link.Addrs, func(x host.LinkAddr) bool { return x.Prefix() == a }) {
			p.step(name, fmt.Sprintf("add %s to %s", a, name), func(ctx context.Context, m Machine) error {
				return m.SetAddress(ctx, name, host.NewAddr{Prefix: a, AtOnce: true, Protocol: host.TunnelProtocol})
			})
		}
	}
	for _, x := range link.Addrs {
		if a := x.Prefix(); x.Protocol == host.TunnelProtocol && !slices.Contains(t.Addresses, a) {
			p.step(name, fmt.Sprintf("remove %s from %s", a, name), func(ctx context.Context, m Machine) error { return m.RemoveAddress(ctx, name, a) })
		}
	}
}

// routeTo returns a tunnel's route to a network. Default routes are in a separate table.
func routeTo(name string, n netip.Prefix) host.NewRoute {
	r := host.NewRoute{Destination: n, Dev: name, Table: mainTable, Protocol: host.TunnelProtocol}
	if n.Addr().Is6() {
		r.Metric = metric6
	}
	if n.Bits() == 0 {
		r.Table = table
	}
	return r
}

// routed reports whether a network needs a route: networks in which an interface has an address are already reached.
func routed(own []netip.Prefix, n netip.Prefix) bool {
	return !slices.ContainsFunc(own, func(o netip.Prefix) bool { return o.Bits() <= n.Bits() && o.Contains(n.Addr()) })
}

// routeKey is the kernel's key of a route.
type routeKey struct {
	table       uint32
	destination netip.Prefix
	metric      uint32
}

func routeText(r host.NewRoute) string {
	return fmt.Sprintf("the route to %s through %s", r.Destination, r.Dev)
}

func removal(r host.NewRoute) func(ctx context.Context, m Machine) error {
	return func(ctx context.Context, m Machine) error { return m.RemoveRoute(ctx, r) }
}

func addition(r host.NewRoute) func(ctx context.Context, m Machine) error {
	return func(ctx context.Context, m Machine) error { return m.AddRoute(ctx, r) }
}

// routes removes what is ours and not wanted, and then adds what is missing.
func (p *planner) routes(c Config) {
	wanted := map[routeKey]string{}
	var list []host.NewRoute
	for i := range c.Tunnels {
		t := &c.Tunnels[i]
		for _, peer := range t.Peers {
			for _, n := range peer.AllowedIPs {
				if !p.there[t.Name.String()] || !routed(t.Addresses, n) {
					continue
				}
				r := routeTo(t.Name.String(), n)
				key := routeKey{r.Table, n, r.Metric}
				if other := wanted[key]; other != "" {
					p.problem("%s is already routed through %s.", routeText(r), other)
					continue
				}
				wanted[key] = r.Dev
				list = append(list, r)
			}
		}
	}
	has, foreign := map[routeKey]bool{}, map[routeKey]string{}
	for _, x := range p.live.Routes {
		key := routeKey{x.Table, x.Destination, x.Metric}
		switch _, stays := p.links[x.Dev]; {
		case !stays: // it goes with its link
		case x.Type == "unicast" && wanted[key] == x.Dev:
			has[key] = true
		case x.Protocol == host.TunnelProtocol:
			r := host.NewRoute{Destination: x.Destination, Gateway: x.Gateway, Dev: x.Dev, Metric: x.Metric, Table: x.Table, Protocol: host.TunnelProtocol}
			p.step(x.Dev, "remove "+routeText(r), removal(r))
		default:
			foreign[key] = x.Dev
		}
	}
	for _, r := range list {
		key := routeKey{r.Table, r.Destination, r.Metric}
		switch dev, taken := foreign[key]; {
		case has[key]:
		case taken:
			p.problem("%s: the kernel has another route through %s that the gateway did not create. Remove that, or remove the network from the peer.", routeText(r), dev)
		default:
			p.step(r.Dev, "add "+routeText(r), addition(r))
		}
	}
}

// rules lead all traffic into a tunnel that takes everything, except traffic with a better route in the main table, the gateway's answers
// from its other addresses, and the tunnels' own packets.
func (p *planner) rules(c Config) {
	var wanted []host.Rule
	for _, everywhere := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
		family := "inet"
		if everywhere.Addr().Is6() {
			family = "inet6"
		}
		if !slices.ContainsFunc(c.Tunnels, func(t Wanted) bool {
			return slices.ContainsFunc(t.Peers, func(x WantedPeer) bool { return slices.Contains(x.AllowedIPs, everywhere) })
		}) {
			continue
		}
		for _, a := range p.ownAddresses(c, family) {
			wanted = append(wanted, host.Rule{Family: family, Priority: answersFirst, From: netip.PrefixFrom(a, a.BitLen()), Table: mainTable})
		}
		wanted = append(wanted, host.Rule{Family: family, Priority: specificFirst, Table: mainTable, Specific: true},
			host.Rule{Family: family, Priority: thenTunnel, NotMark: host.DirectMark, Table: table})
	}
	// The rules that protect the gateway are added first and removed last.
	for _, r := range wanted {
		if !slices.Contains(p.live.Rules, r) {
			p.step("", "add a routing rule for "+r.Family, func(ctx context.Context, m Machine) error { return m.AddRule(ctx, r) })
		}
	}
	for _, r := range slices.Backward(p.live.Rules) {
		if !slices.Contains(wanted, r) {
			p.step("", "remove a routing rule for "+r.Family, func(ctx context.Context, m Machine) error { return m.RemoveRule(ctx, r) })
		}
	}
}

// ownAddresses returns the machine's addresses, except for those of tunnels.
func (p *planner) ownAddresses(c Config, family string) (list []netip.Addr) {
	for _, l := range p.live.Links {
		if slices.ContainsFunc(c.Tunnels, func(t Wanted) bool { return t.Name.String() == l.Name }) {
			continue
		}
		for _, a := range l.Addrs {
			if ip := a.Prefix().Addr(); a.Family == family && a.Scope == "global" && !slices.Contains(list, ip) {
				list = append(list, ip)
			}
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

// reason explains an error of the machine where its own words do not.
func reason(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE), strings.Contains(err.Error(), "errno=-98"):
		return "another program uses the port: choose another one, or stop that program"
	case errors.Is(err, syscall.EEXIST):
		return "there is already one that the gateway did not create: remove that first"
	}
	return err.Error()
}
