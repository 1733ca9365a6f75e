package certificate

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/go-acme/lego/v5/challenge/http01"
)

// responder answers the certificate authority's questions about the files that it asked for. It forgets them when the order
// has ended.
type responder struct {
	mu     sync.Mutex
	tokens map[string]string
}

// Present has a token answered.
func (a *responder) Present(_ context.Context, _, token, keyAuth string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tokens == nil {
		a.tokens = map[string]string{}
	}
	a.tokens[token] = keyAuth
	return nil
}

// CleanUp forgets a token.
func (a *responder) CleanUp(_ context.Context, _, token, _ string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.tokens, token)
	return nil
}

func (a *responder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	token, _ := strings.CutPrefix(req.URL.Path, http01.PathPrefix)
	a.mu.Lock()
	answer, known := a.tokens[token]
	a.mu.Unlock()
	if !known || req.Method != http.MethodGet && req.Method != http.MethodHead {
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, answer)
}

// Challenges answers what is asked below /.well-known/acme-challenge/ on port 80, for every name.
func (r *Room) Challenges() http.Handler { return &r.responder }
