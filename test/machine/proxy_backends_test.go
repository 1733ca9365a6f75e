package machine

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
)

func protocols(t *testing.T, p *proxyRig) {
	const health = "/health/%20$HOME/'(;)'%25%5Bsrc%5D"
	secure := fields{"scheme": "https", "health_check_enabled": true, "health_check_path": health, "health_check_interval_seconds": 1}
	for _, x := range []struct {
		force bool
		host  string
		proto string
		alpn  string
	}{{false, "both.example.net", "HTTP/2.0", "h2"}, {true, "old.example.net", "HTTP/1.1", "http/1.1"}} {
		backend := p.backend(t, with(fields{"force_http1": x.force, "health_check_host": x.host}, secure), p.to("tls"))
		name, _ := p.site(t, backend)
		for _, h2 := range []bool{false, true} {
			if got := p.send(t, ask{url: "https://" + name, h2: h2}).from(t, "tls"); got.seen.Proto != x.proto || got.ALPN != x.alpn || got.SNI != name {
				t.Errorf("force_http1 %v: the server sees %s (%s), asked for %s", x.force, got.seen.Proto, got.ALPN, got.SNI)
			}
		}
		// Checks speak HTTP/1.1 in any case.
		waittest.Until(t, "a health check", func() bool { return len(p.origins["tls"].checked(x.host)) > 0 })
		for _, check := range p.origins["tls"].checked(x.host) {
			if check.Proto != "HTTP/1.1" || check.ALPN != "http/1.1" || check.Method != http.MethodGet || check.URI != health {
				t.Errorf("the check is %+v", check)
			}
		}
		waittest.Until(t, "the server is up", func() bool { return p.stats(t).of(t, backend, "s0").CheckStatus == "L7OK" })
		if s := p.stats(t).of(t, backend, "s0"); s.Status != "UP" {
			t.Errorf("%+v", s)
		}
		if c := section(p.config(t), "backend gateway_backend_"+backend); !strings.Contains(c, "check-alpn http/1.1") || strings.Contains(c, "timeout tunnel") {
			t.Error(c)
		}
	}
	// With verification, an untrusted certificate is refused.
	wary, _ := p.site(t, p.backend(t, fields{"scheme": "https", "verify_tls": true}, p.to("tls")))
	p.get(t, "https://"+wary).want(t, 503)
	// The gateway requests a server's certificate by the server's name.
	named, _ := p.site(t, p.backend(t, fields{"scheme": "https"}, p.to("tls", fields{"address": "lan.lab.internal"})))
	if got := p.get(t, "https://"+named).from(t, "tls"); got.SNI != "lan.lab.internal" || got.Host != named {
		t.Errorf("SNI %s, host %s", got.SNI, got.Host)
	}
}

func webSockets(t *testing.T, p *proxyRig) {
	tunnel := func(backend string) bool {
		return strings.Contains(section(p.config(t), "backend gateway_backend_"+backend), "  timeout tunnel 1h\n")
	}
	for _, scheme := range []string{"http", "https"} {
		to := map[string]string{"http": "a", "https": "tls"}[scheme]
		backend := p.backend(t, fields{"scheme": scheme, "websocket": true}, p.to(to))
		if !tunnel(backend) || tunnel(p.backends[to]) {
			t.Errorf("%s: the tunnel of a backend with WebSockets may rest: %v, and one without: %v", scheme, tunnel(backend), tunnel(p.backends[to]))
		}
		name, path := p.site(t, backend)
		p.echoes(t, name)
		p.live(t, http.MethodPut, path, fields{"max_body_size_bytes": 10})
		p.echoes(t, name)
	}
	// An open WebSocket stays open when its server is removed.
	backend := p.backend(t, fields{"websocket": true})
	server := p.live(t, http.MethodPost, "/backends/"+backend+"/servers", p.to("a", fields{"name": "a", "address": lan4}))
	name, _ := p.site(t, backend)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	transport := p.transport(ask{})
	defer transport.CloseIdleConnections()
	conn, _, err := websocket.Dial(ctx, "wss://"+name+"/echo", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	p.live(t, http.MethodDelete, "/backend-servers/"+server, nil)
	p.get(t, "https://"+name).want(t, 503)
	if said, err := echo(ctx, conn); err != nil || said != "hello" {
		t.Errorf("%q comes back: %v", said, err)
	}
	if s := p.status(t); s.OldWorkers == 0 {
		t.Errorf("nobody serves it any more: %+v", s)
	}
}

// echo sends a message and returns the answer.
func echo(ctx context.Context, conn *websocket.Conn) (string, error) {
	if err := conn.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		return "", err
	}
	_, said, err := conn.Read(ctx)
	return string(said), err
}

