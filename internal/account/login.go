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

// Credentials starts a login.
type Credentials struct {
	Email      string         `json:"email" required:"true" maxLength:"254" doc:"The user's address, exactly as it is stored."`
	Password   password.Typed `json:"password,omitzero" required:"true" doc:"The user's password."`
	IssueToken bool           `json:"issue_token" doc:"Return the session's token as well, for use as a bearer token."`
}

// Login is the answer to a login, or to its first step. The cookie carries the session; while a second step is due, there is neither.
type Login struct {
	User         *Identity `json:"user,omitzero" doc:"Who logged in; absent while a second step is due."`
	Token        string    `json:"token,omitzero" doc:"The session's token, if requested."`
	TOTPRequired bool      `json:"totp_required,omitzero" doc:"Whether a second step is due, by one of the methods."`
	Challenge    string    `json:"challenge,omitzero" doc:"Identifies this login in its second step. Valid for 5 minutes and 5 attempts."`
	Methods      []string  `json:"methods,omitzero" enum:"totp,passkey" doc:"Methods for the second step. With totp, a recovery code works as well."`
}

// Identity identifies the caller of a request.
type Identity struct {
	ID          uuid.UUID  `json:"id" doc:"Id of the user; all zeros while the database is unavailable."`
	Email       string     `json:"email" doc:"E-mail address of the user."`
	Role        actor.Role `json:"role" enum:"admin,viewer" doc:"Administrators can change everything, viewers can only read."`
	Name        string     `json:"name" doc:"Name of the user."`
	TOTPEnabled bool       `json:"totp_enabled" doc:"Whether a login needs a code from an authenticator app."`
	Passkeys    int        `json:"passkeys" doc:"Number of passkeys. With at least one, a login needs a second step."`
	AuthMethod  string     `json:"auth_method" enum:"password,totp,recovery-code,passkey,oidc,token,store" doc:"How the caller logged in: with the password only, with a second step, by single sign-on, with an API token, or with the setup store while the database is unavailable."`
}

var (
	errCredentials = fault.New(fault.Unauthenticated, "The e-mail address or the password is wrong.")
	errUnjudged    = fault.New(fault.Unavailable, "The database is unavailable. Until it is back, only the administrator of the setup can log in.")
)

func (r *Room) mountLogin() {
	httpd.Handle(r.Router, http.MethodPost, "/auth/login", httpd.Public.BeforeSetup().Here(),
		httpd.Doc{ID: "auth.login", Tag: "auth", Summary: "Log in", Audit: "auth.login.success"}, r.login)
	httpd.Handle(r.Router, http.MethodPost, "/auth/logout", httpd.Own.BeforeSetup().Offline().BySession().Here(),
		httpd.Doc{ID: "auth.logout", Tag: "auth", Summary: "End the session", Audit: "auth.logout"}, r.logout)
	httpd.Handle(r.Router, http.MethodGet, "/auth/me", httpd.Read.BeforeSetup().Offline(),
		httpd.Doc{ID: "auth.me", Tag: "auth", Summary: "The current user"},
		func(c *httpd.Call, _ struct{}) (Identity, error) { return r.identity(c) })
}

// candidate is the user whom credentials may belong to. Without a hash no password matches.
type candidate struct {
	Identity
	active bool
	hash   password.Hash
	store  bool // known only to the setup store
	away   bool // the database could not be asked
}

// methods lists the possible second steps; if empty, the password is enough.
func (who *Identity) methods() (list []string) {
	if who.TOTPEnabled {
		list = append(list, byTOTP)
	}
	if who.Passkeys > 0 {
		list = append(list, byPasskey)
	}
	return list
}

func (r *Room) login(c *httpd.Call, in struct{ Body Credentials }) (Login, error) {
	email := in.Body.Email
	who, err := r.judge(c, email, in.Body.Password)
	var out Login
	switch {
	case err != nil:
	case len(who.methods()) > 0 && who.away:
		out, err = r.challengeAway(who, in.Body.IssueToken)
	case len(who.methods()) > 0:
		out, err = r.challenge(c, who, in.Body.IssueToken)
	default:
		var s session
		if s, err = r.begin(c, &who); err == nil {
			out, err = r.enter(c, s, who.Identity, in.Body.IssueToken)
		}
	}
	if err != nil {
		r.refused(c, email, err)
		return Login{}, err
	}
	return out, nil
}

