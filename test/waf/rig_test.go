// Package waf has tests of the web application firewall as sites get it: HAProxy with the configuration that the gateway renders, the agent
// with its own limit of time, and a server behind them.
package waf

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy/proxytest"
	"edge.internal/gateway/internal/kit/host/nettest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/proxy"
	"edge.internal/gateway/internal/waf"
	"edge.internal/gateway/internal/waf/agent"
	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/spoe"
)

// long is longer than anything takes on the slowest machine. A test that waits for that long has failed.
const long = time.Minute

func TestMain(m *testing.M) { nettest.Main(m) }

// rules are shared, because building them is slow.
var rules = sync.OnceValues(engine.New)

// site is a domain, and how its requests are inspected: nil if they are not.
type site struct {
	name       string
	inspection *proxy.Inspection
	paranoia   int // 1 by default
	trusted    []netip.Prefix
}

// rig is HAProxy on the gateway's own ports, the agent that it calls, and the server of all sites. Only one runs at a time.
type rig struct {
	root   string
	names  map[uuid.UUID]string
	origin *origin
	stop   func() // the agent
}

// start runs all of it until the test ends. In the gateway's rendered files, the paths of sockets are replaced, and each of the given texts by
// the one that follows it.
func start(t *testing.T, program string, e agent.Engine, sites []site, changes ...string) *rig {
	t.Helper()
	r := &rig{root: proxytest.Root(t), names: map[uuid.UUID]string{}, origin: serve(t)}
	pem, err := (&httpd.SelfSigned{Path: filepath.Join(r.root, "pem"), Names: func() []string { return []string{"gw.example.net"} }}).PEM()
	if err != nil {
		t.Fatal(err)
	}
	backend := uuid.New()
	c := &proxy.Config{
		Default: pem, FQDN: value.Must[value.DomainName]("gw.example.net"),
		Backends: []proxy.Backend{{Meta: resource.Meta{ID: backend}, Active: true, Scheme: "http"}},
		Servers: []proxy.Server{{Meta: resource.Meta{ID: uuid.New()}, BackendID: backend, Active: true, Weight: 100,
			Address: value.Must[value.Host](r.origin.at.IP.String()), Port: r.origin.at.Port}},
	}
	if err := c.Servers[0].Name.UnmarshalText([]byte("origin")); err != nil {
		t.Fatal(err)
	}
	domains := map[string]*agent.Domain{}
	for _, s := range sites {
		id := uuid.New()
		r.names[id] = s.name
		c.Domains = append(c.Domains, proxy.Domain{
			Meta: resource.Meta{ID: id}, Name: value.Must[value.SiteName](s.name), BackendID: backend, Active: true, WWWRedirect: "none",
		})
		if s.inspection != nil {
			x := *s.inspection
			x.DomainID, x.MaxBody = id, cmp.Or(x.MaxBody, 128<<10)
			c.Inspections = append(c.Inspections, x)
			settings := engine.Settings{Blocking: !x.Detects, Paranoia: cmp.Or(s.paranoia, 1), MaxBody: x.MaxBody}
			domains[id.String()] = &agent.Domain{ID: id.String(), Settings: settings, Trusted: s.trusted}
		}
	}
	r.inspect(t, agent.New(e, func(name []byte) *agent.Domain { return domains[string(name)] }))
	files, err := proxy.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	instead := strings.NewReplacer(append(changes, "/run/", r.root+"/run/")...)
	for _, f := range files {
		path := filepath.Join(r.root, f.Place.Path())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		content := f.Content
		if f.Place != haproxy.DefaultCertificate {
			content = []byte(instead.Replace(string(content)))
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	proxytest.Start(t, program, r.root)
	return r
}

// inspect has an agent answer HAProxy as gateway-waf does.
func (r *rig) inspect(t *testing.T, a *agent.Agent) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:9000")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- (&spoe.Server{Handler: a.Handle, Quick: a.Quick, Log: slog.New(slog.DiscardHandler)}).Serve(ctx, l)
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
}

// record lets the service record HAProxy's reports of requests that were not inspected.
func (r *rig) record(t *testing.T) *kittest.Bench {
	t.Helper()
	b := kittest.New(t)
	names := func(context.Context, db.Querier) (map[uuid.UUID]string, error) { return r.names, nil }
	room := waf.New(b.Kit, waf.Deps{DomainTable: proxy.DomainTable, Domains: names})
	room.Mount()
	b.Start(t)
	said, err := httpd.ListenDatagrams(filepath.Join(r.root, "run/gateway/waf.sock"), 0o660, "haproxy")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { room.Run(ctx, said); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return b
}

// witness is an engine that records its calls and its verdicts: of requests by the client's address and port, of
// responses by the request's number.
type witness struct {
	agent.Engine
	last            atomic.Pointer[engine.Request]
	asked, answered sync.Map
}

// asked is the number of a request, and its verdict.
type asked struct {
	number  string
	verdict engine.Verdict
}

// Known: every request is inspected.
func (w *witness) Known(*engine.Request, engine.Settings) bool { return false }

func (w *witness) Inspect(ctx context.Context, r *engine.Request, with engine.Settings) (engine.Verdict, error) {
	kept := *r
	kept.Body = nil // it does not belong to the engine
	w.last.Store(&kept)
	v, err := w.Engine.Inspect(ctx, r, with)
	if err == nil {
		w.asked.Store(r.Source.String(), asked{r.ID, v})
	}
	return v, err
}

func (w *witness) InspectResponse(ctx context.Context, r *engine.Request, res *engine.Response, with engine.Settings) (engine.Verdict, error) {
	v, err := w.Engine.InspectResponse(ctx, r, res, with)
	if err == nil {
		w.answered.Store(r.ID, v)
	}
	return v, err
}

// answer is what a request got.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request until there was a verdict on it, if one is due: a slow machine may have had no time.
func ask(t *testing.T, verdict bool, make func() *http.Request) (a answer) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Timeout: long, Transport: transport}
	waittest.UntilNil(t, "an answer", func() error {
		res, err := client.Do(make())
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
			return err // It was refused while its body was still on its way, and the client has not read by what.
		}
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		a = answer{res.StatusCode, res.Header, string(text)}
		if verdict && a.status == http.StatusServiceUnavailable {
			return errors.New(a.body)
		}
		return nil
	})
	return a
}

// get makes a request without TLS, or with TLS and HTTP/2.
func get(site, uri string, secure bool) func() *http.Request {
	return func() *http.Request {
		address := "http://127.0.0.1"
		if secure {
			address = "https://127.0.0.1"
		}
		req, err := http.NewRequest(http.MethodGet, address+uri, nil)
		if err != nil {
			panic(err)
		}
		req.Host = site
		req.Header.Set("User-Agent", "Mozilla/5.0")
		req.Header.Set("Accept", "*/*")
		return req
	}
}

// post sends a body, with its length or in chunks.
func post(site, uri, kind string, body []byte, chunked bool) func() *http.Request {
	return func() *http.Request {
		req := get(site, uri, false)()
		req.Method = http.MethodPost
		req.Header.Set("Content-Type", kind)
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if chunked {
			req.ContentLength = -1
		}
		return req
	}
}
