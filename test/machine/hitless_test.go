package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
)

// TestContinuity: nothing that an operator does disturbs traffic through the proxy, and everything that is killed restarts.
// All tests share a lab.
func TestContinuity(t *testing.T) {
	t.Parallel()
	e := newEdge(t, lab.Options{Volatile: true})
	load := newTraffic(t, e)
	for _, x := range []struct {
		name string
		test func(*testing.T, *edge, *traffic)
	}{
		{"ServerMovesUnderARequest", serverMoves},
		{"Hitless", hitless},
		{"ReloadsAreConfirmed", reloadsAreConfirmed},
		{"ReloadsAreShared", reloadsAreShared},
		{"ProxyComesBack", proxyComesBack},
		{"StoredStateServes", storedStateServes},
		{"ManagementIsNeverAlone", managementIsNeverAlone},
	} {
		t.Run(x.name, func(t *testing.T) { x.test(t, e, load) })
	}
}

// busy is the site that gets the traffic.
const busy = "busy.example.net"

// The ports of the origins.
const (
	originA, originB, originC = 8081, 8082, 8083
)

// downloadSize is the length of the slow download.
const downloadSize = 16 << 20

// traffic is a site under load, and how it fares.
type traffic struct {
	e                        *edge
	backend                  string
	servers                  []string
	domain                   string
	requests, failed, echoes atomic.Int64
	byHTTP2                  atomic.Int64
	finish                   chan struct{} // closed when the download may end

	mu       sync.Mutex
	failures []string
}

func newTraffic(t *testing.T, e *edge) *traffic {
	l := &traffic{e: e, finish: make(chan struct{})}
	more := func(mux *http.ServeMux) {
		mux.HandleFunc("/echo", serveEcho)
		mux.HandleFunc("/download", l.trickle)
	}
	for _, port := range []int{originA, originB, originC} {
		e.origin(t, port, more)
	}
	l.backend, l.servers = e.backend(t, "busy", originA, originB)
	l.domain = e.domain(t, busy, l.backend, fields{"http_to_https": false})
	return l
}

// serveEcho echoes messages of a WebSocket.
func serveEcho(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for {
		kind, text, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		if err := conn.Write(r.Context(), kind, text); err != nil {
			return
		}
	}
}

// pattern is the content of the download at a place.
func pattern(from, length int) []byte {
	b := make([]byte, length)
	for i := range b {
		b[i] = byte((from + i) * 2654435761 >> 13)
	}
	return b
}

// trickle sends a few bytes at a time until the download may end, and then the rest at once.
func (l *traffic) trickle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", strconv.Itoa(downloadSize))
	flush := http.NewResponseController(w)
	sent := 0
	for sent < downloadSize {
		length := min(16<<10, downloadSize-sent)
		select {
		case <-l.finish:
		case <-time.After(50 * time.Millisecond):
			length = min(length, max(1, (downloadSize-sent)/256)) // ever less, so that there is always more
		}
		if _, err := w.Write(pattern(sent, length)); err != nil {
			return
		}
		sent += length
		_ = flush.Flush() // the next write returns the error
	}
}

func (l *traffic) fail(who string, err error) {
	l.failed.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failures) < 20 {
		l.failures = append(l.failures, fmt.Sprintf("%s %s: %v", time.Now().Format("15:04:05.000"), who, err))
	}
}

// judge counts an answer.
func (l *traffic) judge(who string, p edgePage, err error) {
	l.requests.Add(1)
	if err == nil && (p.StatusCode != 200 || !strings.HasPrefix(p.body, "origin ")) {
		err = fmt.Errorf("%d %q", p.StatusCode, p.body)
	}
	if err != nil {
		l.fail(who, err)
		return
	}
	if p.ProtoMajor == 2 {
		l.byHTTP2.Add(1)
	}
}

// request is one for the site; every other has a body.
func request(ctx context.Context, scheme string, n int) *http.Request {
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if n%2 == 1 {
		method, body = http.MethodPost, strings.NewReader(strings.Repeat("x", 2000))
	}
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("%s://%s/%d", scheme, busy, n), body)
	if err != nil {
		panic(err) // there is nothing in it that could be wrong
	}
	return req
}

