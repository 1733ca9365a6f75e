package machine

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/host/daemon/haproxy/proxytest"
	"edge.internal/gateway/internal/lab"
)

// forged are headers by which a client claims to be someone else.
var forged = http.Header{
	"X-Forwarded-For": {"203.0.113.9"}, "x-forwarded-for": {"203.0.113.10"}, "X_Forwarded_For": {"203.0.113.11"}, "X-FORWARDED_FOR": {"203.0.113.12"},
	"X-Real-IP": {"203.0.113.9"}, "x-rEaL-iP": {"203.0.113.10"}, "X_Real_IP": {"203.0.113.11"},
	"X-Forwarded-Proto": {"gopher"}, "X_Forwarded_Proto": {"gopher"}, "X-Forwarded-Host": {"evil.example"}, "X-Forwarded-Port": {"1"}, "X-Forwarded-Server": {"evil.example"},
	"Forwarded": {"for=203.0.113.9;proto=gopher"}, "fOrWaRdEd": {"for=203.0.113.10"},
	"X-Kept": {"kept"},
}

func whoAsks(t *testing.T, p *proxyRig) {
	name, _ := p.site(t, "a", fields{"http_to_https": false})
	for _, x := range []struct {
		ask
		proto, client string
	}{
		{ask{url: "http://" + name + "/x?y=z"}, "http", wan4},
		{ask{url: "https://" + name + "/x?y=z"}, "https", wan4},
		{ask{url: "https://" + name + "/x?y=z", h2: true}, "https", wan4},
		{ask{url: "https://" + name + "/x?y=z", from: clientAddress(0)}, "https", clientAddress(0)},
		{ask{url: "http://" + name + "/x?y=z", v6: true}, "http", wan6},
		{ask{url: "https://" + name + "/x?y=z", v6: true}, "https", wan6},
		{ask{url: "https://" + name + "/x?y=z", v6: true, h2: true}, "https", wan6},
	} {
		x.header = forged
		got := p.send(t, x.ask).from(t, "a")
		if want := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[x.h2]; got.Response.Proto != want {
			t.Errorf("%s is answered in %s", x.url, got.Response.Proto)
		}
		if got.URI != "/x?y=z" || got.Host != name {
			t.Errorf("%s becomes %s at %s", x.url, got.URI, got.Host)
		}
		said := map[string]string{}
		for header, values := range got.seen.Header {
			said[strings.ToLower(strings.ReplaceAll(header, "_", "-"))] += strings.Join(values, "+")
		}
		for header, want := range map[string]string{
			"x-forwarded-proto": x.proto, "x-real-ip": x.client, "x-forwarded-for": x.client, "x-forwarded-host": name,
			"x-forwarded-port": "", "x-forwarded-server": "", "forwarded": "", "x-kept": "kept",
		} {
			if said[header] != want {
				t.Errorf("%+v: %s is %q instead of %q", x.ask, header, said[header], want)
			}
		}
		if all := fmt.Sprint(got.seen.Header); strings.Contains(all, "203.0.113.") || strings.Contains(all, "gopher") || strings.Contains(all, "evil") {
			t.Errorf("a forged header gets through: %s", all)
		}
	}
}

// A name that HAProxy reads in another way than a server would have one site judged by the rules of another.
func oneName(t *testing.T, p *proxyRig) {
	open, _ := p.site(t, "a", fields{"http_to_https": false})
	other, _ := p.site(t, "b", fields{"http_to_https": false})
	for _, scheme := range []string{"http", "https"} {
		for _, name := range []string{open, strings.ToUpper(open), open + ":8080", open + "."} {
			p.send(t, ask{url: scheme + "://" + open + "/", header: http.Header{"Host": {name}}}).from(t, "a")
		}
		for _, name := range []string{open + "," + other, open + ":80," + other, open + ":," + other, open + ", " + other, open + ":x", open + "/" + other, open + "@" + other, "a b"} {
			for _, h2 := range []bool{false, scheme == "https"} {
				got, err := p.try(t.Context(), ask{url: scheme + "://" + open + "/", header: http.Header{"Host": {name}}, h2: h2})
				if err == nil {
					got.want(t, 400)
				}
				if got.Origin != "" {
					t.Errorf("%s: %q is answered by %s", scheme, name, got.Origin)
				}
			}
		}
	}
}

