package tunnel

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

// PeerStatus is what WireGuard knows about a peer, or about the upstream of a client.
type PeerStatus struct {
	Interface     string     `json:"interface" doc:"Name of the interface."`
	Endpoint      string     `json:"endpoint" doc:"Current or configured endpoint, address:port; empty if unknown."`
	AllowedIPs    []string   `json:"allowed_ips" doc:"Networks routed to and accepted from it."`
	LastHandshake *time.Time `json:"last_handshake" doc:"Last handshake; null if there was none."`
	Rx            int64      `json:"rx" doc:"Bytes that came from it."`
	Tx            int64      `json:"tx" doc:"Bytes that were sent to it."`
	RxRate        float64    `json:"rx_rate" doc:"Bytes per second received from it, since the previous reading some seconds ago."`
	TxRate        float64    `json:"tx_rate" doc:"Bytes per second sent to it."`
	Online        bool       `json:"online" doc:"Whether the last handshake is at most 180 seconds old. An idle peer without keepalive is shown as offline; that is normal."`
	Error         string     `json:"error" doc:"Why WireGuard could not be asked about it; empty when it could."`
}

// Device is a WireGuard link of the machine, or a missing one.
type Device struct {
	Name       string `json:"name" doc:"Name of the interface."`
	Kind       string `json:"kind" enum:",kernel,userspace" doc:"Whether WireGuard runs in the kernel or in the program wireguard-go; empty if the interface is missing."`
	Managed    bool   `json:"managed" doc:"Whether it belongs to a managed interface. Others are not changed."`
	Up         bool   `json:"up" doc:"Whether the interface is up."`
	ListenPort int    `json:"listen_port" doc:"UDP port that it listens on."`
	PublicKey  string `json:"public_key" doc:"Its public key."`
	Peers      int    `json:"peers" doc:"How many peers it has."`
	Elsewhere  bool   `json:"elsewhere" doc:"Whether another node of the cluster has the tunnel: the one that has the virtual addresses or, if there are none, the primary. Only clients are on one node."`
	Error      string `json:"error" doc:"What is wrong with it; empty when nothing is."`
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/tunnel/status", httpd.Read, httpd.Doc{ID: "tunnel.status", Tag: "tunnel", Summary: "Live state of each peer, by its public key"},
		func(c *httpd.Call, _ struct{}) (map[string]PeerStatus, error) { return r.status(c) })
	httpd.Handle(r.Router, http.MethodGet, "/tunnel/devices", httpd.Read, httpd.Doc{ID: "tunnel.devices", Tag: "tunnel", Summary: "List the WireGuard interfaces of the machine"},
		func(c *httpd.Call, _ struct{}) ([]Device, error) { return r.devices(c) })
}

// read asks WireGuard for its links.
func (r *Room) read(ctx context.Context) ([]host.TunnelDevice, error) {
	devices, err := host.Ask(ctx, r.Host.TunnelDevices)
	if err == nil {
		r.meter.add(r.Clock.Now(), devices)
	}
	return devices, err
}

