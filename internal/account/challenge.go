package account

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/wire"
)

const (
	challengeTTL = 5 * time.Minute
	maxTries     = 5
)

// errChallenge means that the login must start again; errCode and errPasskey mean that it may be retried.
var (
	errChallenge = refusal("challenge", "This login has expired. Log in again.")
	errCode      = refusal("code", "The code is wrong or has already been used.")
	errPasskey   = refusal("credential", "The passkey was refused.")
	errCloned    = refusal("credential", "The passkey was refused, because there may be a copy of it.")
)

// refusal is a wrong proof; the field says which one.
func refusal(field, message string) *fault.Error {
	return &fault.Error{Kind: fault.Unauthenticated, Message: message, Fields: map[string]string{field: message}}
}

// SecondStep completes a login with a code.
type SecondStep struct {
	Challenge string `json:"challenge" required:"true" maxLength:"100" doc:"What the first step answered."`
	Code      string `json:"code" required:"true" maxLength:"64" doc:"The six digits of the authenticator app, or a recovery code."`
}

// PasskeyBegin requests the options for a passkey login.
type PasskeyBegin struct {
	Challenge string `json:"challenge" required:"true" maxLength:"100" doc:"What the first step answered."`
}

// PasskeySecondStep completes a login with a passkey.
type PasskeySecondStep struct {
	Challenge  string   `json:"challenge" required:"true" maxLength:"100" doc:"What the first step answered."`
	Credential wire.Raw `json:"credential" required:"true" doc:"What the browser answered, as a PublicKeyCredential in its JSON form."`
}

func (r *Room) mountSecondStep() {
	httpd.Handle(r.Router, http.MethodPost, "/auth/login/totp", httpd.Public.BeforeSetup().Here(),
		httpd.Doc{ID: "auth.login.totp", Tag: "auth", Summary: "Second step of a login, with a code", Audit: "auth.login.success"},
		func(c *httpd.Call, in struct{ Body SecondStep }) (Login, error) {
			return r.secondStep(c, in.Body.Challenge, func(p *pending) (proof, error) { return r.proveCode(c, p, in.Body.Code) })
		})
	httpd.Handle(r.Router, http.MethodPost, "/auth/login/passkey/begin", httpd.Public.BeforeSetup().Here(),
		httpd.Doc{ID: "auth.login.passkey.begin", Tag: "auth", Summary: "Ask for a passkey as the second step of a login"},
		func(c *httpd.Call, in struct{ Body PasskeyBegin }) (PasskeyOptions, error) {
			return r.askForPasskey(c, in.Body.Challenge)
		})
	httpd.Handle(r.Router, http.MethodPost, "/auth/login/passkey/finish", httpd.Public.BeforeSetup().Here(),
		httpd.Doc{ID: "auth.login.passkey.finish", Tag: "auth", Summary: "Second step of a login, with a passkey", Audit: "auth.login.success"},
		func(c *httpd.Call, in struct{ Body PasskeySecondStep }) (Login, error) {
			return r.secondStep(c, in.Body.Challenge, func(p *pending) (proof, error) { return r.provePasskey(c, p, in.Body.Credential) })
		})
}

// pending is a login whose password was right.
type pending struct {
	id         []byte
	who        Identity
	active     bool
	issueToken bool
	ceremony   []byte     // for the requested passkey
	away       *candidate // through the setup store, while the database is away
}

// proof is a second step that was right. spend makes sure that it was not used before, and cannot be used again; while the database is
// away it gets no transaction.
type proof struct {
	method string
	spend  func(tx *db.Tx) error
	// spent is the same for a node that is not the primary; its user is nil if nothing can be used twice.
	spent Spent
	// done, if not nil, is called when the proof was accepted.
	done func()
}

// challenge stores a login whose password was right until its second step.
func (r *Room) challenge(c *httpd.Call, who candidate, issueToken bool) (Login, error) {
	plain, hash := newTicket("")
	err := r.DB.Write(c, func(tx *db.Tx) error {
		// A concurrent password change waits until the challenge exists, and then ends it.
		var same bool
		err := tx.QueryRow(c, "SELECT true FROM account_users WHERE id = $1 AND password = $2 AND active FOR SHARE", who.ID, who.hash).Scan(&same)
		if errors.Is(err, pgx.ErrNoRows) {
			return errCredentials
		}
		tx.Queue("INSERT INTO account_challenges (id, user_id, expires_at, tries, issue_token) VALUES ($1, $2, $3, 0, $4)",
			hash, who.ID, r.Clock.Now().Add(challengeTTL), issueToken)
		return err
	})
	return Login{TOTPRequired: true, Challenge: plain, Methods: who.methods()}, err
}

