package proxy

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"maps"
	"net/netip"
	"regexp"
	"slices"

	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/parts"
)

// Names of the gateway's own proxies.
const (
	httpFrontend       = "gateway_http"
	httpsFrontend      = "gateway_https"
	managementFrontend = "gateway_management"
	apiBackend         = "gateway_api"
	acmeBackend        = "gateway_acme"
	unavailableBackend = "gateway_unavailable"
	wafBackend         = "gateway_waf"
)

// The pages, and the configuration of the web application firewall's filter. They contain nothing from an operator.
var (
	//go:embed maintenance.html
	maintenancePage []byte
	//go:embed blocked.html
	blockedPage []byte
	//go:embed spoe.cfg
	spoeConfig []byte
)

// Buffer sizes. The headers that a site sets must fit behind any part of the response already received, or HAProxy answers 500. The rest
// is for what clients and servers send, and an inspected request must fit completely.
const (
	reserved      = headersMost + 2<<10
	plainBuffer   = 3*headersMost + 8<<10
	inspectBuffer = 128 << 10
)

// Render renders the configuration into HAProxy's files.
func Render(c *Config) ([]host.File, error) {
	files, err := render(c)
	if err == nil {
		files[0] = files[0].Whole()
	}
	return files, err
}

// render is Render with haproxy.cfg in parts.
func render(c *Config) ([]host.File, error) {
	m := c.model()
	main, err := m.main()
	if err != nil {
		return nil, err
	}
	others, err := m.others()
	return append([]host.File{{Place: haproxy.Config, Parts: main.text, Redact: withoutSecret}}, others...), err
}

// renderOthers renders all files but haproxy.cfg.
func renderOthers(c *Config, m *sites) ([]host.File, error) {
	files := []host.File{{Place: haproxy.MaintenancePage, Content: maintenancePage}, {Place: haproxy.BlockedPage, Content: blockedPage}, {Place: haproxy.Inspection, Content: spoeConfig}}
	maps := m.files()
	for _, place := range mapPlaces {
		content, err := renderMap(place, maps[place])
		if err != nil {
			return nil, err
		}
		files = append(files, host.File{Place: place, Content: content})
	}
	list, err := renderList(m.certificates)
	if err != nil {
		return nil, err
	}
	management, err := renderList(m.management)
	if err != nil {
		return nil, err
	}
	files = append(files,
		host.File{Place: haproxy.CertificateList, Content: list},
		host.File{Place: haproxy.ManagementList, Content: management},
		host.File{Place: haproxy.DefaultCertificate, Content: c.Default, Redact: host.Redacted})
	for _, x := range append(slices.Clone(m.certificates), slices.DeleteFunc(slices.Clone(m.management), func(x served) bool { return !x.Management })...) {
		files = append(files, host.File{Place: haproxy.Certificate(x.ID), Content: x.PEM, Redact: host.Redacted})
	}
	return files, nil
}

// clusterSecret begins with a constant, by which it is found fast in a long file.
var clusterSecret = regexp.MustCompile("(\n  cluster-secret) .*")

// withoutSecret redacts haproxy.cfg for people.
func withoutSecret(content []byte) []byte {
	return clusterSecret.ReplaceAll(content, []byte("$1 <redacted>"))
}

var mapPlaces = []host.Place{haproxy.Hosts, haproxy.Wildcards, haproxy.Routes, haproxy.Headers, haproxy.Switches}

// separator returns the separator of the fields in a map's values.
func separator(place host.Place) string {
	if place == haproxy.Headers {
		return headerSeparator
	}
	return fieldSeparator
}

func renderMap(place host.Place, m entries) ([]byte, error) {
	grammar := conf.Map{Separator: fieldSeparator}
	if place == haproxy.Headers {
		grammar.Separator = headerSeparator
	}
	w := conf.New(grammar)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		w.Entry(m[key].key, m[key].fields...)
	}
	return w.Bytes()
}

// renderList lists certificates. The first is the default, for a name that nobody has.
func renderList(list []served) ([]byte, error) {
	w := conf.New(conf.CertificateList)
	w.Line(defaultCertificate, conf.Word(nobody))
	for _, x := range list {
		names := make([]conf.Arg, len(x.names))
		for i, n := range x.names {
			names[i] = conf.Value(n)
		}
		w.Entry(certificateFile(x.Certificate), names...)
	}
	return w.Bytes()
}

