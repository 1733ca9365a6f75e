package account

import (
	"encoding/json"
	"errors"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/wire"
)

// askForPasskey begins the second step with a passkey. The challenge stores the request, for one answer.
func (r *Room) askForPasskey(c *httpd.Call, challenge string) (PasskeyOptions, error) {
	var id uuid.UUID
	hash, now := hashTicket(challenge), r.Clock.Now()
	err := r.DB.QueryRow(c, "SELECT user_id FROM account_challenges WHERE id = $1 AND tries < $2 AND expires_at > $3", hash, maxTries, now).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		r.challengeExpired(c, hash)
		return PasskeyOptions{}, errChallenge
	}
	if err != nil {
		return PasskeyOptions{}, err
	}
	party, err := r.party(c.Request)
	if err != nil {
		return PasskeyOptions{}, err
	}
	user, err := r.holder(c, id, party.Config.RPID)
	if err != nil {
		return PasskeyOptions{}, err
	}
	if len(user.credentials) == 0 {
		return PasskeyOptions{}, fault.New(fault.Conflict, "The user has no passkey for %s.", party.Config.RPID)
	}
	assertion, state, err := party.BeginLogin(user)
	if err != nil {
		return PasskeyOptions{}, err
	}
	options, ceremony, err := encodeCeremony(assertion.Response, state)
	if err != nil {
		return PasskeyOptions{}, err
	}
	err = r.DB.Write(c, func(tx *db.Tx) error {
		tx.Queue("UPDATE account_challenges SET ceremony = $2 WHERE id = $1", hash, ceremony)
		return nil
	})
	return PasskeyOptions{options}, err
}

// provePasskey verifies the browser's answer.
func (r *Room) provePasskey(c *httpd.Call, p *pending, answer wire.Raw) (proof, error) {
	if p.ceremony == nil {
		return proof{}, errPasskey
	}
	var state webauthn.SessionData
	if err := json.Unmarshal(p.ceremony, &state); err != nil {
		return proof{}, err
	}
	party, err := r.party(c.Request)
	if err != nil {
		return proof{}, err
	}
	user, err := r.holder(c, p.who.ID, party.Config.RPID)
	if err != nil {
		return proof{}, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return proof{}, errPasskey
	}
	credential, err := party.ValidateLogin(user, state, parsed)
	if err != nil {
		return proof{}, errPasskey
	}
	if credential.Authenticator.CloneWarning {
		return proof{}, errCloned
	}
	encoded, err := json.Marshal(credential)
	if err != nil {
		return proof{}, err
	}
	var used Spent // without a counter, an answer cannot be used twice only because its challenge is used once
	if n := credential.Authenticator.SignCount; n > 0 {
		used = spentCount(p.who.ID, credential.ID, n)
	}
	return proof{method: byPasskey, spend: func(tx *db.Tx) error {
		// Two simultaneous answers of one device have different counts; a count that does not increase is that of a copy.
		tag, err := tx.Exec(c, `UPDATE account_passkeys SET credential = $3, sign_count = $4, last_used_at = $5
			WHERE user_id = $1 AND credential_id = $2 AND (sign_count < $4 OR sign_count = 0 AND $4 = 0)`,
			p.who.ID, credential.ID, encoded, int64(credential.Authenticator.SignCount), r.Clock.Now())
		if err == nil && tag.RowsAffected() == 0 {
			err = errCloned
		}
		return err
	}, spent: used}, nil
}
