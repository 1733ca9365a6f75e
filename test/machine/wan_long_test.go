//go:build long

package machine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// leaser does what a system's DHCP client does with a lease: the address expires with it, and the default route has its protocol.
const leaser = `#!/bin/sh
case "$1" in bound|renew) ;; *) exit 0 ;; esac
ip addr replace "$ip/$mask" dev "$interface" valid_lft "$lease" preferred_lft "$lease"
ip route replace default via "$router" dev "$interface" proto dhcp
echo "$1 $ip" >> "$(dirname "$0")/leased"
`

// provider hands out addresses on the WAN.
const provider = `interface eth0
start 198.51.100.50
end 198.51.100.60
lease_file %[1]s/leases
pidfile %[1]s/pid
option subnet 255.255.255.0
option router 198.51.100.2
option lease 120
`

// The WAN by DHCP: the client is the system's. Its lease is proposed as it is and kept, the LAN reaches the internet through it, and the packet
// filter does not block leases.
func TestWANByDHCP(t *testing.T) {
	t.Parallel()
	l := labtest.Up(t, lab.Options{Volatile: true})
	l.Names(t, lab.Wan, "198.51.100.2:53").Set(t, "www.example.net. 60 IN A 198.51.100.2")
	site := serveOn(t, l, lab.Wan, "198.51.100.2:8099")
	l.Must(t, http.MethodPost, "/setup/complete", map[string]any{
		"admin_email": labtest.AdminEmail, "admin_password": labtest.AdminPassword, "fqdn": "gateway.example.net", "acme_enabled": false,
	}, 200, nil)
	l.Login(t)
	l.Must(t, http.MethodPut, "/dns/settings", map[string]any{"dnssec_validation": false}, 200, nil)

	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("leases", "")
	leases := func() (list []string) {
		text, err := os.ReadFile(filepath.Join(dir, "leased"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	serve, err := l.Command(t.Context(), lab.Wan, "busybox", "udhcpd", "-f", write("udhcpd.conf", fmt.Sprintf(provider, dir)))
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	// The lab has given the gateway an address there, but a machine of this kind starts without one.
	l.Run(t, lab.Gateway, "ip", "addr", "flush", "dev", "wan0", "scope", "global")
	client, err := l.Command(t.Context(), lab.Gateway, "busybox", "udhcpc", "-i", "wan0", "-f", "-t", "20", "-T", "1", "-p", filepath.Join(dir, "client"), "-s", write("leaser", leaser))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "a lease", func() bool { return len(leases()) == 1 && leases()[0] != "" })
	address := strings.TrimPrefix(leases()[0], "bound ")

	type proposed struct {
		Name, Role, Gateway string
		Addresses           []string
	}
	var proposal struct{ Networks []proposed }
	l.Must(t, http.MethodGet, "/network/setup", nil, 200, &proposal)
	if !slices.ContainsFunc(proposal.Networks, func(n proposed) bool {
		return n.Name == "wan0" && n.Role == "wan" && n.Gateway == "" && len(n.Addresses) == 0
	}) {
		t.Fatalf("the lease is not left to the system: %+v", proposal)
	}
	r := &firstRig{Lab: l, script: write("newcomer", newcomer)}
	r.setUp(t, map[string]any{"upstream_forwards": []string{"198.51.100.2"}, "time_servers": []string{"198.51.100.2"}})

	l.Run(t, lab.Lan, "ip", "addr", "flush", "dev", "eth0", "scope", "global")
	lan := r.arrives(t, "lan", "10.10.0.1")
	if out, err := r.try(t, lan, "curl", "-sS", "--max-time", "20", "--retry", "3", "http://198.51.100.2:8099"); err != nil || out != "hello from the internet" {
		t.Errorf("a page: %q, %v", out, err)
	}
	if seen := site.seen(); !slices.Contains(seen, address) {
		t.Errorf("the internet sees %v instead of %s", seen, address)
	}
	// The lease is renewed through the packet filter, and still the system's.
	number, err := os.ReadFile(filepath.Join(dir, "client"))
	if err != nil {
		t.Fatal(err)
	}
	l.Run(t, lab.Gateway, "kill", "-USR1", strings.TrimSpace(string(number)))
	waittest.Until(t, "the lease is renewed", func() bool { return len(leases()) > 1 })
	var links []struct {
		AddrInfo []struct {
			Local   string
			Dynamic bool
		} `json:"addr_info"`
	}
	if err := json.Unmarshal([]byte(l.Run(t, lab.Gateway, "ip", "-j", "-4", "addr", "show", "dev", "wan0")), &links); err != nil || len(links) != 1 {
		t.Fatal(err, links)
	}
	if has := links[0].AddrInfo; len(has) != 1 || has[0].Local != address || !has[0].Dynamic {
		t.Errorf("wan0 has %+v", has)
	}
	l.WaitSettled(t)
}
