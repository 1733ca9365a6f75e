package account

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pquerna/otp/totp"
	"rsc.io/qr"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/resource"
)

// TOTPSetup is what an authenticator app needs. It is shown once.
type TOTPSetup struct {
	Secret     string `json:"secret" doc:"The shared secret in base 32, to type."`
	OTPAuthURL string `json:"otpauth_url" doc:"The same as a URL, for an app on this device."`
	QRPNG      []byte `json:"qr_png" doc:"The URL as a QR code, to scan: a PNG in base 64."`
}

// TOTPCode confirms a setup.
type TOTPCode struct {
	Code string `json:"code" required:"true" maxLength:"64" doc:"The six digits that the app shows."`
}

// RecoveryCodes replace the app's code, once each. They are shown once.
type RecoveryCodes struct {
	Codes []string `json:"recovery_codes" doc:"Ten codes. Each works once in place of the app's code."`
}

// OwnPassword confirms a request with the caller's password.
type OwnPassword struct {
	Password password.Typed `json:"password,omitzero" required:"true" doc:"The password of your own account."`
}

func (r *Room) mountTOTP() {
	own := httpd.Own.BeforeSetup().BySession()
	httpd.Handle(r.Router, http.MethodPost, "/auth/totp/setup", own.OnPrimary(),
		httpd.Doc{ID: "auth.totp.setup", Tag: "auth", Summary: "Create a secret for an authenticator app. Logins do not change until a code confirms it", Audit: "auth.totp.setup"},
		func(c *httpd.Call, _ struct{}) (TOTPSetup, error) { return r.setUpTOTP(c) })
	httpd.Handle(r.Router, http.MethodPost, "/auth/totp/enable", own.OnPrimary(),
		httpd.Doc{ID: "auth.totp.enable", Tag: "auth", Summary: "Confirm the secret with a code. From then on logins need a code", Audit: "auth.totp.enable"},
		func(c *httpd.Call, in struct{ Body TOTPCode }) (RecoveryCodes, error) {
			return r.enableTOTP(c, in.Body.Code)
		})
	httpd.Handle(r.Router, http.MethodPost, "/auth/totp/disable", own.OnPrimary(),
		httpd.Doc{ID: "auth.totp.disable", Tag: "auth", Summary: "Turn off your own authenticator app", Audit: "auth.totp.disable"},
		func(c *httpd.Call, in struct{ Body OwnPassword }) (Identity, error) {
			turn, err := r.turn(c)
			if err != nil {
				return Identity{}, err
			}
			_, err = r.prove(c, turn, "password", in.Body.Password)
			turn.End()
			if err == nil {
				_, err = r.removeTOTP(c, c.Actor.UserID, "auth.totp.disable")
			}
			if err != nil {
				return Identity{}, err
			}
			return r.identity(c)
		})
	httpd.Handle(r.Router, http.MethodDelete, "/users/{id}/totp", httpd.Write.BySession().OnPrimary(),
		httpd.Doc{ID: "user.totp.disable", Tag: "user", Summary: "Turn off the authenticator app of a user, for example if the phone is lost", Audit: "user.totp.disable"},
		func(c *httpd.Call, in struct {
			ID uuid.UUID `path:"id" doc:"Id of the user."`
		}) (resource.Deleted, error) {
			return r.removeTOTP(c, in.ID, "user.totp.disable")
		})
}

