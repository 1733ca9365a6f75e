package tunnel

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

// Config is what the kernel's tunnels shall be: nothing in it is inactive.
type Config struct {
	Tunnels []Wanted `json:"tunnels"`
}

// Wanted is a tunnel that shall be there.
type Wanted struct {
	ID         uuid.UUID      `json:"id"`
	Name       value.IfName   `json:"name"`
	Addresses  []netip.Prefix `json:"addresses"`
	PublicKey  Key            `json:"public_key"`
	PrivateKey Key            `json:"private_key"`
	ListenPort int            `json:"listen_port"` // 0: any
	MTU        int            `json:"mtu"`         // 0: WireGuard's own
	Peers      []WantedPeer   `json:"peers"`
}

// WantedPeer is a peer that a tunnel shall have. The upstream of a client is its only one.
type WantedPeer struct {
	Name         string         `json:"name"` // for messages
	PublicKey    Key            `json:"public_key"`
	PresharedKey Key            `json:"preshared_key"`
	AllowedIPs   []netip.Prefix `json:"allowed_ips"`
	Endpoint     Endpoint       `json:"endpoint"`
	Keepalive    int            `json:"keepalive"`
}

func (r *Room) load(ctx context.Context, q db.Querier) (Config, error) {
	c := Config{Tunnels: []Wanted{}}
	interfaces, err := r.interfaces.All(ctx, q)
	if err != nil {
		return c, err
	}
	peers, err := r.peers.All(ctx, q)
	if err != nil {
		return c, err
	}
	of := map[uuid.UUID][]*Peer{}
	for n := range peers {
		if p := &peers[n]; p.Active {
			of[p.InterfaceID] = append(of[p.InterfaceID], p)
		}
	}
	for n := range interfaces {
		if i := &interfaces[n]; i.Active {
			w, err := r.wanted(i, of[i.ID])
			if err != nil {
				return c, fmt.Errorf("%s: %w", i.Name, err)
			}
			c.Tunnels = append(c.Tunnels, w)
		}
	}
	return c, nil
}

func (r *Room) wanted(i *Interface, peers []*Peer) (w Wanted, err error) {
	w = Wanted{ID: i.ID, Name: i.Name, Addresses: i.AddressCIDR.List(), PublicKey: i.PublicKey, ListenPort: i.ListenPort, Peers: make([]WantedPeer, 0, len(peers))}
	if i.MTU != nil {
		w.MTU = *i.MTU
	}
	if w.PrivateKey, err = r.open(i.PrivateKey, interfaceTable, "private_key", i.ID); err != nil {
		return w, err
	}
	if i.Mode == client {
		up := WantedPeer{Name: "upstream", PublicKey: i.UpstreamPublicKey, AllowedIPs: prefixes(i.UpstreamAllowedIPs), Endpoint: i.UpstreamEndpoint, Keepalive: i.UpstreamKeepalive}
		up.PresharedKey, err = r.open(i.UpstreamPresharedKey, interfaceTable, "upstream_preshared_key", i.ID)
		w.Peers = append(w.Peers, up)
		return w, err
	}
	for _, p := range peers {
		x, err := r.wantedPeer(p)
		if err != nil {
			return w, fmt.Errorf("%s: %w", p.Name, err)
		}
		w.Peers = append(w.Peers, x)
	}
	return w, nil
}

func (r *Room) wantedPeer(p *Peer) (WantedPeer, error) {
	psk, err := r.open(p.PresharedKey, peerTable, "preshared_key", p.ID)
	return WantedPeer{Name: p.Name.String(), PublicKey: p.PublicKey, PresharedKey: psk, AllowedIPs: prefixes(p.AllowedIPs), Endpoint: p.Endpoint, Keepalive: p.Keepalive}, err
}

func prefixes(n Networks) []netip.Prefix {
	items := split(n.String())
	list := make([]netip.Prefix, len(items))
	for i, item := range items {
		list[i] = netip.MustParsePrefix(item)
	}
	return list
}

// open opens a stored key; the absent one stays absent.
func (r *Room) open(s secret.Text, table, column string, row uuid.UUID) (Key, error) {
	plain, err := s.Open(r.Secrets, table, column, row.String())
	if err != nil || plain == "" {
		return Key{}, err
	}
	k, err := value.Parse[Key](plain)
	if err != nil {
		return Key{}, fmt.Errorf("what is stored as its %s is no key", column) // without the text itself
	}
	return k, nil
}
