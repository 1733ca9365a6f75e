package haproxy

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/importer"
	"edge.internal/gateway/internal/kit/value"
)

// domain is a site in the frontends.
type domain struct {
	name    string
	backend string
	routes  []route
	// secure means that its frontend has TLS, and plain that a frontend without TLS serves it.
	secure, plain bool
	// redirected means that HTTP is redirected to HTTPS.
	redirected bool
	www        string
	headers    []header
	hsts       *hsts
	// off means that HAProxy restricts access in a way that the gateway does not support.
	off bool
}

type route struct {
	prefix, backend string
	strip, off      bool
}

// to sets the domain's backend.
func (d *domain) to(b *backend) { d.backend, d.off = b.name, d.off || b.guarded }

func (d *domain) same(x *domain) bool {
	return d.backend == x.backend && slices.Equal(d.routes, x.routes)
}

type header struct{ name, value, operation string }

type hsts struct {
	age                 int64
	subdomains, preload bool
}

// frontend is a section for clients.
type frontend struct {
	*section
	acls acls
	// plain and secure describe its bind lines.
	plain, secure bool
	rules         []*rule
	standard      *backend // for requests without a matching rule
	domains       []*domain
	guarded       bool
}

type rule struct {
	*line
	backend *backend
	terms   []term
	used    bool
}

func (c *conversion) readFrontend(s *section) {
	f := &frontend{section: s, acls: c.readACLs(s), guarded: c.guarded(s)}
	c.readBinds(f)
	c.readRules(f)
	seen := map[string]bool{}
	for _, r := range f.rules {
		for _, t := range r.terms {
			for _, name := range t.hosts {
				if !seen[name] {
					seen[name] = true
					f.domains = append(f.domains, f.follow(name))
				}
			}
		}
	}
	for _, r := range f.rules {
		if !r.used && !r.claimed {
			c.note(r.line, "no host name leads here. Add a domain for it")
		}
	}
	c.readDefault(f)
	redirected := c.readRedirects(f)
	for _, d := range f.domains {
		d.redirected = redirected == nil && d.redirected || slices.Contains(redirected, d.name) || slices.Contains(redirected, "")
		c.merge(f, d)
	}
	if slices.Contains(redirected, "") && len(f.domains) == 0 && !f.secure {
		c.redirects = true
	}
	c.readHeaders(f.section, f.domains)
}

// readBinds reads where a frontend listens. The gateway listens on ports 80 and 443.
func (c *conversion) readBinds(f *frontend) {
	for _, l := range f.find("bind") {
		secure := slices.Contains(l.words, "ssl")
		f.secure, f.plain = f.secure || secure, f.plain || !secure
		for part := range strings.SplitSeq(l.word(1), ",") {
			if port := part[strings.LastIndexByte(part, ':')+1:]; port != "80" && port != "443" {
				c.note(l, "the gateway serves sites on ports 80 and 443 only, not on %s", part)
			}
		}
		for i, word := range l.words {
			switch word {
			case "crt", "crt-list", "ca-file":
				c.note(l, "files are not read: %s %s. Upload certificates to the gateway, or let it order them (ACME)", word, l.word(i+1))
			case "accept-proxy", "interface", "process", "thread":
				c.note(l, "the gateway has no equivalent of %s", word)
			}
		}
	}
}

// readRules reads the lines that choose a backend.
func (c *conversion) readRules(f *frontend) {
	for _, l := range f.lines {
		if l.words[0] != "use_backend" || len(l.words) < 2 {
			continue
		}
		name := l.word(1)
		if strings.Contains(name, "%[") {
			c.note(l, "the backend depends on the request. Add a domain or a routing rule for each")
			continue
		}
		b := c.backends[name]
		if b == nil {
			c.note(l, "the backend %s was not carried over", name)
			continue
		}
		r := &rule{line: l, backend: b}
		bad := ""
		for _, t := range f.acls.alternatives(l.words[2:]) {
			switch {
			case t.bad == "" && challenge(t.paths):
				t.bad = "the gateway answers ACME challenges itself"
			case t.bad == "" && t.tls != nil && f.plain && f.secure:
				t.bad = "the gateway does not choose a backend by whether TLS is used"
			case t.bad == "" && t.tls != nil && *t.tls != f.secure:
				t.bad = "the condition is never true"
			}
			if t.bad != "" {
				bad = t.bad
				continue
			}
			r.terms = append(r.terms, t)
		}
		switch {
		case bad != "" && len(r.terms) > 0:
			c.note(l, "a part of the condition is left out: %s", bad)
		case bad != "":
			c.note(l, bad)
		}
		f.rules = append(f.rules, r)
	}
}