// Switching to another protocol would bypass the gateway, which only allows WebSockets.
func noOtherProtocol(t *testing.T, p *proxyRig) {
	name, _ := p.site(t, "a", fields{"http_to_https": false})
	for _, upgrade := range [][]string{{"h2c"}, {"h2c", "websocket"}, {"websocket", "h2c"}, {"tls/1.3"}} {
		for _, scheme := range []string{"http", "https"} {
			got := p.send(t, ask{url: scheme + "://" + name + "/", header: http.Header{
				"Connection": {"Upgrade, HTTP2-Settings"}, "Upgrade": upgrade, "Http2-Settings": {"AAMAAABkAAQAAP__"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Version": {"13"},
			}}).from(t, "a")
			if got.seen.Header.Get("Upgrade") != "" || got.seen.Header.Get("Http2-Settings") != "" {
				t.Errorf("%s: the server is asked to change to %v: %v", scheme, upgrade, got.seen.Header)
			}
		}
	}
}

func plainHTTP(t *testing.T, p *proxyRig) {
	name, path := p.site(t, "a")
	p.send(t, ask{url: "http://" + name + "/x/y?a=b&c=%20"}).leads(t, 301, "https://"+name+"/x/y?a=b&c=%20")
	p.send(t, ask{url: "http://" + name + "/x", method: http.MethodHead}).leads(t, 301, "https://"+name+"/x")
	p.send(t, ask{url: "http://" + name + "/x?a=b", method: http.MethodPost, body: strings.NewReader("form")}).leads(t, 308, "https://"+name+"/x?a=b")
	p.send(t, ask{url: "http://" + name + "/", header: http.Header{"Host": {name + ":80"}}}).leads(t, 301, "https://"+name+"/")
	p.converge(t)
	p.reloads(t, "flipping http_to_https", 0, func() {
		for range 3 {
			p.live(t, http.MethodPut, path, fields{"http_to_https": false})
			p.get(t, "http://"+name+"/").from(t, "a")
			p.get(t, "https://"+name+"/").from(t, "a")
			p.live(t, http.MethodPut, path, fields{"http_to_https": true})
			p.get(t, "http://"+name+"/").want(t, 301)
		}
	})
	p.get(t, "https://"+name+"/").from(t, "a")
}

func ipv6AndHTTP3(t *testing.T, p *proxyRig) {
	name, _ := p.site(t, "a", fields{"http_to_https": false})
	listens := func(family, port string) bool {
		return p.Run(t, lab.Gateway, "ss", "-Hltn", family, "sport", "=", ":"+port) != ""
	}
	try := func(url string, v6 bool) error {
		_, err := p.try(t.Context(), ask{url: url, v6: v6})
		return err
	}
	for _, on := range []bool{true, false, true} {
		p.live(t, http.MethodPost, "/system/ipv6", fields{"enabled": on})
		p.audited(t, "system.ipv6", "ipv6 ")
		for _, port := range []string{"80", "443", "3443"} {
			if !listens("-4", port) || listens("-6", port) != on {
				t.Errorf("with IPv6 %v, port %s: %s", on, port, p.Run(t, lab.Gateway, "ss", "-ltn", "sport", "=", ":"+port))
			}
		}
		for _, url := range []string{"http://" + name, "https://" + name, "https://" + gatewayName + ":3443/api/v1/system/health"} {
			if err := try(url, false); err != nil {
				t.Errorf("with IPv6 %v: %v", on, err)
			}
			if err := try(url, true); (err == nil) != on {
				t.Errorf("over IPv6 %v: %v", on, err)
			}
		}
	}
	// HTTP/3 needs nothing but an HAProxy that was built for it; that of Debian 12 was not.
	s, why, offer := p.status(t), "", `h3=":443"; ma=86400`
	quic := strings.Contains(p.Run(t, lab.Gateway, proxytest.Own, "-vv"), " +QUIC")
	if !quic {
		why, offer = "HAProxy "+s.Version+" was built without QUIC", ""
	}
	if s.Version == "" || s.HTTP3 != quic || s.HTTP3Why != why || s.Error != "" {
		t.Errorf("%+v", s)
	}
	for _, h2 := range []bool{false, true} {
		if got := p.send(t, ask{url: "https://" + name, h2: h2}).Response.Header.Get("Alt-Svc"); got != offer {
			t.Errorf("offers %q instead of %q", got, offer)
		}
	}
}

func routing(t *testing.T, p *proxyRig) {
	name, path := p.site(t, "a")
	domain := strings.TrimPrefix(path, "/domains/")
	rule := func(prefix, backend string, more ...fields) string {
		t.Helper()
		return "/routing-rules/" + p.live(t, http.MethodPost, "/routing-rules", with(fields{"domain_id": domain, "path_prefix": prefix, "backend_id": p.backends[backend]}, more...))
	}
	want := func(uri, origin, seen string) {
		t.Helper()
		for _, h2 := range []bool{false, true} {
			if got := p.send(t, ask{url: "https://" + name + uri, h2: h2}).from(t, origin); got.URI != seen {
				t.Errorf("%s arrives as %s instead of %s", uri, got.URI, seen)
			}
		}
	}
	api := rule("/api", "b", fields{"strip_prefix": true, "priority": 20})
	want("/", "a", "/")
	want("/ap", "a", "/ap")
	want("/API/x", "a", "/API/x")
	want("/api", "b", "/")
	want("/api/", "b", "/")
	want("/apix", "b", "/x")
	want("/api/v1/x%20y?a=/api", "b", "/v1/x%20y?a=/api")
	want("/api?x=y", "b", "/?x=y")
	want("/x/api", "a", "/x/api")
	// The first by priority decides, not the longest.
	users := rule("/api/users", "c", fields{"priority": 30})
	want("/api/users", "b", "/users")
	p.live(t, http.MethodPut, users, fields{"priority": 10})
	want("/api/users/7", "c", "/api/users/7")
	want("/api/user", "b", "/user")
	p.live(t, http.MethodPut, users, fields{"active": false})
	want("/api/users", "b", "/users")
	p.live(t, http.MethodPut, users, fields{"active": true, "strip_prefix": true})
	want("/api/users", "c", "/")
	p.live(t, http.MethodDelete, users, nil)
	want("/api/users", "b", "/users")
	p.live(t, http.MethodPut, api, fields{"strip_prefix": false})
	want("/api/x", "b", "/api/x")

	// What means something elsewhere is a letter like all others here.
	for prefix, miss := range map[string]string{
		"/a;b": "/a", "/x.y": "/x-y", "/p*q": "/ppq", "/$HOME": "/root", "/'q'": "/q", "/(g|": "/g", "/d$": "/d", "/%[path]": "/path", "/~u,v:w@x=y&z!": "/~u",
		"/e%20if%20TRUE": "/e",
	} {
		if strings.ContainsAny(prefix, "|[") {
			p.Must(t, http.MethodPost, "/routing-rules", fields{"domain_id": domain, "path_prefix": prefix, "backend_id": p.backends["c"]}, 400, nil)
			continue
		}
		id := rule(prefix, "c", fields{"strip_prefix": true})
		if got := p.get(t, "https://"+name+prefix+"/rest").from(t, "c"); got.URI != "/rest" {
			t.Errorf("%s/rest arrives as %s", prefix, got.URI)
		}
		p.get(t, "https://"+name+miss+"/rest").from(t, "a")
		p.live(t, http.MethodDelete, id, nil)
	}
	for _, bad := range []string{"x", "/a b", `/a" if TRUE`, "/a\nuse_backend x", ""} {
		p.Must(t, http.MethodPost, "/routing-rules", fields{"domain_id": domain, "path_prefix": bad, "backend_id": p.backends["c"]}, 400, nil)
	}
	// A rule whose backend is off is not replaced by the domain's backend.
	off := p.backend(t, fields{"active": false}, p.to("c"))
	rule("/off", off)
	p.get(t, "https://"+name+"/off").want(t, 503)
	want("/", "a", "/")
}

func nobodyToAnswer(t *testing.T, p *proxyRig) {
	empty := p.backend(t, nil)
	name, path := p.site(t, empty)
	p.get(t, "https://"+name).want(t, 503)
	server := "/backend-servers/" + p.live(t, http.MethodPost, "/backends/"+empty+"/servers", p.to("a", fields{"name": "late", "address": lan4}))
	p.get(t, "https://"+name).from(t, "a")
	p.live(t, http.MethodPut, server, fields{"active": false})
	p.get(t, "https://"+name).want(t, 503)
	p.live(t, http.MethodPut, server, fields{"active": true})
	p.get(t, "https://"+name).from(t, "a")
	p.live(t, http.MethodPut, "/backends/"+empty, fields{"active": false})
	p.get(t, "https://"+name).want(t, 503)
	p.live(t, http.MethodPut, "/backends/"+empty, fields{"active": true})
	p.get(t, "https://"+name).from(t, "a")
	p.Must(t, http.MethodPut, "/backends/"+empty, fields{"lb_algorithm": "random"}, 400, nil)
	p.live(t, http.MethodPut, path, fields{"active": false})
	p.get(t, "https://"+name).want(t, 404)
	p.get(t, "http://"+name+"/x").leads(t, 301, "https://"+name+"/x")
	p.live(t, http.MethodPut, path, fields{"active": true})
	p.get(t, "https://"+name).from(t, "a")
}

func siteNames(t *testing.T, p *proxyRig) {
	p.get(t, "https://nobody.example.net/").want(t, 404)
	p.get(t, "http://nobody.example.net/x?y").leads(t, 301, "https://nobody.example.net/x?y")
	_, wildcard := p.site(t, "a", fields{"name": "*.wild.example.net"})
	p.get(t, "https://any.wild.example.net").from(t, "a")
	p.get(t, "https://wild.example.net").want(t, 404)
	p.get(t, "https://two.deep.wild.example.net").want(t, 404)
	_, exact := p.site(t, "b", fields{"name": "one.wild.example.net"})
	p.get(t, "https://one.wild.example.net").from(t, "b")
	p.get(t, "https://other.wild.example.net").from(t, "a")
	for _, host := range []string{"ONE.Wild.example.NET", "one.wild.example.net.", "one.wild.example.net:443", "one.wild.example.net:8443"} {
		p.send(t, ask{url: "https://one.wild.example.net", header: http.Header{"Host": {host}}}).from(t, "b")
	}
	for _, host := range []string{"one.wild.example.net.evil.example", "gateway_api", "[2001:db8::1]", "10.10.0.2"} {
		p.send(t, ask{url: "https://one.wild.example.net", header: http.Header{"Host": {host}}}).want(t, 404)
	}
	for _, host := range []string{"a|b", "%[env(PATH)]"} {
		p.send(t, ask{url: "https://one.wild.example.net", header: http.Header{"Host": {host}}}).want(t, 400)
	}
	p.live(t, http.MethodDelete, exact, nil)
	p.get(t, "https://one.wild.example.net").from(t, "a")
	p.live(t, http.MethodDelete, wildcard, nil)
	p.get(t, "https://one.wild.example.net").want(t, 404)
	p.send(t, ask{url: "http://x.example.net/x", header: http.Header{"Host": {"[2001:db8:1::1]"}}}).leads(t, 301, "https://[2001:db8:1::1]/x")
}

func wwwRedirects(t *testing.T, p *proxyRig) {
	name, path := p.site(t, "a", fields{"www_redirect": "to_www", "hsts_enabled": true})
	p.get(t, "https://"+name+"/x?y=z").leads(t, 301, "https://www."+name+"/x?y=z")
	p.get(t, "http://"+name+"/x?y=z").leads(t, 301, "https://www."+name+"/x?y=z")
	p.get(t, "https://www."+name+"/x").from(t, "a")
	// The lists of browsers ask for the header on the redirect, too.
	if got := p.get(t, "https://"+name).Response.Header.Get("Strict-Transport-Security"); got != "max-age=31536000" {
		t.Errorf("the redirect says Strict-Transport-Security: %q", got)
	}
	p.live(t, http.MethodPut, path, fields{"http_to_https": false})
	p.get(t, "http://"+name+"/x").leads(t, 301, "http://www."+name+"/x")
	p.get(t, "http://www."+name+"/x").from(t, "a")
	p.live(t, http.MethodPut, path, fields{"www_redirect": "to_apex", "http_to_https": true})
	p.get(t, "https://www."+name+"/x?y=z").leads(t, 301, "https://"+name+"/x?y=z")
	p.get(t, "https://"+name+"/x").from(t, "a")
	p.live(t, http.MethodPut, path, fields{"www_redirect": "none"})
	p.get(t, "https://"+name+"/x").from(t, "a")
	p.get(t, "https://www."+name).want(t, 404)
	other, _ := p.site(t, "b", fields{"name": "www." + p.name(), "www_redirect": "to_apex"})
	p.get(t, "https://"+other+"/x").leads(t, 301, "https://"+strings.TrimPrefix(other, "www.")+"/x")
	p.get(t, "https://"+strings.TrimPrefix(other, "www.")).from(t, "b")
}

// hostile are values of headers with all that means something to HAProxy somewhere.
var hostile = []string{
	`%[env(PATH)] %[src] %{+Q}o %ci %%`, `"quoted" 'single' "half`, `$HOME ${HOME} "${HOME}"`, `\x0a\n\\ \`, `a; b; show info; # not a comment`, `<< payload`, `# all of it`, `a|b|c,d  e`,
	`default-src 'self'; script-src 'nonce-x' https:; report-uri /csp?a=b&c=%20`, `if { always_true }`, `}`, `]`, `-m found`, strings.Repeat(`x\ "`, 400) + `x`,
}

// headers sets headers of a domain.
func headers(path string, names, values []string) (operations []operation) {
	for i, name := range names {
		operations = append(operations, create("proxy.header", fields{"domain_id": strings.TrimPrefix(path, "/domains/"), "name": name, "value": values[i]}))
	}
	return operations
}

func responseHeaders(t *testing.T, p *proxyRig) {
	name, path := p.site(t, "a")
	header := func(body fields) string {
		t.Helper()
		return path + "/headers/" + p.live(t, http.MethodPost, path+"/headers", body)
	}
	wants := func(what string, want ...string) {
		t.Helper()
		for _, h2 := range []bool{false, true} {
			got := p.send(t, ask{url: "https://" + name, h2: h2}).from(t, "a")
			if have := got.Response.Header.Values(what); strings.Join(have, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s is %q instead of %q", what, have, want)
			}
		}
	}
	wants("Server", "origin")
	header(fields{"name": "Server", "operation": "remove"})
	wants("Server")
	header(fields{"name": "X-Origin", "value": "another"})
	wants("X-Origin", "another")
	header(fields{"name": "Link", "value": "</a>", "operation": "add"})
	header(fields{"name": "link", "value": "</b>", "operation": "add"})
	wants("Link", "</origin>", "</a>", "</b>")
	header(fields{"name": "Link", "operation": "remove"})
	wants("Link", "</a>", "</b>")
	odd := []string{"X-$HOME", "X'q'", "X#y", "X|y^z~!&*+.w", "0"}
	p.change(t, headers(path, odd, odd)...)
	for _, name := range odd {
		wants(name, name)
	}

	literal := header(fields{"name": "X-Literal", "value": "plain"})
	more := header(fields{"name": "X-Literal", "value": "more", "operation": "add"})
	wants("X-Literal", "plain", "more")
	p.converge(t)
	p.reloads(t, "changing values of headers", 0, func() {
		for i, value := range hostile {
			other := hostile[(i+1)%len(hostile)]
			p.live(t, http.MethodPut, literal, fields{"value": value})
			p.live(t, http.MethodPut, more, fields{"value": other})
			wants("X-Literal", value, other)
		}
	})
	// HAProxy's files match what it was told at run time.
	var names []string
	for i := range hostile {
		names = append(names, fmt.Sprintf("X-Literal-%d", i))
	}
	p.change(t, headers(path, names, hostile)...)
	for i, value := range hostile {
		wants(fmt.Sprintf("X-Literal-%d", i), value)
	}
	// They are also on responses of the proxy itself.
	p.live(t, http.MethodPut, path, fields{"maintenance": true})
	for i, value := range hostile {
		if got := p.get(t, "https://"+name).want(t, 503).Response.Header.Get(fmt.Sprintf("X-Literal-%d", i)); got != value {
			t.Errorf("the maintenance page has %q instead of %q", got, value)
		}
	}
	p.live(t, http.MethodPut, path, fields{"maintenance": false})
	// Nor are they on those of another site on the same connection.
	other, _ := p.site(t, "a")
	for _, h2 := range []bool{false, true} {
		transport := p.transport(ask{h2: h2})
		for _, host := range []string{name, other, name, other} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+name, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			res, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if mine := res.Header.Get("X-Literal") != "" && res.Header.Get("Server") == ""; mine != (host == name) {
				t.Errorf("%s: %v", host, res.Header)
			}
		}
		transport.CloseIdleConnections()
	}
}

