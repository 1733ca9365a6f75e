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

// mountImpact has previews tell which peers a change disconnects.
func (r *Room) mountImpact() {
	resource.Assess(r.Resources, resource.Assessor[Ends]{
		Area: resource.TunnelPeers, Feeds: []apply.ID{apply.Tunnel}, Load: r.Ends, Compare: r.comparePeers,
	})
}

// comparePeers looks for every peer in the tunnels as they would be.
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

// called is what people call a peer.
func (p *WantedPeer) called(t *Wanted) string {
	if len(p.AllowedIPs) == 0 {
		return fmt.Sprintf("%s of %s", p.Name, t.Name)
	}
	return fmt.Sprintf("%s of %s (%s)", p.Name, t.Name, p.AllowedIPs[0])
}

// tunnel is what becomes of a tunnel; nil if it goes.
func (e Ends) tunnel(t *Wanted) *Wanted {
	for i := range e.tunnels {
		if e.tunnels[i].ID == t.ID {
			return &e.tunnels[i]
		}
	}
	return nil
}

// effect is what a change of its tunnel does to a peer that is connected, in words too; empty if it does nothing.
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
	case p.PresharedKey != newP.PresharedKey: // which is asked for at the next handshake
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

// own are the gateway's addresses in a tunnel.
func own(t *Wanted) (list []netip.Addr) {
	for _, p := range t.Addresses {
		list = append(list, p.Addr())
	}
	return list
}

// uncovered are the networks that no other network contains.
func uncovered(list, others []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(list), func(x netip.Prefix) bool {
		return slices.ContainsFunc(others, func(n netip.Prefix) bool { return n.Bits() <= x.Bits() && n.Contains(x.Addr()) })
	})
}

// without are the items that another list does not have.
func without[T comparable](list, other []T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return slices.Contains(other, x) })
}

type linkPeer struct {
	link string
	key  Key
}

// online are the peers that were heard from a moment ago.
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
