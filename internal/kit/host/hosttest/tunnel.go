package hosttest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"edge.internal/gateway/internal/kit/host"
)

// tunnels stands in for the kernel's WireGuard devices and routing rules.
type tunnels struct {
	devices []host.TunnelDevice
	rules   []host.Rule
	files   []host.TunnelFile
	changes []host.TunnelChange
}

func (m *Machine) SetTunnelFiles(files ...host.TunnelFile) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tunnels.files = files
}

// SetTunnelDevices replaces the WireGuard devices without the gateway. Set their links with SetLinks.
func (m *Machine) SetTunnelDevices(devices ...host.TunnelDevice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tunnels.devices = devices
}

func (m *Machine) TunnelChanges() []host.TunnelChange {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.tunnels.changes)
}

func (m *Machine) TunnelDevices(ctx context.Context) ([]host.TunnelDevice, error) {
	if err := m.answers(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	list := slices.Clone(m.tunnels.devices)
	for i := range list {
		list[i].Peers = slices.Clone(list[i].Peers)
	}
	return list, nil
}

func (m *Machine) CreateTunnel(_ context.Context, name, alias string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("create-tunnel", name); err != nil {
		return err
	}
	if _, err := m.link(name); err == nil {
		return syscall.EEXIST
	}
	index := 1
	for _, l := range m.network.links {
		index = max(index, l.Index+1)
	}
	m.network.links = append(m.network.links, host.Link{Index: index, Name: name, Flags: []string{"POINTOPOINT", "NOARP"}, MTU: 1420, Type: "none", Kind: "wireguard", Alias: alias, AcceptRA: 1})
	m.tunnels.devices = append(m.tunnels.devices, host.TunnelDevice{Name: name, Kind: "kernel"})
	return nil
}

func (m *Machine) ChangeTunnel(_ context.Context, name string, c host.TunnelChange) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("change-tunnel", name); err != nil {
		return err
	}
	m.tunnels.changes = append(m.tunnels.changes, c)
	n := slices.IndexFunc(m.tunnels.devices, func(d host.TunnelDevice) bool { return d.Name == name })
	if n < 0 {
		return fmt.Errorf("there is no tunnel %s: %w", name, syscall.ENODEV)
	}
	d := &m.tunnels.devices[n]
	if c.PrivateKey != nil {
		d.PublicKey = c.PrivateKey.PublicKey()
	}
	if c.ListenPort != nil {
		d.ListenPort = *c.ListenPort
	}
	if c.Mark != nil {
		d.Mark = *c.Mark
	}
	for _, p := range c.Peers {
		changePeer(d, p)
	}
	return nil
}

func changePeer(d *host.TunnelDevice, c host.TunnelPeerChange) {
	n := slices.IndexFunc(d.Peers, func(p host.TunnelPeer) bool { return p.PublicKey == c.PublicKey })
	if c.Remove {
		if n >= 0 {
			d.Peers = slices.Delete(d.Peers, n, n+1)
		}
		return
	}
	if n < 0 {
		d.Peers = append(d.Peers, host.TunnelPeer{PublicKey: c.PublicKey})
		n = len(d.Peers) - 1
	}
	p := &d.Peers[n]
	if c.PresharedKey != nil {
		p.PresharedKey = *c.PresharedKey
	}
	if c.Endpoint.IsValid() {
		p.Endpoint = c.Endpoint
	}
	if c.Keepalive != nil {
		p.Keepalive = *c.Keepalive
	}
	if c.AllowedIPs == nil {
		return
	}
	p.AllowedIPs = slices.Clone(*c.AllowedIPs)
	// As in the kernel, an address belongs to one peer: it is taken from the others.
	for i := range d.Peers {
		if i != n {
			for _, ip := range p.AllowedIPs {
				d.Peers[i].AllowedIPs = slices.DeleteFunc(slices.Clone(d.Peers[i].AllowedIPs), func(x netip.Prefix) bool { return x == ip })
			}
		}
	}
}

func (m *Machine) RemoveTunnel(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("remove-tunnel", name); err != nil {
		return err
	}
	l, err := m.link(name)
	if err != nil {
		return nil
	}
	if !strings.HasPrefix(l.Alias, host.OwnTunnel) {
		return fmt.Errorf("link %s was not made by the gateway", name)
	}
	m.network.links = slices.DeleteFunc(m.network.links, func(x host.Link) bool { return x.Name == name })
	m.network.routes = slices.DeleteFunc(m.network.routes, func(r host.Route) bool { return r.Dev == name })
	m.tunnels.devices = slices.DeleteFunc(m.tunnels.devices, func(d host.TunnelDevice) bool { return d.Name == name })
	return nil
}

func (m *Machine) Rules(context.Context) ([]host.Rule, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.tunnels.rules), nil
}

func (m *Machine) AddRule(_ context.Context, r host.Rule) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("add-rule", fmt.Sprint(r.Family, " ", r.Priority)); err != nil {
		return err
	}
	if !slices.Contains(m.tunnels.rules, r) {
		m.tunnels.rules = append(m.tunnels.rules, r)
	}
	return nil
}

func (m *Machine) RemoveRule(_ context.Context, r host.Rule) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write("remove-rule", fmt.Sprint(r.Family, " ", r.Priority)); err != nil {
		return err
	}
	m.tunnels.rules = slices.DeleteFunc(m.tunnels.rules, func(x host.Rule) bool { return x == r })
	return nil
}

func (m *Machine) TunnelFiles(context.Context) ([]host.TunnelFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.tunnels.files), nil
}