// The headers of a site fit, however long the answer is.
func largeHeaders(t *testing.T, p *proxyRig) {
	name, path := p.site(t, "a")
	const most, each = 8192, 32
	length := most/3 - each - len("X-Large-0")
	values := []string{strings.Repeat(`\; `, length), "y" + strings.Repeat(" ;", length), strings.Repeat(`"'`, length)}
	for i := range values {
		values[i] = values[i][:length-1] + "x"
	}
	operations := headers(path, []string{"X-Large-0", "X-Large-1", "X-Large-2"}, []string{"x", "x", "x"})
	p.change(t, operations...)
	p.converge(t)
	p.reloads(t, "large headers", 0, func() {
		for i, o := range operations {
			p.live(t, http.MethodPut, path+"/headers/"+o.ID, fields{"value": values[i]})
		}
		a := p.Must(t, http.MethodPost, path+"/headers", fields{"name": "X", "value": "y"}, 400, nil)
		if !strings.Contains(string(a.Body), "at most 8192 are allowed") {
			t.Errorf("%s", a.Body)
		}
		for _, length := range []int{0, 1000, 20000, 24000, 1000000} {
			for _, h2 := range []bool{false, true} {
				got := p.send(t, ask{url: fmt.Sprintf("https://%s/large?%d", name, length), h2: h2}).want(t, 200)
				if len(got.body) != length || got.Response.Header.Get("X-Large-0") != values[0] || got.Response.Header.Get("X-Large-1") != values[1] || got.Response.Header.Get("X-Large-2") != values[2] {
					t.Errorf("%d bytes of %d, and %v", len(got.body), length, got.Response.Header)
				}
			}
		}
	})
}