// covers reports whether the names of a rule include the domain's.
func covers(names []string, domain string) bool {
	if names == nil || slices.Contains(names, domain) {
		return true
	}
	_, parent, _ := strings.Cut(domain, ".")
	return !strings.HasPrefix(domain, "*.") && slices.Contains(names, "*."+parent)
}

// follow evaluates the rules of a frontend like a request for a domain.
func (f *frontend) follow(name string) *domain {
	d := &domain{name: name, secure: f.secure, plain: f.plain, off: f.guarded}
	for _, r := range f.rules {
		for _, t := range r.terms {
			if d.backend != "" || !covers(t.hosts, name) {
				continue
			}
			r.used, r.claimed = true, true
			if t.paths == nil {
				d.to(r.backend)
				continue
			}
			for _, prefix := range t.paths {
				if !slices.ContainsFunc(d.routes, func(x route) bool { return x.prefix == prefix }) {
					d.routes = append(d.routes, r.lead(prefix))
				}
			}
		}
	}
	return d
}

// lead returns the route from a prefix to a backend.
func (r *rule) lead(prefix string) route {
	x := route{prefix: prefix, backend: r.backend.name, off: r.backend.guarded}
	if l := r.backend.strips[strings.TrimSuffix(prefix, "/")]; l != nil {
		l.claimed, x.strip = true, true
	}
	return x
}

// readDefault gives the domains without a backend the default one.
func (c *conversion) readDefault(f *frontend) {
	l := f.setting("default_backend")
	if l != nil {
		if b := c.backends[l.word(1)]; b != nil {
			f.standard = b
		} else {
			c.note(l, "the backend %s was not carried over", l.word(1))
		}
	} else if b := c.backends[f.name]; b != nil && b.section == f.section {
		f.standard, l = b, &f.line
	}
	if f.standard != nil {
		where := "requests for all names"
		if len(f.domains) > 0 {
			where = "requests for all other names"
		}
		c.note(l, "%s went to %s. The gateway serves the domains that it has: add those that are missing", where, f.standard.name)
	}
	for _, d := range f.domains {
		switch {
		case d.backend != "":
		case f.standard != nil:
			d.to(f.standard)
		default:
			d.backend = c.nowhere()
		}
	}
}

// nowhere returns a backend that is off: HAProxy answers 503 to requests without a backend, and so does the gateway with this one.
func (c *conversion) nowhere() string {
	if c.closed == "" {
		c.closed = c.doc.Name("proxy.backend", "no backend")
		c.doc.Add("proxy.backend", importer.Fields("name", c.closed, "active", false, "health_check_enabled", false))
	}
	return c.closed
}

// merge combines a domain of a frontend with its definitions in other frontends. Those with TLS take precedence.
func (c *conversion) merge(f *frontend, d *domain) {
	was := c.domains[d.name]
	if was == nil {
		c.domains[d.name] = d
		c.order = append(c.order, d.name)
		return
	}
	keep, other := was, d
	if !was.secure && d.secure {
		keep, other = d, was
	}
	if !keep.same(other) && !other.redirected {
		c.note(&f.line, "%s is served in two ways. The gateway serves HTTP and HTTPS alike, as the frontend with TLS does", d.name)
	}
	keep.plain, keep.secure, keep.redirected = keep.plain || other.plain, keep.secure || other.secure, keep.redirected || other.redirected
	keep.headers, keep.off = append(keep.headers, other.headers...), keep.off || other.off
	c.domains[d.name] = keep
}

// readRedirects reads the redirects of a frontend. It returns the names whose HTTP is redirected to HTTPS, with "" for all.
func (c *conversion) readRedirects(f *frontend) (names []string) {
	for _, l := range f.lines {
		words := l.words
		if l.is("http-request", "redirect") {
			words = words[1:]
		}
		if words[0] != "redirect" || len(words) < 3 {
			continue
		}
		condition := slices.IndexFunc(words, func(w string) bool { return w == "if" || w == "unless" })
		var rest []string
		if condition >= 0 {
			rest = words[condition:]
		}
		for _, t := range f.acls.alternatives(rest) {
			switch {
			case t.bad != "" || t.paths != nil:
			case words[1] == "scheme" && words[2] == "https" && (t.tls == nil && !f.secure || t.tls != nil && !*t.tls):
				l.claimed = true
				if t.hosts == nil {
					names = append(names, "")
				}
				names = append(names, t.hosts...)
			case words[1] == "prefix" || words[1] == "location":
				for _, name := range t.hosts {
					if c.www(f, name, words[2]) {
						l.claimed = true
					}
				}
			}
		}
	}
	return names
}

// kept matches what may follow the host in the target of a redirect that keeps the path.
var kept = regexp.MustCompile(`^(%\[(capture\.req\.uri|path|pathq|url)\])?$`)

