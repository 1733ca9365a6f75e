package appliance

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// Programs that look at the network are run by a unit that is not root, in the sandbox of the package.
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
	// A capture is no JSON: the audit log and the file say that it was made.
	links := g.sh(t, "ip -br link show up | awk '$1 != \"lo\" {print $1}' | cut -d@ -f1 | head -1")
	captured := make(chan error, 1)
	go func() {
		_, err := g.Do(t.Context(), http.MethodPost, "/diagnostics/capture", fields{"interface": links, "packets": 1, "seconds": 60, "protocol": "icmp"})
		captured <- err
	}()
	poll(t, "tcpdump runs", 30*time.Second, func() bool {
		_, err := g.Run(t.Context(), "sh", "-c", "grep -qx tcpdump /proc/[0-9]*/comm")
		return err == nil
	})
	g.Must(t, http.MethodPost, "/diagnostics/ping", fields{"target": "198.51.100.1"}, 200, nil)
	if err := <-captured; err == nil || !strings.Contains(err.Error(), "\\xd4\\xc3\\xb2\\xa1") {
		t.Errorf("no capture: %v", err)
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
