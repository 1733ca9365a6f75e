package tunnel_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/wireguard"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/tunnel"
)

// applied fails the test unless the tunnels are in the given state after a change.
func applied(t testing.TB, a *kittest.Answer, state string) *kittest.Answer {
	t.Helper()
	if got := a.Header.Get("Gateway-Apply"); !strings.Contains(got, "tunnel="+state) {
		t.Fatalf("%s instead of %s", got, state)
	}
	return a
}

// deviceOf returns a WireGuard link of the machine; nil if there is none.
func deviceOf(t testing.TB, b *kittest.Bench, name string) *host.TunnelDevice {
	t.Helper()
	list, err := b.Host.TunnelDevices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

func linkOf(t testing.TB, b *kittest.Bench, name string) *host.Link {
	t.Helper()
	list, err := b.Host.Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// routesOf returns the networks that the tunnels route to a link, with the table unless it is the main one.
func routesOf(t testing.TB, b *kittest.Bench, name string) (list []string) {
	t.Helper()
	routes, err := b.Host.Routes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		if r.Dev == name && r.Protocol == host.TunnelProtocol {
			text := r.Destination.String()
			if r.Table != 254 {
				text += fmt.Sprint(" in ", r.Table)
			}
			list = append(list, text)
		}
	}
	slices.Sort(list)
	return list
}

func TestTheMachineFollows(t *testing.T) {
	b, _ := bench(t)
	a := applied(t, b.Do(t, "admin", http.MethodPost, "/tunnel/interfaces", `{"name":"wg0","address_cidr":"10.8.0.1/24,fd00:8::1/64","mtu":1380}`).Want(t, 201), "live")
	var i tunnel.Interface
	a.Into(t, &i)
	l, d := linkOf(t, b, "wg0"), deviceOf(t, b, "wg0")
	if l == nil || d == nil || !l.Up() || l.MTU != 1380 || l.Alias != "gateway-tunnel:"+i.ID.String() || len(l.Addrs) != 2 || l.Addrs[0].Protocol != 251 || d.PublicKey != i.PublicKey.Bytes() || d.ListenPort != 51820 {
		t.Fatalf("%+v %+v", l, d)
	}
	path := "/tunnel/interfaces/" + i.ID.String()
	p := post[tunnel.Peer](t, b, peersOf(i), `{"name":"site","allowed_ips":"10.8.0.2/32,192.168.9.0/24,fd00:9::/48"}`)
	if got := routesOf(t, b, "wg0"); !slices.Equal(got, []string{"192.168.9.0/24", "fd00:9::/48"}) {
		t.Fatalf("routes %v", got)
	}

	applied(t, b.Do(t, "admin", http.MethodPut, path, `{"address_cidr":"10.8.0.1/16","listen_port":4000,"mtu":1400}`).Want(t, 200), "live")
	l, d = linkOf(t, b, "wg0"), deviceOf(t, b, "wg0")
	if len(l.Addrs) != 1 || l.Addrs[0].PrefixLen != 16 || l.MTU != 1400 || d.ListenPort != 4000 || len(d.Peers) != 1 {
		t.Fatalf("%+v %+v", l, d)
	}
	if slices.ContainsFunc(b.Machine.NetworkWrites(), func(w string) bool { return w == "remove-tunnel wg0" }) {
		t.Fatal("the link was made anew")
	}

	applied(t, b.Do(t, "admin", http.MethodPut, path, `{"name":"wg7"}`).Want(t, 200), "live")
	if linkOf(t, b, "wg0") != nil || deviceOf(t, b, "wg7") == nil || !slices.Equal(routesOf(t, b, "wg7"), []string{"192.168.9.0/24", "fd00:9::/48"}) {
		t.Fatal("not renamed")
	}
	applied(t, b.Do(t, "admin", http.MethodPut, path, `{"active":false}`).Want(t, 200), "live")
	if linkOf(t, b, "wg7") != nil {
		t.Fatal("an inactive one stays")
	}
	applied(t, b.Do(t, "admin", http.MethodPut, at(p), `{"keepalive":5}`).Want(t, 200), "live")
	applied(t, b.Do(t, "admin", http.MethodPut, path, `{"active":true}`).Want(t, 200), "live")
	if d := deviceOf(t, b, "wg7"); d == nil || d.Peers[0].Keepalive != 5 {
		t.Fatalf("%+v", d)
	}
	applied(t, b.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 200), "live")
	if linkOf(t, b, "wg7") != nil {
		t.Fatal("a deleted one stays")
	}
}

