package appliance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab/labtest"
)

// Diagnostic programs are run by a unit without root, in the sandbox of the package.
func diagnostics(t *testing.T, g *appliance) {
	for _, x := range []struct {
		tool   string
		body   fields
		prints string
		status int
	}{
		{"ping", fields{"target": "127.0.0.1"}, "4 received, 0% packet loss", 0},
		{"ping", fields{"target": "198.51.100.1"}, "4 received, 0% packet loss", 0},
		{"traceroute", fields{"target": "198.51.100.1"}, " 1  198.51.100.1 ", 0},
		{"dig", fields{"target": "localhost", "server": "127.0.0.1"}, "127.0.0.1", 0},
		{"curl", fields{"target": "http://198.51.100.1:8080/"}, "\n< HTTP/1.1 200", 0},
		{"tcp", fields{"target": "198.51.100.1:8080"}, "Connected to 198.51.100.1:8080", 0},
	} {
		var got struct {
			Output     string
			ExitStatus int `json:"exit_status"`
		}
		g.Must(t, http.MethodPost, "/diagnostics/"+x.tool, x.body, 200, &got)
		if !strings.Contains(got.Output, x.prints) || got.ExitStatus != x.status {
			t.Errorf("%s %v: %+v", x.tool, x.body, got)
		}
	}
	status := g.sh(t, "cat /proc/"+g.pid(t, "gateway-probe")+"/status")
	for _, want := range []string{"CapPrm:\t0000000000002000", "CapBnd:\t0000000000002000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(status, want) {
			t.Errorf("gateway-probe has no %q:\n%s", want, status)
		}
	}
	if strings.Contains(status, "Uid:\t0") {
		t.Errorf("gateway-probe is root:\n%s", status)
	}
	var login struct{ Token string }
	g.Must(t, http.MethodPost, "/auth/login", fields{"email": labtest.AdminEmail, "password": labtest.AdminPassword, "issue_token": true}, 200, &login)
	link := g.sh(t, "ip -br link show up | awk '$1 != \"lo\" {print $1}' | cut -d@ -f1 | head -1")
	captured := make(chan error, 1)
	go func() {
		out, err := g.Run(t.Context(), "curl", "-sSkf", "-o", "/srv/x.pcap", "-H", "Authorization: Bearer "+login.Token, "-H", "Content-Type: application/json", "-d", `{"interface":"`+link+`","protocol":"icmp","packets":1,"seconds":60}`,
			"https://127.0.0.1:3443/api/v1/diagnostics/capture")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		captured <- err
	}()
	waittest.UntilNil(t, "tcpdump runs", func() error {
		_, err := g.Run(t.Context(), "sh", "-c", "grep -qx tcpdump /proc/[0-9]*/comm")
		return err
	})
	g.Must(t, http.MethodPost, "/diagnostics/ping", fields{"target": "198.51.100.1"}, 200, nil)
	if err := <-captured; err != nil {
		t.Error(err)
	}
	if out := g.sh(t, "tcpdump -nr /srv/x.pcap 2>&1"); !strings.Contains(out, "> 198.51.100.1: ICMP echo request") {
		t.Errorf("no packet in the capture: %s", out)
	}
	var page struct {
		Total int
		Error string
	}
	g.Must(t, http.MethodGet, "/diagnostics/connections", nil, 200, &page)
	if page.Error != "" || page.Total == 0 {
		t.Errorf("%+v", page)
	}
}
