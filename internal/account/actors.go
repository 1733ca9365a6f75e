package account

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/db"
)

// actorsTopic is announced by the database when an actor may have changed: users, sessions, API tokens.
const actorsTopic = "actors"

// The ways to find an actor, all with the same columns.
const (
	ofSession = `SELECT u.id, u.email, u.active, u.role, s.method, s.expires_at, NULL::uuid, '', NULL::timestamptz
		FROM account_sessions s JOIN account_users u ON u.id = s.user_id WHERE s.id = $1`
	ofUser = `SELECT u.id, u.email, u.active, u.role, '', NULL::timestamptz, NULL::uuid, '', NULL::timestamptz
		FROM account_users u WHERE u.id = $1`
	ofToken = selectToken + `t.id = $1`
	ofHash  = selectToken + `t.hash = $1`
	// The role of a token's user limits it, and it ends with its user.
	selectToken = `SELECT u.id, u.email, u.active, CASE WHEN t.role = 'admin' AND u.role = 'admin' THEN 'admin' ELSE 'viewer' END, '` + byToken + `', t.expires_at, t.id, t.name, t.last_used_at
		FROM account_api_tokens t JOIN account_users u ON u.id = t.user_id WHERE `
)

// found is an actor as read from the database.
type found struct {
	actor.Actor
	active bool
	until  *time.Time   // nil if it does not expire
	used   atomic.Int64 // when the use of a token was last recorded, in microseconds; zero for never
}

// trace is the key of an actor: one of the ways, and the id or hash for it.
type trace struct {
	way  string
	id   uuid.UUID
	hash string
}

// actors caches actors until the database announces that one of them may have changed.
type actors = db.Cache[trace, *found]

// recognize returns the present state of an actor. A cached actor is as good as a fresh one except for expiry, which is checked each
// time.
func (r *Room) recognize(ctx context.Context, t trace) (actor.Actor, error) {
	if err := r.settle(ctx); err != nil {
		return actor.Actor{}, err
	}
	f, err := r.actors.Get(t, func() (*found, error) { return r.lookUp(ctx, t) })
	now := r.Clock.Now()
	switch {
	case err != nil:
		return actor.Actor{}, err
	case f.until != nil && !f.until.After(now):
		return actor.Actor{}, errNoSession
	case !f.active:
		return actor.Actor{}, errInactive
	}
	if f.Token != uuid.Nil {
		r.use(ctx, f, now)
	}
	return f.Actor, nil
}

func (r *Room) lookUp(ctx context.Context, t trace) (*found, error) {
	var which any = t.id
	if t.way == ofHash {
		which = []byte(t.hash)
	}
	f := new(found)
	var token *uuid.UUID
	var name string
	var used *time.Time
	err := r.DB.QueryRow(ctx, t.way, which).Scan(&f.UserID, &f.Name, &f.active, &f.Role, &f.Method, &f.until, &token, &name, &used)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errNoSession
	}
	if err != nil {
		return nil, err
	}
	if token != nil {
		f.Token, f.Name = *token, fmt.Sprintf("token:%s (%s)", name, f.Name)
	}
	if used != nil {
		f.used.Store(used.UnixMicro())
	}
	return f, nil
}

// use occasionally records that a token was used.
func (r *Room) use(ctx context.Context, f *found, now time.Time) {
	last := f.used.Load()
	if last != 0 && now.Sub(time.UnixMicro(last)) < useEvery || !f.used.CompareAndSwap(last, now.UnixMicro()) {
		return
	}
	if err := r.tokenUsed(ctx, f.Token, now); err != nil {
		f.used.Store(last)
		r.Log.Warn("the use of an API token could not be recorded", "err", err) // the token still works
	}
}

func (r *Room) tokenUsed(ctx context.Context, id uuid.UUID, now time.Time) error {
	return r.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue("UPDATE account_api_tokens SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)", id, now)
		return nil
	})
}

// Recall returns the user or token of a request that another node has forwarded. That node authenticates the user, and the database here
// decides about rights.
func (r *Room) Recall(ctx context.Context, a actor.Actor) (actor.Actor, error) {
	if a.Token != uuid.Nil {
		known, err := r.recognize(ctx, trace{way: ofToken, id: a.Token})
		if err == nil && known.UserID != a.UserID {
			return actor.Actor{}, errNoSession
		}
		return known, err
	}
	if a.Session == uuid.Nil {
		return actor.Actor{}, errNoSession
	}
	known, err := r.recognize(ctx, trace{way: ofUser, id: a.UserID})
	if err == nil {
		known.Session, known.Method = a.Session, a.Method // known only to the other node
	}
	return known, err
}
