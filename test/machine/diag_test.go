package machine

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// diagRig is a lab for diagnostics.
type diagRig struct {
	*labtest.Lab
	token string
}

// toolResult is what a tool found.
type toolResult struct {
	Output     string
	ExitStatus int   `json:"exit_status"`
	DurationMS int64 `json:"duration_ms"`
}

// TestDiagnostics runs the real programs through the front door.
func TestDiagnostics(t *testing.T) {
	t.Parallel()
	l := labtest.UpAsAdmin(t, lab.Options{Volatile: true})
	for _, component := range []string{"dns", "packet-filter", "reverse-proxy"} {
		l.WaitState(t, component, "live", 20*time.Second)
	}
	var login struct{ Token string }
	l.Must(t, http.MethodPost, "/auth/login", fields{"email": labtest.AdminEmail, "password": labtest.AdminPassword, "issue_token": true}, 200, &login)
	r := diagRig{l, login.Token}
	t.Run("DG01ToolsAnswer", func(t *testing.T) { diagTools(t, r) })
	t.Run("DG02BadTargets", func(t *testing.T) { diagTargets(t, r) })
	t.Run("DG04NoRedirects", func(t *testing.T) { diagRedirects(t, r) })
	t.Run("OutputIsFollowedUntilTheHangUp", func(t *testing.T) { diagFollowed(t, r) })
	t.Run("Capture", func(t *testing.T) { diagCapture(t, r) })
	t.Run("CaptureEndsWithItsCaller", func(t *testing.T) { diagCaptureHangUp(t, r) })
	t.Run("Connections", func(t *testing.T) { diagConnections(t, r) })
	t.Run("Paths", func(t *testing.T) { diagPaths(t, r) })
}

func diagTools(t *testing.T, r diagRig) {
	var zone struct{ ID string }
	r.Must(t, http.MethodPost, "/dns/zones", fields{"name": "corp.example.net"}, 201, &zone)
	r.Must(t, http.MethodPost, "/dns/records", fields{"zone_id": zone.ID, "name": "printer", "type": "A", "value": "10.10.0.77"}, 201, nil)
	r.WaitState(t, "dns", "live", 20*time.Second)
	var all sync.WaitGroup
	for _, x := range []struct {
		tool   string
		body   fields
		prints string
		status int
	}{
		{"ping", fields{"target": "127.0.0.1"}, "4 received, 0% packet loss", 0},
		{"ping", fields{"target": "::1"}, "4 received, 0% packet loss", 0},
		{"ping", fields{"target": "wan.lab.internal"}, "4 received, 0% packet loss", 0},
		{"traceroute", fields{"target": "198.51.100.2"}, " 1  198.51.100.2 ", 0},
		{"dig", fields{"target": "printer.corp.example.net", "type": "A", "server": "127.0.0.1"}, "10.10.0.77", 0},
		{"dig", fields{"target": "127.0.0.1", "type": "PTR", "server": "127.0.0.1"}, "localhost.", 0},
		{"curl", fields{"target": "http://127.0.0.1/"}, "\n< HTTP/1.1 ", 0},
		{"curl", fields{"target": "https://127.0.0.1:3443/"}, "self", 60},
		{"tcp", fields{"target": "127.0.0.1:3443"}, "Connected to 127.0.0.1:3443", 0},
		{"tcp", fields{"target": "::1", "port": 3443}, "Connected to [::1]:3443", 0},
		{"tcp", fields{"target": "127.0.0.1:9"}, "the connection is refused", 1},
	} {
		run := func() {
			var got toolResult
			a, err := r.Do(t.Context(), http.MethodPost, "/diagnostics/"+x.tool, x.body)
			if err == nil {
				err = json.Unmarshal(a.Data, &got)
			}
			if err != nil || !strings.Contains(got.Output, x.prints) || got.ExitStatus != x.status || got.DurationMS <= 0 {
				t.Errorf("%s %v: %+v, %v", x.tool, x.body, a, err)
			}
		}
		if x.tool == "ping" { // which takes three seconds each time
			all.Go(run)
		} else {
			run()
		}
	}
	all.Wait()
	var entries []struct{ Action, Subject string }
	r.Must(t, http.MethodGet, "/audit?action=diagnostics.ping", nil, 200, &entries)
	if len(entries) != 3 || !slices.ContainsFunc(entries, func(e struct{ Action, Subject string }) bool { return e.Subject == "wan.lab.internal" }) {
		t.Errorf("%+v", entries)
	}
	r.Must(t, http.MethodPost, "/users", fields{"email": "viewer@example.net", "role": "viewer", "password": labtest.AdminPassword}, 201, nil)
	viewer := labtest.NewBrowser(t, r.URL(), nil)
	viewer.Must(t, http.MethodPost, "/auth/login", fields{"email": "viewer@example.net", "password": labtest.AdminPassword}, 200, nil)
	for _, tool := range []string{"ping", "traceroute", "dig", "curl", "tcp", "capture", "path"} {
		viewer.Must(t, http.MethodPost, "/diagnostics/"+tool, fields{"target": "127.0.0.1"}, 403, nil)
	}
	viewer.Must(t, http.MethodGet, "/diagnostics/connections", nil, 200, nil)
}

