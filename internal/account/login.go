package account

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/throttle"
)

// Credentials is the body of a login.
type Credentials struct {
	Email      string         `json:"email" required:"true" maxLength:"254" doc:"The user's address, exactly as it is stored."`
	Password   password.Typed `json:"password,omitzero" required:"true" doc:"The user's password."`
	IssueToken bool           `json:"issue_token" doc:"Answer the session's token too, for use as Bearer."`
}

// Login is the answer to a login. The cookie carries the session.
type Login struct {
	User  Identity `json:"user" doc:"Who logged in."`
	Token string   `json:"token,omitzero" doc:"The session's token, when it was asked for."`
}

// Identity is who makes a request.
type Identity struct {
	ID          uuid.UUID  `json:"id" doc:"Id of the user; zero while the database is away."`
	Email       string     `json:"email" doc:"Address of the user."`
	Role        actor.Role `json:"role" enum:"admin,viewer" doc:"Admins do everything, viewers read."`
	Name        string     `json:"name" doc:"What people call the user."`
	TOTPEnabled bool       `json:"totp_enabled" doc:"Whether a login takes a second step."`
	AuthMethod  string     `json:"auth_method" doc:"How the session began: password, or store while the database is away."`
}

var (
	errCredentials = fault.New(fault.Unauthenticated, "the e-mail address or the password is wrong")
	errUnjudged    = fault.New(fault.Unavailable, "the database is away: until it returns, only the admin of the setup can log in")
)

func (r *Room) mountLogin() {
	httpd.Handle(r.Router, http.MethodPost, "/auth/login", httpd.Public.BeforeSetup(),
		httpd.Doc{ID: "auth.login", Tag: "auth", Summary: "Log in", Audit: "auth.login.success"}, r.login)
	httpd.Handle(r.Router, http.MethodPost, "/auth/logout", httpd.Own.BeforeSetup().Offline(),
		httpd.Doc{ID: "auth.logout", Tag: "auth", Summary: "End the session", Audit: "auth.logout"}, r.logout)
	httpd.Handle(r.Router, http.MethodGet, "/auth/me", httpd.Read.BeforeSetup().Offline(),
		httpd.Doc{ID: "auth.me", Tag: "auth", Summary: "Who makes the request"},
		func(c *httpd.Call, _ struct{}) (Identity, error) { return r.identity(c) })
}

// candidate is whom credentials may belong to. Without a hash it is nobody, and no password matches.
type candidate struct {
	Identity
	active bool
	hash   password.Hash
	store  bool // known by the setup store alone
	away   bool // the database could not be asked
}

func (r *Room) login(c *httpd.Call, in struct{ Body Credentials }) (Login, error) {
	email := in.Body.Email
	who, err := r.judge(c, email, in.Body.Password)
	var s session
	if err == nil {
		s, err = r.begin(c, &who)
	}
	if err != nil {
		r.refused(c, email, err)
		return Login{}, err
	}
	token, err := r.signer.token(s)
	if err != nil {
		return Login{}, err
	}
	c.SetCookie(cookie(token, sessionTTL))
	out := Login{User: who.Identity}
	if in.Body.IssueToken {
		out.Token = token
	}
	return out, nil
}

// turn waits for the caller's turn to hash.
func (r *Room) turn(c *httpd.Call) (*password.Turn, error) {
	return r.deps.Passwords.Turn(c, throttle.Source(c.Client()).String())
}

// judge tells whose credentials these are. Whoever guesses too often is refused before any hash is computed, also when
// the guesses that were too many came while this one waited.
func (r *Room) judge(c *httpd.Call, email string, typed password.Typed) (candidate, error) {
	if err := r.guesses.Allow(email, c.Client()); err != nil {
		return candidate{}, err
	}
	turn, err := r.turn(c)
	if err != nil {
		return candidate{}, err
	}
	defer turn.End()
	attempt, err := r.guesses.Begin(email, c.Client())
	if err != nil {
		return candidate{}, err
	}
	who, err := r.find(c, email)
	if err != nil {
		attempt.Withdraw()
		return candidate{}, err
	}
	switch matches := turn.Matches(who.hash, typed); {
	case !matches && who.away:
		// Whether the address is the setup's admin's is nobody's business, as ever.
		return candidate{}, errUnjudged
	case !matches:
		return candidate{}, errCredentials
	case !who.active:
		return candidate{}, errInactive
	}
	attempt.Succeeded()
	return who, nil
}

// find looks the address up, exactly as it was typed. The setup store counts only when no user has the address.
func (r *Room) find(ctx context.Context, email string) (candidate, error) {
	who := candidate{Identity: Identity{AuthMethod: byPassword}}
	err := r.DB.QueryRow(ctx, "SELECT id, email, role, name, totp_enabled, active, password FROM account_users WHERE email = $1", email).
		Scan(&who.ID, &who.Email, &who.Role, &who.Name, &who.TOTPEnabled, &who.active, &who.hash)
	switch err = db.Fault(err); {
	case err == nil:
		return who, nil
	case errors.Is(err, pgx.ErrNoRows):
	case fault.Is(err, fault.Unavailable):
		who.away, who.AuthMethod = true, byStore
	default:
		return candidate{}, err
	}
	if admin, hash := r.deps.StoreAdmin(); !admin.IsZero() && admin.String() == email {
		who.Email, who.Role, who.active, who.hash, who.store = email, actor.Admin, true, hash, true
	}
	return who, nil
}

