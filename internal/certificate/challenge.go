package certificate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-acme/lego/v5/challenge/http01"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
)

const (
	// answerWithin limits the lookup of an answer in the database.
	answerWithin = 2 * time.Second
	// leftover is the age at which an answer belongs to no running order any more.
	leftover = "1 hour"
)

// responder answers the authority's HTTP-01 requests, and forgets the answers when the order has ended. Any node of a cluster may be
// asked, so the answers are rows that all nodes have.
type responder struct {
	db *db.DB
	// spread waits until the other nodes have what this one has stored.
	spread func(ctx context.Context)
	mu     sync.Mutex
	tokens map[string]string
}

// Present stores the answer to a token.
func (a *responder) Present(ctx context.Context, _, token, keyAuth string) error {
	a.mu.Lock()
	if a.tokens == nil {
		a.tokens = map[string]string{}
	}
	a.tokens[token] = keyAuth
	a.mu.Unlock()
	err := a.db.Write(ctx, func(tx *db.Tx) error {
		tx.Queue("DELETE FROM certificate_challenges WHERE created_at < now() - interval '" + leftover + "'")
		tx.Queue("INSERT INTO certificate_challenges (token, created_at, key_authorization) VALUES ($1, now(), $2) ON CONFLICT (token) DO UPDATE SET key_authorization = $2", token, keyAuth)
		return nil
	})
	if err == nil && a.spread != nil {
		a.spread(ctx)
	}
	return err
}

func (a *responder) CleanUp(ctx context.Context, _, token, _ string) error {
	a.mu.Lock()
	delete(a.tokens, token)
	a.mu.Unlock()
	return a.db.Write(context.WithoutCancel(ctx), func(tx *db.Tx) error {
		tx.Queue("DELETE FROM certificate_challenges WHERE token = $1", token)
		return nil
	})
}

// answer returns the answer to a token, empty if the token is unknown.
func (a *responder) answer(ctx context.Context, token string) (answer string, err error) {
	a.mu.Lock()
	answer = a.tokens[token]
	a.mu.Unlock()
	if answer != "" {
		return answer, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err = a.db.QueryRow(ctx, "SELECT key_authorization FROM certificate_challenges WHERE token = $1", token).Scan(&answer)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return answer, err
}

func (a *responder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	token, asks := strings.CutPrefix(req.URL.Path, http01.PathPrefix)
	if !asks || len(token) > 256 || strings.ContainsRune(token, 0) || req.Method != http.MethodGet && req.Method != http.MethodHead {
		http.NotFound(w, req)
		return
	}
	answer, err := a.answer(req.Context(), token)
	switch {
	case err != nil:
		http.Error(w, "The gateway cannot answer now.", http.StatusServiceUnavailable)
		return
	case answer == "":
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, answer)
}

// Challenges serves /.well-known/acme-challenge/ on port 80, for every name.
func (r *Room) Challenges() http.Handler { return &r.responder }
