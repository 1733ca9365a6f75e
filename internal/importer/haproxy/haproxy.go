// Package haproxy converts a configuration of HAProxy into a configuration document: backends with their servers, and domains with
// routing rules from the conditions of frontends.
package haproxy

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"edge.internal/gateway/internal/importer"
)

// conversion is an import in progress.
type conversion struct {
	doc      importer.Document
	report   importer.Report
	sections []*section
	backends map[string]*backend
	domains  map[string]*domain
	// order lists the names of the domains in order of appearance.
	order []string
	// redirects means that a frontend only redirects HTTP to HTTPS, for any name.
	redirects bool
	// closed is the name of the backend that answers 503, if one is needed.
	closed string
}

// Import converts an haproxy.cfg.
func Import(ctx context.Context, text []byte) (*importer.Document, *importer.Report, error) {
	c := &conversion{backends: map[string]*backend{}, domains: map[string]*domain{}}
	sections, err := parse(string(text), func(l *line) {
		c.note(l, "blocks with a condition of their own are not read")
	})
	if err != nil {
		return nil, nil, err
	}
	c.sections = sections
	c.pick()
	for _, s := range c.sections {
		if err := context.Cause(ctx); err != nil {
			return nil, nil, err
		}
		if s.kind == "backend" || s.kind == "listen" {
			c.readBackend(s)
		}
	}
	for _, s := range c.sections {
		if err := context.Cause(ctx); err != nil {
			return nil, nil, err
		}
		if s.kind == "frontend" || s.kind == "listen" {
			c.readFrontend(s)
		}
	}
	c.writeDomains()
	c.reportRest()
	return &c.doc, &c.report, nil
}

func (c *conversion) note(l *line, why string, args ...any) {
	l.claimed = true
	c.report.Add(l.number, l.text(), why, args...)
}

// drop reports a section with its content.
func (c *conversion) drop(s *section, why string) {
	c.note(&s.line, why)
	for _, l := range s.lines {
		l.claimed = true
	}
}

// Why sections that are not proxies are not carried over.
var sectionReasons = map[string]string{
	"global":      "the gateway manages the settings of its proxy itself",
	"userlist":    "the gateway has no basic authentication for sites",
	"peers":       "the nodes of a cluster share no stick tables",
	"resolvers":   "the gateway resolves names with its own DNS settings",
	"mailers":     "use the alerts of the gateway instead",
	"cache":       "the gateway has no cache for sites",
	"program":     "the gateway starts no other programs",
	"http-errors": "the gateway has its own error pages",
	"crt-store":   "upload certificates to the gateway, or let it order them (ACME)",
	"acme":        "the gateway orders certificates with its own ACME settings",
}

// pick keeps the proxies, and reports the other sections.
func (c *conversion) pick() {
	var proxies []*section
	for _, s := range c.sections {
		switch s.kind {
		case "defaults": // its content is claimed by the sections that inherit it
		case "frontend", "backend", "listen":
			mode := s.setting("mode")
			switch {
			case s.name == "":
				c.drop(s, "the section has no name")
				continue
			case mode == nil || mode.word(1) != "http":
				c.drop(s, "the reverse proxy of the gateway is for HTTP only, and this is not mode http. Use a port forward (NAT) instead")
				continue
			case s.setting("stats", "enable") != nil && s.setting("server") == nil && s.setting("default_backend") == nil && s.setting("use_backend") == nil:
				c.drop(s, "the gateway has its own statistics page")
				continue
			}
			proxies = append(proxies, s)
			continue
		default:
			why := sectionReasons[s.kind]
			if why == "" {
				why = "the gateway has no equivalent"
			}
			c.drop(s, why)
			continue
		}
		proxies = append(proxies, s)
	}
	c.sections = proxies
}

// The first words of directives that restrict access.
var guards = [][]string{
	{"http-request", "deny"}, {"http-request", "auth"}, {"http-request", "reject"}, {"http-request", "tarpit"}, {"http-request", "silent-drop"}, {"http-request", "allow"},
	{"block"}, {"tcp-request", "connection", "reject"}, {"tcp-request", "content", "reject"},
}

// limited matches a condition on a client's rate. Such a guard refuses clients that ask too often, and protects no secrets.
var limited = regexp.MustCompile(`\bsc[0-9]?_|\bsrc_(conn|http|bytes|get_gpc|inc_gpc|clr)`)