// enter gives the caller the session, and marks the browser as one that has logged in before.
func (r *Room) enter(c *httpd.Call, s session, who Identity, issueToken bool) (Login, error) {
	token, err := r.signer.token(s)
	if err != nil {
		return Login{}, err
	}
	device, err := r.devices.cookie(c.Request, who.Email)
	if err != nil {
		return Login{}, err
	}
	c.SetCookie(cookie(token, sessionTTL))
	c.SetCookie(device)
	out := Login{User: &who}
	if issueToken {
		out.Token = token
	}
	return out, nil
}

// turn waits for the caller's turn to hash.
func (r *Room) turn(c *httpd.Call) (*password.Turn, error) {
	_, place := r.source(c, c.Actor.Name)
	return r.deps.Passwords.Turn(c, place)
}

// judge verifies credentials. Too many guesses are refused before a hash is computed, even if they arrived while this one waited.
func (r *Room) judge(c *httpd.Call, email string, typed password.Typed) (candidate, error) {
	from, place := r.source(c, email)
	who, attempt, err := r.judgeFrom(c, email, typed, from, place)
	if !errors.Is(err, errCredentials) || !r.primaryAccepts(c, email, typed) {
		return who, err
	}
	attempt.Succeeded() // the password was right, this node did not know it yet
	if who, err = r.find(c, email); err == nil && (who.ID == uuid.Nil || who.away) {
		err = errCredentials // the primary knows a user whom this node does not
	}
	if err == nil && !who.active {
		err = errInactive
	}
	return who, err
}

func (r *Room) judgeFrom(c context.Context, email string, typed password.Typed, from throttle.Source, place password.Place) (candidate, *throttle.Attempt, error) {
	if err := r.guesses.Allow(email, from); err != nil {
		return candidate{}, nil, err
	}
	r.awaitDatabase(c)
	// Before the turn: others must not wait until the database has answered this caller.
	who, err := r.find(c, email)
	if err != nil {
		return candidate{}, nil, err
	}
	turn, err := r.deps.Passwords.Turn(c, place)
	if err != nil {
		return candidate{}, nil, err
	}
	defer turn.End()
	attempt, err := r.guesses.Begin(email, from)
	if err != nil {
		return candidate{}, nil, err
	}
	switch matches := turn.Matches(who.hash, typed); {
	case !matches && who.away:
		// As always, do not reveal whether the address is that of the setup's admin.
		return candidate{}, attempt, errUnjudged
	case !matches:
		return candidate{}, attempt, errCredentials
	case !who.active:
		return candidate{}, attempt, errInactive
	}
	attempt.Succeeded()
	return who, attempt, nil
}

// find looks the address up, exactly as typed. The setup store only counts if no user has the address.
func (r *Room) find(ctx context.Context, email string) (candidate, error) {
	who := candidate{Identity: Identity{AuthMethod: byPassword}}
	err := r.settle(ctx)
	if err == nil {
		err = r.DB.QueryRow(ctx, "SELECT id, email, role, name, totp_enabled, passkeys, active, password FROM account_users WHERE email = $1", email).
			Scan(&who.ID, &who.Email, &who.Role, &who.Name, &who.TOTPEnabled, &who.Passkeys, &who.active, &who.hash)
	}
	switch {
	case err == nil:
		return who, nil
	case errors.Is(err, pgx.ErrNoRows):
	case fault.Is(err, fault.Unavailable):
		who.away, who.AuthMethod = true, byStore
	default:
		return candidate{}, err
	}
	if a := r.deps.StoreAdmin(); !a.Email.IsZero() && a.Email.String() == email {
		who.Email, who.Role, who.active, who.hash, who.store = email, actor.Admin, true, a.Hash, true
		if who.away {
			who.TOTPEnabled, who.Passkeys = len(a.TOTP) > 0, a.Passkeys
		}
	}
	return who, nil
}

