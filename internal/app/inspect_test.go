package app_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/proxytest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/proxy"
	"edge.internal/gateway/internal/schema"
	"edge.internal/gateway/internal/waf"
	"edge.internal/gateway/internal/waf/agent"
	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/spoe"
)

// site is a domain that the tests ask for.
type site struct {
	name       string
	inspection *proxy.Inspection
	settings   engine.Settings
	trusted    []netip.Prefix
}

// guarded is an HAProxy as the gateway configures it, with an agent that can be stopped.
type guarded struct {
	plain, secure string // addresses
	root          string
	domains       map[string]uuid.UUID
	stop          func() // the agent
	seen          *inspected
}

// inspected is an engine that keeps what it was given.
type inspected struct {
	agent.Engine
	mu   sync.Mutex
	last engine.Request
}

// Known: every request is inspected.
func (i *inspected) Known(*engine.Request, engine.Settings) bool { return false }

func (i *inspected) Inspect(ctx context.Context, r *engine.Request, with engine.Settings) (engine.Verdict, error) {
	i.mu.Lock()
	i.last = *r
	i.last.Body = bytes.Clone(r.Body)
	i.mu.Unlock()
	return i.Engine.Inspect(ctx, r, with)
}

// engines are shared: building them takes its time.
var engines = sync.OnceValues(engine.New)

// guard runs the sites before a server, on what the gateway renders: other ports and folders alone are the test's, and how long the proxy
// waits for the agent's verdict, for machines that are slow.
func guard(t *testing.T, program, verdictWithin string, origin *httptest.Server, sites ...site) *guarded {
	t.Helper()
	return guardWith(t, program, origin, sites, "timeout processing 1s", "timeout processing "+verdictWithin)
}

