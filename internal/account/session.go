package account

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

const (
	sessionTTL   = 12 * time.Hour
	signingBytes = 32
)

// Authentication methods.
const (
	byPassword = "password"
	byTOTP     = "totp"
	byRecovery = "recovery-code"
	byPasskey  = "passkey"
	byOIDC     = "oidc"
	byToken    = "token"
	byStore    = "store"
)

var (
	errNoSession = fault.New(fault.Unauthenticated, "Log in first.")
	errInactive  = fault.New(fault.Forbidden, "This account is off.")
)

// session is a login that has not ended.
type session struct {
	id, user uuid.UUID
	from, to time.Time
}

func newSession(user uuid.UUID, now time.Time) (session, error) {
	id, err := uuid.NewRandom()
	return session{id: id, user: user, from: now, to: now.Add(sessionTTL)}, err
}

// claims is the content of a session's token.
type claims struct {
	Session uuid.UUID `json:"sid"`
	jwt.RegisteredClaims
}

// signer makes and reads session tokens. Because every request repeats the token, verified ones are cached; the signature does not say
// whether the session has ended.
type signer struct {
	key    []byte
	clock  clock.Clock
	parser *jwt.Parser
	mu     sync.Mutex
	known  map[string]claims
}

// maxKnown is how many tokens a signer caches before it clears the cache.
const maxKnown = 1024

func newSigner(key []byte, c clock.Clock) *signer {
	return &signer{key: key, clock: c, known: map[string]claims{}, parser: newParser(c)}
}

func (s *signer) token(x session) (string, error) {
	return jwt.NewWithClaims(jwt.SigningMethodHS256, claims{Session: x.id, RegisteredClaims: jwt.RegisteredClaims{
		Subject: x.user.String(), IssuedAt: jwt.NewNumericDate(x.from), ExpiresAt: jwt.NewNumericDate(x.to),
	}}).SignedString(s.key)
}

// session returns the session that a token names, if the token is authentic.
func (s *signer) session(token string) (uuid.UUID, error) {
	s.mu.Lock()
	c, known := s.known[token]
	s.mu.Unlock()
	if known && s.clock.Now().Before(c.ExpiresAt.Time) {
		return c.Session, nil
	}
	if _, err := s.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return s.key, nil }); err != nil {
		return uuid.Nil, errNoSession
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[token] = c
	return c.Session, nil
}

// Authenticate returns the actor of a request's session or API token. Role and state are those in the database now: see recognize.
func (r *Room) Authenticate(req *http.Request) (actor.Actor, error) {
	token, isBearer := bearer(req)
	if isBearer && strings.HasPrefix(token, apiTokenPrefix) {
		return r.recognize(req.Context(), trace{way: ofHash, hash: string(hashTicket(token))})
	}
	if c, err := req.Cookie(httpd.SessionCookie); err == nil && !isBearer {
		token = c.Value
	}
	id, err := r.signer.session(token)
	if err != nil {
		return actor.Actor{}, err
	}
	a, err := r.sessionActor(req.Context(), id)
	s, known := r.offline.find(id, r.Clock.Now())
	switch {
	case known && fault.Is(err, fault.Unavailable):
		return actor.Actor{Name: s.email, Role: actor.Admin, Session: id, Method: byStore, Offline: true}, nil
	case known && errors.Is(err, errNoSession):
		// The database is back, and does not know the session yet.
		if err := r.resume(req.Context(), s); err != nil {
			return actor.Actor{}, err
		}
		return r.sessionActor(req.Context(), id)
	}
	return a, err
}

// sessionActor returns whose session it is, according to the database.
func (r *Room) sessionActor(ctx context.Context, id uuid.UUID) (actor.Actor, error) {
	a, err := r.recognize(ctx, trace{way: ofSession, id: id})
	if err == nil {
		a.Session = id
	}
	return a, err
}

// bearer returns the token in the header of a request, if any. The cookie does not count then.
func bearer(req *http.Request) (token string, ok bool) {
	scheme, token, ok := strings.Cut(req.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// userAgent returns the caller's user agent, shortened for the database.
func userAgent(req *http.Request) string {
	text := req.UserAgent()
	return strings.ToValidUTF8(text[:min(len(text), 400)], "")
}

// cookie returns the cookie of a token; a negative age deletes it.
func cookie(token string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: httpd.SessionCookie, Value: token, Path: "/", MaxAge: int(age.Seconds()),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	}
}

// endSessions ends the sessions of a user except one, and logins that wait for their second step, on all nodes.
func endSessions(ctx context.Context, tx *db.Tx, user, but uuid.UUID) error {
	endElsewhere(tx, user, but)
	tx.Queue("DELETE FROM account_challenges WHERE user_id = $1", user)
	_, err := tx.Exec(ctx, "DELETE FROM account_sessions WHERE user_id = $1 AND id <> $2", user, but)
	return err
}

// endElsewhere makes the other nodes end the sessions that they gave to a user.
func endElsewhere(tx *db.Tx, user, but uuid.UUID) {
	tx.Queue("UPDATE account_users SET sessions_ended_at = clock_timestamp(), spared_session = $2 WHERE id = $1", user, but)
}

// Prune deletes expired sessions and login steps.
func Prune(ctx context.Context, d *db.DB, c clock.Clock) error {
	return d.Write(ctx, func(tx *db.Tx) error {
		for _, table := range Transient {
			tx.Queue("DELETE FROM "+table+" WHERE expires_at <= $1", c.Now())
		}
		return nil
	})
}

// Transient lists the tables of sessions and login steps. Their rows expire, and are in no backup.
var Transient = []string{"account_sessions", "account_challenges", "account_passkey_registrations", "account_oidc_states"}

// Forget deletes all sessions and login steps, because the database is replaced by one from another time.
func Forget(tx *db.Tx) {
	for _, table := range Transient {
		tx.Queue("DELETE FROM " + table)
	}
}

// Returned names the users and the API tokens that one database has and another no longer had.
func Returned(ctx context.Context, now, former db.Querier) (users, tokens []string, err error) {
	for _, x := range []struct {
		list *[]string
		sql  string
	}{
		{&users, "SELECT id, email FROM account_users"},
		{&tokens, "SELECT t.id, t.name || ' of ' || u.email FROM account_api_tokens t JOIN account_users u ON u.id = t.user_id"},
	} {
		had, err := named(ctx, former, x.sql)
		if err != nil {
			return nil, nil, err
		}
		has, err := named(ctx, now, x.sql)
		if err != nil {
			return nil, nil, err
		}
		for id, name := range has {
			if _, there := had[id]; !there {
				*x.list = append(*x.list, name)
			}
		}
		slices.Sort(*x.list)
	}
	return users, tokens, nil
}

func named(ctx context.Context, q db.Querier, sql string) (map[uuid.UUID]string, error) {
	rows, err := q.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	list := map[uuid.UUID]string{}
	var id uuid.UUID
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		list[id] = name
		return nil
	})
	return list, err
}