// echoes sends a message through a WebSocket and expects it back, over HTTP/1.1 and, as browsers do, over HTTP/2.
func (p *proxyRig) echoes(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	transport := p.transport(ask{})
	defer transport.CloseIdleConnections()
	conn, _, err := websocket.Dial(ctx, "wss://"+name+"/echo", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Errorf("WebSocket: %v", err)
		return
	}
	defer conn.CloseNow()
	if said, err := echo(ctx, conn); err != nil || said != "hello" {
		t.Errorf("%q comes back: %v", said, err)
	}
	if said, err := p.echoH2(ctx, name); err != nil || said != "hello" {
		t.Errorf("over HTTP/2 %q comes back: %v", said, err)
	}
}

// echoH2 opens a WebSocket over HTTP/2 by hand, for Go's client does not, and sends a message through it.
func (p *proxyRig) echoH2(ctx context.Context, name string) (string, error) {
	var conn net.Conn
	err := p.Within(lab.Wan, func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", gwWan4+":443")
		return err
	})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: name, NextProtos: []string{"h2"}})
	const data, headers, settings = 0, 1, 4
	const endHeaders = 4
	frame := func(kind, flags, stream byte, payload string) string {
		return string([]byte{0, 0, byte(len(payload)), kind, flags, 0, 0, 0, stream}) + payload
	}
	var block strings.Builder
	for _, field := range [][2]string{
		{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "https"}, {":authority", name}, {":path", "/echo"}, {"sec-websocket-version", "13"}, {"origin", "https://" + name},
	} { // each literal, and short
		fmt.Fprintf(&block, "\x00%c%s%c%s", len(field[0]), field[0], len(field[1]), field[1])
	}
	if _, err := io.WriteString(secure, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(settings, 0, 0, "")+frame(headers, endHeaders, 1, block.String())); err != nil {
		return "", err
	}
	read := func(kind byte) (string, error) {
		for {
			head := make([]byte, 9)
			if _, err := io.ReadFull(secure, head); err != nil {
				return "", err
			}
			payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
			if _, err := io.ReadFull(secure, payload); err != nil || head[3] == kind {
				return string(payload), err
			}
		}
	}
	const status200 = "\x88" // as HPACK has it
	if answer, err := read(headers); err != nil || !strings.HasPrefix(answer, status200) {
		return answer, err
	}
	// A text frame, masked with zeroes; it is returned without a mask.
	if _, err := io.WriteString(secure, frame(data, 0, 1, "\x81\x85\x00\x00\x00\x00hello")); err != nil {
		return "", err
	}
	answer, err := read(data)
	return strings.TrimPrefix(answer, "\x81\x05"), err
}

// What gRPC needs: HTTP/2 all the way, and trailers both ways.
func trailers(t *testing.T, p *proxyRig) {
	name, _ := p.site(t, "tls")
	got := p.send(t, ask{url: "https://" + name + "/pkg.Service/Method", method: http.MethodPost, h2: true, body: unknown{strings.NewReader("\x00\x00\x00\x00\x05hello")},
		header: http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}, trailer: http.Header{"X-After": {"all"}}}).from(t, "tls")
	if got.Response.Proto != "HTTP/2.0" || got.seen.Proto != "HTTP/2.0" || got.seen.Body != "\x00\x00\x00\x00\x05hello" {
		t.Errorf("%s, %s, %q", got.Response.Proto, got.seen.Proto, got.seen.Body)
	}
	if got.seen.Header.Get("Te") != "trailers" || got.seen.Trailer.Get("X-After") != "all" || got.Response.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("te %v, trailers %v there, %v back", got.seen.Header["Te"], got.seen.Trailer, got.Response.Trailer)
	}
}