// certificateFile returns the path of a certificate's file in HAProxy.
func certificateFile(x Certificate) conf.Arg {
	return conf.Joined(conf.Word("certificates/"), conf.ID(x.ID), conf.Word(".pem"))
}

// mainFile is haproxy.cfg. Its mark identifies everything except what can change at runtime, and HAProxy reports it.
type mainFile struct {
	text parts.Text
	mark []byte
}

// section is a part of haproxy.cfg. Its shape identifies it, except for what can change at runtime.
type section struct {
	parts.Part
	shape []byte
	err   error
}

func sectionOf(w *conf.Writer) section {
	shape := w.Digest()
	text, err := w.Bytes()
	return section{parts.Of(text), shape, err}
}

// renderMain puts haproxy.cfg together, see haproxy.Split: what comes before the mark, the mark, the backends, and one more section.
func renderMain(c *Config, m *model) (mainFile, error) {
	head := m.head()
	text, err := make(parts.Text, 0, len(m.backends)+3), head.err
	sum := sha256.New()
	for _, b := range [][]byte{head.shape, c.Default, maintenancePage, blockedPage, spoeConfig} {
		sum.Write(b)
	}
	for _, p := range m.backends {
		sum.Write(p.section.shape)
		err = cmp.Or(err, p.section.err)
	}
	mark := sum.Sum(nil)[:16]
	w := conf.Bare(conf.HAProxy)
	w.Line("global")
	w.Line("description", conf.Hex(mark))
	text = append(text, head.Part, sectionOf(w).Part)
	for _, p := range m.backends {
		text = append(text, p.section.Part)
	}
	w = conf.Bare(conf.HAProxy)
	w.Line("backend", conf.Word(unavailableBackend))
	return mainFile{append(text, sectionOf(w).Part), mark}, err
}

func renderHead(c *Config, m *sites) section {
	w := conf.New(conf.HAProxy)
	renderGlobal(w, c, m)
	renderHTTP(w, c, m)
	renderHTTPS(w, c, m)
	renderManagement(w, c)
	renderInternal(w, m)
	return sectionOf(w)
}

func renderGlobal(w *conf.Writer, c *Config, m *sites) {
	w.Line("global")
	w.Line("default-path", conf.Word("config"))
	// HAProxy resolves every name at its start; a missing resolver must not delay it for long.
	w.Line("setenv", conf.Word(`RES_OPTIONS "timeout:1 attempts:1"`))
	w.Line("user", conf.Word("haproxy"))
	w.Line("group", conf.Word("haproxy"))
	switch {
	case m.logs:
		w.Line("log", conf.Word("stdout len 4096 format raw daemon notice"))
	case m.inspects:
		// Successful requests are logged at the level below, which is dropped.
		w.Line("log", conf.Word("stdout format raw daemon notice"))
	default:
		w.Line("log", conf.Word("stdout format raw daemon info"))
	}
	w.Line("stats", conf.Word("socket /run/haproxy/admin.sock mode 660 group haproxy level admin expose-fd listeners"))
	// A WebSocket may be idle for an hour, but a replaced worker must end at some point.
	w.Line("hard-stop-after", conf.Word("1h"))
	if m.inspects {
		w.Line("tune.bufsize", conf.Int(inspectBuffer))
		w.Line("tune.http.maxhdr", conf.Int(256))
	} else {
		w.Line("tune.bufsize", conf.Int(plainBuffer))
	}
	w.Line("tune.maxrewrite", conf.Int(reserved))
	// With the cache, a match costs more than without it, and even more with many sites.
	w.Line("tune.pattern.cache-size", conf.Int(0))
	// A browser opens a separate connection for each WebSocket; the console uses one to show that the gateway is still reachable.
	w.Line("h2-workaround-bogus-websocket-clients")
	// At every start, HAProxy would read the system's certificate authorities for its own HTTP client, which nothing uses. That takes several
	// times as long as all the rest of a small configuration.
	w.Line("httpclient.ssl.verify", conf.Word("none"))
	w.Line("ssl-default-bind-options", conf.Word("ssl-min-ver TLSv1.2 no-tls-tickets"))
	w.Line("ssl-default-bind-ciphers", conf.Word("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"))
	if c.Features.LimitedQUIC {
		w.Line("limited-quic")
	}
	if c.Features.QUIC {
		// It lets the next worker tell clients of the previous one that their connections are gone; otherwise they would wait for long.
		sum := sha256.Sum256(append([]byte("cluster-secret"), c.Default...))
		w.Line("cluster-secret", conf.Hex(sum[:16]))
	}
	if c.Features.OwnSockets {
		w.Line("setcap", conf.Word("cap_net_bind_service"))
	}
	w.Line("defaults")
	w.Line("mode", conf.Word("http"))
	w.Line("log", conf.Word("global"))
	w.Line("option", conf.Word("httplog"))
	if m.inspects || m.logs {
		// Errors get a higher level, and successful requests a level that is not logged unless the domain wants it. With dontlog-normal,
		// requests that passed without inspection would not be logged either.
		w.Line("option", conf.Word("log-separate-errors"))
	} else {
		w.Line("option", conf.Word("dontlog-normal"))
	}
	w.Line("option", conf.Word("redispatch"))
	// Without it each reload cuts requests on connections that were kept alive.
	w.Line("option", conf.Word("idle-close-on-response"))
	w.Line("retries", conf.Int(2))
	w.Line("timeout", conf.Word("connect 5s"))
	w.Line("timeout", conf.Word("client 60s"))
	w.Line("timeout", conf.Word("server 60s"))
	w.Line("timeout", conf.Word("queue 30s"))
	w.Line("timeout", conf.Word("http-request 15s"))
	w.Line("timeout", conf.Word("http-keep-alive 30s"))
	w.Line("timeout", conf.Word("check 5s"))
	w.Line("resolvers", conf.Word("gateway_dns"))
	w.Line("parse-resolv-conf")
	w.Line("resolve_retries", conf.Int(2))
	w.Line("timeout", conf.Word("retry 1s"))
	w.Line("hold", conf.Word("valid 10s"))
	// Whatever a resolver answers instead of an address, the server keeps its address. Names that are only in /etc/hosts are found at the
	// start, and never again. HAProxy cannot count any longer than this.
	w.Line("hold", conf.Word("nx 24d"))
	w.Line("hold", conf.Word("refused 24d"))
	w.Line("hold", conf.Word("timeout 24d"))
	w.Line("hold", conf.Word("other 24d"))
}

