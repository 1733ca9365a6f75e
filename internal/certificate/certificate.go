package certificate

import (
	"context"
	"crypto"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

const (
	table     = "certificate_certificates"
	keyColumn = "private_key_pem"

	sourceACME       = "acme"
	sourceUploaded   = "uploaded"
	sourceSelfSigned = "self-signed"

	challengeHTTP = "http-01"
	challengeDNS  = "dns-01"

	keyECDSA = "ecdsa-p256"
	keyRSA   = "rsa-2048"

	statusPending  = "pending"
	statusValid    = "valid"
	statusExpiring = "expiring"
	statusExpired  = "expired"
	statusError    = "error"

	// expiringWithin is how long before its end a certificate counts as expiring.
	expiringWithin = 14 * 24 * time.Hour
	// maxNames is how many names the certificate authorities accept in one certificate.
	maxNames = 100
)

func wildcard(n value.SiteName) bool {
	_, is := n.Wildcard()
	return is
}

func texts(names []value.SiteName) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = n.String()
	}
	return list
}

// Certificate is a TLS certificate with its key, or the order for one. Until it is issued, an order carries a certificate that the
// gateway signed itself.
type Certificate struct {
	resource.Meta
	resource.Secrets
	DomainID          *uuid.UUID       `json:"domain_id" doc:"Domain that it was ordered for; null for the gateway's own and for those ordered for several names."`
	Names             []value.SiteName `json:"names" doc:"Names in the certificate, at most 100. For an uploaded certificate they are read from it."`
	Source            string           `json:"source" enum:"acme,uploaded,self-signed" doc:"Whether it is issued by ACME, was uploaded, or is self-signed. It cannot be changed."`
	Challenge         string           `json:"challenge" enum:"http-01,dns-01" doc:"Domain validation: by a file that the proxy serves on port 80, or by a DNS record, which wildcards require."`
	DNSProviderID     *uuid.UUID       `json:"dns_provider_id" doc:"DNS provider that sets the record. If null, the one whose zones fit the name best."`
	KeyType           string           `json:"key_type" enum:"ecdsa-p256,rsa-2048" doc:"Type of key to generate. An uploaded certificate has its own."`
	Automatic         bool             `json:"automatic" readOnly:"true" doc:"Ordered automatically for a domain or for the gateway itself. It follows the names of the domain and is removed when it is no longer needed. If you delete it earlier, a new one is ordered."`
	CertificatePEM    string           `json:"certificate_pem" maxLength:"200000" doc:"The certificate in PEM, followed by the one that signed it, and so on. Sent when you upload a certificate; read-only for others."`
	PrivateKeyPEM     secret.Text      `json:"private_key_pem,omitzero" doc:"The key of an uploaded certificate in PEM, without a passphrase. If left out of a change, the stored key is kept; it must match the certificate."`
	NotBefore         *time.Time       `json:"not_before" readOnly:"true" doc:"Since when it is valid."`
	ExpiresAt         *time.Time       `json:"expires_at" readOnly:"true" doc:"Until when it is valid."`
	Issuer            string           `json:"issuer" readOnly:"true" doc:"Who issued it."`
	DirectoryURL      string           `json:"directory_url" readOnly:"true" doc:"ACME directory of the certificate authority that issued it; empty if it was not issued by ACME."`
	FingerprintSHA256 string           `json:"fingerprint_sha256" readOnly:"true" doc:"SHA-256 of the certificate, in hex."`
	Status            string           `json:"status" readOnly:"true" enum:"pending,valid,expiring,expired,error" doc:"Status. pending and error: not issued yet, a self-signed certificate is used. expiring: less than 14 days left. A certificate that could not be renewed stays valid until it expires; last_error has the reason."`
	LastRenewedAt     *time.Time       `json:"last_renewed_at" readOnly:"true" doc:"When the proxy was last seen to show a new one, by a TLS handshake."`
	LastError         string           `json:"last_error" readOnly:"true" doc:"Why the last order failed, and what to do; empty when it did not."`
	ErrorKind         string           `json:"error_kind" readOnly:"true" enum:",dns,connection,caa,rate_limit,account,refused,not_live,other" doc:"Why the last order failed. dns: DNS or its provider. connection: the certificate authority cannot reach port 80. caa: a CAA record forbids it. rate_limit: too many orders. account: the ACME account, or reaching the certificate authority. refused: the authority does not issue for the name. not_live: issued, but the proxy does not serve it."`
	Attempts          int              `json:"attempts" readOnly:"true" doc:"Failed orders since the last successful one."`
	NextAttemptAt     *time.Time       `json:"next_attempt_at" readOnly:"true" doc:"When it is ordered again after a failure."`
	RenewAt           *time.Time       `json:"renew_at" readOnly:"true" doc:"When renewal is due. The certificate authority may set the time (ARI); otherwise it is when a third of the lifetime is left."`

	spare crypto.Signer // an RSA key generated before the transaction
}

