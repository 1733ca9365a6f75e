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
	// onlineWithin is how old a handshake may be while the peer counts as online: WireGuard agrees on new keys every two
	// minutes, and gives old ones up after three.
	onlineWithin = 180 * time.Second
	// resolveWithin is how long a name may take, resolvedFor for how long an answer is good, and failedFor a failure.
	resolveWithin = 2 * time.Second
	resolvedFor   = 30 * time.Second
	failedFor     = 5 * time.Second
)

// dialler remembers where peers are dialled. WireGuard itself knows addresses alone, and learns where a peer is from its packets:
// that is left alone, until the peer is lost or the operator says otherwise.
type dialler struct {
	mu    sync.Mutex
	told  map[peerID]Endpoint // what the kernel was last told about a peer
	names map[string]answer
}

// peerID is a peer of a link.
type peerID struct {
	link string
	key  Key
}

type answer struct {
	at      time.Time
	address netip.Addr
	err     error
}

// lost is a peer that is to be dialled.
type lost struct {
	id       peerID
	name     string
	endpoint Endpoint
	stays    bool // where the kernel has it now will do, if need be
}

// lostPeers are those that the kernel does not know where to dial, was told something else about, or has not heard from for
// long.
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
			stays := now != nil && now.Endpoint.IsValid() && !r.toldOther(id, p.Endpoint)
			if !stays || r.Clock.Now().Sub(now.LastHandshake) > onlineWithin {
				list = append(list, lost{id, p.Name, p.Endpoint, stays})
			}
		}
	}
	return list
}

// whereToDial finds where peers are to be dialled now, and which of them nobody knows.
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

// toldOther tells whether the kernel was last told another endpoint. What an earlier process told it counts as the same.
func (r *Room) toldOther(id peerID, e Endpoint) bool {
	r.dialler.mu.Lock()
	defer r.dialler.mu.Unlock()
	told, known := r.dialler.told[id]
	return known && told != e
}

// dialled notes that the kernel has been told where the peers are, but for those that nobody knows.
func (r *Room) dialled(c Config, unknown map[peerID]string) {
	r.dialler.mu.Lock()
	defer r.dialler.mu.Unlock()
	told := map[peerID]Endpoint{}
	for i := range c.Tunnels {
		for _, p := range c.Tunnels[i].Peers {
			id := peerID{c.Tunnels[i].Name.String(), p.PublicKey}
			if _, failed := unknown[id]; failed {
				told[id] = r.dialler.told[id]
			} else {
				told[id] = p.Endpoint
			}
		}
	}
	r.dialler.told = told
}

// resolve finds the address of an endpoint.
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
