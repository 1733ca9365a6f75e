package account

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/wire"
)

// Passkey is a key in the user's browser or device.
type Passkey struct {
	ID         uuid.UUID  `json:"id" doc:"Id, assigned by the gateway."`
	Name       string     `json:"name" doc:"Name given by the user."`
	Host       string     `json:"host" doc:"Host name of the gateway that it was created for."`
	CreatedAt  time.Time  `json:"created_at" doc:"When it was added."`
	UpdatedAt  time.Time  `json:"updated_at" doc:"Same as created_at: a passkey cannot be changed."`
	LastUsedAt *time.Time `json:"last_used_at" doc:"When it was last used to log in."`
}

// PasskeyOptions are passed to the browser to create or use a passkey.
type PasskeyOptions struct {
	Options wire.Raw `json:"options" doc:"The publicKey options in their JSON form, for navigator.credentials."`
}

func (r *Room) mountPasskeys() {
	own := httpd.Own.BeforeSetup()
	httpd.Handle(r.Router, http.MethodGet, "/auth/passkeys", own,
		httpd.Doc{ID: "auth.passkey.list", Tag: "auth", Summary: "List your own passkeys"},
		func(c *httpd.Call, _ struct{}) ([]Passkey, error) {
			return r.selectPasskeys(c, "user_id = $1", c.Actor.UserID)
		})
	httpd.Handle(r.Router, http.MethodGet, "/auth/passkeys/{id}", own,
		httpd.Doc{ID: "auth.passkey.get", Tag: "auth", Summary: "Show your own passkey"},
		func(c *httpd.Call, in struct {
			ID uuid.UUID `path:"id" doc:"Id of the passkey."`
		}) (Passkey, error) {
			list, err := r.selectPasskeys(c, "user_id = $1 AND id = $2", c.Actor.UserID, in.ID)
			if err == nil && len(list) == 0 {
				err = errNoPasskey
			}
			if err != nil {
				return Passkey{}, err
			}
			return list[0], nil
		})
	httpd.Handle(r.Router, http.MethodPost, "/auth/passkeys/register/begin", own.BySession().OnPrimary(),
		httpd.Doc{ID: "auth.passkey.begin", Tag: "auth", Summary: "Start to add a passkey", Audit: "auth.passkey.begin"},
		func(c *httpd.Call, _ struct{}) (PasskeyOptions, error) { return r.beginPasskey(c) })
	httpd.Handle(r.Router, http.MethodPost, "/auth/passkeys/register/finish", own.BySession().OnPrimary(),
		httpd.Doc{ID: "auth.passkey.add", Tag: "auth", Summary: "Add the passkey that the browser created", Audit: "auth.passkey.add", Creates: "/auth/passkeys/{id}"},
		func(c *httpd.Call, in struct{ Body NewPasskey }) (Passkey, error) {
			return r.addPasskey(c, in.Body)
		})
	httpd.Handle(r.Router, http.MethodDelete, "/auth/passkeys/{id}", own.BySession().OnPrimary(),
		httpd.Doc{ID: "auth.passkey.delete", Tag: "auth", Summary: "Delete your own passkey", Audit: "auth.passkey.delete"},
		func(c *httpd.Call, in struct {
			ID uuid.UUID `path:"id" doc:"Id of the passkey."`
		}) (resource.Deleted, error) {
			return r.deletePasskey(c, in.ID)
		})
	httpd.Handle(r.Router, http.MethodDelete, "/users/{id}/passkeys", httpd.Write.BySession().OnPrimary(),
		httpd.Doc{ID: "user.passkeys.delete", Tag: "user", Summary: "Delete the passkeys of a user, for example if the device is lost", Audit: "user.passkeys.delete"},
		func(c *httpd.Call, in struct {
			ID uuid.UUID `path:"id" doc:"Id of the user."`
		}) (resource.Deleted, error) {
			return r.deletePasskeysOf(c, in.ID)
		})
}

var errNoPasskey = fault.New(fault.NotFound, "This passkey does not exist.")

