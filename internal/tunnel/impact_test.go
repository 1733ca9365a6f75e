package tunnel_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/tunnel"
)

func TestImpactOnPeers(t *testing.T) {
	b, room := bench(t)
	i := serverOf(t, b, "wg0", "10.8.0.1/24")
	laptop := post[tunnel.Peer](t, b, peersOf(i), `{"name":"laptop"}`)
	post[tunnel.Peer](t, b, peersOf(i), `{"name":"quiet"}`)
	office := post[tunnel.Peer](t, b, peersOf(i), `{"name":"office","endpoint":"198.51.100.9:51820"}`)
	d := deviceOf(t, b, "wg0")
	for n := range d.Peers {
		if d.Peers[n].AllowedIPs[0].Addr() != netip.MustParseAddr("10.8.0.3") {
			d.Peers[n].LastHandshake = b.Clock.Now()
		}
	}
	b.Machine.SetTunnelDevices(*d)
	foresee := func(operation string) resource.Impact {
		t.Helper()
		var out struct{ Impact []resource.Impact }
		b.Do(t, "admin", http.MethodPost, "/change-sets", `{"preview":true,"operations":[`+operation+`]}`).Want(t, 200).Into(t, &out)
		if len(out.Impact) != 1 || out.Impact[0].Area != resource.TunnelPeers {
			t.Fatalf("%+v", out)
		}
		return out.Impact[0]
	}
	expect := func(x resource.Impact, want ...string) {
		t.Helper()
		if !x.Computed || x.Checked != 3 || x.Count != len(want) {
			t.Fatalf("%+v", x)
		}
		for n := range want {
			got := x.First[n]
			if text := fmt.Sprintf("%s %s: %s", got.Effect, got.What, got.After); text != want[n] {
				t.Errorf("%s instead of %s", text, want[n])
			}
		}
	}
	peer := func(p tunnel.Peer, change string) string {
		return `{"kind":"tunnel.peer","verb":"update","id":"` + p.ID.String() + `","body":` + change + `}`
	}
	own := func(change string) string {
		return `{"kind":"tunnel.interface","verb":"update","id":"` + i.ID.String() + `","body":` + change + `}`
	}
	expect(foresee(peer(laptop, `{"name":"renamed"}`)))
	expect(foresee(peer(laptop, `{"active":false}`)), "cut laptop of wg0 (10.8.0.2/32): it is removed or off")
	expect(foresee(peer(laptop, `{"allowed_ips":"10.8.0.77/32"}`)), "cut laptop of wg0 (10.8.0.2/32): it no longer has 10.8.0.2/32")
	expect(foresee(peer(laptop, `{"allowed_ips":"10.8.0.2/32,172.16.0.0/24"}`)))
	expect(foresee(peer(laptop, `{"preshared_key":"`+strings.Repeat("A", 42)+`E="}`)), "blocked_when_reopened laptop of wg0 (10.8.0.2/32): within minutes, it needs another preshared key")
	expect(foresee(peer(office, `{"endpoint":"198.51.100.10:51820"}`)), "rerouted office of wg0 (10.8.0.4/32): the gateway looks for it at 198.51.100.10:51820")
	// The peer that the gateway dials learns the new port; the offline one is not cut, but cannot reconnect.
	expect(foresee(own(`{"listen_port":5555}`)), fmt.Sprintf("cut laptop of wg0 (10.8.0.2/32): the tunnel wg0 listens on port 5555 instead of %d", i.ListenPort),
		fmt.Sprintf("blocked_when_reopened quiet of wg0 (10.8.0.3/32): the tunnel wg0 listens on port 5555 instead of %d", i.ListenPort))
	expect(foresee(own(`{"active":false}`)), "cut laptop of wg0 (10.8.0.2/32): the tunnel wg0 is removed or off", "cut office of wg0 (10.8.0.4/32): the tunnel wg0 is removed or off",
		"blocked_when_reopened quiet of wg0 (10.8.0.3/32): the tunnel wg0 is removed or off")
	b.Machine.Hang(true)
	x := foresee(peer(laptop, `{"active":false}`))
	b.Machine.Hang(false)
	if x.Computed || x.Why == "" {
		t.Errorf("%+v", x)
	}

	// Packets follow.
	was, err := room.Ends(t.Context(), b.DB)
	if err != nil {
		t.Fatal(err)
	}
	through, local := host.Way{Interface: "wg0"}, host.Way{Local: true}
	main := host.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Dev: "wan0"}
	lan := host.Route{Destination: netip.MustParsePrefix("172.16.0.0/16"), Dev: "lan0"}
	detour := func(change, to string, is host.Way, route host.Route) string {
		t.Helper()
		var now tunnel.Ends
		b.Do(t, "admin", http.MethodPut, at(laptop), change).Want(t, 200)
		err := b.DB.Snapshot(t.Context(), func(tx *db.Tx) (err error) { now, err = room.Ends(t.Context(), tx); return err })
		if err != nil {
			t.Fatal(err)
		}
		way, err := tunnel.Detour(was, now, netip.MustParseAddr(to), is, route)
		switch {
		case err != nil:
			return "unknown"
		case way.Local:
			return "local"
		case way.Interface == "":
			return "nowhere"
		}
		return way.Interface
	}
	for _, x := range []struct {
		change, to string
		is         host.Way
		route      host.Route
		want       string
	}{
		{`{"name":"renamed"}`, "10.8.0.2", through, host.Route{}, "wg0"},
		{`{"name":"renamed"}`, "10.8.0.1", local, host.Route{}, "local"},
		{`{"active":false}`, "10.8.0.2", through, host.Route{}, "nowhere"},
		{`{"active":false}`, "10.8.0.4", through, host.Route{}, "wg0"},
		// A smaller network takes packets over, an equal or a wider one does not.
		{`{"active":true,"allowed_ips":"10.8.0.2/32,172.16.0.0/16"}`, "172.16.0.1", host.Way{Interface: "wan0"}, main, "wg0"},
		{`{"active":true}`, "172.16.0.1", host.Way{Interface: "lan0"}, lan, "lan0"},
		{`{"allowed_ips":"10.8.0.2/32,172.16.0.0/12"}`, "172.16.0.1", host.Way{Interface: "lan0"}, lan, "lan0"},
		{`{"allowed_ips":"10.8.0.2/32,172.16.0.1/32"}`, "172.16.0.1", host.Way{Interface: "lan0"}, lan, "wg0"},
		{`{"active":true}`, "172.16.0.2", host.Way{Interface: "lan0"}, lan, "lan0"},
		{`{"active":true}`, "172.17.0.1", host.Way{Interface: "wan0"}, main, "wan0"},
		{`{"active":true}`, "172.16.0.1", host.Way{}, host.Route{}, "wg0"},
		// What other routing rules decide is unknown.
		{`{"active":true}`, "172.16.0.1", host.Way{Interface: "isp0"}, main, "unknown"},
		{`{"allowed_ips":"10.8.0.2/32,0.0.0.0/0"}`, "172.16.0.1", host.Way{Interface: "wan0"}, main, "unknown"},
		{`{"active":true}`, "172.16.0.1", host.Way{Interface: "lan0"}, lan, "lan0"},
	} {
		if got := detour(x.change, x.to, x.is, x.route); got != x.want {
			t.Errorf("%s: %s goes to %s instead of %s", x.change, x.to, got, x.want)
		}
	}
}