func (c *Certificate) Label() string { return strings.Join(texts(c.Names), ", ") }

func (c *Certificate) Validate() error {
	var l check.List
	_, freshKey := c.PrivateKeyPEM.Fresh()
	if c.Source == sourceUploaded {
		l.That(c.CertificatePEM != "", "certificate_pem", "is required")
		l.That(c.PrivateKeyPEM.Set(), keyColumn, "is required")
	} else {
		l.That(len(c.Names) > 0, "names", "must have at least one name")
		l.That(!freshKey, keyColumn, "applies to uploaded certificates only. The gateway generates the key of this one")
	}
	l.That(len(c.Names) <= maxNames, "names", "must have at most %d names", maxNames)
	for i, n := range c.Names {
		l.That(!slices.Contains(c.Names[:i], n), "names", "contains %s twice", n)
	}
	if c.Source == sourceACME && c.Challenge == challengeHTTP {
		l.That(!slices.ContainsFunc(c.Names, wildcard), "challenge", "must be dns-01, which is required for wildcards")
	}
	l.That(c.DNSProviderID == nil || c.Source == sourceACME && c.Challenge == challengeDNS, "dns_provider_id", "applies to dns-01 only")
	return l.Err()
}

// issued reports whether it is more than an order.
func (c *Certificate) issued() bool { return c.Status != statusPending && c.Status != statusError }

// trusted reports whether someone other than the gateway signed it.
func (c *Certificate) trusted() bool {
	return c.Source == sourceUploaded || c.Source == sourceACME && c.issued()
}

// shows sets the certificate and its key.
func (c *Certificate) shows(certs chain, key crypto.Signer) error {
	text, err := keyText(key)
	if err != nil {
		return err
	}
	leaf := certs.leaf()
	notBefore, expires := leaf.NotBefore.UTC(), leaf.NotAfter.UTC()
	c.CertificatePEM, c.PrivateKeyPEM = certs.text(), secret.New(text)
	c.NotBefore, c.ExpiresAt, c.Issuer, c.FingerprintSHA256 = &notBefore, &expires, printable(issuer(leaf)), fingerprint(leaf)
	return nil
}

// mayBeFrom reports whether the authority at a directory may have issued it. For older certificates this is unknown.
func (c *Certificate) mayBeFrom(directory string) bool {
	return c.DirectoryURL == "" || c.DirectoryURL == directory
}

// sameOrder reports whether both would be ordered in the same way.
func (c *Certificate) sameOrder(other *Certificate) bool {
	return slices.Equal(c.Names, other.Names) && c.Challenge == other.Challenge && same(c.DNSProviderID, other.DNSProviderID) && c.KeyType == other.KeyType
}

// signedLike reports whether the gateway would sign the same certificate for both.
func (c *Certificate) signedLike(other *Certificate) bool {
	return slices.Equal(c.Names, other.Names) && c.KeyType == other.KeyType
}

// stands returns the status of an issued certificate, by the clock.
func stands(expires, now time.Time) string {
	switch {
	case !now.Before(expires):
		return statusExpired
	case expires.Sub(now) < expiringWithin:
		return statusExpiring
	}
	return statusValid
}

// lastThird returns when a third of the lifetime is left.
func lastThird(notBefore, expires time.Time) time.Time {
	return expires.Add(-expires.Sub(notBefore) / 3)
}

func (r *Room) certificateKind() resource.Kind[Certificate] {
	return resource.Kind[Certificate]{
		Name: "certificate.certificate", Title: "certificate", Path: "/certificates", Table: table, Order: "names, created_at", Feeds: feeds,
		New: func() Certificate {
			return Certificate{Source: sourceACME, Challenge: challengeHTTP, KeyType: keyECDSA, Status: statusPending}
		},
		Prepare: prepareCertificate, Check: r.checkCertificate,
		Made: (*Certificate).made, Passing: func(c *Certificate) bool { return c.Automatic },
	}
}

// made lists the fields that the gateway sets itself unless the certificate was uploaded.
func (c *Certificate) made() []string {
	if c.Source == sourceUploaded {
		return nil
	}
	return []string{"certificate_pem", keyColumn}
}

// prepareCertificate generates the key of a self-signed certificate before the transaction, if that is slow.
func prepareCertificate(_ context.Context, was, now *Certificate) (func(*Certificate), error) {
	if now.Source != sourceSelfSigned || now.KeyType != keyRSA || was != nil && was.signedLike(now) {
		return nil, nil
	}
	key, err := newKey(keyRSA)
	return func(c *Certificate) { c.spare = key }, err
}

// sample is the key of all RSA certificates in previews.
var sample = sync.OnceValues(func() (crypto.Signer, error) { return newKey(keyRSA) })

// worker is the actor that creates, changes and deletes the automatic certificates.
var worker = actor.System("gateway-api")

