package appliance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/test/node"
)

// live makes a change, checks that all its components are live when it is answered, and returns the row's id.
func (g *gateway) live(t *testing.T, method, path string, body fields) string {
	t.Helper()
	status := 200
	if method == http.MethodPost && path != "/change-sets" {
		status = 201
	}
	var row struct{ ID string }
	a := g.Must(t, method, path, body, status, &row)
	for _, component := range strings.Split(a.Header.Get("Gateway-Apply"), ", ") {
		name, state, _ := strings.Cut(component, "=")
		switch {
		case state == "live":
		case state == "pending" || g.pace > 1: // the API does not wait for a machine this slow, which may need another try
			g.WaitState(t, name, "live", (1+g.pace)*30*time.Second)
		default:
			why := g.Must(t, http.MethodGet, "/system/components", nil, 200, nil)
			t.Fatalf("%s %s: %q: %s", method, path, a.Header.Get("Gateway-Apply"), why.Body)
		}
	}
	return row.ID
}

// Every component gets a change, and the daemon or the kernel has it.
func (g *gateway) everyComponentChanges(t *testing.T) {
	t.Helper()
	wan := g.live(t, http.MethodPost, "/network-interfaces", fields{"name": "eth0", "type": "ethernet", "role": "wan"})
	g.live(t, http.MethodPost, "/ip-addresses", fields{"interface_id": wan, "address": g.wan, "prefix": 24})
	lan := g.live(t, http.MethodPost, "/network-interfaces", fields{"name": "eth1", "type": "ethernet", "role": "lan"})
	g.live(t, http.MethodPost, "/ip-addresses", fields{"interface_id": lan, "address": "10.20.0.1", "prefix": 24})
	g.live(t, http.MethodPost, "/ntp/pools", fields{"kind": "server", "address": "192.0.2.123"})
	g.live(t, http.MethodPut, "/dns/settings", fields{"listen_addresses": []string{"10.20.0.1"}})
	zone := g.live(t, http.MethodPost, "/dns/zones", fields{"name": "office.example.net"})
	g.live(t, http.MethodPost, "/dns/records", fields{"zone_id": zone, "name": "printer", "type": "A", "value": "10.20.0.7"})
	g.live(t, http.MethodPut, "/forward-proxy/settings", fields{"enabled": true})
	g.live(t, http.MethodPost, "/dhcp/subnets", fields{"interface": "eth1", "cidr": "10.20.0.0/24", "range_start": "10.20.0.100", "range_end": "10.20.0.199", "gateway": "10.20.0.1"})
	g.live(t, http.MethodPut, "/dhcp/settings", fields{"enabled": true})
	g.live(t, http.MethodPost, "/radius/clients", fields{"name": "switch", "address": "10.20.0.9", "secret": "shared with the switch"})
	g.live(t, http.MethodPut, "/radius/settings", fields{"enabled": true})
	g.live(t, http.MethodPost, "/tunnel/interfaces", fields{"name": "wg-office", "address_cidr": "10.88.0.1/24", "endpoint_host": node.Address})
	g.live(t, http.MethodPut, "/ids/settings", fields{"enabled": true})
	g.Must(t, http.MethodPost, "/ids/decisions", fields{"value": "192.0.2.66"}, 201, nil)
	g.allLive(t)
	g.serves(t)
}

// tunnelRuns checks what runs the tunnel: the kernel, or a unit if the kernel cannot.
const tunnelRuns = `if ip -details link show dev wg-office | grep -qw wireguard; then echo active; else systemctl is-active 'gateway-wireguard@wg\x2doffice.service'; fi`

// serves checks every daemon and the kernel for what everyComponentChanges has set.
func (g *gateway) serves(t *testing.T) {
	t.Helper()
	for command, want := range map[string]string{
		"ip -o -4 address show dev eth1":                           "10.20.0.1/24",
		"chronyc -c -n sources":                                    "192.0.2.123",
		"dig +short +time=5 @10.20.0.1 printer.office.example.net": "10.20.0.7",
		"ss -Hltn sport = :3128":                                   "LISTEN",
		"ss -Hlun sport = :67":                                     "10.20.0.1",
		"ss -Hlun sport = :1812":                                   "UNCONN",
		"wg show wg-office listen-port":                            "51820",
		tunnelRuns:                                                 "active",
		"nft list table inet gateway":                              "policy drop",
		"nft list table ip crowdsec":                               "192.0.2.66",
	} {
		waittest.Within(t, g.pace*2*time.Minute, command+" tells "+want, func() error { return g.tells(t, want, "sh", "-c", command) })
	}
}

// listenOutside serves HTTP on the node's outside.
func (g *appliance) listenOutside(t *testing.T, address, text string) {
	t.Helper()
	var l net.Listener
	if err := g.OnOutside(func() (err error) { l, err = net.Listen("tcp", address); return err }); err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
}

const origin = "it is the origin that answers"

func traffic(t *testing.T, g *appliance) {
	backend := g.live(t, http.MethodPost, "/backends", fields{"name": "origin", "health_check_enabled": false})
	g.live(t, http.MethodPost, "/backends/"+backend+"/servers", fields{"name": "one", "address": "198.51.100.1", "port": 8080})
	g.live(t, http.MethodPost, "/domains", fields{"name": "www.example.net", "backend_id": backend, "http_to_https": false})
	if body := g.get(t, "www.example.net"); body != origin {
		t.Fatalf("HAProxy answers %q", body)
	}

	g.write(t, "/etc/systemd/system/probe.socket", []byte("[Socket]\nListenStream=7777\nListenStream=7778\nAccept=yes\n[Install]\nWantedBy=sockets.target\n"))
	g.write(t, "/etc/systemd/system/probe@.service", []byte("[Service]\nExecStart=/bin/true\n"))
	g.sh(t, "systemctl daemon-reload; systemctl enable --now probe.socket 2>&1")
	for _, port := range []int{7777, 7778} {
		if g.reachable(port) {
			t.Fatalf("port %d is open", port)
		}
	}
	probe := g.live(t, http.MethodPost, "/firewall/services", fields{"name": "probe", "protocol": "tcp", "port_start": 7777})
	g.live(t, http.MethodPost, "/firewall/rules", fields{"name": "probe", "src_zone": "wan", "dst_zone": "self", "action": "accept", "service_object_id": probe})
	if !g.reachable(7777) || g.reachable(7778) {
		t.Fatal("the rule lets 7777 in, and nothing else")
	}
}

// get requests a site from HAProxy.
func (g *appliance) get(t *testing.T, site string) string {
	t.Helper()
	conn, err := g.Dial(t.Context(), "tcp", node.Address+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", site)
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	return string(body)
}

// reachable reports whether a port of the node accepts connections from the WAN.
func (g *appliance) reachable(port int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	conn, err := g.Dial(ctx, "tcp", fmt.Sprintf("%s:%d", node.Address, port))
	if err == nil {
		conn.Close()
	}
	return err == nil
}
