package certificate

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
)

// Summary counts certificates by state.
type Summary struct {
	Total    int `json:"total" doc:"All certificates."`
	Expiring int `json:"expiring" doc:"Those with less than 14 days left."`
	Expired  int `json:"expired" doc:"Expired ones."`
	Errors   int `json:"errors" doc:"Certificates whose last order failed, or that cannot be used."`
}

// Due is the result of a round of renewals.
type Due struct {
	Ordered int `json:"ordered" doc:"Certificates that are due, and ordered now."`
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/certificates/summary", httpd.Read, tag.Doc("certificate.summary", "Number of certificates by status"),
		func(c *httpd.Call, _ struct{}) (s Summary, err error) {
			err = r.DB.QueryRow(c, `SELECT count(*), count(*) FILTER (WHERE status = 'expiring'), count(*) FILTER (WHERE status = 'expired'),
				count(*) FILTER (WHERE last_error <> '') FROM certificate_certificates`).Scan(&s.Total, &s.Expiring, &s.Expired, &s.Errors)
			return s, err
		})
	renew := tag.Audited("certificate.renew", "Renew a certificate. The order continues after the answer")
	renew.Feeds = []string{string(apply.ReverseProxy)}
	httpd.Handle(r.Router, http.MethodPost, "/certificates/{id}/renew", httpd.Write.OnPrimary(), renew,
		func(c *httpd.Call, in struct {
			ID uuid.UUID `path:"id" doc:"Id of the certificate."`
		}) (Certificate, error) {
			return r.renewNow(c, in.ID)
		})
	httpd.Handle(r.Router, http.MethodPost, "/certificates/renew-due", httpd.Write.OnPrimary(), tag.Audited("certificate.renew-due", "Order every certificate that is due, and ask the certificate authority whether others are due"),
		func(c *httpd.Call, _ struct{}) (Due, error) { return r.renewDue(c) })
}

// renewNow orders a certificate ahead of its time.
func (r *Room) renewNow(c *httpd.Call, id uuid.UUID) (Certificate, error) {
	var row *Certificate
	outcome, err := r.Engine.Commit(c, feeds, func(tx *db.Tx) (rows []apply.Row, err error) {
		row, rows, err = r.update(c, tx, id, "certificate.renew", func(row *Certificate) error {
			now := r.Clock.Now()
			switch {
			case row.Source == sourceUploaded:
				return fault.New(fault.Conflict, "An uploaded certificate cannot be renewed. Upload a new one.")
			case row.Source == sourceSelfSigned:
				return r.sign(row, row.KeyType)
			case !r.deps.ACME().Enabled:
				return fault.New(fault.Conflict, "ACME is off, so no certificates are ordered. Turn on ACME first.")
			}
			row.NextAttemptAt = nil
			if row.issued() {
				row.RenewAt = &now
			}
			return nil
		})
		tx.AfterCommit(r.Wake)
		return rows, err
	})
	if err != nil {
		return Certificate{}, err
	}
	resource.Applied(c, outcome)
	return *row, nil
}

// renewDue orders what is due, and counts it. The scheduler calls it every hour; a call that changes nothing is not audited.
func (r *Room) renewDue(ctx context.Context) (d Due, err error) {
	rows, err := r.certificates.All(ctx, r.DB)
	if err != nil || !r.deps.ACME().Enabled {
		return d, err
	}
	for i := range rows {
		if isDue(&rows[i], r.Clock.Now()) {
			d.Ordered++
		}
	}
	nudge(r.ask)
	r.Wake()
	if d.Ordered == 0 {
		return d, nil
	}
	return d, r.Audit.Record(ctx, "certificate.renew-due", "certificates", d)
}
