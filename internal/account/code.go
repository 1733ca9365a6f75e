package account

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/throttle"
)

const (
	totpTable  = "account_totp"
	totpColumn = "secret"
	totpPeriod = 30
	totpSkew   = 1 // steps that the app's clock may be off
)

// codeGuessing limits how many codes are tried for one account, from anywhere: six digits can be found by trying, and only someone who
// has the password gets this far. Recovery codes and passkeys still work.
var codeGuessing = throttle.Limits{Pair: 100, Source: math.MaxInt, Within: 24 * time.Hour}

// matchCode returns the time step for which a code is right.
func matchCode(secret, code string, now time.Time) (step int64, ok bool) {
	for s := now.Unix()/totpPeriod - totpSkew; s <= now.Unix()/totpPeriod+totpSkew; s++ {
		if right, err := hotp.ValidateCustom(code, uint64(s), secret, hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1}); err == nil && right {
			step, ok = s, true
		}
	}
	return step, ok
}

// totpSecret reads a secret; sealed is its stored form, by which a later write checks that it is unchanged.
func (r *Room) totpSecret(ctx context.Context, user uuid.UUID, confirmed bool) (plain string, sealed []byte, err error) {
	err = r.DB.QueryRow(ctx, "SELECT secret FROM account_totp WHERE user_id = $1 AND confirmed = $2", user, confirmed).Scan(&sealed)
	if err != nil {
		return "", nil, err
	}
	plain, err = r.openTOTP(sealed, user)
	return plain, sealed, err
}

func (r *Room) openTOTP(sealed []byte, user uuid.UUID) (string, error) {
	plain, err := r.Secrets.Open(sealed, totpTable, totpColumn, user.String())
	if errors.Is(err, secret.ErrOtherKey) {
		err = fault.Wrap(fault.Conflict, err, "The app's secret cannot be decrypted with this gateway's master key. Use a recovery code, or ask an administrator to turn off the app.")
	}
	return plain, err
}

// proveCode verifies a code of the app, or a recovery code.
func (r *Room) proveCode(c *httpd.Call, p *pending, code string) (proof, error) {
	if p.away != nil {
		return r.proveCodeAway(p, code)
	}
	if hash, ok := recoveryHash(code); ok {
		return proof{method: byRecovery, spend: func(tx *db.Tx) error {
			r.mirror(c, tx, p.who.Email, p.who.ID)
			return once(tx.Exec(c, "DELETE FROM account_recovery_codes WHERE user_id = $1 AND hash = $2", p.who.ID, hash))
		}, spent: spentCode(p.who.ID, hash)}, nil
	}
	attempt, err := r.codes.Begin(p.who.Email, throttle.Anywhere)
	if err != nil {
		return proof{}, err
	}
	plain, sealed, err := r.totpSecret(c, p.who.ID, true)
	if errors.Is(err, pgx.ErrNoRows) {
		return proof{}, errCode
	}
	if err != nil {
		attempt.Withdraw()
		return proof{}, err
	}
	step, ok := matchCode(plain, strings.ReplaceAll(code, " ", ""), r.Clock.Now())
	if !ok {
		return proof{}, errCode
	}
	return proof{method: byTOTP, spend: func(tx *db.Tx) error {
		tx.AfterCommit(attempt.Succeeded)
		return once(tx.Exec(c, "UPDATE account_totp SET last_step = $3 WHERE user_id = $1 AND secret = $2 AND confirmed AND last_step < $3", p.who.ID, sealed, step))
	}, spent: spentStep(p.who.ID, step), done: attempt.Succeeded}, nil
}

// once checks the result of a write that spends a code: one row, or the code was already used.
func once(tag interface{ RowsAffected() int64 }, err error) error {
	if err == nil && tag.RowsAffected() != 1 {
		err = errCode
	}
	return err
}

const (
	recoveryCodes = 10
	recoveryBytes = 10 // 80 bits: nobody finds one by trying, so a plain hash is enough
)

var recoveryEncoding = base32.NewEncoding("abcdefghijkmnpqrstuvwxyz23456789").WithPadding(base32.NoPadding)

// newRecoveryCodes returns codes like abcd-efgh-ijkm-npqr, and the hashes to store.
func newRecoveryCodes() (codes []string, hashes [][]byte) {
	for range recoveryCodes {
		var b [recoveryBytes]byte
		_, _ = rand.Read(b[:]) // never fails
		s := recoveryEncoding.EncodeToString(b[:])
		codes = append(codes, fmt.Sprintf("%s-%s-%s-%s", s[:4], s[4:8], s[8:12], s[12:]))
		hashes = append(hashes, hashTicket(s))
	}
	return codes, hashes
}

// recoveryHash returns the hash of what looks like a recovery code, however it was typed.
func recoveryHash(typed string) (hash []byte, ok bool) {
	s := strings.ToLower(strings.NewReplacer("-", "", " ", "").Replace(typed))
	if b, err := recoveryEncoding.DecodeString(s); err != nil || len(b) != recoveryBytes {
		return nil, false
	}
	return hashTicket(s), true
}
