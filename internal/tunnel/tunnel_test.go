package tunnel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/png"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/tunnel"
)

// Some unused keys.
const (
	privateA = "iC4kEzFsqWrpHFF5JVzfl5A2OFZ+fh4sVoCmhGXJbVI="
	publicA  = "A+6A+hWZpRm2LHfm6DaNVh1Fq0eJf1XOIvcJAkxA534="
	publicB  = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="
	shared   = "FpCyhws9cxwWoV4xELtfJvjJN+zQVRPISllRWgeopVE="
)

var deps = tunnel.Deps{
	FQDN: func() string { return "gateway.example.net" },
	Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
		if name == "peer.example.net" {
			return []netip.Addr{netip.MustParseAddr("198.51.100.7")}, nil
		}
		return nil, errors.New("no such host")
	},
}

func bench(t *testing.T) (*kittest.Bench, *tunnel.Room) {
	t.Helper()
	b := kittest.New(t)
	room := tunnel.New(b.Kit, deps)
	room.Mount()
	b.Resources.MountChangeSets()
	b.Start(t)
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatalf("not live at start: %v", failed)
	}
	return b, room
}

// post creates a row and returns it.
func post[T any](t testing.TB, b *kittest.Bench, path, body string) (row T) {
	t.Helper()
	b.Do(t, "admin", http.MethodPost, path, body).Want(t, 201).Into(t, &row)
	return row
}

// serverOf creates an interface that serves peers.
func serverOf(t testing.TB, b *kittest.Bench, name, address string) tunnel.Interface {
	t.Helper()
	return post[tunnel.Interface](t, b, "/tunnel/interfaces", fmt.Sprintf(`{"name":%q,"address_cidr":%q}`, name, address))
}

func peersOf(i tunnel.Interface) string { return "/tunnel/interfaces/" + i.ID.String() + "/peers" }

func at(p tunnel.Peer) string { return "/peers/" + p.ID.String() }

// raw makes a request whose answer is not in the envelope.
func raw(t testing.TB, b *kittest.Bench, role, path string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, httpd.Prefix+path, nil).WithContext(t.Context())
	req.Header.Set("Authorization", "Bearer "+role)
	w := httptest.NewRecorder()
	b.Handler().ServeHTTP(w, req)
	return w
}

func TestServerDefaults(t *testing.T) {
	b, _ := bench(t)
	i := serverOf(t, b, "wg0", "10.8.0.1/24, FD00:8::1/64")
	if i.Mode != "server" || i.ListenPort != 51820 || i.AddressCIDR.String() != "10.8.0.1/24,fd00:8::1/64" || i.PublicKey.IsZero() || !i.Active {
		t.Fatalf("%+v", i)
	}
	if next := serverOf(t, b, "wg1", "10.9.0.1/24"); next.ListenPort != 51821 {
		t.Fatalf("the second server got the port %d", next.ListenPort)
	}
	p := post[tunnel.Peer](t, b, peersOf(i), `{"name":"laptop"}`)
	if p.AllowedIPs.String() != "10.8.0.2/32,fd00:8::2/128" || !p.HasPrivateKey || p.PublicKey.IsZero() || p.Keepalive != 0 || len(p.Warnings) != 0 {
		t.Fatalf("%+v", p)
	}
	var next tunnel.NextAddress
	b.Get(t, "/tunnel/interfaces/"+i.ID.String()+"/next-address").Want(t, 200).Into(t, &next)
	if next.Address.String() != "10.8.0.3/32,fd00:8::3/128" {
		t.Fatalf("next address %s", next.Address)
	}
	for _, action := range []string{"tunnel.interface.create", "tunnel.peer.create"} {
		if b.Audited(t, action) == 0 {
			t.Errorf("%s is not audited", action)
		}
	}
}

func TestAddressesRunOut(t *testing.T) {
	b, _ := bench(t)
	i := serverOf(t, b, "wg0", "10.8.0.2/30")
	if p := post[tunnel.Peer](t, b, peersOf(i), `{"name":"one"}`); p.AllowedIPs.String() != "10.8.0.1/32" {
		t.Fatalf("the only free address is not taken: %s", p.AllowedIPs)
	}
	b.Do(t, "admin", http.MethodPost, peersOf(i), `{"name":"two"}`).Want(t, 409)
	b.Get(t, "/tunnel/interfaces/"+i.ID.String()+"/next-address").Want(t, 409)
}

