package machine

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"edge.internal/gateway/internal/kit/host/daemon/haproxy/proxytest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
)

// TestHTTP3 has an HAProxy that speaks HTTP/3, which is also another version than the machine's: what must hold there holds
// here too.
func TestHTTP3(t *testing.T) {
	t.Parallel()
	e := newEdge(t, lab.Options{Volatile: true, HAProxy: proxytest.Next(t)})
	l := newTraffic(t, e)
	if s := e.status(t); !strings.HasPrefix(s.Version, "3.") || !s.HTTP3 || s.HTTP3Why != "" || s.Error != "" {
		t.Fatalf("%+v", s)
	}
	for _, x := range []struct {
		name string
		test func(*testing.T, *edge, *traffic)
	}{
		{"Get", http3Get},
		{"ServerMovesUnderARequest", serverMoves},
		{"PX04AltSvc", http3AltSvc},
		{"PX04BindsByFlag", http3Binds},
		{"Behaviour", http3Behaviour},
		{"ChangesAtRunTime", http3Changes},
		{"Certificates", http3Certificates},
		{"ReloadUnderLoad", http3Reload},
	} {
		t.Run(x.name, func(t *testing.T) { x.test(t, e, l) })
	}
}

// quicClient speaks HTTP/3 to an address of the gateway from the wan side, whatever the name in the URL.
func (e *edge) quicClient(t testing.TB, address string) *http.Client {
	t.Helper()
	var socket *net.UDPConn
	if err := e.Within(lab.Wan, func() (err error) {
		socket, err = net.ListenUDP("udp", nil)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	to := &net.UDPAddr{IP: net.ParseIP(address), Port: 443}
	transport := &quic.Transport{Conn: socket}
	h3 := &http3.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // tests compare fingerprints
		Dial: func(ctx context.Context, _ string, secured *tls.Config, config *quic.Config) (*quic.Conn, error) {
			return transport.DialEarly(ctx, to, secured, config)
		},
	}
	t.Cleanup(func() {
		_ = h3.Close()
		_ = transport.Close()
		_ = socket.Close()
	})
	return &http.Client{Transport: h3, Timeout: patience}
}

// must3 makes a request over HTTP/3, on a new connection, which must be answered with the status. A datagram that reaches a worker of HAProxy just before
// it exits is lost, and with it the connection: like a browser, this client then retries on another one.
func (e *edge) must3(t testing.TB, method, url, body string, status int) edgePage {
	t.Helper()
	var p edgePage
	waittest.UntilNil(t, "an answer by HTTP/3", func() error {
		req, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		client := e.quicClient(t, gwWan4)
		client.Timeout = 5 * time.Second
		if p, err = edgeFetch(client, req); err != nil {
			t.Logf("%s %s: %v", method, url, err)
		}
		return err
	})
	if p.StatusCode != status || p.ProtoMajor != 3 {
		t.Errorf("%s %s answers %s %s %q", method, url, p.Proto, p.Status, p.body)
	}
	return p
}

// The port is open without a rule, by both families.
func http3Get(t *testing.T, e *edge, _ *traffic) {
	if p := e.must3(t, http.MethodGet, "https://"+busy+"/x", "", 200); p.Header.Get("Origin-Path") != "/x" || !strings.HasPrefix(p.body, "origin ") {
		t.Errorf("%+v", p)
	}
	if p := e.must3(t, http.MethodPost, "https://"+busy+"/y", strings.Repeat("x", 200000), 200); p.Header.Get("Origin-Path") != "/y" {
		t.Errorf("%+v", p)
	}
	e.must3(t, http.MethodGet, "https://unknown.example.net/", "", 404)
	p, err := e.quicClient(t, gwWan6).Get("https://" + busy + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Body.Close()
	if body, err := io.ReadAll(p.Body); err != nil || !strings.HasPrefix(string(body), "origin ") || p.ProtoMajor != 3 {
		t.Errorf("%s %q, %v", p.Proto, body, err)
	}
}

// HTTP/3 is offered only where it is supported.
func http3AltSvc(t *testing.T, e *edge, l *traffic) {
	const offer = `h3=":443"; ma=86400`
	for url, want := range map[string]string{"https://" + busy + "/": offer, "http://" + busy + "/": "", "https://unknown.example.net/": ""} {
		if err := e.header(url, "Alt-Svc", want); err != nil {
			t.Error(err)
		}
	}
	e.settle(t)
	before := e.status(t)
	e.live(t, http.MethodPut, "/domains/"+l.domain, fields{"disable_h3": true}, 200)
	if err := e.header("https://"+busy+"/", "Alt-Svc", ""); err != nil {
		t.Error(err)
	}
	e.live(t, http.MethodPut, "/domains/"+l.domain, fields{"disable_h3": false}, 200)
	if err := e.header("https://"+busy+"/", "Alt-Svc", offer); err != nil {
		t.Error(err)
	}
	if after := e.status(t); after.Reloads != before.Reloads || after.RuntimeChanges < before.RuntimeChanges+2 {
		t.Errorf("%+v after %+v", after, before)
	}

	// The second name of a site, and its server's own headers, belong to the site.
	const port = 8086
	e.origin(t, port, func(mux *http.ServeMux) {
		mux.HandleFunc("/offers", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Alt-Svc", `h3=":8443"`) })
	})
	backend, _ := e.backend(t, "offers", port)
	domain := e.domain(t, "offers.example.net", backend, fields{"www_redirect": "to_www", "http_to_https": false})
	for _, disabled := range []bool{false, true} {
		e.live(t, http.MethodPut, "/domains/"+domain, fields{"disable_h3": disabled}, 200)
		for url, want := range map[string]string{
			"https://www.offers.example.net/": offer, "https://www.offers.example.net/offers": offer, "https://offers.example.net/": offer, "http://www.offers.example.net/offers": `h3=":8443"`,
		} {
			if disabled {
				want = ""
			}
			if err := e.header(url, "Alt-Svc", want); err != nil {
				t.Error(err)
			}
		}
	}
}

// listening are the sockets of the gateway on a port.
func (e *edge) listening(t testing.TB, kind, port string) (v4, v6 bool) {
	t.Helper()
	for line := range strings.Lines(e.Run(t, lab.Gateway, "ss", "-Hln"+kind, "sport", "=", ":"+port)) {
		f := strings.Fields(line)
		v6 = v6 || strings.HasPrefix(f[3], "[::]") || strings.HasPrefix(f[3], "*")
		v4 = v4 || strings.HasPrefix(f[3], "0.0.0.0")
	}
	return v4, v6
}

// TCP and QUIC, IPv4 and IPv6: IPv6 only with the flag.
func http3Binds(t *testing.T, e *edge, _ *traffic) {
	for _, flag := range []bool{false, true} {
		if a := e.Must(t, http.MethodPost, "/system/ipv6", fields{"enabled": flag}, 200, nil); a.Header.Get("Gateway-Apply") != "reverse-proxy=live" {
			t.Fatal(a.Header.Get("Gateway-Apply"))
		}
		for _, kind := range []string{"t", "u"} {
			if v4, v6 := e.listening(t, kind, "443"); !v4 || v6 != flag {
				t.Errorf("with IPv6 %v, %scp/443 is bound by IPv4 %v and by IPv6 %v", flag, kind, v4, v6)
			}
		}
		client := e.quicClient(t, gwWan6)
		if !flag {
			client.Timeout = time.Second // nothing answers
		}
		res, err := client.Get("https://" + busy + "/")
		if err == nil {
			res.Body.Close()
		}
		if (err == nil) != flag {
			t.Errorf("with IPv6 %v, HTTP/3 by IPv6: %v", flag, err)
		}
		e.must3(t, http.MethodGet, "https://"+busy+"/", "", 200)
	}
}

// A site's settings apply to HTTP/3 as well.
func http3Behaviour(t *testing.T, e *edge, l *traffic) {
	url := "https://" + busy + "/"
	header := e.live(t, http.MethodPost, "/domains/"+l.domain+"/headers", fields{"name": "X-Three", "value": "yes %[src] \"quoted\""}, 201)
	if p := e.must3(t, http.MethodGet, url, "", 200); p.Header.Get("X-Three") != `yes %[src] "quoted"` {
		t.Errorf("%v", p.Header)
	}
	e.live(t, http.MethodDelete, "/domains/"+l.domain+"/headers/"+header, nil, 200)
	e.live(t, http.MethodPut, "/domains/"+l.domain, fields{"max_body_size_bytes": 1000, "hsts_enabled": true}, 200)
	if p := e.must3(t, http.MethodPost, url, strings.Repeat("x", 1000), 200); p.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("%v", p.Header)
	}
	e.must3(t, http.MethodPost, url, strings.Repeat("x", 1001), 413)
	e.live(t, http.MethodPut, "/domains/"+l.domain, fields{"max_body_size_bytes": 0, "hsts_enabled": false, "maintenance": true}, 200)
	if p := e.must3(t, http.MethodGet, url, "", 503); p.Header.Get("Retry-After") == "" || !strings.HasPrefix(p.body, "<!") {
		t.Errorf("%v", p.Header)
	}
	if err := e.answers(url, 503, "<!"); err != nil {
		t.Error(err)
	}
	e.live(t, http.MethodPut, "/domains/"+l.domain, fields{"maintenance": false}, 200)
	e.must3(t, http.MethodGet, url, "", 200)
}

// settle has HAProxy reload, so that a reload which is still due is not counted as one of what follows.
func (e *edge) settle(t *testing.T) {
	t.Helper()
	e.Must(t, http.MethodPost, "/system/proxy-reload", nil, 200, nil)
}

// What can change while HAProxy runs does so here too.
func http3Changes(t *testing.T, e *edge, l *traffic) {
	e.settle(t)
	before, was := e.status(t), e.process(t)
	e.live(t, http.MethodPut, "/backend-servers/"+l.servers[1], fields{"weight": 7}, 200)
	if s := e.servers(t, l.backend)["s8082"]; s.Weight != 7 {
		t.Errorf("%+v", s)
	}
	e.live(t, http.MethodPut, "/backend-servers/"+l.servers[0], fields{"active": false}, 200)
	if p := e.must3(t, http.MethodGet, "https://"+busy+"/", "", 200); p.body != "origin 8082" {
		t.Errorf("%q", p.body)
	}
	e.live(t, http.MethodPut, "/backend-servers/"+l.servers[1], fields{"port": originC}, 200)
	if p := e.must3(t, http.MethodGet, "https://"+busy+"/", "", 200); p.body != "origin 8083" {
		t.Errorf("%q", p.body)
	}
	server := e.live(t, http.MethodPost, "/backends/"+l.backend+"/servers", fields{"name": "third", "address": lan4, "port": originA}, 201)
	if s := e.servers(t, l.backend); s["third"].Status != "NO CHECK" && s["third"].Status != "UP" {
		t.Errorf("%+v", s)
	}
	e.live(t, http.MethodPut, "/backend-servers/"+l.servers[1], fields{"port": originB, "weight": 100}, 200)
	e.live(t, http.MethodPut, "/backend-servers/"+l.servers[0], fields{"active": true}, 200)
	e.domain(t, "third.example.net", l.backend, nil)
	e.must3(t, http.MethodGet, "https://third.example.net/", "", 200)
	after, now := e.status(t), e.process(t)
	if after.Reloads != before.Reloads || now.PID != was.PID || after.RuntimeChanges != before.RuntimeChanges+7 {
		t.Errorf("%+v after %+v", after, before)
	}
	e.live(t, http.MethodDelete, "/backend-servers/"+server, nil, 200)
	if s := e.servers(t, l.backend); len(s) != 3 { // two, and the whole
		t.Errorf("%+v", s)
	}
}

// A certificate is shown and replaced on QUIC, too, without a reload.
func http3Certificates(t *testing.T, e *edge, _ *traffic) {
	ca := newEdgeAuthority(t)
	e.settle(t)
	before := e.status(t)
	upload, fingerprint := ca.issue(t, busy)
	id := e.live(t, http.MethodPost, "/certificates", upload, 201)
	look := func() {
		t.Helper()
		e.shows(t, "443", busy, fingerprint)
		p := e.must3(t, http.MethodGet, "https://"+busy+"/", "", 200)
		if got := fingerprintOf(p.TLS.PeerCertificates[0].Raw); got != fingerprint {
			t.Errorf("QUIC shows %s instead of %s", got, fingerprint)
		}
	}
	look()
	upload, fingerprint = ca.issue(t, busy)
	e.live(t, http.MethodPut, "/certificates/"+id, upload, 200)
	look()
	if after := e.status(t); after.Reloads != before.Reloads {
		t.Errorf("two certificates took %d reloads", after.Reloads-before.Reloads)
	}
	e.live(t, http.MethodDelete, "/certificates/"+id, nil, 200)
}

// Reloads are not noticed: the old worker finishes its answers, and clients whose connection
// was closed open a new one.
func http3Reload(t *testing.T, e *edge, l *traffic) {
	url := "https://" + busy + "/"
	// A worker that exits closes a QUIC connection when it has sent the last of its answers, without waiting for acknowledgements:
	// the end may be lost, so the end of the download is not checked.
	downloaded := l.download(t, e.quicClient(t, gwWan4), downloadSize/2)
	resting := e.quicClient(t, gwWan4)
	resting.Timeout = 5 * time.Second
	ask := func() {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		// A request that is sent before the client knows that its connection is closed is repeated, as browsers do.
		var p edgePage
		waittest.Until(t, "an answer by a connection that has rested, or by a new one", func() bool {
			p, err = edgeFetch(resting, req)
			return err == nil
		})
		if p.StatusCode != 200 || p.ProtoMajor != 3 {
			t.Errorf("%+v", p.Response)
		}
	}
	ask()
	was := e.process(t)
	l.undisturbed(t, func() {
		for n := range 5 {
			e.live(t, http.MethodPost, "/backends", fields{"name": fmt.Sprintf("third %d", n), "health_check_enabled": false}, 201)
			now := e.process(t)
			if now.PID == was.PID {
				t.Errorf("reload %d: worker %d goes on", n, now.PID)
			}
			was = now
			ask()
			e.must3(t, http.MethodGet, url, "", 200)
		}
	})
	close(l.finish)
	if err := <-downloaded; err != nil {
		t.Errorf("the download: %v", err)
	}
}
