package diag

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// expiresSoon is the remaining validity below which a certificate causes a warning.
const expiresSoon = 14 * 24 * time.Hour

// certificate checks the certificate of a TLS service.
func (w *walk) certificate() (bool, error) {
	if !w.q.tls() {
		return true, nil
	}
	name := w.q.Destination.String()
	ctx, cancel := context.WithTimeout(w, tcpWait)
	defer cancel()
	// Any certificate is accepted for inspection, and nothing is sent over the connection.
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: name, MinVersion: tls.VersionTLS10}}
	step := Step{Kind: "certificate", Status: passed, Subject: name}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(w.destination.String(), strconv.Itoa(w.port)))
	if err != nil {
		step.Status, step.Text = failed, fmt.Sprintf("The TLS handshake with %s fails: %s.", name, handshake(err))
		step.Advice = "Check that the service uses TLS on this port, and that it has a certificate for this name."
		return w.add(step), nil
	}
	defer conn.Close()
	chain := conn.(*tls.Conn).ConnectionState().PeerCertificates
	w.judge(&step, chain, w.room.Clock.Now(), nil)
	return w.add(step), nil
}

// judge says whether a client would accept a certificate. Without roots, the machine's are used.
func (w *walk) judge(step *Step, chain []*x509.Certificate, now time.Time, roots *x509.CertPool) {
	name, leaf := w.q.Destination.String(), chain[0]
	_, err := netip.ParseAddr(name)
	byName := err != nil
	day := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
	others := x509.NewCertPool()
	for _, c := range chain[1:] {
		others.AddCert(c)
	}
	_, untrusted := leaf.Verify(x509.VerifyOptions{Intermediates: others, Roots: roots, CurrentTime: now})
	switch {
	case now.After(leaf.NotAfter):
		step.Status, step.Text = failed, fmt.Sprintf("The certificate of %s expired on %s.", name, day(leaf.NotAfter))
		step.Advice = "Renew it, and reload the service."
	case now.Before(leaf.NotBefore):
		step.Status, step.Text = failed, fmt.Sprintf("The certificate of %s is not valid before %s.", name, day(leaf.NotBefore))
		step.Advice = "Check the clocks on both sides."
	case byName && leaf.VerifyHostname(name) != nil:
		step.Status, step.Text = failed, fmt.Sprintf("The service presents a certificate for %[2]s, not for %[1]s.", name, names(leaf))
		step.Advice = "Get a certificate for this name, or use a name that the certificate covers."
	case untrusted != nil:
		step.Status, step.Text = warning, fmt.Sprintf("This machine does not trust the issuer of the certificate of %s: %s.", name, issuer(leaf))
		step.Advice = "Clients that do not trust this issuer refuse the connection. With a public issuer, check that the service sends the whole chain."
	case leaf.NotAfter.Sub(now) < expiresSoon:
		step.Status, step.Text = warning, fmt.Sprintf("The certificate of %s is valid, but expires on %s.", name, day(leaf.NotAfter))
		step.Advice = "Renew it."
	default:
		step.Text = fmt.Sprintf("The certificate is for %s, issued by %s, and valid until %s.", names(leaf), issuer(leaf), day(leaf.NotAfter))
		if !byName {
			step.Text += " Whether it covers this address was not checked."
		}
	}
}

func issuer(c *x509.Certificate) string {
	switch {
	case len(c.Issuer.Organization) > 0:
		return c.Issuer.Organization[0]
	case c.Issuer.CommonName != "":
		return c.Issuer.CommonName
	}
	return "an issuer without a name"
}

func names(c *x509.Certificate) string {
	list := c.DNSNames
	for _, ip := range c.IPAddresses {
		list = append(list, ip.String())
	}
	const most = 3
	switch n := len(list); {
	case n == 0:
		return "no name"
	case n > most:
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), n-most)
	}
	return strings.Join(list, ", ")
}

// handshake explains why a TLS handshake failed.
func handshake(err error) string {
	alert, isAlert := errors.AsType[tls.AlertError](err)
	_, isOther := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case isOther:
		return "the service does not use TLS"
	case isAlert:
		return "the service refuses it: " + strings.TrimPrefix(alert.Error(), "tls: ")
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("it does not complete within %s", tcpWait)
	}
	return "the service closes the connection, or both sides have no TLS version or cipher in common"
}