// begin begins a session with the password alone.
func (r *Room) begin(c *httpd.Call, who *candidate) (session, error) {
	if who.away {
		return r.beginAway(c, who, byPassword)
	}
	s, err := newSession(who.ID, r.Clock.Now())
	if err != nil {
		return session{}, err
	}
	err = r.DB.Write(c, func(tx *db.Tx) error {
		if who.store {
			if err := r.adopt(c, tx, who); err != nil {
				return err
			}
			s.user = who.ID
		}
		// The password that was just verified may have been replaced in the meantime, which ended all sessions, or it may no longer be
		// enough.
		tag, err := tx.Exec(c, "UPDATE account_users SET last_login_at = $3 WHERE id = $1 AND password = $2 AND active AND NOT totp_enabled AND passkeys = 0", who.ID, who.hash, s.from)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errCredentials
		}
		r.mirrorAfter(c, tx, who.Email, who.ID)
		return r.open(c, tx, s, who.Identity)
	})
	return s, err
}

// open stores a session that begins with the transaction.
func (r *Room) open(c *httpd.Call, tx *db.Tx, s session, who Identity) error {
	tx.Queue("INSERT INTO account_sessions (id, user_id, created_at, expires_at, address, user_agent, method) VALUES ($1, $2, $3, $4, $5, $6, $7)",
		s.id, s.user, s.from, s.to, c.Client().String(), userAgent(c.Request), who.AuthMethod)
	return r.Audit.WriteAs(c, tx, who.Email, "auth.login.success", who.Email, map[string]any{"role": who.Role, "remote_ip": c.Client(), "method": who.AuthMethod})
}

// adopt turns the setup store's admin into a user at the first login. A password reset waits until it is known whether there is a user,
// and a user created in the meantime is left alone.
func (r *Room) adopt(ctx context.Context, tx *db.Tx, who *candidate) error {
	if err := lock(ctx, tx); err != nil {
		return err
	}
	if a := r.deps.StoreAdmin(); a.Email.String() != who.Email || a.Hash != who.hash {
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
		if err := r.Audit.WriteAs(ctx, tx, who.Email, "user.create", who.Email, map[string]any{"id": id, "role": actor.Admin, "source": "setup"}); err != nil {
			return err
		}
	}
	return tx.QueryRow(ctx, "SELECT id, role, name FROM account_users WHERE email = $1", who.Email).Scan(&who.ID, &who.Role, &who.Name)
}

// refused audits a failed login. A throttled caller leaves one entry per window, and one that cannot be judged none, so that a flood
// fills no table.
func (r *Room) refused(c *httpd.Call, email string, why error) {
	if refusal, ok := errors.AsType[*throttle.Refusal](why); ok && refusal.First {
		r.loginFailed(c, email, "throttled")
	}
	for err, reason := range reasons {
		if errors.Is(why, err) {
			r.loginFailed(c, email, reason)
		}
	}
}

// reasons maps errors to the words of the audit log.
var reasons = map[error]string{
	errCredentials: "invalid_credentials",
	errInactive:    "account_disabled",
	errCode:        "invalid_totp",
	errPasskey:     "invalid_passkey",
	errCloned:      "passkey_cloned",
}

func (r *Room) loginFailed(c *httpd.Call, email, reason string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c), 5*time.Second)
	defer cancel()
	if err := r.Audit.RecordAs(ctx, email, loginFailure, email, failureDetails(c, reason)); err != nil {
		r.Log.Warn("failed login is not in the audit log", "err", err)
	}
}

// loginFailure is the audit action of a refused attempt.
const loginFailure = "auth.login.failed"

func failureDetails(c *httpd.Call, reason string) map[string]any {
	return map[string]any{"reason": reason, "remote_ip": c.Client()}
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

// identity returns the caller of the request.
func (r *Room) identity(c *httpd.Call) (Identity, error) {
	a := c.Actor
	who := Identity{ID: a.UserID, Email: a.Name, Role: a.Role, AuthMethod: a.Method}
	if a.UserID == uuid.Nil {
		return who, nil
	}
	err := r.DB.QueryRow(c, "SELECT email, name, totp_enabled, passkeys FROM account_users WHERE id = $1", a.UserID).Scan(&who.Email, &who.Name, &who.TOTPEnabled, &who.Passkeys)
	if errors.Is(err, pgx.ErrNoRows) {
		return Identity{}, errNoSession
	}
	return who, err
}
