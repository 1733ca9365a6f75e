package account

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/wire"
)

const maxPasskeys = 20

// NewPasskey completes a registration.
type NewPasskey struct {
	Name       value.Line `json:"name" required:"true" doc:"Name given by the user."`
	Credential wire.Raw   `json:"credential" required:"true" doc:"What the browser answered, as a PublicKeyCredential in its JSON form."`
}

func (n *NewPasskey) Validate() error {
	if len(n.Name.String()) > 100 {
		return fault.Field("name", "must have at most 100 bytes")
	}
	return nil
}

// beginPasskey begins a registration, and invalidates an earlier one of the user.
func (r *Room) beginPasskey(c *httpd.Call) (PasskeyOptions, error) {
	party, err := r.party(c.Request)
	if err != nil {
		return PasskeyOptions{}, err
	}
	user, err := r.holder(c, c.Actor.UserID, party.Config.RPID)
	if err != nil {
		return PasskeyOptions{}, err
	}
	if len(user.credentials) >= maxPasskeys {
		return PasskeyOptions{}, fault.New(fault.Conflict, "You already have %d passkeys. Delete one first.", maxPasskeys)
	}
	creation, state, err := party.BeginRegistration(user, webauthn.WithExclusions(user.credentials.CredentialDescriptors()))
	if err != nil {
		return PasskeyOptions{}, err
	}
	options, ceremony, err := encodeCeremony(creation.Response, state)
	if err != nil {
		return PasskeyOptions{}, err
	}
	err = r.DB.Write(c, func(tx *db.Tx) error {
		tx.Queue(`INSERT INTO account_passkey_registrations (user_id, expires_at, ceremony) VALUES ($1, $2, $3)
			ON CONFLICT (user_id) DO UPDATE SET expires_at = $2, ceremony = $3`, user.id, r.Clock.Now().Add(challengeTTL), ceremony)
		return r.Audit.Write(c, tx, "auth.passkey.begin", c.Actor.Name, nil)
	})
	return PasskeyOptions{options}, err
}

// encodeCeremony encodes what the browser gets and what the database stores, in the library's form.
func encodeCeremony(options any, state *webauthn.SessionData) (wire.Raw, []byte, error) {
	sent, err := json.Marshal(options)
	if err != nil {
		return nil, nil, err
	}
	kept, err := json.Marshal(state)
	return sent, kept, err
}

// addPasskey completes a registration. Whatever the result, the registration is used up.
func (r *Room) addPasskey(c *httpd.Call, in NewPasskey) (Passkey, error) {
	refused := fault.Field("credential", "was refused. Start again")
	party, err := r.party(c.Request)
	if err != nil {
		return Passkey{}, err
	}
	state, err := r.takeRegistration(c, c.Actor.UserID)
	if err != nil {
		return Passkey{}, err
	}
	user, err := r.holder(c, c.Actor.UserID, party.Config.RPID)
	if err != nil {
		return Passkey{}, err
	}
	answer, err := protocol.ParseCredentialCreationResponseBytes(in.Credential)
	if err != nil {
		return Passkey{}, refused
	}
	credential, err := party.CreateCredential(user, *state, answer)
	if err != nil {
		return Passkey{}, refused
	}
	encoded, err := json.Marshal(credential)
	if err != nil {
		return Passkey{}, err
	}
	now := r.Clock.Now()
	p := Passkey{Name: in.Name.String(), Host: party.Config.RPID, CreatedAt: now, UpdatedAt: now}
	if p.ID, err = uuid.NewV7(); err != nil {
		return Passkey{}, err
	}
	err = r.DB.Write(c, func(tx *db.Tx) error {
		lockUser(tx, user.id)
		tx.Queue(`INSERT INTO account_passkeys (id, created_at, user_id, name, rp_id, credential_id, credential, sign_count) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			p.ID, p.CreatedAt, user.id, p.Name, p.Host, credential.ID, encoded, int64(credential.Authenticator.SignCount))
		r.countPasskeys(tx, user.id)
		r.mirror(c, tx, user.email, user.id)
		return r.Audit.Write(c, tx, "auth.passkey.add", c.Actor.Name, map[string]any{"id": p.ID, "name": p.Name})
	})
	return p, err
}

// takeRegistration takes the user's registration in progress; of concurrent callers, only one gets it.
func (r *Room) takeRegistration(ctx context.Context, user uuid.UUID) (*webauthn.SessionData, error) {
	var ceremony []byte
	err := r.DB.Write(ctx, func(tx *db.Tx) error {
		return tx.QueryRow(ctx, "DELETE FROM account_passkey_registrations WHERE user_id = $1 AND expires_at > $2 RETURNING ceremony", user, r.Clock.Now()).Scan(&ceremony)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.New(fault.Conflict, "The registration of the passkey was not started or has expired. Start again.")
	}
	if err != nil {
		return nil, err
	}
	state := new(webauthn.SessionData)
	return state, json.Unmarshal(ceremony, state)
}
