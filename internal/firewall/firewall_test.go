package firewall_test

import (
	"context"
	"net/http"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"edge.internal/gateway/internal/firewall"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host/nettest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

func TestMain(m *testing.M) { nettest.Main(m) }

// house is the room on the real kernel, with what other rooms lend under the test's control.
type house struct {
	*kittest.Bench
	interfaces map[string][]string
	openings   []policy.Opening
	tunnels    []policy.Tunnel
	peers      []netip.Addr
	names      map[string][]netip.Addr
	resolveErr error
}

func newHouse(t *testing.T) *house {
	h := &house{Bench: kittest.NewReal(t), interfaces: map[string][]string{"wan": {"wan0"}, "lan": {"lan0", "lan1"}}, names: map[string][]netip.Addr{}}
	room := firewall.New(h.Kit, firewall.Deps{
		Interfaces: func(context.Context, db.Querier) (map[value.Zone][]value.IfName, error) {
			zones := map[value.Zone][]value.IfName{}
			for zone, names := range h.interfaces {
				for _, n := range names {
					z := value.Must[value.Zone](zone)
					zones[z] = append(zones[z], value.Must[value.IfName](n))
				}
			}
			return zones, nil
		},
		ZoneUsers: func(context.Context, db.Querier, value.Zone) ([]resource.User, error) { return nil, nil },
		Openings:  []policy.Source{func(context.Context, db.Querier) ([]policy.Opening, error) { return h.openings, nil }},
		Tunnels:   func(context.Context, db.Querier) ([]policy.Tunnel, error) { return h.tunnels, nil },
		Peers:     func(context.Context, db.Querier) ([]netip.Addr, error) { return h.peers, nil },
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			return h.names[name], h.resolveErr
		},
	})
	room.Mount()
	h.Resources.MountChangeSets()
	h.Start(t)
	return h
}

func nft(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("nft", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("nft %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestSmoke(t *testing.T) {
	h := newHouse(t)
	a := h.Do(t, "admin", http.MethodPost, "/firewall/rules", map[string]any{"name": "x", "src_zone": "lan", "dst_zone": "wan", "action": "accept", "service_group_id": "00000000-0000-7000-8000-000000000305"})
	a.Want(t, 201)
	t.Log(a.Header.Get("Gateway-Apply"), string(a.Data))
	t.Log(nft(t, "list", "table", "inet", "gateway"))
}
