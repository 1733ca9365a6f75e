package proxy

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/value"
)

// Config is everything that HAProxy's files depend on.
type Config struct {
	Domains  []Domain  `json:"domains"`
	Headers  []Header  `json:"headers"`
	Backends []Backend `json:"backends"`
	Servers  []Server  `json:"servers"`
	// Spares are the ids of the spare backends.
	Spares []uuid.UUID `json:"spares"`
	Rules  []Rule      `json:"rules"`
	// Inspections lists the domains whose requests the web application firewall inspects.
	Inspections []Inspection `json:"inspections"`
	// Certificates lists the certificates that can be served.
	Certificates []Certificate `json:"certificates"`
	// Default is served if no certificate matches: a chain with its key, in PEM.
	Default []byte `json:"default"`
	// FQDN is the gateway's own name.
	FQDN        value.DomainName `json:"fqdn"`
	IPv6        bool             `json:"ipv6"`
	Maintenance bool             `json:"maintenance"`
	Features    Features         `json:"features"`

	compile  sync.Once
	compiled *model
}

// Certificate is a certificate that can be served.
type Certificate struct {
	ID    uuid.UUID        `json:"id"`
	Names []value.SiteName `json:"names"`
	// PEM is the chain followed by the key.
	PEM []byte `json:"pem"`
	// Trusted is false for a self-signed certificate.
	Trusted  bool      `json:"trusted"`
	NotAfter time.Time `json:"not_after"`
	// Management restricts it to the management port.
	Management bool `json:"management"`
}

// Inspection says how the web application firewall handles the requests of a domain.
type Inspection struct {
	DomainID uuid.UUID `json:"domain_id"`
	// Detects means that nothing is blocked, whatever is found.
	Detects bool `json:"detects"`
	// Open lets requests pass that could not be inspected.
	Open bool `json:"open"`
	// Partial lets requests pass whose bodies are larger than MaxBody, or than HAProxy's buffer.
	Partial bool `json:"partial"`
	MaxBody int  `json:"max_body"`
	// Answers means that responses are inspected, too.
	Answers bool `json:"answers"`
}

// Features are the capabilities of the installed HAProxy.
type Features struct {
	Version string `json:"version"`
	// QUIC: it speaks HTTP/3, possibly with the limits of its TLS library.
	QUIC        bool `json:"quic"`
	LimitedQUIC bool `json:"limited_quic"`
	// OwnSockets: its workers can give each HTTP/3 connection its own socket, so that the connection survives a reload.
	OwnSockets bool `json:"own_sockets"`
}

// features parses HAProxy's version output.
func features(output string) (f Features) {
	for line := range strings.Lines(output) {
		if v, ok := strings.CutPrefix(line, "HAProxy version "); ok {
			f.Version, _, _ = strings.Cut(v, " ")
		}
		if list, ok := strings.CutPrefix(line, "Feature list :"); ok {
			f.QUIC = strings.Contains(list, " +QUIC ")
			f.LimitedQUIC = f.QUIC && strings.Contains(list, " +QUIC_OPENSSL_COMPAT ")
			f.OwnSockets = f.QUIC && !strings.HasPrefix(f.Version, "2.")
		}
	}
	return f
}

// model returns the configuration in HAProxy's terms, compiled once.
func (c *Config) model() *model {
	c.compile.Do(func() { c.compiled = compile(c) })
	return c.compiled
}

// fqdn returns the gateway's own name, if it has one.
func (r *Room) fqdn() (value.DomainName, error) {
	name := r.deps.FQDN()
	if name == "" {
		return value.DomainName{}, nil
	}
	return value.Parse[value.DomainName](name)
}

// surroundings returns a configuration that has only what does not come from a table of rows.
func (r *Room) surroundings(ctx context.Context, q db.Querier) (*Config, error) {
	c := &Config{Features: r.capabilities(ctx), Maintenance: r.deps.Maintenance()}
	var err error
	if c.Default, err = r.deps.Default(); err != nil {
		return nil, err
	}
	if c.IPv6, err = r.deps.IPv6(ctx, q); err != nil {
		return nil, err
	}
	c.FQDN, err = r.fqdn()
	return c, err
}

func (r *Room) load(ctx context.Context, q db.Querier) (*Config, error) {
	c, err := r.surroundings(ctx, q)
	if err != nil {
		return nil, err
	}
	if c.Domains, err = r.domains.All(ctx, q); err != nil {
		return nil, err
	}
	if c.Headers, err = r.headers.All(ctx, q); err != nil {
		return nil, err
	}
	if c.Backends, err = r.backends.All(ctx, q); err != nil {
		return nil, err
	}
	if c.Servers, err = r.servers.All(ctx, q); err != nil {
		return nil, err
	}
	if c.Spares, err = loadSpares(ctx, q); err != nil {
		return nil, err
	}
	if c.Rules, err = r.rules.All(ctx, q); err != nil {
		return nil, err
	}
	if c.Certificates, err = r.deps.Certificates(ctx, q); err != nil {
		return nil, err
	}
	if c.Inspections, err = r.deps.Inspections(ctx, q); err != nil {
		return nil, err
	}
	return c, nil
}

// amend derives the configuration after a change of backends and servers from the previous one. Only the changed backends are read.
func (r *Room) amend(ctx context.Context, q db.Querier, was *Config, rows []apply.Row) (*Config, bool, error) {
	changed := map[uuid.UUID]bool{}
	for _, row := range rows {
		if row.Kind != r.backends.Name && row.Kind != r.servers.Name {
			return nil, false, nil
		}
		for _, side := range []any{row.Was, row.Now} {
			switch x := side.(type) {
			case *Backend:
				changed[x.ID] = true
			case *Server:
				changed[x.BackendID] = true
			}
		}
	}
	c, err := r.surroundings(ctx, q)
	if err != nil || c.Features != was.Features || c.Maintenance != was.Maintenance || !bytes.Equal(c.Default, was.Default) || c.IPv6 != was.IPv6 || c.FQDN != was.FQDN {
		return nil, false, err
	}
	if c.Spares, err = loadSpares(ctx, q); err != nil {
		return nil, false, err
	}
	ids := slices.Collect(maps.Keys(changed))
	backends, err := r.backends.Where(ctx, q, "id = ANY ($1)", ids)
	if err != nil {
		return nil, false, err
	}
	servers, err := r.servers.Where(ctx, q, "backend_id = ANY ($1)", ids)
	if err != nil {
		return nil, false, err
	}
	c.Backends = append(slices.DeleteFunc(slices.Clone(was.Backends), func(b Backend) bool { return changed[b.ID] }), backends...)
	c.Servers = append(slices.DeleteFunc(slices.Clone(was.Servers), func(s Server) bool { return changed[s.BackendID] }), servers...)
	c.Domains, c.Headers, c.Rules, c.Certificates, c.Inspections = was.Domains, was.Headers, was.Rules, was.Certificates, was.Inspections
	for _, list := range [][2][]uuid.UUID{{was.Spares, c.Spares}, {c.Spares, was.Spares}} {
		for _, id := range list[0] {
			if !slices.Contains(list[1], id) {
				changed[id] = true
			}
		}
	}
	c.compile.Do(func() { c.compiled = was.model().with(c, changed) })
	return c, true, nil
}
