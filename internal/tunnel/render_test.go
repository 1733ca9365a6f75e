package tunnel_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/conftest"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/wire"
	"edge.internal/gateway/internal/tunnel"
)

// lines splits a WireGuard configuration like WireGuard, with all values of a key as one word.
func lines(file []byte) (list [][]string) {
	for line := range strings.Lines(string(file)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, v, _ := strings.Cut(line, "=")
		list = append(list, []string{strings.TrimSpace(key), strings.TrimSpace(v)})
	}
	return list
}

// allowed lists the only keys that may be written (TU-04).
var allowed = []string{"[Interface]", "PrivateKey", "Address", "ListenPort", "DNS", "MTU", "[Peer]", "PublicKey", "PresharedKey", "AllowedIPs", "Endpoint", "PersistentKeepalive"}

func onlyAllowedKeys(t testing.TB, file []byte) {
	t.Helper()
	for _, line := range lines(file) {
		if !slices.Contains(allowed, line[0]) {
			t.Errorf("the key %q in\n%s", line[0], file)
		}
	}
}

func TestRender(t *testing.T) {
	conftest.Golden[tunnel.Config]{
		Render: tunnel.Render,
		Accept: func(t testing.TB, files []host.File) {
			for _, f := range files {
				onlyAllowedKeys(t, f.Content)
			}
		},
	}.Check(t)
}

// profile has every field set.
func profile() tunnel.Profile {
	return tunnel.Profile{
		PrivateKey: value.Must[tunnel.Key](privateA), Addresses: []value.Prefix{value.Must[value.Prefix]("10.8.0.2/32")}, DNS: []value.Addr{value.Must[value.Addr]("10.8.0.1")}, MTU: 1380,
		PublicKey: value.Must[tunnel.Key](publicB), PresharedKey: value.Must[tunnel.Key](shared), AllowedIPs: []value.Prefix{value.Must[value.Prefix]("10.8.0.0/24")},
		Endpoint: value.Must[tunnel.Endpoint]("vpn.example.net:51820"), Keepalive: 25,
	}
}

// hostile tries hostile values in a text field: an accepted one stays one value of its key.
func hostile[T any](t *testing.T, field, benign string, canonical func(*T) string, put func(p *tunnel.Profile, row *T)) {
	t.Helper()
	conftest.Oracle[tunnel.Profile]{
		Benign: benign, Parse: lines, Daemon: onlyAllowedKeys,
		Decode: func(text string) (tunnel.Profile, string, error) {
			body, err := json.Marshal(map[string]any{field: text})
			if err != nil {
				return tunnel.Profile{}, "", err
			}
			row := new(T)
			given, err := wire.Decode(body, row)
			if _, has := complaints(err)[field]; has || given == nil && err != nil && len(complaints(err)) == 0 {
				return tunnel.Profile{}, "", err
			}
			p := profile()
			put(&p, row)
			word := strings.ReplaceAll(canonical(row), ",", ", ")
			if word == "" {
				return tunnel.Profile{}, "", errAbsent
			}
			return p, word, nil
		},
		Render: tunnel.RenderProfile,
	}.Check(t)
}

func TestHostileEndpoint(t *testing.T) {
	hostile(t, "endpoint", "peer.example.org:4000", func(p *tunnel.Peer) string { return p.Endpoint.String() }, func(x *tunnel.Profile, p *tunnel.Peer) { x.Endpoint = p.Endpoint })
}

func TestHostilePublicKey(t *testing.T) {
	hostile(t, "public_key", publicC, func(p *tunnel.Peer) string { return p.PublicKey.String() }, func(x *tunnel.Profile, p *tunnel.Peer) { x.PublicKey = p.PublicKey })
}

func TestHostileAllowedIPs(t *testing.T) {
	hostile(t, "allowed_ips", "10.8.0.9/32", func(p *tunnel.Peer) string { return p.AllowedIPs.String() }, func(x *tunnel.Profile, p *tunnel.Peer) { x.Addresses = p.AllowedIPs.List() })
}

func TestHostileRoutes(t *testing.T) {
	hostile(t, "client_routes", "192.168.9.0/24", func(i *tunnel.Interface) string { return i.ClientRoutes.String() }, func(x *tunnel.Profile, i *tunnel.Interface) { x.AllowedIPs = i.ClientRoutes.List() })
}

func TestHostileResolvers(t *testing.T) {
	hostile(t, "dns", "192.0.2.53", func(i *tunnel.Interface) string { return i.DNS.String() }, func(x *tunnel.Profile, i *tunnel.Interface) { x.DNS = i.DNS.List() })
}

var errAbsent = errors.New("nothing is written")

// complaints returns the fields of an error.
func complaints(err error) map[string]string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Fields
	}
	return nil
}