// What the maps know about a site, see fields. HAProxy reads a value from its beginning to find a field, so the long ones, which are
// read once, come last.
const (
	siteFlags    = "var(txn.site),field(1,|)"
	siteRequests = "var(txn.site),field(2,|)"
	sitePeriod   = "var(txn.site),field(3,|)"
	siteBody     = "var(txn.site),field(4,|)"
	siteInspect  = "var(txn.site),field(5,|)"
	siteHSTS     = "var(txn.site),field(6,|)"
	siteID       = "var(txn.site),field(7,|)"
	siteBackend  = "var(txn.site),field(8,|)"
	siteRedirect = "var(txn.site),field(9,|)"
)

// renderFind finds the site of a request. The flags: p also served without TLS, w redirect, m maintenance, r routing rules, h headers,
// s Strict-Transport-Security, l rate limit, b largest body, n no HTTP/3, g the gateway itself, f inspected by the web application
// firewall, o passes if it could not be, i passes if its body is too large for that, a responses are inspected, too, t successful
// requests are logged.
func renderFind(w *conf.Writer, m *sites) {
	// HAProxy and a server must not read different names from one field: the site looked up here would not be the one that answers.
	w.Line("http-request", conf.Word(`deny deny_status 400 if !{ req.fhdr(host) -i -m reg '^([a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[0-9]*)?$' }`))
	w.Line("http-request", conf.Word("set-var(txn.host) req.fhdr(host),host_only,lower,rtrim(.)"))
	w.Line("http-request", conf.Word("set-var(txn.site) var(txn.host),map_str(maps/hosts.map)"))
	w.Line("http-request", conf.Word("set-var(txn.site) var(txn.host),field(2,.,0),map_str(maps/wildcards.map) if !{ var(txn.site) -m found }"))
	w.Line("http-request", conf.Word("set-var(txn.flags) "+siteFlags))
	w.Line("http-request", conf.Word("set-var(txn.id) "+siteID))
	w.Line("http-request", conf.Word("set-var(txn.backend) "+siteBackend))
	renderLog(w, m)
	// A server may offer HTTP/3, too.
	w.Line("http-after-response", conf.Word("del-header Alt-Svc if { var(txn.flags) -m sub n }"))
}