// status returns what WireGuard knows about the peers of active interfaces. A key that several of them have is listed where it was last
// heard from.
func (r *Room) status(ctx context.Context) (map[string]PeerStatus, error) {
	interfaces, err := r.interfaces.All(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	devices, err := r.read(ctx)
	if err != nil {
		return r.unknown(ctx, interfaces, err)
	}
	ours := map[string]bool{}
	for _, i := range interfaces {
		ours[i.Name.String()] = i.Active
	}
	peers := map[string]PeerStatus{}
	for _, d := range devices {
		if !ours[d.Name] {
			continue
		}
		for _, p := range d.Peers {
			key := keyOf(p.PublicKey).String()
			s := r.peerStatus(d.Name, &p)
			if other, twice := peers[key]; !twice || other.LastHandshake == nil || s.LastHandshake != nil && s.LastHandshake.After(*other.LastHandshake) {
				peers[key] = s
			}
		}
	}
	return peers, nil
}

// unknown returns the status of the peers of active interfaces if WireGuard does not answer: the stored data, and the reason.
func (r *Room) unknown(ctx context.Context, interfaces []Interface, cause error) (map[string]PeerStatus, error) {
	stored, err := r.peers.All(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	peers := map[string]PeerStatus{}
	add := func(i *Interface, key Key, allowed Networks) {
		peers[key.String()] = PeerStatus{Interface: i.Name.String(), AllowedIPs: split(allowed.String()), Error: noAnswer(ctx, cause)}
	}
	for n := range interfaces {
		i := &interfaces[n]
		switch {
		case !i.Active:
		case i.Mode == client:
			add(i, i.UpstreamPublicKey, i.UpstreamAllowedIPs)
		default:
			for _, p := range stored {
				if p.InterfaceID == i.ID && p.Active {
					add(i, p.PublicKey, p.AllowedIPs)
				}
			}
		}
	}
	return peers, nil
}

// noAnswer explains why WireGuard could not be asked.
func noAnswer(ctx context.Context, cause error) string { return httpd.Problem(ctx, "WireGuard", cause) }

func (r *Room) peerStatus(link string, p *host.TunnelPeer) PeerStatus {
	s := PeerStatus{Interface: link, AllowedIPs: []string{}, Rx: p.Rx, Tx: p.Tx}
	for _, n := range p.AllowedIPs {
		s.AllowedIPs = append(s.AllowedIPs, n.String())
	}
	if p.Endpoint.IsValid() {
		s.Endpoint = p.Endpoint.String()
	}
	if !p.LastHandshake.IsZero() {
		when := p.LastHandshake.UTC()
		s.LastHandshake = &when
		s.Online = r.Clock.Now().Sub(when) <= onlineWithin
	}
	s.RxRate, s.TxRate = r.meter.rates(link, p.PublicKey)
	return s
}

// devices returns the machine's WireGuard links, and the active interfaces without one.
func (r *Room) devices(ctx context.Context) ([]Device, error) {
	interfaces, err := r.interfaces.All(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	list := []Device{}
	asking, cancel := host.Asking(ctx)
	defer cancel()
	var links []host.Link
	var found []host.TunnelDevice
	elsewhere, err := host.Ask(asking, func(ctx context.Context) (func(*Interface) bool, error) { return r.elsewhere(ctx, r.DB) })
	if err == nil {
		links, err = host.Ask(asking, r.Host.Links)
	}
	if err == nil {
		found, err = r.read(asking)
	}
	if err != nil {
		for _, i := range interfaces {
			if i.Active {
				list = append(list, Device{Name: i.Name.String(), Managed: true, ListenPort: i.ListenPort, PublicKey: i.PublicKey.String(), Error: noAnswer(ctx, err)})
			}
		}
		return list, nil
	}
	for _, d := range found {
		x := Device{Name: d.Name, Kind: d.Kind, ListenPort: d.ListenPort, PublicKey: keyOf(d.PublicKey).String(), Peers: len(d.Peers)}
		for _, l := range links {
			if l.Name == d.Name {
				x.Up, x.Managed = l.Up(), strings.HasPrefix(l.Alias, host.OwnTunnel)
			}
		}
		list = append(list, x)
	}
	for _, i := range interfaces {
		n := slices.IndexFunc(list, func(x Device) bool { return x.Name == i.Name.String() })
		switch {
		case !i.Active:
		case n < 0 && elsewhere(&i):
			list = append(list, Device{Name: i.Name.String(), PublicKey: i.PublicKey.String(), Elsewhere: true})
		case n < 0:
			list = append(list, Device{Name: i.Name.String(), Managed: true, PublicKey: i.PublicKey.String(), Error: missing(i.Name.String(), links)})
		case !list[n].Managed:
			list[n].Error = "another program created this interface: import its configuration, remove the interface, or choose another name"
		case !list[n].Up:
			list[n].Error = "the interface is down"
		}
	}
	slices.SortFunc(list, func(a, b Device) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// missing explains why there is no WireGuard link with a name.
func missing(name string, links []host.Link) string {
	if slices.ContainsFunc(links, func(l host.Link) bool { return l.Name == name }) {
		return "the machine has another interface with this name: remove that, or choose another name"
	}
	return "the interface is missing"
}

// Caller is a peer that WireGuard has heard from since its interface came up.
type Caller struct {
	Peer
	Link          value.IfName
	LastHandshake time.Time
	Rx, Tx        int64 // bytes from it and to it
}

// Callers returns the active peers that have been heard from.
func (r *Room) Callers(ctx context.Context) ([]Caller, error) {
	servers, err := r.servers(ctx, r.DB)
	if err != nil || len(servers) == 0 {
		return nil, err
	}
	peers, err := r.peers.All(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	devices, err := r.read(ctx)
	if err != nil {
		return nil, errors.New(noAnswer(ctx, err))
	}
	heard := map[linkPeer]host.TunnelPeer{}
	for _, d := range devices {
		for _, p := range d.Peers {
			heard[linkPeer{d.Name, keyOf(p.PublicKey)}] = p
		}
	}
	var callers []Caller
	for _, i := range servers {
		for _, p := range peers {
			live := heard[linkPeer{i.Name.String(), p.PublicKey}]
			if p.InterfaceID == i.ID && p.Active && !live.LastHandshake.IsZero() {
				callers = append(callers, Caller{Peer: p, Link: i.Name, LastHandshake: live.LastHandshake, Rx: live.Rx, Tx: live.Tx})
			}
		}
	}
	return callers, nil
}