// guardWith is guard with other changes of what is rendered: texts, each followed by what stands in its place.
func guardWith(t *testing.T, program string, origin *httptest.Server, sites []site, changes ...string) *guarded {
	t.Helper()
	set, err := engines()
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{plain: proxytest.Address(t), secure: proxytest.Address(t), root: proxytest.Root(t), domains: map[string]uuid.UUID{}, seen: &inspected{Engine: set}}
	certificate, err := (&httpd.SelfSigned{Path: filepath.Join(t.TempDir(), "pem"), Names: func() []string { return []string{"gw.example.net"} }}).PEM()
	if err != nil {
		t.Fatal(err)
	}
	address := netip.MustParseAddrPort(origin.Listener.Addr().String())
	backend := uuid.New()
	c := &proxy.Config{
		Default: certificate, FQDN: value.Must[value.DomainName]("gw.example.net"),
		Backends: []proxy.Backend{{Meta: resource.Meta{ID: backend}, Active: true, Scheme: "http"}},
		Servers:  []proxy.Server{{Meta: resource.Meta{ID: uuid.New()}, BackendID: backend, Active: true, Weight: 100, Address: value.Must[value.Host](address.Addr().String()), Port: int(address.Port())}},
	}
	if err := c.Servers[0].Name.UnmarshalText([]byte("origin")); err != nil {
		t.Fatal(err)
	}
	domains := map[string]*agent.Domain{}
	for _, s := range sites {
		id := uuid.New()
		g.domains[s.name] = id
		c.Domains = append(c.Domains, proxy.Domain{Meta: resource.Meta{ID: id}, Name: value.Must[value.SiteName](s.name), BackendID: backend, Active: true, WWWRedirect: "none"})
		if s.inspection != nil {
			x := *s.inspection
			x.DomainID = id
			c.Inspections = append(c.Inspections, x)
			domains[id.String()] = &agent.Domain{Name: id.String(), Settings: s.settings, Trusted: s.trusted}
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	inspector := agent.New(g.seen, func(name []byte) *agent.Domain { return domains[string(name)] })
	go func() {
		defer close(ended)
		_ = (&spoe.Server{Handler: inspector.Handle, Log: slog.New(slog.DiscardHandler)}).Serve(ctx, l)
	}()
	g.stop = func() { cancel(); <-ended }
	t.Cleanup(g.stop)

	files, err := proxy.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	instead := strings.NewReplacer(append(changes, "bind :80\n", "bind "+g.plain+"\n", "bind :443 ", "bind "+g.secure+" ", "bind :3443 ", "bind "+proxytest.Address(t)+" ",
		"/run/gateway/", g.root+"/run/gateway/", "/run/haproxy/", g.root+"/run/haproxy/", "127.0.0.1:9000", l.Addr().String())...)
	for _, f := range files {
		path := filepath.Join(g.root, f.Place.Path())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		content := f.Content
		if f.Place == host.ProxyConfig || f.Place == host.ProxyInspection {
			content = []byte(instead.Replace(string(content)))
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	proxytest.Start(t, program, g.root)
	return g
}

// answer is what a request got.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request until there was a verdict on it, if one is due: a slow machine may have had no time.
func (g *guarded) ask(t *testing.T, verdict bool, make func() *http.Request) answer {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		res, err := transport.RoundTrip(make())
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
			// It was refused while its body was still on its way, and the client has not read by what.
			if time.Now().Before(deadline) {
				continue
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if !verdict || res.StatusCode != http.StatusServiceUnavailable || time.Now().After(deadline) {
			return answer{res.StatusCode, res.Header, string(text)}
		}
	}
}

// get makes a request without TLS, or with it and HTTP/2.
func (g *guarded) get(site, uri string, secure bool) func() *http.Request {
	return func() *http.Request {
		address := "http://" + g.plain
		if secure {
			address = "https://" + g.secure
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
func (g *guarded) post(site string, body []byte, chunked bool) func() *http.Request {
	return func() *http.Request {
		req := g.get(site, "/upload", false)()
		req.Method = http.MethodPost
		req.Header.Set("Content-Type", "application/json")
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if chunked {
			req.ContentLength = -1
		}
		return req
	}
}

const sqlAttack = "/search?q=1%27+or+%271%27%3D%271"

// counting is a server that tells what reached it.
func counting(t *testing.T) (s *httptest.Server, reached func() []string) {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		mu.Lock()
		seen = append(seen, r.Host+" "+r.URL.String())
		mu.Unlock()
		switch r.URL.Path {
		case "/leak":
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<?php echo 1 ?>")
			return
		case "/long":
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, strings.Repeat("lorem ipsum ", 50_000))
			return
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: <?php echo 1 ?>")
			return
		}
		fmt.Fprintf(w, "%d bytes, accepts=%q, te=%q, for=%q", n, r.Header.Get("Accept-Encoding"), r.Header.Get("Te"), r.Header.Get("X-Forwarded-For"))
	}))
	t.Cleanup(s.Close)
	return s, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string{}, seen...)
	}
}

const (
	blockingSite  = "blocking.example.net"
	detectingSite = "detecting.example.net"
	openSite      = "open.example.net"
	answersSite   = "answers.example.net"
	plainSite     = "plain.example.net"
)

var guardedSites = []site{
	{name: blockingSite, inspection: &proxy.Inspection{MaxBody: 20000}, settings: engine.Settings{Blocking: true, Paranoia: 1, MaxBody: 20000}, trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	{name: detectingSite, inspection: &proxy.Inspection{Detects: true, Open: true, Partial: true, MaxBody: 131072}, settings: engine.Settings{Paranoia: 1, MaxBody: 131072}},
	{name: openSite, inspection: &proxy.Inspection{Open: true, MaxBody: 131072}, settings: engine.Settings{Blocking: true, Paranoia: 1, MaxBody: 131072}},
	{name: answersSite, inspection: &proxy.Inspection{Answers: true, MaxBody: 131072}, settings: engine.Settings{Blocking: true, Paranoia: 1, MaxBody: 131072}},
	{name: plainSite},
}

func onEachHAProxy(t *testing.T, test func(t *testing.T, program string)) {
	t.Run("own", func(t *testing.T) { test(t, proxytest.Own) })
	t.Run("next", func(t *testing.T) { test(t, proxytest.Next(t)) })
}

func TestOnlyInspectedRequestsPass(t *testing.T) {
	onEachHAProxy(t, func(t *testing.T, program string) {
		origin, reached := counting(t)
		g := guard(t, program, "60s", origin, guardedSites...)
		for _, secure := range []bool{false, true} {
			if a := g.ask(t, true, g.get(blockingSite, "/clean?a=b", secure)); a.status != 200 {
				t.Fatalf("secure %v: a clean request gets %d: %s", secure, a.status, a.body)
			}
			a := g.ask(t, true, g.get(blockingSite, sqlAttack, secure))
			reference := a.header.Get("X-Request-ID")
			if a.status != 403 || !regexp.MustCompile(`^[0-9a-f-]{36}$`).MatchString(reference) || !strings.Contains(a.body, "<code>"+reference+"</code>") || a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("secure %v: an attack gets %d %v: %s", secure, a.status, a.header, a.body)
			}
			g.seen.mu.Lock()
			if uri := g.seen.last.URI; g.seen.last.ID != reference || uri != sqlAttack {
				t.Errorf("secure %v: the agent saw %s of %s", secure, uri, g.seen.last.ID)
			}
			g.seen.mu.Unlock()
			for _, name := range []string{detectingSite, plainSite} {
				if a := g.ask(t, true, g.get(name, sqlAttack, secure)); a.status != 200 {
					t.Errorf("secure %v: %s answers %d", secure, name, a.status)
				}
			}
		}
		for _, asked := range reached() {
			if asked == blockingSite+" "+sqlAttack {
				t.Error("an attack reached the server")
			}
		}

		// The agent sees headers as they came, and the server those that the gateway vouches for.
		a := g.ask(t, true, func() *http.Request {
			req := g.get(blockingSite, "/headers", false)()
			req.Header.Set("X-Forwarded-For", "198.51.100.9, 127.0.0.9")
			req.Header.Set("TE", "trailers")
			return req
		})
		if a.status != 200 || !strings.Contains(a.body, `te="", for="127.0.0.1"`) {
			t.Errorf("%d: %s", a.status, a.body)
		}
		g.seen.mu.Lock()
		if client := g.seen.last.Source.Addr().String(); client != "198.51.100.9" {
			t.Errorf("the client is %s", client)
		}
		g.seen.mu.Unlock()
		if a := g.ask(t, false, func() *http.Request {
			req := g.post(blockingSite, []byte("x"), true)()
			req.Trailer = http.Header{"X-Late": {"1"}}
			return req
		}); a.status != 400 {
			t.Errorf("a request with a trailer gets %d", a.status)
		}

		// Responses are inspected where that is wanted.
		for _, secure := range []bool{false, true} {
			a := g.ask(t, true, g.get(answersSite, "/leak", secure))
			if a.status != 403 || strings.Contains(a.body, "php") || !strings.Contains(a.body, a.header.Get("X-Request-ID")) {
				t.Errorf("secure %v: a leak gets out, %d %v: %s", secure, a.status, a.header, a.body)
			}
			if a := g.ask(t, true, g.get(answersSite, "/clean", secure)); a.status != 200 || !strings.Contains(a.body, `accepts=""`) {
				t.Errorf("secure %v: a clean response: %d %s", secure, a.status, a.body)
			}
			if a := g.ask(t, true, g.get(answersSite, "/long", secure)); a.status != 200 || len(a.body) != 600_000 {
				t.Errorf("secure %v: a long response: %d, %d bytes", secure, a.status, len(a.body))
			}
			for path, site := range map[string]string{"/leak": blockingSite, "/events": answersSite} {
				if a := g.ask(t, true, g.get(site, path, secure)); a.status != 200 || !strings.Contains(a.body, "<?php") {
					t.Errorf("secure %v: %s%s: %d %s", secure, site, path, a.status, a.body)
				}
			}
		}

		text := func(size int) []byte { return fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("lorem ipsum ", size/12)) }
		for _, x := range []struct {
			site   string
			size   int
			status int
		}{
			{blockingSite, 19000, 200}, {blockingSite, 21000, 413}, {blockingSite, 200_000, 413}, {openSite, 200_000, 413}, {detectingSite, 200_000, 200}, {plainSite, 200_000, 200},
		} {
			for _, chunked := range []bool{false, true} {
				if a := g.ask(t, true, g.post(x.site, text(x.size), chunked)); a.status != x.status {
					t.Errorf("%d bytes (chunked %v) to %s get %d instead of %d", x.size, chunked, x.site, a.status, x.status)
				}
			}
		}
	})
}