// www turns a redirect between a name and the same name with www. into a setting of the target domain.
func (c *conversion) www(f *frontend, from, to string) bool {
	at := strings.Index(to, "%[")
	if at < 0 {
		at = len(to)
	}
	u, err := url.Parse(to[:at])
	if err != nil || u.Path != "" && u.Path != "/" || !kept.MatchString(to[at:]) {
		return false
	}
	site, err := value.Parse[value.SiteName](u.Hostname())
	if err != nil {
		return false
	}
	www := ""
	switch {
	case from == "www."+site.String():
		www = "to_apex"
	case site.String() == "www."+from:
		www = "to_www"
	}
	i := slices.IndexFunc(f.domains, func(d *domain) bool { return d.name == site.String() })
	if www == "" || i < 0 {
		return false
	}
	f.domains[i].www = www
	// It now answers to both names, and HAProxy redirects before it chooses a backend.
	f.domains = slices.DeleteFunc(f.domains, func(d *domain) bool { return d.name == from })
	return true
}

var (
	headerName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9!#$&'*+.^_|~-]{0,99}$`)
	headerValue = regexp.MustCompile(`^[!-~]([ -~]*[!-~])?$`)
	hstsAge     = regexp.MustCompile(`(?i)max-age\s*=\s*"?(\d{1,9})`)
)

// framing lists the headers that only the proxy sets.
var framing = []string{"connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}

// readHeaders reads the response headers that a section sets for some domains.
func (c *conversion) readHeaders(s *section, domains []*domain) {
	for _, l := range s.find("http-response") {
		l.claimed = false
		h := header{name: l.word(2), operation: map[string]string{"set-header": "set", "add-header": "add", "del-header": "remove"}[l.word(1)]}
		length := 4
		if h.operation == "remove" {
			length = 3
		} else {
			h.value = strings.ReplaceAll(l.word(3), "%%", "\x00")
		}
		dynamic := strings.Contains(h.value, "%")
		h.value = strings.ReplaceAll(h.value, "\x00", "%")
		if h.operation == "" || len(l.words) != length || dynamic || !headerName.MatchString(h.name) || slices.Contains(framing, strings.ToLower(h.name)) ||
			h.operation != "remove" && (len(h.value) > 4000 || !headerValue.MatchString(h.value)) || len(domains) == 0 {
			continue
		}
		l.claimed = true
		for _, d := range domains {
			d.set(h)
		}
	}
}

// set adds a header to a domain. HSTS is a setting of its own.
func (d *domain) set(h header) {
	if m := hstsAge.FindStringSubmatch(h.value); m != nil && h.operation != "remove" && strings.EqualFold(h.name, "Strict-Transport-Security") {
		age, _ := strconv.ParseInt(m[1], 10, 64)
		text := strings.ToLower(h.value)
		d.hsts = &hsts{age: min(age, 315360000), subdomains: strings.Contains(text, "includesubdomains"), preload: strings.Contains(text, "preload")}
		return
	}
	if !slices.Contains(d.headers, h) {
		if h.operation != "add" {
			d.headers = slices.DeleteFunc(d.headers, func(x header) bool { return strings.EqualFold(x.name, h.name) })
		}
		d.headers = append(d.headers, h)
	}
}

func (c *conversion) writeDomains() {
	for _, s := range c.sections {
		if b := c.backends[s.name]; b != nil && b.section == s && s.kind == "backend" {
			var of []*domain
			for _, name := range c.order {
				if d := c.domains[name]; d.backend == b.name {
					of = append(of, d)
				}
			}
			c.readHeaders(s, of)
		}
	}
	for _, name := range c.order {
		d := c.domains[name]
		row := importer.Fields("name", d.name, "backend_id", d.backend, "active", importer.Unless(!d.off, true), "http_to_https", importer.Unless(d.redirected || c.redirects || !d.plain, true))
		if d.hsts != nil {
			row = append(row, importer.Fields("hsts_enabled", true, "hsts_max_age", d.hsts.age, "hsts_include_subdomains", importer.Unless(d.hsts.subdomains, false),
				"hsts_preload", importer.Unless(d.hsts.preload && d.hsts.subdomains && d.hsts.age >= 31536000, false))...)
		}
		c.doc.Add("proxy.domain", append(row, importer.Fields("www_redirect", importer.Unless(d.www, ""))...))
		for _, r := range d.routes {
			c.doc.Add("proxy.routing-rule", importer.Fields("domain_id", d.name, "path_prefix", r.prefix, "backend_id", r.backend, "active", importer.Unless(!r.off, true), "strip_prefix", importer.Unless(r.strip, false)))
		}
		for _, h := range d.headers {
			c.doc.Add("proxy.header", importer.Fields("domain_id", d.name, "name", h.name, "value", importer.Unless(h.value, ""), "operation", importer.Unless(h.operation, "set")))
		}
	}
}
