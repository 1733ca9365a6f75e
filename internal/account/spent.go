package account

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/throttle"
)

// Primary is the cluster's primary, as seen by another node.
type Primary interface {
	// Away reports whether another node is the primary.
	Away(ctx context.Context) (bool, error)
	// Check asks whether a password is right. Unavailable means that there is no answer.
	Check(ctx context.Context, client netip.Addr, email, password string) (right bool, err error)
	// Spend marks a second step as used. Unauthenticated means that it already was, and Unavailable that there is no answer.
	Spend(ctx context.Context, s Spent) error
}

// Spent is a used second step.
type Spent struct {
	UserID uuid.UUID
	// Kind is totp, recovery or passkey.
	Kind string
	// Value is the time step, the hash of the recovery code, or the passkey with its count.
	Value string
}

// The kinds.
const (
	spentTOTP     = "totp"
	spentRecovery = "recovery"
	spentPasskey  = "passkey"
	// spentFor is how long a node whose primary does not answer remembers a time step: longer than its code is valid anywhere.
	spentFor = 10 * time.Minute
)

func spentStep(user uuid.UUID, step int64) Spent {
	return Spent{user, spentTOTP, strconv.FormatInt(step, 10)}
}

func spentCode(user uuid.UUID, hash []byte) Spent {
	return Spent{user, spentRecovery, hex.EncodeToString(hash)}
}

func spentCount(user uuid.UUID, credential []byte, count uint32) Spent {
	return Spent{user, spentPasskey, fmt.Sprintf("%s %d", base64.RawURLEncoding.EncodeToString(credential), count)}
}

var errSpent = fault.New(fault.Invalid, "This is no second step.")

// parts returns the parameters of the statements about it: the key, if it has one, and the count.
func (s Spent) parts() (key []byte, count int64, err error) {
	text := s.Value
	switch s.Kind {
	case spentRecovery:
		key, err = hex.DecodeString(text)
		return key, 0, err
	case spentPasskey:
		name, rest, _ := strings.Cut(text, " ")
		if key, err = base64.RawURLEncoding.DecodeString(name); err != nil {
			return nil, 0, err
		}
		text = rest
	case spentTOTP:
	default:
		return nil, 0, errSpent
	}
	count, err = strconv.ParseInt(text, 10, 64)
	return key, count, err
}

// fresh reports whether it is not yet marked as used in the shared rows.
func (s Spent) fresh(ctx context.Context, q db.Querier) (yes bool, err error) {
	key, count, err := s.parts()
	if err != nil {
		return false, err
	}
	switch s.Kind {
	case spentTOTP:
		err = q.QueryRow(ctx, "SELECT EXISTS (SELECT FROM account_totp WHERE user_id = $1 AND confirmed AND last_step < $2)", s.UserID, count).Scan(&yes)
	case spentRecovery:
		err = q.QueryRow(ctx, "SELECT EXISTS (SELECT FROM account_recovery_codes WHERE user_id = $1 AND hash = $2)", s.UserID, key).Scan(&yes)
	case spentPasskey:
		err = q.QueryRow(ctx, "SELECT EXISTS (SELECT FROM account_passkeys WHERE user_id = $1 AND credential_id = $2 AND sign_count < $3)", s.UserID, key, count).Scan(&yes)
	}
	return yes, err
}

// store marks it as used in the shared rows, and reports whether it was not yet.
func (s Spent) store(ctx context.Context, tx *db.Tx) (fresh bool, err error) {
	key, count, err := s.parts()
	if err != nil {
		return false, err
	}
	run := func(sql string, args ...any) {
		tag, failed := tx.Exec(ctx, sql, args...)
		fresh, err = tag.RowsAffected() == 1, failed
	}
	switch s.Kind {
	case spentTOTP:
		run("UPDATE account_totp SET last_step = $2 WHERE user_id = $1 AND confirmed AND last_step < $2", s.UserID, count)
	case spentRecovery:
		run("DELETE FROM account_recovery_codes WHERE user_id = $1 AND hash = $2", s.UserID, key)
	case spentPasskey:
		run(`UPDATE account_passkeys SET sign_count = $3, credential = jsonb_set(credential, '{authenticator,signCount}', to_jsonb($3::bigint))
			WHERE user_id = $1 AND credential_id = $2 AND sign_count < $3`, s.UserID, key, count)
	}
	return fresh, err
}

// Spend marks a second step as used that another node has accepted. A lying node can use up steps, but not future ones.
func (r *Room) Spend(ctx context.Context, s Spent) error {
	if _, count, err := s.parts(); err != nil || s.Kind == spentTOTP && count > r.Clock.Now().Unix()/totpPeriod+2*totpSkew {
		return errSpent
	}
	return r.DB.Write(ctx, func(tx *db.Tx) error {
		fresh, err := s.store(ctx, tx)
		if err == nil && !fresh {
			err = errCode
		}
		return err
	})
}

