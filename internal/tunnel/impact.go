package tunnel

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/resource"
)

// mountImpact lets previews list the peers that a change disconnects.
func (r *Room) mountImpact() {
	resource.Assess(r.Resources, resource.Assessor[Ends]{
		Area: resource.TunnelPeers, Feeds: []apply.ID{apply.Tunnel}, Load: r.Ends, Compare: r.comparePeers,
	})
}

// comparePeers checks every peer before and after a change.
func (r *Room) comparePeers(ctx context.Context, was, now Ends) (int, []resource.Affected, error) {
	online, err := r.online(ctx)
	if err != nil {
		return 0, nil, fault.Wrap(fault.Unavailable, err, "WireGuard could not be asked which peers are connected.")
	}
	checked := 0
	var reached []resource.Affected
	for i := range was.tunnels {
		t := &was.tunnels[i]
		newT := now.tunnel(t)
		for n := range t.Peers {
			p := &t.Peers[n]
			checked++
			x := resource.Affected{What: p.called(t), Before: "not connected"}
			if online[linkPeer{t.Name.String(), p.PublicKey}] {
				x.Before = "connected"
			}
			if x.Effect, x.After = p.effect(t, newT); x.Effect == "" {
				continue
			}
			if x.Before == "not connected" {
				x.Effect = map[resource.Effect]resource.Effect{resource.Cut: resource.Blocked, resource.Rerouted: resource.Redirected}[x.Effect]
			}
			reached = append(reached, x)
		}
	}
	return checked, reached, nil
}

// called describes a peer for people.
func (p *WantedPeer) called(t *Wanted) string {
	if len(p.AllowedIPs) == 0 {
		return fmt.Sprintf("%s of %s", p.Name, t.Name)
	}
	return fmt.Sprintf("%s of %s (%s)", p.Name, t.Name, p.AllowedIPs[0])
}

// tunnel returns the new state of a tunnel; nil if it is removed.
func (e Ends) tunnel(t *Wanted) *Wanted {
	for i := range e.tunnels {
		if e.tunnels[i].ID == t.ID {
			return &e.tunnels[i]
		}
	}
	return nil
}

// effect returns the effect of a change of its tunnel on a connected peer, with a description; empty if there is none.
func (p *WantedPeer) effect(t, newT *Wanted) (resource.Effect, string) {
	if newT == nil {
		return resource.Cut, fmt.Sprintf("the tunnel %s is removed or off", t.Name)
	}
	n := slices.IndexFunc(newT.Peers, func(x WantedPeer) bool { return x.PublicKey == p.PublicKey })
	switch {
	case t.PublicKey != newT.PublicKey:
		return resource.Cut, fmt.Sprintf("the tunnel %s has another key", t.Name)
	case n < 0 && slices.ContainsFunc(newT.Peers, func(x WantedPeer) bool { return x.Name == p.Name }):
		return resource.Cut, "it needs another key"
	case n < 0:
		return resource.Cut, "it is removed or off"
	}
	newP := &newT.Peers[n]
	switch {
	case t.ListenPort != newT.ListenPort && newP.Endpoint.IsZero(): // the gateway does not dial it
		return resource.Cut, fmt.Sprintf("the tunnel %s listens on port %d instead of %d", t.Name, newT.ListenPort, t.ListenPort)
	case p.PresharedKey != newP.PresharedKey: // which is needed for the next handshake
		return resource.Blocked, "within minutes, it needs another preshared key"
	case t.Name != newT.Name:
		return resource.Rerouted, fmt.Sprintf("the tunnel %s becomes %s", t.Name, newT.Name)
	case p.Endpoint != newP.Endpoint && !newP.Endpoint.IsZero():
		return resource.Rerouted, fmt.Sprintf("the gateway looks for it at %s", newP.Endpoint)
	}
	if lost := uncovered(p.AllowedIPs, newP.AllowedIPs); len(lost) > 0 {
		effect := resource.Cut
		if slices.ContainsFunc(newP.AllowedIPs, func(n netip.Prefix) bool { return slices.ContainsFunc(p.AllowedIPs, n.Overlaps) }) {
			effect = resource.Rerouted
		}
		return effect, fmt.Sprintf("it no longer has %s", lost[0])
	}
	if lost := without(own(t), own(newT)); len(lost) > 0 {
		return resource.Rerouted, fmt.Sprintf("%s is no longer the gateway's address in the tunnel", lost[0])
	}
	return "", ""
}

// own returns the gateway's addresses in a tunnel.
func own(t *Wanted) (list []netip.Addr) {
	for _, p := range t.Addresses {
		list = append(list, p.Addr())
	}
	return list
}

// uncovered returns the networks that no other network contains.
func uncovered(list, others []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(list), func(x netip.Prefix) bool {
		return slices.ContainsFunc(others, func(n netip.Prefix) bool { return n.Bits() <= x.Bits() && n.Contains(x.Addr()) })
	})
}

// without returns the items that are not in another list.
func without[T comparable](list, other []T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return slices.Contains(other, x) })
}

type linkPeer struct {
	link string
	key  Key
}

// online returns the peers that have recently been heard from.
func (r *Room) online(ctx context.Context) (map[linkPeer]bool, error) {
	ctx, cancel := host.Asking(ctx)
	defer cancel()
	devices, err := r.Host.TunnelDevices(ctx)
	found := map[linkPeer]bool{}
	for _, d := range devices {
		for _, p := range d.Peers {
			found[linkPeer{d.Name, keyOf(p.PublicKey)}] = !p.LastHandshake.IsZero() && r.Clock.Now().Sub(p.LastHandshake) <= onlineWithin
		}
	}
	return found, err
}
