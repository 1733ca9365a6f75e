package account

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/throttle"
)

const (
	// startWithin is how long after the start the database is expected to become available.
	startWithin = 15 * time.Second
	// startWait is how long a login then waits for it. It must also wait for its turn.
	startWait = 3 * time.Second
)

var errPasskeyAway = fault.New(fault.Unavailable, "The database is unavailable, so passkeys cannot be checked. Wait until it is back, or set a new password with gateway-ctl reset-password, which removes the passkeys.")

// awaitDatabase lets a login right after the start wait for the database, instead of needlessly using the setup store.
func (r *Room) awaitDatabase(ctx context.Context) {
	ctx, over := db.Patience(ctx)
	defer over()
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for !r.DB.Attached() && r.Clock.Now().Sub(r.started) < startWithin {
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// offline holds what the setup store's admin does while the database is away: sessions, and logins that wait for their second step.
type offline struct {
	mu         sync.Mutex
	sessions   map[uuid.UUID]offlineSession
	challenges map[string]*offlineChallenge
}

// offlineSession is a session that the database does not know yet.
type offlineSession struct {
	session
	email, method  string
	hash           password.Hash // that was used to log in
	address, agent string
}

type offlineChallenge struct {
	who        candidate
	issueToken bool
	tries      int
	expires    time.Time
}

func newOffline() *offline {
	return &offline{sessions: map[uuid.UUID]offlineSession{}, challenges: map[string]*offlineChallenge{}}
}

func (o *offline) begin(s offlineSession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, old := range o.sessions {
		if !s.from.Before(old.to) {
			delete(o.sessions, id)
		}
	}
	o.sessions[s.id] = s
}

func (o *offline) find(id uuid.UUID, now time.Time) (s offlineSession, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok = o.sessions[id]
	return s, ok && now.Before(s.to)
}

func (o *offline) end(id uuid.UUID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.sessions, id)
}

func (o *offline) endAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.sessions)
	clear(o.challenges)
}

// challenge stores a login until its second step, and invalidates earlier ones.
func (o *offline) challenge(x *offlineChallenge) (plain string) {
	plain, hash := newTicket("")
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.challenges)
	o.challenges[string(hash)] = x
	return plain
}

// try uses up one of the challenge's tries.
func (o *offline) try(hash []byte, now time.Time) (*pending, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	x := o.challenges[string(hash)]
	if x == nil || x.tries == maxTries || !now.Before(x.expires) {
		return nil, false
	}
	x.tries++
	return &pending{id: hash, who: x.who.Identity, active: true, issueToken: x.issueToken, away: &x.who}, true
}

// spend ends a challenge; of concurrent callers, only one gets it.
func (o *offline) spend(hash []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.challenges[string(hash)]
	delete(o.challenges, string(hash))
	return ok
}

// challengeAway stores a login through the setup store until its second step.
func (r *Room) challengeAway(who candidate, issueToken bool) (Login, error) {
	if !who.TOTPEnabled {
		return Login{}, errPasskeyAway
	}
	plain := r.offline.challenge(&offlineChallenge{who: who, issueToken: issueToken, expires: r.Clock.Now().Add(challengeTTL)})
	return Login{TOTPRequired: true, Challenge: plain, Methods: []string{byTOTP}}, nil
}