// The kinds of clients, which make 200 requests a second together.
var trafficKinds = []struct {
	name   string
	count  int
	every  time.Duration
	h2     bool
	fresh  bool // a new connection for each request
	scheme string
}{
	{"HTTP/1.1 kept alive", 4, 50 * time.Millisecond, false, false, "https"},
	{"HTTP/1.1 kept alive, plain", 2, 100 * time.Millisecond, false, false, "http"},
	{"HTTP/1.1 kept alive, slow", 20, time.Second, false, false, "https"},
	{"HTTP/1.1 anew", 1, 50 * time.Millisecond, false, true, "https"},
	{"HTTP/2", 2, 50 * time.Millisecond, true, false, "https"},
	{"HTTP/2, slow", 10, time.Second, true, false, "https"},
	{"HTTP/2 anew", 1, 100 * time.Millisecond, true, true, "https"},
}

// start makes requests until stop is called, which returns when all are answered.
func (l *traffic) start() (stop func()) {
	ended := make(chan struct{})
	var work sync.WaitGroup
	for _, kind := range trafficKinds {
		for i := range kind.count {
			work.Go(func() {
				tick := time.NewTicker(kind.every)
				defer tick.Stop()
				first := time.After(kind.every * time.Duration(i) / time.Duration(kind.count)) // not all at the same time
				ask, end := l.asker(kind.scheme, kind.h2, kind.fresh)
				defer end()
				for n := i; ; n++ {
					select {
					case <-ended:
						return
					case <-first:
						first = nil
					case <-tick.C:
					}
					p, err := ask(n)
					l.judge(kind.name, p, err)
				}
			})
		}
	}
	return func() {
		close(ended)
		work.Wait()
	}
}

// asker makes requests in sequence, like one client.
func (l *traffic) asker(scheme string, h2, fresh bool) (ask func(n int) (edgePage, error), end func()) {
	if h2 {
		client := l.e.client(true)
		return func(n int) (edgePage, error) {
			if fresh {
				client.CloseIdleConnections()
			}
			return edgeFetch(client, request(context.Background(), scheme, n))
		}, client.CloseIdleConnections
	}
	conn := &edgeConn{}
	return func(n int) (edgePage, error) {
		req := request(context.Background(), scheme, n)
		req.Close = fresh
		return conn.ask(l.e, req, scheme == "http")
	}, conn.end
}

// talk keeps a WebSocket busy until stop is called.
func (l *traffic) talk(t *testing.T) (stop func()) {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "wss://"+busy+"/echo", &websocket.DialOptions{HTTPClient: l.e.client(false)})
	if err != nil {
		t.Fatal(err)
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer conn.CloseNow()
		for n := 0; ; n++ {
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if err := echoed(conn, strconv.Itoa(n)); err != nil {
				l.fail("WebSocket", err)
				return
			}
			l.echoes.Add(1)
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}

func echoed(conn *websocket.Conn, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		return err
	}
	_, heard, err := conn.Read(ctx)
	if err == nil && string(heard) != text {
		err = fmt.Errorf("it echoes %q instead of %q", heard, text)
	}
	return err
}

// download fetches the beginning of the file, and returns an error if it is wrong.
func (l *traffic) download(t *testing.T, client *http.Client, length int64) <-chan error {
	t.Helper()
	client.Timeout = 0
	res, err := client.Get("https://" + busy + "/download")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		defer res.Body.Close()
		sum := sha256.New()
		n, err := io.Copy(sum, io.LimitReader(res.Body, length))
		want := sha256.Sum256(pattern(0, int(length)))
		switch {
		case err != nil:
			done <- fmt.Errorf("after %d bytes: %w", n, err)
		case n != length || !slices.Equal(sum.Sum(nil), want[:]):
			done <- fmt.Errorf("%d bytes, with the checksum %s", n, hex.EncodeToString(sum.Sum(nil)))
		default:
			done <- nil
		}
	}()
	return done
}

// change is an operator's change, and how to verify it from outside.
type change struct {
	name string
	do   func(n int)
	so   func(n int) error
}

