package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

// Config is the desired state of the kernel's tunnels, without anything inactive or on another node.
type Config struct {
	Tunnels []Wanted `json:"tunnels"`
	// Problems are sentences about what is left out.
	Problems []string `json:"problems,omitempty"`
}

// Wanted is a desired tunnel.
type Wanted struct {
	ID         uuid.UUID      `json:"id"`
	Name       value.IfName   `json:"name"`
	Addresses  []netip.Prefix `json:"addresses"`
	PublicKey  Key            `json:"public_key"`
	PrivateKey Key            `json:"private_key"`
	Server     bool           `json:"server"`      // others dial it
	ListenPort int            `json:"listen_port"` // 0: any
	MTU        int            `json:"mtu"`         // 0: WireGuard's default
	Peers      []WantedPeer   `json:"peers"`
}

// WantedPeer is a desired peer of a tunnel. A client's upstream is its only peer.
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
	elsewhere, err := r.elsewhere(ctx, q)
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
		if i := &interfaces[n]; i.Active && !elsewhere(i) {
			w, problems, err := r.wanted(i, of[i.ID])
			c.Problems = append(c.Problems, problems...)
			if err != nil {
				c.Problems = append(c.Problems, fmt.Sprintf("The tunnel %s is left out. %v", i.Name, err))
				continue
			}
			c.Tunnels = append(c.Tunnels, w)
		}
	}
	return c, nil
}

// wanted returns the desired tunnel of an interface, without peers whose keys cannot be decrypted: problems names them.
func (r *Room) wanted(i *Interface, peers []*Peer) (w Wanted, problems []string, err error) {
	w = Wanted{ID: i.ID, Name: i.Name, Addresses: i.AddressCIDR.List(), PublicKey: i.PublicKey, Server: i.Mode == server, ListenPort: i.ListenPort, Peers: make([]WantedPeer, 0, len(peers))}
	if i.MTU != nil {
		w.MTU = *i.MTU
	}
	if w.PrivateKey, err = r.open(i.PrivateKey, interfaceTable, "private_key", i.ID); err != nil {
		return w, nil, err
	}
	if i.Mode == client {
		up := WantedPeer{Name: "upstream", PublicKey: i.UpstreamPublicKey, AllowedIPs: prefixes(i.UpstreamAllowedIPs), Endpoint: i.UpstreamEndpoint, Keepalive: i.UpstreamKeepalive}
		up.PresharedKey, err = r.open(i.UpstreamPresharedKey, interfaceTable, "upstream_preshared_key", i.ID)
		w.Peers = append(w.Peers, up)
		return w, nil, err
	}
	for _, p := range peers {
		x, err := r.wantedPeer(p)
		if err != nil {
			problems = append(problems, fmt.Sprintf("The peer %s of %s is left out. %v", p.Name, i.Name, err))
			continue
		}
		w.Peers = append(w.Peers, x)
	}
	return w, problems, nil
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

// open decrypts a stored key; an absent one stays absent. The error is for people: it says what to do, but not what is stored.
func (r *Room) open(s secret.Text, table, column string, row uuid.UUID) (Key, error) {
	plain, err := s.Open(r.Secrets, table, column, row.String())
	switch {
	case errors.Is(err, secret.ErrOtherKey):
		return Key{}, fault.New(fault.Conflict, "Its %s was stored with another master key. Enter it again, or generate a new key pair.", column)
	case err != nil:
		return Key{}, fault.Wrap(fault.Conflict, err, "Its %s cannot be decrypted. Enter it again, or generate a new key pair.", column)
	case plain == "":
		return Key{}, nil
	}
	k, err := value.Parse[Key](plain)
	if err != nil {
		return Key{}, fault.New(fault.Conflict, "Its stored %s is not a key. Enter it again, or generate a new key pair.", column)
	}
	return k, nil
}
