package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// What changes often changes while HAProxy runs: connections stay, and nothing is read again.
func changesWithoutAReload(t *testing.T, p *proxyRig) {
	backend := p.backend(t, nil, p.to("a"))
	secure := p.backend(t, fields{"scheme": "https", "health_check_enabled": true, "health_check_path": "/health", "health_check_interval_seconds": 1}, p.to("tls"))
	other, otherPath := p.site(t, "b")
	p.site(t, "b", fields{"rate_limit_enabled": true, "rate_limit_period_seconds": 600})
	p.live(t, http.MethodPost, otherPath+"/headers", fields{"name": "X-Live", "value": "other"})
	p.live(t, http.MethodPost, otherPath+"/headers", fields{"name": "X-Live", "value": "more", "operation": "add"})
	p.live(t, http.MethodPost, "/routing-rules", fields{"domain_id": strings.TrimPrefix(otherPath, "/domains/"), "path_prefix": "/live", "backend_id": backend, "strip_prefix": true})
	name := p.name()
	url := "https://" + name
	var domain, server, header, rule string
	var servers []struct{ ID string }
	p.Must(t, http.MethodGet, "/backends/"+backend+"/servers", nil, 200, &servers)
	first := "/backend-servers/" + servers[0].ID

	p.converge(t)
	all := p.status(t)
	for _, x := range []struct {
		what string
		do   func()
		so   func()
	}{
		{"a domain", func() {
			domain = "/domains/" + p.live(t, http.MethodPost, "/domains", fields{"name": name, "backend_id": backend})
		}, func() { p.get(t, url).from(t, "a") }},
		{"its backend", func() { p.live(t, http.MethodPut, domain, fields{"backend_id": p.backends["b"]}) }, func() { p.get(t, url).from(t, "b") }},
		{"its backend again", func() { p.live(t, http.MethodPut, domain, fields{"backend_id": backend}) }, func() { p.get(t, url).from(t, "a") }},
		{"a domain off", func() { p.live(t, http.MethodPut, domain, fields{"active": false}) }, func() { p.get(t, url).want(t, 404) }},
		{"a domain on", func() { p.live(t, http.MethodPut, domain, fields{"active": true, "hsts_enabled": true}) }, func() { p.get(t, url).from(t, "a") }},
		{"another name", func() { p.live(t, http.MethodPut, domain, fields{"name": "new-" + name}) }, func() {
			p.get(t, url).want(t, 404)
			p.get(t, "https://new-"+name).from(t, "a")
		}},
		{"the name again", func() {
			p.live(t, http.MethodPut, domain, fields{"name": name, "max_body_size_bytes": 5, "disable_h3": true, "www_redirect": "to_www"})
		},
			func() { p.get(t, url+"/x").leads(t, 301, "https://www."+name+"/x") }},
		{"no redirect", func() { p.live(t, http.MethodPut, domain, fields{"www_redirect": "none"}) }, func() { p.get(t, url).from(t, "a") }},
		{"a server's port", func() { p.live(t, http.MethodPut, first, p.to("b")) }, func() { p.get(t, url).from(t, "b") }},
		{"a server's address", func() { p.live(t, http.MethodPut, first, fields{"address": lan6}) }, func() { p.get(t, url).from(t, "b") }},
		{"address and port", func() { p.live(t, http.MethodPut, first, p.to("a", fields{"address": lan4})) }, func() { p.get(t, url).from(t, "a") }},
		{"a server", func() {
			server = "/backend-servers/" + p.live(t, http.MethodPost, "/backends/"+backend+"/servers", p.to("c", fields{"name": "new", "address": lan4}))
		}, func() { p.shared(t, url, "a", "c") }},
		{"weight 0", func() { p.live(t, http.MethodPut, first, fields{"weight": 0}) }, func() { p.shared(t, url, "c") }},
		{"a weight", func() { p.live(t, http.MethodPut, first, fields{"weight": 200}) }, func() { p.shared(t, url, "a", "c") }},
		{"a server off", func() { p.live(t, http.MethodPut, first, fields{"active": false}) }, func() { p.shared(t, url, "c") }},
		{"a server on", func() { p.live(t, http.MethodPut, first, fields{"active": true}) }, func() { p.shared(t, url, "a", "c") }},
		{"no server", func() { p.live(t, http.MethodDelete, server, nil) }, func() { p.shared(t, url, "a") }},
		{"a server over IPv6", func() {
			server = "/backend-servers/" + p.live(t, http.MethodPost, "/backends/"+backend+"/servers", p.to("b", fields{"name": "new", "address": lan6, "weight": 50}))
		}, func() { p.shared(t, url, "a", "b") }},
		{"a server that is off", func() {
			p.live(t, http.MethodPost, "/backends/"+backend+"/servers", p.to("c", fields{"name": "off", "address": "::a0a:2", "active": false})) // which HAProxy writes otherwise
		}, func() { p.shared(t, url, "a", "b") }},
		{"a spare server", func() {
			p.live(t, http.MethodPost, "/backends/"+backend+"/servers", p.to("c", fields{"name": "spare", "address": lan4, "backup": true}))
		}, func() { p.shared(t, url, "a", "b") }},
		{"no server over IPv6", func() { p.live(t, http.MethodDelete, server, nil) }, func() { p.shared(t, url, "a") }},
		{"a server over TLS", func() {
			server = "/backend-servers/" + p.live(t, http.MethodPost, "/backends/"+secure+"/servers", p.to("tls", fields{"name": "new", "address": lan6}))
			p.live(t, http.MethodPut, domain, fields{"backend_id": secure})
		}, func() {
			waittest.Until(t, "the new server is checked", func() bool { return p.stats(t).of(t, secure, "new").CheckStatus == "L7OK" })
			waittest.Until(t, "the new server serves", func() bool {
				p.get(t, url).from(t, "tls")
				return p.stats(t).of(t, secure, "new").ReqTot > 0
			})
		}},
		{"no server over TLS", func() { p.live(t, http.MethodDelete, server, nil) }, func() { p.get(t, url).from(t, "tls") }},
		{"a header", func() {
			p.live(t, http.MethodPut, domain, fields{"backend_id": backend})
			header = domain + "/headers/" + p.live(t, http.MethodPost, domain+"/headers", fields{"name": "x-live", "value": "1"})
		}, func() { p.headed(t, url, "1") }},
		{"a header's value", func() { p.live(t, http.MethodPut, header, fields{"value": "2"}) }, func() { p.headed(t, url, "2") }},
		{"a header that adds", func() {
			p.live(t, http.MethodPost, domain+"/headers", fields{"name": "X-Live", "value": "3", "operation": "add"})
		}, func() { p.headed(t, url, "2", "3") }},
		{"no header", func() { p.live(t, http.MethodDelete, header, nil) }, func() { p.headed(t, url, "3") }},
		{"a rule", func() {
			rule = "/routing-rules/" + p.live(t, http.MethodPost, "/routing-rules", fields{"domain_id": strings.TrimPrefix(domain, "/domains/"), "path_prefix": "/down", "backend_id": p.backends["c"], "strip_prefix": true})
		}, func() { p.get(t, url+"/down/x").from(t, "c") }},
		{"a rule's backend", func() {
			p.live(t, http.MethodPut, rule, fields{"backend_id": p.backends["b"], "path_prefix": "/up", "strip_prefix": false})
		}, func() {
			p.get(t, url+"/up").from(t, "b")
			p.get(t, url+"/down").from(t, "a")
		}},
		{"no rule", func() { p.live(t, http.MethodDelete, rule, nil) }, func() { p.get(t, url+"/up").from(t, "a") }},
		{"a rate limit", func() {
			p.live(t, http.MethodPut, domain, fields{"rate_limit_enabled": true, "rate_limit_requests": 1, "rate_limit_period_seconds": 600})
		}, func() {
			p.get(t, url).from(t, "a")
			p.get(t, url).want(t, 429)
		}},
		{"no rate limit", func() { p.live(t, http.MethodPut, domain, fields{"rate_limit_enabled": false}) }, func() { p.get(t, url).from(t, "a") }},
		{"a wildcard", func() {
			p.live(t, http.MethodPost, "/domains", fields{"name": "*." + name, "backend_id": backend})
		}, func() { p.get(t, "https://any."+name).from(t, "a") }},
	} {
		was := p.status(t)
		x.do()
		if now := p.status(t); now.Reloads != was.Reloads || now.RuntimeChanges <= was.RuntimeChanges {
			t.Errorf("%s: %d reloads and %d changes without one", x.what, now.Reloads-was.Reloads, now.RuntimeChanges-was.RuntimeChanges)
		}
		if x.so(); t.Failed() {
			t.Fatalf("%s is not on the wire", x.what)
		}
	}
	p.get(t, "https://"+other).from(t, "b")
	p.converge(t)
	if now := p.status(t); now.Reloads != all.Reloads {
		t.Errorf("%d reloads in the end", now.Reloads-all.Reloads)
	}
	// The files say the same.
	p.live(t, http.MethodPost, "/system/proxy-reload", nil)
	p.get(t, "https://"+other).from(t, "b")
	p.get(t, "https://"+other+"/live").from(t, "a")
	p.get(t, url).from(t, "a")
	p.live(t, http.MethodDelete, domain, nil)
	p.get(t, url).want(t, 404)
	p.converge(t)

	p.reloads(t, "a backend of an unusual form", 1, func() {
		p.live(t, http.MethodPost, "/backends", fields{"name": "one reload", "lb_algorithm": "leastconn"})
	})
	p.live(t, http.MethodPost, "/backends", fields{"name": "a reload, unless there is a spare one"})
	sudden := p.name()
	p.reloads(t, "a backend of the usual form, with a server and a site", 0, func() {
		usual := p.live(t, http.MethodPost, "/backends", fields{"name": "no reload"})
		p.live(t, http.MethodPost, "/backends/"+usual+"/servers", p.to("c", fields{"name": "s", "address": lan4}))
		p.live(t, http.MethodPost, "/domains", fields{"name": sudden, "backend_id": usual})
		waittest.Until(t, "the server is checked", func() bool { return p.stats(t).of(t, usual, "s").CheckStatus == "L7OK" })
		p.get(t, "https://"+sudden).from(t, "c")
	})
	p.live(t, http.MethodPost, "/system/proxy-reload", nil)
	p.get(t, "https://"+sudden).from(t, "c")
	p.reloads(t, "a backend with servers and a site", 1, func() {
		row := create("proxy.backend", fields{"name": "still one reload", "health_check_enabled": false})
		p.change(t, row, create("proxy.server", p.to("c", fields{"backend_id": row.ID, "name": "s", "address": lan4})),
			create("proxy.domain", fields{"name": name, "backend_id": row.ID}))
		p.get(t, url).from(t, "c")
	})
}

