package cluster

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
)

const (
	authorityLasts   = 20 * 365 * 24 * time.Hour
	certificateLasts = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is renewed.
	renewBefore = certificateLasts / 3
	// backdate allows for clocks that differ: a certificate is valid this long before it was issued.
	backdate = time.Hour
	// requestLimit is the maximum size of a certificate request.
	requestLimit = 16 << 10
)

// authority is the certificate authority of the cluster. Every node has it, with its key sealed, because a promoted one must issue
// certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

var errNoAuthority = fault.New(fault.Conflict, "This node is not in a cluster.")

// newAuthority creates the cluster's authority, which only issues certificates for nodes.
func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Gateway cluster " + rand.Text()[:8]},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(authorityLasts),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key}, err
}

// serial returns a random serial number.
func serial() *big.Int {
	n, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // which never fails
	return n
}

// store adds the authority to a transaction.
func (a *authority) store(r *Room, tx *db.Tx) error {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	sealed, err := r.Secrets.Seal(string(encodePEM("PRIVATE KEY", der)), "ha_ca", "private_key", id.String())
	if err != nil {
		return err
	}
	tx.Queue(`INSERT INTO ha_ca (id, created_at, certificate, private_key) VALUES ($1, $2, $3, $4)`, id, r.Clock.Now(), string(encodePEM("CERTIFICATE", a.cert.Raw)), sealed)
	return nil
}

// authority reads the cluster's authority.
func (r *Room) authority(ctx context.Context, q db.Querier) (*authority, error) {
	var id uuid.UUID
	var certificate string
	var sealed []byte
	err := q.QueryRow(ctx, `SELECT id, certificate, private_key FROM ha_ca ORDER BY created_at, id LIMIT 1`).Scan(&id, &certificate, &sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errNoAuthority
	}
	if err != nil {
		return nil, err
	}
	plain, err := r.Secrets.Open(sealed, "ha_ca", "private_key", id.String())
	if err != nil {
		return nil, fmt.Errorf("the key of the cluster's certificate authority: %w", err)
	}
	cert, err := parseCertificate([]byte(certificate))
	if err != nil {
		return nil, err
	}
	key, err := parseKey([]byte(plain))
	return &authority{cert, key}, err
}

func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// subject identifies the node that a certificate is for.
type subject struct {
	id, fqdn  string
	addresses []string
}

// issue issues the certificate of a node, for both serving and asking. The authority alone decides its content.
func (a *authority) issue(s subject, public crypto.PublicKey, now time.Time) (*x509.Certificate, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: s.id}, DNSNames: []string{s.fqdn},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, text := range s.addresses {
		if ip := net.ParseIP(text); ip != nil && !slices.ContainsFunc(template.IPAddresses, ip.Equal) {
			template.IPAddresses = append(template.IPAddresses, ip)
		}
	}
	return a.sign(template, public, now)
}

// issueJoin issues the certificate by which a joining node recognizes the cluster. It is useless for anything else: the reverse proxy,
// which has its key, is not a node.
func (a *authority) issueJoin(public crypto.PublicKey, now time.Time) (*x509.Certificate, error) {
	return a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: JoinName}, DNSNames: []string{JoinName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, public, now)
}

func (a *authority) sign(template *x509.Certificate, public crypto.PublicKey, now time.Time) (*x509.Certificate, error) {
	template.SerialNumber = serial()
	template.NotBefore, template.NotAfter = now.Add(-backdate), now.Add(certificateLasts)
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	template.KeyUsage, template.BasicConstraintsValid = x509.KeyUsageDigitalSignature, true
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// nodeForm matches a node's id: the machine's id, or a UUID.
var nodeForm = regexp.MustCompile(`^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$`)

// known lists the extensions allowed in a request: the names, and the key usage that x509 adds. They are checked, but never copied.
var (
	oidNames    = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidUsage    = asn1.ObjectIdentifier{2, 5, 29, 15}
	oidExtUsage = asn1.ObjectIdentifier{2, 5, 29, 37}
)

// readRequest reads a node's certificate request, and refuses one that asks for more than to be the node of that name.
func readRequest(text, fqdn string) (*x509.CertificateRequest, error) {
	refuse := func(format string, args ...any) (*x509.CertificateRequest, error) {
		return nil, fault.Field("csr", format, args...)
	}
	block, rest := pem.Decode([]byte(text))
	if len(text) > requestLimit || block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) > 0 {
		return refuse("must be one certificate request in PEM form, of at most %d bytes", requestLimit)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || csr.CheckSignature() != nil {
		return refuse("must be a certificate request that is signed with its own key")
	}
	switch key := csr.PublicKey.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() {
			return refuse("must have a key of P-256, Ed25519 or RSA with at least 2048 bits")
		}
	case ed25519.PublicKey:
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < 2048 || bits > 8192 {
			return refuse("must have a key of P-256, Ed25519 or RSA with at least 2048 bits")
		}
	default:
		return refuse("must have a key of P-256, Ed25519 or RSA with at least 2048 bits")
	}
	if len(csr.Subject.Names) != 1 || !nodeForm.MatchString(csr.Subject.CommonName) {
		return refuse("must have the id of the node as its only name of the subject")
	}
	if len(csr.DNSNames) > 1 || len(csr.DNSNames) == 1 && csr.DNSNames[0] != fqdn || len(csr.IPAddresses)+len(csr.EmailAddresses)+len(csr.URIs) > 0 {
		return refuse("must name %s and nothing else", fqdn)
	}
	for _, e := range csr.Extensions {
		switch {
		case e.Id.Equal(oidNames) && len(csr.DNSNames) == 1:
		case e.Id.Equal(oidUsage) || e.Id.Equal(oidExtUsage):
		default:
			return refuse("must not ask for anything but the name of the node; it asks for the extension %s", e.Id)
		}
	}
	return csr, nil
}

// request creates a node's certificate request.
func request(id, fqdn string, key crypto.Signer) (string, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: id}, DNSNames: []string{fqdn}}, key)
	return string(encodePEM("CERTIFICATE REQUEST", der)), err
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// parseCertificate reads a text with exactly one certificate.
func parseCertificate(text []byte) (*x509.Certificate, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, errors.New("there is not one certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("there is no private key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key cannot sign")
	}
	return signer, nil
}

// reachable returns an address if other nodes can use it.
func reachable(a netip.Addr) string {
	if !a.IsValid() || a.IsUnspecified() {
		return ""
	}
	return a.Unmap().WithZone("").String()
}
