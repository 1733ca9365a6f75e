package account

import (
	"errors"
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
)

func (r *Room) mountOIDCLink() {
	httpd.Handle(r.Router, http.MethodDelete, "/users/{id}/oidc-subject", httpd.Write.BySession().OnPrimary(),
		httpd.Doc{ID: "user.oidc-subject.delete", Tag: "user", Summary: "Unlink a user from the identity provider, for example if the provider has given the user a new identity. The next single sign-on links the user again", Audit: "user.oidc-subject.delete"},
		func(c *httpd.Call, in struct {
			ID uuid.UUID `path:"id" doc:"Id of the user."`
		}) (resource.Deleted, error) {
			err := r.DB.Write(c, func(tx *db.Tx) error {
				var email string
				err := tx.QueryRow(c, "UPDATE account_users SET oidc_subject = '', updated_at = $2 WHERE id = $1 RETURNING email", in.ID, r.Clock.Now()).Scan(&email)
				if errors.Is(err, pgx.ErrNoRows) {
					return fault.New(fault.NotFound, "This user does not exist.")
				}
				if err != nil {
					return err
				}
				return r.Audit.Write(c, tx, "user.oidc-subject.delete", email, map[string]any{"id": in.ID})
			})
			return resource.Deleted{ID: in.ID.String()}, err
		})
}