// dying is a machine on which the program behind a tunnel exits on a change, as often as deaths says, and its link disappears.
type dying struct {
	host.Machine
	on     *kittest.Bench
	deaths int
}

func (m *dying) ChangeTunnel(ctx context.Context, name string, c host.TunnelChange) error {
	if m.deaths == 0 {
		return m.Machine.ChangeTunnel(ctx, name, c)
	}
	m.deaths--
	m.on.Machine.SetTunnelDevices()
	return syscall.ENODEV
}

// A program that exits in the middle of a change is restarted by that change; even after two exits this does not wait for the next check.
func TestAProgramThatEndsIsStartedAgain(t *testing.T) {
	b := kittest.New(t)
	m := &dying{Machine: b.Host, on: b}
	b.Host = m
	tunnel.New(b.Kit, deps).Mount()
	b.Start(t)
	i := serverOf(t, b, "wg0", "10.8.0.1/24")
	for deaths, address := range map[int]string{1: "10.8.0.2/32", 2: "10.8.0.3/32"} {
		m.deaths = deaths
		a := b.Do(t, "admin", http.MethodPost, peersOf(i), fmt.Sprintf(`{"name":"died %d times","allowed_ips":%q}`, deaths, address)).Want(t, 201)
		applied(t, a, "live")
	}
	if d := deviceOf(t, b, "wg0"); d == nil || len(d.Peers) != 2 {
		t.Errorf("%+v", d)
	}
}

// All nodes of a cluster serve peers, but only one dials: others decide which one, and it may change at any time.
func TestClientsAreOnOneNode(t *testing.T) {
	b := kittest.New(t)
	d, serves := deps, true
	d.Serves = func(context.Context, db.Querier) (bool, error) { return serves, nil }
	tunnel.New(b.Kit, d).Mount()
	b.Start(t)
	serverOf(t, b, "wg0", "10.8.0.1/24")
	client := post[tunnel.Interface](t, b, "/tunnel/interfaces", fmt.Sprintf(`{"name":"wg1","mode":"client","address_cidr":"10.7.0.2/32","upstream_public_key":%q,"upstream_endpoint":"198.51.100.1:51820"}`, publicB))
	are := func(elsewhere bool) {
		t.Helper()
		if s := b.Engine.Refresh(t.Context(), apply.Tunnel, false); s.State != apply.Live {
			t.Fatalf("%+v", s)
		}
		if deviceOf(t, b, "wg0") == nil || (deviceOf(t, b, "wg1") == nil) != elsewhere || (linkOf(t, b, "wg1") == nil) != elsewhere {
			t.Errorf("elsewhere: %v, and there is %+v", elsewhere, linkOf(t, b, "wg1"))
		}
		var list []tunnel.Device
		b.Get(t, "/tunnel/devices").Want(t, 200).Into(t, &list)
		if len(list) != 2 || list[0].Elsewhere || list[1].Elsewhere != elsewhere || list[1].Managed == elsewhere || list[1].Error != "" {
			t.Errorf("%+v", list)
		}
	}
	are(false)
	serves = false
	are(true)
	applied(t, b.Do(t, "admin", http.MethodPut, "/tunnel/interfaces/"+client.ID.String(), `{"mtu":1400}`).Want(t, 200), "live")
	are(true)
	serves = true
	are(false)
	if l := linkOf(t, b, "wg1"); l.MTU != 1400 {
		t.Errorf("%+v", l)
	}
}

