package certificate

import (
	"net/http"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

// ACME is how certificates are ordered.
type ACME struct {
	Enabled      bool        `json:"enabled" doc:"Whether certificates are ordered and renewed by themselves. Off, those that are there are shown as long as they last."`
	Email        value.Email `json:"email" doc:"Whom the certificate authority may write to. A change is told to it with the next order."`
	DirectoryURL value.URL   `json:"directory_url" doc:"Directory of the certificate authority. Empty stands for Let's Encrypt. One of your own, whose certificate no public authority vouches for, is trusted when its root is in /etc/gateway/acme-ca.pem."`
}

// Validate complains about what ordering lacks.
func (a *ACME) Validate() error {
	var c check.List
	c.That(!a.Enabled || !a.Email.IsZero(), "email", "is required when certificates are ordered")
	return c.Err()
}

func (r *Room) mountSettings() {
	httpd.Handle(r.Router, http.MethodGet, "/certificates/acme", httpd.Read, doc("certificate.acme.get", "How certificates are ordered"),
		func(*httpd.Call, struct{}) (ACME, error) { return r.deps.ACME(), nil })
	httpd.Handle(r.Router, http.MethodPut, "/certificates/acme", httpd.Write, audited("certificate.acme", "Change how certificates are ordered"),
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
