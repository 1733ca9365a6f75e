package httpd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/secret"
)

// SelfSigned is the certificate that the gateway uses until it has a better one. It is kept in a file, and regenerated when the
// gateway's names change or it is about to expire.
type SelfSigned struct {
	Path  string
	Names func() []string
	// Better returns the better certificate; nil if there is none. It may be nil.
	Better func() *tls.Certificate
	// For returns the certificate for a name that is not the gateway's own; nil if there is none. It may be nil.
	For func(name string) *tls.Certificate

	mu    sync.Mutex
	cert  *tls.Certificate
	names []string
}

// Config returns the TLS configuration of the gateway's server.
func (s *SelfSigned) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if s.For != nil {
				if c := s.For(hello.ServerName); c != nil {
					return c, nil
				}
			}
			if s.Better != nil {
				if better := s.Better(); better != nil {
					return better, nil
				}
			}
			return s.certificate()
		},
	}
}

// PEM returns the certificate, followed by its key.
func (s *SelfSigned) PEM() ([]byte, error) {
	if _, err := s.certificate(); err != nil {
		return nil, err
	}
	return os.ReadFile(s.Path)
}

func (s *SelfSigned) certificate() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := s.Names()
	if s.cert != nil && slices.Equal(names, s.names) && time.Now().Before(s.cert.Leaf.NotAfter.AddDate(0, -1, 0)) {
		return s.cert, nil
	}
	if s.cert == nil {
		if kept, err := tls.LoadX509KeyPair(s.Path, s.Path); err == nil && fits(kept.Leaf, names) {
			s.cert, s.names = &kept, names
			return s.cert, nil
		}
	}
	pemBytes, err := selfSign(names)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	fresh, err := tls.X509KeyPair(pemBytes, pemBytes)
	if err != nil {
		return nil, err
	}
	if err := secret.Save(s.Path, pemBytes); err != nil {
		return nil, fmt.Errorf("keeping the certificate: %w", err)
	}
	s.cert, s.names = &fresh, names
	return s.cert, nil
}

func fits(leaf *x509.Certificate, names []string) bool {
	return time.Now().Before(leaf.NotAfter.AddDate(0, -1, 0)) &&
		!slices.ContainsFunc(names, func(n string) bool { return leaf.VerifyHostname(n) != nil })
}

func selfSign(names []string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: names[0], Organization: []string{"Gateway (self-signed)"}},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(0, 0, 825),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return append(b, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})...), nil
}