func serverNames(t *testing.T, p *proxyRig) {
	backend := p.backend(t, nil, p.to("a", fields{"name": "web 1.a"}), p.to("a", fields{"name": "Web:1-a_b"}))
	p.Must(t, http.MethodPost, "/backends/"+backend+"/servers", p.to("b", fields{"name": "web.1 a", "address": lan4}), 409, nil)
	name, _ := p.site(t, backend)
	for range 4 {
		p.get(t, "https://"+name).from(t, "a")
	}
	c := section(p.config(t), "backend gateway_backend_"+backend)
	for _, word := range []string{"web_1_a", "Web:1-a_b"} {
		if !strings.Contains(c, "  server "+word+" "+lan4) {
			t.Errorf("no server %s in %s", word, c)
		}
		s := p.stats(t).of(t, backend, word)
		if s.Name != "gateway_backend_"+backend || s.ReqTot != 2 || s.Status != "NO CHECK" {
			t.Errorf("%+v", s)
		}
	}
	if s := p.stats(t).of(t, backend, "BACKEND"); s.ReqTot != 4 {
		t.Errorf("%+v", s)
	}
}

// shares counts which servers answer the requests of one client.
func (p *proxyRig) shares(t *testing.T, name string, requests int, from string) map[string]int {
	t.Helper()
	shares := map[string]int{}
	for range requests {
		shares[p.send(t, ask{url: "https://" + name, from: from}).want(t, 200).Origin]++
	}
	return shares
}

func balancing(t *testing.T, p *proxyRig) {
	weighted := p.backend(t, nil, p.to("a", fields{"weight": 10}), p.to("b", fields{"weight": 30}), p.to("c", fields{"weight": 0}))
	name, _ := p.site(t, weighted)
	if got := p.shares(t, name, 40, ""); got["a"] != 10 || got["b"] != 30 {
		t.Errorf("by weights of 10, 30 and 0: %v", got)
	}

	source, _ := p.site(t, p.backend(t, fields{"lb_algorithm": "source"}, p.to("a"), p.to("b"), p.to("c")))
	used := map[string]int{}
	for n := range clients {
		got := p.shares(t, source, 3, clientAddress(n))
		if len(got) != 1 {
			t.Errorf("%s gets to %v", clientAddress(n), got)
		}
		maps.Copy(used, got)
	}
	if len(used) < 2 {
		t.Errorf("all clients get to %v", used)
	}

	pair := p.backend(t, fields{"lb_algorithm": "leastconn"}, p.to("a"), p.to("b"))
	least, _ := p.site(t, pair)
	held := make(chan reply)
	go func() {
		got, _ := p.try(t.Context(), ask{url: "https://" + least + "/hold"})
		held <- got
	}()
	// A connection counts for a moment after its answer: the next request must not find both servers busy.
	busy := ""
	oneBusy := func() bool {
		stats := p.stats(t)
		a, b := stats.of(t, pair, "s0").Sessions, stats.of(t, pair, "s1").Sessions
		if busy = "b"; a > 0 {
			busy = "a"
		}
		return a+b == 1
	}
	for range 6 {
		waittest.Until(t, "one server is busy", oneBusy)
		if got := p.shares(t, least, 1, ""); got[busy] != 0 {
			t.Errorf("while %s is busy: %v", busy, got)
		}
	}
	waittest.Until(t, "one server is busy", oneBusy)
	p.origins[busy].release <- struct{}{}
	(<-held).from(t, busy)

	// The spare server serves while no other does.
	spare := p.backend(t, fields{"health_check_enabled": true, "health_check_path": "/health", "health_check_interval_seconds": 1}, p.to("c"), p.to("b", fields{"backup": true}))
	name, _ = p.site(t, spare)
	if got := p.shares(t, name, 4, ""); got["c"] != 4 {
		t.Errorf("with a spare server: %v", got)
	}
	p.origins["c"].health.Store(500)
	waittest.Until(t, "the spare server serves", func() bool { return p.get(t, "https://"+name).Origin == "b" })
	p.origins["c"].health.Store(200)
	waittest.Until(t, "the other is back", func() bool { return p.get(t, "https://"+name).Origin == "c" })
}

