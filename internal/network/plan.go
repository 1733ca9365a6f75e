package network

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/value"
)

// Live is the kernel's network.
type Live struct {
	Links      []host.Link
	Routes     []host.Route
	Tables     map[string]uint32
	Forwarding host.Forwarding
	// Filtered means that the packet filter is loaded; FilterErr is why that could not be determined.
	Filtered  bool
	FilterErr error
}

// Plan leads from the kernel's network to the configuration.
type Plan struct {
	// Steps are in order: later ones may need earlier ones.
	Steps []Step
	// Problems are sentences about what cannot be done in a step.
	Problems []string
}

// Verbs of steps.
const (
	acceptRouters = "accept routers on"
	forward       = "forward packets"
	// stopForwarding is used without a packet filter.
	stopForwarding = "stop forwarding packets"
	removeLink     = "remove interface"
	createLink     = "create interface"
	markLink       = "mark interface"
	freeMember     = "free the member"
	addMember      = "add the member"
	setMTU         = "set the MTU of"
	raiseLink      = "set up"
	setAddress     = "bind"
	removeAddress  = "unbind"
	addRoute       = "add the route"
	replaceRoute   = "replace the route"
	removeRoute    = "remove the route"
)

// Step is one change of the kernel's network.
type Step struct {
	Verb    string
	Link    string // which link it is about; of a route, its device
	New     host.NewLink
	Alias   string
	Master  string
	MTU     int
	Address host.NewAddr
	Route   host.NewRoute
}

func (s Step) String() string {
	switch s.Verb {
	case forward, stopForwarding:
		return s.Verb
	case createLink:
		return fmt.Sprintf("%s %s (%s)", s.Verb, s.Link, s.New.Kind)
	case freeMember, addMember:
		return fmt.Sprintf("%s %s of %s", s.Verb, s.Link, s.Master)
	case setMTU:
		return fmt.Sprintf("%s %s to %d", s.Verb, s.Link, s.MTU)
	case setAddress, removeAddress:
		return fmt.Sprintf("%s %s on %s", s.Verb, s.Address.Prefix, s.Link)
	case addRoute, replaceRoute, removeRoute:
		return fmt.Sprintf("%s %s", s.Verb, routeText(s.Route))
	}
	return s.Verb + " " + s.Link
}

func routeText(r host.NewRoute) string {
	text := "to " + r.Destination.String()
	if r.Gateway.IsValid() {
		text += " via " + r.Gateway.String()
	}
	if r.Dev != "" {
		text += " by " + r.Dev
	}
	return text
}

// MakePlan compares both. It only touches what is ours: links with our alias, addresses and routes with our protocol, and what the
// configuration names.
func MakePlan(live Live, c Config) Plan {
	p := &planner{live: live, c: c, links: map[string]host.Link{}, wanted: map[string]*WantedLink{}, doomed: map[string]bool{}, missing: map[string]bool{}}
	for _, l := range live.Links {
		p.links[l.Name] = l
	}
	for i := range c.Links {
		p.wanted[c.Links[i].Name] = &c.Links[i]
	}
	for _, name := range slices.Sorted(maps.Keys(c.Unzoned)) {
		p.problem("%s belongs to the zone %s, which is gone: no rule of a zone applies to it. Give it another role.", name, c.Unzoned[name])
	}
	p.forwarding()
	p.removeLinks()
	p.makeLinks()
	p.members()
	p.settings()
	p.addresses()
	p.routes()
	return p.Plan
}

type planner struct {
	Plan
	live    Live
	c       Config
	links   map[string]host.Link   // by name
	wanted  map[string]*WantedLink // by name
	doomed  map[string]bool        // links that are removed first
	missing map[string]bool        // links that do not exist and will not
}

func (p *planner) step(s Step) { p.Steps = append(p.Steps, s) }

func (p *planner) problem(format string, args ...any) {
	p.Problems = append(p.Problems, fmt.Sprintf(format, args...))
}

// there reports whether a link exists once the links are created.
func (p *planner) there(name string) bool {
	if w := p.wanted[name]; w != nil && w.made() {
		return !p.missing[name]
	}
	_, ok := p.links[name]
	return ok && !p.doomed[name]
}