func (r *Room) checkCertificate(ctx context.Context, tx *db.Tx, was, now *Certificate) error {
	tx.AfterCommit(r.Wake)
	if now == nil {
		users, err := r.deps.Users(ctx, tx, was.ID)
		if err != nil {
			return err
		}
		return resource.InUse("the certificate", users)
	}
	if tx.Supposed() && now.KeyType == keyRSA {
		var err error
		if now.spare, err = sample(); err != nil {
			return err
		}
	}
	byWorker := actor.From(ctx) == worker
	if was == nil {
		now.Automatic = byWorker
	} else if err := r.checkChange(was, now, byWorker); err != nil {
		return err
	}
	switch now.Source {
	case sourceUploaded:
		return r.takeUpload(was, now)
	case sourceSelfSigned:
		return r.signAgain(was, now)
	}
	return r.orderAgain(was, now)
}

// checkChange refuses changes that operators may not make.
func (r *Room) checkChange(was, now *Certificate, byWorker bool) error {
	var l check.List
	l.That(was.Source == now.Source, "source", "cannot be changed. Create another certificate and delete this one")
	if now.Source != sourceUploaded {
		l.That(was.CertificatePEM == now.CertificatePEM, "certificate_pem", "is generated by the gateway. Only an uploaded certificate can be replaced")
	}
	if was.Automatic && !byWorker {
		l.That(slices.Equal(was.Names, now.Names), "names", "must match the domain. Change the domain, or create another certificate")
		l.That(same(was.DomainID, now.DomainID), "domain_id", "cannot be changed, because the certificate belongs to a domain")
	}
	return l.Err()
}

func same(a, b *uuid.UUID) bool { return a == b || a != nil && b != nil && *a == *b }

// takeUpload checks an uploaded certificate, and reads its names from it.
func (r *Room) takeUpload(was, now *Certificate) error {
	_, freshKey := now.PrivateKeyPEM.Fresh()
	if was != nil && !freshKey && was.CertificatePEM == now.CertificatePEM {
		now.Names = was.Names
		return nil
	}
	var l check.List
	certs, err := parseChain(now.CertificatePEM)
	if err == nil {
		err = certs.check(r.Clock.Now())
	}
	if err != nil {
		l.Add("certificate_pem", "%v", err)
	}
	plain, err := now.PrivateKeyPEM.Open(r.Secrets, table, keyColumn, now.ID.String())
	if err != nil {
		l.Add(keyColumn, "must be entered again. The stored one cannot be decrypted with this gateway's master key")
		return l.Err()
	}
	key, err := parseKey(plain)
	switch {
	case err != nil:
		l.Add(keyColumn, "%v", err)
	case certs != nil && !matches(certs.leaf(), key) && freshKey:
		l.Add(keyColumn, "does not match the certificate")
	case certs != nil && !matches(certs.leaf(), key):
		l.Add(keyColumn, "is required, because the stored key does not match this certificate")
	}
	if err := l.Err(); err != nil {
		return err
	}
	stored := now.PrivateKeyPEM
	if err := now.shows(certs, key); err != nil {
		return err
	}
	if entered, _ := now.PrivateKeyPEM.Fresh(); !freshKey && entered == plain {
		now.PrivateKeyPEM = stored // sealing it again would make it look like another key
	}
	now.Names, now.Status = certs.names(), stands(*now.ExpiresAt, r.Clock.Now())
	now.LastError, now.ErrorKind = "", ""
	return nil
}

// signAgain signs a new certificate if the names or the key type have changed.
func (r *Room) signAgain(was, now *Certificate) error {
	if was != nil && was.signedLike(now) {
		return nil
	}
	if was == nil && now.CertificatePEM != "" {
		return fault.Field("certificate_pem", "is generated by the gateway. Leave it out, or set the source to uploaded")
	}
	return r.sign(now, now.KeyType)
}

func (r *Room) sign(c *Certificate, keyType string) error {
	key := c.spare
	if key == nil || keyType != keyRSA {
		var err error
		if key, err = newKey(keyType); err != nil {
			return fmt.Errorf("making a key: %w", err)
		}
	}
	certs, err := selfSign(c.Names, key, r.Clock.Now())
	if err != nil {
		return err
	}
	if err := c.shows(certs, key); err != nil {
		return err
	}
	if c.Source == sourceSelfSigned {
		at := lastThird(*c.NotBefore, *c.ExpiresAt)
		c.Status, c.RenewAt = statusValid, &at
	}
	return nil
}

// orderAgain orders a new certificate when what it depends on has changed. The issued one is served until then.
func (r *Room) orderAgain(was, now *Certificate) error {
	switch {
	case was == nil && now.CertificatePEM != "":
		return fault.Field("certificate_pem", "is issued by the certificate authority. Leave it out, or set the source to uploaded")
	case was != nil && was.sameOrder(now):
		return nil
	}
	now.Attempts, now.NextAttemptAt, now.LastError, now.ErrorKind = 0, nil, "", ""
	if now.issued() {
		at := r.Clock.Now()
		now.RenewAt = &at
		return nil
	}
	now.Status = statusPending
	return r.sign(now, keyECDSA)
}
