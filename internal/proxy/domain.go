package proxy

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Redirects between a name and the same name with www.
const (
	wwwNone   = "none"
	wwwToWWW  = "to_www"
	wwwToApex = "to_apex"
)

// Domain is a site that the proxy serves.
type Domain struct {
	resource.Meta
	Name                   value.SiteName `json:"name" required:"true" doc:"Host name that visitors use, for example www.example.net, or *.example.net for all direct subdomains."`
	BackendID              uuid.UUID      `json:"backend_id" required:"true" doc:"Backend for all paths without a routing rule."`
	Active                 bool           `json:"active" doc:"When off, the proxy does not serve the domain."`
	HTTPToHTTPS            bool           `json:"http_to_https" doc:"Redirect HTTP to HTTPS. When off, both are served."`
	DisableH3              bool           `json:"disable_h3" doc:"Disable HTTP/3 for this domain."`
	HSTSEnabled            bool           `json:"hsts_enabled" doc:"Tell browsers to use HTTPS only (Strict-Transport-Security)."`
	HSTSMaxAge             int64          `json:"hsts_max_age" minimum:"0" maximum:"315360000" doc:"Seconds for which browsers remember it."`
	HSTSIncludeSubdomains  bool           `json:"hsts_include_subdomains" doc:"Include subdomains."`
	HSTSPreload            bool           `json:"hsts_preload" doc:"Allow browsers to include the site in their HSTS preload lists."`
	RateLimitEnabled       bool           `json:"rate_limit_enabled" doc:"Limit the requests of each client address. Requests over the limit get 429."`
	RateLimitRequests      int            `json:"rate_limit_requests" minimum:"1" maximum:"1000000" doc:"Requests that one client may make in a period."`
	RateLimitPeriodSeconds int            `json:"rate_limit_period_seconds" minimum:"1" maximum:"3600" doc:"Length of the period."`
	Maintenance            bool           `json:"maintenance" doc:"Show the maintenance page instead of the site."`
	MaxBodySizeBytes       int64          `json:"max_body_size_bytes" minimum:"0" maximum:"1099511627776" doc:"Largest request body; 0 means no limit. Larger requests get 413, and requests without a length get 411."`
	WWWRedirect            string         `json:"www_redirect" enum:"none,to_www,to_apex" doc:"Redirect the bare domain to www, or www to the bare domain. The domain then answers to both names."`
	AccessLog              bool           `json:"access_log" doc:"Log every request, not only failed ones. See GET /logs?sources=reverse-proxy-access."`
	Notes                  string         `json:"notes" maxLength:"4000" doc:"Note for other administrators."`
	CertificateID          *uuid.UUID     `json:"certificate_id" doc:"Certificate to use. If null, the one that fits the name best."`
}

func (d *Domain) Label() string { return d.Name.String() }

func (d *Domain) Validate() error {
	var c check.List
	if _, wildcard := d.Name.Wildcard(); wildcard {
		c.That(d.WWWRedirect == wwwNone, "www_redirect", "must be none for a wildcard")
	} else if d.WWWRedirect != wwwNone && !d.Name.IsZero() {
		c.That(!d.counterpart().IsZero(), "www_redirect", "must be none, because the name without www. is not a full domain name")
	}
	c.That(!d.HSTSPreload || d.HSTSIncludeSubdomains && d.HSTSMaxAge >= 31536000, "hsts_preload", "needs hsts_include_subdomains and an hsts_max_age of at least 31536000, which the preload lists require")
	return c.Err()
}

// counterpart returns the other name of a domain with a www redirect; it is empty for other domains.
func (d *Domain) counterpart() value.SiteName {
	if d.WWWRedirect == wwwNone {
		return value.SiteName{}
	}
	name := "www." + d.Name.String()
	if apex, www := strings.CutPrefix(d.Name.String(), "www."); www {
		name = apex
	}
	other, err := value.Parse[value.SiteName](name)
	if err != nil {
		return value.SiteName{}
	}
	return other
}

// canonical returns the name that the site is served under, and the name that redirects to it, if any.
func (d *Domain) canonical() (name, other value.SiteName) {
	other = d.counterpart()
	if other.IsZero() || strings.HasPrefix(d.Name.String(), "www.") == (d.WWWRedirect == wwwToWWW) {
		return d.Name, other
	}
	return other, d.Name
}

func (d *Domain) names() []string {
	names := []string{d.Name.String()}
	if other := d.counterpart(); !other.IsZero() {
		names = append(names, other.String())
	}
	return names
}

func (r *Room) domainKind() resource.Kind[Domain] {
	return resource.Kind[Domain]{
		Name: "proxy.domain", Title: "domain", Path: "/domains", Table: DomainTable, Order: "name", Feeds: feeds,
		Notes: []string{"notes"},
		New: func() Domain {
			return Domain{Active: true, HTTPToHTTPS: true, HSTSMaxAge: 31536000, RateLimitRequests: 100, RateLimitPeriodSeconds: 60, WWWRedirect: wwwNone}
		},
		Check: r.checkDomain,
	}
}