// changes are all kinds of changes; each list of them ends in the initial state.
func (l *traffic) changes(t *testing.T, side *sideSite) []change {
	e := l.e
	put := func(path string, body fields) { e.live(t, http.MethodPut, path, body, 200) }
	remove := func(path string) { e.live(t, http.MethodDelete, path, nil, 200) }
	var server, header, rule, certificate, backend, domain, fingerprint string
	ca := newEdgeAuthority(t)
	inStats := func(backend, server, status string, weight int) error {
		s, ok := e.servers(t, backend)[server]
		if !ok && status == "" || ok && strings.Contains("UP, NO CHECK", s.Status) == (status == "UP") && s.Weight == weight {
			return nil
		}
		return fmt.Errorf("the proxy has %+v", s)
	}
	servedBy := func(url string, ports ...int) error {
		seen := map[string]bool{}
		for range 3 * len(ports) {
			p, err := e.get(url)
			if err != nil {
				return err
			}
			seen[p.body] = true
		}
		for _, port := range ports {
			if !seen[fmt.Sprintf("origin %d", port)] {
				return fmt.Errorf("origin %d does not answer: %v", port, seen)
			}
		}
		if len(seen) != len(ports) {
			return fmt.Errorf("%v answer", seen)
		}
		return nil
	}
	showsOwn := func(int) error {
		shown, err := e.shown("443", busy)
		if err == nil && shown != fingerprint {
			err = fmt.Errorf("%s is shown instead of %s", shown, fingerprint)
		}
		return err
	}
	return []change{
		{"weight of a server", func(n int) { put("/backend-servers/"+l.servers[1], fields{"weight": 100 + n%50}) },
			func(n int) error { return inStats(l.backend, "s8082", "UP", 100+n%50) }},
		{"server moves", func(int) { put("/backend-servers/"+side.server, fields{"port": originB}) },
			func(int) error { return servedBy(side.url, originB) }},
		{"server moves back", func(int) { put("/backend-servers/"+side.server, fields{"port": originA}) },
			func(int) error { return servedBy(side.url, originA) }},
		{"server is added", func(int) {
			server = e.live(t, http.MethodPost, "/backends/"+l.backend+"/servers", e.server(originC), 201)
		}, func(int) error { return inStats(l.backend, "s8083", "UP", 100) }},
		{"server is off", func(int) { put("/backend-servers/"+server, fields{"active": false}) },
			func(int) error { return inStats(l.backend, "s8083", "MAINT", 100) }},
		{"server is on", func(int) { put("/backend-servers/"+server, fields{"active": true}) },
			func(int) error { return inStats(l.backend, "s8083", "UP", 100) }},
		{"server is removed", func(int) { remove("/backend-servers/" + server) },
			func(int) error { return inStats(l.backend, "s8083", "", 0) }},
		{"HSTS", func(n int) { put("/domains/"+l.domain, fields{"hsts_enabled": true, "hsts_max_age": 1000 + n}) },
			func(n int) error {
				return e.header("https://"+busy+"/", "Strict-Transport-Security", "max-age="+strconv.Itoa(1000+n))
			}},
		{"no HSTS", func(int) { put("/domains/"+l.domain, fields{"hsts_enabled": false}) },
			func(int) error { return e.header("https://"+busy+"/", "Strict-Transport-Security", "") }},
		{"largest body", func(n int) { put("/domains/"+l.domain, fields{"max_body_size_bytes": 5000 + n}) }, func(n int) error {
			p, err := l.post("https://"+busy+"/", 5001+n)
			if err == nil && p.StatusCode != 413 {
				err = errors.New(p.Status)
			}
			return err
		}},
		{"no largest body", func(int) { put("/domains/"+l.domain, fields{"max_body_size_bytes": 0}) }, func(n int) error {
			p, err := l.post("https://"+busy+"/", 7000+n)
			if err == nil && p.StatusCode != 200 {
				err = errors.New(p.Status)
			}
			return err
		}},
		{"maintenance of another site", func(int) { put("/domains/"+side.domain, fields{"maintenance": true}) },
			func(int) error { return e.answers(side.url, 503, "<!") }},
		{"end of the maintenance", func(int) { put("/domains/"+side.domain, fields{"maintenance": false}) },
			func(int) error { return e.answers(side.url, 200, "origin") }},
		{"new header", func(n int) {
			header = e.live(t, http.MethodPost, "/domains/"+l.domain+"/headers", fields{"name": fmt.Sprintf("X-Number-%d", n), "value": "new"}, 201)
		}, func(n int) error { return e.header("https://"+busy+"/", fmt.Sprintf("X-Number-%d", n), "new") }},
		{"value of a header", func(n int) {
			put("/domains/"+l.domain+"/headers/"+header, fields{"value": "changed " + strconv.Itoa(n)})
		}, func(n int) error {
			return e.header("https://"+busy+"/", fmt.Sprintf("X-Number-%d", n-1), "changed "+strconv.Itoa(n))
		}},
		{"no header", func(int) { remove("/domains/" + l.domain + "/headers/" + header) },
			func(n int) error { return e.header("https://"+busy+"/", fmt.Sprintf("X-Number-%d", n-2), "") }},
		{"routing rule", func(int) {
			rule = e.live(t, http.MethodPost, "/routing-rules", fields{"domain_id": l.domain, "path_prefix": "/side/", "backend_id": side.backend}, 201)
		}, func(int) error { return servedBy("https://"+busy+"/side/x", originA) }},
		{"routing rule that strips", func(int) { put("/routing-rules/"+rule, fields{"strip_prefix": true}) },
			func(int) error { return e.header("https://"+busy+"/side/x", "Origin-Path", "/x") }},
		{"no routing rule", func(int) { remove("/routing-rules/" + rule) },
			func(int) error { return e.header("https://"+busy+"/side/x", "Origin-Path", "/side/x") }},
		{"new domain", func(n int) { domain = e.domain(t, fmt.Sprintf("new-%d.example.net", n), l.backend, nil) },
			func(n int) error { return e.answers(fmt.Sprintf("https://new-%d.example.net/", n), 200, "origin") }},
		{"no domain", func(int) { remove("/domains/" + domain) },
			func(n int) error { return e.answers(fmt.Sprintf("https://new-%d.example.net/", n-1), 404, "") }},
		{"certificate", func(int) {
			var upload fields
			upload, fingerprint = ca.issue(t, busy)
			certificate = e.live(t, http.MethodPost, "/certificates", upload, 201)
		}, showsOwn},
		{"other certificate", func(int) {
			var upload fields
			upload, fingerprint = ca.issue(t, busy)
			put("/certificates/"+certificate, upload)
		}, showsOwn},
		{"no certificate", func(int) { remove("/certificates/" + certificate) }, func(int) error {
			if showsOwn(0) == nil {
				return errors.New("the certificate is still shown")
			}
			return nil
		}},
		{"new backend", func(n int) {
			backend = e.live(t, http.MethodPost, "/backends", fields{"name": fmt.Sprintf("backend %d", n), "health_check_enabled": false}, 201)
		}, func(int) error {
			if len(e.servers(t, backend)) == 0 {
				return errors.New("the proxy does not have it")
			}
			return nil
		}},
		{"no backend", func(int) { remove("/backends/" + backend) }, func(int) error {
			if len(e.servers(t, backend)) != 0 {
				return errors.New("the proxy still has it")
			}
			return nil
		}},
		{"new period of a rate limit", func(n int) {
			put("/domains/"+side.domain, fields{"rate_limit_enabled": true, "rate_limit_requests": 2, "rate_limit_period_seconds": 60 + n%3000})
		}, func(int) error {
			for range 2 {
				if err := e.answers(side.url, 200, "origin"); err != nil {
					return err
				}
			}
			return e.answers(side.url, 429, "too many")
		}},
		{"no rate limit", func(int) { put("/domains/"+side.domain, fields{"rate_limit_enabled": false}) },
			func(int) error { return e.answers(side.url, 200, "origin") }},
	}
}