func TestTU01(t *testing.T) {
	b, _ := bench(t)
	up := fmt.Sprintf(`{"name":"wg0","mode":"client","address_cidr":"10.7.0.2/32","private_key":%q,"upstream_public_key":%q,"upstream_endpoint":"198.51.100.1:51820","upstream_preshared_key":%q,"active":false}`, privateA, publicB, shared)
	a := b.Do(t, "admin", http.MethodPost, "/tunnel/interfaces", up).Want(t, 201)
	var i tunnel.Interface
	a.Into(t, &i)
	if i.UpstreamAllowedIPs.String() != "0.0.0.0/0,::/0" || i.UpstreamKeepalive != 25 || i.ListenPort != 0 || !i.UpstreamPresharedKeyConfigured || i.PublicKey.String() != publicA {
		t.Fatalf("%s", a.Body)
	}
	s := serverOf(t, b, "wg1", "10.8.0.1/24")
	p := b.Do(t, "admin", http.MethodPost, peersOf(s), fmt.Sprintf(`{"name":"laptop","preshared_key":%q}`, shared)).Want(t, 201)
	var output bytes.Buffer
	output.Write(a.Body)
	output.Write(p.Body)
	for _, path := range []string{"/tunnel/interfaces", "/tunnel/interfaces/" + i.ID.String(), "/peers", peersOf(s)} {
		output.Write(b.Get(t, path).Want(t, 200).Body)
	}
	output.WriteString(b.Logs.String())
	for _, secret := range []string{privateA, shared} {
		if strings.Contains(output.String(), secret) {
			t.Fatalf("a key is exposed: %s", output.String())
		}
	}
	if !bytes.Contains(p.Body, []byte(`"preshared_key_configured":true`)) {
		t.Fatalf("%s", p.Body)
	}
}

