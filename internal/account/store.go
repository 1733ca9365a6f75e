package account

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/value"
)

// StoreAdmin is the admin created by the setup, in the setup store. It is a copy of the user that the admin has become, for the time when
// the database is away: it admits those who could log in through the database, and no one else.
type StoreAdmin struct {
	Email value.Email // empty if the setup created no admin
	// Hash is empty if the admin cannot log in through the store.
	Hash password.Hash
	// UserID is the user; nil before the first login.
	UserID uuid.UUID
	// TOTP is the sealed secret of the authenticator app, and TOTPStep the newest code that was used.
	TOTP     []byte
	TOTPStep int64
	// RecoveryCodes has the hashes of the remaining ones.
	RecoveryCodes [][]byte
	Passkeys      int
	// SpentCodes and the reset happened while the database was away, and are kept until it knows.
	SpentCodes [][]byte
	ResetAt    time.Time
	ResetFrom  string
	ResetKeeps bool
}

// owes reports whether the database must learn of something.
func (a *StoreAdmin) owes() bool { return !a.ResetAt.IsZero() || len(a.SpentCodes) > 0 }

// like reports whether both admit the same.
func (a *StoreAdmin) like(b *StoreAdmin) bool {
	return a.Email == b.Email && a.Hash == b.Hash && a.Passkeys == b.Passkeys && bytes.Equal(a.TOTP, b.TOTP) &&
		slices.EqualFunc(a.RecoveryCodes, b.RecoveryCodes, bytes.Equal)
}

// mirror makes the setup store follow a user who had this address. What the change takes from the user is removed from the store before
// the commit, and what it gives is added afterwards: whatever fails in between, the store never admits more.
func (r *Room) mirror(ctx context.Context, tx *db.Tx, was string, id uuid.UUID) {
	tx.BeforeCommit(func() error { return r.takeAway(ctx, tx, was, id) })
	r.mirrorAfter(ctx, tx, was, id)
}

// mirrorAfter is mirror for logins, which take nothing from the user. A read-only disk prevents no login.
func (r *Room) mirrorAfter(ctx context.Context, tx *db.Tx, was string, id uuid.UUID) {
	tx.AfterCommit(func() {
		if err := r.follow(context.WithoutCancel(ctx), was, id); err != nil {
			r.Log.Error("the setup store does not follow the user", "err", err)
		}
	})
}

// takeAway prevents the admin from logging in through the store, unless the transaction does not affect that.
func (r *Room) takeAway(ctx context.Context, tx *db.Tx, was string, id uuid.UUID) error {
	a := r.deps.StoreAdmin()
	if a.Email.String() != was || a.Hash == "" {
		return nil
	}
	want, err := image(ctx, tx, id)
	if err != nil || want.like(&a) {
		return err
	}
	return r.deps.UpdateStoreAdmin(func(a *StoreAdmin) error {
		switch {
		case a.Email.String() != was:
		case a.owes():
			return fault.New(fault.Conflict, "The password of this account has just been reset. Try again.")
		default:
			a.Hash = ""
		}
		return nil
	})
}

// follow makes the store's admin, if it still has the address, equal to the user. It and changes of the user wait for each other, so that
// the last of several concurrent changes wins.
func (r *Room) follow(ctx context.Context, was string, id uuid.UUID) error {
	if r.deps.StoreAdmin().Email.String() != was {
		return nil
	}
	return r.DB.Write(ctx, func(tx *db.Tx) error {
		lockUser(tx, id)
		want, err := image(ctx, tx, id)
		if err != nil {
			return err
		}
		a := r.deps.StoreAdmin()
		if want.Email.IsZero() {
			want.Email = a.Email
		}
		if want.like(&a) && want.UserID == a.UserID && want.TOTPStep <= a.TOTPStep {
			return nil
		}
		return r.deps.UpdateStoreAdmin(func(a *StoreAdmin) error {
			if a.Email.String() != was || a.owes() {
				return nil
			}
			if bytes.Equal(a.TOTP, want.TOTP) {
				want.TOTPStep = max(want.TOTPStep, a.TOTPStep)
			}
			*a = *want
			return nil
		})
	})
}

// image returns what the store's admin must be for a user. For a deleted user it has no address and admits no one.
func image(ctx context.Context, q db.Querier, id uuid.UUID) (*StoreAdmin, error) {
	a := &StoreAdmin{UserID: id}
	err := q.QueryRow(ctx, `
		SELECT u.email, CASE WHEN u.active AND u.role = 'admin' THEN u.password ELSE '' END, u.passkeys, t.secret, coalesce(t.last_step, 0),
			ARRAY(SELECT c.hash FROM account_recovery_codes c WHERE c.user_id = u.id ORDER BY c.hash)
		FROM account_users u LEFT JOIN account_totp t ON t.user_id = u.id AND t.confirmed WHERE u.id = $1`, id).
		Scan(&a.Email, &a.Hash, &a.Passkeys, &a.TOTP, &a.TOTPStep, &a.RecoveryCodes)
	if errors.Is(err, pgx.ErrNoRows) {
		return a, nil
	}
	return a, err
}