// begin begins a session.
func (r *Room) begin(c *httpd.Call, who *candidate) (session, error) {
	s, err := newSession(who.ID, r.Clock.Now())
	if err != nil {
		return session{}, err
	}
	if who.away {
		r.offline.begin(s, who.Email)
		r.Log.Info("the setup's admin has logged in while the database is away", "actor", who.Email)
		return s, nil
	}
	err = r.DB.Write(c, func(tx *db.Tx) error {
		if who.store {
			if err := r.adopt(c, tx, who); err != nil {
				return err
			}
			s.user = who.ID
		}
		// The password that was right a moment ago may have been replaced, with all sessions ended, since.
		tag, err := tx.Exec(c, "UPDATE account_users SET last_login_at = $3 WHERE id = $1 AND password = $2 AND active", who.ID, who.hash, s.from)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errCredentials
		}
		_, err = tx.Exec(c, "INSERT INTO account_sessions (id, user_id, created_at, expires_at, address, user_agent, method) VALUES ($1, $2, $3, $4, $5, $6, $7)",
			s.id, s.user, s.from, s.to, c.Client().String(), browser(c.Request), who.AuthMethod)
		if err != nil {
			return err
		}
		r.mirrorAfter(c, tx, who.Email, who.ID)
		return r.Audit.WriteAs(tx, who.Email, "auth.login.success", who.Email, map[string]any{"role": who.Role, "remote_ip": c.Client()})
	})
	return s, err
}

// adopt makes the setup store's admin a user at the first login. A reset of the password waits until it is known whether
// there is a user, and a user whom somebody else has made meanwhile is left alone.
func (r *Room) adopt(ctx context.Context, tx *db.Tx, who *candidate) error {
	if err := lock(ctx, tx); err != nil {
		return err
	}
	if admin, hash := r.deps.StoreAdmin(); admin.String() != who.Email || hash != who.hash {
		return errCredentials
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO account_users (id, created_at, updated_at, email, name, role, active, password, totp_enabled, oidc_subject)
		VALUES ($1, $2, $2, $3, '', $4, true, $5, false, '') ON CONFLICT (email) DO NOTHING`, id, r.Clock.Now(), who.Email, actor.Admin, who.hash)
	if err != nil {
		return err
	}
	if tag.RowsAffected() > 0 {
		if err := r.Audit.WriteAs(tx, who.Email, "user.create", who.Email, map[string]any{"id": id, "role": actor.Admin, "source": "setup"}); err != nil {
			return err
		}
	}
	return tx.QueryRow(ctx, "SELECT id, role, name, totp_enabled FROM account_users WHERE email = $1", who.Email).
		Scan(&who.ID, &who.Role, &who.Name, &who.TOTPEnabled)
}

// refused writes why a login failed. Who is throttled or cannot be judged leaves no entry: a flood fills no table.
func (r *Room) refused(c *httpd.Call, email string, why error) {
	reason := ""
	switch {
	case errors.Is(why, errCredentials):
		reason = "invalid_credentials"
	case errors.Is(why, errInactive):
		reason = "account_disabled"
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c), 5*time.Second)
	defer cancel()
	err := r.DB.Write(ctx, func(tx *db.Tx) error {
		return r.Audit.WriteAs(tx, email, "auth.login.failed", email, map[string]any{"reason": reason, "remote_ip": c.Client()})
	})
	if err != nil {
		r.Log.Warn("failed login is not in the audit log", "err", err)
	}
}

func (r *Room) logout(c *httpd.Call, _ struct{}) (resource.Deleted, error) {
	if c.Actor.Offline {
		r.offline.end(c.Actor.Session)
	} else {
		err := r.DB.Write(c, func(tx *db.Tx) error {
			if _, err := tx.Exec(c, "DELETE FROM account_sessions WHERE id = $1", c.Actor.Session); err != nil {
				return err
			}
			return r.Audit.Write(c, tx, "auth.logout", c.Actor.Name, map[string]any{"remote_ip": c.Client()})
		})
		if err != nil {
			return resource.Deleted{}, err
		}
	}
	c.SetCookie(cookie("", -time.Second))
	return resource.Deleted{ID: c.Actor.Session.String()}, nil
}

// identity is who makes the request.
func (r *Room) identity(c *httpd.Call) (Identity, error) {
	a := c.Actor
	who := Identity{ID: a.UserID, Email: a.Name, Role: a.Role, AuthMethod: a.Method}
	if a.UserID == uuid.Nil {
		return who, nil
	}
	err := r.DB.QueryRow(c, "SELECT name, totp_enabled FROM account_users WHERE id = $1", a.UserID).Scan(&who.Name, &who.TOTPEnabled)
	if errors.Is(err, pgx.ErrNoRows) {
		return Identity{}, errNoSession
	}
	return who, db.Fault(err)
}