// setUpTOTP creates a secret to be confirmed, and invalidates an earlier unconfirmed one.
func (r *Room) setUpTOTP(c *httpd.Call) (TOTPSetup, error) {
	issuer := r.deps.FQDN()
	if issuer == "" {
		issuer = "Gateway"
	}
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: c.Actor.Name, SecretSize: 20})
	if err != nil {
		return TOTPSetup{}, err
	}
	code, err := qr.Encode(key.URL(), qr.M)
	if err != nil {
		return TOTPSetup{}, err
	}
	sealed, err := r.Secrets.Seal(key.Secret(), totpTable, totpColumn, c.Actor.UserID.String())
	if err != nil {
		return TOTPSetup{}, err
	}
	err = r.DB.Write(c, func(tx *db.Tx) error {
		tag, err := tx.Exec(c, `
			INSERT INTO account_totp (user_id, created_at, secret, confirmed, last_step) VALUES ($1, $2, $3, false, 0)
			ON CONFLICT (user_id) DO UPDATE SET created_at = $2, secret = $3, last_step = 0 WHERE NOT account_totp.confirmed`, c.Actor.UserID, r.Clock.Now(), sealed)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fault.New(fault.Conflict, "The authenticator app is already on. Turn it off first.")
		}
		return r.Audit.Write(c, tx, "auth.totp.setup", c.Actor.Name, nil)
	})
	return TOTPSetup{Secret: key.Secret(), OTPAuthURL: key.URL(), QRPNG: code.PNG()}, err
}

// enableTOTP confirms the secret, and uses up the code.
func (r *Room) enableTOTP(c *httpd.Call, code string) (RecoveryCodes, error) {
	secret, sealed, err := r.totpSecret(c, c.Actor.UserID, false)
	if errors.Is(err, pgx.ErrNoRows) {
		return RecoveryCodes{}, fault.New(fault.Conflict, "There is no secret to confirm. Start the setup of the app first.")
	}
	if err != nil {
		return RecoveryCodes{}, err
	}
	from, _ := r.source(c, c.Actor.Name)
	attempt, err := r.guesses.Begin("second step of "+c.Actor.Name, from)
	if err != nil {
		return RecoveryCodes{}, err
	}
	step, ok := matchCode(secret, code, r.Clock.Now())
	if !ok {
		return RecoveryCodes{}, fault.Field("code", "is wrong. Enter the code that the app shows now, and check that the clocks of both devices are right")
	}
	attempt.Succeeded()
	codes, hashes := newRecoveryCodes()
	err = r.DB.Write(c, func(tx *db.Tx) error {
		tag, err := tx.Exec(c, "UPDATE account_totp SET confirmed = true, last_step = $3 WHERE user_id = $1 AND secret = $2 AND NOT confirmed", c.Actor.UserID, sealed, step)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fault.New(fault.Conflict, "The secret has been confirmed or replaced in the meantime.")
		}
		tx.Queue("DELETE FROM account_recovery_codes WHERE user_id = $1", c.Actor.UserID)
		tx.Queue("INSERT INTO account_recovery_codes (user_id, hash) SELECT $1, unnest($2::bytea[])", c.Actor.UserID, hashes)
		tx.Queue("UPDATE account_users SET totp_enabled = true, updated_at = $2 WHERE id = $1", c.Actor.UserID, r.Clock.Now())
		r.mirror(c, tx, c.Actor.Name, c.Actor.UserID)
		return r.Audit.Write(c, tx, "auth.totp.enable", c.Actor.Name, map[string]any{"remote_ip": c.Client()})
	})
	if err != nil {
		return RecoveryCodes{}, err
	}
	return RecoveryCodes{codes}, nil
}

// removeTOTP deletes the secret of a user, with the recovery codes.
func (r *Room) removeTOTP(ctx context.Context, user uuid.UUID, action string) (resource.Deleted, error) {
	err := r.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue("DELETE FROM account_recovery_codes WHERE user_id = $1", user)
		tag, err := tx.Exec(ctx, "DELETE FROM account_totp WHERE user_id = $1", user)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fault.New(fault.NotFound, "The user has no authenticator app.")
		}
		var email string
		err = tx.QueryRow(ctx, "UPDATE account_users SET totp_enabled = false, updated_at = $2 WHERE id = $1 RETURNING email", user, r.Clock.Now()).Scan(&email)
		if err != nil {
			return err
		}
		r.mirror(ctx, tx, email, user)
		return r.Audit.Write(ctx, tx, action, email, map[string]any{"id": user})
	})
	return resource.Deleted{ID: user.String()}, err
}
