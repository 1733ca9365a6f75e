package appliance

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab/labtest"
	"edge.internal/gateway/test/node"
)

// reboot reboots GATEWAY_REBOOTS times, by default three. The closed port is closed from the first packet on.
func reboot(t *testing.T, g *appliance) {
	for n := range longtest.Number(t, "GATEWAY_REBOOTS", 3, 3) {
		before := g.state(t)
		g.changeUnconfirmed(t)
		if g.state(t) == before {
			t.Fatal("nothing has changed")
		}
		asked, opened := g.probe(t, 7778, func() { g.restart(t) })
		t.Logf("reboot %d: the closed port was tried %d times", n+1, asked)
		if asked == 0 || opened > 0 {
			t.Fatalf("the closed port was open %d of %d times", opened, asked)
		}
		g.waitUp(t)
		g.Login(t)
		waittest.UntilNil(t, "everything is as it was before the change", func() error {
			if after := g.state(t); after != before {
				return fmt.Errorf("\n%s", udiff.Unified("before", "after", before, after))
			}
			return nil
		})
		g.backAgain(t)
	}
}

// state is all rows, the files that they mean, and what the kernel has.
func (g *appliance) state(t *testing.T) string {
	t.Helper()
	rows, err := g.Do(t.Context(), http.MethodGet, "/configuration", nil, "Accept", "application/json")
	if err != nil || rows.Status != 200 {
		t.Fatalf("%+v %v", rows, err)
	}
	return string(rows.Body) + labtest.Running(func(argv ...string) string {
		out, err := g.Run(t.Context(), argv...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
		return out
	})
}

// changeUnconfirmed closes the open port, and makes other unconfirmed changes to what everyComponentChanges has created: a reboot
// reverts all of them.
func (g *appliance) changeUnconfirmed(t *testing.T) {
	t.Helper()
	id := func(path, name string) string {
		t.Helper()
		var rows []struct{ ID, Name string }
		g.Must(t, http.MethodGet, path, nil, 200, &rows)
		for _, row := range rows {
			if row.Name == name {
				return row.ID
			}
		}
		t.Fatalf("there is no %s in %s", name, path)
		return ""
	}
	create := func(kind string, body fields) fields { return fields{"kind": kind, "verb": "create", "body": body} }
	update := func(kind, id string, body fields) fields {
		return fields{"kind": kind, "verb": "update", "id": id, "body": body}
	}
	g.live(t, http.MethodPost, "/change-sets", fields{"confirm_within": 600, "operations": []fields{
		update("firewall.rule", id("/firewall/rules", "probe"), fields{"action": "drop"}),
		update("network.interface", id("/network-interfaces", "eth1"), fields{"mtu": 1400}),
		create("network.ip-address", fields{"interface_id": id("/network-interfaces", "eth1"), "address": "10.20.7.1", "prefix": 24}),
		create("network.route", fields{"destination": "203.0.113.0/24", "gateway": "10.20.7.9"}),
		create("dns.record", fields{"zone_id": id("/dns/zones", "office.example.net"), "name": "scanner", "type": "A", "value": "10.20.0.8"}),
		create("ntp.pool", fields{"kind": "server", "address": "192.0.2.130"}),
		create("radius.client", fields{"name": "another", "address": "10.20.0.10", "secret": "shared with the other"}),
		create("tunnel.peer", fields{"interface_id": id("/tunnel/interfaces", "wg-office"), "name": "laptop"}),
		{"kind": "dhcp.settings", "verb": "update", "body": fields{"default_lease_seconds": 1200}},
		{"kind": "forward-proxy.settings", "verb": "update", "body": fields{"cache_mb": 123}},
		update("proxy.domain", id("/domains", "www.example.net"), fields{"maintenance": true}),
	}})
	if g.reachable(7777) {
		t.Fatal("the port is not closed")
	}
}

func (g *appliance) backAgain(t *testing.T) {
	t.Helper()
	g.waitUp(t)
	g.Login(t)
	g.allLive(t)
	g.serves(t)
	if body := g.get(t, "www.example.net"); body != origin {
		t.Errorf("HAProxy answers %q", body)
	}
	if !g.reachable(7777) {
		t.Error("the open port is closed")
	}
	if filter, network := g.entered(t, "gateway-firewall.service"), g.entered(t, "network-pre.target"); filter > network {
		t.Errorf("the packet filter came at %s, the network at %s", filter, network)
	}
}

// entered is when a unit became active, since the boot.
func (g *appliance) entered(t *testing.T, unit string) time.Duration {
	t.Helper()
	n, err := strconv.ParseInt(g.sh(t, "systemctl show --property=ActiveEnterTimestampMonotonic --value "+unit), 10, 64)
	if err != nil || n == 0 {
		t.Fatalf("%s never became active: %v", unit, err)
	}
	return time.Duration(n) * time.Microsecond
}

// probe tries to connect to a port all the time while something is done.
func (g *appliance) probe(t *testing.T, port int, do func()) (asked, opened int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			trying, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			conn, err := g.Dial(trying, "tcp", node.Address+":"+strconv.Itoa(port))
			cancel()
			asked++
			if err == nil {
				conn.Close()
				opened++
			}
		}
	})
	do()
	stop()
	done.Wait()
	return asked, opened
}

// Without a database, the last applied configuration is restored after a reboot.
func rebootWithoutDatabase(t *testing.T, g *appliance) {
	// It is stopped first: if it were masked while it runs, it would have no stop command, and delay the reboot by 90 s.
	g.sh(t, "systemctl disable postgresql 2>&1; systemctl stop 'postgresql*'; systemctl mask postgresql postgresql@15-main postgresql@17-main 2>&1")
	asked, opened := g.probe(t, 7778, func() { g.restart(t) })
	if asked == 0 || opened > 0 {
		t.Fatalf("the closed port was open %d of %d times", opened, asked)
	}
	g.serves(t)
	if body := g.get(t, "www.example.net"); body != origin {
		t.Errorf("HAProxy answers %q", body)
	}
	waittest.Until(t, "the API answers without a database", func() bool {
		a, err := g.Do(t.Context(), "GET", "/system/health", nil)
		return err == nil && a.Status == 200 && strings.Contains(string(a.Body), `"away"`)
	})
	g.sh(t, "systemctl unmask postgresql postgresql@15-main postgresql@17-main 2>&1; systemctl enable --now postgresql 2>&1")
	g.backAgain(t)
}
