package proxy

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

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

func (r *Room) load(ctx context.Context, q db.Querier) (*Config, error) {
	fallback, err := r.deps.Default()
	if err != nil {
		return nil, err
	}
	c := &Config{Default: fallback, Features: r.capabilities(ctx)}
	c.Maintenance = r.deps.Maintenance()
	if c.IPv6, err = r.deps.IPv6(ctx, q); err != nil {
		return nil, err
	}
	if c.FQDN, err = r.fqdn(); err != nil {
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
