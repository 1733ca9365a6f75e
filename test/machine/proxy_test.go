package machine

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// gatewayName is the name of the gateway in a lab.
const gatewayName = "gateway.lab.internal"

var proxyTests = []struct {
	name string
	test func(*testing.T, *proxyRig)
}{
	{"PX01WhoAsks", whoAsks},
	{"OneName", oneName},
	{"NoOtherProtocol", noOtherProtocol},
	{"PX03PlainHTTP", plainHTTP},
	{"PX04IPv6AndHTTP3", ipv6AndHTTP3},
	{"PX05Protocols", protocols},
	{"PX05WebSockets", webSockets},
	{"PX05Trailers", trailers},
	{"PX06PX07ServerNames", serverNames},
	{"PX10Routing", routing},
	{"PX12NobodyToAnswer", nobodyToAnswer},
	{"SiteNames", siteNames},
	{"WWWRedirects", wwwRedirects},
	{"ResponseHeaders", responseHeaders},
	{"LargeHeaders", largeHeaders},
	{"HSTS", hsts},
	{"RateLimit", rateLimit},
	{"LargestBody", largestBody},
	{"Maintenance", maintenance},
	{"Balancing", balancing},
	{"ImpactOnSites", impactOnSites},
	{"ChangesWithoutAReload", changesWithoutAReload},
	{"ReloadsLoseNothing", reloadsLoseNothing},
	{"HeadersStayWithTheirNames", headersStayWithTheirNames},
	{"NamesThatDoNotResolve", namesThatDoNotResolve},
	{"UnusableCertificate", unusableCertificate},
	{"AccessLog", accessLog},
	{"LogsOfALab", logsOfALab},
	{"WAFSites", wafSites},
	{"WAFUnderAttack", wafUnderAttack},
	{"ManagementPlane", managementPlane},
	{"SystemActions", systemActions},
	{"PX15RefusedConfiguration", refusedConfiguration},
	{"PX16Statistics", statistics},
}

// TestProxy sends requests from the wan side through the gateway's HAProxy to servers on the lan side.
func TestProxy(t *testing.T) {
	t.Parallel()
	l := labtest.UpAsAdmin(t, lab.Options{Volatile: true})
	p := &proxyRig{rig: &rig{Lab: l, services: map[string]string{}}, backends: map[string]string{}, origins: map[string]*origin{}}
	p.WaitState(t, "reverse-proxy", "live", 20*time.Second)
	// By default, only what keeps operators from locking themselves out is open.
	p.rules(t, fields{"src_zone": "wan", "dst_zone": "self", "service_object_id": p.service(t, "tcp", 80)})
	for n := range clients {
		p.Run(t, lab.Wan, "ip", "address", "add", clientAddress(n)+"/24", "dev", "eth0")
	}
	var operations []operation
	for i, name := range []string{"a", "b", "c", "tls"} {
		o := p.serveHTTP(t, name, originPort+i, name == "tls")
		scheme := "http"
		if name == "tls" {
			scheme = "https"
		}
		backend := create("proxy.backend", fields{"name": name, "scheme": scheme, "health_check_path": "/health", "health_check_interval_seconds": 1})
		operations = append(operations, backend, create("proxy.server", fields{"backend_id": backend.ID, "name": name, "address": lan4, "port": o.port}))
		p.backends[name] = backend.ID
	}
	p.change(t, operations...)
	for _, x := range proxyTests {
		t.Run(x.name, func(t *testing.T) { x.test(t, p) })
	}
}

const (
	// originPort is the first of the ports of the origin servers.
	originPort = 8001
	// clients is how many clients there are on the wan side besides the first.
	clients = 16
)

func clientAddress(n int) string { return fmt.Sprintf("198.51.100.%d", 10+n) }

// proxyRig is the lab with origin servers on the lan side, and a backend for each of them.
type proxyRig struct {
	*rig
	origins  map[string]*origin
	backends map[string]string // ids, by name
	names    int
}

