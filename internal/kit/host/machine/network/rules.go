package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
)

func (s *Network) Rules(ctx context.Context) ([]host.Rule, error) {
	var list []host.Rule
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		found, err := Dump(ctx, func() ([]netlink.Rule, error) { return netlink.RuleList(family) })
		if err != nil {
			return nil, fmt.Errorf("listing routing rules: %w", err)
		}
		for _, r := range found {
			if r.Protocol != host.TunnelProtocol {
				continue
			}
			rule := host.Rule{Family: "inet", Priority: r.Priority, Table: uint32(r.Table), Specific: r.SuppressPrefixlen == 0}
			if family == netlink.FAMILY_V6 {
				rule.Family = "inet6"
			}
			if r.Src != nil {
				bits, _ := r.Src.Mask.Size()
				rule.From = netip.PrefixFrom(AddrOf(r.Src.IP), bits)
			}
			if r.Invert {
				rule.NotMark = int(r.Mark)
			}
			list = append(list, rule)
		}
	}
	return list, nil
}

func (s *Network) AddRule(ctx context.Context, r host.Rule) error {
	if err := s.home.Network(ctx); err != nil {
		return err
	}
	if err := netlink.RuleAdd(kernelRule(r)); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// RemoveRule removes a routing rule of a tunnel. The kernel also compares the protocol, so rules of other programs stay.
func (s *Network) RemoveRule(ctx context.Context, r host.Rule) error {
	if err := s.home.Network(ctx); err != nil {
		return err
	}
	if err := netlink.RuleDel(kernelRule(r)); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

func kernelRule(r host.Rule) *netlink.Rule {
	rule := netlink.NewRule()
	rule.Family, rule.Priority, rule.Table, rule.Protocol = netlink.FAMILY_V4, r.Priority, int(r.Table), host.TunnelProtocol
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
