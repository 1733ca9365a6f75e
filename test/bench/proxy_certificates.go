package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	vault "edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/lab"
)

// authority signs the certificates of the bench, all for one key, because creating keys is not measured.
type authority struct {
	key    *ecdsa.PrivateKey
	leaf   *ecdsa.PrivateKey
	text   string // of the leaf's key
	serial int64
}

func newAuthority() (*authority, error) {
	a := &authority{}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	if a.leaf, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(a.leaf)
	a.text = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	return a, err
}

type issued struct {
	text, fingerprint string
	serial            int64
	from, until       time.Time
}

func (a *authority) issue(name string) (issued, error) {
	a.serial++
	x := issued{serial: a.serial, from: time.Now().Add(-time.Hour).UTC(), until: time.Now().Add(90 * 24 * time.Hour).UTC()}
	template := &x509.Certificate{SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: x.from, NotAfter: x.until}
	der, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{Subject: pkix.Name{CommonName: "bench"}}, a.leaf.Public(), a.key)
	sum := sha256.Sum256(der)
	x.text, x.fingerprint = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), hex.EncodeToString(sum[:])
	return x, err
}

// certificates compares the replacement of an uploaded certificate with its bare parts.
func (p *proxyBench) certificates(ctx context.Context, s settings) (goals []goal, err error) {
	a, err := newAuthority()
	if err != nil {
		return nil, err
	}
	box, err := vault.Open(p.lab.Path("/etc/gateway/master.key"))
	if err != nil {
		return nil, err
	}
	for _, n := range []int{1000 / s.shrink, 5000 / s.shrink, 10000 / s.shrink} {
		fmt.Println(n, "certificates; load", loadAverage())
		loaded, err := seconds(func() error { return p.fillCertificates(ctx, a, box, n) })
		if err != nil {
			return nil, err
		}
		got, err := p.replaced(ctx, a, box, n, loaded)
		if err != nil {
			return goals, err
		}
		goals = append(goals, got...)
		if got, err = p.started(ctx, n, a.serial-1); err != nil {
			return goals, err
		}
		goals = append(goals, got...)
	}
	return goals, nil
}

// startedWithin is how long a start may take with however many certificates.
const startedWithin = 5 * time.Minute

// started compares a start of the gateway, until the first site is served, with that of HAProxy alone from the same files, and records when
// the first page of the console is available.
func (p *proxyBench) started(ctx context.Context, n int, serial int64) ([]goal, error) {
	var pages []float64
	start := func(unit host.Unit, meanwhile func(begun time.Time) error) (float64, error) {
		units := p.lab.Units()
		for _, u := range []host.Unit{host.API, haproxy.Unit} {
			if err := units.Stop(ctx, u); err != nil {
				return 0, err
			}
		}
		begun := time.Now()
		started := make(chan error, 1)
		go func() { started <- units.Start(ctx, unit) }()
		if err := meanwhile(begun); err != nil {
			return 0, err
		}
		err := fmt.Errorf("no site is served after %s", startedWithin)
		for p.serves(siteName(0), serial) != nil {
			if time.Since(begun) > startedWithin {
				return 0, err
			}
			time.Sleep(20 * time.Millisecond)
		}
		return time.Since(begun).Seconds(), <-started
	}
	times, err := inTurns(settings{rounds: 3},
		func(time.Duration) (float64, error) {
			return start(host.API, func(begun time.Time) error {
				err := p.firstPage()
				pages = append(pages, time.Since(begun).Seconds())
				return err
			})
		},
		func(time.Duration) (float64, error) {
			return start(haproxy.Unit, func(time.Time) error { return nil })
		})
	if err != nil {
		return nil, err
	}
	if err := p.lab.Units().Start(ctx, host.API); err != nil {
		return nil, err
	}
	if err := p.api.waitReady(); err != nil {
		return nil, err
	}
	if n < 10000 {
		return []goal{{fmt.Sprintf("   start / start of HAProxy alone, %d certificates", n), times[0] / times[1], "x", 0, true, milliseconds(times...)}}, nil
	}
	return []goal{
		{fmt.Sprintf("P7 start / start of HAProxy alone, %d certificates", n), times[0] / times[1], "x", 1.2, false, milliseconds(times...)},
		{"   first page of the console / that start", median(pages) / times[0], "x", 0.5, false, milliseconds(pages...)},
	}, nil
}

// firstPage requests the console until it answers.
func (p *proxyBench) firstPage() error {
	c := &http.Client{Timeout: time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // only its availability matters
		DialContext: func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
			err = p.lab.Within(lab.Lan, func() (err error) { conn, err = new(net.Dialer).DialContext(ctx, "tcp", "10.10.0.1:3443"); return err })
			return conn, err
		},
	}}
	err := errors.New("the console is not there")
	for begun := time.Now(); time.Since(begun) < startedWithin; time.Sleep(20 * time.Millisecond) {
		var res *http.Response
		if res, err = c.Get("https://gateway/"); err != nil {
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return nil
		}
		err = fmt.Errorf("the console answers %s", res.Status)
	}
	return err
}

