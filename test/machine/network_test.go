package machine

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// The lab's interfaces are declared as by an operator, and additions reach the kernel
// with the gateway's mark.
func linksAreDeclared(t *testing.T, l *labtest.Lab) {
	l.WaitState(t, "network", "live", 10*time.Second)
	var interfaces []struct{ ID, Name, Role string }
	l.Must(t, http.MethodGet, "/network-interfaces", nil, 200, &interfaces)
	if len(interfaces) != 2 || interfaces[0].Name+interfaces[0].Role+interfaces[1].Name+interfaces[1].Role != "lan0lanwan0wan" {
		t.Fatalf("%+v", interfaces)
	}
	var addresses []struct{ Address string }
	if l.Must(t, http.MethodGet, "/ip-addresses", nil, 200, &addresses); len(addresses) != 4 {
		t.Fatalf("%+v", addresses)
	}
	var entries []struct{ Actor, Action string }
	l.Must(t, http.MethodGet, "/audit?action=network.interface.create", nil, 200, &entries)
	if len(entries) != 2 || entries[0].Actor != labtest.AdminEmail {
		t.Fatalf("%+v", entries)
	}
	var row struct{ ID string }
	a := l.Must(t, http.MethodPost, "/routes", map[string]any{"destination": "203.0.113.0/24", "gateway": "198.51.100.2"}, 201, &row)
	if a.Header.Get("Gateway-Apply") != "network=live" {
		t.Fatal(a.Header)
	}
	if out := l.Run(t, lab.Gateway, "ip", "route", "show", "203.0.113.0/24"); !strings.Contains(out, "via 198.51.100.2 dev wan0 proto gateway") {
		t.Fatal(out)
	}
	l.Must(t, http.MethodDelete, "/routes/"+row.ID, nil, 200, nil)
	if out := l.Run(t, lab.Gateway, "ip", "route", "show", "203.0.113.0/24"); out != "" {
		t.Fatal(out)
	}
}

// The rules that the lab adds let the lan side reach the wan side, behind the gateway's own address, and not the other way.
func lanReachesTheWan(t *testing.T, l *labtest.Lab) {
	l.WaitState(t, "packet-filter", "live", 10*time.Second)
	if !asks(t, l, "198.51.100.2", "3") {
		t.Fatal("the lan does not reach the time server of the wan")
	}
	// Nothing listens there: if the packet passes, the connection is refused at once, otherwise it times out.
	cmd, err := l.Command(t.Context(), lab.Wan, "timeout", "1", "bash", "-c", "</dev/tcp/10.10.0.2/9")
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 124 {
		t.Fatalf("the wan reaches the lan: %s", out)
	}
}
