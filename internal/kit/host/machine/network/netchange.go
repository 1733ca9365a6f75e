package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/value"
)

// ifaProto is IFA_PROTO, which tells who added an address. The kernel has had it since 5.18; the library does not know it.
const ifaProto = 11

// bondCheck is how often a bond checks whether its members are connected, in milliseconds. The kernel's default is never.
const bondCheck = 100

// LinkByName finds an interface. It refuses invalid names, which the library may look up by alternative name.
func LinkByName(name string) (netlink.Link, error) {
	if _, err := value.Parse[value.IfName](name); err != nil {
		return nil, fmt.Errorf("%q %w", name, err)
	}
	l, err := netlink.LinkByName(name)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return nil, fmt.Errorf("there is no link %s: %w", name, unix.ENODEV)
	}
	return l, err
}

func (s *Network) managedLink(ctx context.Context, name string) (netlink.Link, error) {
	if err := s.home.Network(ctx); err != nil {
		return nil, err
	}
	return LinkByName(name)
}

// LinkKinds lists the kinds of interface that the kernel supports. It requests invalid interfaces, so that none is created: a kernel
// that supports the kind reports another error than EOPNOTSUPP.
func (s *Network) LinkKinds(ctx context.Context) ([]string, error) {
	if err := s.home.Network(ctx); err != nil {
		return nil, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = "gateway-probe", net.HardwareAddr{0} // a MAC address of one byte is invalid
	kinds := []string{}
	for _, link := range []netlink.Link{
		&netlink.Vlan{LinkAttrs: attrs, VlanId: 4095, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q},
		&netlink.Bridge{LinkAttrs: attrs},
		netlink.NewLinkBond(attrs),
	} {
		if err := netlink.LinkAdd(link); !errors.Is(err, unix.EOPNOTSUPP) {
			kinds = append(kinds, link.Type())
		}
	}
	if _, err := netlink.GenlFamilyGet("wireguard"); err == nil {
		kinds = append(kinds, "wireguard")
	}
	return kinds, nil
}

// CreateLink creates a VLAN, a bridge or a bond.
func (s *Network) CreateLink(ctx context.Context, n host.NewLink) error {
	if err := s.home.Network(ctx); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Alias = n.Name, n.Alias
	var link netlink.Link
	switch n.Kind {
	case "vlan":
		parent, err := LinkByName(n.Parent)
		if err != nil {
			return err
		}
		attrs.ParentIndex = parent.Attrs().Index
		link = &netlink.Vlan{LinkAttrs: attrs, VlanId: n.VLANID, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}
	case "bridge":
		link = &netlink.Bridge{LinkAttrs: attrs}
	case "bond":
		bond := netlink.NewLinkBond(attrs)
		bond.Mode, bond.Miimon = netlink.StringToBondMode(n.BondMode), bondCheck
		link = bond
	default:
		return fmt.Errorf("links of kind %q are not made here", n.Kind)
	}
	err := netlink.LinkAdd(link)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("this kernel has no support for %s interfaces", n.Kind)
	}
	return err
}

func (s *Network) ChangeLink(ctx context.Context, name string, c host.LinkChange) error {
	link, err := s.managedLink(ctx, name)
	if err != nil {
		return err
	}
	if c.Alias != nil {
		if err := netlink.LinkSetAlias(link, *c.Alias); err != nil {
			return err
		}
	}
	if c.MTU != nil {
		if err := netlink.LinkSetMTU(link, *c.MTU); err != nil {
			return err
		}
	}
	if c.Master != nil {
		if err := setMaster(link, *c.Master); err != nil {
			return err
		}
	}
	switch {
	case c.Up == nil:
		return nil
	case *c.Up:
		return netlink.LinkSetUp(link)
	}
	return netlink.LinkSetDown(link)
}

func setMaster(link netlink.Link, name string) error {
	if name == "" {
		return netlink.LinkSetNoMaster(link)
	}
	master, err := LinkByName(name)
	if err != nil {
		return err
	}
	if master.Type() == "bond" && link.Attrs().Flags&net.FlagUp != 0 {
		if err := netlink.LinkSetDown(link); err != nil {
			return err
		}
	}
	return netlink.LinkSetMaster(link, master)
}

func (s *Network) RemoveLink(ctx context.Context, name string) error {
	link, err := s.managedLink(ctx, name)
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	if !strings.HasPrefix(link.Attrs().Alias, host.OwnAlias) {
		return fmt.Errorf("link %s was not made by the gateway", name)
	}
	if err := netlink.LinkDel(link); !errors.Is(err, unix.ENODEV) {
		return err
	}
	return nil
}