// A change of a peer only touches that peer, however many there are.
func TestOnePeerTouchesThatPeerAlone(t *testing.T) {
	b, _ := bench(t)
	i := serverOf(t, b, "wg0", "10.8.0.1/24")
	post[tunnel.Peer](t, b, peersOf(i), `{"name":"bystander","allowed_ips":"10.8.0.50/32"}`)
	var p tunnel.Peer
	for _, x := range []struct {
		method, body string
		writes       string
		peers        func(c []host.TunnelPeerChange) bool
	}{
		{http.MethodPost, fmt.Sprintf(`{"name":"laptop","preshared_key":%q,"allowed_ips":"10.8.0.2/32,192.168.9.0/24"}`, shared), "change-tunnel wg0, add-route 192.168.9.0/24", func(c []host.TunnelPeerChange) bool {
			return len(c) == 1 && !c[0].Remove && c[0].PresharedKey != nil && len(*c[0].AllowedIPs) == 2
		}},
		{http.MethodPut, `{"keepalive":25}`, "change-tunnel wg0", func(c []host.TunnelPeerChange) bool {
			return len(c) == 1 && *c[0].Keepalive == 25 && c[0].AllowedIPs == nil && c[0].PresharedKey == nil && !c[0].Endpoint.IsValid()
		}},
		{http.MethodPut, `{"name":"the same"}`, "", nil},
		{http.MethodPut, `{"allowed_ips":"10.8.0.2/32,192.168.10.0/24"}`, "remove-route 192.168.9.0/24, change-tunnel wg0, add-route 192.168.10.0/24", func(c []host.TunnelPeerChange) bool {
			return len(c) == 1 && len(*c[0].AllowedIPs) == 2 && c[0].Keepalive == nil
		}},
		{http.MethodPut, `{"endpoint":"peer.example.net:51820"}`, "change-tunnel wg0", func(c []host.TunnelPeerChange) bool {
			return len(c) == 1 && c[0].Endpoint == netip.MustParseAddrPort("198.51.100.7:51820") && c[0].AllowedIPs == nil
		}},
		{http.MethodPut, `{"preshared_key":""}`, "change-tunnel wg0", func(c []host.TunnelPeerChange) bool {
			return len(c) == 1 && *c[0].PresharedKey == host.TunnelKey{} && c[0].AllowedIPs == nil
		}},
		{http.MethodPut, fmt.Sprintf(`{"public_key":%q}`, publicB), "change-tunnel wg0", func(c []host.TunnelPeerChange) bool {
			return len(c) == 2 && c[0].Remove && !c[1].Remove && c[1].AllowedIPs != nil && c[1].Endpoint.IsValid() && *c[1].Keepalive == 25
		}},
		{http.MethodPut, `{"active":false}`, "remove-route 192.168.10.0/24, change-tunnel wg0", func(c []host.TunnelPeerChange) bool { return len(c) == 1 && c[0].Remove }},
		{http.MethodPut, `{"keepalive":0}`, "", nil},
		{http.MethodPut, `{"active":true}`, "change-tunnel wg0, add-route 192.168.10.0/24", func(c []host.TunnelPeerChange) bool { return len(c) == 1 && !c[0].Remove }},
		{http.MethodDelete, ``, "remove-route 192.168.10.0/24, change-tunnel wg0", func(c []host.TunnelPeerChange) bool { return len(c) == 1 && c[0].Remove }},
	} {
		path, status := at(p), 200
		if x.method == http.MethodPost {
			path, status = peersOf(i), 201
		}
		writes, changes := len(b.Machine.NetworkWrites()), len(b.Machine.TunnelChanges())
		var body any
		if x.body != "" {
			body = x.body
		}
		a := applied(t, b.Do(t, "admin", x.method, path, body).Want(t, status), "live")
		if x.method != http.MethodDelete {
			a.Into(t, &p)
		}
		if got := strings.Join(b.Machine.NetworkWrites()[writes:], ", "); got != x.writes {
			t.Errorf("%s %s does %q instead of %q", x.method, x.body, got, x.writes)
		}
		for _, c := range b.Machine.TunnelChanges()[changes:] {
			if c.PrivateKey != nil || c.ListenPort != nil || c.Mark != nil || !x.peers(c.Peers) {
				t.Errorf("%s %s asks for %+v", x.method, x.body, c)
			}
		}
	}
	// Nothing was left out: a full pass finds nothing to do.
	writes := len(b.Machine.NetworkWrites())
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 || len(b.Machine.NetworkWrites()) != writes {
		t.Fatalf("%v, %v", failed, b.Machine.NetworkWrites()[writes:])
	}
}