func hsts(t *testing.T, p *proxyRig) {
	name, path := p.site(t, "a", fields{"http_to_https": false})
	wants := func(want string) {
		t.Helper()
		for _, h2 := range []bool{false, true} {
			if got := p.send(t, ask{url: "https://" + name, h2: h2}).Response.Header.Get("Strict-Transport-Security"); got != want {
				t.Errorf("Strict-Transport-Security: %q instead of %q", got, want)
			}
		}
		if got := p.get(t, "http://"+name).from(t, "a").Response.Header.Get("Strict-Transport-Security"); got != "" {
			t.Errorf("plain HTTP says Strict-Transport-Security: %s", got)
		}
	}
	wants("")
	p.live(t, http.MethodPut, path, fields{"hsts_enabled": true})
	wants("max-age=31536000")
	p.live(t, http.MethodPut, path, fields{"hsts_max_age": 0})
	wants("max-age=0")
	p.live(t, http.MethodPut, path, fields{"hsts_max_age": 300, "hsts_include_subdomains": true})
	wants("max-age=300; includeSubDomains")
	p.live(t, http.MethodPut, path, fields{"hsts_max_age": 63072000, "hsts_preload": true})
	wants("max-age=63072000; includeSubDomains; preload")
	p.live(t, http.MethodPut, path, fields{"hsts_enabled": false})
	wants("")
}

