package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"edge.internal/gateway/internal/kit/value"
)

const (
	// wireguardSockets is where programs that do WireGuard's work listen, each at the name of its link.
	wireguardSockets = "/var/run/wireguard"
	// wireguardFiles is where WireGuard's own tools keep configurations.
	wireguardFiles = "/etc/wireguard"
	// wireguardFileSize is the largest that is read, and wireguardFileCount how many are.
	wireguardFileSize  = 4 << 20
	wireguardFileCount = 200
	// wireguardAnswers is how long a link may take to tell of itself. Ten thousand peers take a fifth of a second.
	wireguardAnswers = 5 * time.Second
)

// wireguard speaks to WireGuard. The connection is kept: to open one takes as long as to change a peer.
func (s *System) wireguard() (*wgctrl.Client, error) {
	s.tunnels.Lock()
	defer s.tunnels.Unlock()
	if s.wireguardClient == nil {
		c, err := wgctrl.New()
		if err != nil {
			return nil, fmt.Errorf("speaking to WireGuard: %w", err)
		}
		s.wireguardClient = c
	}
	return s.wireguardClient, nil
}

// forgetWireguard has the next who speaks to WireGuard open a new connection: with its first link the kernel may have loaded
// what it needs for WireGuard, and a connection from before does not know.
func (s *System) forgetWireguard() {
	s.tunnels.Lock()
	defer s.tunnels.Unlock()
	if s.wireguardClient != nil {
		_ = s.wireguardClient.Close()
		s.wireguardClient = nil
	}
}

// within gives up waiting when the context ends: a program that hangs would hold whoever asks it.
func within[T any](ctx context.Context, f func() (T, error)) (out T, err error) {
	type answer struct {
		out T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		v, err := f()
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.out, a.err
	case <-ctx.Done():
		return out, fmt.Errorf("WireGuard does not answer: %w", ctx.Err())
	}
}

// TunnelDevices lists the WireGuard links.
func (s *System) TunnelDevices(ctx context.Context) ([]TunnelDevice, error) {
	links, err := dump(ctx, netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	var list []TunnelDevice
	for _, l := range links {
		if name := l.Attrs().Name; l.Type() == "wireguard" || l.Type() == "tuntap" && hasSocket(name) {
			d, err := s.tunnelDevice(ctx, name)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				continue // it is gone, or its program is and has left its socket, or hangs
			}
			if err != nil {
				return nil, fmt.Errorf("reading the tunnel %s: %w", name, err)
			}
			list = append(list, d)
		}
	}
	return list, nil
}

func hasSocket(name string) bool {
	info, err := os.Stat(filepath.Join(wireguardSockets, name+".sock"))
	return err == nil && info.Mode().Type() == fs.ModeSocket
}

