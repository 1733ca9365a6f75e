//go:build vm

package guest

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/tunnel"
)

// pair is a new key pair.
func pair(t *testing.T) (private, public tunnel.Key) {
	t.Helper()
	k, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text := func(b []byte) tunnel.Key { return value.Must[tunnel.Key](base64.StdEncoding.EncodeToString(b)) }
	return text(k.Bytes()), text(k.PublicKey().Bytes())
}

// follow brings the kernel's tunnels to the configuration, and checks that nothing is left to do after that.
func follow(t *testing.T, s *machine.Machine, c tunnel.Config) {
	t.Helper()
	if err := followTo(t.Context(), s, c); err != nil {
		t.Fatal(err)
	}
}

func followTo(ctx context.Context, s *machine.Machine, c tunnel.Config) error {
	dial := func(_ *tunnel.Wanted, p *tunnel.WantedPeer) netip.AddrPort {
		at, _ := netip.ParseAddrPort(p.Endpoint.String())
		return at
	}
	for range 3 {
		live, err := tunnel.ReadLive(ctx, s)
		if err != nil {
			return err
		}
		plan := tunnel.MakePlan(live, c, dial)
		if len(plan.Problems) > 0 {
			return fmt.Errorf("%v", plan.Problems)
		}
		if len(plan.Steps) == 0 {
			return nil
		}
		for _, step := range plan.Steps {
			if err := step.Do(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", step.Text, err)
			}
		}
	}
	return errors.New("there is always something left to do")
}

// Two tunnels of the kernel's own shake hands, change and go.
func TestTunnelsOfTheKernel(t *testing.T) {
	s := system(t)
	privateA, publicA := pair(t)
	privateB, publicB := pair(t)
	psk, _ := pair(t)
	both := []netip.Prefix{netip.MustParsePrefix("10.88.0.0/24"), netip.MustParsePrefix("fd00:88::/64")}
	c := tunnel.Config{Tunnels: []tunnel.Wanted{
		{ID: uuid.New(), Name: value.Must[value.IfName]("gwtun0"), Addresses: []netip.Prefix{netip.MustParsePrefix("10.87.0.1/24"), netip.MustParsePrefix("fd00:87::1/64")}, PublicKey: publicA, PrivateKey: privateA, ListenPort: 51820, MTU: 1380, Peers: []tunnel.WantedPeer{
			{Name: "b", PublicKey: publicB, PresharedKey: psk, AllowedIPs: both},
		}},
		{ID: uuid.New(), Name: value.Must[value.IfName]("gwtun1"), Addresses: []netip.Prefix{netip.MustParsePrefix("10.86.0.2/32")}, PublicKey: publicB, PrivateKey: privateB, Peers: []tunnel.WantedPeer{
			{Name: "a", PublicKey: publicA, PresharedKey: psk, AllowedIPs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}, Endpoint: value.Must[tunnel.Endpoint]("127.0.0.1:51820"), Keepalive: 1},
		}},
	}}
	defer follow(t, s, tunnel.Config{})
	follow(t, s, c)
	shaken := func() bool {
		devices, err := s.TunnelDevices(t.Context())
		if err != nil || len(devices) != 2 {
			t.Fatalf("%+v, %v", devices, err)
		}
		for _, d := range devices {
			if d.Kind != "kernel" {
				t.Fatalf("%s is done by %s", d.Name, d.Kind)
			}
			if d.Peers[0].LastHandshake.IsZero() {
				return false
			}
		}
		return true
	}
	waittest.Until(t, "there is a handshake", shaken)
	l := find(t, s, "gwtun0")
	if l == nil || l.Kind != "wireguard" || !l.Up() || l.MTU != 1380 || !strings.HasPrefix(l.Alias, host.OwnTunnel) {
		t.Fatalf("%+v", l)
	}
	rules, err := s.Rules(t.Context())
	if err != nil || len(rules) < 4 {
		t.Fatalf("%+v, %v", rules, err)
	}

	// Another peer, another port, and no more default route through a tunnel: the first peer is not affected.
	_, other := pair(t)
	before, err := s.TunnelDevices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Tunnels[0].ListenPort = 51830
	c.Tunnels[0].Peers = append(c.Tunnels[0].Peers, tunnel.WantedPeer{Name: "c", PublicKey: other, AllowedIPs: []netip.Prefix{netip.MustParsePrefix("10.89.0.0/24")}})
	c.Tunnels = c.Tunnels[:1]
	follow(t, s, c)
	after, err := s.TunnelDevices(t.Context())
	if err != nil || len(after) != 1 || len(after[0].Peers) != 2 || after[0].ListenPort != 51830 || after[0].PublicKey != before[0].PublicKey {
		t.Fatalf("%+v, %v", after, err)
	}
	for _, p := range after[0].Peers {
		if p.PublicKey == publicB.Bytes() && p.LastHandshake.Before(before[0].Peers[0].LastHandshake) {
			t.Error("the handshake is lost")
		}
	}
	if rules, err := s.Rules(t.Context()); err != nil || len(rules) != 0 || find(t, s, "gwtun1") != nil {
		t.Fatalf("%+v, %v", rules, err)
	}
	follow(t, s, tunnel.Config{})
	if find(t, s, "gwtun0") != nil {
		t.Fatal("the link stays")
	}
}
