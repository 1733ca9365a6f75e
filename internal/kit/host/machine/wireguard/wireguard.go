// Package wireguard creates, changes and reads WireGuard interfaces.
package wireguard

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
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/wireguard"
	"edge.internal/gateway/internal/kit/host/machine/command"
	"edge.internal/gateway/internal/kit/host/machine/network"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/value"
)

const (
	// sockets is the folder of the control sockets of userspace implementations, each named after its interface.
	sockets = "/var/run/wireguard"
	// toolFiles is the folder of wg-quick's configuration files.
	toolFiles = "/etc/wireguard"
	// The limits for reading toolFiles.
	fileSize  = 4 << 20
	fileCount = 200
	// answersWithin bounds reading a tunnel's state. Ten thousand peers take a fifth of a second.
	answersWithin = 5 * time.Second
)

type Tunnels struct {
	home     home.Home
	commands *command.Commands
	units    host.Units

	mu     sync.Mutex
	client *wgctrl.Client // under mu; nil until it is needed
	kernel sync.Once      // done after the first interface that the kernel implements
}

func New(h home.Home, c *command.Commands, u host.Units) *Tunnels {
	return &Tunnels{home: h, commands: c, units: u}
}

// wireguard returns the connection to WireGuard. It is kept open because opening one takes as long as changing a peer.
func (s *Tunnels) wireguard() (*wgctrl.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		c, err := wgctrl.New()
		if err != nil {
			return nil, fmt.Errorf("connecting to WireGuard: %w", err)
		}
		s.client = c
	}
	return s.client, nil
}

// forgetWireguard closes the connection: the first interface may have made the kernel load its WireGuard module, which an older
// connection does not notice.
func (s *Tunnels) forgetWireguard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		_ = s.client.Close()
		s.client = nil
	}
}

// within stops waiting when the context ends: a userspace implementation may hang.
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

func (s *Tunnels) TunnelDevices(ctx context.Context) ([]host.TunnelDevice, error) {
	links, err := network.Dump(ctx, netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	var list []host.TunnelDevice
	for _, l := range links {
		if name := l.Attrs().Name; l.Type() == "wireguard" || l.Type() == "tuntap" && hasSocket(name) {
			d, err := s.tunnelDevice(ctx, name)
			if gone(err) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				continue // it is being removed, or its program hangs
			}
			if err != nil {
				return nil, fmt.Errorf("reading the tunnel %s: %w", name, err)
			}
			list = append(list, d)
		}
	}
	return list, nil
}

// gone reports whether an error means that the tunnel has gone or its program has ended, which may leave a socket or end in the middle of
// an answer.
func gone(err error) bool {
	signs := []error{fs.ErrNotExist, unix.ECONNREFUSED, unix.ECONNRESET, unix.EPIPE, io.EOF}
	return slices.ContainsFunc(signs, func(sign error) bool { return errors.Is(err, sign) })
}

func hasSocket(name string) bool {
	info, err := os.Stat(filepath.Join(sockets, name+".sock"))
	return err == nil && info.Mode().Type() == fs.ModeSocket
}