func TestTU02(t *testing.T) {
	b, _ := bench(t)
	i := serverOf(t, b, "wg0", "10.8.0.1/24")
	p := post[tunnel.Peer](t, b, peersOf(i), `{"name":"laptop"}`)
	text := raw(t, b, "admin", at(p)+"/config")
	if text.Code != 200 {
		t.Fatalf("%d %s", text.Code, text.Body)
	}

	var same tunnel.Peer
	b.Do(t, "admin", http.MethodPut, at(p), fmt.Sprintf(`{"name":"laptop of Ann","public_key":%q}`, p.PublicKey)).Want(t, 200).Into(t, &same)
	if !same.HasPrivateKey || raw(t, b, "admin", at(p)+"/config").Body.String() != text.Body.String() {
		t.Fatal("the private key of an unchanged public key is gone")
	}

	var other tunnel.Peer
	b.Do(t, "admin", http.MethodPut, at(p), fmt.Sprintf(`{"public_key":%q}`, publicB)).Want(t, 200).Into(t, &other)
	if other.HasPrivateKey {
		t.Fatal("the private key of another public key is kept")
	}
	for _, path := range []string{"/config", "/qr"} {
		if w := raw(t, b, "admin", at(p)+path); w.Code != 409 || !strings.Contains(w.Body.String(), "generate a new key pair") {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}

	var pair tunnel.NewKey
	b.Do(t, "admin", http.MethodPost, at(p)+"/generate-keypair", nil).Want(t, 200).Into(t, &pair)
	b.Get(t, at(p)).Want(t, 200).Into(t, &other)
	if pair.PublicKey == p.PublicKey || other.PublicKey != pair.PublicKey || !other.HasPrivateKey {
		t.Fatalf("%+v %+v", pair, other)
	}
	if w := raw(t, b, "admin", at(p)+"/config"); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if b.Audited(t, "tunnel.peer.update") != 3 {
		t.Fatal("a change of the key is not audited")
	}
	b.Do(t, "viewer", http.MethodPost, at(p)+"/generate-keypair", nil).Want(t, 403)
}

func TestInterfaceKeyPair(t *testing.T) {
	b, _ := bench(t)
	i := serverOf(t, b, "wg0", "10.8.0.1/24")
	path := "/tunnel/interfaces/" + i.ID.String()
	var pair tunnel.NewKey
	b.Do(t, "admin", http.MethodPost, path+"/generate-keypair", nil).Want(t, 200).Into(t, &pair)
	var now tunnel.Interface
	b.Get(t, path).Want(t, 200).Into(t, &now)
	if pair.PublicKey == i.PublicKey || now.PublicKey != pair.PublicKey {
		t.Fatalf("%s then %s, and %s is stored", i.PublicKey, pair.PublicKey, now.PublicKey)
	}
	// A request without a new key keeps the old one; an empty text counts as no key.
	for _, body := range []string{`{"mtu":1400}`, `{"private_key":""}`, `{"private_key":"***SET***"}`} {
		b.Do(t, "admin", http.MethodPut, path, body).Want(t, 200).Into(t, &now)
		if now.PublicKey != pair.PublicKey {
			t.Fatalf("%s changes the key", body)
		}
	}
	b.Do(t, "admin", http.MethodPut, path, fmt.Sprintf(`{"private_key":%q}`, privateA)).Want(t, 200).Into(t, &now)
	if now.PublicKey.String() != publicA {
		t.Fatalf("the public key of %s is said to be %s", privateA, now.PublicKey)
	}
	b.Do(t, "admin", http.MethodPost, "/tunnel/interfaces", fmt.Sprintf(`{"name":"wg1","address_cidr":"10.9.0.1/24","private_key":%q}`, privateA)).WantTaken(t, "private_key")
}

func TestTU03(t *testing.T) {
	b, _ := bench(t)
	i := post[tunnel.Interface](t, b, "/tunnel/interfaces", `{"name":"wg0","address_cidr":"10.8.0.1/24,fd00:8::1/64","client_routes":"192.168.5.7/24, 10.8.0.0/24","dns":"10.8.0.1","mtu":1380}`)
	p := post[tunnel.Peer](t, b, peersOf(i), fmt.Sprintf(`{"name":"Ann's phone / iOS","preshared_key":%q,"keepalive":25,"allowed_ips":"10.8.0.9/32,192.168.77.0/24"}`, shared))
	w := raw(t, b, "admin", at(p)+"/config")
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || w.Header().Get("Content-Disposition") != `attachment; filename="Ann-s-phone---i.conf"` {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	want := []string{
		"[Interface]", "", "Address = 10.8.0.9/32", "DNS = 10.8.0.1", "MTU = 1380",
		"[Peer]", "PublicKey = " + i.PublicKey.String(), "PresharedKey = " + shared,
		"AllowedIPs = 10.8.0.0/24, fd00:8::/64, 192.168.5.0/24", "Endpoint = gateway.example.net:51820", "PersistentKeepalive = 25",
	}
	if len(lines) != len(want) || !strings.HasPrefix(lines[1], "PrivateKey = ") {
		t.Fatalf("%s", w.Body)
	}
	for n, line := range want {
		if line != "" && lines[n] != line {
			t.Errorf("%q instead of %q", lines[n], line)
		}
	}
	code := raw(t, b, "admin", at(p)+"/qr")
	if code.Header().Get("Content-Type") != "image/png" {
		t.Fatalf("%d %s", code.Code, code.Body)
	}
	picture, _, err := image.Decode(bytes.NewReader(code.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got := decodeQR(t, picture); got != w.Body.String() {
		t.Fatalf("the code says\n%s\ninstead of\n%s", got, w.Body)
	}
	for _, path := range []string{"/config", "/qr"} {
		if w := raw(t, b, "viewer", at(p)+path); w.Code != 403 {
			t.Errorf("a viewer gets %d for %s", w.Code, path)
		}
		if w := raw(t, b, "admin", "/peers/018f0000-0000-7000-8000-000000000000"+path); w.Code != 404 {
			t.Errorf("an unknown peer: %d", w.Code)
		}
	}
	if n := len(p.Warnings); n != 1 || !strings.Contains(p.Warnings[0], "192.168.77.0/24") {
		t.Errorf("warnings: %q", p.Warnings)
	}

	b.Do(t, "admin", http.MethodPut, "/tunnel/interfaces/"+i.ID.String(), `{"endpoint_host":"2001:db8::5"}`).Want(t, 200)
	if w := raw(t, b, "admin", at(p)+"/config"); !strings.Contains(w.Body.String(), "\nEndpoint = [2001:db8::5]:51820\n") {
		t.Errorf("%s", w.Body)
	}
	site := post[tunnel.Peer](t, b, peersOf(i), `{"name":"site","allowed_ips":"192.168.78.0/24"}`)
	if w := raw(t, b, "admin", at(site)+"/config"); w.Code != 409 || !strings.Contains(w.Body.String(), "has no address") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TU-04 and TU-06, and everything that an interface or a peer cannot be.
func TestRefusedInterfaces(t *testing.T) {
	b, _ := bench(t)
	serverOf(t, b, "wg0", "10.8.0.1/24")
	up := func(more string) string {
		return fmt.Sprintf(`{"name":"wg1","mode":"client","address_cidr":"10.7.0.2/32","upstream_public_key":%q,"upstream_endpoint":"198.51.100.1:51820"%s}`, publicB, more)
	}
	for body, field := range map[string]string{
		`{"address_cidr":"10.9.0.1/24"}`: "name",
		`{"name":"wg1"}`:                 "address_cidr",
		`{"name":"wg1\nPostUp = touch /tmp/x","address_cidr":"10.9.0.1/24"}`:                       "name",
		`{"name":"../wg1","address_cidr":"10.9.0.1/24"}`:                                           "name",
		`{"name":"wg1","mode":"both","address_cidr":"10.9.0.1/24"}`:                                "mode",
		`{"name":"wg1","address_cidr":"10.9.0.1"}`:                                                 "address_cidr",
		`{"name":"wg1","address_cidr":"10.9.0.0/24"}`:                                              "address_cidr",
		`{"name":"wg1","address_cidr":"10.9.0.255/24"}`:                                            "address_cidr",
		`{"name":"wg1","address_cidr":"10.9.0.1/24,10.9.0.2/24"}`:                                  "address_cidr",
		`{"name":"wg1","address_cidr":"127.0.0.1/8"}`:                                              "address_cidr",
		`{"name":"wg1","address_cidr":"10.9.0.1/0"}`:                                               "address_cidr",
		`{"name":"wg1","address_cidr":"fe80::1%wg1/64"}`:                                           "address_cidr",
		`{"name":"wg1","address_cidr":"10.8.0.77/25"}`:                                             "address_cidr",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","listen_port":65536}`:                          "listen_port",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","client_routes":"10.0.0.0/8\nPostUp = x"}`:     "client_routes",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","client_routes":"10.0.0.0/8 PostUp"}`:          "client_routes",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","dns":"one.example.net"}`:                      "dns",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","dns":"10.9.0.1\n[Peer]"}`:                     "dns",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","mtu":1279}`:                                   "mtu",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","mtu":9001}`:                                   "mtu",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","endpoint_host":"a b"}`:                        "endpoint_host",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","endpoint_host":"vpn.example.net:1"}`:          "endpoint_host",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","private_key":"short"}`:                        "private_key",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","upstream_public_key":"` + publicB + `"}`:      "upstream_public_key",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","upstream_endpoint":"198.51.100.1:1"}`:         "upstream_endpoint",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","upstream_preshared_key":"` + shared + `"}`:    "upstream_preshared_key",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","upstream_allowed_ips":"10.0.0.0/8"}`:          "upstream_allowed_ips",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","upstream_keepalive":5}`:                       "upstream_keepalive",
		`{"name":"wg1","mode":"client","address_cidr":"10.7.0.2/32"}`:                              "upstream_endpoint",
		up(`,"client_routes":"10.0.0.0/8"`):                                                        "client_routes",
		up(`,"dns":"10.0.0.1"`):                                                                    "dns",
		up(`,"endpoint_host":"a.example"`):                                                         "endpoint_host",
		up(`,"upstream_allowed_ips":""`):                                                           "upstream_allowed_ips",
		up(`,"upstream_allowed_ips":"x"`):                                                          "upstream_allowed_ips",
		up(`,"upstream_keepalive":65536`):                                                          "upstream_keepalive",
		up(`,"upstream_preshared_key":"` + shared[:43] + `"`):                                      "upstream_preshared_key",
		strings.Replace(up(""), publicB, publicB[:43], 1):                                          "upstream_public_key",
		strings.Replace(up(""), publicB, "!"+publicB[1:], 1):                                       "upstream_public_key",
		strings.Replace(up(""), "198.51.100.1:51820", "198.51.100.1", 1):                           "upstream_endpoint",
		strings.Replace(up(""), "198.51.100.1:51820", "198.51.100.1:0", 1):                         "upstream_endpoint",
		strings.Replace(up(""), "198.51.100.1:51820", "0.0.0.0:51820", 1):                          "upstream_endpoint",
		strings.Replace(up(""), "198.51.100.1:51820", `a.example:1\nPostUp = touch /tmp/x`, 1):     "upstream_endpoint",
		strings.Replace(up(""), "198.51.100.1:51820", `a.example\nPostUp = touch /tmp/x:51820`, 1): "upstream_endpoint",
		strings.Replace(up(""), "198.51.100.1:51820", `[fe80::1%eth0]:51820`, 1):                   "upstream_endpoint",
	} {
		b.Do(t, "admin", http.MethodPost, "/tunnel/interfaces", body).WantField(t, field)
	}
	for body, field := range map[string]string{
		`{"name":"wg0","address_cidr":"10.9.0.1/24"}`:                     "name",
		`{"name":"wg1","address_cidr":"10.9.0.1/24","listen_port":51820}`: "listen_port",
		up(`,"listen_port":51820`):                                        "listen_port",
	} {
		b.Do(t, "admin", http.MethodPost, "/tunnel/interfaces", body).WantTaken(t, field)
	}
	if n := b.Rows(t, "tunnel_interfaces"); n != 1 {
		t.Fatalf("%d rows after refused bodies", n)
	}
}

