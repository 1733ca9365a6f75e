package certificate_test

import (
	"testing"

	"edge.internal/gateway/internal/certificate"
)

// A certificate is wanted: it is self-signed until it is issued, and counts as renewed when the listener shows it.
func TestOrderByHTTP(t *testing.T) {
	w := newWorld(t, nil)
	w.want(certificate.Wanted{Names: []string{fqdn}})
	w.run(t)
	eventually(t, "there is a row", func() bool { return len(w.all(t)) == 1 })
	first := w.all(t)[0]
	if !first.Automatic || first.Source != "acme" || first.Challenge != "http-01" || first.DomainID != nil || !sameNames(first.Names, fqdn) {
		t.Errorf("%+v", first)
	}
	c := w.until(t, first.ID, func(c row) bool { return c.LastRenewedAt != nil })
	if c.Status != "valid" || c.LastError != "" || c.Attempts != 0 || c.RenewAt == nil {
		t.Errorf("%+v", c)
	}
	t.Logf("%+v\n%s", c, w.Logs)
}
