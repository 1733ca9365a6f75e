package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
)

// mainTable is the number of the routing table that packets use unless a rule says otherwise.
const mainTable = 254

// Forecast is the effect of a configuration on the kernel's routes.
type Forecast struct {
	was, now []host.Route // of the main table
	lost     map[netip.Addr]bool
	gained   map[netip.Addr]bool
	// moved lists the networks whose route is added, removed or changed.
	moved []netip.Prefix
}

func (r *Room) Stored(ctx context.Context, q db.Querier) (Config, error) { return r.load(ctx, q) }

// Forecast predicts the effect of a configuration on the kernel's routes. It returns a fault for what cannot be predicted.
func (r *Room) Forecast(ctx context.Context, c Config) (*Forecast, error) {
	live, err := ReadLive(ctx, r.Host)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "The kernel's routes cannot be read: %s.", err)
	}
	return foresee(live, MakePlan(live, c).Steps)
}

func foresee(live Live, steps []Step) (*Forecast, error) {
	f := &Forecast{lost: map[netip.Addr]bool{}, gained: map[netip.Addr]bool{}}
	for _, r := range live.Routes {
		if r.Table == mainTable {
			f.was = append(f.was, r)
		}
	}
	f.now = slices.Clone(f.was)
	addresses := map[string][]netip.Prefix{}
	for _, l := range live.Links {
		for _, a := range l.Addrs {
			addresses[l.Name] = append(addresses[l.Name], a.Prefix())
		}
	}
	for _, s := range steps {
		switch s.Verb {
		case acceptRouters, forward, markLink, setMTU, createLink, raiseLink:
		case setAddress:
			f.bind(addresses, s.Link, s.Address.Prefix)
		case removeAddress:
			f.unbind(addresses, s.Link, s.Address.Prefix)
		case removeLink:
			for _, a := range slices.Clone(addresses[s.Link]) {
				f.unbind(addresses, s.Link, a)
			}
			f.forget(func(r host.Route) bool { return r.Dev == s.Link })
		case addRoute, replaceRoute, removeRoute:
			if s.Route.Table != mainTable {
				return nil, fault.New(fault.Unavailable, "The change alters a route of another routing table. The gateway cannot predict which packets use it.")
			}
			f.forget(func(r host.Route) bool { return r.Destination == s.Route.Destination && r.Metric == s.Route.Metric })
			if s.Verb != removeRoute {
				f.now = append(f.now, host.Route{Destination: s.Route.Destination, Gateway: s.Route.Gateway, Dev: f.deviceOf(s.Route), Metric: s.Route.Metric, Table: mainTable, Type: "unicast"})
			}
		default:
			return nil, fault.New(fault.Unavailable, "The gateway cannot predict the result of this: %s.", s)
		}
	}
	for _, x := range []struct{ a, b []host.Route }{{f.was, f.now}, {f.now, f.was}} {
		for _, r := range x.a {
			if !slices.Contains(x.b, r) && !slices.Contains(f.moved, r.Destination) {
				f.moved = append(f.moved, r.Destination)
			}
		}
	}
	return f, nil
}

// Still reports whether the configuration leaves the kernel's routes unchanged.
func (f *Forecast) Still() bool { return len(f.moved)+len(f.lost)+len(f.gained) == 0 }

// Route returns the predicted route to an address; zero if there is none.
func (f *Forecast) Route(to netip.Addr) host.Route { return lookup(f.now, to) }

// bind adds an address to a link, and the route to its network.
func (f *Forecast) bind(addresses map[string][]netip.Prefix, link string, a netip.Prefix) {
	if slices.Contains(addresses[link], a) {
		return // it only becomes the gateway's
	}
	addresses[link] = append(addresses[link], a)
	if f.gained[a.Addr()] = !f.lost[a.Addr()]; f.lost[a.Addr()] {
		delete(f.lost, a.Addr())
		delete(f.gained, a.Addr())
	}
	onLink := func(r host.Route) bool { return r.Destination == a.Masked() && r.Dev == link && !r.Gateway.IsValid() }
	if !a.IsSingleIP() && !slices.ContainsFunc(f.now, onLink) {
		f.now = append(f.now, host.Route{Destination: a.Masked(), Dev: link, Table: mainTable, Type: "unicast", Protocol: protocolKernel})
	}
}

