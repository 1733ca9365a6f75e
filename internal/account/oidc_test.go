package account

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/oauth2-proxy/mockoidc"

	"edge.internal/gateway/internal/kit/httpd"
)

// idp is an identity provider on loopback.
type idp struct {
	*mockoidc.MockOIDC
	// forge replaces the provider's ID token.
	forge    func(token string) string
	requests atomic.Int32 // for its metadata and keys
}

func newIDP(t *testing.T, h *house) *idp {
	t.Helper()
	mock, err := mockoidc.NewServer(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &idp{MockOIDC: mock}
	if err := mock.AddMiddleware(p.serve); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mockoidc.NowFunc = h.clock.Now
	if err := mock.Start(l, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mock.Server.Close() })
	return p
}

func (p *idp) serve(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.Contains(req.URL.Path, "/.well-known/") {
			p.requests.Add(1)
		}
		if p.forge == nil || req.URL.Path != mockoidc.TokenEndpoint {
			next.ServeHTTP(w, req)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, req)
		var answer map[string]any
		if json.Unmarshal(rec.Body.Bytes(), &answer) == nil && answer["id_token"] != nil {
			answer["id_token"] = p.forge(answer["id_token"].(string))
		}
		maps.Copy(w.Header(), rec.Header())
		w.Header().Del("Content-Length")
		w.WriteHeader(rec.Code)
		_ = json.NewEncoder(w).Encode(answer)
	})
}

// person is someone whom the provider knows, with any claims.
type person map[string]any

func (p person) ID() string                        { s, _ := p["sub"].(string); return s }
func (p person) Userinfo([]string) ([]byte, error) { return []byte("{}"), nil }

func (p person) Claims(_ []string, base *mockoidc.IDTokenClaims) (jwt.Claims, error) {
	b, err := json.Marshal(base)
	if err != nil {
		return nil, err
	}
	claims := jwt.MapClaims{}
	if err := json.Unmarshal(b, &claims); err != nil {
		return nil, err
	}
	for name, v := range p {
		if claims[name] = v; v == nil {
			delete(claims, name)
		}
	}
	return claims, nil
}

// jane is a person with a verified address.
func jane(email string) person {
	return person{"sub": "jane", "email": email, "email_verified": true}
}

func (p person) with(name string, v any) person {
	other := maps.Clone(p)
	other[name] = v
	return other
}

// trust makes the gateway trust the provider.
func (h *house) trust(t *testing.T, session string, p *idp) {
	t.Helper()
	h.do(t, session, http.MethodPut, "/oidc/settings", map[string]any{
		"enabled": true, "issuer": p.Issuer(), "client_id": p.ClientID, "client_secret": p.ClientSecret, "allow_internal": true,
	}).Want(t, http.StatusOK)
}

// visit opens a page of the API in a browser with cookies.
func (h *house) visit(t *testing.T, path string, cookies ...*http.Cookie) *http.Response {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, httpd.Prefix+path, nil).WithContext(t.Context())
	req.RemoteAddr = here
	for _, c := range cookies {
		req.AddCookie(c)
	}
	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, req)
	return w.Result()
}

func cookieNamed(res *http.Response, name string) *http.Cookie {
	for _, c := range res.Cookies() {
		if c.Name == name && c.MaxAge >= 0 {
			return c
		}
	}
	return nil
}

// signOn runs a single sign-on up to the browser's return: with which query, and which cookie.
func (h *house) signOn(t *testing.T, p *idp, who person) (query string, flow *http.Cookie) {
	t.Helper()
	p.QueueUser(who)
	res := h.visit(t, "/auth/oidc/login")
	flow = cookieNamed(res, "gateway_oidc_flow")
	if res.StatusCode != http.StatusFound || flow == nil {
		t.Fatalf("login: %d %v", res.StatusCode, res.Header)
	}
	back := redirected(t, res.Header.Get("Location"))
	if back.Host != fqdn || back.Scheme != "https" || back.Path != "/api/v1/auth/oidc/callback" {
		t.Fatalf("the browser comes back to %s", back)
	}
	return back.RawQuery, flow
}

// redirected returns where a page sends the browser.
func redirected(t *testing.T, page string) *url.URL {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	to, err := res.Location()
	if err != nil {
		b, _ := io.ReadAll(res.Body)
		t.Fatalf("%s answers %d: %s", page, res.StatusCode, b)
	}
	return to
}

