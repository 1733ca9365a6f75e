package tunnel

import (
	"net/netip"

	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/wireguard"
	"edge.internal/gateway/internal/kit/value"
)

// Render writes the desired state of the tunnels for people, one file each. The files are not used to apply it, so they only need public
// keys.
func Render(c Config) ([]host.File, error) {
	files := []host.File{}
	for i := range c.Tunnels {
		content, err := c.Tunnels[i].render()
		if err != nil {
			return nil, err
		}
		files = append(files, host.File{Place: wireguard.State(c.Tunnels[i].Name), Content: content})
	}
	return files, nil
}

func (t *Wanted) render() ([]byte, error) {
	w := conf.New(conf.WireGuard)
	w.Line("[Interface]")
	w.Line("PrivateKey", conf.Word("<redacted>"))
	w.Note("PublicKey", conf.Value(t.PublicKey))
	w.Line("Address", networkArgs(t.Addresses)...)
	if t.ListenPort > 0 {
		w.Line("ListenPort", conf.Int(t.ListenPort))
	}
	if t.MTU > 0 {
		w.Line("MTU", conf.Int(t.MTU))
	}
	for _, p := range t.Peers {
		w.Line("[Peer]")
		w.Line("PublicKey", conf.Value(p.PublicKey))
		if !p.PresharedKey.IsZero() {
			w.Line("PresharedKey", conf.Word("<redacted>"))
		}
		w.Line("AllowedIPs", networkArgs(p.AllowedIPs)...)
		if !p.Endpoint.IsZero() {
			w.Line("Endpoint", conf.Value(p.Endpoint))
		}
		if p.Keepalive > 0 {
			w.Line("PersistentKeepalive", conf.Int(p.Keepalive))
		}
	}
	return w.Bytes()
}

func networkArgs(list []netip.Prefix) []conf.Arg {
	args := make([]conf.Arg, len(list))
	for i, p := range list {
		args[i] = conf.Network(p)
	}
	return args
}

// Profile is everything that a peer's own configuration depends on.
type Profile struct {
	PrivateKey   Key            `json:"private_key"`
	Addresses    []value.Prefix `json:"addresses"`
	DNS          []value.Addr   `json:"dns"`
	MTU          int            `json:"mtu"` // 0: WireGuard's own
	PublicKey    Key            `json:"public_key"`
	PresharedKey Key            `json:"preshared_key"`
	AllowedIPs   []value.Prefix `json:"allowed_ips"`
	Endpoint     Endpoint       `json:"endpoint"`
	Keepalive    int            `json:"keepalive"`
}

// RenderProfile renders a profile for WireGuard's apps.
func RenderProfile(p Profile) ([]byte, error) {
	w := conf.Bare(conf.WireGuard)
	w.Line("[Interface]")
	w.Line("PrivateKey", conf.Value(p.PrivateKey))
	w.Line("Address", values(p.Addresses)...)
	if len(p.DNS) > 0 {
		w.Line("DNS", values(p.DNS)...)
	}
	if p.MTU > 0 {
		w.Line("MTU", conf.Int(p.MTU))
	}
	w.Line("[Peer]")
	w.Line("PublicKey", conf.Value(p.PublicKey))
	if !p.PresharedKey.IsZero() {
		w.Line("PresharedKey", conf.Value(p.PresharedKey))
	}
	w.Line("AllowedIPs", values(p.AllowedIPs)...)
	w.Line("Endpoint", conf.Value(p.Endpoint))
	if p.Keepalive > 0 {
		w.Line("PersistentKeepalive", conf.Int(p.Keepalive))
	}
	return w.Bytes()
}

func values[T value.Parsed](list []T) []conf.Arg {
	args := make([]conf.Arg, len(list))
	for i, v := range list {
		args[i] = conf.Value(v)
	}
	return args
}
