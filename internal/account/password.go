package account

import (
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/password"
)

// PasswordChange changes the caller's own password.
type PasswordChange struct {
	Current password.Typed  `json:"current_password,omitzero" required:"true" doc:"Current password."`
	New     password.Chosen `json:"new_password,omitzero" required:"true" doc:"At least 12 characters."`
}

func (r *Room) mountChangePassword() {
	httpd.Handle(r.Router, http.MethodPost, "/auth/change-password", httpd.Own.BeforeSetup().BySession().OnPrimary(),
		httpd.Doc{ID: "auth.change-password", Tag: "auth", Summary: "Change your own password and end your other sessions", Audit: "auth.password.change"},
		func(c *httpd.Call, in struct{ Body PasswordChange }) (Identity, error) {
			was, now, err := r.exchange(c, in.Body)
			if err != nil {
				return Identity{}, err
			}
			if err := r.changePassword(c, was, now); err != nil {
				return Identity{}, err
			}
			return r.identity(c)
		})
}

// exchange verifies the caller's present password, and hashes the new one.
func (r *Room) exchange(c *httpd.Call, in PasswordChange) (was, now password.Hash, err error) {
	turn, err := r.turn(c)
	if err != nil {
		return "", "", err
	}
	defer turn.End()
	if was, err = r.prove(c, turn, "current_password", in.Current); err != nil {
		return "", "", err
	}
	now, err = turn.Hash(in.New)
	return was, now, err
}

// prove makes sure that the caller knows the password of their own account, and returns its hash. field gets the error about a wrong one.
func (r *Room) prove(c *httpd.Call, turn *password.Turn, field string, typed password.Typed) (hash password.Hash, err error) {
	from, _ := r.source(c, c.Actor.Name)
	attempt, err := r.guesses.Begin(c.Actor.Name, from)
	if err != nil {
		return "", err
	}
	err = r.DB.QueryRow(c, "SELECT password FROM account_users WHERE id = $1", c.Actor.UserID).Scan(&hash)
	if err != nil {
		attempt.Withdraw()
		if errors.Is(err, pgx.ErrNoRows) {
			return "", errNoSession
		}
		return "", err
	}
	if !turn.Matches(hash, typed) {
		f := fault.New(fault.Unauthenticated, "The password is wrong.")
		f.Fields = map[string]string{field: "is wrong"}
		return "", f
	}
	attempt.Succeeded()
	return hash, nil
}

func (r *Room) changePassword(c *httpd.Call, was, now password.Hash) error {
	return r.DB.Write(c, func(tx *db.Tx) error {
		tag, err := tx.Exec(c, "UPDATE account_users SET password = $3, updated_at = $4 WHERE id = $1 AND password = $2", c.Actor.UserID, was, now, r.Clock.Now())
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fault.New(fault.Conflict, "Someone else has changed the password in the meantime.")
		}
		if err := endSessions(c, tx, c.Actor.UserID, c.Actor.Session); err != nil {
			return err
		}
		r.mirror(c, tx, c.Actor.Name, c.Actor.UserID)
		return r.Audit.Write(c, tx, "auth.password.change", c.Actor.Name, map[string]any{"remote_ip": c.Client()})
	})
}
