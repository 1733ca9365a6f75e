package certificate

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"strconv"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

const (
	providerTable = "certificate_dns_providers"

	kindRFC2136      = "rfc2136"
	kindCloudflare   = "cloudflare"
	kindDeSEC        = "desec"
	kindDigitalOcean = "digitalocean"
	kindHetzner      = "hetzner"
	kindHTTPReq      = "httpreq"
)

// DNSProvider is a DNS service where the gateway may set records to prove that it controls a name.
type DNSProvider struct {
	resource.Meta
	resource.Secrets
	Name             value.Line         `json:"name" required:"true" maxLength:"120" doc:"Name of the provider."`
	Kind             string             `json:"kind" required:"true" enum:"rfc2136,cloudflare,desec,digitalocean,hetzner,httpreq" doc:"Provider or protocol. rfc2136: dynamic update with TSIG, which most name servers support. httpreq: your own web service, which gets POST /present and POST /cleanup with fqdn and value."`
	Zones            []value.DomainName `json:"zones" doc:"Zones that it serves; if empty, all."`
	Server           string             `json:"server" maxLength:"300" doc:"For rfc2136: the primary name server, by name or address, with a port if it is not 53."`
	Endpoint         value.URL          `json:"endpoint" doc:"For httpreq: where the web service is."`
	Username         string             `json:"username" maxLength:"255" doc:"For rfc2136: name of the TSIG key. For httpreq: the user, if the service requires one."`
	Algorithm        string             `json:"algorithm" enum:"hmac-sha256,hmac-sha384,hmac-sha512" doc:"For rfc2136: the algorithm of the TSIG key."`
	Secret           secret.Text        `json:"secret,omitzero" doc:"The TSIG key in base64, the API token, or the password."`
	SecretConfigured bool               `json:"secret_configured" readOnly:"true" db:"-" doc:"Whether there is a secret."`
}

func (p *DNSProvider) Label() string { return p.Name.String() }

// Validate reports settings that the kind needs but lacks, and settings that it does not take.
func (p *DNSProvider) Validate() error {
	var c check.List
	rfc2136, httpreq := p.Kind == kindRFC2136, p.Kind == kindHTTPReq
	for i, z := range p.Zones {
		for _, other := range p.Zones[:i] {
			c.That(z != other, "zones", "contains %s twice", z)
		}
	}
	if rfc2136 {
		c.That(p.Server != "", "server", "is required for rfc2136")
		if _, err := serverAddress(p.Server); p.Server != "" && err != nil {
			c.Add("server", "%v", err)
		}
		_, err := value.Parse[value.Host](p.Username)
		c.That(err == nil, "username", "must be the name of the TSIG key, for example gateway or gateway.example.net")
		if plain, fresh := p.Secret.Fresh(); fresh {
			_, err := base64.StdEncoding.DecodeString(plain)
			c.That(err == nil, "secret", "must be the TSIG key in base64, as in the configuration of the name server")
		}
	}
	c.That(rfc2136 || p.Server == "", "server", "applies to rfc2136 only")
	c.That(!httpreq || !p.Endpoint.IsZero(), "endpoint", "is required for httpreq")
	c.That(httpreq || p.Endpoint.IsZero(), "endpoint", "applies to httpreq only")
	c.That(rfc2136 || httpreq || p.Username == "", "username", "applies to rfc2136 and httpreq only")
	c.That(httpreq && p.Username == "" || p.Secret.Set(), "secret", "is required")
	return c.Err()
}

// serverAddress adds the default port to a name server.
func serverAddress(text string) (string, error) {
	host, port := text, "53"
	if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	}
	if _, err := value.Parse[value.Host](host); err != nil {
		return "", errors.New("must be a host name or an IP address, with a port if it is not 53")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("must have a port between 1 and 65535, or none")
	}
	return net.JoinHostPort(host, port), nil
}

func (r *Room) providerKind() resource.Kind[DNSProvider] {
	return resource.Kind[DNSProvider]{
		Name: "certificate.dns-provider", Title: "DNS provider", Path: "/dns-providers", Table: providerTable, Order: "name",
		New:   func() DNSProvider { return DNSProvider{Algorithm: "hmac-sha256"} },
		Check: r.checkProvider,
	}
}

// checkProvider keeps the secret from being sent to a new server, and restarts the orders that wait for a provider.
func (r *Room) checkProvider(ctx context.Context, tx *db.Tx, was, now *DNSProvider) error {
	if now == nil {
		users, err := r.certificates.Where(ctx, tx, "dns_provider_id = $1", was.ID)
		if err != nil {
			return err
		}
		var list []resource.User
		for i := range users {
			list = append(list, resource.User{Kind: r.certificates.Name, ID: users[i].ID, Name: users[i].Label()})
		}
		return resource.InUse("the DNS provider", list)
	}
	if was != nil && !resource.Restored(ctx) && (was.Kind != now.Kind || was.Server != now.Server || was.Endpoint != now.Endpoint) {
		if _, fresh := now.Secret.Fresh(); now.Secret.Set() && !fresh {
			return fault.Field("secret", "must be entered again when the service changes")
		}
	}
	tx.Queue("UPDATE certificate_certificates SET next_attempt_at = NULL WHERE source = 'acme' AND challenge = 'dns-01' AND next_attempt_at IS NOT NULL")
	tx.AfterCommit(r.Wake)
	return nil
}