// renderLog adds to HAProxy's usual line: the domain, and what the web application firewall's alerts are made of.
func renderLog(w *conf.Writer, m *sites) {
	if m.inspects || m.logs {
		w.Line("log-format", conf.Word(`"%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r %[var(txn.request)] %[var(txn.id)] %[var(txn.waf.error)] %[var(txn.waf.client)]"`))
	}
	if m.logs {
		w.Line("http-request", conf.Word("set-log-level notice if { var(txn.flags) -m sub t }"))
	}
}

// renderForwarded tells the servers who the client is. What a client itself claims is removed, in any spelling.
func renderForwarded(w *conf.Writer, scheme conf.Arg) {
	w.Line("http-request", conf.Word(`del-header ^(x[-_](forwarded[-_].*|real[-_]ip)|forwarded)$ -m reg`))
	w.Line("http-request", conf.Word("set-header X-Forwarded-Proto"), scheme)
	w.Line("http-request", conf.Word("set-header X-Forwarded-Host %[req.fhdr(host)]"))
	w.Line("http-request", conf.Word("set-header X-Real-IP %[src]"))
	w.Line("http-request", conf.Word("set-header X-Forwarded-For %[src]"))
	// A client that upgrades to HTTP/2 with a server would bypass everything done here for each request.
	w.Line("http-request", conf.Word("del-header Upgrade if { req.hdr_cnt(upgrade) gt 1 } or !{ req.fhdr(upgrade) -i -m str websocket }"))
	w.Line("http-request", conf.Word("del-header HTTP2-Settings"))
}

// renderLimits refuses requests beyond the limits of a site.
func renderLimits(w *conf.Writer, m *sites) {
	// This comes before any rule that answers itself, because such an answer has the site's headers, too.
	w.Line("http-request", conf.Word("set-var(txn.headers) var(txn.id),map_str(maps/headers.map) if { var(txn.flags) -m sub h }"))
	w.Line("http-request", conf.Word(`return status 503 content-type "text/html; charset=utf-8" file pages/maintenance.html hdr Retry-After 300 hdr Cache-Control no-store if { var(txn.flags) -m sub m } or { str(maintenance),map_str(maps/switches.map) -m found } !{ var(txn.flags) -m sub g }`))
	if len(m.periods) > 0 {
		const (
			limited = "if { var(txn.flags) -m sub l }"
			ipv6    = "{ var(txn.share) -m found }"
			refuse  = `return status 429 content-type text/plain string "too many requests" hdr Retry-After %[` + sitePeriod + `] if `
		)
		w.Line("http-request", conf.Word("set-var(txn.most) "+siteRequests+" "+limited))
		// An IPv6 client has a whole network of addresses, and a provider's customer may have 65536 of those networks, which together get
		// as much as 16. The latter are counted first: a client that has used up this share adds no more networks to the table. Only such
		// clients have a share.
		w.Line("http-request", conf.Word("set-var(txn.share) var(txn.most),mul(16) "+limited+" { src,ipmask(32,0) -m ip :: }"))
		w.Line("http-request", conf.Word("set-var(txn.customer) src,ipmask(32,48),xxh64,concat(/48/,txn.id),xxh64 if "+ipv6))
		renderCount(w, m, conf.Word("track-sc1 var(txn.customer) table"), conf.Word(ipv6))
		w.Line("http-request", conf.Word(refuse+ipv6+" { sc_http_req_rate(1),sub(txn.share) gt 0 }"))
		w.Line("http-request", conf.Word("set-var(txn.client) src,ipmask(32,64),xxh64,concat(/,txn.id),xxh64 "+limited))
		renderCount(w, m, conf.Word("track-sc0 var(txn.client) table"), conf.Word("{ var(txn.flags) -m sub l }"))
		w.Line("http-request", conf.Word(refuse+"{ var(txn.flags) -m sub l } { sc_http_req_rate(0),sub(txn.most) gt 0 }"))
	}
	const limited = "if { var(txn.flags) -m sub b }"
	w.Line("http-request", conf.Word("set-var(txn.body) "+siteBody+" "+limited))
	w.Line("http-request", conf.Word(`return status 413 content-type text/plain string "the request is too large" `+limited+" { req.hdr_val(content-length),sub(txn.body) gt 0 }"))
	// A body without a declared length cannot be judged; waiting shows whether there is one at all.
	w.Line("http-request", conf.Word("wait-for-body time 10s at-least 1 "+limited+" !{ req.hdr(content-length) -m found }"))
	w.Line("http-request", conf.Word(`return status 411 content-type text/plain string "the request must say its length" `+limited+" !{ req.hdr(content-length) -m found } { req.body_len gt 0 }"))
}