func TestNamesThatDoNotResolveStopNobody(t *testing.T) {
	b, _ := bench(t)
	i := serverOf(t, b, "wg0", "10.8.0.1/24")
	lost := post[tunnel.Peer](t, b, peersOf(i), `{"name":"lost","endpoint":"nowhere.example.net:51820"}`)
	applied(t, b.Do(t, "admin", http.MethodPost, peersOf(i), `{"name":"found","endpoint":"peer.example.net:51820"}`).Want(t, 201), "degraded")
	if d := deviceOf(t, b, "wg0"); len(d.Peers) != 2 || d.Peers[1].Endpoint.String() != "198.51.100.7:51820" {
		t.Fatalf("%+v", d)
	}
	if s := b.Engine.Statuses()[0]; !strings.Contains(s.LastError, "nowhere.example.net:51820 of the peer lost of wg0 cannot be resolved") {
		t.Fatalf("%+v", s)
	}
	applied(t, b.Do(t, "admin", http.MethodPut, at(lost), `{"endpoint":"[2001:db8::7]:1000"}`).Want(t, 200), "live")
}

// The learned endpoint of a peer is left alone while the peer is there; then the operator's endpoint is dialled again.
func TestRoamingIsLeftAlone(t *testing.T) {
	b, _ := bench(t)
	i := post[tunnel.Interface](t, b, "/tunnel/interfaces", fmt.Sprintf(`{"name":"wg0","mode":"client","address_cidr":"10.7.0.2/32","upstream_public_key":%q,"upstream_endpoint":"peer.example.net:51820","upstream_allowed_ips":"10.7.0.0/24"}`, publicB))
	roamed := netip.MustParseAddrPort("203.0.113.9:1234")
	move := func(ago string) {
		d := deviceOf(t, b, "wg0")
		d.Peers[0].Endpoint, d.Peers[0].LastHandshake = roamed, b.Clock.Now()
		if ago == "long" {
			d.Peers[0].LastHandshake = b.Clock.Now().Add(-1e12)
		}
		b.Machine.SetTunnelDevices(*d)
		if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 {
			t.Fatal(failed)
		}
	}
	if move("short"); deviceOf(t, b, "wg0").Peers[0].Endpoint != roamed {
		t.Fatal("a peer that is heard from elsewhere is not left alone")
	}
	applied(t, b.Do(t, "admin", http.MethodPut, "/tunnel/interfaces/"+i.ID.String(), `{"upstream_endpoint":"198.51.100.8:51820"}`).Want(t, 200), "live")
	if got := deviceOf(t, b, "wg0").Peers[0].Endpoint.String(); got != "198.51.100.8:51820" {
		t.Fatalf("the operator's word does not count: %s", got)
	}
	// A name that does not resolve is reported, and the previous endpoint stays.
	applied(t, b.Do(t, "admin", http.MethodPut, "/tunnel/interfaces/"+i.ID.String(), `{"upstream_endpoint":"nowhere.example.net:1"}`).Want(t, 200), "degraded")
	if got := deviceOf(t, b, "wg0").Peers[0].Endpoint.String(); got != "198.51.100.8:51820" {
		t.Fatalf("the endpoint is %s", got)
	}
	applied(t, b.Do(t, "admin", http.MethodPut, "/tunnel/interfaces/"+i.ID.String(), `{"upstream_endpoint":"198.51.100.8:51820"}`).Want(t, 200), "live")
	if move("long"); deviceOf(t, b, "wg0").Peers[0].Endpoint.String() != "198.51.100.8:51820" {
		t.Fatal("a peer that is lost is not dialled again")
	}
}

