package account

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

const (
	// apiTokenPrefix distinguishes an API token from a session's, and lets source code scanners find a leaked one.
	apiTokenPrefix = "gwt_"
	// useEvery is how often the last use of a token is recorded.
	useEvery = time.Minute
)

// APIToken is a token with which a program acts for its user.
type APIToken struct {
	ID         uuid.UUID  `json:"id" readOnly:"true" doc:"Id, assigned by the gateway."`
	CreatedAt  time.Time  `json:"created_at" readOnly:"true" doc:"When it was created."`
	UpdatedAt  time.Time  `json:"updated_at" readOnly:"true" doc:"Same as created_at: a token cannot be changed."`
	Name       TokenName  `json:"name" required:"true" doc:"What it is for; the audit log shows it as token:<name>. At most 64 letters, digits, dots, hyphens or underscores."`
	Role       actor.Role `json:"role" required:"true" enum:"admin,viewer" doc:"Its role; never more than the current role of its user."`
	ExpiresAt  *time.Time `json:"expires_at" doc:"When it expires; null if it never does."`
	LastUsedAt *time.Time `json:"last_used_at" readOnly:"true" doc:"When it was last used, to the minute."`
	UserID     uuid.UUID  `json:"user_id" readOnly:"true" doc:"Whose it is."`
	User       string     `json:"user" readOnly:"true" doc:"E-mail address of its user."`
}

// NewAPIToken is the only answer with the token itself.
type NewAPIToken struct {
	APIToken
	Token string `json:"token" doc:"The token, for use as a bearer token. It is not shown again."`
}

// TokenName is the name of a token: one word, so that it cannot imitate another actor in the audit log.
type TokenName struct{ value.Text[tokenName] }

type tokenName struct{}

var tokenNameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (tokenName) Example() string { return "ci" }

func (tokenName) Parse(s string) (string, error) {
	if !tokenNameForm.MatchString(s) {
		return "", errors.New("must be one word of at most 64 letters, digits, dots, hyphens or underscores")
	}
	return s, nil
}

func (r *Room) mountAPITokens() {
	httpd.Handle(r.Router, http.MethodGet, "/api-tokens", httpd.Own,
		httpd.Doc{ID: "api-token.list", Tag: "auth", Summary: "List your own API tokens, or those of all users"},
		func(c *httpd.Call, in struct {
			All bool `query:"all" doc:"The tokens of all users; for administrators."`
		}) ([]APIToken, error) {
			if in.All && c.Actor.Role != actor.Admin {
				return nil, fault.New(fault.Forbidden, "Only an administrator may see the tokens of other users.")
			}
			return r.apiTokens(c, in.All)
		})
	httpd.Handle(r.Router, http.MethodGet, "/api-tokens/{id}", httpd.Own,
		httpd.Doc{ID: "api-token.get", Tag: "auth", Summary: "Show your own API token. Administrators can see any"},
		func(c *httpd.Call, in struct {
			ID uuid.UUID `path:"id" doc:"Id of the token."`
		}) (APIToken, error) {
			list, err := r.selectTokens(c, "t.id = $1 AND (u.id = $2 OR $3)", in.ID, c.Actor.UserID, c.Actor.Role == actor.Admin)
			if err == nil && len(list) == 0 {
				err = errNoToken
			}
			if err != nil {
				return APIToken{}, err
			}
			return list[0], nil
		})
	httpd.Handle(r.Router, http.MethodPost, "/api-tokens", httpd.Own.BySession().OnPrimary(),
		httpd.Doc{ID: "api-token.create", Tag: "auth", Summary: "Create an API token for yourself", Audit: "api-token.create", Creates: "/api-tokens/{id}"},
		func(c *httpd.Call, in struct{ Body APIToken }) (NewAPIToken, error) {
			return r.createAPIToken(c, in.Body)
		})
	httpd.Handle(r.Router, http.MethodDelete, "/api-tokens/{id}", httpd.Own.BySession().OnPrimary(),
		httpd.Doc{ID: "api-token.delete", Tag: "auth", Summary: "Delete your own API token. Administrators can delete any", Audit: "api-token.delete"},
		func(c *httpd.Call, in struct {
			ID uuid.UUID `path:"id" doc:"Id of the token."`
		}) (resource.Deleted, error) {
			return r.deleteAPIToken(c, in.ID)
		})
}

var errNoToken = fault.New(fault.NotFound, "This token does not exist.")

func (r *Room) apiTokens(c *httpd.Call, all bool) ([]APIToken, error) {
	return r.selectTokens(c, "u.id = $1 OR $2", c.Actor.UserID, all)
}

func (r *Room) selectTokens(ctx context.Context, where string, args ...any) ([]APIToken, error) {
	rows, err := r.DB.Query(ctx, `SELECT t.id, t.created_at, t.created_at, t.name, t.role, t.expires_at, t.last_used_at, u.id, u.email
		FROM account_api_tokens t JOIN account_users u ON u.id = t.user_id WHERE `+where+` ORDER BY u.email, t.name`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []APIToken{}
	for rows.Next() {
		var t APIToken
		if err := rows.Scan(&t.ID, &t.CreatedAt, &t.UpdatedAt, &t.Name, &t.Role, &t.ExpiresAt, &t.LastUsedAt, &t.UserID, &t.User); err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, rows.Err()
}

func (r *Room) createAPIToken(c *httpd.Call, t APIToken) (NewAPIToken, error) {
	now := r.Clock.Now()
	switch {
	case t.Role == actor.Admin && c.Actor.Role != actor.Admin:
		return NewAPIToken{}, fault.Field("role", "must not be higher than your own role")
	case t.ExpiresAt != nil && !t.ExpiresAt.After(now):
		return NewAPIToken{}, fault.Field("expires_at", "must be in the future")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return NewAPIToken{}, err
	}
	plain, hash := newTicket(apiTokenPrefix)
	t.ID, t.CreatedAt, t.UpdatedAt, t.UserID, t.User = id, now, now, c.Actor.UserID, c.Actor.Name
	err = r.DB.Write(c, func(tx *db.Tx) error {
		tx.Queue("INSERT INTO account_api_tokens (id, created_at, user_id, name, role, hash, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
			t.ID, t.CreatedAt, t.UserID, t.Name, t.Role, hash, t.ExpiresAt)
		return r.Audit.Write(c, tx, "api-token.create", t.Name.String(), map[string]any{"id": t.ID, "role": t.Role, "expires_at": t.ExpiresAt})
	})
	if err != nil {
		return NewAPIToken{}, err
	}
	return NewAPIToken{t, plain}, nil
}

func (r *Room) deleteAPIToken(c *httpd.Call, id uuid.UUID) (resource.Deleted, error) {
	err := r.DB.Write(c, func(tx *db.Tx) error {
		var name, user string
		err := tx.QueryRow(c, `DELETE FROM account_api_tokens t USING account_users u WHERE t.id = $1 AND u.id = t.user_id AND (u.id = $2 OR $3) RETURNING t.name, u.email`,
			id, c.Actor.UserID, c.Actor.Role == actor.Admin).Scan(&name, &user)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoToken
		}
		if err != nil {
			return err
		}
		return r.Audit.Write(c, tx, "api-token.delete", name, map[string]any{"id": id, "user": user})
	})
	return resource.Deleted{ID: id.String()}, err
}