// settle makes sure that the database and the store agree before the database authenticates anyone: once after the start, and again after
// something has happened while the database was away.
func (r *Room) settle(ctx context.Context) error {
	if r.settled.Load() {
		return nil
	}
	var a StoreAdmin
	unlock := func() {}
	defer func() { unlock() }()
	err := r.DB.Write(ctx, func(tx *db.Tx) error {
		// Locked here and not earlier: a request must not wait for another one that waits for the database.
		r.settling.Lock()
		unlock = sync.OnceFunc(r.settling.Unlock)
		if a = r.deps.StoreAdmin(); a.Email.IsZero() || r.settled.Load() {
			return nil
		}
		return r.transfer(ctx, tx, &a)
	})
	if err != nil || r.settled.Load() {
		return err
	}
	if was := r.deps.StoreAdmin(); was.owes() || was.Hash != a.Hash || was.UserID != a.UserID {
		err := r.deps.UpdateStoreAdmin(func(now *StoreAdmin) error {
			*now = a
			return nil
		})
		if err != nil {
			r.Log.Error("the setup store cannot be written", "err", err)
		}
	}
	r.settled.Store(true)
	unlock()
	if a.UserID != uuid.Nil {
		if err := r.follow(context.WithoutCancel(ctx), a.Email.String(), a.UserID); err != nil {
			r.Log.Error("the setup store does not follow the user", "err", err)
		}
	}
	return nil
}

// transfer transfers to the database what happened while it was away, and changes a to what the store may keep.
func (r *Room) transfer(ctx context.Context, tx *db.Tx, a *StoreAdmin) error {
	if err := lock(ctx, tx); err != nil {
		return err
	}
	var id uuid.UUID
	var hash password.Hash
	err := tx.QueryRow(ctx, "SELECT id, password FROM account_users WHERE id = $1 OR $1 = $2 AND email = $3 FOR UPDATE", a.UserID, uuid.Nil, a.Email).Scan(&id, &hash)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	away, err := r.away(ctx)
	if err != nil {
		return err
	}
	if away && id != uuid.Nil {
		// This node must no longer make a reset: the cluster has the accounts.
		used := []Spent{spentStep(id, a.TOTPStep)}
		for _, hash := range a.SpentCodes {
			used = append(used, spentCode(id, hash))
		}
		for _, s := range used {
			tx.Queue(keepSpent, s.UserID, s.Kind, s.Value, r.Clock.Now())
		}
	}
	if !away && !a.ResetAt.IsZero() && (id == uuid.Nil || hash != a.Hash) {
		var ended Ended
		if id != uuid.Nil {
			if ended, err = r.replacePassword(ctx, tx, id, a.Hash, a.ResetKeeps); err != nil {
				return err
			}
		}
		details := map[string]any{"remote_ip": a.ResetFrom, "ended": ended, "database_away": true}
		if err := r.Audit.WriteAt(ctx, tx, a.ResetAt, a.Email.String(), "auth.password.reset", a.Email.String(), details); err != nil {
			return err
		}
	}
	if id != uuid.Nil && !away {
		tx.Queue("DELETE FROM account_recovery_codes WHERE user_id = $1 AND hash = ANY($2)", id, a.SpentCodes)
		tx.Queue("UPDATE account_totp SET last_step = $2 WHERE user_id = $1 AND secret = $3 AND last_step < $2", id, a.TOTPStep, a.TOTP)
	}
	a.SpentCodes, a.ResetAt, a.ResetFrom, a.ResetKeeps = nil, time.Time{}, "", false
	if id != a.UserID && a.UserID != uuid.Nil {
		return forget(ctx, tx, a)
	}
	a.UserID = id
	return nil
}

// forget handles an admin whose user is gone. The last admin cannot be deleted: if there are other admins, the user was deleted and does
// not come back; if there are none, the database is new, and the store's admin starts over.
func forget(ctx context.Context, tx *db.Tx, a *StoreAdmin) error {
	var admins bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM account_users WHERE role = 'admin')").Scan(&admins); err != nil {
		return err
	}
	if admins {
		a.Hash = ""
	} else {
		*a = StoreAdmin{Email: a.Email, Hash: a.Hash}
	}
	return nil
}