func rateLimit(t *testing.T, p *proxyRig) {
	name, path := p.site(t, "a", fields{"http_to_https": false, "rate_limit_enabled": true, "rate_limit_requests": 5, "rate_limit_period_seconds": 600})
	other, _ := p.site(t, "a", fields{"rate_limit_enabled": true, "rate_limit_requests": 1, "rate_limit_period_seconds": 600})
	one, two := clientAddress(1), clientAddress(2)
	for n := range 5 { // in any notation
		url := []string{"http://", "https://"}[n%2] + name
		p.send(t, ask{url: url, from: one, h2: n == 3}).from(t, "a")
	}
	for _, url := range []string{"http://" + name, "https://" + name} {
		if got := p.send(t, ask{url: url, from: one}).want(t, 429); got.Response.Header.Get("Retry-After") != "600" {
			t.Errorf("Retry-After: %q", got.Response.Header.Get("Retry-After"))
		}
	}
	p.send(t, ask{url: "https://" + name, from: one, header: http.Header{"X-Forwarded-For": {"203.0.113.1"}}}).want(t, 429)
	p.send(t, ask{url: "https://" + name, from: two}).from(t, "a")
	p.send(t, ask{url: "https://" + other, from: one}).from(t, "a")
	p.send(t, ask{url: "https://" + other, from: one}).want(t, 429)
	p.live(t, http.MethodPut, path, fields{"rate_limit_requests": 1000})
	p.send(t, ask{url: "https://" + name, from: one}).from(t, "a")
	p.live(t, http.MethodPut, path, fields{"rate_limit_enabled": false})
	p.send(t, ask{url: "https://" + name, from: one}).from(t, "a")

	// A client that changes its address within its IPv6 network is the same client.
	p.live(t, http.MethodPost, "/system/ipv6", fields{"enabled": true})
	third, _ := p.site(t, "a", fields{"rate_limit_enabled": true, "rate_limit_requests": 2, "rate_limit_period_seconds": 600})
	for n, status := range []int{200, 200, 429, 429} {
		address := fmt.Sprintf("2001:db8:1::f%d", n)
		p.Run(t, lab.Wan, "ip", "address", "add", address+"/64", "dev", "eth0", "nodad", "preferred_lft", "0") // no one's own choice
		p.send(t, ask{url: "https://" + third, v6: true, from: address}).want(t, status)
	}
	// So are all networks of one customer, which get as much together as 16 of them.
	fourth, _ := p.site(t, "a", fields{"rate_limit_enabled": true, "rate_limit_requests": 1, "rate_limit_period_seconds": 600})
	p.Run(t, lab.Gateway, "ip", "route", "replace", "2001:db8:2::/48", "via", wan6)
	for n := range 18 {
		address, status := fmt.Sprintf("2001:db8:2:%x::1", n), 200
		if n >= 16 {
			status = 429
		}
		p.Run(t, lab.Wan, "ip", "address", "add", address+"/64", "dev", "eth0", "nodad", "preferred_lft", "0")
		p.send(t, ask{url: "https://" + fourth, v6: true, from: address}).want(t, status)
	}
	p.Run(t, lab.Wan, "ip", "address", "add", "2001:db8:3::1/64", "dev", "eth0", "nodad", "preferred_lft", "0")
	p.Run(t, lab.Gateway, "ip", "route", "replace", "2001:db8:3::/48", "via", wan6)
	p.send(t, ask{url: "https://" + fourth, v6: true, from: "2001:db8:3::1"}).from(t, "a")
}