// checkDomain makes sure that a name belongs to only one domain, and the gateway's own name to none.
func (r *Room) checkDomain(ctx context.Context, tx *db.Tx, was, now *Domain) error {
	if was == nil || now == nil || !was.needsSame(now) {
		tx.AfterCommit(r.deps.SitesChanged)
	}
	if now == nil {
		return nil
	}
	for _, name := range now.names() {
		field := "name"
		if name != now.Name.String() {
			field = "www_redirect"
		}
		if name == r.deps.FQDN() {
			return fault.Field(field, "must not be %s, the gateway's own name", name)
		}
		var taken string
		err := tx.QueryRow(ctx, `
			SELECT coalesce((SELECT name FROM proxy_domains WHERE name = ANY ($1) AND (name = $2 OR www_redirect <> 'none') AND id <> $3 LIMIT 1), '')`,
			answering(name), name, now.ID).Scan(&taken)
		if err != nil {
			return err
		}
		if taken != "" {
			text := "the domain " + taken + " answers to " + name + " already"
			return &fault.Error{Kind: fault.Conflict, Message: text, Fields: map[string]string{field: text}}
		}
	}
	return nil
}

// answering returns the names of the domains that could answer to a name: the name itself, and those that have it as a counterpart.
func answering(name string) []string {
	list := []string{name, "www." + name}
	if apex, www := strings.CutPrefix(name, "www."); www && !strings.HasPrefix(apex, "www.") {
		list = append(list, apex)
	}
	return list
}

// needsSame reports whether both need the same certificate.
func (d *Domain) needsSame(other *Domain) bool {
	return d.Active == other.Active && slices.Equal(d.names(), other.names()) && (d.CertificateID == nil) == (other.CertificateID == nil)
}

// HeaderName is the name of an HTTP header that an operator may set.
type HeaderName struct{ value.Text[headerNameGrammar] }

type headerNameGrammar struct{}

var headerToken = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9!#$&'*+.^_|~-]{0,99}$`)

// framing lists the headers that delimit a message or belong to one connection: setting them would break it.
var framing = map[string]bool{
	"connection": true, "content-length": true, "host": true, "keep-alive": true, "proxy-connection": true, "te": true, "trailer": true,
	"transfer-encoding": true, "upgrade": true,
}

func (headerNameGrammar) Example() string { return "X-Frame-Options" }

func (headerNameGrammar) Parse(s string) (string, error) {
	switch {
	case !headerToken.MatchString(s):
		return "", errors.New("must be the name of a header: letters, digits and hyphens")
	case framing[strings.ToLower(s)]:
		return "", errors.New("is set by the proxy and cannot be changed")
	}
	return s, nil
}

// HeaderValue is the value of an HTTP header, taken literally.
type HeaderValue struct{ value.Text[headerValueGrammar] }

type headerValueGrammar struct{}

func (headerValueGrammar) Example() string { return "DENY" }

func (headerValueGrammar) Parse(s string) (string, error) {
	if len(s) > 4000 || s != strings.TrimSpace(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", errors.New("must be printable ASCII of at most 4000 characters, without spaces at either end")
	}
	return s, nil
}

// Operations of a header row.
const (
	headerSet    = "set"
	headerAdd    = "add"
	headerRemove = "remove"
)

// headersMost is the maximum total size of a domain's headers, counted as in HTTP/2.
const headersMost = 8 << 10

// Header changes a response header of a domain.
type Header struct {
	resource.Meta
	DomainID  uuid.UUID   `json:"domain_id" required:"true" doc:"Domain that the header is for."`
	Name      HeaderName  `json:"name" required:"true" doc:"Name of the response header."`
	Value     HeaderValue `json:"value" doc:"Its value, sent exactly as given; empty for remove."`
	Operation string      `json:"operation" enum:"set,add,remove" doc:"Whether to set the header, add another one, or remove it."`
}

func (h *Header) Label() string { return h.Name.String() }

func (h *Header) Validate() error {
	var c check.List
	if h.Operation == headerRemove {
		c.That(h.Value.IsZero(), "value", "must be empty, because the header is removed")
	} else {
		c.That(!h.Value.IsZero(), "value", "is required")
	}
	return c.Err()
}

func headerKind() resource.Child[Header] {
	return resource.Child[Header]{
		Kind: resource.Kind[Header]{
			Name: "proxy.header", Title: "header", Table: "proxy_domain_headers", Order: "created_at", Feeds: feeds, Natural: []string{"domain_id", "name", "operation"},
			New: func() Header { return Header{Operation: headerSet} }, Check: checkHeader,
		},
		Under: "/domains/{parent}/headers", Column: "domain_id", Parent: "proxy_domains",
	}
}

// checkHeader limits the headers of a domain to what the proxy can set in any response.
func checkHeader(ctx context.Context, tx *db.Tx, _, now *Header) error {
	if now == nil {
		return nil
	}
	const each = 32 // the overhead of a header in HTTP/2
	size := len(now.Name.String()) + len(now.Value.String()) + each
	err := tx.QueryRow(ctx, `SELECT $3 + coalesce(sum(length(name) + length(value) + $4), 0)::int FROM proxy_domain_headers WHERE domain_id = $1 AND id <> $2`,
		now.DomainID, now.ID, size, each).Scan(&size)
	if err != nil {
		return err
	}
	if size > headersMost {
		return fault.Field("value", "makes the headers of the domain too long: they would have %d bytes together, and at most %d are allowed", size, headersMost)
	}
	return nil
}
