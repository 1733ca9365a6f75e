package account

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
)

// token creates an API token and returns it with its id.
func (h *house) token(t *testing.T, session, name, role string) (token, id string) {
	t.Helper()
	var out, read struct {
		ID, Token string
		CreatedAt time.Time `json:"created_at"`
		UpdatedAt time.Time `json:"updated_at"`
	}
	a := h.do(t, session, http.MethodPost, "/api-tokens", map[string]any{"name": name, "role": role}).Want(t, http.StatusCreated)
	a.Into(t, &out)
	location := a.Header.Get("Location")
	h.do(t, session, http.MethodGet, strings.TrimPrefix(location, httpd.Prefix), nil).Want(t, http.StatusOK).Into(t, &read)
	if !strings.HasSuffix(location, "/api-tokens/"+out.ID) || read.ID != out.ID || read.UpdatedAt.IsZero() || !read.UpdatedAt.Equal(out.CreatedAt) {
		t.Fatalf("at %q: %+v, made as %+v", location, read, out)
	}
	if !strings.HasPrefix(out.Token, "gwt_") || len(out.Token) < 40 {
		t.Fatalf("token %q", out.Token)
	}
	return out.Token, out.ID
}

// by makes a request with a token.
func (h *house) by(t *testing.T, token, method, path string, body any) *kittest.Answer {
	t.Helper()
	return kittest.Call(t, h.Handler(), method, path, body, "Authorization", "Bearer "+token, "X-Test-Client", here)
}

func TestAPIToken(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	token, id := h.token(t, session, "ci", "admin")
	var me map[string]any
	h.by(t, token, http.MethodGet, "/auth/me", nil).Want(t, http.StatusOK).Into(t, &me)
	if me["email"] != admin || me["role"] != "admin" || me["auth_method"] != "token" {
		t.Errorf("me %v", me)
	}
	// Audited as the token, of the user.
	h.by(t, token, http.MethodPost, "/users", map[string]any{"email": "b@example.net", "password": plain}).Want(t, http.StatusCreated)
	if e := h.entries(t, "user.create")[0]; e.Actor != "token:ci ("+admin+")" {
		t.Errorf("actor %q", e.Actor)
	}
	// Shown once, stored hashed.
	list := h.do(t, session, http.MethodGet, "/api-tokens", nil).Want(t, http.StatusOK)
	var tokens []map[string]any
	list.Into(t, &tokens)
	if len(tokens) != 1 || tokens[0]["name"] != "ci" || tokens[0]["last_used_at"] == nil || tokens[0]["expires_at"] != nil || tokens[0]["user"] != admin || tokens[0]["token"] != nil {
		t.Errorf("tokens %v", tokens)
	}
	var hash []byte
	if err := h.DB.QueryRow(t.Context(), "SELECT hash FROM account_api_tokens").Scan(&hash); err != nil || bytes.Contains(list.Body, []byte(token)) || bytes.Contains(hash, []byte(token)) || len(hash) != 32 {
		t.Errorf("the token is kept: %v", err)
	}
	// Not accepted in a cookie or in another form.
	h.me(t, "gateway_session="+token).Want(t, http.StatusUnauthorized)
	for _, wrong := range []string{token + "x", token[:len(token)-1], "gwt_", strings.ToUpper(token)} {
		h.by(t, wrong, http.MethodGet, "/auth/me", nil).Want(t, http.StatusUnauthorized)
	}
	h.do(t, session, http.MethodDelete, "/api-tokens/"+id, nil).Want(t, http.StatusOK)
	h.by(t, token, http.MethodGet, "/auth/me", nil).Want(t, http.StatusUnauthorized)
	if h.Audited(t, "api-token.create") != 1 || h.Audited(t, "api-token.delete") != 1 {
		t.Error("not audited")
	}
}

func TestAPITokenFields(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	create := func(body map[string]any) *kittest.Answer {
		t.Helper()
		return h.do(t, session, http.MethodPost, "/api-tokens", body)
	}
	for _, name := range []string{"", "a b", "x (root@example.net)", "ä", "-x", strings.Repeat("x", 65), "a\nb"} {
		create(map[string]any{"name": name, "role": "viewer"}).WantField(t, "name")
	}
	create(map[string]any{"name": "a"}).WantField(t, "role")
	create(map[string]any{"name": "a", "role": "root"}).WantField(t, "role")
	create(map[string]any{"name": "a", "role": "viewer", "expires_at": h.clock.Now()}).WantField(t, "expires_at")
	create(map[string]any{"name": "a", "role": "viewer", "expires_at": "tomorrow"}).WantField(t, "expires_at")
	create(map[string]any{"name": "a", "role": "viewer", "expires_at": h.clock.Now().Add(time.Hour)}).Want(t, http.StatusCreated)
	if f := create(map[string]any{"name": "a", "role": "viewer"}).Want(t, http.StatusConflict).Error.Fields; f["name"] == "" {
		t.Errorf("fields %v", f)
	}
	h.add(t, session, "b@example.net", "viewer")
	viewer := h.enter(t, "b@example.net", plain)
	h.do(t, viewer, http.MethodPost, "/api-tokens", map[string]any{"name": "a", "role": "admin"}).WantField(t, "role")
	h.token(t, viewer, "a", "viewer") // names are per user
}

