package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon/haproxy/proxytest"
	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/spoe"
	"edge.internal/gateway/internal/waf/spoe/spoetest"
)

// long is longer than anything takes on the slowest machine. A test that waits this long has failed.
const long = time.Minute

// patience replaces Within in these tests, so that a slow machine does not prevent a verdict.
const patience = 2 * time.Second

// fakeEngine stands in for the rule set: it denies URIs that name an attack, and does what other URIs say. It keeps what it was given.
type fakeEngine struct {
	mu      sync.Mutex
	last    engine.Request
	answer  engine.Response
	with    engine.Settings
	running chan struct{} // notified of every request to /block, which then stays until release is closed
	release chan struct{}
}

func (f *fakeEngine) Known(r *engine.Request, _ engine.Settings) bool { return r.URI == "/known" }

func (f *fakeEngine) Inspect(ctx context.Context, r *engine.Request, with engine.Settings) (engine.Verdict, error) {
	f.mu.Lock()
	f.last, f.with = *r, with
	f.last.Body = slices.Clone(r.Body)
	f.mu.Unlock()
	switch path, _, _ := strings.Cut(r.URI, "?"); path {
	case "/fail":
		return engine.Verdict{}, errors.New("no such rule")
	case "/slow":
		<-ctx.Done()
		return engine.Verdict{}, fmt.Errorf("inspecting: %w", ctx.Err())
	case "/panic":
		panic("index out of range")
	case "/block":
		f.running <- struct{}{}
		<-f.release
	}
	if strings.Contains(r.URI, "attack") || bytes.Contains(r.Body, []byte("attack")) {
		return engine.Verdict{Deny: with.Blocking, Rule: 942100, Score: 5}, nil
	}
	return engine.Verdict{}, nil
}

func (f *fakeEngine) InspectResponse(_ context.Context, r *engine.Request, res *engine.Response, with engine.Settings) (engine.Verdict, error) {
	f.mu.Lock()
	f.last, f.answer, f.with = *r, *res, with
	f.answer.Body = slices.Clone(res.Body)
	f.mu.Unlock()
	if bytes.Contains(res.Body, []byte("leak")) {
		return engine.Verdict{Deny: with.Blocking, Rule: 959100, Score: 4, Response: true}, nil
	}
	return engine.Verdict{Response: true}, nil
}

func (f *fakeEngine) seen() (engine.Request, engine.Settings) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.with
}

