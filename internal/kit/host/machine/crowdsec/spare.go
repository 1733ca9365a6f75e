package crowdsec

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/command"
)

// nftWithin is how long nft may take.
const nftWithin = 10 * time.Second

// DetectionSpare has the firewall bouncer's tables let the packets of these addresses pass. The gateway's own table judges them all the same.
func (s *CrowdSec) DetectionSpare(ctx context.Context, addresses []netip.Addr) error {
	if err := s.home.Here(host.PacketFilter); err != nil {
		return err
	}
	var script strings.Builder
	for _, t := range []struct{ family, table, chain, kind string }{
		{"ip", host.BouncerTable4, host.BouncerChain4, "ipv4_addr"}, {"ip6", host.BouncerTable6, host.BouncerChain6, "ipv6_addr"},
	} {
		there, err := nft(ctx, "list chain "+t.family+" "+t.table+" "+t.chain)
		if err != nil {
			return err
		}
		set := t.family + " " + t.table + " " + host.BouncerSpared
		fmt.Fprintf(&script, "add set %s { type %s; }\nflush set %s\n", set, t.kind, set)
		for _, a := range addresses {
			if a = a.Unmap().WithZone(""); a.Is4() == (t.family == "ip") {
				fmt.Fprintf(&script, "add element %s { %s }\n", set, a)
			}
		}
		// A bouncer that was killed finds its old chain again.
		if rule := t.family + " saddr @" + host.BouncerSpared + " accept"; !strings.Contains(there, rule) {
			fmt.Fprintf(&script, "insert rule %s %s %s %s\n", t.family, t.table, t.chain, rule)
		}
	}
	_, err := nft(ctx, script.String())
	return err
}

// nft does what a script says, all or nothing.
func nft(ctx context.Context, script string) (string, error) {
	out, err := command.Exec(ctx, []string{"/usr/sbin/nft", script}, nftWithin)
	switch {
	case err != nil:
		return "", err
	case out.ExitCode == 0:
		return out.Stdout, nil
	case strings.Contains(out.Stderr, "No such file or directory"):
		return "", fmt.Errorf("the firewall bouncer's tables: %w", host.ErrNotRunning)
	}
	return "", fmt.Errorf("nft: %s", host.FirstLines(out.Stderr))
}