// Where the web application firewall detects and does not block, it refuses nothing: neither trailers nor a body that is late.
func TestDetectionRefusesNothing(t *testing.T) {
	onEachHAProxy(t, func(t *testing.T, program string) {
		origin, _ := counting(t)
		g := guardWith(t, program, origin, guardedSites, "timeout processing 1s", "timeout processing 60s", "wait-for-body time 5s", "wait-for-body time 100ms")
		a := g.ask(t, false, func() *http.Request {
			req := g.post(detectingSite, []byte("x"), true)()
			req.Trailer = http.Header{"X-Late": {"1"}}
			return req
		})
		if a.status != 200 || !strings.Contains(a.body, "1 bytes") {
			t.Errorf("a request with a trailer gets %d: %s", a.status, a.body)
		}
		begin := func(name string) (net.Conn, *bufio.Reader) {
			conn, err := net.Dial("tcp", g.plain)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			fmt.Fprintf(conn, "POST /upload HTTP/1.1\r\nHost: %s\r\nUser-Agent: Mozilla/5.0\r\nAccept: */*\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nab", name)
			return conn, bufio.NewReader(conn)
		}
		status := func(from *bufio.Reader) int {
			res, err := http.ReadResponse(from, nil)
			if err != nil {
				t.Fatal(err)
			}
			return res.StatusCode
		}
		late, lateAnswer := begin(detectingSite)
		_, refusal := begin(blockingSite)
		// When the one that began later is refused, the other one is late, too.
		if got := status(refusal); got != 408 {
			t.Errorf("a late body of a site that blocks gets %d", got)
		}
		fmt.Fprint(late, "cd")
		if got := status(lateAnswer); got != 200 {
			t.Errorf("a late body of a site that detects gets %d", got)
		}
	})
}