var domains = map[string]*Domain{
	"shop": {ID: "shop", Settings: engine.Settings{Blocking: true, Paranoia: 2}, Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32"), netip.MustParsePrefix("10.0.0.0/8")}},
	"bank": {ID: "bank", Settings: engine.Settings{Blocking: true, Paranoia: 4}},
	"blog": {ID: "blog", Settings: engine.Settings{Paranoia: 1}},
}

func start(t *testing.T, e Engine) (address string) {
	t.Helper()
	a := New(e, func(name []byte) *Domain { return domains[string(name)] })
	a.within = patience
	a.Soon = func(ctx context.Context, name []byte) *Domain {
		switch string(name) {
		case "soon": // it exists on the second request
			return domains["shop"]
		case "later":
			<-ctx.Done()
		}
		return nil
	}
	return serve(t, &spoe.Server{Handler: a.Handle, Quick: a.Quick, Log: slog.New(slog.DiscardHandler)})
}

// A request that is known to match nothing is answered like an inspected one, without asking the engine.
func TestWhatIsKnownIsNotInspected(t *testing.T) {
	e := &fakeEngine{}
	c := spoetest.Dial(t, start(t, e))
	ask := func(uri string) map[string]any {
		t.Helper()
		set, err := c.Ask("waf-req", notification(spoetest.Arg{Name: "url", Value: uri})...)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	known := ask("/known")
	if r, _ := e.seen(); r.URI != "" {
		t.Errorf("asked about %s", r.URI)
	}
	if inspected := ask("/other"); !reflect.DeepEqual(known, inspected) || known["verdict"] != Pass {
		t.Errorf("%v, and inspected %v", known, inspected)
	}
}

func serve(t *testing.T, server *spoe.Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// notification is a message about a request, with some arguments changed.
func notification(change ...spoetest.Arg) []spoetest.Arg {
	args := []spoetest.Arg{
		{Name: "id", Value: "4711"}, {Name: "domain", Value: "shop"},
		{Name: "src", Value: netip.MustParseAddr("127.0.0.1")}, {Name: "sport", Value: 40000},
		{Name: "dst", Value: netip.MustParseAddr("2001:db8::1")}, {Name: "dport", Value: 443},
		{Name: "method", Value: "GET"}, {Name: "url", Value: "/"}, {Name: "ver", Value: "1.1"},
		{Name: "hdrs", Value: spoetest.Block("host", "shop.example.net")}, {Name: "body", Value: []byte{}}, {Name: "eom", Value: true},
	}
	for _, c := range change {
		args[slices.IndexFunc(args, func(a spoetest.Arg) bool { return a.Name == c.Name })] = c
	}
	return args
}

func ask(t *testing.T, c *spoetest.Client, args []spoetest.Arg) map[string]any {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(long))
	set, err := c.Ask("waf-req", args...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestTheEngineGetsTheRequest(t *testing.T) {
	fake := &fakeEngine{}
	c := spoetest.Dial(t, start(t, fake))
	body := []byte("a=b")
	set := ask(t, c, notification(spoetest.Arg{Name: "src", Value: netip.MustParseAddr("::ffff:10.0.0.1")}, spoetest.Arg{Name: "method", Value: "POST"}, spoetest.Arg{Name: "url", Value: "/a?b"},
		spoetest.Arg{Name: "hdrs", Value: spoetest.Block("host", "a", "x-forwarded-for", "198.51.100.7")}, spoetest.Arg{Name: "body", Value: body}, spoetest.Arg{Name: "eom", Value: false}))
	got, with := fake.seen()
	want := engine.Request{
		ID: "4711", Domain: "shop", Source: netip.MustParseAddrPort("198.51.100.7:0"), Destination: netip.MustParseAddrPort("[2001:db8::1]:443"),
		Method: "POST", URI: "/a?b", Version: "HTTP/1.1", Header: []engine.Field{{Name: "host", Value: "a"}, {Name: "x-forwarded-for", Value: "198.51.100.7"}}, Body: body,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
	if !reflect.DeepEqual(with, domains["shop"].Settings) {
		t.Errorf("inspected with %+v", with)
	}
	if want := map[string]any{"client": "198.51.100.7", "verdict": "pass", "score": 0}; !maps.Equal(set, want) {
		t.Errorf("set: %v", set)
	}
	// What the engine keeps of one request is not touched by the next.
	ask(t, c, notification(spoetest.Arg{Name: "url", Value: "/XXXXXXXX"}, spoetest.Arg{Name: "hdrs", Value: spoetest.Block("XXXX", "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX")}))
	if got.URI != "/a?b" || got.Header[1].Value != "198.51.100.7" || got.ID != "4711" {
		t.Errorf("now it is %+v", got)
	}
	if got, _ := fake.seen(); got.Source != netip.MustParseAddrPort("127.0.0.1:40000") || !got.Complete {
		t.Errorf("%+v", got)
	}
}

// A response has its own message, which names the client found for the request.
func TestTheEngineGetsTheResponse(t *testing.T) {
	fake := &fakeEngine{}
	c := spoetest.Dial(t, start(t, fake))
	answerTo := func(domain, body string) map[string]any {
		_ = c.SetDeadline(time.Now().Add(long))
		set, err := c.Ask("waf-res", spoetest.Arg{Name: "id", Value: "4711"}, spoetest.Arg{Name: "domain", Value: domain},
			spoetest.Arg{Name: "src", Value: netip.MustParseAddr("127.0.0.9")}, spoetest.Arg{Name: "sport", Value: 40000}, spoetest.Arg{Name: "dst", Value: netip.MustParseAddr("2001:db8::1")}, spoetest.Arg{Name: "dport", Value: 443},
			spoetest.Arg{Name: "client", Value: "198.51.100.7"}, spoetest.Arg{Name: "method", Value: "GET"}, spoetest.Arg{Name: "url", Value: "/page"}, spoetest.Arg{Name: "host", Value: "shop.example.net"},
			spoetest.Arg{Name: "status", Value: 500}, spoetest.Arg{Name: "ver", Value: "1.1"}, spoetest.Arg{Name: "hdrs", Value: spoetest.Block("content-type", "text/html")}, spoetest.Arg{Name: "body", Value: []byte(body)}, spoetest.Arg{Name: "eom", Value: true})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	if set := answerTo("shop", "a leak"); !maps.Equal(set, map[string]any{"answer": "deny", "rule": 959100, "score": 4}) {
		t.Errorf("%v", set)
	}
	wantRequest := engine.Request{
		ID: "4711", Domain: "shop", Source: netip.MustParseAddrPort("198.51.100.7:0"), Destination: netip.MustParseAddrPort("[2001:db8::1]:443"),
		Method: "GET", URI: "/page", Version: "HTTP/1.1", Header: []engine.Field{{Name: "host", Value: "shop.example.net"}}, Complete: true,
	}
	wantResponse := engine.Response{Status: 500, Version: "HTTP/1.1", Header: []engine.Field{{Name: "content-type", Value: "text/html"}}, Body: []byte("a leak"), Complete: true}
	if got, _ := fake.seen(); !reflect.DeepEqual(got, wantRequest) || !reflect.DeepEqual(fake.answer, wantResponse) {
		t.Errorf("%+v, %+v", got, fake.answer)
	}
	if set := answerTo("blog", "a leak"); !maps.Equal(set, map[string]any{"answer": "pass", "score": 4}) {
		t.Errorf("detected: %v", set)
	}
	if set := answerTo("shop", "fine"); !maps.Equal(set, map[string]any{"answer": "pass", "score": 0}) {
		t.Errorf("clean: %v", set)
	}
	if set := answerTo("other", "fine"); !maps.Equal(set, map[string]any{"error": "domain"}) {
		t.Errorf("unknown: %v", set)
	}
}

func TestAnswers(t *testing.T) {
	c := spoetest.Dial(t, start(t, &fakeEngine{}))
	url := func(text string, more ...spoetest.Arg) []spoetest.Arg {
		return notification(append(more, spoetest.Arg{Name: "url", Value: text})...)
	}
	for name, one := range map[string]struct {
		args []spoetest.Arg
		want map[string]any
	}{
		"clean":                {url("/"), map[string]any{"client": "127.0.0.1", "verdict": "pass", "score": 0}},
		"an attack":            {url("/attack"), map[string]any{"client": "127.0.0.1", "verdict": "deny", "rule": 942100, "score": 5}},
		"an attack, detected":  {url("/attack", spoetest.Arg{Name: "domain", Value: "blog"}), map[string]any{"client": "127.0.0.1", "verdict": "pass", "score": 5}},
		"the engine fails":     {url("/fail"), map[string]any{"client": "127.0.0.1", "error": "engine"}},
		"the engine is slow":   {url("/slow"), map[string]any{"client": "127.0.0.1", "error": "deadline"}},
		"the engine panics":    {url("/panic"), map[string]any{}},
		"an unknown domain":    {url("/", spoetest.Arg{Name: "domain", Value: "other"}), map[string]any{"error": "domain"}},
		"a domain soon":        {url("/attack", spoetest.Arg{Name: "domain", Value: "soon"}), map[string]any{"client": "127.0.0.1", "verdict": "deny", "rule": 942100, "score": 5}},
		"a domain too late":    {url("/", spoetest.Arg{Name: "domain", Value: "later"}), map[string]any{"error": "domain"}},
		"no domain":            {url("/", spoetest.Arg{Name: "domain"}), map[string]any{"error": "domain"}},
		"no URL":               {notification(spoetest.Arg{Name: "url"}), map[string]any{"error": "message"}},
		"no method":            {notification(spoetest.Arg{Name: "method"}), map[string]any{"error": "message"}},
		"no peer":              {notification(spoetest.Arg{Name: "src"}), map[string]any{"error": "message"}},
		"no header":            {notification(spoetest.Arg{Name: "hdrs"}), map[string]any{"error": "message"}},
		"half a header":        {notification(spoetest.Arg{Name: "hdrs", Value: []byte{4, 'h'}}), map[string]any{"error": "message"}},
		"a header as a text":   {notification(spoetest.Arg{Name: "hdrs", Value: "host: a\r\n\r\n"}), map[string]any{"error": "message"}},
		"a body not fetched":   {notification(spoetest.Arg{Name: "body"}), map[string]any{"error": "message"}},
		"a number as the URL":  {notification(spoetest.Arg{Name: "url", Value: 5}), map[string]any{"error": "message"}},
		"no arguments at all":  {nil, map[string]any{"error": "message"}},
		"the header twice":     {append(notification(spoetest.Arg{Name: "body"}), spoetest.Arg{Name: "hdrs", Value: spoetest.Block()}), map[string]any{"error": "message"}},
		"an argument too many": {append(notification(), spoetest.Arg{Name: "colour", Value: "red"}), map[string]any{"client": "127.0.0.1", "verdict": "pass", "score": 0}},
	} {
		if set := ask(t, c, one.args); !maps.Equal(set, one.want) {
			t.Errorf("%s: %v, not %v", name, set, one.want)
		}
	}
	if set, err := c.Ask("another-message", notification()...); err != nil || !maps.Equal(set, map[string]any{"error": "message"}) {
		t.Errorf("another message: %v, %v", set, err)
	}
}

// proxy asks the agent about every request, and shows its answer. A request that does not pass gets a 503. Only failures reach its
// limits.
const proxy = `global
	stats socket %[1]s/run/haproxy/admin.sock level admin
	tune.bufsize 131072
	tune.maxrewrite 1024
	tune.http.maxhdr 256
defaults
	mode http
	timeout connect 60s
	timeout client 60s
	timeout server 60s
backend gateway_waf
	mode tcp
	timeout check 60s
	option spop-check
	server agent %[2]s check inter 100ms
frontend web
	bind %[3]s
	unique-id-format %%[uuid()]
	filter spoe engine waf config %[1]s/etc/haproxy/gateway/spoe.cfg
	http-request set-var(txn.request) unique-id
	http-request set-var(txn.uri) url
	http-request set-var(txn.id) req.hdr(host)
	http-request wait-for-body time 60s
	http-request send-spoe-group waf request
	http-after-response set-header x-client "%%[var(txn.waf.client)]"
	http-after-response set-header x-error "%%[var(txn.waf.error)]"
	http-request return status 403 hdr x-rule "%%[var(txn.waf.rule)]" if { var(txn.waf.verdict) -m str deny }
	http-request return status 503 if !{ var(txn.waf.verdict) -m str pass }
	http-request return status 200
`

// configure writes HAProxy's configuration and, beside it, the gateway's own configuration of the filter with another timeout.
func configure(t *testing.T, root, agent, address string) {
	t.Helper()
	asks, err := os.ReadFile("../../proxy/spoe.cfg")
	if err != nil {
		t.Fatal(err)
	}
	patient := strings.NewReplacer("timeout hello 500ms", "timeout hello 60s", "timeout idle 30s", "timeout idle 60s", "timeout processing 1s", "timeout processing 60s")
	for name, text := range map[string]string{"haproxy.cfg": fmt.Sprintf(proxy, root, agent, address), "spoe.cfg": patient.Replace(string(asks))} {
		if err := os.WriteFile(filepath.Join(root, "etc/haproxy/gateway", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// exchange makes a request from a loopback address, and returns the answer.
func exchange(t *testing.T, from, address, request string) *http.Response {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(long))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res
}

func TestThroughHAProxy(t *testing.T) {
	for name, program := range map[string]string{"own": proxytest.Own, "next": proxytest.Next(t)} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeEngine{}
			agent, root, address := start(t, fake), proxytest.Root(t), proxytest.Address(t)
			configure(t, root, agent, address)
			proxytest.Start(t, program, root)
			for name, c := range map[string]struct {
				from, request         string
				status                int
				client, problem, rule string
			}{
				"clean":        {"127.0.0.5", "GET / HTTP/1.1\r\nHost: shop\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n", 200, "127.0.0.5", "", ""},
				"an attack":    {"127.0.0.5", "POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 6\r\n\r\nattack", 403, "127.0.0.5", "", "942100"},
				"in chunks":    {"127.0.0.5", "POST / HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n3\r\natt\r\n3\r\nack\r\n0\r\n\r\n", 403, "127.0.0.5", "", "942100"},
				"detected":     {"127.0.0.5", "GET /attack HTTP/1.1\r\nHost: blog\r\n\r\n", 200, "127.0.0.5", "", ""},
				"proxied":      {"127.0.0.9", "GET / HTTP/1.1\r\nHost: shop\r\nX-Forwarded-For: 203.0.113.9, 198.51.100.7\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n", 200, "198.51.100.7", "", ""},
				"another host": {"127.0.0.5", "GET / HTTP/1.1\r\nHost: other\r\n\r\n", 503, "", "domain", ""},
				"panic":        {"127.0.0.5", "GET /panic HTTP/1.1\r\nHost: shop\r\n\r\n", 503, "", "", ""},
				"large":        {"127.0.0.5", "POST / HTTP/1.1\r\nHost: bank\r\nContent-Length: 110000\r\n\r\n" + strings.Repeat("x", 110000), 200, "127.0.0.5", "", ""},
			} {
				res := exchange(t, c.from, address, c.request)
				if got := res.Header; res.StatusCode != c.status || got.Get("X-Client") != c.client || got.Get("X-Error") != c.problem || got.Get("X-Rule") != c.rule {
					t.Errorf("%s: %s %v", name, res.Status, got)
				}
			}
			// The engine gets exactly the request that was sent.
			exchange(t, "127.0.0.5", address, "PURGE /%2e/a?b=c&d HTTP/1.1\r\nHost: shop\r\nX-A: 1\r\nX-B: \xff\r\nx-a: 2\r\nContent-Length: 3\r\n\r\n\x00\x01\x02")
			got, _ := fake.seen()
			names := []string{}
			for _, f := range got.Header {
				names = append(names, f.Name+"="+f.Value)
			}
			if got.ID == "" || got.Domain != "shop" || got.Source.Addr().String() != "127.0.0.5" || got.Source.Port() == 0 || got.Destination.String() != address || got.Method != "PURGE" ||
				got.URI != "/%2e/a?b=c&d" || got.Version != "HTTP/1.1" || !slices.Equal(names, []string{"host=shop", "x-a=1", "x-b=\xff", "x-a=2", "content-length=3"}) || string(got.Body) != "\x00\x01\x02" || !got.Complete {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestOverload checks that while every core is busy with endless requests, another one gets the answer that there is no verdict in time,
// and is not started.
func TestOverload(t *testing.T) {
	fake := &fakeEngine{running: make(chan struct{}, 1000), release: make(chan struct{})}
	address := start(t, fake)
	slots := New(fake, nil).gate.slots
	var clients sync.WaitGroup
	for range slots {
		c := spoetest.Dial(t, address)
		clients.Go(func() {
			if set, err := c.Ask("waf-req", notification(spoetest.Arg{Name: "url", Value: "/block"})...); err != nil || set["verdict"] != Pass {
				t.Errorf("%v, %v", set, err)
			}
		})
	}
	for range slots {
		<-fake.running
	}
	if set := ask(t, spoetest.Dial(t, address), notification(spoetest.Arg{Name: "url", Value: "/block"})); !maps.Equal(set, map[string]any{"client": "127.0.0.1", "error": "busy"}) {
		t.Errorf("%v", set)
	}
	if begun := len(fake.running); begun != 0 {
		t.Errorf("%d more were begun", begun)
	}
	close(fake.release)
	clients.Wait()
	if set := ask(t, spoetest.Dial(t, address), notification()); set["verdict"] != Pass {
		t.Errorf("afterwards: %v", set)
	}
}