// renderCount counts the requests that match a condition, in the table of their site's period.
func renderCount(w *conf.Writer, m *sites, counter, of conf.Arg) {
	for _, period := range m.periods {
		is := conf.Joined(conf.Word("if "), of, conf.Word(" { "+sitePeriod+" -m str "), conf.Int(period), conf.Word(" }"))
		w.Line("http-request", counter, conf.Joined(conf.Word("gateway_rate_"), conf.Int(period)), is)
	}
}

// renderInspection has the web application firewall inspect requests. It comes before the first change to them, and only a pass lets a
// request through.
func renderInspection(w *conf.Writer, m *sites) {
	if !m.inspects {
		return
	}
	const (
		inspected = "{ var(txn.flags) -m sub f }"
		refusing  = " !{ var(txn.flags) -m sub d }"
		watching  = " { var(txn.flags) -m sub d }"
		whole     = "!{ var(txn.flags) -m sub i }"
		too       = `status 413 content-type text/plain string "the request is too large to be inspected" if `
		none      = "!{ var(txn.waf.verdict) -m found }"
		blockPage = `content-type "text/html; charset=utf-8" lf-file pages/blocked.html hdr X-Request-ID %[unique-id] hdr Cache-Control no-store if `
	)
	w.Line("unique-id-format", conf.Word("%[uuid()]"))
	w.Line("log", conf.Word("/run/gateway/waf.sock len 8192 format raw local0 alert"))
	// Trailers would reach the server uninspected.
	w.Line("http-request", conf.Word(`return status 400 content-type text/plain string "trailers are not taken here" if `+inspected+refusing+" { req.hdr(trailer) -m found }"))
	w.Line("http-request", conf.Word("set-var(txn.request) unique-id if "+inspected))
	w.Line("http-request", conf.Word("set-var(txn.uri) url if "+inspected))
	// In HTTP/2 and later the URL includes the host.
	w.Line("http-request", conf.Word("set-var(txn.uri) str(*) if "+inspected+" !{ req.ver -m beg 1 }"))
	w.Line("http-request", conf.Word("set-var(txn.uri) pathq if "+inspected+" !{ req.ver -m beg 1 }"))
	w.Line("http-request", conf.Word("set-var(txn.inspect) "+siteInspect+" if "+inspected+" "+whole))
	// Where nothing is blocked, a body may take as long as it likes, because HAProxy refuses late ones. Bidirectional streams send no
	// body before the response.
	w.Line("http-request", conf.Word("wait-for-body time 5s if "+inspected+refusing))
	w.Line("http-request", conf.Word("wait-for-body time 1d if "+inspected+watching+" !{ req.hdr(content-type) -m beg application/grpc }"))
	w.Line("http-request", conf.Word("return "+too+inspected+" "+whole+" !{ internal.htx.has_eom }"))
	w.Line("http-request", conf.Word("return "+too+inspected+" "+whole+" { req.body_len,sub(txn.inspect) gt 0 }"))
	w.Line("http-request", conf.Word("send-spoe-group waf request if "+inspected+" { srv_is_up("+wafBackend+"/agent) }"))
	w.Line("http-request", conf.Word("set-log-level alert if "+inspected+" "+none))
	w.Line("http-request", conf.Word("return status 403 "+blockPage+inspected+" { var(txn.waf.verdict) -m str deny }"))
	w.Line("http-request", conf.Word(`return status 503 content-type text/plain string "the request could not be inspected" hdr X-Request-ID %[unique-id] hdr Retry-After 5 hdr Cache-Control no-store if `+
		inspected+" !{ var(txn.waf.verdict) -m str pass } !{ var(txn.flags) -m sub o }"))
	w.Line("http-request", conf.Word("del-header TE if "+inspected))

	// Only the beginning of a response is inspected, as much as fits into the buffer. Streams have no end to wait for, and compressed
	// content cannot be read.
	const (
		answers  = "{ var(txn.flags) -m sub a }"
		stream   = "{ res.hdr(content-type) -m beg text/event-stream }"
		bodyless = "{ status 101 204 304 }"
		withheld = answers + " !" + stream + " !" + bodyless
		nothing  = "!{ var(txn.waf.answer) -m found }"
	)
	w.Line("http-request", conf.Word("set-var(txn.method) method if "+answers))
	w.Line("http-request", conf.Word("del-header Accept-Encoding if "+answers))
	w.Line("http-response", conf.Word("wait-for-body time 5s if "+withheld+refusing))
	w.Line("http-response", conf.Word("wait-for-body time 1d if "+withheld+watching))
	w.Line("http-response", conf.Word("send-spoe-group waf response if "+withheld+" { srv_is_up("+wafBackend+"/agent) }"))
	w.Line("http-response", conf.Word("set-log-level alert if "+withheld+" "+nothing))
	w.Line("http-response", conf.Word("return status 403 "+blockPage+withheld+" { var(txn.waf.answer) -m str deny }"))
	w.Line("http-response", conf.Word(`return status 503 content-type text/plain string "the response could not be inspected" hdr X-Request-ID %[unique-id] hdr Retry-After 5 hdr Cache-Control no-store if `+
		withheld+" !{ var(txn.waf.answer) -m str pass } !{ var(txn.flags) -m sub o }"))
}

