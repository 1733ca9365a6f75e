package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// user is a row of the table that both sides read and write.
type user struct {
	ID          uuid.UUID  `json:"id"`
	CreatedAt   time.Time  `json:"created_at"`
	UpdatedAt   time.Time  `json:"updated_at"`
	Email       string     `json:"email"`
	Name        string     `json:"name"`
	Role        string     `json:"role"`
	Active      bool       `json:"active"`
	TOTPEnabled bool       `json:"totp_enabled"`
	OIDCSubject string     `json:"oidc_subject"`
	LastLoginAt *time.Time `json:"last_login_at"`
}

// serveBare is the least that could answer: net/http and pgx, no session, no validation, no ETag.
func serveBare(socket, url string) error {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	cfg.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users", func(w http.ResponseWriter, r *http.Request) {
		list, err := bareList(r.Context(), pool)
		if err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"data": list, "error": nil})
	})
	kept := sync.OnceValues(func() ([]byte, error) {
		list, err := bareList(context.Background(), pool)
		if err != nil {
			return nil, err
		}
		return json.Marshal(map[string]any{"data": list, "error": nil})
	})
	mux.HandleFunc("GET /encoded", func(w http.ResponseWriter, _ *http.Request) {
		b, err := kept()
		if err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b)
	})
	mux.HandleFunc("PUT /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Name string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		if err := bareUpdate(r.Context(), pool, r.PathValue("id"), in.Name); err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		_, _ = w.Write([]byte(`{"data":{},"error":null}`))
	})
	mux.HandleFunc("GET /empty", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	defer os.Remove(socket)
	return http.Serve(l, mux)
}

func bareList(ctx context.Context, pool *pgxpool.Pool) ([]user, error) {
	rows, err := pool.Query(ctx, `SELECT id, created_at, updated_at, email, name, role, active, totp_enabled, oidc_subject, last_login_at FROM account_users ORDER BY email, id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []user
	for rows.Next() {
		var u user
		if err := rows.Scan(&u.ID, &u.CreatedAt, &u.UpdatedAt, &u.Email, &u.Name, &u.Role, &u.Active, &u.TOTPEnabled, &u.OIDCSubject, &u.LastLoginAt); err != nil {
			return nil, err
		}
		list = append(list, u)
	}
	return list, rows.Err()
}

// bareUpdate is the two-row transaction: the row and its audit entry.
func bareUpdate(ctx context.Context, pool *pgxpool.Pool, id, name string) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, `UPDATE account_users SET name = $2, updated_at = now() WHERE id = $1`, id, name); err != nil {
		return err
	}
	entry, err := uuid.NewV7()
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO audit_entries (id, created_at, actor, action, subject, node_id, details) VALUES ($1, now(), 'a@example.net', 'user.update', 'b@example.net', 'x', '{}')`, entry); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