// forwarding turns the machine into a router, but only with its packet filter. A link that learns its default route from routers would
// forget it when forwarding starts, so it is first told to keep accepting them: if it is an outside link, or has learned one. The others
// do not listen: an internal machine must not become the gateway's way out.
func (p *planner) forwarding() {
	for _, l := range p.live.Links {
		_, err := value.Parse[value.IfName](l.Name)
		learned := slices.ContainsFunc(p.live.Routes, func(r host.Route) bool {
			return r.Dev == l.Name && r.Protocol == protocolRA && r.Destination == netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		})
		outside := p.wanted[l.Name] != nil && p.wanted[l.Name].Role == "wan"
		if l.AcceptRA == 1 && err == nil && l.Name != "lo" && (learned || outside) {
			p.step(Step{Verb: acceptRouters, Link: l.Name})
		}
	}
	switch f := p.live.Forwarding; {
	case p.live.FilterErr != nil:
		p.problem("Forwarding was not changed, because the firewall cannot be read: %s.", p.live.FilterErr)
	case !p.live.Filtered:
		if f.Any() {
			p.step(Step{Verb: stopForwarding})
		}
		p.problem("The gateway does not forward packets, because the firewall is not loaded.")
	case !f.IPv4 || !f.IPv6 || !f.KeepsSecondaries:
		p.step(Step{Verb: forward})
	}
}

// ours reports whether the gateway created the link. The alias alone is not enough: nobody creates Ethernet ports.
func ours(l host.Link) bool {
	return strings.HasPrefix(l.Alias, host.OwnAlias) && slices.Contains([]string{vlan, bond, bridge}, l.Kind)
}

func (l *WantedLink) like(live host.Link) bool {
	switch {
	case l.Type != live.Kind:
		return false
	case l.Type == vlan:
		return l.Parent == live.Parent && l.VLANID == live.VLANID
	case l.Type == bond:
		return l.BondMode == live.BondMode
	}
	return true
}

// removeLinks removes links of ours that are not wanted, or not like this; a vlan before its parent.
func (p *planner) removeLinks() {
	var doomed []host.Link
	for _, l := range p.live.Links {
		if w := p.wanted[l.Name]; ours(l) && (w == nil || !w.made() || !w.like(l)) {
			p.doomed[l.Name] = true
			doomed = append(doomed, l)
		}
	}
	depth := func(l host.Link) (n int) {
		for ; l.Parent != "" && n < len(p.live.Links); n++ {
			l = p.links[l.Parent]
		}
		return n
	}
	slices.SortStableFunc(doomed, func(a, b host.Link) int { return cmp.Compare(depth(b), depth(a)) })
	for _, l := range doomed {
		p.step(Step{Verb: removeLink, Link: l.Name})
	}
}

// makeLinks creates missing links, parents first, and takes over existing ones that fit.
func (p *planner) makeLinks() {
	done := map[string]bool{}
	var visit func(w *WantedLink)
	visit = func(w *WantedLink) {
		if done[w.Name] {
			return
		}
		done[w.Name] = true
		if parent := p.wanted[w.Parent]; parent != nil {
			visit(parent)
		}
		if !w.made() {
			p.expect(w)
			return
		}
		p.makeLink(w)
	}
	for i := range p.c.Links {
		visit(&p.c.Links[i])
	}
}

// expect reports a missing link that others must create. A tunnel is managed elsewhere, and may come later.
func (p *planner) expect(w *WantedLink) {
	if p.there(w.Name) {
		return
	}
	p.missing[w.Name] = true
	switch {
	case w.Type == ethernet:
		p.problem("Interface %s is missing.", w.Name)
	case len(w.Addresses) > 0:
		p.problem("The tunnel %s is missing, so it has no addresses.", w.Name)
	}
}

func (p *planner) makeLink(w *WantedLink) {
	alias := host.OwnAlias + w.ID.String()
	live, exists := p.links[w.Name]
	exists = exists && !p.doomed[w.Name]
	switch {
	case exists && ours(live):
		if live.Alias != alias {
			p.step(Step{Verb: markLink, Link: w.Name, Alias: alias})
		}
	case exists && w.like(live) && live.Alias == "":
		p.step(Step{Verb: markLink, Link: w.Name, Alias: alias})
	case exists:
		p.missing[w.Name] = true
		p.problem("%s should be a %s, but the machine has another interface with this name. Remove that, or choose another name.", w.Name, w.Type)
	case w.Type == vlan && !p.there(w.Parent):
		p.missing[w.Name] = true
		p.problem("VLAN %s cannot be created: parent interface %s is missing.", w.Name, w.Parent)
	default:
		p.step(Step{Verb: createLink, Link: w.Name, New: host.NewLink{
			Name: w.Name, Alias: alias, Kind: w.Type, Parent: w.Parent, VLANID: w.VLANID, BondMode: w.BondMode,
		}})
	}
}