// unknown is a body that does not say its length.
type unknown struct{ io.Reader }

func largestBody(t *testing.T, p *proxyRig) {
	name, path := p.site(t, "a", fields{"max_body_size_bytes": 10})
	for _, h2 := range []bool{false, true} {
		send := func(body io.Reader) reply {
			t.Helper()
			return p.send(t, ask{url: "https://" + name, method: http.MethodPost, body: body, h2: h2})
		}
		p.send(t, ask{url: "https://" + name, h2: h2}).from(t, "a")
		p.send(t, ask{url: "https://" + name, method: http.MethodPost, h2: h2}).from(t, "a")
		if got := send(strings.NewReader("0123456789")).from(t, "a"); got.seen.Body != "0123456789" {
			t.Errorf("the body arrives as %q", got.seen.Body)
		}
		send(strings.NewReader("0123456789x")).want(t, 413)
		send(unknown{strings.NewReader("01234")}).want(t, 411)
		send(unknown{strings.NewReader("0123456789x")}).want(t, 411)
	}
	p.live(t, http.MethodPut, path, fields{"max_body_size_bytes": 11})
	p.send(t, ask{url: "https://" + name, method: http.MethodPost, body: strings.NewReader("0123456789x")}).from(t, "a")
	p.live(t, http.MethodPut, path, fields{"max_body_size_bytes": 0})
	for _, h2 := range []bool{false, true} {
		long := strings.Repeat("0123456789", 20000)
		if got := p.send(t, ask{url: "https://" + name, method: http.MethodPost, body: unknown{strings.NewReader(long)}, h2: h2}).from(t, "a"); got.seen.Body != long {
			t.Errorf("%d bytes arrive", len(got.seen.Body))
		}
	}
}