func TestRefusedPeers(t *testing.T) {
	b, _ := bench(t)
	i := serverOf(t, b, "wg0", "10.8.0.1/24")
	other := serverOf(t, b, "wg1", "10.9.0.1/24")
	c := post[tunnel.Interface](t, b, "/tunnel/interfaces", fmt.Sprintf(`{"name":"wg2","mode":"client","active":false,"address_cidr":"10.7.0.2/32","upstream_public_key":%q,"upstream_endpoint":"198.51.100.1:51820"}`, publicB))
	first := post[tunnel.Peer](t, b, peersOf(i), fmt.Sprintf(`{"name":"first","public_key":%q,"allowed_ips":"10.8.0.2/32,10.50.0.0/16"}`, publicB))
	for body, field := range map[string]string{
		`{}`:                                  "name",
		`{"name":"x\nPostUp = touch /tmp/x"}`: "name",
		`{"name":"` + strings.Repeat("x", 121) + `"}`:                                 "name",
		`{"name":"x","public_key":"` + publicA[:43] + `"}`:                            "public_key",
		`{"name":"x","public_key":"` + publicA[:43] + `!"}`:                           "public_key",
		`{"name":"x","public_key":"` + publicA + `\nPostUp = x"}`:                     "public_key",
		`{"name":"x","public_key":"` + strings.Repeat("A", 43) + `="}`:                "public_key",
		`{"name":"x","public_key":"` + i.PublicKey.String() + `"}`:                    "public_key",
		`{"name":"x","public_key":"` + shared + `","private_key":"` + privateA + `"}`: "public_key",
		`{"name":"x","private_key":"x"}`:                                              "private_key",
		`{"name":"x","preshared_key":"` + shared[:43] + `"}`:                          "preshared_key",
		`{"name":"x","allowed_ips":"10.8.0.1"}`:                                       "allowed_ips",
		`{"name":"x","allowed_ips":"10.8.0.300/32"}`:                                  "allowed_ips",
		`{"name":"x","allowed_ips":"10.8.0.3/32\nPostUp = touch /tmp/x"}`:             "allowed_ips",
		`{"name":"x","endpoint":"198.51.100.1"}`:                                      "endpoint",
		`{"name":"x","endpoint":"a.example:1\nPostUp = touch /tmp/x"}`:                "endpoint",
		`{"name":"x","keepalive":-1}`:                                                 "keepalive",
		`{"name":"x","keepalive":65536}`:                                              "keepalive",
		`{"name":"x","interface_id":"` + other.ID.String() + `"}`:                     "interface_id",
		`{"name":"x","has_private_keys":true}`:                                        "has_private_keys",
	} {
		b.Do(t, "admin", http.MethodPost, peersOf(i), body).WantField(t, field)
	}
	for body, field := range map[string]string{
		`{"name":"x","public_key":"` + publicB + `"}`:        "public_key",
		`{"name":"x","allowed_ips":"10.8.0.2/32"}`:           "allowed_ips",
		`{"name":"x","allowed_ips":"10.8.0.7,10.50.3.4/16"}`: "allowed_ips",
	} {
		a := b.Do(t, "admin", http.MethodPost, peersOf(i), body).WantTaken(t, field)
		if !strings.Contains(a.Error.Fields[field], "first") {
			t.Errorf("the other peer is not named: %s", a.Body)
		}
	}
	b.Do(t, "admin", http.MethodPost, peersOf(c), `{"name":"x","allowed_ips":"10.7.0.3"}`).WantField(t, "interface_id")
	b.Get(t, "/tunnel/interfaces/"+c.ID.String()+"/next-address").Want(t, 409)
	b.Do(t, "admin", http.MethodPost, peersOf(other), `{"name":"x","allowed_ips":"10.50.0.0/16"}`).WantTaken(t, "allowed_ips")
	b.Do(t, "admin", http.MethodPost, peersOf(tunnel.Interface{}), `{"name":"x"}`).Want(t, 404)
	b.Do(t, "admin", http.MethodPost, "/peers", `{"name":"x","interface_id":"018f0000-0000-7000-8000-000000000000"}`).WantField(t, "interface_id")
	for body, field := range map[string]string{
		`{"public_key":""}`: "public_key", `{"allowed_ips":""}`: "allowed_ips", `{"interface_id":"` + other.ID.String() + `"}`: "interface_id", `{"name":""}`: "name",
	} {
		b.Do(t, "admin", http.MethodPut, at(first), body).WantField(t, field)
	}
	if n := b.Rows(t, "tunnel_peers"); n != 1 {
		t.Fatalf("%d rows after refused bodies", n)
	}

	// The key may be a peer of another interface, and a peer that is off claims nothing until it is on again.
	post[tunnel.Peer](t, b, peersOf(other), fmt.Sprintf(`{"name":"the same","public_key":%q}`, publicB))
	b.Do(t, "admin", http.MethodPut, at(first), `{"active":false}`).Want(t, 200)
	heir := post[tunnel.Peer](t, b, peersOf(i), `{"name":"heir","allowed_ips":"10.8.0.2/32"}`)
	b.Do(t, "admin", http.MethodPut, at(first), `{"active":true}`).WantTaken(t, "allowed_ips")
	b.Do(t, "admin", http.MethodDelete, at(heir), nil).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, at(first), `{"active":true}`).Want(t, 200)

	b.Do(t, "admin", http.MethodPut, "/tunnel/interfaces/"+i.ID.String(), fmt.Sprintf(`{"mode":"client","upstream_public_key":%q,"upstream_endpoint":"198.51.100.1:51820"}`, publicB)).WantField(t, "mode")
	b.Do(t, "admin", http.MethodDelete, "/tunnel/interfaces/"+i.ID.String(), nil).Want(t, 200)
	b.Get(t, at(first)).Want(t, 404)
}

