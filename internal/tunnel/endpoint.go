package tunnel

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

const (
	// onlineWithin is the maximum age of the last handshake of an online peer: WireGuard negotiates new keys every two minutes, and
	// discards old ones after three.
	onlineWithin = 180 * time.Second
	// resolveWithin limits a lookup; resolvedFor is how long an answer is cached, and failedFor a failure.
	resolveWithin = 2 * time.Second
	resolvedFor   = 30 * time.Second
	failedFor     = 5 * time.Second
)

// dialler remembers the endpoints of peers. WireGuard itself only knows addresses, and learns a peer's address from its packets: that is
// left alone until the peer is lost or the operator changes the endpoint.
type dialler struct {
	mu        sync.Mutex
	endpoints map[peerID]Endpoint // the endpoint last set in the kernel
	names     map[string]answer
}

// peerID identifies a peer of a link.
type peerID struct {
	link string
	key  Key
}

type answer struct {
	at      time.Time
	address netip.Addr
	err     error
}

// lost is a peer to be dialled.
type lost struct {
	id       peerID
	name     string
	endpoint Endpoint
	stays    bool // the kernel's present endpoint is acceptable
}

// lostPeers returns the peers without an endpoint in the kernel, with another one than last set, or not heard from for long.
func (r *Room) lostPeers(live Live, c Config) (list []lost) {
	has := map[string]map[host.TunnelKey]*host.TunnelPeer{}
	for i := range live.Devices {
		d := &live.Devices[i]
		has[d.Name] = make(map[host.TunnelKey]*host.TunnelPeer, len(d.Peers))
		for n := range d.Peers {
			has[d.Name][d.Peers[n].PublicKey] = &d.Peers[n]
		}
	}
	for i := range c.Tunnels {
		t := &c.Tunnels[i]
		for n := range t.Peers {
			p := &t.Peers[n]
			if p.Endpoint.IsZero() {
				continue
			}
			now, id := has[t.Name.String()][host.TunnelKey(p.PublicKey.Bytes())], peerID{t.Name.String(), p.PublicKey}
			stays := now != nil && now.Endpoint.IsValid() && !r.endpointChanged(id, p.Endpoint)
			if !stays || r.Clock.Now().Sub(now.LastHandshake) > onlineWithin {
				list = append(list, lost{id, p.Name, p.Endpoint, stays})
			}
		}
	}
	return list
}

// whereToDial resolves the endpoints of lost peers, and returns those that cannot be resolved.
func (r *Room) whereToDial(ctx context.Context, live Live, c Config) (dial Dial, unknown map[peerID]string) {
	list := r.lostPeers(live, c)
	found := make([]netip.AddrPort, len(list))
	failed := make([]error, len(list))
	var asking sync.WaitGroup
	limit := make(chan struct{}, 16)
	for i, x := range list {
		asking.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			found[i], failed[i] = r.resolve(ctx, x.endpoint)
		})
	}
	asking.Wait()
	at := map[peerID]netip.AddrPort{}
	unknown = map[peerID]string{}
	for i, x := range list {
		switch {
		case failed[i] == nil:
			at[x.id] = found[i]
		case !x.stays:
			unknown[x.id] = fmt.Sprintf("the endpoint %s of the peer %s of %s cannot be resolved: %v", x.endpoint, x.name, x.id.link, failed[i])
		}
	}
	return func(t *Wanted, p *WantedPeer) netip.AddrPort { return at[peerID{t.Name.String(), p.PublicKey}] }, unknown
}

// endpointChanged reports whether the kernel was last set to another endpoint. What an earlier process has set counts as unchanged.
func (r *Room) endpointChanged(id peerID, e Endpoint) bool {
	r.dialler.mu.Lock()
	defer r.dialler.mu.Unlock()
	last, known := r.dialler.endpoints[id]
	return known && last != e
}

// dialled records the endpoints set in the kernel, except for unresolved ones.
func (r *Room) dialled(c Config, unknown map[peerID]string) {
	r.dialler.mu.Lock()
	defer r.dialler.mu.Unlock()
	endpoints := map[peerID]Endpoint{}
	for i := range c.Tunnels {
		for _, p := range c.Tunnels[i].Peers {
			id := peerID{c.Tunnels[i].Name.String(), p.PublicKey}
			if _, failed := unknown[id]; failed {
				endpoints[id] = r.dialler.endpoints[id]
			} else {
				endpoints[id] = p.Endpoint
			}
		}
	}
	r.dialler.endpoints = endpoints
}

func (r *Room) resolve(ctx context.Context, e Endpoint) (netip.AddrPort, error) {
	name, port := e.parts()
	if a, err := netip.ParseAddr(name); err == nil {
		return netip.AddrPortFrom(a, port), nil
	}
	r.dialler.mu.Lock()
	known, ok := r.dialler.names[name]
	r.dialler.mu.Unlock()
	good := resolvedFor
	if known.err != nil {
		good = failedFor
	}
	if !ok || r.Clock.Now().Sub(known.at) > good {
		asking, cancel := context.WithTimeout(ctx, resolveWithin)
		defer cancel()
		list, err := r.deps.Resolve(asking, name)
		if err == nil && len(list) == 0 {
			err = fmt.Errorf("%s has no address", name)
		}
		known = answer{at: r.Clock.Now(), err: err}
		if err == nil {
			known.address = list[0].Unmap()
		}
		r.dialler.mu.Lock()
		if r.dialler.names == nil || len(r.dialler.names) > 10000 {
			r.dialler.names = map[string]answer{}
		}
		r.dialler.names[name] = known
		r.dialler.mu.Unlock()
	}
	return netip.AddrPortFrom(known.address, port), known.err
}
