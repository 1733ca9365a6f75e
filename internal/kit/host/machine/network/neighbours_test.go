package network

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

// A machine that answers, or did, is a neighbour. One that never answered is not, nor is a multicast group.
func TestNeighbours(t *testing.T) {
	ip := func(words string) {
		t.Helper()
		if out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", words, err, out)
		}
	}
	ip("link add near0 type veth peer name far0")
	t.Cleanup(func() { ip("link delete near0") })
	ip("address add 192.0.2.1/24 dev near0")
	ip("link set near0 up")
	ip("link set far0 up")
	ip("neighbour add 192.0.2.9 lladdr 02:00:00:00:00:09 dev near0 nud reachable")
	ip("neighbour add 2001:db8::9 lladdr 02:00:00:00:00:09 dev near0 nud stale")
	ip("neighbour add 192.0.2.10 dev near0 nud failed")
	ip("neighbour add 224.0.0.9 lladdr 01:00:5e:00:00:09 dev near0 nud permanent")
	found, err := New(home.Home{}).Neighbours(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of := map[netip.Addr]host.Neighbour{}
	for _, n := range found {
		if n.Link == "near0" {
			of[n.Address] = n
		}
	}
	for _, address := range []string{"192.0.2.9", "2001:db8::9"} {
		if n := of[netip.MustParseAddr(address)]; n.MAC != "02:00:00:00:00:09" || n.Confirmed < 0 || n.Confirmed > time.Hour {
			t.Errorf("%s: %+v", address, n)
		}
	}
	for _, address := range []string{"192.0.2.10", "224.0.0.9"} {
		if n, ok := of[netip.MustParseAddr(address)]; ok {
			t.Errorf("%+v", n)
		}
	}
}
