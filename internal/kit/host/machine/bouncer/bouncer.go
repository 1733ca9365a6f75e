// Package bouncer adds the gateway's rules to the kernel tables that hold the bans of CrowdSec's firewall bouncer, and reads the tables.
package bouncer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/machine/command"
	"edge.internal/gateway/internal/kit/host/machine/filter/nfnl"
)

type Tables struct{ home home.Home }

func New(h home.Home) *Tables { return &Tables{h} }

const nftWithin = 10 * time.Second

type bouncerTable struct {
	number                          uint8 // of the protocol family
	family, table, chain, set, kind string
}

var bouncerTables = []bouncerTable{
	{unix.NFPROTO_IPV4, "ip", crowdsec.Table4, crowdsec.Chain4, crowdsec.Set4, "ipv4_addr"},
	{unix.NFPROTO_IPV6, "ip6", crowdsec.Table6, crowdsec.Chain6, crowdsec.Set6, "ipv6_addr"},
}

// hook places the gateway's chain before NAT and before routing, so that it sees forwarded packets, too.
const hook = "type filter hook prerouting priority raw; policy accept;"

func (t bouncerTable) rules() []string {
	return []string{t.family + " saddr @" + crowdsec.SparedSet + " accept", t.family + " saddr @" + t.set + " counter drop"}
}

func (t bouncerTable) has(a netip.Addr) bool { return a.Is4() == (t.family == "ip") }

// DetectionSpare adds to the firewall bouncer's tables a chain that drops what they ban, and a set of exempt addresses. The gateway's
// own table still filters the exempt addresses.
func (s *Tables) DetectionSpare(ctx context.Context, addresses []netip.Addr) error {
	if err := s.home.Here(nftables.PacketFilter); err != nil {
		return err
	}
	var script strings.Builder
	for _, t := range bouncerTables {
		listing, err := nft(ctx, "list chain "+t.family+" "+t.table+" "+t.chain)
		if err != nil {
			return err
		}
		set, chain := t.family+" "+t.table+" "+crowdsec.SparedSet, t.family+" "+t.table+" "+crowdsec.BansChain
		fmt.Fprintf(&script, "add set %s { type %s; }\nflush set %s\n", set, t.kind, set)
		for _, a := range addresses {
			if a = a.Unmap().WithZone(""); t.has(a) {
				fmt.Fprintf(&script, "add element %s { %s }\n", set, a)
			}
		}
		fmt.Fprintf(&script, "add chain %s { %s }\nflush chain %s\n", chain, hook, chain)
		for _, rule := range t.rules() {
			fmt.Fprintf(&script, "add rule %s %s\n", chain, rule)
		}
		// The bouncer's own chain sees packets to the gateway itself. A bouncer that was killed reuses its old chain, which has the rule.
		if spared := t.rules()[0]; !strings.Contains(listing, spared) {
			fmt.Fprintf(&script, "insert rule %s %s %s %s\n", t.family, t.table, t.chain, spared)
		}
	}
	_, err := nft(ctx, script.String())
	return err
}

func (s *Tables) DetectionDropped(ctx context.Context, of []netip.Addr) ([]netip.Addr, error) {
	if err := s.home.Here(nftables.PacketFilter); err != nil {
		return nil, err
	}
	var dropped []netip.Addr
	for _, t := range bouncerTables {
		listing, err := nft(ctx, "list chain "+t.family+" "+t.table+" "+crowdsec.BansChain)
		if err != nil {
			return nil, err
		}
		if want := hook + "\n\t\t" + strings.Join(t.rules(), "\n\t\t") + "\n\t}"; !strings.Contains(listing, want) {
			return nil, fmt.Errorf("the table %s %s was changed by another program", t.family, t.table)
		}
		if !slices.ContainsFunc(of, t.has) {
			continue
		}
		banned, err := t.elements(ctx, t.set)
		if err != nil {
			return nil, err
		}
		spared, err := t.elements(ctx, crowdsec.SparedSet)
		if err != nil {
			return nil, err
		}
		for _, a := range of {
			if banned[a] && !spared[a] {
				dropped = append(dropped, a)
			}
		}
	}
	return dropped, nil
}

func (t bouncerTable) elements(ctx context.Context, set string) (map[netip.Addr]bool, error) {
	list, err := nfnl.Addresses(ctx, t.number, t.table, set)
	if errors.Is(err, unix.ENOENT) {
		return nil, noTables
	}
	if err != nil {
		return nil, fmt.Errorf("reading the firewall bouncer's tables: %w", err)
	}
	all := make(map[netip.Addr]bool, len(list))
	for _, a := range list {
		all[a] = true
	}
	return all, nil
}

var noTables = fmt.Errorf("the firewall bouncer's tables: %w", host.ErrNotRunning)

// nft runs a script, all or nothing. Its listings have no counter values, so that they can be compared.
func nft(ctx context.Context, script string) (string, error) {
	out, err := command.Exec(ctx, []string{"/usr/sbin/nft", "--stateless", script}, nftWithin)
	switch {
	case err != nil:
		return "", err
	case out.ExitCode == 0:
		return out.Stdout, nil
	case strings.Contains(out.Stderr, "No such file or directory"):
		return "", noTables
	}
	return "", fmt.Errorf("nft: %s", host.FirstLines(out.Stderr))
}
