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
	"slices"
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
	"edge.internal/gateway/internal/kit/throttle"
	"edge.internal/gateway/internal/kit/value"
)

const (
	resetTTL   = 30 * time.Minute
	resetBytes = 16
)

func resetPath(paths kit.Paths) string { return paths.State(".reset-token") }

// CreateResetToken creates the token that sets a new password for the admin, for gateway-ctl. An earlier one becomes invalid. The reset
// revokes the admin's API tokens and passkeys, unless keeps is set.
func CreateResetToken(paths kit.Paths, c clock.Clock, keeps bool) (string, error) {
	var b [resetBytes]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	t := resetToken{hex.EncodeToString(b[:]), c.Now().Add(resetTTL), keeps}
	if err := t.save(paths); err != nil {
		return "", err
	}
	return t.token, nil
}

// resetToken is the content of the file: the token, its expiry, and whether to keep API tokens and passkeys.
type resetToken struct {
	token   string
	expires time.Time
	keeps   bool
}

const keepsWord = "keep-tokens"

func (t resetToken) save(paths kit.Paths) error {
	words := []string{t.token, t.expires.Format(time.RFC3339)}
	if t.keeps {
		words = append(words, keepsWord)
	}
	if err := secret.Save(resetPath(paths), []byte(strings.Join(words, " ")+"\n")); err != nil {
		return fmt.Errorf("writing the reset token: %w", err)
	}
	return nil
}

func readResetToken(paths kit.Paths) (t resetToken, err error) {
	b, err := os.ReadFile(resetPath(paths))
	if err != nil {
		return t, err
	}
	words := strings.Fields(string(b))
	if len(words) >= 2 {
		t.token, t.keeps = words[0], slices.Contains(words[2:], keepsWord)
		t.expires, err = time.Parse(time.RFC3339, words[1])
	}
	if err != nil || len(t.token) < 2*resetBytes {
		return t, errors.New("the reset token is damaged: create another one")
	}
	return t, nil
}

// PasswordReset sets the admin's password with a reset token.
type PasswordReset struct {
	Token secret.Text     `json:"token,omitzero" required:"true" doc:"The token that gateway-ctl reset-password has printed."`
	New   password.Chosen `json:"new_password,omitzero" required:"true" doc:"At least 12 characters."`
}

type ResetAccount struct {
	Email   value.Email `json:"email" doc:"Whose password was set."`
	Ended   Ended       `json:"ended" doc:"What the reset has ended; zero while it is pending."`
	Pending bool        `json:"pending" doc:"Whether the database is unavailable. Until it is back, the new password works for the system routes. Then it is saved to the database, and earlier sessions end before anyone can log in."`
}

// Ended counts what a password reset has ended.
type Ended struct {
	Sessions  int64 `json:"sessions" doc:"How many sessions."`
	APITokens int64 `json:"api_tokens" doc:"How many API tokens; none if the reset keeps them."`
	Passkeys  int64 `json:"passkeys" doc:"How many passkeys; none if the reset keeps them."`
}

var errResetToken = fault.New(fault.Unauthenticated, "The reset token is wrong, used or expired.")

func (r *Room) mountResetPassword() {
	httpd.Handle(r.Router, http.MethodPost, "/auth/reset-password", httpd.Public.BeforeSetup().Here(),
		httpd.Doc{ID: "auth.reset-password", Tag: "auth", Summary: "Set the administrator's password with a token from the machine's console", Audit: "auth.password.reset"},
		func(c *httpd.Call, in struct{ Body PasswordReset }) (ResetAccount, error) {
			t, err := r.checkResetToken(c, in.Body.Token)
			if err != nil {
				return ResetAccount{}, err
			}
			if r.deps.StoreAdmin().Email.IsZero() {
				return ResetAccount{}, fault.New(fault.Conflict, "This machine has no local administrator. Its accounts come from the cluster.")
			}
			// The caller that removes the file has the token. It is restored if nothing is changed.
			if err := os.Remove(resetPath(r.Paths)); errors.Is(err, fs.ErrNotExist) {
				return ResetAccount{}, errResetToken
			} else if err != nil {
				return ResetAccount{}, fmt.Errorf("spending the reset token: %w", err)
			}
			out, err := r.resetPassword(c, in.Body.New, t.keeps)
			if err != nil {
				r.giveBack(t)
			}
			return out, err
		})
}

