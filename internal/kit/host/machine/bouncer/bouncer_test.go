package bouncer

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

// bouncer creates the tables as the firewall bouncer does.
func bouncer(t *testing.T) {
	t.Helper()
	var script strings.Builder
	for _, b := range bouncerTables {
		name := b.family + " " + b.table
		fmt.Fprintf(&script, "add table %s\nadd chain %s %s { type filter hook input priority filter; }\n", name, name, b.chain)
		fmt.Fprintf(&script, "add set %s %s { type %s; flags timeout; }\n", name, b.set, b.kind)
		fmt.Fprintf(&script, "add rule %s %s %s saddr @%s counter drop\n", name, b.chain, b.family, b.set)
	}
	do(t, script.String())
}

func do(t *testing.T, script string) string {
	t.Helper()
	out, err := nft(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDropped(t *testing.T) {
	s := New(home.Home{})
	a4, b4, a6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::1")
	dropped := func(want ...netip.Addr) {
		t.Helper()
		got, err := s.DetectionDropped(t.Context(), []netip.Addr{a4, b4, a6, netip.MustParseAddr("192.0.2.3")})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v instead of %v", got, err, want)
		}
	}
	without := func() {
		t.Helper()
		if _, err := s.DetectionDropped(t.Context(), nil); !errors.Is(err, host.ErrNotRunning) {
			t.Errorf("without tables: %v", err)
		}
	}
	without()
	if err := s.DetectionSpare(t.Context(), nil); !errors.Is(err, host.ErrNotRunning) {
		t.Errorf("without tables: %v", err)
	}
	bouncer(t)
	do(t, "add element ip crowdsec crowdsec-blacklists { 192.0.2.1 timeout 1h, 192.0.2.2 timeout 1h }")
	do(t, "add element ip6 crowdsec6 crowdsec6-blacklists { 2001:db8::1 timeout 1h }")
	without() // the bouncer's own chain sees no forwarded packets
	for range 2 {
		if err := s.DetectionSpare(t.Context(), []netip.Addr{b4, netip.MustParseAddr("fe80::1%lo")}); err != nil {
			t.Fatal(err)
		}
		dropped(a4, a6)
	}
	if own := do(t, "list chain ip crowdsec crowdsec-chain"); strings.Count(own, "@gateway-spared accept") != 1 {
		t.Error(own)
	}
	if err := s.DetectionSpare(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	dropped(a4, b4, a6)
	// CrowdSec's blocklists have tens of thousands of addresses.
	var many []string
	for i := range 20_000 {
		many = append(many, netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}).String())
	}
	for part := range slices.Chunk(many, 1000) {
		do(t, "add element ip crowdsec crowdsec-blacklists { "+strings.Join(part, ", ")+" }")
	}
	dropped(a4, b4, a6)

	for _, change := range []string{
		"flush chain ip crowdsec gateway-bans",
		"insert rule ip6 crowdsec6 gateway-bans accept",
		"add chain ip crowdsec gateway-bans { policy drop; }",
	} {
		do(t, change)
		if _, err := s.DetectionDropped(t.Context(), nil); err == nil || errors.Is(err, host.ErrNotRunning) {
			t.Errorf("after %q: %v", change, err)
		}
		if err := s.DetectionSpare(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		dropped(a4, b4, a6)
	}
	do(t, "delete table ip crowdsec")
	without()
	do(t, "delete table ip6 crowdsec6")
}