func (s *System) tunnelDevice(ctx context.Context, name string) (TunnelDevice, error) {
	c, err := s.wireguard()
	if err != nil {
		return TunnelDevice{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, wireguardAnswers)
	defer cancel()
	found, err := within(ctx, func() (*wgtypes.Device, error) { return c.Device(name) })
	if err != nil {
		return TunnelDevice{}, err
	}
	d := TunnelDevice{Name: name, Kind: "userspace", ListenPort: found.ListenPort, Mark: found.FirewallMark, Peers: make([]TunnelPeer, len(found.Peers))}
	if found.Type == wgtypes.LinuxKernel {
		d.Kind = "kernel"
	}
	if found.PrivateKey != (wgtypes.Key{}) {
		d.PublicKey = TunnelKey(found.PublicKey)
	}
	for i, p := range found.Peers {
		peer := TunnelPeer{
			PublicKey: TunnelKey(p.PublicKey), PresharedKey: TunnelKey(p.PresharedKey), Keepalive: int(p.PersistentKeepaliveInterval.Seconds()),
			Rx: p.ReceiveBytes, Tx: p.TransmitBytes, AllowedIPs: make([]netip.Prefix, len(p.AllowedIPs)),
		}
		if !p.LastHandshakeTime.IsZero() && p.LastHandshakeTime.Unix() > 0 {
			peer.LastHandshake = p.LastHandshakeTime
		}
		if p.Endpoint != nil {
			at := p.Endpoint.AddrPort()
			peer.Endpoint = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
		}
		for n, ip := range p.AllowedIPs {
			bits, _ := ip.Mask.Size()
			peer.AllowedIPs[n] = netip.PrefixFrom(addrOf(ip.IP), bits)
		}
		d.Peers[i] = peer
	}
	return d, nil
}

// CreateTunnel makes a WireGuard link.
func (s *System) CreateTunnel(ctx context.Context, name, alias string) error {
	if err := s.managed(ctx); err != nil {
		return err
	}
	if _, err := value.Parse[value.IfName](name); err != nil {
		return fmt.Errorf("%q %w", name, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Alias = name, alias
	err := netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: attrs})
	if err == nil {
		s.kernelTunnels.Do(s.forgetWireguard)
	}
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	if _, err := s.Run(ctx, WireguardGo, Input{Args: []string{name}}); errors.Is(err, ErrNotInstalled) {
		return fmt.Errorf("this kernel knows no WireGuard, and the program that could do its work is missing: %w", err)
	} else if err != nil {
		return err
	}
	// It has gone to the background, and its link and its socket are there.
	link, err := linkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetAlias(link, alias)
}

// ChangeTunnel changes a WireGuard link.
func (s *System) ChangeTunnel(ctx context.Context, name string, change TunnelChange) error {
	if err := s.managed(ctx); err != nil {
		return err
	}
	c, err := s.wireguard()
	if err != nil {
		return err
	}
	config := wgtypes.Config{PrivateKey: (*wgtypes.Key)(change.PrivateKey), ListenPort: change.ListenPort, FirewallMark: change.Mark}
	for _, p := range change.Peers {
		peer := wgtypes.PeerConfig{PublicKey: wgtypes.Key(p.PublicKey), Remove: p.Remove, PresharedKey: (*wgtypes.Key)(p.PresharedKey)}
		if p.Endpoint.IsValid() {
			peer.Endpoint = net.UDPAddrFromAddrPort(p.Endpoint)
		}
		if p.Keepalive != nil {
			interval := time.Duration(*p.Keepalive) * time.Second
			peer.PersistentKeepaliveInterval = &interval
		}
		if p.AllowedIPs != nil {
			peer.ReplaceAllowedIPs = true
			for _, n := range *p.AllowedIPs {
				peer.AllowedIPs = append(peer.AllowedIPs, net.IPNet{IP: n.Addr().AsSlice(), Mask: net.CIDRMask(n.Bits(), n.Addr().BitLen())})
			}
		}
		config.Peers = append(config.Peers, peer)
	}
	_, err = within(ctx, func() (struct{}, error) { return struct{}{}, c.ConfigureDevice(name, config) })
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("there is no tunnel %s: %w", name, unix.ENODEV)
	}
	return err
}