// members assigns links to their bridges and bonds, and releases unlisted members of ours.
func (p *planner) members() {
	for _, l := range p.live.Links {
		w := p.wanted[l.Master]
		if w != nil && w.made() && !p.doomed[l.Master] && !p.doomed[l.Name] && !slices.Contains(w.Members, l.Name) {
			p.step(Step{Verb: freeMember, Link: l.Name, Master: l.Master})
		}
	}
	for _, w := range p.c.Links {
		for _, name := range w.Members {
			l := p.links[name]
			switch {
			case p.missing[w.Name]:
			case !p.there(name):
				p.problem("%s cannot be a member of %s, because it is missing.", name, w.Name)
			case l.Master != w.Name || p.doomed[name] || p.doomed[w.Name]:
				p.step(Step{Verb: addMember, Link: name, Master: w.Name})
			}
		}
	}
}

// settings brings links up and sets their mtu. A vlan comes after its parent, whose mtu limits its own.
func (p *planner) settings() {
	for _, w := range p.c.Links {
		for _, name := range w.Members {
			if p.wanted[name] == nil && p.there(name) && !p.links[name].Up() {
				p.step(Step{Verb: raiseLink, Link: name})
			}
		}
	}
	ordered := slices.Clone(p.c.Links)
	slices.SortStableFunc(ordered, func(a, b WantedLink) int { return cmp.Compare(p.depth(a), p.depth(b)) })
	for _, w := range ordered {
		if p.missing[w.Name] {
			continue
		}
		live := p.links[w.Name]
		if p.doomed[w.Name] {
			live = host.Link{}
		}
		switch other := w.MTU != 0 && live.MTU != w.MTU; {
		case other && strings.HasPrefix(live.Alias, host.OwnTunnel):
			// Two rooms that set it would keep overriding each other.
			p.problem("%s is a tunnel of the gateway with an MTU of %d. Change the MTU there, or remove the %d from the interface.", w.Name, live.MTU, w.MTU)
		case other:
			p.step(Step{Verb: setMTU, Link: w.Name, MTU: w.MTU})
		}
		if w.Type != wireguard && !live.Up() {
			p.step(Step{Verb: raiseLink, Link: w.Name})
		}
	}
}

// depth returns how many parents a link has.
func (p *planner) depth(w WantedLink) (n int) {
	for parent := p.wanted[w.Parent]; parent != nil && n < len(p.c.Links); n++ {
		parent = p.wanted[parent.Parent]
	}
	return n
}

// addresses adds what is missing, and then removes what is ours and not wanted. The order matters because a link that loses its last
// address loses its routes, including foreign ones.
func (p *planner) addresses() {
	var remove []Step
	for _, l := range p.live.Links {
		if p.doomed[l.Name] {
			continue // its addresses go with it
		}
		for _, a := range l.Addrs {
			w := p.wanted[l.Name]
			if a.Protocol == host.RouteProtocol && (w == nil || !slices.ContainsFunc(w.Addresses, func(x WantedAddress) bool { return x.Address == a.Prefix() })) {
				remove = append(remove, Step{Verb: removeAddress, Link: l.Name, Address: host.NewAddr{Prefix: a.Prefix()}})
			}
		}
	}
	for _, w := range p.c.Links {
		if p.missing[w.Name] {
			continue
		}
		var has []host.LinkAddr
		if !p.doomed[w.Name] {
			has = p.links[w.Name].Addrs
		}
		for _, a := range w.Addresses {
			remove = p.address(w, a, has, remove)
		}
	}
	p.Steps = append(p.Steps, remove...)
}

