// Package certificate owns the TLS certificates: those of a certificate authority, ordered and renewed by ACME, those that
// operators bring, and those that the gateway signs itself until it has better ones.
package certificate

import (
	"context"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

// feeds: the proxy shows the certificates.
var feeds = []apply.ID{apply.ReverseProxy}

// Name is a name in a certificate: a full domain name, or *. before one.
type Name struct{ value.Text[nameGrammar] }

// Certificate is a TLS certificate with its key, or the order for one.
type Certificate struct {
	resource.Meta
	DomainID          *uuid.UUID  `json:"domain_id" doc:"Domain that it was made for; none for the gateway's own and for those that serve several."`
	Names             []Name      `json:"names" doc:"Names that it is for. Those of an uploaded one are read from it."`
	Source            string      `json:"source" enum:"acme,uploaded,self-signed" doc:"Whether a certificate authority issues it by ACME, an operator brought it, or the gateway signed it."`
	Challenge         string      `json:"challenge" enum:"http-01,dns-01" doc:"How the certificate authority is shown that the names are ours: by a file that the proxy serves, or by a DNS record, which wildcards need."`
	DNSProviderID     *uuid.UUID  `json:"dns_provider_id" doc:"Who sets the DNS record. None takes the first provider whose zones have the name."`
	KeyType           string      `json:"key_type" enum:"ecdsa-p256,rsa-2048" doc:"Kind of the key that is made for it."`
	Automatic         bool        `json:"automatic" readOnly:"true" doc:"Made because a domain, or the gateway, needs it; it goes when nobody does."`
	CertificatePEM    string      `json:"certificate_pem" maxLength:"200000" doc:"The certificate and the chain behind it."`
	PrivateKeyPEM     secret.Text `json:"private_key_pem,omitzero" doc:"The key of an uploaded certificate."`
	NotBefore         *time.Time  `json:"not_before" readOnly:"true" doc:"Since when it is valid."`
	ExpiresAt         *time.Time  `json:"expires_at" readOnly:"true" doc:"Until when it is valid."`
	Issuer            string      `json:"issuer" readOnly:"true" doc:"Who issued it."`
	FingerprintSHA256 string      `json:"fingerprint_sha256" readOnly:"true" doc:"SHA-256 of the certificate, in hex."`
	Status            string      `json:"status" readOnly:"true" enum:"pending,valid,expiring,expired,error" doc:"Where it stands. One that could not be renewed is valid as long as it is, and last_error says why."`
	LastRenewedAt     *time.Time  `json:"last_renewed_at" readOnly:"true" doc:"When the proxy was last seen to show a new one."`
	LastError         string      `json:"last_error" readOnly:"true" doc:"Why the last order failed; empty when it did not."`
	ErrorKind         string      `json:"error_kind" readOnly:"true" enum:",dns,connection,caa,rate_limit,account,refused,not_live,other" doc:"What the last order failed of."`
	Attempts          int         `json:"attempts" readOnly:"true" doc:"Orders that failed since the last that did not."`
	NextAttemptAt     *time.Time  `json:"next_attempt_at" readOnly:"true" doc:"When it is ordered again."`
	RenewAt           *time.Time  `json:"renew_at" readOnly:"true" doc:"When it is due; the certificate authority may have named the time."`
}

// DNSProvider is a DNS service at which the gateway may set records, to show that names are ours.
type DNSProvider struct {
	resource.Meta
	Name             value.Line         `json:"name" required:"true" maxLength:"120" doc:"Name of the provider."`
	Kind             string             `json:"kind" required:"true" enum:"rfc2136,cloudflare,desec,digitalocean,hetzner,httpreq" doc:"Which service, or which protocol: rfc2136 is dynamic update with TSIG, httpreq is a web service of your own."`
	Zones            []value.DomainName `json:"zones" doc:"Zones that it serves. None stands for all."`
	Server           string             `json:"server" maxLength:"300" doc:"For rfc2136: the name server, with a port if it is not 53."`
	Endpoint         value.URL          `json:"endpoint" doc:"For httpreq: where the web service is."`
	Username         string             `json:"username" maxLength:"255" doc:"For rfc2136 the name of the TSIG key, for httpreq the user."`
	Algorithm        string             `json:"algorithm" enum:"hmac-sha256,hmac-sha384,hmac-sha512" doc:"For rfc2136: the algorithm of the TSIG key."`
	Secret           secret.Text        `json:"secret,omitzero" doc:"The TSIG key in base64, the API token, or the password."`
	SecretConfigured bool               `json:"secret_configured" readOnly:"true" db:"-" doc:"Whether there is a secret."`
}

// Label is how people know it.
func (p *DNSProvider) Label() string { return p.Name.String() }

// Wanted is a certificate that somebody needs.
type Wanted struct {
	// DomainID is the domain that needs it; uuid.Nil is the gateway itself.
	DomainID uuid.UUID
	Names    []string
}

// ACME is how certificates are ordered.
type ACME struct {
	Enabled      bool        `json:"enabled" doc:"Whether certificates are ordered."`
	Email        value.Email `json:"email" doc:"Whom the certificate authority may write to."`
	DirectoryURL value.URL   `json:"directory_url" doc:"The certificate authority. Empty stands for Let's Encrypt."`
}

// Deps is what the room needs of others.
type Deps struct {
	// Wanted lists what the active domains and the gateway itself need.
	Wanted func(ctx context.Context, q db.Querier) ([]Wanted, error)
	// Users are the domains that were told to show a certificate.
	Users func(ctx context.Context, q db.Querier, certificate uuid.UUID) ([]resource.User, error)
	// ACME is how certificates are ordered, and SetACME changes it.
	ACME    func() ACME
	SetACME func(ACME) error
}

// Pair is a certificate that can be shown.
type Pair struct {
	ID uuid.UUID
	// DomainID is the domain that it was made for, if it was made for one.
	DomainID *uuid.UUID
	Names    []string
	// PEM is the chain followed by the key.
	PEM []byte
	// Trusted is false for one that the gateway signed itself.
	Trusted     bool
	Fingerprint string
	NotAfter    time.Time
}

// Room is the certificates.
type Room struct {
	*kit.Kit
	deps         Deps
	certificates resource.Kind[Certificate]
	providers    resource.Kind[DNSProvider]
}