// renderSite applies the settings of a request's site, and chooses its backend.
func renderSite(w *conf.Writer, m *sites) {
	w.Line("http-request", conf.Word("set-var(txn.path) path if { var(txn.flags) -m sub r }"))
	w.Line("http-request", conf.Word("set-var(txn.route) var(txn.id),concat(,txn.path),map_beg(maps/routes.map) if { var(txn.flags) -m sub r }"))
	w.Line("http-request", conf.Word("set-var(txn.backend) var(txn.route),field(2,|) if { var(txn.route) -m found }"))
	for _, length := range m.strips {
		w.Line("http-request", conf.Joined(conf.Word("set-var(txn.rest) path,bytes("), conf.Int(length), conf.Word(") if { var(txn.route),field(1,|) -m str "), conf.Int(length), conf.Word(" }")))
	}
	if len(m.strips) > 0 {
		w.Line("http-request", conf.Word("set-path %[var(txn.rest)] if { var(txn.rest) -m beg / }"))
		w.Line("http-request", conf.Word("set-path /%[var(txn.rest)] if { var(txn.route),field(1,|) -m len gt 0 } !{ var(txn.rest) -m beg / }"))
	}
	for i, s := range m.slots {
		field := conf.Joined(conf.Word("var(txn.headers),field("), conf.Int(i+1), conf.Word(`,\x1f)`))
		is := conf.Joined(conf.Word("if { "), field, conf.Word(" -m len gt 0 }"))
		content := conf.Joined(conf.Word("%["), field, conf.Word("]"))
		switch s.operation {
		case headerRemove:
			w.Line("http-after-response", conf.Word("del-header"), conf.Value(s.written), is)
		case headerSet:
			w.Line("http-after-response", conf.Word("set-header"), conf.Value(s.written), content, is)
		case headerAdd:
			w.Line("http-after-response", conf.Word("add-header"), conf.Value(s.written), content, is)
		}
	}
	w.Line("use_backend", conf.Word("%[var(txn.backend)]"))
	w.Line("default_backend", conf.Word(unavailableBackend))
	if m.inspects {
		// After reading the filter's file, HAProxy looks for others in its starting directory, so it must be set again.
		w.Line("filter", conf.Word("spoe engine waf config spoe.cfg"))
		w.Line("global")
		w.Line("default-path", conf.Word("config"))
	}
}

func renderHTTP(w *conf.Writer, c *Config, m *sites) {
	w.Line("frontend", conf.Word(httpFrontend))
	w.Line("bind", conf.Word(":80"))
	if c.IPv6 {
		w.Line("bind", conf.Word(":::80 v6only"))
	}
	renderFind(w, m)
	// Certificate authorities must get an answer here, whatever the state of the site.
	const challenge = " if { path_beg /.well-known/acme-challenge/ }"
	w.Line("http-request", conf.Word("set-var(txn.flags) str(gp)"+challenge))
	w.Line("http-request", conf.Word("set-var(txn.backend) str("+acmeBackend+")"+challenge))
	w.Line("http-request", conf.Word("redirect prefix http://%["+siteRedirect+"] code 301 if { var(txn.flags) -m sub w } { var(txn.flags) -m sub p }"))
	w.Line("http-request", conf.Word("redirect prefix https://%["+siteRedirect+"] code 301 if { var(txn.flags) -m sub w }"))
	w.Line("http-request", conf.Word("redirect prefix https://%[var(txn.host)] code 301 if !{ var(txn.flags) -m sub p } { method GET HEAD }"))
	w.Line("http-request", conf.Word("redirect prefix https://%[var(txn.host)] code 308 if !{ var(txn.flags) -m sub p }"))
	renderLimits(w, m)
	renderInspection(w, m)
	renderForwarded(w, conf.Word("http"))
	renderSite(w, m)
}