func TestOnlyOneTunnelTakesEverything(t *testing.T) {
	b, _ := bench(t)
	up := `{"name":"wg%d","mode":"client","active":%v,"address_cidr":"10.7.%[1]d.2/32","upstream_public_key":"` + publicB + `","upstream_endpoint":"198.51.100.1:51820"}`
	post[tunnel.Interface](t, b, "/tunnel/interfaces", fmt.Sprintf(up, 0, true))
	b.Do(t, "admin", http.MethodPost, "/tunnel/interfaces", fmt.Sprintf(up, 1, true)).WantField(t, "upstream_allowed_ips")
	spare := post[tunnel.Interface](t, b, "/tunnel/interfaces", fmt.Sprintf(up, 1, false))
	b.Do(t, "admin", http.MethodPut, "/tunnel/interfaces/"+spare.ID.String(), `{"active":true}`).WantField(t, "upstream_allowed_ips")
}

// decodeQR decodes a code like a camera.
func decodeQR(t testing.TB, picture image.Image) string {
	t.Helper()
	bitmap, err := gozxing.NewBinaryBitmapFromImage(picture)
	if err != nil {
		t.Fatal(err)
	}
	found, err := qrcode.NewQRCodeReader().Decode(bitmap, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true})
	if err != nil {
		t.Fatal(err)
	}
	return found.GetText()
}