// post sends a body.
func (l *traffic) post(url string, length int) (edgePage, error) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(strings.Repeat("x", length)))
	if err != nil {
		return edgePage{}, err
	}
	req.Header.Set("Expect", "100-continue") // otherwise a refusal may arrive while the body is being written
	return l.e.ask(req)
}

// sideSite is another site of the same proxy.
type sideSite struct{ url, domain, backend, server string }

func hitless(t *testing.T, e *edge, l *traffic) {
	applies := longtest.Number(t, "GATEWAY_APPLIES", 30, 60)
	side := &sideSite{url: "https://side.example.net/"}
	var servers []string
	side.backend, servers = e.backend(t, "side", originA)
	side.server = servers[0]
	side.domain = e.domain(t, "side.example.net", side.backend, nil)
	kinds := l.changes(t, side)

	before := e.status(t)
	began := time.Now()
	quiet := l.talk(t)
	downloaded := l.download(t, e.client(false), downloadSize)
	stop := l.start()
	for n := range applies {
		kind, asked := kinds[n%len(kinds)], l.requests.Load()
		kind.do(n)
		if err := kind.so(n); err != nil {
			t.Errorf("apply %d, %s: it is answered as live, but %v", n, kind.name, err)
		}
		if t.Failed() {
			break
		}
		waittest.Until(t, "clients ask meanwhile", func() bool { return l.requests.Load() > asked })
	}
	took := time.Since(began)
	select {
	case err := <-downloaded:
		t.Fatalf("the download ended before the changes: %v", err)
	default:
	}
	stop()
	quiet()
	close(l.finish)
	if err := <-downloaded; err != nil {
		t.Errorf("the download: %v", err)
	}
	after := e.status(t)
	reloads, changes := after.Reloads-before.Reloads, after.RuntimeChanges-before.RuntimeChanges
	t.Logf("%d applies in %s, by %d reloads and %d changes at run time: %d requests (%d by HTTP/2), %d failed; %d echoes; %d former workers",
		applies, took.Round(time.Millisecond), reloads, changes, l.requests.Load(), l.byHTTP2.Load(), l.failed.Load(), l.echoes.Load(), after.OldWorkers)
	for _, f := range l.failures {
		t.Error(f)
	}
	if applies >= len(kinds) && (reloads < 3 || changes < 10) {
		t.Errorf("too little was tried: %d reloads, %d changes at run time", reloads, changes)
	}
	if l.byHTTP2.Load() == 0 || l.echoes.Load() == 0 {
		t.Error("too little was tried")
	}
}

