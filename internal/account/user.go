package account

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// User is a person who may log in.
type User struct {
	resource.Meta
	Email       value.Email     `json:"email" required:"true" doc:"The user logs in with it, exactly as written."`
	Name        value.Line      `json:"name" doc:"Name of the user."`
	Role        actor.Role      `json:"role" enum:"admin,viewer" doc:"Administrators can change everything, viewers can only read."`
	Active      bool            `json:"active" doc:"Whether the user may log in."`
	Password    password.Stored `json:"password,omitzero" required:"true" doc:"At least 12 characters."`
	TOTPEnabled bool            `json:"totp_enabled" readOnly:"true" doc:"Whether a login needs a code from an authenticator app."`
	Passkeys    int             `json:"passkeys" readOnly:"true" doc:"Number of passkeys. With at least one, a login needs a second step."`
	OIDCSubject string          `json:"oidc_subject" readOnly:"true" doc:"The user at the identity provider."`
	LastLoginAt *time.Time      `json:"last_login_at" readOnly:"true" doc:"When the user last logged in."`
}

func (u *User) Label() string { return u.Email.String() }

func (u *User) Validate() error {
	var c check.List
	c.That(len(u.Name.String()) <= 200, "name", "must have at most 200 bytes")
	return c.Err()
}

// governs reports whether the user is an active admin.
func (u *User) governs() bool { return u != nil && u.Active && u.Role == actor.Admin }

// sessionsEnd reports whether a change ends the user's sessions: a demotion does, and the reactivation of a user. Until then a
// deactivated user's sessions answer that the account is not active.
func (u *User) sessionsEnd(now *User) bool {
	return u != nil && now != nil && (u.Role == actor.Admin && now.Role != actor.Admin || !u.Active && now.Active)
}

func (r *Room) newUsers() resource.Kind[User] {
	return resource.Kind[User]{
		Name: "user", Title: "user", Path: "/users", Table: "account_users", Order: "email", Apart: true,
		LocalColumns: []string{"last_login_at"}, Unkept: []string{"password", "totp_enabled", "passkeys", "oidc_subject"},
		New:   func() User { return User{Role: actor.Viewer, Active: true, Password: r.deps.Passwords.Field()} },
		Check: r.checkUser,
	}
}

func (r *Room) checkUser(ctx context.Context, tx *db.Tx, was, now *User) error {
	who := actor.From(ctx)
	if now == nil && was.ID == who.UserID {
		return fault.New(fault.Invalid, "You cannot delete your own account.")
	}
	if was.governs() && !now.governs() {
		if err := keepAnAdmin(ctx, tx, was.ID); err != nil {
			return err
		}
	}
	if was != nil && now != nil && now.Password.Changed() {
		if who.Token != uuid.Nil {
			return fault.New(fault.Forbidden, "An API token cannot set the password of a user.")
		}
		if err := r.passwordSet(ctx, tx, now.ID, now.Email.String()); err != nil {
			return err
		}
	}
	if was.sessionsEnd(now) {
		if err := endSessions(ctx, tx, was.ID, who.Session); err != nil {
			return err
		}
	}
	if was == nil {
		was = now
	}
	r.mirror(ctx, tx, was.Email.String(), was.ID)
	return nil
}

// accountLock serializes decisions that depend on more than the row that they change.
const accountLock = 0x6163636f756e74

func lock(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", accountLock)
	return err
}

// keepAnAdmin refuses if nobody else could undo the change. Two concurrent callers wait for each other.
func keepAnAdmin(ctx context.Context, tx *db.Tx, leaving uuid.UUID) error {
	if err := lock(ctx, tx); err != nil {
		return err
	}
	var others bool
	err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM account_users WHERE role = 'admin' AND active AND id <> $1)", leaving).Scan(&others)
	if err == nil && !others {
		err = fault.New(fault.Conflict, "This is the last active administrator. Add another one first.")
	}
	return err
}

// passwordSet is called after a password was set in the list of users: everyone who logged in with the old one is logged out, except the
// session that sets it.
func (r *Room) passwordSet(ctx context.Context, tx *db.Tx, id uuid.UUID, email string) error {
	if err := endSessions(ctx, tx, id, actor.From(ctx).Session); err != nil {
		return err
	}
	return r.Audit.Write(ctx, tx, "user.password", email, map[string]any{"id": id})
}

// NewPassword sets a user's password.
type NewPassword struct {
	Password password.Chosen `json:"password,omitzero" required:"true" doc:"At least 12 characters."`
}

func (r *Room) mountUserPassword() {
	httpd.Handle(r.Router, http.MethodPost, "/users/{id}/password", httpd.Write.BySession().OnPrimary(),
		httpd.Doc{ID: "user.password", Tag: "user", Summary: "Set the password of a user and end the user's sessions", Audit: "user.password"},
		func(c *httpd.Call, in struct {
			ID   uuid.UUID `path:"id" doc:"Id of the user."`
			Body NewPassword
		}) (User, error) {
			hash, err := r.hash(c, in.Body.Password)
			if err != nil {
				return User{}, err
			}
			return r.setPassword(c, in.ID, hash)
		})
}

func (r *Room) setPassword(ctx context.Context, id uuid.UUID, hash password.Hash) (User, error) {
	var u User
	err := r.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE account_users SET password = $2, updated_at = $3 WHERE id = $1", id, hash, r.Clock.Now()); err != nil {
			return err
		}
		stored, err := r.users.Get(ctx, tx, id)
		if err != nil {
			return err
		}
		u = *stored
		r.mirror(ctx, tx, u.Email.String(), id)
		return r.passwordSet(ctx, tx, id, u.Email.String())
	})
	return u, err
}

func (r *Room) hash(c *httpd.Call, chosen password.Chosen) (password.Hash, error) {
	turn, err := r.turn(c)
	if err != nil {
		return "", err
	}
	defer turn.End()
	return turn.Hash(chosen)
}