// callback returns from the provider, and returns the session, or why there is none.
func (h *house) callback(t *testing.T, query string, cookies ...*http.Cookie) (session, reason string) {
	t.Helper()
	res := h.visit(t, "/auth/oidc/callback?"+query, cookies...)
	to, err := res.Location()
	if res.StatusCode != http.StatusFound || err != nil {
		t.Fatalf("callback: %d %v", res.StatusCode, res.Header)
	}
	if c := cookieNamed(res, "gateway_session"); c != nil {
		session = c.Name + "=" + c.Value
	}
	reason = to.Query().Get("sso_error")
	switch {
	case session != "" && (to.Path != "/" || reason != ""), session == "" && (to.Path != "/login" || reason == ""):
		t.Fatalf("callback: session %q, and goes to %s", session, to)
	}
	return session, reason
}

// sso runs a whole single sign-on.
func (h *house) sso(t *testing.T, p *idp, who person) (session, reason string) {
	t.Helper()
	query, flow := h.signOn(t, p, who)
	return h.callback(t, query, flow)
}

func TestOI01Disabled(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	p := newIDP(t, h)
	public := func() string {
		return string(h.do(t, "", http.MethodGet, "/auth/oidc/settings", nil).Want(t, http.StatusOK).Data)
	}
	expect := func() {
		t.Helper()
		res := h.visit(t, "/auth/oidc/login")
		if res.StatusCode != http.StatusFound || res.Header.Get("Location") != "/login?sso_error=sso_disabled" || len(res.Cookies()) != 0 {
			t.Errorf("login: %d %v", res.StatusCode, res.Header)
		}
		if got := public(); got != `{"enabled":false,"issuer":""}` {
			t.Errorf("public settings %s", got)
		}
	}
	expect()
	h.trust(t, session, p)
	if got := public(); got != `{"enabled":true,"issuer":"`+p.Server.Addr+`"}` {
		t.Errorf("public settings %s", got)
	}
	query, flow := h.signOn(t, p, jane(admin))
	h.do(t, session, http.MethodPut, "/oidc/settings", map[string]any{"enabled": false}).Want(t, http.StatusOK)
	expect()
	if _, reason := h.callback(t, query, flow); reason != "sso_disabled" {
		t.Errorf("a callback after it was switched off: %s", reason)
	}
}

func TestOI02Redirect(t *testing.T) {
	h := newHouse(t)
	p := newIDP(t, h)
	h.trust(t, h.enter(t, admin, plain), p)
	res := h.visit(t, "/auth/oidc/login")
	to, err := res.Location()
	if err != nil || !strings.HasPrefix(to.String(), p.AuthorizationEndpoint()) {
		t.Fatalf("%v %v", to, err)
	}
	q := to.Query()
	if q.Get("state") == "" || q.Get("nonce") == "" || q.Get("state") == q.Get("nonce") || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 ||
		q.Get("redirect_uri") != "https://"+fqdn+"/api/v1/auth/oidc/callback" || q.Get("client_id") != p.ClientID || q.Get("scope") != "openid email profile" || q.Get("response_type") != "code" {
		t.Errorf("query %v", q)
	}
	if strings.Contains(to.String(), p.ClientSecret) {
		t.Error("the client secret is in the URL")
	}
	c := cookieNamed(res, "gateway_oidc_flow")
	if c == nil || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 300 || c.Path != "/api/v1/auth/oidc" {
		t.Errorf("cookie %+v", c)
	}
	again, err := h.visit(t, "/auth/oidc/login").Location()
	if err != nil || again.Query().Get("state") == q.Get("state") || again.Query().Get("nonce") == q.Get("nonce") || again.Query().Get("code_challenge") == q.Get("code_challenge") {
		t.Errorf("the second redirect is like the first: %v", again)
	}
}