func addressRequest(kind, flags int, link netlink.Link, a netip.Prefix) *nl.NetlinkRequest {
	family := unix.AF_INET6
	if a.Addr().Is4() {
		family = unix.AF_INET
	}
	req := nl.NewNetlinkRequest(kind, flags|unix.NLM_F_ACK)
	header := nl.NewIfAddrmsg(family)
	header.Prefixlen, header.Index = uint8(a.Bits()), uint32(link.Attrs().Index)
	req.AddData(header)
	req.AddData(nl.NewRtAttr(unix.IFA_LOCAL, a.Addr().AsSlice()))
	req.AddData(nl.NewRtAttr(unix.IFA_ADDRESS, a.Addr().AsSlice()))
	return req
}

// SetAddress adds or replaces an address that the gateway owns.
func (s *Network) SetAddress(ctx context.Context, name string, a host.NewAddr) error {
	link, err := s.managedLink(ctx, name)
	if err != nil {
		return err
	}
	req := addressRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, link, a.Prefix)
	req.AddData(nl.NewRtAttr(ifaProto, []byte{host.Owner(a.Protocol)}))
	if a.Prefix.Addr().Is4() {
		// Networks of one or two addresses have no broadcast address (RFC 3021).
		if a.Prefix.Bits() < 31 {
			req.AddData(nl.NewRtAttr(unix.IFA_BROADCAST, value.Last(a.Prefix.Masked()).AsSlice()))
		}
	} else if a.AtOnce {
		req.AddData(nl.NewRtAttr(unix.IFA_FLAGS, binary.NativeEndian.AppendUint32(nil, unix.IFA_F_NODAD)))
	}
	_, err = req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

func (s *Network) RemoveAddress(ctx context.Context, name string, a netip.Prefix) error {
	link, err := s.managedLink(ctx, name)
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = addressRequest(unix.RTM_DELADDR, 0, link, a).Execute(unix.NETLINK_ROUTE, 0)
	if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// The kernel settings of a router.
const (
	forward4 = "net/ipv4/ip_forward"
	forward6 = "net/ipv6/conf/all/forwarding"
	promote  = "net/ipv4/conf/all/promote_secondaries"
)

func acceptRASetting(link string) string { return "net/ipv6/conf/" + link + "/accept_ra" }

// setting reads a numeric kernel setting; ok is false if the kernel does not have it.
func setting(name string) (n int, ok bool) {
	content, err := os.ReadFile(filepath.Join("/proc/sys", name))
	if err != nil {
		return 0, false
	}
	n, err = strconv.Atoi(strings.TrimSpace(string(content)))
	return n, err == nil
}

// originalSettings is a file with the values of settings from before the gateway first changed them, one setting and value per line. The
// Debian package restores them when it is removed. A reboot resets them anyway, so the file is in /run.
const originalSettings = "/run/gateway-helper/kernel-settings"

// setSetting changes a kernel setting. It records the original value before the first change.
func (s *Network) setSetting(name string, n int) error {
	if err := s.recordOriginal(name); err != nil {
		return fmt.Errorf("recording the original setting %s: %w", name, err)
	}
	return os.WriteFile(filepath.Join("/proc/sys", name), []byte(strconv.Itoa(n)), 0o644)
}

func (s *Network) recordOriginal(name string) error {
	was, ok := setting(name)
	if !ok {
		return nil // the write that follows fails with the reason
	}
	path := s.home.Path(originalSettings)
	recorded, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(recorded)) {
		if strings.HasPrefix(line, name+" ") {
			return nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return renameio.WriteFile(path, fmt.Appendf(recorded, "%s %d\n", name, was), 0o644)
}

func acceptRA(link string) int {
	if n, ok := setting(acceptRASetting(link)); ok {
		return n
	}
	return -1
}

// Forwarding reports whether the machine forwards packets. For a kernel without IPv6 that counts as on: there is nothing to turn on.
func (s *Network) Forwarding(ctx context.Context) (host.Forwarding, error) {
	on := func(name string) bool { n, ok := setting(name); return !ok || n != 0 }
	_, ipv6 := setting(forward6)
	return host.Forwarding{IPv4: on(forward4), IPv6: on(forward6), NoIPv6: !ipv6, KeepsSecondaries: on(promote)}, ctx.Err()
}

// Forward turns the forwarding of packets on or off. Settings that are right already are not written.
func (s *Network) Forward(ctx context.Context, on bool) error {
	if err := s.home.Network(ctx); err != nil {
		return err
	}
	want := 0
	if on {
		want = 1
	}
	for _, x := range []struct {
		name string
		want int
	}{{forward4, want}, {forward6, want}, {promote, 1}} {
		n, ok := setting(x.name)
		if !ok || (n != 0) == (x.want != 0) {
			continue
		}
		if err := s.setSetting(x.name, x.want); err != nil {
			return err
		}
	}
	return nil
}

// AcceptRouters lets an interface learn its default route from router advertisements although the machine forwards packets.
func (s *Network) AcceptRouters(ctx context.Context, name string) error {
	if err := s.home.Network(ctx); err != nil {
		return err
	}
	if _, err := value.Parse[value.IfName](name); err != nil {
		return fmt.Errorf("%q %w", name, err)
	}
	return s.setSetting(acceptRASetting(name), 2)
}