// Requests during a reload of HAProxy are answered, on existing and new connections.
func reloadsLoseNothing(t *testing.T, p *proxyRig) {
	name, _ := p.site(t, "a", fields{"http_to_https": false})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var visitors sync.WaitGroup
	var answers atomic.Int64
	for _, x := range []struct {
		ask
		keep bool
	}{
		{ask{url: "http://" + name}, false}, {ask{url: "https://" + name}, false}, {ask{url: "https://" + name, h2: true}, false},
		{ask{url: "http://" + name}, true}, {ask{url: "https://" + name, h2: true}, true},
	} {
		visitors.Go(func() {
			browser := &http.Client{Transport: p.transport(x.ask)}
			for ctx.Err() == nil {
				res, err := browser.Get(x.url)
				if err == nil {
					_, err = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				if err != nil || res.StatusCode != 200 {
					t.Errorf("%+v: %v", x, err)
					return
				}
				answers.Add(1)
				if !x.keep {
					browser.CloseIdleConnections()
				}
			}
			browser.CloseIdleConnections()
		})
	}
	for range 8 {
		was := answers.Load()
		p.live(t, http.MethodPost, "/system/proxy-reload", nil)
		waittest.Until(t, "answers after a reload", func() bool { return answers.Load() > was+10 || t.Failed() })
	}
	stop()
	visitors.Wait()
}

// A header that is no longer used is removed at the next reload, and the fields of all others move up. Until then a change
// of one must not use the new positions.
func headersStayWithTheirNames(t *testing.T, p *proxyRig) {
	_, first := p.site(t, "a")
	name, second := p.site(t, "b")
	goes, stays := headers(first, []string{"X-Aaa"}, []string{"old"})[0], headers(second, []string{"X-Bbb"}, []string{"old"})[0]
	p.change(t, goes, stays)
	p.converge(t)
	stop, wrong := make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(wrong)
		for {
			select {
			case <-stop:
				return
			default:
			}
			got, err := p.try(t.Context(), ask{url: "https://" + name})
			if err != nil || got.Response.Header.Get("X-Aaa") != "" || got.Response.Header.Get("X-Bbb") == "" {
				wrong <- fmt.Sprintf("%v, %+v", err, got.Response)
				return
			}
		}
	}()
	p.reloads(t, "the last of a header, and another", 1, func() {
		p.live(t, http.MethodDelete, first+"/headers/"+goes.ID, nil)
		p.followed(t)
		p.change(t, operation{Kind: "proxy.header", Verb: "update", ID: stays.ID, Body: fields{"value": "new"}},
			operation{Kind: "proxy.domain", Verb: "update", ID: strings.TrimPrefix(second, "/domains/"), Body: fields{"hsts_enabled": true}})
	})
	close(stop)
	if said, failed := <-wrong; failed {
		t.Errorf("in between: %s", said)
	}
	if got := p.get(t, "https://"+name).from(t, "b").Response.Header.Get("X-Bbb"); got != "new" {
		t.Errorf("X-Bbb is %q", got)
	}
}