func TestOI03KnownVerifiedEmail(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	p := newIDP(t, h)
	h.trust(t, root, p)
	id := h.add(t, root, "b@example.net", "viewer")
	a := h.enrol(t, h.enter(t, "b@example.net", plain)) // a second factor of ours is not asked for
	who := jane("b@example.net").with("role", "admin").with("roles", []string{"admin"}).with("groups", []string{"admin"})
	session, reason := h.sso(t, p, who)
	if session == "" {
		t.Fatal(reason)
	}
	var me map[string]any
	h.me(t, session).Want(t, http.StatusOK).Into(t, &me)
	if me["email"] != "b@example.net" || me["role"] != "viewer" || me["auth_method"] != "oidc" {
		t.Errorf("me %v", me)
	}
	h.do(t, session, http.MethodPost, "/users", map[string]any{"email": "x@example.net", "password": plain}).Want(t, http.StatusForbidden)
	var u map[string]any
	h.do(t, root, http.MethodGet, "/users/"+id, nil).Into(t, &u)
	if u["oidc_subject"] != "jane" || u["last_login_at"] == nil {
		t.Errorf("user %v", u)
	}
	if e := h.entries(t, "auth.login.success")[0]; e.Actor != "b@example.net" || !strings.Contains(string(e.Details), `"method": "oidc"`) {
		t.Errorf("audit %+v", e)
	}
	// Again, now that they are linked; and the password works as before.
	if session, reason = h.sso(t, p, who); session == "" {
		t.Error(reason)
	}
	h.enter2(t, "b@example.net", a)
	// The metadata and the keys were fetched once.
	if n := p.requests.Load(); n != 2 {
		t.Errorf("%d requests for the description and keys", n)
	}
}

func TestParallelSignOnsAllLand(t *testing.T) {
	h := newHouse(t)
	p := newIDP(t, h)
	h.trust(t, h.enter(t, admin, plain), p)
	var queries [40]string
	var flows [40]*http.Cookie
	for i := range queries {
		queries[i], flows[i] = h.signOn(t, p, jane(admin))
	}
	var all sync.WaitGroup
	for i := range queries {
		all.Go(func() {
			if session, reason := h.callback(t, queries[i], flows[i]); session == "" {
				t.Error(reason)
			}
		})
	}
	all.Wait()
}

func TestOI04UnknownOrDisabled(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	p := newIDP(t, h)
	h.trust(t, root, p)
	id := h.add(t, root, "b@example.net", "viewer")
	h.do(t, root, http.MethodPut, "/users/"+id, map[string]any{"active": false}).Want(t, http.StatusOK)
	for who, want := range map[string]string{
		"nobody@example.net": "no_account",
		"B@example.net":      "no_account", // case as stored
		"b@example.net ":     "no_account",
		"b@example.net":      "account_disabled",
	} {
		if _, reason := h.sso(t, p, jane(who)); reason != want {
			t.Errorf("%q: %s", who, reason)
		}
	}
	if h.Rows(t, "account_users") != 2 || h.Rows(t, "account_sessions") != 1 {
		t.Error("a user or a session was made")
	}
	if e := h.entries(t, "auth.login.failed"); len(e) != 4 {
		t.Errorf("%d audit entries", len(e))
	}
	var subject string
	if err := h.DB.QueryRow(t.Context(), "SELECT string_agg(oidc_subject, '') FROM account_users").Scan(&subject); err != nil || subject != "" {
		t.Errorf("somebody was linked to %q: %v", subject, err)
	}
}

// OI-05: in every disguise.
func TestOI05EmailIsVerified(t *testing.T) {
	h := newHouse(t)
	p := newIDP(t, h)
	h.trust(t, h.enter(t, admin, plain), p)
	for name, who := range map[string]person{
		"text":         jane(admin).with("email_verified", "true"),
		"number":       jane(admin).with("email_verified", 1),
		"missing":      jane(admin).with("email_verified", nil),
		"false":        jane(admin).with("email_verified", false),
		"list":         jane(admin).with("email_verified", []bool{true}),
		"object":       jane(admin).with("email_verified", map[string]bool{"value": true}),
		"other case":   jane(admin).with("email_verified", false).with("Email_Verified", true),
		"other case 2": jane(admin).with("email_verified", nil).with("EMAIL_VERIFIED", true),
		"no email":     jane(admin).with("email", nil),
		"empty email":  jane(""),
		"other claim":  jane(admin).with("email", nil).with("Email", admin),
	} {
		if _, reason := h.sso(t, p, who); reason != "email_unverified" {
			t.Errorf("%s: %s", name, reason)
		}
	}
	for name, who := range map[string]person{"list of emails": jane(admin).with("email", []string{admin})} {
		if _, reason := h.sso(t, p, who); reason != "failed" {
			t.Errorf("%s: %s", name, reason)
		}
	}
	if session, reason := h.sso(t, p, jane(admin)); session == "" {
		t.Error(reason)
	}
}
