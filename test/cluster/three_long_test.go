//go:build long

package cluster

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
)

// TestThreeNodes: two nodes follow a third. The primary changes by a planned promotion, and by force when it is lost; a standby that is behind another one is not promoted; the
// other standby follows the new primary automatically, and so does the former primary when it returns.
func TestThreeNodes(t *testing.T) {
	nodes := up(t, 3)
	one, two, three := nodes[0], nodes[1], nodes[2]
	if a, b, c := one.role(t), two.role(t), three.role(t); a != "primary" || b != "standby" || c != "standby" {
		t.Fatalf("the nodes are %s, %s and %s", a, b, c)
	}
	spread := func(by node, name string) {
		t.Helper()
		by.add(t, name)
		for _, n := range nodes {
			waittest.Until(t, "a change at "+by.Name()+" is in the daemon of "+n.Name(), func() bool { return n.applied(t, name) })
		}
	}
	follow := func(primary node, others ...node) {
		t.Helper()
		for _, n := range others {
			waittest.Until(t, n.Name()+" follows "+primary.Name(), func() bool {
				return n.role(t) == "standby" && ask[string](t, n, "SELECT primary_name FROM ha_state") == primary.FQDN()
			})
		}
	}
	well := func(n node) {
		t.Helper()
		var s struct {
			Health   string
			Problems []string
		}
		waittest.UntilNil(t, "the cluster is well, seen from "+n.Name(), func() error {
			if n.Must(t, http.MethodGet, "/cluster/status", nil, 200, &s); s.Health != "OK" {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
	for _, n := range nodes {
		well(n)
	}
	spread(one, "primary.example.net")
	spread(three, "standby.example.net")

	share(t, nodes)
	holder := oneHolds(t, nodes)
	holder.drain(t, true)
	waittest.Until(t, "another node has the virtual addresses", func() bool { return !holder.holds() })
	holder.drain(t, false)
	oneHolds(t, nodes)

	three.Must(t, http.MethodPost, "/cluster/promote", nil, 200, nil)
	follow(three, one, two)
	spread(three, "planned.example.net")
	spread(two, "passed.example.net")

	// What one standby has and the other one has not.
	two.do(t, two.Cut(lab.Cluster))
	three.add(t, "ahead.example.net")
	waittest.Until(t, "the change is on "+one.Name(), func() bool { return one.has(t, "ahead.example.net") })
	three.do(t, three.Crash())
	two.do(t, two.Heal(lab.Cluster))
	waittest.UntilNil(t, two.Name()+" hears "+one.Name(), func() error {
		var s struct {
			Peers []struct{ FQDN, Error string }
		}
		two.Must(t, http.MethodGet, "/cluster/status", nil, 200, &s)
		for _, p := range s.Peers {
			if p.FQDN == one.FQDN() && p.Error == "" {
				return nil
			}
		}
		return fmt.Errorf("%+v", s)
	})
	if a := two.Must(t, http.MethodPost, "/cluster/promote", fields{"force": true}, 409, nil); !bytes.Contains(a.Body, []byte(one.FQDN()+" has changes")) {
		t.Errorf("a node that is behind: %s", a.Body)
	}
	one.Must(t, http.MethodPost, "/cluster/promote", fields{"force": true}, 200, nil)
	follow(one, two)
	waittest.Until(t, "what only one of them had is on both", func() bool { return two.applied(t, "ahead.example.net") })
	one.add(t, "alone.example.net")

	three.do(t, three.Boot(t.Context()))
	follow(one, three)
	three.Login(t)
	spread(one, "whole.example.net")
	spread(three, "again.example.net")
	for _, n := range nodes {
		well(n)
	}
	same(t, one, two)
	same(t, one, three)
	oneHolds(t, nodes)
}
