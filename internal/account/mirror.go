package account

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/password"
)

// mirrorAfter lets the setup store follow a user, who had this address, once the change is committed.
func (r *Room) mirrorAfter(ctx context.Context, tx *db.Tx, was string, id uuid.UUID) {
	tx.AfterCommit(func() { r.mirror(context.WithoutCancel(ctx), was, id) })
}

// mirror keeps the setup store's admin like the user whose address it has, or had: the store lets in who could log in
// by the database, and nobody else. It looks at what is committed, so that of several changes at once the last one
// stays, and what a crash has left out is made up for at the next login.
func (r *Room) mirror(ctx context.Context, was string, id uuid.UUID) {
	r.mirroring.Lock()
	defer r.mirroring.Unlock()
	admin, hash := r.deps.StoreAdmin()
	if admin.IsZero() || admin.String() != was {
		return
	}
	email, want := admin, password.Hash("")
	err := r.DB.QueryRow(ctx, "SELECT email, CASE WHEN active AND role = 'admin' THEN password ELSE '' END FROM account_users WHERE id = $1", id).Scan(&email, &want)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	if err == nil && (email != admin || want != hash) {
		err = r.deps.ReplaceStoreAdmin(admin, email, want)
	}
	if err != nil {
		r.Log.Error("setup store does not follow the user", "err", err)
	}
}