// origin is a server on the lan side that returns what it sees.
type origin struct {
	name   string
	port   int
	server *httptest.Server
	// health is the status of its health.
	health atomic.Int32
	// release lets those go that ask to be held.
	release chan struct{}
	// attacks counts the requests that the web application firewall should have refused.
	attacks atomic.Int64

	mu     sync.Mutex
	checks []seen
}

// seen is a request as an origin saw it.
type seen struct {
	Origin, Method, URI, Host string
	Proto, ALPN, SNI          string
	Header, Trailer           http.Header
	Body                      string
}

// serveHTTP runs an origin on a port of the lan side, until the test ends.
func (p *proxyRig) serveHTTP(t *testing.T, name string, port int, secure bool) *origin {
	t.Helper()
	o := &origin{name: name, port: port, release: make(chan struct{})}
	o.health.Store(200)
	err := p.Within(lab.Lan, func() error {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		o.server = &httptest.Server{Listener: l, EnableHTTP2: true, TLS: &tls.Config{NextProtos: []string{"h2", "http/1.1"}},
			Config: &http.Server{Handler: o, ErrorLog: log.New(io.Discard, "", 0)}} // clients that refuse its certificate are expected
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if secure {
		o.server.StartTLS()
	} else {
		o.server.Start()
	}
	t.Cleanup(o.server.CloseClientConnections)
	p.origins[name] = o
	return o
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// What a header row may replace, add to, or take away.
	w.Header().Set("Server", "origin")
	w.Header().Set("X-Origin", o.name)
	w.Header().Set("Link", "</origin>")
	s := seen{Origin: o.name, Method: r.Method, URI: r.RequestURI, Host: r.Host, Proto: r.Proto, Header: r.Header}
	if r.TLS != nil {
		s.ALPN, s.SNI = r.TLS.NegotiatedProtocol, r.TLS.ServerName
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/health"):
		o.mu.Lock()
		o.checks = append(o.checks, s)
		o.mu.Unlock()
		w.WriteHeader(int(o.health.Load()))
		return
	case strings.Contains(r.URL.RawQuery, url.QueryEscape(sqlAttack)):
		o.attacks.Add(1)
	case r.URL.Path == "/echo":
		o.echo(w, r)
		return
	case r.URL.Path == "/hold":
		<-o.release
	case r.URL.Path == "/large":
		n, _ := strconv.Atoi(r.URL.RawQuery)
		_, _ = w.Write(bytes.Repeat([]byte("b"), n))
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.Body, s.Trailer = string(body), r.Trailer
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s)
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
}

// echo returns what arrives through a WebSocket.
func (o *origin) echo(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for {
		kind, message, err := conn.Read(r.Context())
		if err != nil || conn.Write(r.Context(), kind, message) != nil {
			return
		}
	}
}

// checked are the health checks that an origin has seen for a host.
func (o *origin) checked(host string) (list []seen) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.checks {
		if s.Host == host {
			list = append(list, s)
		}
	}
	return list
}

// ask is a request of a client on the wan side.
type ask struct {
	url     string
	method  string // GET when empty
	header  http.Header
	trailer http.Header
	body    io.Reader
	h2, v6  bool
	from    string // one of the client's addresses
}

// reply is the client's response, and what the origin saw, if the request reached one.
type reply struct {
	*http.Response
	body string
	seen
}

// transport connects to the gateway, whatever name is requested.
func (p *proxyRig) transport(a ask) *http.Transport {
	transport := &http.Transport{
		Protocols: new(http.Protocols), DisableCompression: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // which certificate is shown is not the question here
		DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			d := &net.Dialer{}
			if a.from != "" {
				d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(a.from)}
			}
			gateway := gwWan4
			if a.v6 {
				gateway = gwWan6
			}
			within := p.Within(lab.Wan, func() error {
				conn, err = d.DialContext(ctx, network, net.JoinHostPort(gateway, port))
				return nil
			})
			if within != nil {
				return nil, within
			}
			return conn, err
		},
	}
	transport.Protocols.SetHTTP1(!a.h2)
	transport.Protocols.SetHTTP2(a.h2)
	return transport
}