func renderHTTPS(w *conf.Writer, c *Config, m *sites) {
	w.Line("frontend", conf.Word(httpsFrontend))
	w.Line("bind", conf.Word(":443 ssl crt-list certificates.list alpn h2,http/1.1"))
	if c.IPv6 {
		w.Line("bind", conf.Word(":::443 v6only ssl crt-list certificates.list alpn h2,http/1.1"))
	}
	if c.Features.QUIC {
		w.Line("bind", conf.Word("quic4@:443 ssl crt-list certificates.list alpn h3"))
		if c.IPv6 {
			w.Line("bind", conf.Word("quic6@:::443 v6only ssl crt-list certificates.list alpn h3"))
		}
	}
	renderSince(w)
	renderFind(w, m)
	w.Line("http-request", conf.Word(`return status 404 content-type text/plain string "this site does not exist here" if !{ var(txn.site) -m found }`))
	w.Line("http-request", conf.Word("redirect prefix https://%["+siteRedirect+"] code 301 if { var(txn.flags) -m sub w }"))
	w.Line("http-after-response", conf.Word("set-header Strict-Transport-Security %["+siteHSTS+"] if { var(txn.flags) -m sub s }"))
	if c.Features.QUIC {
		w.Line("http-after-response", conf.Word(`set-header Alt-Svc 'h3=":443"; ma=86400' if { var(txn.site) -m found } !{ var(txn.flags) -m sub n }`))
	}
	renderLimits(w, m)
	renderInspection(w, m)
	renderForwarded(w, conf.Word("https"))
	renderSite(w, m)
}

func renderManagement(w *conf.Writer, c *Config) {
	w.Line("frontend", conf.Word(managementFrontend))
	w.Line("bind", conf.Word(":3443 ssl crt-list management.list alpn h2,http/1.1"))
	if c.IPv6 {
		w.Line("bind", conf.Word(":::3443 v6only ssl crt-list management.list alpn h2,http/1.1"))
	}
	renderSince(w)
	renderForwarded(w, conf.Word("https"))
	w.Line("default_backend", conf.Word(apiBackend))
}

// renderSince records when a client has connected.
func renderSince(w *conf.Writer) {
	w.Line("tcp-request", conf.Word("session set-var(sess.since) date(0,ms)"))
}

// renderInternal writes the gateway's own backends.
func renderInternal(w *conf.Writer, m *sites) {
	w.Line("backend", conf.Word(apiBackend))
	w.Line("timeout", conf.Word("server 10m")) // a backup, an upgrade
	w.Line("timeout", conf.Word("tunnel 1h"))
	w.Line("http-request", conf.Word("set-header Gateway-Connected %[var(sess.since)]"))
	w.Line("server", conf.Word("api unix@/run/gateway/api.sock send-proxy-v2"))
	w.Line("backend", conf.Word(acmeBackend))
	w.Line("server", conf.Word("acme unix@/run/gateway/acme.sock"))
	if m.inspects {
		w.Line("backend", conf.Word(wafBackend))
		w.Line("mode", conf.Word("tcp"))
		w.Line("timeout", conf.Word("connect 1s"))
		w.Line("timeout", conf.Word("check 1s"))
		w.Line("option", conf.Word("spop-check"))
		w.Line("server", conf.Word("agent 127.0.0.1:9000 check inter 1s fastinter 200ms downinter 200ms fall 3 rise 1"))
	}
	for _, period := range m.periods {
		w.Line("backend", conf.Joined(conf.Word("gateway_rate_"), conf.Int(period)))
		w.Line("stick-table", conf.Word("type binary len 8 size 100k expire"), conf.Joined(conf.Int(period), conf.Word("s")), conf.Word("store"),
			conf.Joined(conf.Word("http_req_rate("), conf.Int(period), conf.Word("s)")))
	}
}

