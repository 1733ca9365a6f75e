package diag

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/value"
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (a *authority) issue(t *testing.T, template *x509.Certificate) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := template, key
	if a != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

func TestCertificatesAreJudged(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	root := (*authority)(nil).issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"Example CA"}}, NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(9, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	trusted := x509.NewCertPool()
	trusted.AddCert(root.cert)
	for _, x := range []struct {
		name          string
		from, to      time.Time
		destination   string
		roots         *x509.CertPool
		status, words string
	}{
		{"good", now.AddDate(0, -1, 0), now.AddDate(0, 2, 0), "www.example.net", trusted, passed, "issued by Example CA"},
		{"good for an address", now.AddDate(0, -1, 0), now.AddDate(0, 2, 0), "192.0.2.1", trusted, passed, "was not checked"},
		{"soon over", now.AddDate(0, -1, 0), now.AddDate(0, 0, 3), "www.example.net", trusted, warning, "expires on 2026-05-04"},
		{"over", now.AddDate(0, -1, 0), now.AddDate(0, 0, -3), "www.example.net", trusted, failed, "expired on 2026-04-28"},
		{"too early", now.AddDate(0, 0, 1), now.AddDate(0, 2, 0), "www.example.net", trusted, failed, "not valid before 2026-05-02"},
		{"another name", now.AddDate(0, -1, 0), now.AddDate(0, 2, 0), "mail.example.net", trusted, failed, "a certificate for www.example.net, not for mail.example.net"},
		{"a stranger's", now.AddDate(0, -1, 0), now.AddDate(0, 2, 0), "www.example.net", x509.NewCertPool(), warning, "does not trust the issuer"},
	} {
		leaf := root.issue(t, &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{"www.example.net"}, NotBefore: x.from, NotAfter: x.to})
		w := walk{q: Question{Destination: value.Must[value.Host](x.destination)}}
		step := Step{Status: passed}
		w.judge(&step, []*x509.Certificate{leaf.cert}, now, x.roots)
		if step.Status != x.status || !strings.Contains(step.Text, x.words) || (step.Advice == "") != (x.status == passed) {
			t.Errorf("%s: %+v", x.name, step)
		}
	}
}