func TestCarrierIsWhoHasAnAddress(t *testing.T) {
	b, room := bench(t)
	i := serverOf(t, b, "wg0", "10.8.0.1/24")
	site := post[tunnel.Peer](t, b, peersOf(i), `{"name":"Bern","allowed_ips":"10.8.0.2/32,10.40.0.0/16"}`)
	post[tunnel.Peer](t, b, peersOf(i), `{"name":"one machine in Bern","allowed_ips":"10.40.0.7/32"}`)
	post[tunnel.Interface](t, b, "/tunnel/interfaces", `{"name":"wg1","mode":"client","address_cidr":"10.9.0.2/32","upstream_public_key":"`+publicB+`","upstream_endpoint":"198.51.100.7:51820"}`)
	who := func(address string) string {
		t.Helper()
		c, err := room.Carrier(t.Context(), b.DB, netip.MustParseAddr(address))
		if err != nil {
			t.Fatal(err)
		}
		return c.Interface.String() + " " + c.Name
	}
	for address, want := range map[string]string{
		"10.8.0.2": "wg0 Bern", "::ffff:10.8.0.2": "wg0 Bern", "10.40.1.1": "wg0 Bern", "10.40.0.7": "wg0 one machine in Bern", "192.0.2.9": "wg1 the upstream", "2001:db8::9": "wg1 the upstream",
	} {
		if got := who(address); got != want {
			t.Errorf("%s: %s", address, got)
		}
	}
	before, err := room.Carrier(t.Context(), b.DB, netip.MustParseAddr("10.8.0.2"))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		path, body string
		same       bool
	}{
		{at(site), `{"keepalive":5}`, true},
		{"/tunnel/interfaces/" + i.ID.String(), `{"dns":"10.8.0.1"}`, true},
		{at(site), `{"preshared_key":"` + shared + `"}`, false},
		{"/tunnel/interfaces/" + i.ID.String(), `{"listen_port":51999}`, false},
		{at(site), `{"public_key":"` + publicB + `"}`, false},
	} {
		b.Do(t, "admin", http.MethodPut, x.path, x.body).Want(t, 200)
		after, err := room.Carrier(t.Context(), b.DB, netip.MustParseAddr("10.8.0.2"))
		if err != nil || (after == before) != x.same {
			t.Errorf("%s: %+v, was %+v (%v)", x.body, after, before, err)
		}
		before = after
	}
	b.Do(t, "admin", http.MethodPut, at(site), `{"active":false}`).Want(t, 200)
	if got := who("10.8.0.2"); got != "wg1 the upstream" {
		t.Error(got)
	}
	if own, err := room.Addresses(t.Context(), b.DB); err != nil || fmt.Sprint(own) != "[10.8.0.1 10.9.0.2]" {
		t.Errorf("%v %v", own, err)
	}
}