// Without an agent each domain gets what fail_open says, and there is a record of it.
func TestNothingPassesSilently(t *testing.T) {
	onEachHAProxy(t, func(t *testing.T, program string) {
		origin, reached := counting(t)
		g := guard(t, program, "1s", origin, guardedSites...)
		if a := g.ask(t, true, g.get(blockingSite, "/", false)); a.status != 200 {
			t.Fatalf("%d: %s", a.status, a.body)
		}

		b := kittest.New(t)
		room := waf.New(b.Kit, waf.Deps{DomainTable: proxy.DomainTable, Domains: namesOf(g.domains)})
		room.Mount()
		b.Start(t)
		said, err := httpd.ListenDatagrams(filepath.Join(g.root, "run/gateway/waf.sock"), 0o666, "haproxy")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { room.Run(ctx, said); close(done) }()
		defer func() { cancel(); <-done }()

		g.stop()
		before := len(reached())
		for name, status := range map[string]int{blockingSite: 503, detectingSite: 200, openSite: 200, plainSite: 200, answersSite: 503} {
			if a := g.ask(t, false, g.get(name, sqlAttack, false)); a.status != status {
				t.Errorf("%s answers %d instead of %d", name, a.status, status)
			}
		}
		if n := len(reached()) - before; n != 3 {
			t.Errorf("%d requests reached the server", n)
		}
		recorded := map[string]string{}
		for deadline := time.Now().Add(time.Minute); len(recorded) < 4; time.Sleep(50 * time.Millisecond) {
			var list []waf.Alert
			b.Get(t, "/waf/alerts?action=unavailable").Want(t, 200).Into(t, &list)
			for _, a := range list {
				recorded[a.Domain] = a.Message
				severity := "warning" // it passed
				if a.Domain == blockingSite || a.Domain == answersSite {
					severity = "critical"
				}
				if a.URI != sqlAttack || a.Method != "GET" || a.ClientIP != "127.0.0.1" || a.RequestID == "" || a.Severity != severity {
					t.Fatalf("%+v", a)
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("recorded: %v", recorded)
			}
		}
		for name, want := range map[string]string{blockingSite: ": at least 1 refused.", answersSite: ": at least 1 refused.", detectingSite: ": at least 1 let through.", openSite: ": at least 1 let through."} {
			if !strings.Contains(recorded[name], want) {
				t.Errorf("%s: %q", name, recorded[name])
			}
		}
	})
}

// namesOf are the names of domains that are stored nowhere.
func namesOf(domains map[string]uuid.UUID) func(context.Context, db.Querier) (map[uuid.UUID]string, error) {
	names := map[uuid.UUID]string{}
	for name, id := range domains {
		names[id] = name
	}
	return func(context.Context, db.Querier) (map[uuid.UUID]string, error) { return names, nil }
}

// Of what a domain wants of the WAF, HAProxy is told only what it needs, and reloads only when the first domain wants any of it.
func TestWAFChangesWhileTheProxyRuns(t *testing.T) {
	b := kittest.New(t)
	var mu sync.Mutex
	var told []string
	b.Machine.SetUnit(host.UnitState{Unit: host.HAProxy, Installed: true, Active: "active"})
	b.Machine.AnswerProxy(func(q host.ProxyQuestion) (string, error) {
		words := strings.Join(q.Words, " ")
		if words == "show info" {
			config, err := b.Machine.Read(host.ProxyConfig)
			_, mark, _ := strings.Cut(string(config), "\n  description ")
			return "description: " + strings.TrimSpace(mark), err
		}
		if q.Words[0] != "show" {
			mu.Lock()
			told = append(told, words)
			mu.Unlock()
		}
		return "", nil
	})
	h := build(t, b)
	admin := h.setUp(t)
	var backend, one, two struct{ ID string }
	h.call(t, admin, http.MethodPost, "/backends", `{"name":"app"}`).Want(t, 201).Into(t, &backend)
	h.call(t, admin, http.MethodPost, "/domains", `{"name":"one.example.net","backend_id":"`+backend.ID+`"}`).Want(t, 201).Into(t, &one)
	h.call(t, admin, http.MethodPost, "/domains", `{"name":"two.example.net","backend_id":"`+backend.ID+`"}`).Want(t, 201).Into(t, &two)
	for _, x := range []struct {
		name, domain, body string
		reloads            int
		told               string
	}{
		{"stored, but off", one.ID, `{"mode":"blocking"}`, 0, ""},
		{"the first", one.ID, `{"enabled":true}`, 1, ""},
		{"paranoia", one.ID, `{"paranoia_level":2}`, 0, ""},
		{"exclusions", one.ID, `{"exclusions":[{"rule_id":942100,"path":"/a"}],"trusted_proxies":["192.0.2.1"],"rule_exclusions":[941100]}`, 0, ""},
		{"custom rules", one.ID, `{"custom_rules":"SecAction \"id:1,phase:1,pass\""}`, 0, ""},
		{"the second", two.ID, `{"enabled":true}`, 0, "set map maps/hosts.map two.example.net fdoi|" + two.ID},
		{"fail open", one.ID, `{"fail_open":true}`, 0, "set map maps/hosts.map one.example.net fo|" + one.ID},
		{"large bodies", one.ID, `{"oversized":"inspect"}`, 0, "set map maps/hosts.map one.example.net foi|" + one.ID},
		{"blocking", two.ID, `{"mode":"blocking"}`, 0, "set map maps/hosts.map two.example.net f|" + two.ID},
	} {
		mu.Lock()
		told = nil
		mu.Unlock()
		before := b.Machine.ProxyReloads()
		a := h.call(t, admin, http.MethodPut, "/waf/configs/"+x.domain, x.body).Want(t, 200)
		mu.Lock()
		said := strings.Join(told, "\n")
		mu.Unlock()
		if got := a.Header.Get("Gateway-Apply"); got != "ids=live, reverse-proxy=live" || b.Machine.ProxyReloads()-before != x.reloads || !strings.HasPrefix(said, x.told) || x.told == "" && said != "" {
			t.Errorf("%s: %s after %d reloads and %q", x.name, got, b.Machine.ProxyReloads()-before, said)
		}
	}
}

// The agent's role may read its configuration and add what it found, and nothing else.
func TestRightsOfTheAgent(t *testing.T) {
	d := dbtest.New(t)
	dbtest.Exec(t, d, `DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gateway-waf') THEN CREATE ROLE "gateway-waf"; END IF; END $$`)
	dbtest.Exec(t, d, schema.Grants)
	dbtest.Exec(t, d, schema.Grants)
	rows, err := d.Query(t.Context(), `
		SELECT c.relname || ' ' || p FROM pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) p
		WHERE c.relkind IN ('r', 'S', 'v') AND c.relnamespace = 'public'::regnamespace AND (c.relkind = 'r' OR p IN ('SELECT', 'UPDATE')) AND has_table_privilege('gateway-waf', c.oid, p) ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	has, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if want := "[waf_alerts INSERT waf_configs SELECT waf_requests INSERT]"; err != nil || fmt.Sprint(has) != want {
		t.Errorf("%v, %v", has, err)
	}
}
