package certificate

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/value"
)

const (
	// maxChain is how many certificates an upload may have.
	maxChain = 10
	// selfSignedFor is the validity of a self-signed certificate: the longest that every client accepts.
	selfSignedFor = 825 * 24 * time.Hour
	selfSignedBy  = "Gateway (self-signed)"
)

// chain is a certificate followed by those that signed it.
type chain []*x509.Certificate

func (c chain) leaf() *x509.Certificate { return c[0] }

// text encodes the chain for storage: only what was parsed, without any text around it.
func (c chain) text() string {
	var b bytes.Buffer
	for _, cert := range c {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}) // to memory, without headers: cannot fail
	}
	return b.String()
}

// names returns the names in the certificate that the proxy can serve.
func (c chain) names() []value.SiteName {
	var names []value.SiteName
	for _, text := range c.leaf().DNSNames {
		if n, err := value.Parse[value.SiteName](text); err == nil && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

func fingerprint(leaf *x509.Certificate) string {
	sum := sha256.Sum256(leaf.Raw)
	return hex.EncodeToString(sum[:])
}

// issuer returns the issuer of a certificate, by the name that people know.
func issuer(leaf *x509.Certificate) string {
	from := leaf.Issuer
	switch {
	case len(from.Organization) > 0 && from.CommonName != "" && from.Organization[0] != from.CommonName:
		return from.Organization[0] + " " + from.CommonName
	case from.CommonName != "":
		return from.CommonName
	case len(from.Organization) > 0:
		return from.Organization[0]
	}
	return from.String()
}

// parseChain reads a certificate and its chain. The errors are sentences for the operator.
func parseChain(text string) (chain, error) {
	var list chain
	for rest := []byte(text); ; {
		block, after := pem.Decode(rest)
		if block == nil {
			if bytes.Contains(rest, []byte("-----BEGIN")) {
				return nil, errors.New("has a damaged PEM block. Copy all of it, from the BEGIN line to the END line")
			}
			break
		}
		rest = after
		switch {
		case strings.Contains(block.Type, "PRIVATE KEY"):
			return nil, errors.New("must not contain a private key. Put the key into private_key_pem")
		case block.Type != "CERTIFICATE":
			return nil, fmt.Errorf("must contain only certificates, but it contains a %s", printable(block.Type))
		case len(list) == maxChain:
			return nil, fmt.Errorf("must have at most %d certificates: the one of the site and its intermediates", maxChain)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read: %w", len(list)+1, err)
		}
		list = append(list, cert)
	}
	if len(list) == 0 {
		return nil, errors.New("has no certificate. It must be PEM, which starts with -----BEGIN CERTIFICATE-----")
	}
	return list, nil
}

// printable reduces foreign text to one short line.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "") + "…"
	}
	return s
}

// check refuses a chain that clients would not accept.
func (c chain) check(now time.Time) error {
	leaf := c.leaf()
	if leaf.IsCA && len(c) > 1 {
		return fmt.Errorf("must start with the certificate of the site, followed by the one that signed it, and so on. It starts with the certificate of an authority (%s)", who(leaf))
	}
	for i, cert := range c {
		switch {
		case now.After(cert.NotAfter):
			return fmt.Errorf("has an expired certificate: number %d (%s) expired on %s. Upload a valid one", i+1, who(cert), cert.NotAfter.UTC().Format(time.DateOnly))
		case now.Before(cert.NotBefore):
			return fmt.Errorf("has a certificate that is not valid yet: number %d (%s) is valid from %s", i+1, who(cert), cert.NotBefore.UTC().Format(time.RFC3339))
		}
		if i == 0 {
			continue
		}
		if err := c[i-1].CheckSignatureFrom(cert); err != nil {
			return fmt.Errorf("is not in order: each certificate must be followed by the one that signed it, but number %d (%s) did not sign number %d (%s)", i+1, who(cert), i, who(c[i-1]))
		}
	}
	if len(leaf.ExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		return errors.New("is not a server certificate. Its extended key usage lacks server authentication")
	}
	if len(c.names()) == 0 {
		return errors.New("has no domain name in its subject alternative names, which clients require")
	}
	return strongEnough(leaf.PublicKey)
}

func who(cert *x509.Certificate) string {
	if name := cert.Subject.CommonName; name != "" {
		return printable(name)
	}
	return printable(cert.Subject.String())
}

func strongEnough(public crypto.PublicKey) error {
	switch k := public.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < 2048 {
			return fmt.Errorf("has an RSA key of %d bits. Clients require at least 2048", k.N.BitLen())
		}
		if k.N.BitLen() > 8192 {
			return fmt.Errorf("has an RSA key of %d bits. At most 8192 are allowed, because larger keys are too slow", k.N.BitLen())
		}
		return nil
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() || k.Curve == elliptic.P384() {
			return nil
		}
	}
	return errors.New("has a key type that browsers do not support. Use RSA with at least 2048 bits, or ECDSA with P-256 or P-384")
}

// parseKey reads a private key. Its errors reveal nothing about the content.
func parseKey(text string) (crypto.Signer, error) {
	var key crypto.Signer
	for rest := []byte(text); ; {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		rest = after
		if block.Type == "EC PARAMETERS" {
			continue
		}
		if strings.Contains(block.Type, "ENCRYPTED") || block.Headers["DEK-Info"] != "" {
			return nil, errors.New("is encrypted with a passphrase. Remove it first, for example with openssl pkey")
		}
		if key != nil {
			return nil, errors.New("must contain only the key, but it has more than one PEM block")
		}
		var parsed any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			parsed, err = x509.ParseECPrivateKey(block.Bytes)
		default:
			return nil, errors.New("must contain a private key and nothing else")
		}
		signer, ok := parsed.(crypto.Signer)
		if err != nil || !ok {
			return nil, errors.New("cannot be read. It must be an RSA or ECDSA key")
		}
		key = signer
	}
	if key == nil {
		return nil, errors.New("has no key. It must be PEM, which starts with -----BEGIN PRIVATE KEY-----")
	}
	return key, nil
}

func keyText(key crypto.Signer) (string, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("encoding a key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), nil
}

func matches(leaf *x509.Certificate, key crypto.Signer) bool {
	public, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(key.Public())
}

func newKey(kind string) (crypto.Signer, error) {
	if kind == keyRSA {
		return rsa.GenerateKey(rand.Reader, 2048)
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// selfSign issues a self-signed certificate.
func selfSign(names []value.SiteName, key crypto.Signer, now time.Time) (chain, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{selfSignedBy}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(selfSignedFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	for _, n := range names {
		template.DNSNames = append(template.DNSNames, n.String())
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return chain{cert}, err
}

// covers reports whether a name in a certificate matches a name, including by wildcard.
func covers(certificate, name string) bool {
	if certificate == name {
		return true
	}
	parent, wildcard := strings.CutPrefix(certificate, "*.")
	_, rest, dot := strings.Cut(name, ".")
	return wildcard && dot && rest == parent && !strings.HasPrefix(name, "*.")
}