func TestAPITokenEnds(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	id := h.add(t, root, "b@example.net", "admin")
	session := h.enter(t, "b@example.net", plain)
	var out struct{ Token string }
	h.do(t, session, http.MethodPost, "/api-tokens", map[string]any{"name": "hour", "role": "admin", "expires_at": h.clock.Now().Add(time.Hour)}).Want(t, http.StatusCreated).Into(t, &out)
	token, _ := h.token(t, session, "ever", "admin")
	status := func(token string, want int) {
		t.Helper()
		h.by(t, token, http.MethodGet, "/users", nil).Want(t, want)
	}
	status(out.Token, 200)
	h.clock.Move(time.Hour)
	status(out.Token, 401)
	status(token, 200)
	// The role of the user limits it at each use.
	h.by(t, token, http.MethodPost, "/users", map[string]any{"email": "c@example.net", "password": plain}).Want(t, http.StatusCreated)
	h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"role": "viewer"}).Want(t, http.StatusOK)
	h.by(t, token, http.MethodPost, "/users", map[string]any{"email": "d@example.net", "password": plain}).Want(t, http.StatusForbidden)
	status(token, 200)
	h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"active": false}).Want(t, http.StatusOK)
	status(token, 403)
	h.do(t, root, http.MethodDelete, "/users/"+id, nil).Want(t, http.StatusOK)
	status(token, 401)
}

// A token acts for its user, but cannot manage access.
func TestAPITokenCannotManageAccess(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	id := h.add(t, session, "b@example.net", "viewer")
	token, own := h.token(t, session, "ci", "admin")
	for _, r := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPost, "/api-tokens", map[string]any{"name": "more", "role": "viewer"}},
		{http.MethodDelete, "/api-tokens/" + own, nil},
		{http.MethodPost, "/auth/change-password", map[string]any{"current_password": plain, "new_password": other}},
		{http.MethodPost, "/users/" + id + "/password", map[string]any{"password": other}},
		{http.MethodPut, "/users/" + id, map[string]any{"password": other}},
		{http.MethodPost, "/change-sets", map[string]any{"operations": []any{map[string]any{"kind": "user", "verb": "update", "id": id, "body": map[string]any{"password": other}}}}},
		{http.MethodPost, "/auth/totp/setup", nil},
		{http.MethodPost, "/auth/totp/enable", map[string]any{"code": "000000"}},
		{http.MethodPost, "/auth/totp/disable", map[string]any{"password": plain}},
		{http.MethodDelete, "/users/" + id + "/totp", nil},
		{http.MethodDelete, "/users/" + id + "/passkeys", nil},
		{http.MethodPost, "/auth/passkeys/register/begin", nil},
		{http.MethodPost, "/auth/logout", nil},
	} {
		if a := h.by(t, token, r.method, r.path, r.body); a.Status != http.StatusForbidden {
			t.Errorf("%s %s: %d", r.method, r.path, a.Status)
		}
	}
	h.by(t, token, http.MethodPut, "/users/"+id, map[string]any{"name": "B"}).Want(t, http.StatusOK)
	h.enter(t, "b@example.net", plain)
}

func TestAPITokensOfOthers(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	h.add(t, root, "b@example.net", "viewer")
	viewer := h.enter(t, "b@example.net", plain)
	_, mine := h.token(t, root, "mine", "admin")
	theirToken, theirs := h.token(t, viewer, "theirs", "viewer")
	count := func(a *kittest.Answer) int {
		t.Helper()
		var list []any
		a.Want(t, http.StatusOK).Into(t, &list)
		return len(list)
	}
	if n := count(h.do(t, viewer, http.MethodGet, "/api-tokens", nil)); n != 1 {
		t.Errorf("a viewer sees %d", n)
	}
	h.do(t, viewer, http.MethodGet, "/api-tokens?all=true", nil).Want(t, http.StatusForbidden)
	h.by(t, theirToken, http.MethodGet, "/api-tokens?all=true", nil).Want(t, http.StatusForbidden)
	h.do(t, root, http.MethodGet, "/api-tokens?all=perhaps", nil).WantField(t, "all")
	if n := count(h.do(t, root, http.MethodGet, "/api-tokens", nil)); n != 1 {
		t.Errorf("an admin has %d", n)
	}
	if n := count(h.do(t, root, http.MethodGet, "/api-tokens?all=true", nil)); n != 2 {
		t.Errorf("an admin sees %d", n)
	}
	h.do(t, viewer, http.MethodDelete, "/api-tokens/"+mine, nil).Want(t, http.StatusNotFound)
	h.do(t, root, http.MethodDelete, "/api-tokens/"+theirs, nil).Want(t, http.StatusOK)
	h.by(t, theirToken, http.MethodGet, "/auth/me", nil).Want(t, http.StatusUnauthorized)
}

func TestAPITokenUseIsWrittenDownOnceAMinute(t *testing.T) {
	h := newHouse(t)
	token, _ := h.token(t, h.enter(t, admin, plain), "ci", "viewer")
	used := func() (at time.Time) {
		t.Helper()
		h.by(t, token, http.MethodGet, "/auth/me", nil).Want(t, http.StatusOK)
		if err := h.DB.QueryRow(t.Context(), "SELECT last_used_at FROM account_api_tokens").Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	first := used()
	h.clock.Move(59 * time.Second)
	if !used().Equal(first) {
		t.Error("it was written down too often")
	}
	h.clock.Move(time.Second)
	if !used().Equal(h.clock.Now()) {
		t.Error("it was not written down")
	}
}
