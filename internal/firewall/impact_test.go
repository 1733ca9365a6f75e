package firewall_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"edge.internal/gateway/internal/firewall"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/resource"
)

// network is a network that a change reroutes; without a detour it never changes.
type network struct{ detour firewall.Detour }

func (n network) Since(context.Context, firewall.Network) (firewall.Detour, error) {
	return n.detour, nil
}

// live is an answered connection without NAT.
func live(protocol uint8, from, to string) host.Connection {
	a, b := netip.MustParseAddrPort(from), netip.MustParseAddrPort(to)
	flow := host.Flow{Source: a.Addr(), SourcePort: a.Port(), Destination: b.Addr(), DestinationPort: b.Port()}
	reply := host.Flow{Source: b.Addr(), SourcePort: b.Port(), Destination: a.Addr(), DestinationPort: a.Port()}
	return host.Connection{ConnectionKey: host.ConnectionKey{Flow: flow, Protocol: protocol}, Reply: reply, Replied: true}
}

// foresee returns what a preview reports about connections.
func (o *office) foresee(t *testing.T, operations ...any) resource.Impact {
	t.Helper()
	var out struct{ Impact []resource.Impact }
	o.Do(t, "viewer", http.MethodPost, "/change-sets", map[string]any{"preview": true, "operations": operations}).Want(t, 200).Into(t, &out)
	if len(out.Impact) != 1 || out.Impact[0].Area != resource.Connections {
		t.Fatalf("%+v", out)
	}
	return out.Impact[0]
}

func TestImpactOnConnections(t *testing.T) {
	o := newOffice(t)
	const tcp, udp = 6, 17
	web := o.make(t, "/firewall/rules", map[string]any{"name": "out", "src_zone": "lan", "dst_zone": "wan", "action": "accept"})
	nat := o.make(t, "/nat-rules", map[string]any{"name": "mail", "kind": "dnat", "in_zone": "wan", "protocol": "tcp", "dst_port": 25, "target_address": "10.1.0.9"})
	oneWay := live(udp, "10.1.0.9:5000", "198.51.100.7:514")
	oneWay.Replied = false
	forwarded := live(tcp, "198.51.100.7:6000", "192.0.2.1:25")
	forwarded.DestinationNAT, forwarded.Reply.Source = true, netip.MustParseAddr("10.1.0.9")
	over := live(tcp, "10.1.0.9:4001", "198.51.100.7:443")
	over.State = 7 // time_wait
	o.Machine.SetConnections(
		live(tcp, "10.1.0.9:4000", "198.51.100.7:443"), over, oneWay, forwarded,
		live(tcp, "10.1.0.9:7000", "10.1.0.1:22"),      // the anti-lockout rules keep it
		live(tcp, "192.0.2.1:7000", "198.51.100.7:53"), // the gateway's own is not filtered
	)
	off := func(kind, id string) any {
		return map[string]any{"kind": kind, "verb": "update", "id": id, "body": map[string]any{"enabled": false}}
	}
	x := o.foresee(t, off("firewall.rule", web))
	if !x.Computed || x.Checked != 5 || !reflect.DeepEqual(x.First, []resource.Affected{
		// It was not answered: each of its packets is checked.
		{What: "udp 10.1.0.9:5000 to 198.51.100.7:514", Effect: resource.Cut, Before: "accepted by rule out; leaves through wan0", After: "dropped: no rule accepts it"},
		{What: "tcp 10.1.0.9:4000 to 198.51.100.7:443", Effect: resource.Blocked, Before: "accepted by rule out; leaves through wan0", After: "dropped: no rule accepts it"},
	}) {
		t.Errorf("%+v", x)
	}
	x = o.foresee(t, off("firewall.nat-rule", nat))
	if x.Count != 1 || x.First[0].What != "tcp 198.51.100.7:6000 to 192.0.2.1:25" || x.First[0].Effect != resource.Blocked || !strings.Contains(x.First[0].Before, "192.0.2.1:25 becomes 10.1.0.9:25") {
		t.Errorf("%+v", x)
	}
	x = o.foresee(t, map[string]any{"kind": "firewall.nat-rule", "verb": "create", "body": map[string]any{"name": "hide", "kind": "masquerade", "out_zone": "wan", "protocol": "any"}})
	if x.Count != 2 || x.First[0].Effect != resource.Redirected || !strings.Contains(x.First[0].After, "10.1.0.9 becomes 192.0.2.1") {
		t.Errorf("%+v", x)
	}
	x = o.foresee(t, map[string]any{"kind": "firewall.rule", "verb": "create", "body": map[string]any{"name": "elsewhere", "src_kind": "cidr", "src_cidr": "203.0.113.0/24", "src_zone": "any", "dst_zone": "any", "action": "drop", "priority": -1}})
	if !x.Computed || x.Count != 0 || x.Checked != 5 {
		t.Errorf("%+v", x)
	}
	// Another router is another route, even behind the same interface, for packets and for the answers to them.
	for destination, after := range map[string]string{"198.51.100.7": "it goes to the router 192.0.2.9", "10.1.0.9": "its answers go to the router 192.0.2.9"} {
		o.detour = func(to netip.Addr, is firewall.Way) (firewall.Way, error) {
			if to.String() == destination {
				is.Via = netip.MustParseAddr("192.0.2.9")
			}
			return is, nil
		}
		x := o.foresee(t, map[string]any{"kind": "firewall.zone", "verb": "create", "body": map[string]any{"name": "guest"}})
		if !x.Computed || x.Count != 4 || x.First[0].Effect != resource.Rerouted || x.First[0].After != after {
			t.Errorf("%+v", x)
		}
	}
	// A masqueraded connection loses its address if it leaves by another interface.
	o.make(t, "/nat-rules", map[string]any{"name": "hide", "kind": "masquerade", "out_zone": "wan", "protocol": "any"})
	hidden := live(tcp, "10.1.0.9:4002", "198.51.100.7:443")
	hidden.SourceNAT, hidden.Reply.Destination = true, netip.MustParseAddr("192.0.2.1")
	o.Machine.SetConnections(hidden)
	o.detour = func(to netip.Addr, is firewall.Way) (firewall.Way, error) {
		if to.String() == "198.51.100.7" {
			is.Interface = "lan1"
		}
		return is, nil
	}
	x = o.foresee(t, map[string]any{"kind": "firewall.zone", "verb": "create", "body": map[string]any{"name": "guest"}})
	if x.Count != 1 || x.First[0].Effect != resource.Cut || x.First[0].After != "it loses the address that it had on wan0" {
		t.Errorf("%+v", x)
	}
	o.detour = nil
	// If the impact cannot be determined, that is reported.
	o.wayErr = errors.New("no answer")
	x = o.foresee(t, off("firewall.rule", web))
	if x.Computed || x.Why != "The kernel's routes cannot be read: no answer." || x.Count != 0 {
		t.Errorf("%+v", x)
	}
	o.wayErr = nil
	many := make([]host.Connection, 20_001)
	for i := range many {
		many[i] = live(tcp, netip.AddrPortFrom(netip.MustParseAddr("10.1.0.9"), uint16(i+1)).String(), "198.51.100.7:443")
	}
	o.Machine.SetConnections(many[1:]...)
	if x = o.foresee(t, off("firewall.rule", web)); x.Computed && x.Count != 20_000 || len(x.First) > 20 {
		t.Errorf("%+v", x)
	}
	o.Machine.SetConnections(many...)
	if x = o.foresee(t, off("firewall.rule", web)); x.Computed || x.Why != "The gateway has 20001 connections. It can check 20000 at most." {
		t.Errorf("%+v", x)
	}
}