// try makes a request on a new connection.
func (p *proxyRig) try(ctx context.Context, a ask) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, a.method, a.url, a.body)
	if err != nil {
		return reply{}, err
	}
	for name, values := range a.header {
		req.Header[name] = values
		if name == "Host" {
			req.Host = values[0]
		}
	}
	req.Trailer = a.trailer
	transport := p.transport(a)
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}, err
	}
	got := reply{Response: res, body: string(body)}
	if res.Header.Get("Content-Type") == "application/json" {
		err = json.Unmarshal(body, &got.seen)
	}
	return got, err
}

// send makes a request that must be answered.
func (p *proxyRig) send(t *testing.T, a ask) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := p.try(ctx, a)
	if err != nil {
		t.Fatalf("%s %s: %v", a.method, a.url, err)
	}
	return got
}

// get requests a URL.
func (p *proxyRig) get(t *testing.T, url string) reply {
	t.Helper()
	return p.send(t, ask{url: url})
}

// from checks that an origin has answered.
func (r reply) from(t *testing.T, origin string) reply {
	t.Helper()
	if r.StatusCode != 200 || r.Origin != origin {
		t.Errorf("%s: %s from %q instead of %s: %s", r.Request.URL, r.Status, r.Origin, origin, r.body)
	}
	return r
}

// want checks the status.
func (r reply) want(t *testing.T, status int) reply {
	t.Helper()
	if r.StatusCode != status {
		t.Errorf("%s: %s instead of %d: %s", r.Request.URL, r.Status, status, r.body)
	}
	return r
}

// leads checks a redirect.
func (r reply) leads(t *testing.T, status int, location string) {
	t.Helper()
	if r.StatusCode != status || r.Response.Header.Get("Location") != location {
		t.Errorf("%s: %s to %q instead of %d to %s", r.Request.URL, r.Status, r.Response.Header.Get("Location"), status, location)
	}
}

