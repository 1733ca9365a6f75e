package diag_test

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/diag"
	"edge.internal/gateway/internal/kit/host"
)

// link is a connected interface.
func link(name, address string) host.Link {
	n := netip.MustParsePrefix(address)
	return host.Link{
		Name: name, Kind: "device", Flags: []string{"UP", "LOWER_UP"},
		Addrs: []host.LinkAddr{{Family: "inet", Local: n.Addr().String(), PrefixLen: n.Bits(), Scope: "global"}},
	}
}

func (b *bench) path(t *testing.T, body map[string]any) (p diag.Path) {
	t.Helper()
	b.Do(t, "admin", http.MethodPost, "/diagnostics/path", body).Want(t, 200).Into(t, &p)
	return p
}

func kinds(p diag.Path) string {
	var list []string
	for _, s := range p.Steps {
		list = append(list, s.Kind+":"+s.Status)
	}
	return strings.Join(list, " ")
}

func TestPath(t *testing.T) {
	b := start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	lan, wan := link("lan0", "10.10.0.1/24"), link("wan0", "198.51.100.1/24")
	well := func() {
		b.Machine.SetLinks(lan, wan)
		b.Machine.SetWays(func(dst, _ netip.Addr, _ string) (host.Way, error) {
			switch {
			case dst.IsLoopback():
				return host.Way{Local: true}, nil
			case lan.Addrs[0].Prefix().Contains(dst):
				return host.Way{Interface: "lan0"}, nil
			case dst.String() == "203.0.113.9":
				return host.Way{Unreachable: "there is no route to it"}, nil
			}
			return host.Way{Interface: "wan0"}, nil
		})
		if err := b.Machine.Forward(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		b.verdict = diag.Verdict{Accepted: true, Path: "forward", Text: "the rule out accepts it", OutInterface: "wan0", OutZone: "wan", Destination: netip.MustParseAddr("127.0.0.1"), Port: port}
	}
	rule := uuid.New()
	b.names["v6.example"] = []netip.Addr{netip.MustParseAddr("2001:db8::1")}
	for _, x := range []struct {
		name    string
		arrange func()
		body    map[string]any
		kinds   string
		says    string
	}{
		{"all is well", func() {}, map[string]any{"source_zone": "lan", "destination": "198.51.100.2", "port": port, "tls": false}, "source:ok route:ok filter:ok connect:ok", "Nothing stops"},
		{"a rule drops it", func() { b.verdict.Accepted, b.verdict.Rule, b.verdict.RuleID = false, "no", &rule }, map[string]any{"source_zone": "lan", "destination": "198.51.100.2", "port": 80},
			"source:ok route:ok filter:failed", "The firewall stops it"},
		{"it is redirected", func() { b.verdict.NAT = []diag.Rewrite{{Destination: true, Rule: "in", From: "a", To: "b"}} }, map[string]any{"source_zone": "lan", "destination": "198.51.100.1", "port": 80, "tls": false},
			"source:ok nat:ok route:ok filter:ok connect:ok", "Nothing stops"},
		{"no NAT", func() {
			b.verdict.Destination, b.verdict.Port = netip.MustParseAddr("198.51.100.2"), 9
		}, map[string]any{"source_zone": "lan", "destination": "198.51.100.2", "protocol": "udp", "port": 9}, "source:ok route:ok filter:ok nat:warning connect:skipped", "check one step"},
		{"it does not forward", func() { _ = b.Machine.Forward(t.Context(), false) }, map[string]any{"source_zone": "lan", "destination": "198.51.100.2", "port": 80}, "source:ok route:failed", "does not forward"},
		{"the way out is dead", func() {
			down := wan
			down.Flags = []string{"UP"}
			b.Machine.SetLinks(lan, down)
		}, map[string]any{"source_zone": "lan", "destination": "198.51.100.2", "port": 80}, "source:ok route:failed", "wan0 has no carrier"},
		{"the way in is dead", func() {
			down := lan
			down.Flags = nil
			b.Machine.SetLinks(down, wan)
		}, map[string]any{"source_zone": "lan", "destination": "198.51.100.2", "port": 80}, "source:failed", "lan0 is down"},
		{"a zone without interfaces", func() {}, map[string]any{"source_zone": "dmz", "destination": "198.51.100.2", "port": 80}, "source:failed", "belongs to zone dmz"},
		{"a name without an address", func() {}, map[string]any{"destination": "no.example", "port": 80}, "name:failed", "the name does not exist"},
		{"a name of the other family", func() {}, map[string]any{"source": "10.10.0.2", "destination": "v6.example", "port": 80}, "name:failed", "not the address family"},
		{"no route", func() {}, map[string]any{"destination": "203.0.113.9", "port": 80}, "route:failed", "no route to 203.0.113.9"},
		{"the gateway itself", func() {}, map[string]any{"destination": "127.0.0.1", "port": port, "tls": false}, "route:ok filter:ok connect:ok", "Nothing stops"},
		{"no TLS", func() {}, map[string]any{"destination": "127.0.0.1", "port": port, "tls": true}, "route:ok filter:ok connect:ok certificate:failed", "TLS handshake"},
		{"nothing listens", func() {}, map[string]any{"destination": "127.0.0.1", "port": 1}, "route:ok filter:ok connect:failed", "the connection is refused"},
		{"a service of udp", func() {
			b.Machine.SetPortUsers(host.PortUser{Protocol: "UDP", Address: netip.IPv4Unspecified(), Port: 53, Program: "unbound"})
		}, map[string]any{"destination": "127.0.0.1", "protocol": "udp", "port": 53}, "route:ok filter:ok connect:ok", "Nothing stops"},
		{"no service of udp", func() {}, map[string]any{"destination": "127.0.0.1", "protocol": "udp", "port": 54}, "route:ok filter:ok connect:failed", "listens on udp port 54"},
		{"an echo request", func() {}, map[string]any{"destination": "127.0.0.1", "protocol": "icmp"}, "route:ok filter:ok connect:ok", "Nothing stops"},
	} {
		well()
		x.arrange()
		if x.name == "no TLS" {
			// The server answers with something other than a handshake.
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = conn.Write([]byte("220 " + strconv.Itoa(port) + " hello there, this is no handshake\r\n"))
					conn.Close()
				}
			}()
		}
		p := b.path(t, x.body)
		stopped := strings.Contains(x.kinds, "failed")
		if kinds(p) != x.kinds || !strings.Contains(p.Summary, x.says) || p.Reaches == stopped || (p.Advice != "") != (stopped || strings.Contains(x.kinds, "warning")) {
			t.Errorf("%s: %s\n%+v", x.name, kinds(p), p)
		}
	}
	// The question is about one address of the zone, not the gateway's own.
	well()
	b.path(t, map[string]any{"source_zone": "lan", "destination": "198.51.100.2", "port": 80})
	if b.asked.Source.String() != "10.10.0.2" || b.asked.InInterface.String() != "lan0" || b.asked.Port != 80 {
		t.Errorf("%+v", b.asked)
	}
	for body, field := range map[string]string{
		`{"destination":"192.0.2.1"}`: "port", `{"port":80}`: "destination", `{"destination":"192.0.2.1","port":80,"protocol":"sctp"}`: "protocol", `{"destination":"192.0.2.1","protocol":"icmp","port":80}`: "port",
		`{"destination":"192.0.2.1","port":80,"source":"::1"}`: "destination", `{"destination":"224.0.0.1","port":80}`: "destination", `{"destination":"192.0.2.1","port":80,"protocol":"udp","tls":true}`: "tls",
		`{"destination":"a b","port":80}`: "destination",
	} {
		b.Do(t, "admin", http.MethodPost, "/diagnostics/path", body).WantField(t, field)
	}
	b.Do(t, "viewer", http.MethodPost, "/diagnostics/path", `{"destination":"192.0.2.1","port":80}`).Want(t, 403)
}