// RemoveTunnel removes a WireGuard link that the gateway made.
func (s *System) RemoveTunnel(ctx context.Context, name string) error {
	link, err := s.managedLink(ctx, name)
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	if !strings.HasPrefix(link.Attrs().Alias, OwnTunnel) {
		return fmt.Errorf("link %s was not made by the gateway", name)
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	if link.Type() != "tuntap" {
		return nil
	}
	// A program that did the work ends with its link, unless it hangs: then it would keep its port. Its socket would be in the
	// way of the next.
	endWireguardGo(name)
	if err := os.Remove(filepath.Join(wireguardSockets, name+".sock")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// endWireguardGo kills the program that does the work of a link of this network namespace.
func endWireguardGo(name string) {
	here, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return
	}
	processes, _ := os.ReadDir("/proc")
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		argv, _ := os.ReadFile(filepath.Join("/proc", p.Name(), "cmdline"))
		words := strings.Split(strings.TrimSuffix(string(argv), "\x00"), "\x00")
		if len(words) != 2 || filepath.Base(words[0]) != filepath.Base(wireguardGo) || words[1] != name {
			continue
		}
		if there, err := os.Readlink(filepath.Join("/proc", p.Name(), "ns/net")); err == nil && there == here {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// Rules lists the routing rules of tunnels.
func (s *System) Rules(ctx context.Context) ([]Rule, error) {
	var list []Rule
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		found, err := dump(ctx, func() ([]netlink.Rule, error) { return netlink.RuleList(family) })
		if err != nil {
			return nil, fmt.Errorf("listing routing rules: %w", err)
		}
		for _, r := range found {
			if r.Protocol != TunnelProtocol {
				continue
			}
			rule := Rule{Family: "inet", Priority: r.Priority, Table: uint32(r.Table), Specific: r.SuppressPrefixlen == 0}
			if family == netlink.FAMILY_V6 {
				rule.Family = "inet6"
			}
			if r.Src != nil {
				bits, _ := r.Src.Mask.Size()
				rule.From = netip.PrefixFrom(addrOf(r.Src.IP), bits)
			}
			if r.Invert {
				rule.NotMark = int(r.Mark)
			}
			list = append(list, rule)
		}
	}
	return list, nil
}

// AddRule adds a routing rule of a tunnel.
func (s *System) AddRule(ctx context.Context, r Rule) error {
	if err := s.managed(ctx); err != nil {
		return err
	}
	if err := netlink.RuleAdd(r.netlink()); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// RemoveRule removes a routing rule of a tunnel. The kernel compares the protocol, so that no other is hit.
func (s *System) RemoveRule(ctx context.Context, r Rule) error {
	if err := s.managed(ctx); err != nil {
		return err
	}
	if err := netlink.RuleDel(r.netlink()); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

func (r Rule) netlink() *netlink.Rule {
	rule := netlink.NewRule()
	rule.Family, rule.Priority, rule.Table, rule.Protocol = netlink.FAMILY_V4, r.Priority, int(r.Table), TunnelProtocol
	if r.Family == "inet6" {
		rule.Family = netlink.FAMILY_V6
	}
	if r.From.IsValid() {
		rule.Src = &net.IPNet{IP: r.From.Addr().AsSlice(), Mask: net.CIDRMask(r.From.Bits(), r.From.Addr().BitLen())}
	}
	if r.NotMark != 0 {
		rule.Mark, rule.Invert = uint32(r.NotMark), true
	}
	if r.Specific {
		rule.SuppressPrefixlen = 0
	}
	return rule
}

// TunnelFiles reads the configuration files of WireGuard's own tools. A name that no interface can have is passed over, and a
// link that leads out of the folder is not followed.
func (s *System) TunnelFiles(ctx context.Context) ([]TunnelFile, error) {
	root, err := os.OpenRoot(s.path(wireguardFiles))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", wireguardFiles, err)
	}
	defer func() { _ = root.Close() }()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", wireguardFiles, err)
	}
	var list []TunnelFile
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".conf")
		if _, err := value.Parse[value.IfName](name); !ok || err != nil || len(list) == wireguardFileCount || ctx.Err() != nil {
			continue
		}
		content, err := readBounded(root, e.Name())
		list = append(list, TunnelFile{Name: name, Content: content, Err: err})
	}
	slices.SortFunc(list, func(a, b TunnelFile) int { return strings.Compare(a.Name, b.Name) })
	return list, ctx.Err()
}

func readBounded(root *os.Root, name string) ([]byte, error) {
	// Without waiting, or a pipe would hold us until somebody writes to it.
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.New("it cannot be read, or leads out of the folder")
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("it is no plain file")
	}
	content, err := io.ReadAll(io.LimitReader(f, wireguardFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(content) > wireguardFileSize {
		return nil, fmt.Errorf("it has more than %d MiB", wireguardFileSize>>20)
	}
	return content, nil
}