func diagTargets(t *testing.T, r diagRig) {
	for _, tool := range []string{"ping", "traceroute", "dig", "curl", "tcp"} {
		for _, bad := range []string{"a;id", "a$PATH", "a`id`", "a b", "a\nb", "a%0a", "a@b", "-f", "--version", ""} {
			r.Must(t, http.MethodPost, "/diagnostics/"+tool, fields{"target": bad}, 400, nil)
		}
	}
	for _, kind := range []string{"AXFR", "ANY"} {
		r.Must(t, http.MethodPost, "/diagnostics/dig", fields{"target": "corp.example.net", "type": kind}, 400, nil)
	}
	for _, kind := range []string{"A", "AAAA", "CNAME", "MX", "TXT", "NS", "SOA", "PTR", "SRV", "CAA"} {
		var got toolResult
		r.Must(t, http.MethodPost, "/diagnostics/dig", fields{"target": "printer.corp.example.net", "type": kind, "server": "127.0.0.1"}, 200, &got)
		if got.ExitStatus != 0 || !strings.Contains(got.Output, "IN\t"+kind+"\n") {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	for _, bad := range []string{"file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1:3443/x"} {
		r.Must(t, http.MethodPost, "/diagnostics/curl", fields{"target": bad}, 400, nil)
	}
}

// background runs a program on a side until the test ends.
func (r diagRig) background(t *testing.T, side lab.Side, argv ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd, err := r.Command(ctx, side, argv...)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
}

// redirector redirects its clients to its argument.
const redirector = `
import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(302); self.send_header("Location", sys.argv[1]); self.send_header("Content-Length", "0"); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), H).serve_forever()`

func diagRedirects(t *testing.T, r diagRig) {
	for port, target := range map[string]string{"8101": "file:///etc/passwd", "8102": "gopher://127.0.0.1:8101/x"} {
		r.background(t, lab.Gateway, "python3", "-c", redirector, target, port)
		var got toolResult
		waittest.Until(t, "the redirector answers", func() bool {
			r.Must(t, http.MethodPost, "/diagnostics/curl", fields{"target": "http://127.0.0.1:" + port}, 200, &got)
			return got.ExitStatus != 7
		})
		if got.ExitStatus != 0 || !strings.Contains(got.Output, "< Location: "+target) || !strings.Contains(got.Output, "status 302, 0 bytes") || strings.Contains(got.Output, "root:") {
			t.Errorf("%s: %+v", target, got)
		}
	}
}

// secure accepts the gateway's certificate without verification.
var secure = &tls.Config{InsecureSkipVerify: true}

// begin sends a long request on a separate connection.
func (r diagRig) begin(ctx context.Context, path string, body fields) (*http.Response, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL()+"/api/v1"+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	return (&http.Client{Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}).Do(req)
}

// runs reports whether the gateway runs a program with the given arguments.
func (r diagRig) runs(t *testing.T, words string) bool {
	t.Helper()
	cmd, err := r.Command(t.Context(), lab.Gateway, "pgrep", "-f", "--", words)
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Run() == nil
}

func diagFollowed(t *testing.T, r diagRig) {
	run := uuid.NewString()
	conn, _, err := websocket.Dial(t.Context(), strings.Replace(r.URL(), "http", "ws", 1)+"/api/v1/diagnostics/live?run="+run, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + r.token}}, HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: secure}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	status := make(chan int, 1)
	go func() {
		res, err := r.begin(t.Context(), "/diagnostics/ping", fields{"target": "10.10.0.2", "run": run})
		if err != nil {
			t.Error(err)
			status <- 0
			return
		}
		defer res.Body.Close()
		status <- res.StatusCode
	}()
	for said := ""; !strings.Contains(said, "icmp_seq=1"); {
		_, frame, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var event struct {
			Output string
			Over   bool
		}
		if err := json.Unmarshal(frame, &event); err != nil || event.Over {
			t.Fatalf("%s, %v", frame, err)
		}
		said += event.Output
	}
	conn.CloseNow()
	// It did not live to the end: that would have been answered 200.
	if s := <-status; s != 503 {
		t.Errorf("the run that was not followed any more is answered %d", s)
	}
	waittest.Until(t, "ping has ended", func() bool { return !r.runs(t, "/usr/bin/ping") })
}