// secondStep completes a login that a challenge began.
func (r *Room) secondStep(c *httpd.Call, challenge string, prove func(*pending) (proof, error)) (Login, error) {
	p, err := r.try(c, challenge)
	if err != nil {
		return Login{}, err
	}
	// Kept apart from the passwords: a right password clears their failures, and would buy more guesses here.
	from, _ := r.source(c, p.who.Email)
	attempt, err := r.guesses.Begin("second step of "+p.who.Email, from)
	if err != nil {
		r.refused(c, p.who.Email, err)
		return Login{}, err
	}
	s, err := r.finish(c, p, prove)
	if err != nil {
		if !fault.Is(err, fault.Unauthenticated) {
			attempt.Withdraw()
		}
		r.refused(c, p.who.Email, err)
		return Login{}, err
	}
	attempt.Succeeded()
	return r.enter(c, s, p.who, p.issueToken)
}

// try uses up one of the challenge's tries before anything is verified, and also takes the requested passkey ceremony.
func (r *Room) try(c *httpd.Call, challenge string) (*pending, error) {
	p := &pending{id: hashTicket(challenge)}
	err := r.settle(c)
	if err == nil {
		err = r.DB.Write(c, func(tx *db.Tx) error { return p.take(c, tx, r.Clock.Now()) })
	}
	if errors.Is(err, pgx.ErrNoRows) {
		r.challengeExpired(c, p.id)
		return nil, errChallenge
	}
	if fault.Is(err, fault.Unavailable) {
		if p, ok := r.offline.try(p.id, r.Clock.Now()); ok {
			return p, nil
		}
	}
	return p, err
}

// take uses up one of the challenge's tries, and reads whose it is.
func (p *pending) take(ctx context.Context, tx *db.Tx, now time.Time) error {
	return tx.QueryRow(ctx, `
		WITH was AS (SELECT id, ceremony FROM account_challenges WHERE id = $1 FOR UPDATE)
		UPDATE account_challenges x SET tries = x.tries + 1, ceremony = NULL FROM was, account_users u
		WHERE x.id = was.id AND x.tries < $2 AND x.expires_at > $3 AND u.id = x.user_id
		RETURNING u.id, u.email, u.role, u.name, u.totp_enabled, u.passkeys, u.active, x.issue_token, was.ceremony`, p.id, maxTries, now).
		Scan(&p.who.ID, &p.who.Email, &p.who.Role, &p.who.Name, &p.who.TOTPEnabled, &p.who.Passkeys, &p.active, &p.issueToken, &p.ceremony)
}

// challengeExpired audits that a login took too long, if that is why its challenge is invalid: once, because the challenge is deleted.
func (r *Room) challengeExpired(c *httpd.Call, id []byte) {
	err := r.DB.Write(c, func(tx *db.Tx) error {
		var email string
		err := tx.QueryRow(c, "DELETE FROM account_challenges x USING account_users u WHERE x.id = $1 AND x.expires_at <= $2 AND u.id = x.user_id RETURNING u.email", id, r.Clock.Now()).Scan(&email)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return r.Audit.WriteAs(c, tx, email, loginFailure, email, failureDetails(c, "challenge_expired"))
	})
	if err != nil {
		r.Log.Warn("failed login is not in the audit log", "err", err)
	}
}

// elsewhere turns a proof into one spent by a node that is not the primary.
func (r *Room) elsewhere(ctx context.Context, p proof) (proof, error) {
	away, err := r.away(ctx)
	if err != nil || !away {
		return p, err
	}
	if p.spent.UserID == uuid.Nil {
		p.spend = func(*db.Tx) error { return nil }
		return p, nil
	}
	spend, err := r.spendAway(ctx, p.spent)
	p.spend = func(tx *db.Tx) error {
		if p.done != nil {
			tx.AfterCommit(p.done)
		}
		return spend(tx)
	}
	if errors.Is(err, errCode) && p.method == byPasskey {
		err = errCloned
	}
	return p, err
}

// finish spends the proof and the challenge, and begins the session.
func (r *Room) finish(c *httpd.Call, p *pending, prove func(*pending) (proof, error)) (session, error) {
	if !p.active {
		return session{}, errInactive
	}
	proven, err := prove(p)
	if err != nil {
		return session{}, err
	}
	if p.away != nil {
		return r.finishAway(c, p, proven)
	}
	if proven, err = r.elsewhere(c, proven); err != nil {
		return session{}, err
	}
	p.who.AuthMethod = proven.method
	s, err := newSession(p.who.ID, r.Clock.Now())
	if err != nil {
		return session{}, err
	}
	err = r.DB.Write(c, func(tx *db.Tx) error {
		tag, err := tx.Exec(c, "DELETE FROM account_challenges WHERE id = $1", p.id)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errChallenge
		}
		if err := proven.spend(tx); err != nil {
			return err
		}
		tag, err = tx.Exec(c, "UPDATE account_users SET last_login_at = $2 WHERE id = $1 AND active", p.who.ID, s.from)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errInactive
		}
		r.mirrorAfter(c, tx, p.who.Email, p.who.ID)
		return r.open(c, tx, s, p.who)
	})
	return s, err
}