// shared checks that exactly these origins answer.
func (p *proxyRig) shared(t *testing.T, url string, origins ...string) {
	t.Helper()
	want, got := map[string]int{}, map[string]int{}
	for _, o := range origins {
		want[o] = 1
	}
	for range 20 {
		got[p.get(t, url).want(t, 200).Origin] = 1
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s is answered by %v instead of %v", url, got, want)
	}
}

// headed checks the values of a header.
func (p *proxyRig) headed(t *testing.T, url string, want ...string) {
	t.Helper()
	if got := p.get(t, url).from(t, "a").Response.Header.Values("X-Live"); strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("X-Live is %v instead of %v", got, want)
	}
}

func managementPlane(t *testing.T, p *proxyRig) {
	if s := p.status(t); s.Management != "proxy" {
		t.Errorf("%+v", s)
	}
	p.get(t, "http://"+gatewayName+"/").leads(t, 301, "https://"+gatewayName+"/")
	for base, asks := range map[string][]ask{
		"https://" + gatewayName:           {{}, {h2: true}, {v6: true}},
		"https://" + gatewayName + ":3443": {{h2: true, v6: true}, {from: clientAddress(3)}},
	} {
		if got := p.get(t, base+"/").want(t, 200); !strings.Contains(got.body, "<html") {
			t.Errorf("no console: %s", got.body)
		}
		for _, a := range asks {
			client := wan4
			switch {
			case a.v6:
				client = wan6
			case a.from != "":
				client = a.from
			}
			jar, err := cookiejar.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			transport := p.transport(a)
			browser := &http.Client{Transport: transport, Jar: jar}
			call := func(method, path, body string) (status int, data string) {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), method, base+"/api/v1"+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				maps.Copy(req.Header, forged)
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Origin", base)
				res, err := browser.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				var all struct{ Data json.RawMessage }
				if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
					t.Fatal(err)
				}
				return res.StatusCode, string(all.Data)
			}
			if status, said := call(http.MethodGet, "/auth/me", ""); status != 401 {
				t.Errorf("without a session: %d %s", status, said)
			}
			if status, said := call(http.MethodPost, "/auth/login", fmt.Sprintf(`{"email": %q, "password": %q}`, labtest.AdminEmail, labtest.AdminPassword)); status != 200 {
				t.Fatalf("login: %d %s", status, said)
			}
			if status, said := call(http.MethodGet, "/auth/me", ""); status != 200 || !strings.Contains(said, labtest.AdminEmail) {
				t.Errorf("with a session: %d %s", status, said)
			}
			p.audited(t, "auth.login.success", `"remote_ip":"`+client+`"`)
			p.listens(t, browser, a, base)
			transport.CloseIdleConnections()
		}
	}
}