func diagCapture(t *testing.T, r diagRig) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.background(t, lab.Lan, "ping", "-i", "0.2", "-s", "100", "10.10.0.1")
	r.background(t, lab.Wan, "ping", "-i", "0.2", "198.51.100.1")
	res, err := r.begin(ctx, "/diagnostics/capture", fields{"interface": "lan0", "protocol": "icmp", "host": "10.10.0.0/24", "packets": 4, "seconds": 60})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	file, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%s, %v: %s", res.Status, err, file)
	}
	n := 0
	for rest := file[24:]; len(rest) > 0; n++ {
		size := int(binary.NativeEndian.Uint32(rest[8:]))
		packet := rest[16 : 16+size]
		// Ethernet, IPv4, ICMP; between the gateway and the lan.
		if packet[12] != 8 || packet[23] != 1 || !bytes.Equal(packet[26:29], []byte{10, 10, 0}) || size != 14+20+8+100 {
			t.Errorf("a packet that was not asked for: %x", packet)
		}
		rest = rest[16+size:]
	}
	if n != 4 {
		t.Errorf("%d packets", n)
	}
	r.Must(t, http.MethodPost, "/diagnostics/capture", fields{"interface": "nope0"}, 400, nil)
}

func diagCaptureHangUp(t *testing.T, r diagRig) {
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	ended := make(chan error, 1)
	go func() {
		// Nothing is captured, so that only the connection shows that the client has closed it.
		res, err := r.begin(ctx, "/diagnostics/capture", fields{"interface": "lan0", "host": "192.0.2.99", "seconds": 300})
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		ended <- err
	}()
	waittest.Until(t, "tcpdump runs", func() bool { return r.runs(t, "tcpdump -i lan0") })
	r.Must(t, http.MethodPost, "/diagnostics/capture", fields{"interface": "lan0"}, 409, nil)
	// With one capability, and as a user who owns nothing.
	about := r.Run(t, lab.Gateway, "sh", "-c", "cat /proc/$(pgrep -f '/usr/bin/[t]cpdump')/status")
	for _, want := range []string{"Uid:\t65534\t65534\t65534\t65534", "CapEff:\t0000000000002000", "CapPrm:\t0000000000002000"} {
		if !strings.Contains(about, want) {
			t.Errorf("tcpdump has no %q:\n%s", want, about)
		}
	}
	hangUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	waittest.Until(t, "tcpdump has ended", func() bool { return !r.runs(t, "tcpdump -i lan0") })
}

// keeper accepts connections and keeps them.
const keeper = `
import socket, sys, time
s = socket.create_server(("", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
kept = []
while True: kept.append(s.accept())`

// caller connects once it can, and stays.
const caller = `
import socket, sys, time
while True:
    try:
        c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
time.sleep(10000)`

type tracked struct {
	ID, Protocol, State, Source, Destination string
	DestinationPort                          int `json:"destination_port"`
}

func diagConnections(t *testing.T, r diagRig) {
	r.background(t, lab.Wan, "python3", "-c", keeper, "7010")
	r.background(t, lab.Lan, "python3", "-c", caller, "198.51.100.2", "7010")
	var page struct {
		Connections []tracked
		Total       int
		Error       string
	}
	const query = "/diagnostics/connections?source=10.10.0.2&destination=198.51.100.2&port=7010&protocol=tcp&state=established"
	waittest.Until(t, "the connection is listed", func() bool {
		r.Must(t, http.MethodGet, query, nil, 200, &page)
		return len(page.Connections) > 0
	})
	c := page.Connections[0]
	if c.Protocol != "tcp" || c.State != "established" || c.Source != "10.10.0.2" || c.Destination != "198.51.100.2" || c.DestinationPort != 7010 || page.Total < 1 || page.Error != "" {
		t.Errorf("%+v", page)
	}
	for _, c := range page.Connections {
		r.Must(t, http.MethodDelete, "/diagnostics/connections/"+c.ID, nil, 200, nil)
		r.Must(t, http.MethodDelete, "/diagnostics/connections/"+c.ID, nil, 404, nil)
	}
	r.Must(t, http.MethodGet, query, nil, 200, &page)
	if len(page.Connections) != 0 {
		t.Errorf("%+v", page)
	}
	var entries []struct{ Subject string }
	r.Must(t, http.MethodGet, "/audit?action=diagnostics.connection.delete", nil, 200, &entries)
	if len(entries) == 0 || !strings.Contains(entries[0].Subject, "tcp 10.10.0.2:") {
		t.Errorf("%+v", entries)
	}
}