func (r *Room) selectPasskeys(ctx context.Context, where string, args ...any) ([]Passkey, error) {
	rows, err := r.DB.Query(ctx, "SELECT id, name, rp_id, created_at, created_at, last_used_at FROM account_passkeys WHERE "+where+" ORDER BY created_at, id", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Passkey{}
	for rows.Next() {
		var p Passkey
		if err := rows.Scan(&p.ID, &p.Name, &p.Host, &p.CreatedAt, &p.UpdatedAt, &p.LastUsedAt); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, rows.Err()
}

func (r *Room) deletePasskey(c *httpd.Call, id uuid.UUID) (resource.Deleted, error) {
	err := r.DB.Write(c, func(tx *db.Tx) error {
		lockUser(tx, c.Actor.UserID)
		tag, err := tx.Exec(c, "DELETE FROM account_passkeys WHERE id = $1 AND user_id = $2", id, c.Actor.UserID)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errNoPasskey
		}
		r.countPasskeys(tx, c.Actor.UserID)
		r.mirror(c, tx, c.Actor.Name, c.Actor.UserID)
		return r.Audit.Write(c, tx, "auth.passkey.delete", c.Actor.Name, map[string]any{"id": id})
	})
	return resource.Deleted{ID: id.String()}, err
}

func (r *Room) deletePasskeysOf(ctx context.Context, user uuid.UUID) (resource.Deleted, error) {
	err := r.DB.Write(ctx, func(tx *db.Tx) error {
		lockUser(tx, user)
		u, err := r.users.Get(ctx, tx, user)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, "DELETE FROM account_passkeys WHERE user_id = $1", user)
		if err != nil {
			return err
		}
		r.countPasskeys(tx, user)
		r.mirror(ctx, tx, u.Email.String(), user)
		return r.Audit.Write(ctx, tx, "user.passkeys.delete", u.Email.String(), map[string]any{"id": user, "passkeys": tag.RowsAffected()})
	})
	return resource.Deleted{ID: user.String()}, err
}

// lockUser serializes changes of the user's number of passkeys.
func lockUser(tx *db.Tx, user uuid.UUID) {
	tx.Queue("SELECT FROM account_users WHERE id = $1 FOR UPDATE", user)
}

// countPasskeys stores the user's number of passkeys, from which a login knows that it takes two steps.
func (r *Room) countPasskeys(tx *db.Tx, user uuid.UUID) {
	tx.Queue("UPDATE account_users SET passkeys = (SELECT count(*) FROM account_passkeys WHERE user_id = $1), updated_at = $2 WHERE id = $1", user, r.Clock.Now())
}

// party is the gateway as browsers know it. A passkey belongs to a host name, so it only works under the gateway's own name, and under
// localhost for labs.
func (r *Room) party(req *http.Request) (*webauthn.WebAuthn, error) {
	host := strings.ToLower(req.Host)
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	// A request forwarded by another node was made under that node's name.
	if fqdn := r.deps.FQDN(); host != "localhost" && (fqdn == "" || host != fqdn) && (r.deps.Names == nil || !r.deps.Names(req.Context(), host)) {
		return nil, fault.New(fault.Conflict, "Passkeys work only under the gateway's host name. Open https://%s", fqdn)
	}
	return webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: "Gateway", RPOrigins: []string{"https://" + strings.ToLower(req.Host)},
		AttestationPreference:  protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{ResidentKey: protocol.ResidentKeyRequirementPreferred, UserVerification: protocol.VerificationPreferred},
	})
}

// holder is a user with the passkeys that are valid under one name of the gateway.
type holder struct {
	id          uuid.UUID
	email, name string
	credentials webauthn.Credentials
}

func (h *holder) WebAuthnID() []byte                         { return h.id[:] }
func (h *holder) WebAuthnName() string                       { return h.email }
func (h *holder) WebAuthnCredentials() []webauthn.Credential { return h.credentials }

func (h *holder) WebAuthnDisplayName() string {
	if h.name != "" {
		return h.name
	}
	return h.email
}

func (r *Room) holder(ctx context.Context, id uuid.UUID, rpID string) (*holder, error) {
	h := &holder{id: id}
	err := r.DB.QueryRow(ctx, "SELECT email, name FROM account_users WHERE id = $1", id).Scan(&h.email, &h.name)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errNoSession
	}
	if err != nil {
		return nil, err
	}
	rows, err := r.DB.Query(ctx, "SELECT credential FROM account_passkeys WHERE user_id = $1 AND rp_id = $2 ORDER BY created_at, id", id, rpID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var b []byte
		var c webauthn.Credential
		if err := rows.Scan(&b); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, &c); err != nil {
			return nil, err
		}
		h.credentials = append(h.credentials, c)
	}
	return h, rows.Err()
}