// guarded reports what restricts access to a section, and returns whether its sites must not be opened to everyone as a result.
func (c *conversion) guarded(s *section) (guarded bool) {
	var lines []*line
	for _, at := range s.sources() {
		lines = append(lines, at.lines...)
	}
	note := func(l *line, why string) {
		if !l.claimed { // several sections may inherit it
			c.note(l, "%s", why)
		}
	}
	for _, l := range lines {
		if !begins(l, guards) {
			continue
		}
		condition := strings.Join(l.words, " ")
		for _, word := range l.words {
			for _, a := range lines {
				if a.is("acl", strings.TrimLeft(word, "!")) {
					condition += " " + strings.Join(a.words, " ")
				}
			}
		}
		if limited.MatchString(condition) {
			note(l, "use the rate limit of the domain instead")
			continue
		}
		guarded = true
		note(l, "the gateway has no equivalent. What it protects is carried over turned off: protect it otherwise, for example by a firewall rule, before you turn it on")
	}
	for _, l := range lines {
		if verify := slices.Index(l.words, "verify"); l.is("bind") && verify > 0 && l.word(verify+1) == "required" {
			guarded = true
			note(l, "the gateway asks for no client certificates. The sites are carried over turned off")
		}
	}
	return guarded
}

// done lists directives whose effect the gateway has anyway.
var done = [][]string{
	{"option", "forwardfor"}, {"option", "http-server-close"}, {"option", "http-keep-alive"}, {"option", "redispatch"}, {"option", "dontlognull"}, {"option", "httplog"},
	{"http-request", "set-header", "X-Forwarded-Proto"}, {"http-request", "add-header", "X-Forwarded-Proto"}, {"http-request", "set-header", "X-Forwarded-For"},
	{"http-request", "set-header", "X-Forwarded-Host"}, {"mode"}, {"enabled"}, {"log", "global"},
}

// reasons explains why directives are not carried over, by their first words.
var reasons = []struct {
	words []string
	why   string
}{
	{[]string{"timeout"}, "the gateway has its own timeouts"},
	{[]string{"log"}, "the gateway has its own log"},
	{[]string{"log-format"}, "the gateway has its own log format"},
	{[]string{"option", "httplog"}, "the gateway has its own log format"},
	{[]string{"errorfile"}, "the gateway has its own error pages"},
	{[]string{"errorfiles"}, "the gateway has its own error pages"},
	{[]string{"cookie"}, "the gateway has no sticky sessions by cookie. Load balancing by client address (source) comes closest"},
	{[]string{"stick"}, "the gateway has no sticky sessions. Load balancing by client address (source) comes closest"},
	{[]string{"stick-table"}, "use the rate limit of the domain, if this is for one"},
	{[]string{"http-request", "track-sc0"}, "use the rate limit of the domain, if this is for one"},
	{[]string{"http-request", "set-header"}, "the gateway changes headers of responses only"},
	{[]string{"http-request", "add-header"}, "the gateway changes headers of responses only"},
	{[]string{"http-request", "del-header"}, "the gateway changes headers of responses only"},
	{[]string{"http-response"}, "the gateway sets, adds and removes response headers with a fixed value and without a condition"},
	{[]string{"redirect"}, "the gateway redirects from HTTP to HTTPS and between a name with and without www. only"},
	{[]string{"http-request", "redirect"}, "the gateway redirects from HTTP to HTTPS and between a name with and without www. only"},
	{[]string{"stats"}, "the gateway has its own statistics page"},
	{[]string{"compression"}, "the gateway does not compress responses"},
	{[]string{"maxconn"}, "the gateway has its own limits"},
	{[]string{"server-template"}, "add the servers one by one"},
	{[]string{"disabled"}, "the section is off. Turn its domains or backend off at the gateway"},
}

// reportRest reports what was not claimed.
func (c *conversion) reportRest() {
	for _, s := range c.sections {
		for _, l := range s.lines {
			if !l.claimed && !begins(l, done) {
				c.note(l, "%s", reason(l))
			}
		}
	}
}

func begins(l *line, list [][]string) bool {
	for _, words := range list {
		if l.is(words...) {
			return true
		}
	}
	return false
}

func reason(l *line) string {
	if strings.Contains(strings.Join(l.words, " "), "${") {
		return "the value of an environment variable is not in the file"
	}
	for _, r := range reasons {
		if l.is(r.words...) {
			return r.why
		}
	}
	return "the gateway has no equivalent"
}
