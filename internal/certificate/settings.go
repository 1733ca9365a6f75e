package certificate

import (
	"net/http"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

// ACME says how certificates are ordered.
type ACME struct {
	Enabled      bool        `json:"enabled" doc:"Whether certificates are ordered and renewed automatically. When off, existing certificates are used until they expire."`
	Email        value.Email `json:"email" doc:"Contact address for the certificate authority. A change is sent with the next order."`
	DirectoryURL value.URL   `json:"directory_url" doc:"Directory of the certificate authority; empty for Let's Encrypt. To use your own authority, put its root certificate into /etc/gateway/acme-ca.pem."`
}

// Validate reports what ordering needs but lacks.
func (a *ACME) Validate() error {
	var c check.List
	c.That(!a.Enabled || !a.Email.IsZero(), "email", "is required when ACME is on")
	return c.Err()
}

func (r *Room) mountSettings() {
	httpd.Handle(r.Router, http.MethodGet, "/certificates/acme", httpd.Read, tag.Doc("certificate.acme.get", "Read the ACME settings"),
		func(*httpd.Call, struct{}) (ACME, error) { return r.deps.ACME(), nil })
	httpd.Handle(r.Router, http.MethodPut, "/certificates/acme", httpd.Write.Here(), tag.Audited("certificate.acme", "Change the ACME settings"),
		func(c *httpd.Call, in struct{ Body httpd.Onto[ACME] }) (ACME, error) {
			now, err := in.Body.Decode(r.deps.ACME())
			if err != nil {
				return now, err
			}
			err = r.Audit.Do(c, "certificate.acme", "ACME", func() (any, error) { return now, r.deps.SetACME(now) })
			if err != nil {
				return now, err
			}
			r.Wake()
			return now, nil
		})
}