func (s *Tunnels) tunnelDevice(ctx context.Context, name string) (host.TunnelDevice, error) {
	c, err := s.wireguard()
	if err != nil {
		return host.TunnelDevice{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	found, err := within(ctx, func() (*wgtypes.Device, error) { return c.Device(name) })
	if err != nil {
		return host.TunnelDevice{}, err
	}
	d := host.TunnelDevice{
		Name: name, Kind: "userspace", ListenPort: found.ListenPort, Mark: found.FirewallMark, Peers: make([]host.TunnelPeer, len(found.Peers)),
	}
	if found.Type == wgtypes.LinuxKernel {
		d.Kind = "kernel"
	}
	if found.PrivateKey != (wgtypes.Key{}) {
		d.PublicKey = host.TunnelKey(found.PublicKey)
	}
	for i, p := range found.Peers {
		peer := host.TunnelPeer{
			PublicKey: host.TunnelKey(p.PublicKey), PresharedKey: host.TunnelKey(p.PresharedKey),
			Keepalive: int(p.PersistentKeepaliveInterval.Seconds()), Rx: p.ReceiveBytes, Tx: p.TransmitBytes,
			AllowedIPs: make([]netip.Prefix, len(p.AllowedIPs)),
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
			peer.AllowedIPs[n] = netip.PrefixFrom(network.AddrOf(ip.IP), bits)
		}
		d.Peers[i] = peer
	}
	return d, nil
}

func (s *Tunnels) CreateTunnel(ctx context.Context, name, alias string) error {
	if err := s.home.Network(ctx); err != nil {
		return err
	}
	if _, err := value.Parse[value.IfName](name); err != nil {
		return fmt.Errorf("%q %w", name, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Alias = name, alias
	err := netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: attrs})
	if err == nil {
		s.kernel.Do(s.forgetWireguard)
	}
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	if err := s.startProgram(ctx, name); errors.Is(err, host.ErrNotInstalled) {
		return fmt.Errorf("this kernel has no WireGuard, and no userspace implementation is installed: %w", err)
	} else if err != nil {
		return err
	}
	// The program is in the background now, and has created its interface and its socket.
	link, err := network.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetAlias(link, alias)
}

// startProgram starts the userspace implementation for an interface. With systemd it is a service of its own, so that it survives a
// restart of the gateway's programs.
func (s *Tunnels) startProgram(ctx context.Context, name string) error {
	if systemd, ok := s.units.(units.Systemd); ok {
		return systemd.StartWireguard(ctx, name)
	}
	_, err := s.commands.Run(ctx, wireguard.Go, host.Input{Args: []string{name}})
	return err
}

func (s *Tunnels) ChangeTunnel(ctx context.Context, name string, change host.TunnelChange) error {
	if err := s.home.Network(ctx); err != nil {
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
	if gone(err) {
		return fmt.Errorf("there is no tunnel %s: %w", name, unix.ENODEV)
	}
	return err
}

// RemoveTunnel removes a WireGuard interface that the gateway has created.
func (s *Tunnels) RemoveTunnel(ctx context.Context, name string) error {
	if err := s.home.Network(ctx); err != nil {
		return err
	}
	link, err := network.LinkByName(name)
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	if !strings.HasPrefix(link.Attrs().Alias, host.OwnTunnel) {
		return fmt.Errorf("link %s was not made by the gateway", name)
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	if link.Type() != "tuntap" {
		return nil
	}
	// A userspace implementation ends with its interface, unless it hangs; then it would keep its port. Its socket would block the next.
	endWireguardGo(name)
	if err := os.Remove(filepath.Join(sockets, name+".sock")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// endWireguardGo kills the userspace implementation of an interface in this network namespace.
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
		if len(words) != 2 || filepath.Base(words[0]) != wireguard.Go.Program() || words[1] != name {
			continue
		}
		if there, err := os.Readlink(filepath.Join("/proc", p.Name(), "ns/net")); err == nil && there == here {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// TunnelFiles reads wg-quick's configuration files. It skips names that no interface can have, and does not follow symbolic links out of
// the folder.
func (s *Tunnels) TunnelFiles(ctx context.Context) ([]host.TunnelFile, error) {
	root, err := os.OpenRoot(s.home.Path(toolFiles))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", toolFiles, err)
	}
	defer func() { _ = root.Close() }()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", toolFiles, err)
	}
	var list []host.TunnelFile
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".conf")
		if _, err := value.Parse[value.IfName](name); !ok || err != nil || len(list) == fileCount || ctx.Err() != nil {
			continue
		}
		file := host.TunnelFile{Name: name}
		if file.Content, err = readBounded(root, e.Name()); err != nil {
			file.Problem = err.Error()
		}
		list = append(list, file)
	}
	slices.SortFunc(list, func(a, b host.TunnelFile) int { return strings.Compare(a.Name, b.Name) })
	return list, ctx.Err()
}

func readBounded(root *os.Root, name string) ([]byte, error) {
	// Without O_NONBLOCK, opening a pipe would block until another program writes to it.
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.New("it cannot be read, or leads out of the folder")
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("it is not a plain file")
	}
	content, err := io.ReadAll(io.LimitReader(f, fileSize+1))
	if err != nil {
		return nil, err
	}
	if len(content) > fileSize {
		return nil, fmt.Errorf("it has more than %d MiB", fileSize>>20)
	}
	return content, nil
}