func TestLinksOfOthers(t *testing.T) {
	b, _ := bench(t)
	other := host.Link{Index: 7, Name: "wg0", Kind: "wireguard", MTU: 1420, Flags: []string{"UP"}}
	b.Machine.SetLinks(other)
	b.Machine.SetTunnelDevices(host.TunnelDevice{Name: "wg0", Kind: "kernel", PublicKey: host.TunnelKey{1}, ListenPort: 7})
	writes := len(b.Machine.NetworkWrites())
	serverOf(t, b, "wg1", "10.9.0.1/24")
	a := applied(t, b.Do(t, "admin", http.MethodPost, "/tunnel/interfaces", fmt.Sprintf(`{"name":"wg0","address_cidr":"10.8.0.1/24","private_key":%q}`, privateA)).Want(t, 201), "degraded")
	var i tunnel.Interface
	a.Into(t, &i)
	for _, w := range b.Machine.NetworkWrites()[writes:] {
		if strings.HasSuffix(w, " wg0") {
			t.Errorf("somebody else's link is touched: %s", w)
		}
	}
	var devices []tunnel.Device
	b.Get(t, "/tunnel/devices").Want(t, 200).Into(t, &devices)
	if len(devices) != 2 || devices[0].Managed || !strings.Contains(devices[0].Error, "import") || !devices[1].Managed || devices[1].Error != "" || devices[1].Kind != "kernel" {
		t.Fatalf("%+v", devices)
	}
	state := func() apply.Status { b.Engine.ApplyAll(t.Context()); return b.Engine.Statuses()[0] }
	if s := state(); s.State != apply.Degraded || !strings.Contains(s.LastError, "Import its configuration") {
		t.Fatalf("%+v", s)
	}
	// With the same key it is the same tunnel, and taken over while it runs, unless foreign routing rules depend on it.
	links, err := b.Host.Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ours := *deviceOf(t, b, "wg1")
	b.Machine.SetTunnelDevices(ours, host.TunnelDevice{Name: "wg0", Kind: "kernel", PublicKey: host.TunnelKey(i.PublicKey.Bytes()), ListenPort: 7, Mark: 51820})
	if s := state(); s.State != apply.Degraded || !strings.Contains(s.LastError, "wg-quick down wg0") {
		t.Fatalf("%+v", s)
	}
	b.Machine.SetTunnelDevices(ours, host.TunnelDevice{Name: "wg0", Kind: "kernel", PublicKey: host.TunnelKey(i.PublicKey.Bytes()), ListenPort: 7})
	if s := state(); s.State != apply.Live || linkOf(t, b, "wg0").Alias == "" || deviceOf(t, b, "wg0").ListenPort != i.ListenPort {
		t.Fatalf("%+v", s)
	}
	// A plain link is not taken over.
	b.Machine.SetLinks(slices.DeleteFunc(links, func(l host.Link) bool { return l.Name == "wg0" })...)
	b.Machine.SetTunnelDevices(ours)
	if s := state(); s.State != apply.Live || deviceOf(t, b, "wg0") == nil {
		t.Fatalf("what vanished does not come back: %+v", s)
	}
}

func TestARouteOfOthersIsNotTaken(t *testing.T) {
	b, _ := bench(t)
	i := serverOf(t, b, "wg0", "10.8.0.1/24")
	lan := host.Route{Destination: netip.MustParsePrefix("192.168.9.0/24"), Dev: "lo", Table: 254, Protocol: 2, Type: "unicast"}
	b.Machine.SetRoutes(lan)
	applied(t, b.Do(t, "admin", http.MethodPost, peersOf(i), `{"name":"site","allowed_ips":"10.8.0.2/32,192.168.9.0/24"}`).Want(t, 201), "degraded")
	if s := b.Engine.Statuses()[0]; !strings.Contains(s.LastError, "The route to 192.168.9.0/24 through wg0") {
		t.Fatalf("%+v", s)
	}
	if d := deviceOf(t, b, "wg0"); len(d.Peers) != 1 {
		t.Fatal("the rest is not done")
	}
	if routes, _ := b.Host.Routes(t.Context()); !slices.Contains(routes, lan) {
		t.Fatalf("%+v", routes)
	}
}