func diagPaths(t *testing.T, r diagRig) {
	r.background(t, lab.Wan, "python3", "-c", keeper, "7011")
	type step struct{ Kind, Status, Text, Advice string }
	var path struct {
		Reaches   bool
		StoppedAt string `json:"stopped_at"`
		Summary   string
		Advice    string
		Steps     []step
	}
	waittest.Until(t, "the wan takes connections", func() bool {
		r.Must(t, http.MethodPost, "/diagnostics/path", fields{"destination": "198.51.100.2", "port": 7011}, 200, &path)
		return path.Reaches
	})
	r.Must(t, http.MethodPost, "/nat-rules", fields{"name": "out", "kind": "masquerade", "out_zone": "wan"}, 201, nil)
	r.Must(t, http.MethodPost, "/nat-rules", fields{"name": "in", "kind": "dnat", "in_zone": "wan", "protocol": "tcp", "dst_port": 7012, "target_address": "10.10.0.2", "target_port": 7013}, 201, nil)
	r.WaitState(t, "packet-filter", "live", 20*time.Second)
	for _, x := range []struct {
		name    string
		body    fields
		stopped string
		says    string
		kinds   string
	}{
		{"through the gateway", fields{"source_zone": "lan", "destination": "wan.lab.internal", "port": 7011}, "", "Nothing stops", "name source route filter nat connect"},
		{"of the gateway", fields{"destination": "198.51.100.2", "port": 7011}, "", "Nothing stops", "route filter connect"},
		{"to a name that is none", fields{"source_zone": "lan", "destination": "no.example", "port": 443}, "name", "no.example has no address", "name"},
		{"from the wan to the lan", fields{"source": "198.51.100.2", "destination": "10.10.0.2", "port": 22}, "filter", "The firewall stops it", "source route filter"},
		{"through a redirection to what does not listen", fields{"source_zone": "wan", "destination": "198.51.100.1", "port": 7012}, "connect", "the connection is refused", "source nat route filter connect"},
		{"to what does not listen", fields{"source": "10.10.0.2", "destination": "198.51.100.2", "port": 9}, "connect", "the connection is refused", "source route filter nat connect"},
		{"without a route", fields{"source_zone": "lan", "destination": "203.0.113.9", "port": 80}, "route", "no route to 203.0.113.9", "source route"},
		{"to a service of the gateway", fields{"source_zone": "lan", "destination": "10.10.0.1", "port": 3443}, "", "check one step", "source route filter connect certificate"},
		{"an echo request", fields{"source_zone": "lan", "destination": "198.51.100.2", "protocol": "icmp"}, "", "Nothing stops", "source route filter nat connect"},
	} {
		r.Must(t, http.MethodPost, "/diagnostics/path", x.body, 200, &path)
		kinds := make([]string, len(path.Steps))
		for i, s := range path.Steps {
			kinds[i] = s.Kind
		}
		if path.StoppedAt != x.stopped || path.Reaches != (x.stopped == "") || !strings.Contains(path.Summary, x.says) || strings.Join(kinds, " ") != x.kinds || (path.Advice == "") != (x.says == "Nothing stops") {
			t.Errorf("%s: %+v", x.name, path)
		}
	}
	r.Must(t, http.MethodPost, "/diagnostics/path", fields{"destination": "198.51.100.2"}, 400, nil)
	r.Must(t, http.MethodPost, "/diagnostics/path", fields{"destination": "198.51.100.2", "protocol": "icmp", "port": 1}, 400, nil)
	r.Must(t, http.MethodPost, "/diagnostics/path", fields{"source": "::1", "destination": "198.51.100.2", "port": 80}, 400, nil)
	// Without the NAT rule, the result names what is missing.
	var rules []struct{ ID, Name string }
	r.Must(t, http.MethodGet, "/nat-rules", nil, 200, &rules)
	for _, rule := range rules {
		r.Must(t, http.MethodDelete, "/nat-rules/"+rule.ID, nil, 200, nil)
	}
	r.Must(t, http.MethodPost, "/diagnostics/path", fields{"source_zone": "lan", "destination": "198.51.100.2", "port": 7011}, 200, &path)
	if i := slices.IndexFunc(path.Steps, func(s step) bool { return s.Kind == "nat" }); !path.Reaches || i < 0 || path.Steps[i].Status != "warning" || !strings.Contains(path.Advice, "masquerade rule for zone wan") {
		t.Errorf("%+v", path)
	}
}
