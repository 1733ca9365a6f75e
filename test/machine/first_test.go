package machine

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// newcomer acts as a machine that is plugged in without any configuration: it uses the address, the router and the resolver that it gets.
const newcomer = `#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr flush dev "$interface"
ip addr add "$ip/$mask" dev "$interface"
ip route replace default via "$router"
echo "nameserver $dns" > /etc/resolv.conf
echo "event=bound"
env
`

// page is a site on the internet, which records its clients' addresses.
type page struct {
	mu       sync.Mutex
	visitors []string
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	p.mu.Lock()
	p.visitors = append(p.visitors, host)
	p.mu.Unlock()
	w.Write([]byte("hello from the internet"))
}

func (p *page) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.visitors)
}

// serveOn serves a page on a side of the lab.
func serveOn(t *testing.T, l *labtest.Lab, side lab.Side, address string) *page {
	t.Helper()
	p := &page{}
	var listener net.Listener
	if err := l.Within(side, func() (err error) { listener, err = net.Listen("tcp", address); return err }); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: p}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return p
}

// A machine on the LAN of a gateway that was set up with one call: it gets an address, names, the time and pages. So does one in another
// network, which does not reach the first.
func TestFirstHour(t *testing.T) {
	t.Parallel()
	l := labtest.Up(t, lab.Options{Volatile: true})
	l.Names(t, lab.Wan, "198.51.100.2:53").Set(t, "www.example.net. 60 IN A 198.51.100.2")
	site := serveOn(t, l, lab.Wan, "198.51.100.2:8099")
	l.Must(t, http.MethodPost, "/setup/complete", map[string]any{
		"admin_email": labtest.AdminEmail, "admin_password": labtest.AdminPassword, "fqdn": "gateway.example.net", "acme_enabled": false, "ipv6_enabled": true,
	}, 200, nil)
	l.Login(t)

	r := &firstRig{Lab: l, script: filepath.Join(t.TempDir(), "newcomer")}
	if err := os.WriteFile(r.script, []byte(newcomer), 0o755); err != nil {
		t.Fatal(err)
	}
	// The resolver on the WAN signs nothing.
	l.Must(t, http.MethodPut, "/dns/settings", map[string]any{"dnssec_validation": false}, 200, nil)
	r.setUp(t, map[string]any{"upstream_forwards": []string{"198.51.100.2"}, "time_servers": []string{"198.51.100.2"}})
	// The configuration of the lab's client is removed: it starts without any.
	l.Run(t, lab.Lan, "ip", "addr", "flush", "dev", "eth0", "scope", "global")
	lan := r.arrives(t, "lan", "10.10.0.1")
	r.uses(t, lan, site)

	// A port for guests, in a zone that is new.
	l.Run(t, lab.Gateway, "ip", "netns", "add", "guest")
	l.Run(t, lab.Gateway, "ip", "link", "add", "guest0", "type", "veth", "peer", "name", "eth0", "netns", "guest")
	l.Run(t, lab.Gateway, "ip", "-n", "guest", "link", "set", "eth0", "up")
	inside := serveOn(t, l, lab.Lan, net.JoinHostPort(lan.given["ip"], "8099"))
	r.setUp(t, map[string]any{"networks": []map[string]any{{
		"name": "guest0", "role": "guest", "addresses": []string{"10.20.0.1/24"}, "dhcp": true, "dns": true, "ntp": true, "internet": true,
	}}})
	guest := r.arrives(t, "guest", "10.20.0.1")
	r.uses(t, guest, site)
	if out, err := r.try(t, guest, "curl", "-sS", "--max-time", "3", "http://"+net.JoinHostPort(lan.given["ip"], "8099")); err == nil {
		t.Errorf("a guest reaches the LAN: %s", out)
	}
	if got := inside.seen(); len(got) > 0 {
		t.Errorf("the LAN saw %v", got)
	}
}

type firstRig struct {
	*labtest.Lab
	script string
}

// visitor is a machine that has joined a network.
type visitor struct {
	namespace string
	given     map[string]string
}

// setUp sets up networks, all of which must be live.
func (r *firstRig) setUp(t *testing.T, body map[string]any) {
	t.Helper()
	a := r.Must(t, http.MethodPost, "/network/setup", body, 200, nil)
	header := a.Header.Get("Gateway-Apply")
	for _, name := range []string{"network", "packet-filter", "dns", "dhcp", "ntp"} {
		if !strings.Contains(header, name+"=live") {
			t.Errorf("%s is not live: %s", name, header)
		}
	}
}

// try runs a command on a machine.
func (r *firstRig) try(t *testing.T, v visitor, argv ...string) (string, error) {
	t.Helper()
	cmd, err := r.Command(t.Context(), lab.Gateway, append([]string{"ip", "netns", "exec", v.namespace}, argv...)...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// arrives has a machine ask for its address. The gateway is its router, its resolver and its clock.
func (r *firstRig) arrives(t *testing.T, namespace, gateway string) visitor {
	t.Helper()
	v := visitor{namespace: namespace}
	// ip netns exec mounts this file over /etc/resolv.conf: the machine has its own.
	own := "/etc/netns/" + namespace
	r.Run(t, lab.Gateway, "sh", "-c", "mkdir -p "+own+" && touch "+own+"/resolv.conf")
	out, err := r.try(t, v, "busybox", "udhcpc", "-i", "eth0", "-f", "-n", "-q", "-t", "20", "-T", "1", "-s", r.script, "-O", "ntpsrv")
	if v.given = parseGiven(out); err != nil || v.given == nil {
		t.Fatalf("no lease in %s: %v: %s", namespace, err, out)
	}
	for _, option := range []string{"router", "dns", "ntpsrv"} {
		if v.given[option] != gateway {
			t.Errorf("%s in %s is %q", option, namespace, v.given[option])
		}
	}
	return v
}

// uses has a machine find a page by its name, and the time.
func (r *firstRig) uses(t *testing.T, v visitor, site *page) {
	t.Helper()
	// A machine retries without an answer, and so does dig; but dig prints that, too.
	waittest.UntilNil(t, "a name in "+v.namespace, func() error {
		out, err := r.try(t, v, "dig", "+short", "+tries=1", "@"+v.given["dns"], "www.example.net")
		if err != nil || out != "198.51.100.2" {
			return fmt.Errorf("%q, %v", out, err)
		}
		return nil
	})
	before := len(site.seen())
	if out, err := r.try(t, v, "curl", "-sS", "--max-time", "20", "http://www.example.net:8099"); err != nil || out != "hello from the internet" {
		t.Errorf("a page in %s: %q, %v", v.namespace, out, err)
	}
	if seen := site.seen()[before:]; !slices.Equal(seen, []string{"198.51.100.1"}) {
		t.Errorf("the internet sees %v instead of the gateway", seen)
	}
	waittest.UntilNil(t, "the time in "+v.namespace, func() error {
		out, err := r.try(t, v, "chronyd", "-Q", "-t", "3", "server "+v.given["ntpsrv"]+" iburst maxsamples 1", "pidfile /run/"+v.namespace+"-chronyd.pid", "cmdport 0", "bindcmdaddress /")
		if err != nil || !strings.Contains(out, "System clock wrong by") {
			return fmt.Errorf("%q, %v", out, err)
		}
		return nil
	})
}
