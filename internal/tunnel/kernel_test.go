package tunnel_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/nettest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/tunnel"
)

// The tests of this package have a network namespace of their own.
func TestMain(m *testing.M) { nettest.Main(m) }

// real is a kit on the real kernel. Leftover links are removed.
func real(t *testing.T) *kittest.Bench {
	t.Helper()
	b := kittest.NewReal(t)
	tunnel.New(b.Kit, deps).Mount()
	b.Resources.MountChangeSets()
	b.Start(t)
	t.Cleanup(func() {
		ctx := context.Background() // that of the test has ended
		links, _ := b.Host.Links(ctx)
		for _, l := range links {
			if strings.HasPrefix(l.Alias, host.OwnTunnel) {
				_ = b.Host.RemoveTunnel(ctx, l.Name)
			}
		}
	})
	return b
}

// unique returns a name that no other test on this machine has, because the sockets of wireguard-go share a folder.
func unique(t *testing.T) string {
	t.Helper()
	var raw [4]byte
	_, _ = rand.Read(raw[:])
	name := "gwk" + hex.EncodeToString(raw[:])
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "delete", name).Run()
		_ = os.Remove("/var/run/wireguard/" + name + ".sock")
	})
	return name
}

func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", argv, err, out)
	}
	return string(out)
}

func TestTheKernelFollows(t *testing.T) {
	b, name := real(t), unique(t)
	a := applied(t, b.Do(t, "admin", http.MethodPost, "/tunnel/interfaces", fmt.Sprintf(`{"name":%q,"address_cidr":"10.8.0.1/24,fd00:8::1/64","mtu":1380,"listen_port":41999}`, name)).Want(t, 201), "live")
	var i tunnel.Interface
	a.Into(t, &i)
	out := run(t, "ip", "address", "show", "dev", name)
	for _, word := range []string{"inet 10.8.0.1/24", "inet6 fd00:8::1/64", "mtu 1380", "UP"} {
		if !strings.Contains(out, word) {
			t.Errorf("no %q in %s", word, out)
		}
	}
	applied(t, b.Do(t, "admin", http.MethodPost, peersOf(i), fmt.Sprintf(`{"name":"site","public_key":%q,"preshared_key":%q,"endpoint":"peer.example.net:1000","keepalive":25,"allowed_ips":"10.8.0.2/32,192.168.9.0/24,fd00:9::/48"}`, publicB, shared)).Want(t, 201), "live")
	dump := run(t, "wg", "show", name, "dump")
	for _, word := range []string{i.PublicKey.String(), "41999", publicB + "\t" + shared + "\t198.51.100.7:1000\t", "\t25\n"} {
		if !strings.Contains(dump, word) {
			t.Errorf("no %q in %s", word, dump)
		}
	}
	if got := routesOf(t, b, name); !slices.Equal(got, []string{"192.168.9.0/24", "fd00:9::/48"}) {
		t.Errorf("routes %v", got)
	}
	var devices []tunnel.Device
	b.Get(t, "/tunnel/devices").Want(t, 200).Into(t, &devices)
	n := slices.IndexFunc(devices, func(d tunnel.Device) bool { return d.Name == name })
	if n < 0 || !devices[n].Up || !devices[n].Managed || devices[n].Error != "" || devices[n].Peers != 1 || devices[n].ListenPort != 41999 {
		t.Errorf("%+v", devices)
	}

	// Someone removes things: they come back.
	for _, harm := range [][]string{
		{"ip", "route", "delete", "192.168.9.0/24"}, {"ip", "address", "delete", "10.8.0.1/24", "dev", name}, {"ip", "link", "set", name, "down"},
		{"wg", "set", name, "peer", publicB, "remove"}, {"wg", "set", name, "listen-port", "5"}, {"ip", "link", "delete", name},
		{"kill", "-9", "wireguard-go"}, {"kill", "-STOP", "wireguard-go"},
	} {
		if harm[0] == "kill" {
			pid := strings.TrimSpace(run(t, "pgrep", "-f", "^/usr/bin/wireguard-go "+name+"$"))
			harm[2] = pid
			t.Cleanup(func() { _ = exec.Command("kill", "-9", pid).Run() }) // a stopped one does not end by itself
		}
		run(t, harm...)
		waittest.UntilNil(t, fmt.Sprintf("everything is there after %v", harm), func() error {
			s := b.Engine.Refresh(t.Context(), apply.Tunnel, false)
			dump := ""
			if s.State == apply.Live { // one that hangs would not answer wg either
				out, _ := exec.Command("wg", "show", name, "dump").Output() // it may be about to end
				dump = string(out)
			}
			if !strings.Contains(dump, publicB+"\t"+shared) || len(routesOf(t, b, name)) != 2 {
				return fmt.Errorf("%+v, %q", s, dump)
			}
			return nil
		})
	}
	b.Do(t, "admin", http.MethodDelete, "/tunnel/interfaces/"+i.ID.String(), nil).Want(t, 200)
	if linkOf(t, b, name) != nil {
		t.Fatal("the link stays")
	}
}

// A client that takes all traffic leaves the gateway its own networks, its answers and its route to the upstream.
func TestEverythingThroughATunnel(t *testing.T) {
	b, name, wire := real(t), unique(t), unique(t)
	run(t, "ip", "link", "add", wire, "type", "bridge")
	run(t, "ip", "address", "add", "192.0.2.10/24", "dev", wire)
	run(t, "ip", "link", "set", wire, "up")
	run(t, "ip", "route", "add", "default", "via", "192.0.2.1")
	if err := b.Host.Forward(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	i := post[tunnel.Interface](t, b, "/tunnel/interfaces", fmt.Sprintf(`{"name":%q,"mode":"client","address_cidr":"10.7.0.2/32","upstream_public_key":%q,"upstream_endpoint":"198.51.100.7:51820"}`, name, publicB))
	way := func(words ...string) string {
		return run(t, append([]string{"ip", "route", "get"}, words...)...)
	}
	for what, words := range map[string][]string{"the rest": {"203.0.113.5"}, "a forwarded packet": {"203.0.113.5", "from", "192.0.2.77", "iif", wire}} {
		if got := way(words...); !strings.Contains(got, "dev "+name) {
			t.Errorf("%s does not go through the tunnel: %s", what, got)
		}
	}
	for what, words := range map[string][]string{
		"a neighbour": {"192.0.2.77"}, "an answer": {"203.0.113.5", "from", "192.0.2.10"}, "the tunnel's own packet": {"198.51.100.7", "mark", "51251"},
	} {
		if got := way(words...); !strings.Contains(got, "dev "+wire) {
			t.Errorf("%s does not stay outside of the tunnel: %s", what, got)
		}
	}
	if got := run(t, "wg", "show", name, "fwmark"); strings.TrimSpace(got) != "0xc833" {
		t.Errorf("mark %s", got)
	}
	b.Do(t, "admin", http.MethodPut, "/tunnel/interfaces/"+i.ID.String(), `{"active":false}`).Want(t, 200)
	if got := way("203.0.113.5"); !strings.Contains(got, "dev "+wire) {
		t.Errorf("without the tunnel: %s", got)
	}
	if rules, err := b.Host.Rules(t.Context()); err != nil || len(rules) != 0 {
		t.Errorf("%+v, %v", rules, err)
	}
}