// proveCodeAway is proveCode with the setup store.
func (r *Room) proveCodeAway(p *pending, code string) (proof, error) {
	if hash, ok := recoveryHash(code); ok {
		return proof{method: byRecovery, spend: func(*db.Tx) error {
			return r.updateAway(func(a *StoreAdmin) error {
				i := slices.IndexFunc(a.RecoveryCodes, func(b []byte) bool { return bytes.Equal(b, hash) })
				if i < 0 {
					return errCode
				}
				a.RecoveryCodes = slices.Delete(slices.Clone(a.RecoveryCodes), i, i+1)
				a.SpentCodes = append(slices.Clone(a.SpentCodes), hash)
				return nil
			})
		}}, nil
	}
	attempt, err := r.codes.Begin(p.who.Email, throttle.Anywhere)
	if err != nil {
		return proof{}, err
	}
	a := r.deps.StoreAdmin()
	plain, err := r.openTOTP(a.TOTP, a.UserID)
	if err != nil {
		attempt.Withdraw()
		return proof{}, err
	}
	step, ok := matchCode(plain, strings.ReplaceAll(code, " ", ""), r.Clock.Now())
	if !ok {
		return proof{}, errCode
	}
	return proof{method: byTOTP, spend: func(*db.Tx) error {
		err := r.updateAway(func(now *StoreAdmin) error {
			if !bytes.Equal(now.TOTP, a.TOTP) || step <= now.TOTPStep {
				return errCode
			}
			now.TOTPStep = step
			return nil
		})
		if err == nil {
			attempt.Succeeded()
		}
		return err
	}}, nil
}

// finishAway spends the proof and the challenge, and begins the session through the setup store.
func (r *Room) finishAway(c *httpd.Call, p *pending, proven proof) (session, error) {
	if !r.offline.spend(p.id) {
		return session{}, errChallenge
	}
	if err := proven.spend(nil); err != nil {
		return session{}, err
	}
	return r.beginAway(c, p.away, proven.method)
}

// updateAway changes the setup store's admin while the database is away. The database learns of it before it authenticates anyone.
func (r *Room) updateAway(change func(*StoreAdmin) error) error {
	r.settling.Lock()
	defer r.settling.Unlock()
	if err := r.deps.UpdateStoreAdmin(change); err != nil {
		return err
	}
	r.settled.Store(false)
	return nil
}

// beginAway begins a session through the setup store.
func (r *Room) beginAway(c *httpd.Call, who *candidate, method string) (session, error) {
	s, err := newSession(who.ID, r.Clock.Now())
	if err != nil {
		return session{}, err
	}
	r.offline.begin(offlineSession{session: s, email: who.Email, method: method, hash: who.hash, address: c.Client().String(), agent: userAgent(c.Request)})
	// The password that was just verified may have been reset in the meantime, which ended all sessions.
	if r.deps.StoreAdmin().Hash != who.hash {
		r.offline.end(s.id)
		return session{}, errCredentials
	}
	details := map[string]any{"role": actor.Admin, "remote_ip": c.Client(), "method": method, "database_away": true}
	if err := r.Audit.RecordAs(c, who.Email, "auth.login.success", who.Email, details); err != nil {
		r.offline.end(s.id)
		return session{}, err
	}
	r.Log.Info("the administrator of the setup has logged in while the database is unavailable", "actor", who.Email)
	return s, nil
}

// resume turns a session that began while the database was away into a session of its user, if the user could have begun it through the
// database.
func (r *Room) resume(ctx context.Context, s offlineSession) error {
	err := r.DB.Write(ctx, func(tx *db.Tx) error {
		who := candidate{hash: s.hash}
		who.Email = s.email
		err := tx.QueryRow(ctx, "SELECT id FROM account_users WHERE email = $1 FOR SHARE", s.email).Scan(&who.ID)
		if errors.Is(err, pgx.ErrNoRows) {
			err = r.adopt(ctx, tx, &who)
		}
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, "SELECT role FROM account_users WHERE id = $1 AND active AND password = $2 AND ($3 OR NOT totp_enabled AND passkeys = 0)",
			who.ID, s.hash, s.method != byPassword).Scan(&who.Role)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoSession
		}
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `INSERT INTO account_sessions (id, user_id, created_at, expires_at, address, user_agent, method)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`, s.id, who.ID, s.from, s.to, s.address, s.agent, s.method)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		r.mirrorAfter(ctx, tx, s.email, who.ID)
		return nil
	})
	if err == nil || fault.Is(err, fault.Unauthenticated) {
		r.offline.end(s.id)
	}
	return err
}
