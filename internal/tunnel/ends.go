package tunnel

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
)

// Ends are the active tunnels with their peers.
type Ends struct{ tunnels []Wanted }

func (r *Room) Ends(ctx context.Context, q db.Querier) (Ends, error) {
	c, err := r.load(ctx, q)
	return Ends{c.Tunnels}, err
}

func (e Ends) Equal(other Ends) bool { return reflect.DeepEqual(e, other) }

// owns reports whether an address is the gateway's in a tunnel.
func (e Ends) owns(a netip.Addr) bool {
	return slices.ContainsFunc(e.tunnels, func(t Wanted) bool {
		return slices.ContainsFunc(t.Addresses, func(p netip.Prefix) bool { return p.Addr() == a })
	})
}

// end returns the peer that has an address: of several, the one with the smallest network.
func (e Ends) end(a netip.Addr) (t *Wanted, p *WantedPeer) {
	longest := -1
	for i := range e.tunnels {
		for n := range e.tunnels[i].Peers {
			for _, network := range e.tunnels[i].Peers[n].AllowedIPs {
				if network.Contains(a) && network.Bits() > longest {
					longest, t, p = network.Bits(), &e.tunnels[i], &e.tunnels[i].Peers[n]
				}
			}
		}
	}
	return t, p
}

// agree reports whether a peer can still reach a tunnel: with the same keys and, unless the gateway dials, on the same port.
func agree(t *Wanted, p *WantedPeer, newT *Wanted, newP *WantedPeer) bool {
	return t.PublicKey == newT.PublicKey && p.PublicKey == newP.PublicKey && p.PresharedKey == newP.PresharedKey && (t.ListenPort == newT.ListenPort || !newP.Endpoint.IsZero())
}

// claim returns the tunnel with a route to an address, and the network: of several, the smallest.
func (e Ends) claim(a netip.Addr) (name string, network netip.Prefix) {
	for i := range e.tunnels {
		t := &e.tunnels[i]
		list := slices.Clone(t.Addresses)
		for n := range t.Peers {
			for _, x := range t.Peers[n].AllowedIPs {
				if routed(t.Addresses, x) {
					list = append(list, x)
				}
			}
		}
		for _, x := range list {
			if x.Contains(a) && (!network.IsValid() || x.Bits() > network.Bits()) {
				name, network = t.Name.String(), x.Masked()
			}
		}
	}
	return name, network
}

// Detour returns the new way of packets to an address with the given present way, when the tunnels change. route is their route in the
// main table. It returns a fault for what cannot be foreseen.
func Detour(was, now Ends, to netip.Addr, is host.Way, route host.Route) (host.Way, error) {
	switch had, has := was.owns(to), now.owns(to); {
	case had && !has && is.Local:
		return host.Way{Unreachable: fmt.Sprintf("%s is no longer an address of the gateway", to)}, nil
	case has && !had:
		return host.Way{Local: true}, nil
	case is.Local:
		return is, nil
	}
	t, p := was.end(to)
	newT, newP := now.end(to)
	switch {
	case t == nil || is.Interface != t.Name.String():
		return now.takeOver(was, to, is, route)
	case newT == nil:
		return host.Way{Unreachable: fmt.Sprintf("%s is no longer behind the tunnel %s", to, t.Name)}, nil
	case !agree(t, p, newT, newP):
		return host.Way{Unreachable: fmt.Sprintf("%s of the tunnel %s could no longer connect", p.Name, t.Name)}, nil
	}
	is.Interface = newT.Name.String()
	return is, nil
}

// takeOver handles packets outside of tunnels: they enter a tunnel that gets a route to a smaller network than theirs.
func (e Ends) takeOver(was Ends, to netip.Addr, is host.Way, route host.Route) (host.Way, error) {
	had, before := was.claim(to)
	switch name, network := e.claim(to); {
	case !network.IsValid(), had == name && before == network, route.Destination.IsValid() && network.Bits() < route.Destination.Bits():
		return is, nil // it goes another way, and still does
	case network.Bits() == 0 || route.Dev != is.Interface:
		return is, fault.New(fault.Unavailable, "The gateway cannot predict whether packets to %s would go through the tunnel %s.", to, name)
	case network == route.Destination:
		return is, nil // the kernel keeps the route that it has
	default:
		return host.Way{Interface: name}, nil
	}
}