func TestPreviewHasNoKeys(t *testing.T) {
	b, _ := bench(t)
	up := fmt.Sprintf(`{"name":"wg1","mode":"client","address_cidr":"10.7.0.2/32","private_key":%q,"upstream_public_key":%q,"upstream_endpoint":"198.51.100.1:51820","upstream_preshared_key":%q}`, privateA, publicB, shared)
	set := fmt.Sprintf(`{"preview":true,"operations":[{"kind":"tunnel.interface","verb":"create","body":%s}]}`, up)
	b.Do(t, "viewer", http.MethodPost, "/change-sets", set).Want(t, 403)
	a := b.Do(t, "admin", http.MethodPost, "/change-sets", set).Want(t, 200)
	post[tunnel.Interface](t, b, "/tunnel/interfaces", up)
	i := serverOf(t, b, "wg0", "10.8.0.1/24")
	post[tunnel.Peer](t, b, peersOf(i), fmt.Sprintf(`{"name":"laptop","preshared_key":%q}`, shared))
	files, _, err := b.Engine.Render(t.Context(), apply.Tunnel)
	if err != nil || len(files) != 2 {
		t.Fatalf("%+v, %v", files, err)
	}
	text := string(a.Data) + files[0].Content + files[1].Content
	if n := strings.Count(text, "PrivateKey = <redacted>") + strings.Count(text, "PrivateKey = \\u003credacted\\u003e"); n != 3 {
		t.Errorf("%d private keys are redacted", n)
	}
	stored, err := b.Machine.Read(wireguard.State(value.Must[value.IfName]("wg1")))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{privateA, shared} {
		if strings.Contains(text+string(stored), secret) {
			t.Errorf("a key is exposed: %s", text)
		}
	}
	if !strings.Contains(files[0].Content, "PresharedKey = <redacted>") || !strings.Contains(files[1].Content, "# PublicKey = "+publicA) {
		t.Errorf("%s", text)
	}
}

func TestStatus(t *testing.T) {
	b, _ := bench(t)
	i := serverOf(t, b, "wg0", "10.8.0.1/24")
	p := post[tunnel.Peer](t, b, peersOf(i), `{"name":"laptop"}`)
	quiet := post[tunnel.Peer](t, b, peersOf(i), `{"name":"quiet"}`)
	d := deviceOf(t, b, "wg0")
	d.Peers[0].Endpoint, d.Peers[0].LastHandshake, d.Peers[0].Rx, d.Peers[0].Tx = netip.MustParseAddrPort("198.51.100.7:1"), b.Clock.Now(), 1000, 2000
	b.Machine.SetTunnelDevices(*d, host.TunnelDevice{Name: "theirs", Peers: []host.TunnelPeer{{PublicKey: host.TunnelKey{9}}}})
	var s map[string]tunnel.PeerStatus
	b.Do(t, "viewer", http.MethodGet, "/tunnel/status", nil).Want(t, 200).Into(t, &s)
	x, y := s[p.PublicKey.String()], s[quiet.PublicKey.String()]
	if len(s) != 2 || x.Interface != "wg0" || !x.Online || x.LastHandshake == nil || x.Endpoint != "198.51.100.7:1" || x.Rx != 1000 || x.Tx != 2000 || !slices.Equal(x.AllowedIPs, []string{"10.8.0.2/32"}) {
		t.Fatalf("%+v", s)
	}
	if y.Online || y.LastHandshake != nil || y.Endpoint != "" {
		t.Fatalf("%+v", y)
	}
	d.Peers[0].LastHandshake = b.Clock.Now().Add(-181e9)
	b.Machine.SetTunnelDevices(*d)
	b.Get(t, "/tunnel/status").Want(t, 200).Into(t, &s)
	if x := s[p.PublicKey.String()]; x.Online || x.LastHandshake == nil {
		t.Fatalf("%+v", x)
	}
}

// FW-16: what the packet filter must open.
func TestFW16(t *testing.T) {
	b, room := bench(t)
	asked := func() string {
		tunnels, err := room.Tunnels(t.Context(), b.DB)
		if err != nil {
			t.Fatal(err)
		}
		openings, err := room.Openings(t.Context(), b.DB)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(tunnels, " ", openings)
	}
	post[tunnel.Interface](t, b, "/tunnel/interfaces", fmt.Sprintf(`{"name":"wg1","mode":"client","listen_port":4000,"address_cidr":"10.7.0.2/32","upstream_public_key":%q,"upstream_endpoint":"198.51.100.1:51820"}`, publicB))
	if got := asked(); got != "[] []" {
		t.Fatalf("a client asks for %s", got)
	}
	i := serverOf(t, b, "wg0", "10.8.0.1/24,fd00:8::1/64")
	if got := asked(); got != "[{wg0 [10.8.0.0/24 fd00:8::/64]}] [{tunnel udp 51820 [] []}]" {
		t.Fatalf("a server asks for %s", got)
	}
	b.Do(t, "admin", http.MethodPut, "/tunnel/interfaces/"+i.ID.String(), `{"active":false}`).Want(t, 200)
	if got := asked(); got != "[] []" {
		t.Fatalf("one that is off asks for %s", got)
	}
}