// checkResetToken verifies the token without using it up.
func (r *Room) checkResetToken(c *httpd.Call, given secret.Text) (resetToken, error) {
	attempt, err := r.resets.Begin("", throttle.Address(c.Client()))
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

// resetPassword sets the password of the setup's admin: of the user in the database, which the setup store follows, or only in the store
// while there is no user or the database is away.
func (r *Room) resetPassword(c *httpd.Call, chosen password.Chosen, keeps bool) (ResetAccount, error) {
	hash, err := r.hash(c, chosen)
	if err != nil {
		return ResetAccount{}, err
	}
	// The caller's cancellation no longer counts: the token is used up.
	ctx := context.WithoutCancel(c)
	out := ResetAccount{Email: r.deps.StoreAdmin().Email}
	if err = r.settle(ctx); err == nil {
		out.Ended, err = r.resetUser(ctx, out.Email, hash, keeps, c.Client().String())
	}
	if fault.Is(err, fault.Unavailable) {
		out.Pending, err = true, r.resetAway(hash, keeps, c.Client().String())
	}
	return out, err
}

func (r *Room) resetUser(ctx context.Context, admin value.Email, hash password.Hash, keeps bool, from string) (ended Ended, err error) {
	err = r.DB.Write(ctx, func(tx *db.Tx) error {
		if err := lock(ctx, tx); err != nil {
			return err
		}
		var id uuid.UUID
		err := tx.QueryRow(ctx, "SELECT id FROM account_users WHERE email = $1 FOR UPDATE", admin).Scan(&id)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			tx.BeforeCommit(func() error {
				if err := tx.Flush(ctx); err != nil {
					return err
				}
				return r.deps.UpdateStoreAdmin(func(a *StoreAdmin) error {
					a.Hash = hash
					return nil
				})
			})
		case err != nil:
			return err
		default:
			if ended, err = r.replacePassword(ctx, tx, id, hash, keeps); err != nil {
				return err
			}
			r.mirror(ctx, tx, admin.String(), id)
		}
		return r.Audit.WriteAs(ctx, tx, admin.String(), "auth.password.reset", admin.String(), map[string]any{"remote_ip": from, "ended": ended})
	})
	return ended, err
}

// replacePassword sets the password of a user, and ends what was open to anyone who knew the old one: sessions, and what may have been
// created in them. The authenticator app stays.
func (r *Room) replacePassword(ctx context.Context, tx *db.Tx, id uuid.UUID, hash password.Hash, keeps bool) (ended Ended, err error) {
	tx.Queue("UPDATE account_users SET password = $2, updated_at = $3 WHERE id = $1", id, hash, r.Clock.Now())
	endElsewhere(tx, id, uuid.Nil)
	tx.Queue("DELETE FROM account_challenges WHERE user_id = $1", id)
	remove := func(sql string) int64 {
		if err != nil {
			return 0
		}
		tag, failed := tx.Exec(ctx, sql, id)
		err = failed
		return tag.RowsAffected()
	}
	ended.Sessions = remove("DELETE FROM account_sessions WHERE user_id = $1")
	if !keeps {
		ended.APITokens = remove("DELETE FROM account_api_tokens WHERE user_id = $1")
		ended.Passkeys = remove("DELETE FROM account_passkeys WHERE user_id = $1")
		tx.Queue("DELETE FROM account_passkey_registrations WHERE user_id = $1", id)
		r.countPasskeys(tx, id)
	}
	return ended, err
}

// resetAway sets the password in the setup store while the database is away.
func (r *Room) resetAway(hash password.Hash, keeps bool, from string) error {
	err := r.updateAway(func(a *StoreAdmin) error {
		if a.Hash == "" {
			// Only the database knows whether the user is still an admin.
			return fault.New(fault.Unavailable, "The database is unavailable, so this account cannot log in. Try again when it is back.")
		}
		a.Hash, a.ResetAt, a.ResetFrom, a.ResetKeeps = hash, r.Clock.Now(), from, keeps
		if !keeps {
			a.Passkeys = 0
		}
		return nil
	})
	if err == nil {
		r.offline.endAll()
		r.Log.Info("the password of the administrator of the setup was reset while the database is unavailable")
	}
	return err
}

// giveBack restores a token that has changed nothing, unless there is a newer one.
func (r *Room) giveBack(t resetToken) {
	if _, err := os.Stat(resetPath(r.Paths)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := t.save(r.Paths); err != nil {
		r.Log.Error("reset token is lost", "err", err)
	}
}
