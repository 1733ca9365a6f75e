package appliance

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/test/node"
)

// reboot reboots as often as GATEWAY_REBOOTS says, or three times. From the first packet on the closed port is closed.
func reboot(t *testing.T, g *appliance) {
	times, err := strconv.Atoi(os.Getenv("GATEWAY_REBOOTS"))
	if err != nil {
		times = 3
	}
	for n := range times {
		g.closeUnconfirmed(t)
		asked, opened := g.probe(t, 7778, func() { g.restart(t) })
		t.Logf("reboot %d: the closed port was tried %d times", n+1, asked)
		if asked == 0 || opened > 0 {
			t.Fatalf("the closed port was open %d of %d times", opened, asked)
		}
		g.backAgain(t)
	}
}

// closeUnconfirmed closes the open port with a change that is not confirmed: a machine that boots has the port open again.
func (g *appliance) closeUnconfirmed(t *testing.T) {
	t.Helper()
	var rules []struct{ ID, Name string }
	g.Must(t, http.MethodGet, "/firewall/rules", nil, 200, &rules)
	i := slices.IndexFunc(rules, func(r struct{ ID, Name string }) bool { return r.Name == "probe" })
	a, err := g.Do(t.Context(), http.MethodPut, "/firewall/rules/"+rules[i].ID, fields{"action": "drop"}, "Gateway-Confirm-Within", "600")
	if err != nil || a.Status != 200 || g.reachable(7777) {
		t.Fatalf("the port is not closed: %+v %v", a, err)
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

// Without a database, what was last applied is there after a reboot.
func rebootWithoutDatabase(t *testing.T, g *appliance) {
	// It is stopped first: masked while it runs, it would have no command to stop it, and hold up the reboot for 90 s.
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