// A name that does not resolve keeps neither HAProxy from starting nor other servers from serving.
func namesThatDoNotResolve(t *testing.T, p *proxyRig) {
	lost, _ := p.site(t, p.backend(t, nil, fields{"address": "nowhere.invalid", "port": 80}))
	mixed, _ := p.site(t, p.backend(t, nil, fields{"address": "nowhere.invalid", "port": 80}, p.to("b")))
	p.get(t, "https://"+lost).want(t, 503)
	if got := p.shares(t, mixed, 3, ""); got["b"] != 3 {
		t.Errorf("%v", got)
	}
	p.converge(t)
	if err := p.Units().Restart(t.Context(), haproxy.Unit); err != nil {
		t.Fatal(err)
	}
	p.get(t, "https://"+lost).want(t, 503)
	p.get(t, "https://"+mixed).from(t, "b")
	p.WaitState(t, "reverse-proxy", "live", 10*time.Second)

	// It serves as soon as it does resolve.
	dns := &nameserver{names: map[string][]netip.Addr{}}
	err := p.Within(lab.Wan, func() error {
		conn, err := net.ListenPacket("udp", wan4+":53")
		if err != nil {
			return err
		}
		t.Cleanup(func() { conn.Close() })
		go dns.serve(conn)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Run(t, lab.Gateway, "sh", "-c", "mv /etc/resolv.conf /run/resolv.conf; echo nameserver "+wan4+" > /etc/resolv.conf")
	defer p.Run(t, lab.Gateway, "sh", "-c", "rm /etc/resolv.conf; mv /run/resolv.conf /etc/resolv.conf")
	const name = "late.lab.test"
	dns.set(name)
	late, _ := p.site(t, p.backend(t, nil, p.to("c", fields{"address": name})))
	p.get(t, "https://"+late).want(t, 503)
	dns.set(name, netip.MustParseAddr(lan4))
	waittest.Until(t, name+" serves", func() bool { return p.get(t, "https://"+late).Origin == "c" })
}

// A certificate that cannot be used is not shown, and everything else works.
func unusableCertificate(t *testing.T, p *proxyRig) {
	name, path := p.site(t, "a")
	const id = "0190a000-0000-7000-8000-00000000bad0"
	p.sql(t, `INSERT INTO certificate_certificates (id, created_at, updated_at, names, source, challenge, key_type, automatic, certificate_pem, private_key_pem, issuer, fingerprint_sha256, directory_url, status, last_error, error_kind, attempts, not_before, expires_at)
		VALUES ('`+id+`', now(), now(), ARRAY['`+name+`'], 'uploaded', 'http-01', 'ecdsa-p256', false, 'no certificate', 'no key', '', 'x', '', 'valid', '', '', 0, now(), now() + interval '1 year')`)
	p.live(t, http.MethodPost, "/system/proxy-reload", nil)
	p.get(t, "https://"+name).from(t, "a")
	p.live(t, http.MethodPut, path, fields{"certificate_id": id})
	p.get(t, "https://"+name).from(t, "a")
	next, _ := p.site(t, "b")
	p.get(t, "https://"+next).from(t, "b")
	p.live(t, http.MethodPut, path, fields{"certificate_id": nil})
	p.sql(t, `DELETE FROM certificate_certificates WHERE id = '`+id+`'`)
	p.live(t, http.MethodPost, "/system/proxy-reload", nil)
}

// sql changes the database behind the gateway's back.
func (p *proxyRig) sql(t *testing.T, statement string) {
	t.Helper()
	p.Run(t, lab.Gateway, "psql", "-h", "/run/postgresql", "-U", "gateway", "-d", "gateway", "-v", "ON_ERROR_STOP=1", "-c", statement)
}

func statistics(t *testing.T, p *proxyRig) {
	checked := fields{"health_check_enabled": true, "health_check_path": "/health", "health_check_interval_seconds": 1}
	sick := p.serveHTTP(t, "sick", originPort+50, false)
	sick.health.Store(500)
	const hole = originPort + 51
	p.Run(t, lab.Lan, "nft", fmt.Sprintf("table inet hole { chain input { type filter hook input priority 0; tcp dport %d drop; } ; }", hole))
	some := p.backend(t, checked, p.to("a"), fields{"port": nobody}, p.to("sick"), fields{"port": hole})
	none := p.backend(t, checked, fields{"port": nobody})
	off := p.backend(t, checked, p.to("a", fields{"active": false}), p.to("a"))
	for _, x := range []struct{ backend, server, status, check string }{
		{some, "s0", "UP", "L7OK"}, {some, "s1", "DOWN", "L4CON"}, {some, "s2", "DOWN", "L7STS"}, {some, "s3", "DOWN", "L4TOUT"}, {some, "BACKEND", "DEGRADED", ""},
		{none, "s0", "DOWN", "L4CON"}, {none, "BACKEND", "DOWN", ""}, {off, "s0", "MAINT", ""}, {off, "BACKEND", "UP", ""},
	} {
		waittest.UntilNil(t, fmt.Sprintf("%+v", x), func() error {
			if s := p.stats(t).of(t, x.backend, x.server); s.Status != x.status || s.CheckStatus != x.check {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
	if s := p.stats(t).of(t, some, "s1"); s.CheckDetail == "" {
		t.Errorf("%+v", s)
	}
	name, _ := p.site(t, some)
	total := func(s proxyStats) (n int64) {
		for _, f := range s.Frontends {
			n += f.ReqTot
		}
		return n
	}
	before := total(p.stats(t))
	for range 7 {
		p.get(t, "https://"+name).from(t, "a")
	}
	// HAProxy counts a request when it has ended, slightly after the client has its answer.
	var s proxyStats
	waittest.Until(t, "seven requests are counted", func() bool {
		s = p.stats(t)
		return s.of(t, some, "s0").ReqTot == 7 && s.of(t, some, "BACKEND").ReqTot == 7 && total(s) >= before+7
	})
	for _, b := range s.Backends {
		if !strings.HasPrefix(b.Name, "gateway_backend_") || "gateway_backend_"+b.BackendID != b.Name {
			t.Errorf("%s is shown", b.Name)
		}
	}
	if names := []string{s.Frontends[0].Name, s.Frontends[1].Name}; len(s.Frontends) != 2 || !slices.Equal(names, []string{"gateway_http", "gateway_https"}) {
		t.Errorf("%+v", s.Frontends)
	}
	var past struct {
		StepSeconds int `json:"step_seconds"`
		Points      []struct{ Requests float64 }
	}
	waittest.Until(t, "the requests are in the history", func() bool {
		p.Must(t, http.MethodGet, "/proxy/stats/history", nil, 200, &past)
		return len(past.Points) > 0 && past.Points[len(past.Points)-1].Requests > 0
	})

	if err := p.Units().Stop(t.Context(), haproxy.Unit); err != nil {
		t.Fatal(err)
	}
	if s := p.stats(t); !strings.Contains(s.Error, "not running") || len(s.Backends) != 0 {
		t.Errorf("without HAProxy: %+v", s)
	}
	if s := p.status(t); !strings.Contains(s.Error, "not running") {
		t.Errorf("without HAProxy: %+v", s)
	}
	p.Must(t, http.MethodPost, "/system/service-restart", fields{"kind": "reverse-proxy"}, 200, nil)
	p.get(t, "https://"+name).from(t, "a")
	if s := p.stats(t); s.Error != "" {
		t.Error(s.Error)
	}
}
