package account

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

func TestSessionEndsAfterTwelveHours(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	h.clock.Move(12*time.Hour - time.Second)
	h.me(t, session).Want(t, http.StatusOK)
	if err := Prune(t.Context(), h.DB, h.clock); err != nil || h.Rows(t, "account_sessions") != 1 {
		t.Errorf("a live session was pruned: %v", err)
	}
	fresh := h.enter(t, admin, plain)
	h.clock.Move(time.Second)
	h.me(t, session).Want(t, http.StatusUnauthorized)
	if err := Prune(t.Context(), h.DB, h.clock); err != nil || h.Rows(t, "account_sessions") != 1 {
		t.Errorf("%d sessions left, %v", h.Rows(t, "account_sessions"), err)
	}
	h.me(t, fresh).Want(t, http.StatusOK)
}

func TestForgedTokensAreRefused(t *testing.T) {
	h := newHouse(t)
	token := strings.TrimPrefix(h.enter(t, admin, plain), "gateway_session=")
	var c claims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &c); err != nil {
		t.Fatal(err)
	}
	if _, err := uuid.Parse(c.Subject); err != nil || c.Session == uuid.Nil || c.IssuedAt == nil || c.ExpiresAt == nil {
		t.Errorf("claims %+v", c)
	}
	sign := func(m jwt.SigningMethod, c claims, key any) string {
		t.Helper()
		s, err := jwt.NewWithClaims(m, c).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	pair, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	eternal, old, unknown := c, c, c
	eternal.ExpiresAt = nil
	old.ExpiresAt = jwt.NewNumericDate(h.clock.Now().Add(-time.Second))
	unknown.Session = uuid.New()
	key := h.room.signer.key
	parts := strings.Split(token, ".")
	for name, forged := range map[string]string{
		"nothing":      "",
		"nonsense":     "a.b.c",
		"no algorithm": sign(jwt.SigningMethodNone, c, jwt.UnsafeAllowNoneSignatureType),
		"other key":    sign(jwt.SigningMethodHS256, c, make([]byte, 32)),
		"empty key":    sign(jwt.SigningMethodHS256, c, []byte{}),
		"HS512":        sign(jwt.SigningMethodHS512, c, key),
		"RS256":        sign(jwt.SigningMethodRS256, c, pair),
		"no expiry":    sign(jwt.SigningMethodHS256, eternal, key),
		"expired":      sign(jwt.SigningMethodHS256, old, key),
		"no session":   sign(jwt.SigningMethodHS256, unknown, key),
		"changed":      parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sid":"x"}`)) + "." + parts[2],
		"unsigned":     parts[0] + "." + parts[1] + ".",
	} {
		if a := h.me(t, "gateway_session="+forged); a.Status != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, a.Status)
		}
	}
	h.me(t, "gateway_session="+token).Want(t, http.StatusOK)
}

func TestRoleIsTheDatabasesAtOnce(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	id := h.add(t, root, "a@example.net", "admin")
	session := h.enter(t, "a@example.net", plain)
	h.do(t, session, http.MethodPut, "/users/"+id, map[string]any{"name": "A"}).Want(t, http.StatusOK)
	// A demotion ends what the admin has opened; a promotion does not.
	h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"role": "viewer"}).Want(t, http.StatusOK)
	h.me(t, session).Want(t, http.StatusUnauthorized)
	session = h.enter(t, "a@example.net", plain)
	h.do(t, session, http.MethodPut, "/users/"+id, map[string]any{"role": "admin"}).Want(t, http.StatusForbidden)
	h.do(t, session, http.MethodGet, "/users/"+id, nil).Want(t, http.StatusOK)
	h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"role": "admin"}).Want(t, http.StatusOK)
	h.do(t, session, http.MethodPut, "/users/"+id, map[string]any{"name": "B"}).Want(t, http.StatusOK)
}