func renderBackend(w *conf.Writer, p *pool) {
	w.Line("backend", backendName(p.ID))
	switch p.LBAlgorithm {
	case "leastconn":
		w.Line("balance", conf.Word("leastconn"))
	case "source":
		w.Line("balance", conf.Word("source"))
		w.Line("hash-type", conf.Word("consistent")) // so that servers may come and go
	default:
		w.Line("balance", conf.Word("roundrobin"))
	}
	if p.Websocket {
		w.Line("timeout", conf.Word("tunnel 1h"))
	}
	if p.HealthCheckEnabled {
		w.Line("option", conf.Word("httpchk"))
		w.Line("http-check", conf.Word("send meth"), method(p.HealthCheckMethod), conf.Word("uri"), conf.Value(p.HealthCheckPath), conf.Word("ver HTTP/1.1 hdr Host"), p.checkHost(), conf.Word("hdr Connection close"))
		w.Line("http-check", conf.Word("expect status"), conf.Value(p.HealthCheckExpect))
	}
	w.Aside(func() {
		for _, s := range p.servers {
			w.Line("server", append([]conf.Arg{conf.Value(s.Name.Word()), s.endpoint()}, p.options(s)...)...)
		}
	})
}

func method(name string) conf.Arg {
	switch name {
	case "HEAD":
		return conf.Word("HEAD")
	case "OPTIONS":
		return conf.Word("OPTIONS")
	}
	return conf.Word("GET")
}

// checkHost returns the host name for health checks.
func (p *pool) checkHost() conf.Arg {
	switch {
	case !p.HealthCheckHost.IsZero():
		return conf.Value(p.HealthCheckHost)
	case len(p.servers) == 0:
		return conf.Word("localhost")
	}
	if _, address := p.servers[0].ip(); address {
		return conf.Word("localhost") // an address may change at runtime, but this must not
	}
	return conf.Value(p.servers[0].Address)
}

// ip returns the server's address, if it is not a name.
func (s *Server) ip() (netip.Addr, bool) {
	a, err := netip.ParseAddr(s.Address.String())
	return a, err == nil
}

// endpoint returns the server's address and port.
func (s *Server) endpoint() conf.Arg {
	port := conf.Joined(conf.Word(":"), conf.Int(s.Port))
	if a, ok := s.ip(); ok && a.Is6() {
		return conf.Joined(conf.Word("["), conf.Value(s.Address), conf.Word("]"), port)
	}
	return conf.Joined(conf.Value(s.Address), port)
}

// options returns the options after a server's address.
func (p *pool) options(s Server) []conf.Arg {
	list := append([]conf.Arg{conf.Word("weight"), conf.Int(s.Weight)}, p.common(s)...)
	if s.Backup {
		list = append(list, conf.Word("backup"))
	}
	if !s.Active {
		list = append(list, conf.Word("disabled"))
	}
	if _, address := s.ip(); !address {
		// A name that does not resolve must not prevent HAProxy from starting, and may resolve later.
		list = append(list, conf.Word("resolvers gateway_dns init-addr last,libc,none"))
	}
	return list
}

// common returns the options that a server keeps at runtime.
func (p *pool) common(s Server) (list []conf.Arg) {
	_, address := s.ip()
	if p.HealthCheckEnabled {
		list = append(list, conf.Word("check inter"), conf.Joined(conf.Int(p.HealthCheckInterval), conf.Word("s")))
	}
	if p.Scheme != "https" {
		return list
	}
	list = append(list, conf.Word("ssl"))
	if p.VerifyTLS {
		list = append(list, conf.Word("verify required ca-file @system-ca"))
	} else {
		list = append(list, conf.Word("verify none"))
	}
	if p.ForceHTTP1 {
		list = append(list, conf.Word("alpn http/1.1"))
	} else {
		list = append(list, conf.Word("alpn h2,http/1.1"))
	}
	if address {
		list = append(list, conf.Word("sni req.fhdr(host),host_only"))
	} else {
		list = append(list, conf.Word("sni"), conf.Joined(conf.Word("str("), conf.Value(s.Address), conf.Word(")")))
	}
	if p.HealthCheckEnabled {
		list = append(list, conf.Word("check-ssl check-alpn http/1.1"))
		if !address {
			list = append(list, conf.Word("check-sni"), conf.Value(s.Address))
		}
	}
	if p.Websocket {
		list = append(list, conf.Word("ws h1"))
	}
	return list
}
