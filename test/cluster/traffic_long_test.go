//go:build long

package cluster

import (
	"net/http"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/test/traffic"
)

// during has so many requests a second while something is done, and for a second before and after it.
func during(t *testing.T, n node, rate int, what string, do func()) traffic.Result {
	t.Helper()
	x := traffic.Offer(n.site(), rate)
	more := func() {
		t.Helper()
		enough := x.Asked() + rate
		waittest.Until(t, what+": requests", func() bool { return x.Asked() >= enough })
	}
	more()
	do()
	more()
	r := x.End()
	t.Logf("%s: %s", what, r)
	return r
}

// unnoticed is during, and no request fails but those that wait for their answer in the very moment in which the address moves, and are cut off with their connection.
func unnoticed(t *testing.T, n node, rate, moves int, what string, do func()) {
	t.Helper()
	if r := during(t, n, rate, what, do); r.Failed > r.Cut() || r.Cut() > moves*traffic.Callers {
		t.Errorf("%s, the address has moved %d times: %s", what, moves, r)
	}
}

// fakeUpgrade does what clients notice of an upgrade: the node releases its virtual address, its programs are replaced, and it works as before. A lab has no apt; the
// real upgrade of two machines is in test/appliance.
func (n node) fakeUpgrade(t *testing.T, other node) {
	t.Helper()
	n.drain(t, true)
	waittest.Until(t, "the virtual address is on "+other.Name(), func() bool { return other.holds() && !n.holds() })
	for _, unit := range []host.Unit{host.Scheduler, host.API, host.Helper} {
		n.do(t, n.Units().Restart(t.Context(), unit))
	}
	n.WaitSettled(t)
	n.drain(t, false)
}

// TestTraffic has people use a site that the cluster publishes while its nodes change places. How long they wait is measured by the bench.
func TestTraffic(t *testing.T) {
	nodes := up(t, 2)
	one, two := nodes[0], nodes[1]
	virtualAddress(t, one, two)

	unnoticed(t, one, 200, 1, "drain", func() { moveTo(t, two, one) })
	unnoticed(t, one, 200, 1, "drain of the other node", func() { moveTo(t, one, two) })
	unnoticed(t, one, 200, 1, "planned switchover, and the address moves as well", func() {
		two.Must(t, http.MethodPost, "/cluster/promote", nil, 200, nil)
		moveTo(t, two, one)
		waittest.Until(t, "the former primary follows", func() bool { return one.role(t) == "standby" })
	})
	unnoticed(t, two, 200, 0, "loss of the standby", func() {
		one.do(t, one.Crash())
		waittest.Until(t, "the primary knows", func() bool {
			var s struct{ Health string }
			two.Must(t, http.MethodGet, "/cluster/status", nil, 200, &s)
			return s.Health == "degraded"
		})
	})
	one.do(t, one.Boot(t.Context()))
	waittest.Until(t, "the nodes know each other", func() bool { return one.role(t) == "standby" && two.role(t) == "primary" })
	one.WaitSettled(t)
	unnoticed(t, two, 50, 2, "rolling update", func() {
		one.fakeUpgrade(t, two)
		two.fakeUpgrade(t, one)
	})
	moveTo(t, two, one)

	during(t, one, 200, "loss of the primary, which has the address", func() {
		two.do(t, two.Crash())
		answers(t, one)
	})
	if !one.holds() {
		t.Error("the other node does not have the address")
	}
	one.Must(t, http.MethodPost, "/cluster/promote", fields{"force": true}, 200, nil)
	two.do(t, two.Boot(t.Context()))
	waittest.Until(t, "the former primary follows", func() bool { return two.role(t) == "standby" })
	same(t, one, two)
	waittest.Until(t, "one node has the virtual address", func() bool { return one.holds() != two.holds() })
}
