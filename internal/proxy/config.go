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

// Config is all that HAProxy's files depend on.
type Config struct {
	Domains  []Domain  `json:"domains"`
	Headers  []Header  `json:"headers"`
	Backends []Backend `json:"backends"`
	Servers  []Server  `json:"servers"`
	Rules    []Rule    `json:"rules"`
	// Inspections are those of the domains whose requests the web application firewall sees.
	Inspections []Inspection `json:"inspections"`
	// Certificates are those that can be shown.
	Certificates []Certificate `json:"certificates"`
	// Default is shown where no certificate fits: a chain with its key, in PEM.
	Default []byte `json:"default"`
	// FQDN is the gateway's own name.
	FQDN        value.DomainName `json:"fqdn"`
	IPv6        bool             `json:"ipv6"`
	Maintenance bool             `json:"maintenance"`
	Features    Features         `json:"features"`

	compile  sync.Once
	compiled *model
}

// Certificate is a certificate that can be shown.
type Certificate struct {
	ID    uuid.UUID        `json:"id"`
	Names []value.SiteName `json:"names"`
	// PEM is the chain followed by the key.
	PEM []byte `json:"pem"`
	// Trusted is false for one that the gateway signed itself.
	Trusted  bool      `json:"trusted"`
	NotAfter time.Time `json:"not_after"`
	// Management says that it is for the management port alone.
	Management bool `json:"management"`
}

// Inspection says what becomes of the requests of a domain that the web application firewall sees.
type Inspection struct {
	DomainID uuid.UUID `json:"domain_id"`
	// Detects says that nothing is refused, whatever is found.
	Detects bool `json:"detects"`
	// Open lets requests pass that could not be inspected.
	Open bool `json:"open"`
	// Partial lets requests pass whose bodies are larger than MaxBody, or than HAProxy can hold.
	Partial bool `json:"partial"`
	MaxBody int  `json:"max_body"`
	// Answers has responses inspected, too.
	Answers bool `json:"answers"`
}

// Features are what the installed HAProxy is able to do.
type Features struct {
	Version string `json:"version"`
	// QUIC: it speaks HTTP/3, though perhaps in the limited way that the TLS library allows.
	QUIC        bool `json:"quic"`
	LimitedQUIC bool `json:"limited_quic"`
	// OwnSockets: its workers can be allowed to give each connection of HTTP/3 a socket of its own, with which it outlives a
	// reload.
	OwnSockets bool `json:"own_sockets"`
}

// features reads what HAProxy says about itself.
func features(said string) (f Features) {
	for line := range strings.Lines(said) {
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

// model is the configuration in HAProxy's terms; it is made once.
func (c *Config) model() *model {
	c.compile.Do(func() { c.compiled = compile(c) })
	return c.compiled
}

// fqdn is the gateway's own name, if it has one.
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
