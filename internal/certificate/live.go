package certificate

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"
)

// servedWithin is how long the proxy may take to serve a new certificate.
const servedWithin = 20 * time.Second

// confirm checks whether the proxy serves a certificate. Only then does it count as renewed.
func (r *Room) confirm(ctx context.Context, row *Certificate, within time.Duration) {
	why := r.notServed(ctx, row, within)
	if ctx.Err() != nil || why != "" && row.LastError == why {
		return
	}
	action := "certificate.live"
	if why != "" {
		action = "certificate.not-live"
	}
	err := r.store(ctx, row.ID, action, nil, func(c *Certificate) error {
		if c.FingerprintSHA256 != row.FingerprintSHA256 {
			return errOutdated
		}
		c.LastError, c.ErrorKind = why, ""
		if why != "" {
			c.ErrorKind = failedNotLive
			return nil
		}
		now := r.Clock.Now()
		c.LastRenewedAt = &now
		return nil
	})
	if err != nil {
		r.Log.Error("the certificate that the proxy serves could not be stored", "certificate", row.Label(), "err", err)
	}
}

// notServed waits for the proxy to serve a certificate, and returns why it does not; empty if it does.
func (r *Room) notServed(ctx context.Context, row *Certificate, within time.Duration) string {
	name := strings.Replace(row.Names[0].String(), "*.", "gateway.", 1) // any name that the wildcard covers
	until := r.Clock.Now().Add(within)
	for {
		served, err := r.deps.Served(ctx, name)
		switch {
		case err == nil && served == row.FingerprintSHA256:
			return ""
		case !r.Clock.Now().Before(until) && err != nil:
			return printable(fmt.Sprintf("the certificate is issued and stored, but the proxy does not answer for %s: %v", name, err))
		case !r.Clock.Now().Before(until):
			return fmt.Sprintf("the certificate is issued and stored, but the proxy serves another one for %s (%s)", name, served)
		}
		select {
		case <-ctx.Done():
			return ""
		case <-r.Clock.After(time.Second):
		}
	}
}

// served asks the listener itself which certificate it serves.
func served(ctx context.Context, name string) (string, error) {
	// Verification is not needed: the certificate is compared with the expected one.
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 3 * time.Second}, Config: &tls.Config{ServerName: name, InsecureSkipVerify: true}} //nolint:gosec // see above
	conn, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:443")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return fingerprint(conn.(*tls.Conn).ConnectionState().PeerCertificates[0]), nil
}