// A key encrypted with another master key disables its tunnel or its peer, and nothing else: everything can be read and repaired by
// single requests.
func TestOtherMasterKey(t *testing.T) {
	b, _ := bench(t)
	lost, half, good := serverOf(t, b, "wg0", "10.8.0.1/24"), serverOf(t, b, "wg1", "10.9.0.1/24"), serverOf(t, b, "wg2", "10.10.0.1/24")
	psk := post[tunnel.Peer](t, b, peersOf(half), fmt.Sprintf(`{"name":"phone","preshared_key":%q}`, shared))
	post[tunnel.Peer](t, b, peersOf(half), `{"name":"laptop"}`)
	other, err := secret.NewBox(bytes.Repeat([]byte{9}, 32))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := other.Seal("x", "any", "any", "any")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.DB.Write(t.Context(), func(tx *db.Tx) error {
		if _, err := tx.Exec(t.Context(), "UPDATE tunnel_interfaces SET private_key = $1 WHERE id = $2", sealed, lost.ID); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), "UPDATE tunnel_peers SET preshared_key = $1, private_key = $1 WHERE id = $2", sealed, psk.ID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, failed := b.Engine.ApplyAll(t.Context()); !strings.Contains(failed[apply.Tunnel], "The tunnel wg0 is left out. Its private_key was stored with another master key") ||
		!strings.Contains(failed[apply.Tunnel], "The peer phone of wg1 is left out") {
		t.Fatalf("%v", failed)
	}
	if deviceOf(t, b, "wg0") != nil || len(deviceOf(t, b, "wg1").Peers) != 1 || deviceOf(t, b, "wg2") == nil {
		t.Fatal("more is left out than cannot be read, or less")
	}
	for _, path := range []string{"/config", "/qr"} {
		if w := raw(t, b, "admin", at(psk)+path); w.Code != 409 || !strings.Contains(w.Body.String(), "Enter it again") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	post[tunnel.Interface](t, b, "/tunnel/interfaces", `{"name":"wg3","address_cidr":"10.11.0.1/24"}`)
	b.Do(t, "admin", http.MethodPut, at(psk), `{"name":"tablet"}`).Want(t, 200)
	b.Do(t, "admin", http.MethodDelete, "/tunnel/interfaces/"+good.ID.String(), "").Want(t, 200)
	path := "/tunnel/interfaces/" + lost.ID.String()
	b.Do(t, "admin", http.MethodPut, path, `{"active":false}`).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, path, `{"active":true}`).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, path, fmt.Sprintf(`{"private_key":%q}`, privateA)).Want(t, 200)
	b.Do(t, "admin", http.MethodPost, at(psk)+"/generate-keypair", "").Want(t, 200)
	if a := b.Do(t, "admin", http.MethodPut, at(psk), fmt.Sprintf(`{"preshared_key":%q}`, shared)).Want(t, 200); a.Header.Get("Gateway-Apply") != "tunnel=live" {
		t.Fatalf("with all keys entered again: %s", a.Header.Get("Gateway-Apply"))
	}
}

// A WireGuard that does not answer is not an error of the request: the stored data is returned, with the reason.
func TestStatusOfAHangingWireGuard(t *testing.T) {
	b, _ := bench(t)
	i := serverOf(t, b, "wg0", "10.8.0.1/24")
	p := post[tunnel.Peer](t, b, peersOf(i), `{"name":"phone"}`)
	b.Machine.Hang(true)
	defer b.Machine.Hang(false)
	var peers map[string]tunnel.PeerStatus
	b.Get(t, "/tunnel/status").Want(t, 200).Into(t, &peers)
	if s, ok := peers[p.PublicKey.String()]; !ok || s.Interface != "wg0" || s.Online || !strings.Contains(s.Error, "did not answer in time") {
		t.Errorf("%+v", peers)
	}
	var devices []tunnel.Device
	b.Get(t, "/tunnel/devices").Want(t, 200).Into(t, &devices)
	if len(devices) != 1 || devices[0].Name != "wg0" || !strings.Contains(devices[0].Error, "did not answer in time") {
		t.Errorf("%+v", devices)
	}
}