// live makes a change that must be live when it is answered, and returns the row's id.
func (p *proxyRig) live(t *testing.T, method, path string, body any) string {
	t.Helper()
	a, err := p.Do(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	// The settings of the web application firewall are for its agent and for the intrusion detection, too.
	if applied := a.Header.Get("Gateway-Apply"); a.Status > 299 || applied != "reverse-proxy=live" && applied != "ids=live, reverse-proxy=live, waf=live" {
		t.Fatalf("%s %s: %d, %q: %s", method, path, a.Status, a.Header.Get("Gateway-Apply"), a.Body)
	}
	var row struct{ ID string }
	if len(a.Data) > 0 && a.Data[0] == '{' {
		if err := json.Unmarshal(a.Data, &row); err != nil {
			t.Fatal(err)
		}
	}
	return row.ID
}

// with is a row with some fields more.
func with(body fields, more ...fields) fields {
	for _, m := range more {
		for name, v := range m {
			body[name] = v
		}
	}
	return body
}

// name is a name that no site has yet.
func (p *proxyRig) name() string {
	p.names++
	return fmt.Sprintf("site%d.example.net", p.names)
}

// site creates a domain with a backend.
func (p *proxyRig) site(t *testing.T, backend string, more ...fields) (name, path string) {
	t.Helper()
	body := with(fields{"name": p.name(), "backend_id": p.backends[backend]}, more...)
	return body["name"].(string), "/domains/" + p.live(t, http.MethodPost, "/domains", body)
}

// backend creates a backend without checks, and its servers.
func (p *proxyRig) backend(t *testing.T, more fields, servers ...fields) (id string) {
	t.Helper()
	p.names++
	row := create("proxy.backend", with(fields{"name": fmt.Sprintf("backend %d", p.names), "health_check_enabled": false}, more))
	operations := []operation{row}
	for n, s := range servers {
		operations = append(operations, create("proxy.server", with(fields{"backend_id": row.ID, "name": fmt.Sprintf("s%d", n), "address": lan4}, s)))
	}
	p.change(t, operations...)
	p.backends[row.ID] = row.ID
	return row.ID
}

// to is a server that is an origin.
func (p *proxyRig) to(origin string, more ...fields) fields {
	return with(fields{"port": p.origins[origin].port}, more...)
}

type proxyStatus struct {
	Version        string
	HTTP3          bool
	HTTP3Why       string `json:"http3_why"`
	Management     string
	Reloads        int64
	RuntimeChanges int64 `json:"runtime_changes"`
	OldWorkers     int   `json:"old_workers"`
	Error          string
}

func (p *proxyRig) status(t *testing.T) (s proxyStatus) {
	t.Helper()
	p.Must(t, http.MethodGet, "/proxy/status", nil, 200, &s)
	return s
}

// followed waits until the files contain what HAProxy was told at run time.
func (p *proxyRig) followed(t *testing.T) {
	t.Helper()
	waittest.UntilNil(t, "the files have followed", func() error {
		var preview struct{ Diff string }
		if p.Must(t, http.MethodGet, "/system/config-preview?generator=reverse-proxy", nil, 200, &preview); preview.Diff != "" {
			return errors.New(preview.Diff)
		}
		return nil
	})
}

// converge makes the gateway compare HAProxy with what is stored, and remove what is no longer used.
func (p *proxyRig) converge(t *testing.T) {
	t.Helper()
	p.followed(t)
	p.live(t, http.MethodPost, "/system/ipv6", fields{"enabled": true}) // no change
}

// reloads checks that something causes this number of reloads, at once and when everything is compared again.
func (p *proxyRig) reloads(t *testing.T, what string, want int64, do func()) {
	t.Helper()
	was := p.status(t)
	do()
	at := p.status(t).Reloads - was.Reloads
	p.converge(t)
	if after := p.status(t).Reloads - was.Reloads; at != want || after != want {
		t.Errorf("%s: %d reloads, and %d in the end, instead of %d", what, at, after, want)
	}
}

// machine is the gateway as its programs see it.
func (p *proxyRig) machine(t *testing.T) *machine.Machine {
	t.Helper()
	m, err := machine.New(machine.Options{Root: strings.TrimSuffix(p.Path("/"), "/"), Units: p.Units()})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// config is HAProxy's installed configuration.
func (p *proxyRig) config(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(p.Path("/etc/haproxy/gateway/haproxy.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// section is a part of the configuration, from the line that names it to the next.
func section(config, name string) string {
	_, rest, _ := strings.Cut(config, "\n"+name+"\n")
	var lines []string
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, " ") {
			break
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

// files are all files of HAProxy, by path.
func (p *proxyRig) files(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for path := range strings.Lines(p.Run(t, lab.Gateway, "find", "/etc/haproxy/gateway", "-type", "f")) {
		content, err := os.ReadFile(p.Path(strings.TrimSpace(path)))
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSpace(path)] = string(content)
	}
	return files
}

type backendStats struct {
	Name, Server, Status string
	BackendID            string `json:"backend_id"`
	CheckStatus          string `json:"check_status"`
	CheckDetail          string `json:"check_detail"`
	ReqTot               int64  `json:"req_tot"`
	Sessions, Weight     int64
}

type proxyStats struct {
	Backends  []backendStats
	Frontends []struct {
		Name   string
		ReqTot int64 `json:"req_tot"`
	}
	Error string
}

func (p *proxyRig) stats(t *testing.T) (s proxyStats) {
	t.Helper()
	p.Must(t, http.MethodGet, "/proxy/stats", nil, 200, &s)
	return s
}

// of is a server of a backend, or BACKEND.
func (s proxyStats) of(t *testing.T, backend, server string) backendStats {
	t.Helper()
	n := slices.IndexFunc(s.Backends, func(b backendStats) bool { return b.BackendID == backend && b.Server == server })
	if n < 0 {
		t.Fatalf("no %s of %s: %+v", server, backend, s)
	}
	return s.Backends[n]
}

// audited checks the subject of the newest entry of an action.
func (p *proxyRig) audited(t *testing.T, action, about string) {
	t.Helper()
	var entries []struct {
		Action, Subject string
		Details         json.RawMessage
	}
	p.Must(t, http.MethodGet, "/audit?limit=1&action="+action, nil, 200, &entries)
	if len(entries) != 1 || !bytes.Contains(append([]byte(entries[0].Subject+" "), entries[0].Details...), []byte(about)) {
		t.Errorf("%s is not audited with %s: %+v", action, about, entries)
	}
}
