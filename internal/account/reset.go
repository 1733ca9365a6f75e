package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

const (
	resetTTL   = 30 * time.Minute
	resetBytes = 16
)

func resetPath(paths kit.Paths) string { return paths.State(".reset-token") }

// CreateResetToken makes the token that sets the admin's password anew, for gateway-ctl. An earlier one is void.
func CreateResetToken(paths kit.Paths, c clock.Clock) (string, error) {
	var b [resetBytes]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	t := resetToken{hex.EncodeToString(b[:]), c.Now().Add(resetTTL)}
	if err := t.save(paths); err != nil {
		return "", err
	}
	return t.token, nil
}

// resetToken is the content of the file: the token, and when it expires.
type resetToken struct {
	token   string
	expires time.Time
}

func (t resetToken) save(paths kit.Paths) error {
	if err := secret.Save(resetPath(paths), fmt.Appendf(nil, "%s %s\n", t.token, t.expires.Format(time.RFC3339))); err != nil {
		return fmt.Errorf("writing the reset token: %w", err)
	}
	return nil
}

func readResetToken(paths kit.Paths) (t resetToken, err error) {
	b, err := os.ReadFile(resetPath(paths))
	if err != nil {
		return t, err
	}
	token, expires, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	if t.expires, err = time.Parse(time.RFC3339, expires); err != nil || len(token) < 2*resetBytes {
		return t, errors.New("the reset token is damaged: make another one")
	}
	t.token = token
	return t, nil
}

// PasswordReset is the body of a reset.
type PasswordReset struct {
	Token secret.Text     `json:"token,omitzero" required:"true" doc:"The token that gateway-ctl reset-password has printed."`
	New   password.Chosen `json:"new_password,omitzero" required:"true" doc:"At least 12 characters, at most 72 bytes."`
}

// ResetAccount is the answer to a reset.
type ResetAccount struct {
	Email value.Email `json:"email" doc:"Whose password was set."`
}

var errResetToken = fault.New(fault.Unauthenticated, "the reset token is wrong, used or expired")

func (r *Room) mountResetPassword() {
	httpd.Handle(r.Router, http.MethodPost, "/auth/reset-password", httpd.Public.BeforeSetup(),
		httpd.Doc{ID: "auth.reset-password", Tag: "auth", Summary: "Set the admin's password with a token from the machine's console", Audit: "auth.password.reset"},
		func(c *httpd.Call, in struct{ Body PasswordReset }) (ResetAccount, error) {
			t, err := r.checkResetToken(c, in.Body.Token)
			if err != nil {
				return ResetAccount{}, err
			}
			admin, _ := r.deps.StoreAdmin()
			if admin.IsZero() {
				return ResetAccount{}, fault.New(fault.Conflict, "this machine has no admin of its own: its accounts come from the cluster")
			}
			// The password has to change in the database too, so the token waits for it.
			var there bool
			if err := r.DB.QueryRow(c, "SELECT true").Scan(&there); err != nil {
				return ResetAccount{}, db.Fault(err)
			}
			// Who removes the file has the token. It comes back if nothing is changed by it.
			if err := os.Remove(resetPath(r.Paths)); errors.Is(err, fs.ErrNotExist) {
				return ResetAccount{}, errResetToken
			} else if err != nil {
				return ResetAccount{}, fmt.Errorf("spending the reset token: %w", err)
			}
			if err := r.resetPassword(c, admin, in.Body.New); err != nil {
				r.giveBack(t)
				return ResetAccount{}, err
			}
			return ResetAccount{admin}, nil
		})
}

// checkResetToken tells whether the token is the one on the disk. It is not spent yet.
func (r *Room) checkResetToken(c *httpd.Call, given secret.Text) (resetToken, error) {
	attempt, err := r.resets.Begin("", c.Client())
	if err != nil {
		return resetToken{}, err
	}
	t, err := readResetToken(r.Paths)
	if errors.Is(err, fs.ErrNotExist) {
		return t, errResetToken
	}
	if err != nil {
		attempt.Withdraw()
		return t, fmt.Errorf("reading the reset token: %w", err)
	}
	plain, _ := given.Fresh()
	if subtle.ConstantTimeCompare([]byte(plain), []byte(t.token)) != 1 || !r.Clock.Now().Before(t.expires) {
		return t, errResetToken
	}
	attempt.Succeeded()
	return t, nil
}

// resetPassword sets the password in the setup store and of the user with that address, and ends every session.
func (r *Room) resetPassword(c *httpd.Call, admin value.Email, chosen password.Chosen) error {
	hash, err := r.hash(c, chosen)
	if err != nil {
		return err
	}
	// The caller has no say any more: the token is spent.
	ctx := context.WithoutCancel(c)
	return r.DB.Write(ctx, func(tx *db.Tx) error {
		if err := lock(ctx, tx); err != nil {
			return err
		}
		var id uuid.UUID
		err := tx.QueryRow(ctx, "UPDATE account_users SET password = $2, updated_at = $3 WHERE email = $1 RETURNING id", admin, hash, r.Clock.Now()).Scan(&id)
		switch {
		case err == nil:
			if err := endSessions(ctx, tx, id, uuid.Nil); err != nil {
				return err
			}
			r.mirrorAfter(ctx, tx, admin.String(), id)
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		}
		if err := r.Audit.WriteAs(c, tx, admin.String(), "auth.password.reset", admin.String(), map[string]any{"remote_ip": c.Client()}); err != nil {
			return err
		}
		return r.deps.ReplaceStoreAdmin(admin, admin, hash)
	})
}

// giveBack puts a token back that has changed nothing, unless there is a newer one.
func (r *Room) giveBack(t resetToken) {
	if _, err := os.Stat(resetPath(r.Paths)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := t.save(r.Paths); err != nil {
		r.Log.Error("reset token is lost", "err", err)
	}
}