// address adds one address, and returns what remains to be removed.
func (p *planner) address(w WantedLink, a WantedAddress, has []host.LinkAddr, remove []Step) []Step {
	for _, x := range has {
		switch {
		case x.Prefix() == a.Address && x.Duplicate:
			p.problem("%s on %s is not used, because another device on the network has it.", a.Address.Addr(), w.Name)
			return remove
		case x.Prefix() == a.Address && x.Protocol == host.RouteProtocol:
			return remove
		case x.Prefix() != a.Address && x.Local == a.Address.Addr().String() && a.Address.Addr().Is6():
			// The kernel has an IPv6 address of a link only once, whatever its length.
			if x.Protocol != host.RouteProtocol {
				p.problem("%s is already on %s with prefix length %d, set by another program. Remove it there, or use this prefix length.", a.Address.Addr(), w.Name, x.PrefixLen)
				return remove
			}
			first := slices.IndexFunc(remove, func(s Step) bool { return s.Link == w.Name && s.Address.Prefix == x.Prefix() })
			p.step(remove[first])
			remove = slices.Delete(remove, first, first+1)
		}
	}
	p.step(Step{Verb: setAddress, Link: w.Name, Address: host.NewAddr{Prefix: a.Address, AtOnce: a.VIP}})
	return remove
}

// routeKey is the kernel's key of a route.
type routeKey struct {
	table       uint32
	destination netip.Prefix
	metric      uint32
}

// Numbers of the kernel's protocols. Routes derived from something else cannot be taken over.
const (
	protocolRedirect = 1
	protocolKernel   = 2
	protocolRA       = 9
)

// routes adds what is missing, and then removes what is ours and not wanted.
func (p *planner) routes() {
	has := map[routeKey][]host.Route{}
	for _, r := range p.live.Routes {
		if p.doomed[r.Dev] {
			continue // it goes with its link
		}
		key := routeKey{r.Table, r.Destination, r.Metric}
		has[key] = append(has[key], r)
	}
	kept, handled := map[routeKey]host.Route{}, map[routeKey]bool{}
	for _, w := range p.c.Routes {
		r := host.NewRoute{Destination: w.Destination, Gateway: w.Gateway, Dev: w.Dev, Metric: w.Metric}
		var known bool
		if r.Table, known = w.Table.number(p.live.Tables); !known {
			p.problem("Route %s: this system has no routing table %s.", routeText(r), w.Table)
			continue
		}
		if r.Dev != "" && !p.there(r.Dev) {
			p.problem("Route %s: interface %s is missing.", routeText(r), r.Dev)
			continue
		}
		key := routeKey{r.Table, r.Destination, r.Metric}
		if handled[key] {
			p.problem("Route %s: another route in table %s has the same metric.", routeText(r), w.Table)
			continue
		}
		handled[key] = true
		if same := p.route(r, has[key]); same != nil {
			kept[key] = *same
		}
	}
	for _, r := range p.live.Routes {
		key := routeKey{r.Table, r.Destination, r.Metric}
		replaced := handled[key] && kept[key] == (host.Route{})
		if r.Protocol == host.RouteProtocol && !p.doomed[r.Dev] && kept[key] != r && !replaced {
			p.step(Step{Verb: removeRoute, Link: r.Dev, Route: host.NewRoute{Destination: r.Destination, Gateway: r.Gateway, Dev: r.Dev, Metric: r.Metric, Table: r.Table}})
		}
	}
}

// route adds one route. It returns the existing one if that is as wanted.
func (p *planner) route(r host.NewRoute, has []host.Route) *host.Route {
	foreign := 0
	for _, x := range has {
		same := x.Type == "unicast" && x.Gateway == r.Gateway && (r.Dev == "" || x.Dev == r.Dev)
		switch {
		case x.Protocol == host.RouteProtocol && same:
			return &x
		case x.Protocol != host.RouteProtocol && !(same && len(has) == 1 && !slices.Contains([]uint8{protocolRedirect, protocolKernel, protocolRA}, x.Protocol)):
			foreign++
		}
	}
	switch {
	case len(has) == 0:
		p.step(Step{Verb: addRoute, Link: r.Dev, Route: r})
	case foreign > 0:
		p.problem("Route %s: the kernel has another route with the same metric that the gateway did not create. Remove that, or choose another metric.", routeText(r))
	default:
		p.step(Step{Verb: replaceRoute, Link: r.Dev, Route: r})
	}
	return nil
}
