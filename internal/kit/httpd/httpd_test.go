package httpd_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/kit/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("edge.internal/gateway/internal/kit/host/child.Start.func1"))
}

// door admits the bearer of a role until it is closed.
type door struct{ closed atomic.Bool }

func (d *door) Authenticate(r *http.Request) (actor.Actor, error) {
	if d.closed.Load() {
		return actor.Actor{}, fault.New(fault.Unauthenticated, "the session is over")
	}
	return kittest.Roles{}.Authenticate(r)
}

type input struct {
	Limit int `query:"limit"`
	Body  struct {
		Text string `json:"text" required:"true"`
	}
}

func router(t *testing.T) (*httpd.Router, *door) {
	t.Helper()
	r, d := httpd.NewRouter(slog.New(slog.DiscardHandler)), &door{}
	r.Sessions, r.SetupDone = d, func() bool { return true }
	doc := func(id string) httpd.Doc { return httpd.Doc{ID: id, Tag: "test", Summary: "x"} }
	httpd.Handle(r, http.MethodGet, "/hello", httpd.Public.BeforeSetup(), doc("hello"), func(c *httpd.Call, _ struct{}) (string, error) {
		if client, server, ok := c.Connection(); ok {
			return fmt.Sprintf("%s: %s to %s", c.Client(), client, server), nil
		}
		return c.Client().String(), nil
	})
	httpd.Handle(r, http.MethodPost, "/echo", httpd.Write.Here(), doc("echo"), func(_ *httpd.Call, in input) (string, error) { return in.Body.Text, nil })
	httpd.Handle(r, http.MethodGet, "/secret", httpd.AdminRead, doc("secret"), func(*httpd.Call, struct{}) (string, error) { return "x", nil })
	httpd.Handle(r, http.MethodGet, "/panic", httpd.Public, doc("panic"), func(*httpd.Call, struct{}) (string, error) { panic("SELECT * FROM users") })
	httpd.Handle(r, http.MethodGet, "/broken", httpd.Public, doc("broken"), func(*httpd.Call, struct{}) (string, error) {
		return "", fmt.Errorf("SELECT * FROM users: %w", io.ErrUnexpectedEOF)
	})
	httpd.Stream(r, "/live", httpd.Read, doc("live"), func(ctx context.Context, _ struct{}, send func(int) error) error {
		for i := 0; ; i++ {
			if err := send(i); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	httpd.Stream(r, "/counted", httpd.Read, doc("counted"), func(ctx context.Context, in counting, send func(wire.Encoded[[]int]) error) error {
		from := 0
		if in.From != nil {
			from = *in.From
		}
		if err := send(fmt.Appendf(nil, "[%d, %q]", from, in.Net.Netip().String())); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	return r, d
}

type counting struct {
	From *int         `query:"from" doc:"The first number."`
	Net  value.Prefix `query:"net" doc:"A network."`
}

// Validate checks what the types do not.
func (c *counting) Validate() error {
	if c.From != nil && *c.From < 1 {
		return fault.Field("from", "must be at least 1")
	}
	return nil
}

var app = fstest.MapFS{
	"index.html":          {Data: []byte(`<meta name="csp-nonce" content="__CSP_NONCE__">`)},
	"assets/a-1234.js":    {Data: []byte("console.log(1)")},
	"assets/a-1234.js.gz": {Data: []byte("gzipped")},
	"favicon.svg":         {Data: []byte("<svg/>")},
}

func TestGA01EnvelopeEverywhere(t *testing.T) {
	r, _ := router(t)
	h := r.Handler(r.App(app))
	for _, x := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"GET", "/nothing", "", 404, "not_found"},
		{"GET", "//hello", "", 404, "not_found"},
		{"POST", "/./echo", `{"text":"a"}`, 404, "not_found"},
		{"GET", "/../v1/hello", "", 404, "not_found"},
		{"GET", "/../..", "", 404, "not_found"},
		{"DELETE", "/hello", "", 405, "method_not_allowed"},
		{"GET", "/panic", "", 500, "internal"},
		{"GET", "/broken", "", 500, "internal"},
		{"POST", "/echo", strings.Repeat("x", 2<<20), 413, "too_large"},
		{"POST", "/echo", `{"text":1}`, 400, "validation_failed"},
		{"POST", "/echo?limit=x", `{"text":"a"}`, 400, "validation_failed"},
	} {
		a := kittest.Call(t, h, x.method, x.path, x.body, "Authorization", "Bearer admin")
		if a.Status != x.status || a.Error.Code != x.code {
			t.Errorf("%s %s: %d %s", x.method, x.path, a.Status, a.Body)
		}
		if strings.Contains(string(a.Body), "SELECT") || strings.Contains(string(a.Body), "goroutine") {
			t.Errorf("internals leave the process: %s", a.Body)
		}
		if a.Header.Get("X-Request-ID") == "" {
			t.Errorf("%s %s has no request id", x.method, x.path)
		}
	}
	if allow := kittest.Call(t, h, "DELETE", "/hello", nil).Header.Get("Allow"); allow != "GET, HEAD" {
		t.Errorf("Allow %q", allow)
	}
}

func TestGA02HostileBodies(t *testing.T) {
	r, _ := router(t)
	h := r.Handler(r.App(app))
	for _, body := range []string{"", "null", "[]", "1", `"x"`, "{", `{"text":{}}`, `{"text":[]}`, `{"text":"a","x":1}`, `{"TEXT":"a"}`, strings.Repeat(`{"text":`, 10000), strings.Repeat("[", 100000), `{"text":"a"}{}`} {
		start := time.Now()
		status, allocated := hostile(t, h, body)
		if status != 400 || time.Since(start) > 10*time.Second || allocated > 10<<20 {
			t.Errorf("%.40q: %d after %s with %d bytes of memory", body, status, time.Since(start), allocated)
		}
	}
	if status, allocated := hostile(t, h, `{"text":"`+strings.Repeat("x", 2<<20)+`"}`); status != 413 || allocated > 10<<20 {
		t.Errorf("2 MiB: %d with %d bytes of memory", status, allocated)
	}
}

// hostile sends a body, and returns the status of the answer and how much memory it took.
func hostile(t *testing.T, h http.Handler, body string) (status int, allocated uint64) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a := kittest.Call(t, h, "POST", "/echo", body, "Authorization", "Bearer admin")
	runtime.ReadMemStats(&after)
	return a.Status, after.TotalAlloc - before.TotalAlloc
}

func TestGA03SinglePageApp(t *testing.T) {
	r, _ := router(t)
	h := r.Handler(r.App(app))
	get := func(path string, headers ...string) *httptest.ResponseRecorder {
		req := httptest.NewRequest("GET", path, nil)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w
	}
	for _, path := range []string{"/", "/setup", "/services/ntp", "/index.html"} {
		w := get(path)
		csp := w.Header().Get("Content-Security-Policy")
		if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "no-cache") || strings.Contains(csp, "unsafe-inline") {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		_, nonce, _ := strings.Cut(w.Body.String(), `content="`)
		if nonce = strings.TrimSuffix(nonce, `">`); nonce == "__CSP_NONCE__" || !strings.Contains(csp, "'nonce-"+nonce+"'") {
			t.Errorf("%s: nonce %q in %q", path, nonce, csp)
		}
	}
	if first := get("/").Body.String(); first == get("/").Body.String() {
		t.Error("the nonce repeats")
	}
	w := get("/assets/a-1234.js")
	if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Body.String() != "console.log(1)" || w.Header().Get("Content-Encoding") != "" {
		t.Errorf("asset: %d %v", w.Code, w.Header())
	}
	if w := get("/assets/a-1234.js", "Accept-Encoding", "gzip"); w.Header().Get("Content-Encoding") != "gzip" || w.Body.String() != "gzipped" || !strings.Contains(w.Header().Get("Content-Type"), "javascript") {
		t.Errorf("compressed asset: %v", w.Header())
	}
	for _, path := range []string{"/assets/gone-99.js", "/assets/", "/gone.js", "/etc/passwd.txt"} {
		if w := get(path); w.Code != 404 || strings.Contains(w.Body.String(), "csp-nonce") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := get("/network/clients/10.10.0.2", "Accept", "text/html,*/*;q=0.8"); w.Code != 200 || !strings.Contains(w.Body.String(), "csp-nonce") {
		t.Errorf("an address of the console with a dot: %d %s", w.Code, w.Body)
	}
	if w := get("/assets/gone-99.js", "Accept", "text/html,*/*;q=0.8"); w.Code != 404 {
		t.Errorf("an asset that is asked for as a page: %d", w.Code)
	}
	for _, header := range []string{"Strict-Transport-Security", "X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy"} {
		if get("/").Header().Get(header) == "" {
			t.Errorf("no %s", header)
		}
	}
}

func TestGateBeforeSetup(t *testing.T) {
	r, _ := router(t)
	done := false
	r.SetupDone = func() bool { return done }
	h := r.Handler(r.App(app))
	kittest.Call(t, h, "GET", "/hello", nil).Want(t, 200)
	if a := kittest.Call(t, h, "POST", "/echo", `{"text":"a"}`, "Authorization", "Bearer admin").Want(t, 503); a.Error.Code != "setup_required" {
		t.Errorf("%s", a.Body)
	}
	done = true
	kittest.Call(t, h, "POST", "/echo", `{"text":"a"}`, "Authorization", "Bearer admin").Want(t, 200)
}

func TestPolicies(t *testing.T) {
	r, _ := router(t)
	h := r.Handler(r.App(app))
	kittest.Call(t, h, "GET", "/secret", nil).Want(t, 401)
	kittest.Call(t, h, "GET", "/secret", nil, "Authorization", "Bearer viewer").Want(t, 403)
	kittest.Call(t, h, "POST", "/echo", `{`, "Authorization", "Bearer viewer").Want(t, 403)
	defer func() {
		if recover() == nil {
			t.Error("a route without a policy was registered")
		}
	}()
	httpd.Handle(r, http.MethodGet, "/open", httpd.Policy{}, httpd.Doc{ID: "open", Tag: "x", Summary: "x"}, func(*httpd.Call, struct{}) (string, error) { return "", nil })
}

func TestAU21OtherSites(t *testing.T) {
	r, _ := router(t)
	h := r.Handler(r.App(app))
	for _, header := range [][2]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "null"}, {"Origin", "http://example.com"}} {
		kittest.Call(t, h, "POST", "/echo", `{"text":"a"}`, "Authorization", "Bearer admin", header[0], header[1]).Want(t, 403)
	}
	kittest.Call(t, h, "POST", "/echo", `{"text":"a"}`, "Authorization", "Bearer admin", "Origin", "https://example.com", "Sec-Fetch-Site", "same-origin").Want(t, 200)
}

func TestAU22Streams(t *testing.T) {
	r, d := router(t)
	server := httptest.NewServer(r.Handler(r.App(app)))
	defer server.Close()
	dial := func(headers ...string) (*websocket.Conn, int) {
		h := http.Header{}
		for i := 0; i < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		conn, res, err := websocket.Dial(t.Context(), server.URL+"/api/v1/live", &websocket.DialOptions{HTTPHeader: h})
		if err != nil {
			return nil, res.StatusCode
		}
		return conn, res.StatusCode
	}
	if _, status := dial(); status != 401 {
		t.Errorf("anonymous: %d", status)
	}
	if _, status := dial("Authorization", "Bearer viewer", "Origin", "https://evil.example"); status != 403 {
		t.Errorf("foreign origin: %d", status)
	}
	host := server.Listener.Addr().String()
	if _, status := dial("Authorization", "Bearer viewer", "Origin", "http://"+host); status != 403 {
		t.Errorf("the same host without TLS: %d", status)
	}
	conn, status := dial("Authorization", "Bearer viewer", "Origin", "https://"+host)
	if status != 101 {
		t.Fatalf("same origin: %d", status)
	}
	defer conn.CloseNow()
	if _, b, err := conn.Read(t.Context()); err != nil || string(b) != "0" {
		t.Fatal(string(b), err)
	}
	// A session that ends closes the stream.
	d.closed.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
				t.Fatalf("closed with %v", err)
			}
			return
		}
	}
}

