package tunnel

import (
	"context"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
)

// peerStep changes one peer, independently of the others.
type peerStep struct {
	link     string
	change   host.TunnelChange
	dial     *WantedPeer // whose endpoint is to be set in the kernel
	add, del []host.NewRoute
}

// plan returns the step for a change of peers, from their rows alone.
func (r *Room) plan(ctx context.Context, tx *db.Tx, rows []apply.Row) (apply.Step, error) {
	var steps []peerStep
	for _, row := range rows {
		if row.Kind != r.peers.Name {
			return nil, nil
		}
		was, _ := row.Was.(*Peer)
		now, _ := row.Now.(*Peer)
		s, ok, err := r.planPeer(ctx, tx, was, now)
		if err != nil || !ok {
			return nil, err
		}
		if s != nil {
			steps = append(steps, *s)
		}
	}
	return func(ctx context.Context) error {
		for i := range steps {
			if err := r.do(ctx, &steps[i]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func (r *Room) planPeer(ctx context.Context, tx *db.Tx, was, now *Peer) (*peerStep, bool, error) {
	var i *Interface
	var err error
	if now != nil {
		i = now.parent
	} else {
		i, err = r.interfaces.Get(ctx, tx, was.InterfaceID)
	}
	if err != nil || !i.Active {
		return nil, err == nil, err
	}
	s := peerStep{link: i.Name.String()}
	before, err := r.activePeer(was)
	if err != nil {
		return nil, false, nil // a peer whose key cannot be decrypted is left out, and the full pass reports it
	}
	after, err := r.activePeer(now)
	if err != nil {
		return nil, false, nil
	}
	if before != nil && (after == nil || before.PublicKey != after.PublicKey) {
		s.change.Peers = append(s.change.Peers, host.TunnelPeerChange{PublicKey: host.TunnelKey(before.PublicKey.Bytes()), Remove: true})
	}
	own := i.AddressCIDR.List()
	var had, has []netip.Prefix
	if before != nil {
		had = before.AllowedIPs
	}
	if after != nil {
		has = after.AllowedIPs
		var live *host.TunnelPeer
		if before != nil && before.PublicKey == after.PublicKey {
			live = &host.TunnelPeer{PresharedKey: host.TunnelKey(before.PresharedKey.Bytes()), Keepalive: before.Keepalive, AllowedIPs: before.AllowedIPs}
		}
		change, differs := after.change(live, netip.AddrPort{})
		if !after.Endpoint.IsZero() && (live == nil || before.Endpoint != after.Endpoint) {
			s.dial, differs = after, true
		}
		if differs {
			s.change.Peers = append(s.change.Peers, change)
		}
	}
	for _, n := range had {
		if routed(own, n) && !slices.Contains(has, n) {
			s.del = append(s.del, routeTo(s.link, n))
		}
	}
	for _, n := range has {
		if routed(own, n) && !slices.Contains(had, n) {
			s.add = append(s.add, routeTo(s.link, n))
		}
	}
	// Default routes need routing rules, which others may need, too.
	everywhere := func(n host.NewRoute) bool { return n.Destination.Bits() == 0 }
	return &s, !slices.ContainsFunc(s.del, everywhere) && !slices.ContainsFunc(s.add, everywhere), nil
}

// activePeer returns the desired peer of a row; nil if the row is off or missing.
func (r *Room) activePeer(p *Peer) (*WantedPeer, error) {
	if p == nil || !p.Active {
		return nil, nil
	}
	w, err := r.wantedPeer(p)
	return &w, err
}

// do changes a peer of a running tunnel.
func (r *Room) do(ctx context.Context, s *peerStep) error {
	if s.dial != nil {
		at, err := r.resolve(ctx, s.dial.Endpoint)
		if err != nil {
			return err
		}
		s.change.Peers[len(s.change.Peers)-1].Endpoint = at
	}
	for _, n := range s.del {
		if err := r.Host.RemoveRoute(ctx, n); err != nil {
			return err
		}
	}
	if len(s.change.Peers) > 0 {
		if err := r.Host.ChangeTunnel(ctx, s.link, s.change); err != nil {
			return err
		}
	}
	for _, n := range s.add {
		if err := r.Host.AddRoute(ctx, n); err != nil {
			return err
		}
	}
	if s.dial != nil {
		r.dialler.mu.Lock()
		defer r.dialler.mu.Unlock()
		if r.dialler.endpoints != nil {
			r.dialler.endpoints[peerID{s.link, s.dial.PublicKey}] = s.dial.Endpoint
		}
	}
	return nil
}