func maintenance(t *testing.T, p *proxyRig) {
	name, path := p.site(t, "a", fields{"http_to_https": false})
	other, _ := p.site(t, "b")
	down := func(url string, h2 bool) {
		t.Helper()
		got := p.send(t, ask{url: url, h2: h2}).want(t, 503)
		if h := got.Response.Header; h.Get("Retry-After") == "" || h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(got.body, "Back soon") {
			t.Errorf("%s: %v %s", url, h, got.body)
		}
	}
	p.converge(t)
	p.reloads(t, "maintenance of a site", 0, func() {
		p.live(t, http.MethodPut, path, fields{"maintenance": true})
		down("http://"+name, false)
		down("https://"+name, false)
		down("https://"+name, true)
		p.get(t, "https://"+other).from(t, "b")
		p.live(t, http.MethodPut, path, fields{"maintenance": false})
		p.get(t, "https://"+name).from(t, "a")
	})
	p.reloads(t, "maintenance of all", 0, func() {
		p.live(t, http.MethodPost, "/system/maintenance", fields{"enabled": true})
		p.audited(t, "system.maintenance", `"enabled":true`)
		down("https://"+name, false)
		down("https://"+other, true)
		p.get(t, "http://"+other).want(t, 301)
		p.get(t, "https://nobody.example.net").want(t, 404)
		for _, url := range []string{"https://" + gatewayName, "https://" + gatewayName + ":3443"} {
			p.get(t, url+"/api/v1/system/health").want(t, 200)
		}
		p.live(t, http.MethodPost, "/system/maintenance", fields{"enabled": false})
		p.get(t, "https://"+name).from(t, "a")
		p.get(t, "https://"+other).from(t, "b")
	})
}