// A restored row has its old keys, because the other side knows them.
func TestKeysComeBackWithTheirRows(t *testing.T) {
	b, _ := bench(t)
	i := post[tunnel.Interface](t, b, "/tunnel/interfaces", `{"name":"wg0","address_cidr":"10.8.0.1/24","endpoint_host":"vpn.example.net"}`)
	p := post[tunnel.Peer](t, b, "/tunnel/interfaces/"+i.ID.String()+"/peers", `{"name":"phone"}`)
	all := func() (text string) {
		t.Helper()
		for _, table := range []string{"tunnel_interfaces", "tunnel_peers"} {
			var public string
			var sealed []byte
			var id uuid.UUID
			if err := b.DB.QueryRow(t.Context(), "SELECT id, public_key, private_key FROM "+table).Scan(&id, &public, &sealed); err != nil {
				t.Fatal(err)
			}
			private, err := b.Secrets.Open(sealed, table, "private_key", id.String())
			if err != nil {
				t.Fatal(err)
			}
			text += public + " " + private + "\n"
		}
		return text
	}
	before := all()
	for _, change := range [][2]string{
		{http.MethodPost, "/tunnel/interfaces/" + i.ID.String() + "/generate-keypair"}, {http.MethodPost, "/peers/" + p.ID.String() + "/generate-keypair"},
		{http.MethodDelete, "/peers/" + p.ID.String()}, {http.MethodDelete, "/tunnel/interfaces/" + i.ID.String()},
	} {
		set := b.Do(t, "admin", change[0], change[1], nil).Want(t, 200).Header.Get(httpd.ChangeSetHeader)
		b.Do(t, "admin", http.MethodPost, "/change-sets/"+set+"/revert", nil).Want(t, 200)
		if after := all(); after != before {
			t.Errorf("after %s:\n%s\n%s", change, before, after)
		}
	}
}