func TestStreamsTakeParameters(t *testing.T) {
	r, _ := router(t)
	h := r.Handler(r.App(app))
	upgrade := []string{"Authorization", "Bearer viewer", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg=="}
	// All errors are answered before the upgrade, in one envelope.
	for _, from := range []string{"0", "x", "-1"} {
		kittest.Call(t, h, "GET", "/counted?net=nowhere&from="+from, nil, upgrade...).WantField(t, "from").WantField(t, "net")
	}
	kittest.Call(t, h, "GET", "/counted?from=0", nil, append(upgrade, "Origin", "https://evil.example")...).Want(t, 403)

	server := httptest.NewServer(h)
	defer server.Close()
	for query, want := range map[string]string{"": `[0, "invalid Prefix"]`, "?from=7&net=192.0.2.9/24": `[7, "192.0.2.0/24"]`} {
		conn, _, err := websocket.Dial(t.Context(), server.URL+"/api/v1/counted"+query, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer viewer"}}})
		if err != nil {
			t.Fatal(err)
		}
		// A frame that is encoded already is sent unchanged, including its spaces.
		if _, b, err := conn.Read(t.Context()); err != nil || string(b) != want {
			t.Errorf("%q: %s, %v", query, b, err)
		}
		conn.CloseNow()
	}
	doc, err := json.Marshal(r.Spec("1").Paths["/counted"].Get)
	if err != nil || !strings.Contains(string(doc), `"name":"from","schema":{"format":"int64","type":"integer"}`) || !strings.Contains(string(doc), `"items":{"format":"int64","type":"integer"}`) {
		t.Errorf("%s, %v", doc, err)
	}
}

// Text that neither the database nor a file name can hold is refused: as a path parameter it is not found, as a query parameter
// it is invalid.
func TestParametersAreText(t *testing.T) {
	for _, text := range []string{"a%00", "%ff"} {
		var in struct {
			To   string `query:"to"`
			Name string `path:"name"`
		}
		req := httptest.NewRequest(http.MethodGet, "/?to="+text, nil)
		req.SetPathValue("name", "box")
		if err := httpd.Query(req, &in); !fault.Is(err, fault.Invalid) {
			t.Errorf("to=%s: %v", text, err)
		}
		name, _ := url.PathUnescape(text)
		req = httptest.NewRequest(http.MethodGet, "/", nil)
		req.SetPathValue("name", name)
		if err := httpd.Query(req, &in); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Every stream sends heartbeats on request, so that a page can distinguish a quiet stream from a dead one.
func TestStreamsSendAHeartbeat(t *testing.T) {
	r, _ := router(t)
	h := r.Handler(r.App(app))
	upgrade := []string{"Authorization", "Bearer viewer", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg=="}
	for _, seconds := range []string{"0", "61", "x"} {
		kittest.Call(t, h, "GET", "/counted?from=0&heartbeat="+seconds, nil, upgrade...).WantField(t, "heartbeat").WantField(t, "from")
	}
	server := httptest.NewServer(h)
	defer server.Close()
	conn, _, err := websocket.Dial(t.Context(), server.URL+"/api/v1/counted?heartbeat=1", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer viewer"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, b, err := conn.Read(ctx); err != nil || string(b) != `[0, "invalid Prefix"]` {
		t.Fatalf("the event: %s, %v", b, err)
	}
	var before time.Time
	for range 2 {
		_, b, err := conn.Read(ctx)
		var frame map[string]time.Time
		if err != nil || json.Unmarshal(b, &frame) != nil || len(frame) != 1 || !frame["heartbeat"].After(before) {
			t.Fatalf("the heartbeat: %s, %v", b, err)
		}
		before = frame["heartbeat"]
	}
	for _, path := range []string{"/live", "/counted"} {
		if doc, err := json.Marshal(r.Spec("1").Paths[path].Get); err != nil || !strings.Contains(string(doc), `"name":"heartbeat"`) {
			t.Errorf("%s: %s, %v", path, doc, err)
		}
	}
}

// One user's streams cannot become so many that they burden the gateway; those that are closed make room.
func TestTooManyStreams(t *testing.T) {
	r, _ := router(t)
	server := httptest.NewServer(r.Handler(r.App(app)))
	defer server.Close()
	dial := func(role string) (*websocket.Conn, int) {
		t.Helper()
		conn, res, err := websocket.Dial(t.Context(), server.URL+"/api/v1/counted", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + role}}})
		if err != nil && res == nil {
			t.Fatal(err)
		}
		return conn, res.StatusCode
	}
	var open []*websocket.Conn
	for range 20 {
		conn, status := dial("viewer")
		if status != http.StatusSwitchingProtocols {
			t.Fatalf("stream %d: %d", len(open)+1, status)
		}
		defer conn.CloseNow()
		open = append(open, conn)
	}
	if _, status := dial("viewer"); status != http.StatusTooManyRequests {
		t.Errorf("one more: %d", status)
	}
	conn, status := dial("admin")
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("another user: %d", status)
	}
	defer conn.CloseNow()
	open[0].CloseNow()
	waittest.Until(t, "a stream that was closed makes room", func() bool {
		conn, status := dial("viewer")
		if status == http.StatusSwitchingProtocols {
			conn.CloseNow()
		}
		return status == http.StatusSwitchingProtocols
	})
}

func TestListeners(t *testing.T) {
	r, _ := router(t)
	dir := t.TempDir()
	cert := &httpd.SelfSigned{Path: filepath.Join(dir, "cert.pem"), Names: func() []string { return []string{"gateway.example.net", "127.0.0.1"} }}
	proxied, err := httpd.ListenProxied(filepath.Join(dir, "api.sock"), 0o660, "", cert.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- (&httpd.Server{Handler: r.Handler(r.App(app)), Log: slog.New(slog.DiscardHandler)}).Serve(ctx, proxied)
	}()
	ask := func(header string, secure bool) string {
		conn, err := net.Dial("unix", filepath.Join(dir, "api.sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, header)
		var rw io.ReadWriter = conn
		if secure {
			client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // the certificate is self-signed
			if err := client.Handshake(); err != nil {
				t.Fatal(err)
			}
			if err := client.ConnectionState().PeerCertificates[0].VerifyHostname("gateway.example.net"); err != nil {
				t.Error(err)
			}
			rw = client
		}
		_, _ = io.WriteString(rw, "GET /api/v1/hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(rw), nil)
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return string(b)
	}
	if better, err := (&httpd.SelfSigned{Better: func() *tls.Certificate { return &tls.Certificate{OCSPStaple: []byte("x")} }}).Config().GetCertificate(nil); err != nil || better.OCSPStaple == nil {
		t.Errorf("a better certificate is not shown: %v", err)
	}
	header := "PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n"
	for _, secure := range []bool{false, true} {
		if got := ask(header, secure); !strings.Contains(got, "192.0.2.7: 192.0.2.7:4711 to 198.51.100.1:443") {
			t.Errorf("TLS %v: %s", secure, got)
		}
	}
	if got := ask("", false); got != "unexpected EOF" {
		t.Errorf("a client that does not say for whom it speaks is served: %s", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