// listens checks that the audit log's stream announces a change.
func (p *proxyRig) listens(t *testing.T, browser *http.Client, a ask, base string) {
	t.Helper()
	if a.h2 {
		return // the client only opens WebSockets over HTTP/1.1
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, base+"/api/v1/audit/live", &websocket.DialOptions{HTTPClient: browser, HTTPHeader: http.Header{"Origin": {base}}})
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.CloseNow()
	p.Must(t, http.MethodPost, "/system/auto-update", fields{"enabled": false}, 200, nil)
	for {
		_, said, err := conn.Read(ctx)
		if err != nil {
			t.Errorf("the stream tells nothing: %v", err)
			return
		}
		if strings.Contains(string(said), "system.auto-update") {
			return
		}
	}
}

func systemActions(t *testing.T, p *proxyRig) {
	name, _ := p.site(t, "a")
	worker := func() int {
		t.Helper()
		process, err := p.machine(t).ProxyProcess(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return process.PID
	}
	was := worker()
	p.reloads(t, "a reload", 1, func() { p.live(t, http.MethodPost, "/system/proxy-reload", nil) })
	p.audited(t, "system.proxy-reload", "reverse-proxy")
	if worker() == was {
		t.Error("the same worker serves after a reload")
	}
	p.get(t, "https://"+name).from(t, "a")

	type outcome struct{ Name, Active, Error string }
	pid := func(u host.Unit) int {
		t.Helper()
		state, err := p.Units().State(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		return state.PID
	}
	for kind, process := range map[string]func() int{
		"reverse-proxy": func() int { return pid(haproxy.Unit) }, "ntp": func() int { return pid(chrony.Unit) }, "scheduler": func() int { return pid(host.Scheduler) },
		"dns": func() int { return pid(unbound.Unit) },
	} {
		was := process()
		var o outcome
		p.Must(t, http.MethodPost, "/system/service-restart", fields{"kind": kind}, 200, &o)
		if kind == "reverse-proxy" { // its answer is sent before
			another(t, p.Units(), haproxy.Unit, was)
		}
		if o.Name != kind || o.Error != "" || o.Active != "active" && kind != "reverse-proxy" || process() == was {
			t.Errorf("%s: %+v, process %d", kind, o, was)
		}
		p.audited(t, "system.service-restart", kind)
	}
	// Changes just before a restart survive it.
	late, _ := p.site(t, "b")
	was = pid(haproxy.Unit)
	p.Must(t, http.MethodPost, "/system/service-restart", fields{"kind": "reverse-proxy"}, 200, nil)
	another(t, p.Units(), haproxy.Unit, was)
	p.get(t, "https://"+late).from(t, "b")
	var o outcome
	if p.Must(t, http.MethodPost, "/system/service-restart", fields{"kind": "forward-proxy"}, 200, &o); o.Active != "inactive" || !strings.Contains(o.Error, "is off") {
		t.Errorf("a service that is off: %+v", o)
	}
	p.Must(t, http.MethodPut, "/forward-proxy/settings", fields{"enabled": true}, 200, nil)
	was = pid(squid.Unit)
	if p.Must(t, http.MethodPost, "/system/service-restart", fields{"kind": "forward-proxy"}, 200, &o); o != (outcome{"forward-proxy", "active", ""}) || pid(squid.Unit) == was {
		t.Errorf("%+v, process %d", o, was)
	}
	p.Must(t, http.MethodPut, "/forward-proxy/settings", fields{"enabled": false}, 200, nil)
	p.Must(t, http.MethodPost, "/system/service-restart", fields{"kind": "haproxy; reboot"}, 400, nil)
	p.get(t, "https://"+name).from(t, "a")
	p.WaitState(t, "reverse-proxy", "live", 10*time.Second)

	// Drift is repaired: manual changes are undone.
	if err := os.WriteFile(p.Path("/etc/haproxy/gateway/haproxy.cfg"), []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.live(t, http.MethodPost, "/system/proxy-reload", nil)
	if !strings.Contains(p.config(t), "gateway_management") {
		t.Error("the file is not back")
	}
	p.get(t, "https://"+name).from(t, "a")
}

const (
	stubbed     = "/run/stub/haproxy"
	realHAProxy = "/run/stub/real/haproxy"
)

// stub stands in for an HAProxy that refuses every configuration. It is this program under that name: a check may execute nothing else, so it
// cannot be a script.
func stub() {
	if slices.Contains(os.Args, "-c") {
		fmt.Fprintln(os.Stderr, "[ALERT]    (1) : config : this stub likes nothing")
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, syscall.Exec(realHAProxy, os.Args, os.Environ()))
	os.Exit(1)
}

func refusedConfiguration(t *testing.T, p *proxyRig) {
	name, _ := p.site(t, "a")
	p.converge(t)
	files := p.files(t)
	process, err := p.machine(t).ProxyProcess(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.Run(t, lab.Gateway, "sh", "-c", "mkdir -p "+filepath.Dir(realHAProxy)+" && cp /usr/sbin/haproxy "+realHAProxy)
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.Path(stubbed), program, 0o755); err != nil {
		t.Fatal(err)
	}
	p.Run(t, lab.Gateway, "mount", "--bind", stubbed, "/usr/sbin/haproxy")
	gone := false
	unstub := func() {
		if !gone {
			p.Run(t, lab.Gateway, "umount", "/usr/sbin/haproxy")
		}
		gone = true
	}
	defer unstub()
	same := func(when string) {
		t.Helper()
		if now := p.files(t); !maps.Equal(now, files) {
			t.Errorf("%s the files are others", when)
		}
		p.get(t, "https://"+name).from(t, "a")
	}

	a := p.Must(t, http.MethodPost, "/backends", fields{"name": "refused", "lb_algorithm": "leastconn"}, 400, nil)
	if !strings.Contains(string(a.Body), "this stub likes nothing") {
		t.Errorf("the answer does not say why: %s", a.Body)
	}
	same("after a refusal")
	if now, err := p.machine(t).ProxyProcess(t.Context()); err != nil || now.PID != process.PID {
		t.Errorf("%+v instead of %+v: %v", now, process, err)
	}
	var rows []struct{ Name string }
	p.Must(t, http.MethodGet, "/backends", nil, 200, &rows)
	for _, row := range rows {
		if row.Name == "refused" {
			t.Error("what was refused is stored")
		}
	}
	// A row that was inserted directly into the database is not applied either, and that is reported.
	p.sql(t, `INSERT INTO proxy_backends SELECT gen_random_uuid(), now(), now(), 'smuggled', scheme, lb_algorithm, websocket, force_http1, active, health_check_enabled, health_check_path,
		health_check_method, health_check_host, health_check_expect, health_check_interval_seconds, verify_tls FROM proxy_backends LIMIT 1`)
	a = p.Must(t, http.MethodPost, "/system/proxy-reload", nil, 200, nil)
	if a.Header.Get("Gateway-Apply") != "reverse-proxy=degraded" || !strings.Contains(string(a.Body), "this stub likes nothing") {
		t.Errorf("%s: %s", a.Header.Get("Gateway-Apply"), a.Body)
	}
	same("after a refused state")
	if now, err := p.machine(t).ProxyProcess(t.Context()); err != nil || now.PID != process.PID {
		t.Errorf("%+v instead of %+v: %v", now, process, err)
	}
	// A restarted HAProxy serves the previous configuration.
	if err := p.Units().Restart(t.Context(), haproxy.Unit); err != nil {
		t.Fatal(err)
	}
	same("after a restart of HAProxy")
	if err := p.Units().Restart(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	p.WaitDatabase(t)
	p.WaitState(t, "reverse-proxy", "degraded", 10*time.Second)
	same("after a restart of the API")

	unstub()
	p.WaitState(t, "reverse-proxy", "live", 20*time.Second)
	if p.config(t) == files["/etc/haproxy/gateway/haproxy.cfg"] {
		t.Error("what is stored is not installed")
	}
	p.get(t, "https://"+name).from(t, "a")
	p.sql(t, `DELETE FROM proxy_backends WHERE name = 'smuggled'`)
	p.live(t, http.MethodPost, "/system/proxy-reload", nil)
}