// No request after the change reaches a server at its old address, even if another one is in progress at that moment: the
// connection that carries that is not used again.
func serverMoves(t *testing.T, e *edge, _ *traffic) {
	begun, finish := make(chan struct{}, 1), make(chan struct{})
	const from, to = 8084, 8085
	slow := func(mux *http.ServeMux) {
		mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
			begun <- struct{}{}
			<-finish
			fmt.Fprint(w, "at last")
		})
	}
	e.origin(t, from, slow)
	e.origin(t, to, slow)
	backend, servers := e.backend(t, "moving", from)
	domain := e.domain(t, "moving.example.net", backend, nil)
	// A server from HAProxy's file keeps connections for later requests; in 2.6 one that was added at run time does not.
	e.Must(t, http.MethodPost, "/system/proxy-reload", nil, 200, nil)
	client := e.client(false)
	defer client.CloseIdleConnections()
	get := func(path, want string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, "https://moving.example.net"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := edgeFetch(client, req); err != nil || p.body != want {
			t.Errorf("%s: %v, %q instead of %q", path, err, p.body, want)
		}
	}
	get("/", "origin 8084") // the connection has carried a request before, and may be shared from now on
	slowly := make(chan struct{})
	go func() {
		defer close(slowly)
		get("/slow", "at last")
	}()
	<-begun
	e.live(t, http.MethodPut, "/backend-servers/"+servers[0], fields{"port": to}, 200)
	close(finish)
	<-slowly
	for range 5 {
		get("/", "origin 8085")
	}
	// Without requests in progress no reload is needed.
	before := e.status(t)
	moves := longtest.Number(t, "GATEWAY_MOVES", 10, 50)
	for n := range moves {
		port := []int{from, to}[n%2]
		client.CloseIdleConnections()
		e.live(t, http.MethodPut, "/backend-servers/"+servers[0], fields{"port": port}, 200)
		get("/", fmt.Sprintf("origin %d", port))
	}
	if after := e.status(t); after.RuntimeChanges == before.RuntimeChanges {
		t.Errorf("each of %d moves took a reload: %+v after %+v", moves, after, before)
	}
	e.live(t, http.MethodDelete, "/domains/"+domain, nil, 200)
	e.live(t, http.MethodDelete, "/backends/"+backend, nil, 200)
}