// fillCertificates stores a certificate for each of n domains.
func (p *proxyBench) fillCertificates(ctx context.Context, a *authority, box *vault.Box, n int) error {
	if err := p.fill(ctx, sites{domains: n, backends: 10}); err != nil {
		return err
	}
	columns := []string{"id", "created_at", "updated_at", "names", "source", "challenge", "key_type", "automatic", "certificate_pem", "private_key_pem",
		"not_before", "expires_at", "issuer", "directory_url", "fingerprint_sha256", "status", "last_error", "error_kind", "attempts"}
	_, err := p.pool.CopyFrom(ctx, pgx.Identifier{"certificate_certificates"}, columns, pgx.CopyFromSlice(n, func(i int) ([]any, error) {
		x, err := a.issue(siteName(i))
		if err != nil {
			return nil, err
		}
		id := rowID("certificate", i)
		sealed, err := box.Seal(a.text, "certificate_certificates", "private_key_pem", id.String())
		return []any{id, x.from, x.from, []string{siteName(i)}, "uploaded", "http-01", "ecdsa-p256", false, x.text, sealed,
			x.from, x.until, "CN=bench", "", x.fingerprint, "valid", "", "", 0}, err
	}))
	if err != nil {
		return fmt.Errorf("storing certificates: %w", err)
	}
	if err := p.takeAll(); err != nil {
		return err
	}
	// While a pass loads all files, a change waits for the next one.
	err = errors.New("the proxy takes no change")
	for begun, state := time.Now(), ""; err != nil && time.Since(begun) < startedWithin; {
		if state, _, err = p.state(); err != nil {
			return err
		}
		if err = errors.New("the proxy is " + state); state == "live" {
			err = p.change(http.MethodPost, "/domains", map[string]any{"name": fmt.Sprintf("taken%d.example.org", time.Since(begun)), "backend_id": rowID("backend", 0)})
		} else {
			time.Sleep(20 * time.Millisecond)
		}
	}
	return err
}

// replaced replaces certificates in turns, through the API and bare. Each side has its own row.
func (p *proxyBench) replaced(ctx context.Context, a *authority, box *vault.Box, n int, loaded float64) ([]goal, error) {
	before, _, err := p.counts()
	if err != nil {
		return nil, err
	}
	times, err := inTurns(settings{rounds: 31},
		func(time.Duration) (float64, error) {
			x, err := a.issue(siteName(0))
			if err != nil {
				return 0, err
			}
			took, err := seconds(func() error {
				return p.change(http.MethodPut, "/certificates/"+rowID("certificate", 0).String(), map[string]any{"certificate_pem": x.text, "private_key_pem": a.text})
			})
			if err != nil {
				return 0, err
			}
			return took, p.serves(siteName(0), x.serial)
		},
		func(time.Duration) (float64, error) {
			x, err := a.issue(siteName(1))
			if err != nil {
				return 0, err
			}
			id := rowID("certificate", 1)
			sealed, err := box.Seal(a.text, "certificate_certificates", "private_key_pem", id.String())
			if err != nil {
				return 0, err
			}
			took, err := seconds(func() error {
				return p.bareChange(ctx, `UPDATE certificate_certificates SET certificate_pem = $2, private_key_pem = $3, fingerprint_sha256 = $4, updated_at = now() WHERE id = $1`,
					[]any{id, x.text, sealed, x.fingerprint}, func() error {
						file := "certificates/" + id.String() + ".pem"
						if err := p.order("set ssl cert "+file+" <<\n"+x.text+a.text, "Transaction"); err != nil {
							return err
						}
						return p.order("commit ssl cert "+file, "Success!")
					})
			})
			if err != nil {
				return 0, err
			}
			return took, p.serves(siteName(1), x.serial)
		})
	if err != nil {
		return nil, err
	}
	after, _, err := p.counts()
	return []goal{
		{fmt.Sprintf("P6 certificate replaced / commit + order, of %d", n), times[0] / times[1], "x", 3, false, milliseconds(times...) + fmt.Sprintf("; all loaded in %.1f s", loaded)},
		{"   reloads meanwhile", float64(after - before), "", 0, false, ""},
	}, err
}

// serves checks whether HAProxy shows the certificate with a number.
func (p *proxyBench) serves(name string, serial int64) error {
	var conn net.Conn
	if err := p.lab.Within(lab.Wan, func() (err error) { conn, err = net.Dial("tcp", "198.51.100.1:443"); return err }); err != nil {
		return err
	}
	defer conn.Close()
	secure := tls.Client(conn, &tls.Config{ServerName: name, InsecureSkipVerify: true}) //nolint:gosec // its number is what matters
	if err := secure.Handshake(); err != nil {
		return err
	}
	if shown := secure.ConnectionState().PeerCertificates[0].SerialNumber; shown.Int64() != serial {
		return fmt.Errorf("%s shows certificate %s instead of %d", name, shown, serial)
	}
	return nil
}