// spendAway uses a second step on a node that is not the primary: at the primary, or only here until it answers again. then does the rest
// in the transaction that begins the session: this node accepts no step twice, whatever the primary says.
func (r *Room) spendAway(ctx context.Context, s Spent) (then func(tx *db.Tx) error, err error) {
	fresh, err := s.fresh(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	if !fresh {
		return nil, errCode
	}
	err = r.deps.Primary.Spend(ctx, s)
	alone := fault.Is(err, fault.Unavailable)
	switch {
	case fault.Is(err, fault.Unauthenticated):
		return nil, errCode
	case err != nil && !alone:
		return nil, err
	}
	return func(tx *db.Tx) error {
		if alone {
			// Another node may have used it in the meantime.
			if fresh, err := s.fresh(ctx, tx); err != nil {
				return err
			} else if !fresh {
				return errCode
			}
		}
		if err := s.ahead(ctx, tx); err != nil {
			return err
		}
		return once(tx.Exec(ctx, keepSpent, s.UserID, s.Kind, s.Value, r.Clock.Now()))
	}, nil
}

// ahead refuses a passkey's count that is not above those this node remembers: it is that of a copy.
func (s Spent) ahead(ctx context.Context, tx *db.Tx) error {
	if s.Kind != spentPasskey {
		return nil
	}
	name, count, _ := strings.Cut(s.Value, " ")
	var behind bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM account_spent WHERE user_id = $1 AND kind = $2 AND split_part(value, ' ', 1) = $3 AND split_part(value, ' ', 2)::bigint >= $4::text::bigint)`,
		s.UserID, s.Kind, name, count).Scan(&behind)
	if err == nil && behind {
		err = errCode
	}
	return err
}

const keepSpent = "INSERT INTO account_spent (user_id, kind, value, spent_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"

// spentHere returns the steps that this node remembers.
func spentHere(ctx context.Context, q db.Querier) ([]Spent, error) {
	rows, err := q.Query(ctx, "SELECT user_id, kind, value FROM account_spent ORDER BY spent_at")
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Spent])
	return list, err
}

// HandOver reports to the primary the second steps that this node accepted in its absence, and forgets those that all nodes know to be
// used.
func (r *Room) HandOver(ctx context.Context) error {
	list, err := spentHere(ctx, r.DB)
	if err != nil || len(list) == 0 {
		return err
	}
	var known []Spent
	for _, s := range list {
		fresh, err := s.fresh(ctx, r.DB)
		if err == nil && fresh {
			if err = r.deps.Primary.Spend(ctx, s); fault.Is(err, fault.Unauthenticated) {
				err = nil // that comes back by replication
			}
		} else if err == nil {
			known = append(known, s)
		}
		if err != nil {
			return err
		}
	}
	return r.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue("DELETE FROM account_spent WHERE kind = 'totp' AND spent_at < $1", r.Clock.Now().Add(-spentFor))
		for _, s := range known {
			tx.Queue("DELETE FROM account_spent WHERE user_id = $1 AND kind = $2 AND value = $3", s.UserID, s.Kind, s.Value)
		}
		return nil
	})
}

// TakeOver marks the second steps that this node has accepted as used, in the transaction in which it becomes the primary.
func (r *Room) TakeOver(ctx context.Context, tx *db.Tx) error {
	list, err := spentHere(ctx, tx)
	for _, s := range list {
		if err == nil {
			_, err = s.store(ctx, tx)
		}
	}
	if err == nil && len(list) > 0 {
		tx.Queue("DELETE FROM account_spent")
	}
	return err
}

// away reports whether another node is the primary.
func (r *Room) away(ctx context.Context) (bool, error) {
	if r.deps.Primary == nil {
		return false, nil
	}
	return r.deps.Primary.Away(ctx)
}

// Check tells another node whether a password is right, and nothing else: that node reads in its own database what the user may do, and
// whether a second step is due.
func (r *Room) Check(ctx context.Context, client netip.Addr, email, plain string) (bool, error) {
	from := throttle.Address(client)
	place := password.Place{Lane: from.Lane(), Known: r.guesses.Known(from)}
	_, _, err := r.judgeFrom(ctx, email, password.Type(plain), from, place)
	if errors.Is(err, errCredentials) || errors.Is(err, errInactive) {
		return false, nil
	}
	return err == nil, err
}

// primaryAccepts asks the primary about a password that is wrong here, because it may just have been changed. The answer is only about the
// password.
func (r *Room) primaryAccepts(c *httpd.Call, email string, typed password.Typed) bool {
	away, err := r.away(c)
	if err != nil || !away {
		return false
	}
	right, err := r.deps.Primary.Check(c, c.Client(), email, typed.Reveal())
	return err == nil && right
}
