package certificate

import (
	"errors"
	"net/url"
	"strings"

	"github.com/go-acme/lego/v5/challenge"
	"github.com/go-acme/lego/v5/providers/dns/cloudflare"
	"github.com/go-acme/lego/v5/providers/dns/desec"
	"github.com/go-acme/lego/v5/providers/dns/digitalocean"
	"github.com/go-acme/lego/v5/providers/dns/hetzner"
	"github.com/go-acme/lego/v5/providers/dns/httpreq"
	"github.com/miekg/dns"
)

// setter opens the secret of a provider, and returns a setter for it.
func (r *Room) setter(p *DNSProvider) (*setter, error) {
	plain, err := p.Secret.Open(r.Secrets, providerTable, "secret", p.ID.String())
	if err != nil {
		return nil, failed(failedDNS, "the secret of the DNS provider %s cannot be decrypted with this gateway's master key: enter it again", p.Label())
	}
	s := &setter{name: p.Label()}
	if p.Kind == kindRFC2136 {
		if s.server, err = serverAddress(p.Server); err != nil {
			return nil, err
		}
		s.Provider = &rfc2136{
			server: s.server, key: strings.ToLower(dns.Fqdn(p.Username)), algorithm: dns.Fqdn(p.Algorithm), secret: plain, clock: r.Clock,
		}
		return s, nil
	}
	if s.Provider, err = r.hosted(p, plain); err != nil {
		return nil, failed(failedDNS, "the DNS provider %s cannot be used: %v", p.Label(), err)
	}
	return s, nil
}

// hosted returns a provider that has a web API.
func (r *Room) hosted(p *DNSProvider, plain string) (challenge.Provider, error) {
	outside, err := r.outside()
	if err != nil {
		return nil, err
	}
	switch p.Kind {
	case kindCloudflare:
		c := cloudflare.NewDefaultConfig()
		c.AuthToken, c.HTTPClient = plain, outside
		return cloudflare.NewDNSProviderConfig(c)
	case kindDeSEC:
		c := desec.NewDefaultConfig()
		c.Token, c.HTTPClient = plain, outside
		return desec.NewDNSProviderConfig(c)
	case kindDigitalOcean:
		c := digitalocean.NewDefaultConfig()
		c.AuthToken, c.HTTPClient = plain, outside
		return digitalocean.NewDNSProviderConfig(c)
	case kindHetzner:
		c := hetzner.NewDefaultConfig()
		c.APIToken, c.HTTPClient = plain, outside
		return hetzner.NewDNSProviderConfig(c)
	case kindHTTPReq:
		c := httpreq.NewDefaultConfig()
		c.Username, c.Password, c.HTTPClient = p.Username, plain, outside
		if c.Endpoint, err = url.Parse(p.Endpoint.String()); err != nil {
			return nil, err
		}
		return httpreq.NewDNSProviderConfig(c)
	}
	return nil, errors.New("the gateway does not know this kind")
}