// unbind removes an address from a link, and the route to its network unless another address is in it. Without its last IPv4 address a
// link loses all its IPv4 routes.
func (f *Forecast) unbind(addresses map[string][]netip.Prefix, link string, a netip.Prefix) {
	addresses[link] = slices.DeleteFunc(addresses[link], func(x netip.Prefix) bool { return x == a })
	if f.gained[a.Addr()] {
		delete(f.gained, a.Addr())
	} else {
		elsewhere := false
		for _, list := range addresses {
			elsewhere = elsewhere || slices.ContainsFunc(list, func(x netip.Prefix) bool { return x.Addr() == a.Addr() })
		}
		if !elsewhere {
			f.lost[a.Addr()] = true
		}
	}
	if !slices.ContainsFunc(addresses[link], func(x netip.Prefix) bool { return x.Masked() == a.Masked() }) {
		f.forget(func(r host.Route) bool { return r.Dev == link && r.Destination == a.Masked() && !r.Gateway.IsValid() })
	}
	f.forget(func(r host.Route) bool { return r.Dev == link && r.PrefSrc == a.Addr() })
	if a.Addr().Is4() && !slices.ContainsFunc(addresses[link], func(x netip.Prefix) bool { return x.Addr().Is4() }) {
		f.forget(func(r host.Route) bool { return r.Dev == link && r.Destination.Addr().Is4() })
	}
}

func (f *Forecast) forget(which func(host.Route) bool) { f.now = slices.DeleteFunc(f.now, which) }

// deviceOf returns the link that a route leaves by: its own, or that of its router.
func (f *Forecast) deviceOf(r host.NewRoute) string {
	if r.Dev != "" {
		return r.Dev
	}
	return lookup(f.now, r.Gateway).Dev
}

// lookup returns the route to an address; zero if there is none.
func lookup(routes []host.Route, to netip.Addr) (best host.Route) {
	for _, r := range routes {
		if !r.Destination.Contains(to) {
			continue
		}
		longer := r.Destination.Bits() - best.Destination.Bits()
		if !best.Destination.IsValid() || longer > 0 || longer == 0 && r.Metric < best.Metric {
			best = r
		}
	}
	return best
}

// Way returns the new way of packets to an address with the given present way.
func (f *Forecast) Way(to netip.Addr, is host.Way) (host.Way, error) {
	switch {
	case f.lost[to] && is.Local:
		return host.Way{Unreachable: fmt.Sprintf("%s is no longer an address of the gateway", to)}, nil
	case f.gained[to]:
		return host.Way{Local: true}, nil
	case is.Local:
		return is, nil
	case f.lost[is.Source]:
		is.Source = netip.Addr{} // the kernel chooses another
	}
	if !slices.ContainsFunc(f.moved, func(p netip.Prefix) bool { return p.Contains(to) }) {
		return is, nil
	}
	was, now := lookup(f.was, to), lookup(f.now, to)
	switch {
	case was.Dev != is.Interface:
		return is, fault.New(fault.Unavailable, "The gateway cannot predict the route to %s, because the routing table is not the only thing that decides it.", to)
	case now == was:
		return is, nil
	case !now.Destination.IsValid() || now.Type != "unicast":
		return host.Way{Unreachable: fmt.Sprintf("there is no route to %s", to)}, nil
	case now.Dev == is.Interface:
		is.Via = now.Gateway
		return is, nil
	}
	return host.Way{Interface: now.Dev, Via: now.Gateway}, nil
}
