package account

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/oauth2-proxy/mockoidc"
)

func TestOI06StateAndCookie(t *testing.T) {
	h := newHouse(t)
	p := newIDP(t, h)
	session := h.enter(t, admin, plain)
	h.trust(t, session, p)
	refused := func(name, query string, cookies ...*http.Cookie) {
		t.Helper()
		if _, reason := h.callback(t, query, cookies...); reason != "state_mismatch" {
			t.Errorf("%s: %s", name, reason)
		}
	}
	changed := func(c *http.Cookie, value string) *http.Cookie {
		other := *c
		other.Value = value
		return &other
	}
	query, flow := h.signOn(t, p, jane(admin))
	other, _ := h.signOn(t, p, jane(admin))
	parts := strings.Split(flow.Value, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims jwt.MapClaims
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(h.room.signer.key)
	if err != nil {
		t.Fatal(err)
	}
	delete(claims, "exp")
	eternal, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(h.room.flows.key)
	if err != nil {
		t.Fatal(err)
	}
	refused("no query", "", flow)
	refused("another state", other, flow)
	refused("no state", "code=x", flow)
	refused("missing cookie", query)
	refused("empty cookie", query, changed(flow, ""))
	refused("tampered cookie", query, changed(flow, parts[0]+"."+base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(payload), "nonce", "nonse", 1)))+"."+parts[2]))
	refused("unsigned cookie", query, changed(flow, parts[0]+"."+parts[1]+"."))
	refused("no algorithm", query, changed(flow, none))
	refused("the sessions' key", query, changed(flow, sessions))
	refused("no expiry", query, changed(flow, eternal))
	refused("a session's token", query, changed(flow, strings.TrimPrefix(session, "gateway_session=")))
	h.me(t, "gateway_session="+flow.Value).Want(t, http.StatusUnauthorized)
	if h.Rows(t, "account_oidc_states") != 0 {
		t.Error("a state was spent by nobody")
	}
	// As it should be, and then once more.
	if got, reason := h.callback(t, query, flow); got == "" {
		t.Fatal(reason)
	}
	refused("replayed", query, flow)
	// Six minutes old.
	query, flow = h.signOn(t, p, jane(admin))
	h.clock.Move(6 * time.Minute)
	refused("old cookie", query, flow)
	if err := Prune(t.Context(), h.DB, h.clock); err != nil || h.Rows(t, "account_oidc_states") != 0 {
		t.Errorf("states are left: %v", err)
	}
}

func TestOI06CallbackTakesTheCookieAway(t *testing.T) {
	h := newHouse(t)
	p := newIDP(t, h)
	h.trust(t, h.enter(t, admin, plain), p)
	query, flow := h.signOn(t, p, jane(admin))
	for _, q := range []string{"", query} {
		res := h.visit(t, "/auth/oidc/callback?"+q, flow)
		gone := false
		for _, c := range res.Cookies() {
			gone = gone || c.Name == "gateway_oidc_flow" && c.MaxAge < 0 && c.Path == "/api/v1/auth/oidc"
		}
		if !gone {
			t.Errorf("cookies %v", res.Cookies())
		}
	}
}

// OI-07: tokens that the provider should not have issued, or has not.
func TestOI07MutatedTokens(t *testing.T) {
	h := newHouse(t)
	p := newIDP(t, h)
	h.trust(t, h.enter(t, admin, plain), p)
	now := h.clock.Now()
	for name, x := range map[string]struct {
		who  person
		want string
	}{
		"nonce":            {jane(admin).with("nonce", "another"), "nonce_mismatch"},
		"no nonce":         {jane(admin).with("nonce", nil), "nonce_mismatch"},
		"empty nonce":      {jane(admin).with("nonce", ""), "nonce_mismatch"},
		"audience":         {jane(admin).with("aud", "another"), "failed"},
		"audiences":        {jane(admin).with("aud", []string{"another", "third"}), "failed"},
		"no audience":      {jane(admin).with("aud", nil), "failed"},
		"other party":      {jane(admin).with("aud", []string{p.ClientID, "another"}).with("azp", "another"), "failed"},
		"issuer":           {jane(admin).with("iss", "https://evil.example"), "failed"},
		"issuer, slash":    {jane(admin).with("iss", p.Issuer()+"/"), "failed"},
		"no issuer":        {jane(admin).with("iss", nil), "failed"},
		"expired":          {jane(admin).with("exp", now.Add(-time.Second).Unix()), "failed"},
		"no expiry":        {jane(admin).with("exp", nil), "failed"},
		"issued later":     {jane(admin).with("iat", now.Add(2*time.Minute).Unix()), "failed"},
		"not issued":       {jane(admin).with("iat", nil), "failed"},
		"not yet":          {jane(admin).with("nbf", now.Add(6*time.Minute).Unix()), "failed"},
		"no subject":       {jane(admin).with("sub", nil), "failed"},
		"empty subject":    {jane(admin).with("sub", ""), "failed"},
		"number":           {jane(admin).with("sub", 7), "failed"},
		"subject's case":   {jane(admin).with("sub", nil).with("Sub", "jane"), "failed"},
		"endless subject":  {jane(admin).with("sub", strings.Repeat("x", 256)), "failed"},
		"nonce's own case": {jane(admin).with("nonce", nil).with("NONCE", "another"), "nonce_mismatch"},
	} {
		if _, reason := h.sso(t, p, x.who); reason != x.want {
			t.Errorf("%s: %s", name, reason)
		}
	}
	// A clock may be a little ahead.
	if session, reason := h.sso(t, p, jane(admin).with("iat", now.Add(30*time.Second).Unix())); session == "" {
		t.Error(reason)
	}
	if h.Rows(t, "account_sessions") != 2 {
		t.Errorf("%d sessions", h.Rows(t, "account_sessions"))
	}
	// A token with another nonce was made for another login: the audit log says so.
	if e := h.entries(t, "auth.login.failed"); len(e) != 4 || !strings.Contains(string(e[0].Details), `"nonce_mismatch"`) {
		t.Errorf("audit %+v", e)
	}
}

// OI-08: tokens that the provider has not signed.
func TestOI08ForgedTokens(t *testing.T) {
	h := newHouse(t)
	p := newIDP(t, h)
	h.trust(t, h.enter(t, admin, plain), p)
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(p.Keypair.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	keys, err := p.Keypair.JWKS()
	if err != nil {
		t.Fatal(err)
	}
	kid, err := p.Keypair.KeyID()
	if err != nil {
		t.Fatal(err)
	}
	resign := func(m jwt.SigningMethod, key any, header map[string]any) func(string) string {
		return func(token string) string {
			claims := jwt.MapClaims{}
			if _, _, err := jwt.NewParser().ParseUnverified(token, claims); err != nil {
				t.Error(err)
			}
			x := jwt.NewWithClaims(m, claims)
			x.Header["kid"] = kid
			for name, v := range header {
				x.Header[name] = v
			}
			s, err := x.SignedString(key)
			if err != nil {
				t.Error(err)
			}
			return s
		}
	}
	for name, forge := range map[string]func(string) string{
		"none":               resign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil),
		"None":               resign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, map[string]any{"alg": "None"}),
		"HS256, public DER":  resign(jwt.SigningMethodHS256, der, nil),
		"HS256, public PEM":  resign(jwt.SigningMethodHS256, public, nil),
		"HS256, JWKS":        resign(jwt.SigningMethodHS256, keys, nil),
		"HS256, our secret":  resign(jwt.SigningMethodHS256, []byte(p.ClientSecret), nil),
		"another key":        resign(jwt.SigningMethodRS256, stranger, nil),
		"another key, named": resign(jwt.SigningMethodRS256, stranger, map[string]any{"kid": "another"}),
		"its own key":        resign(jwt.SigningMethodRS256, stranger, map[string]any{"kid": "x", "jwk": map[string]any{"kty": "RSA"}, "jku": "https://evil.example/keys"}),
		"RS512":              resign(jwt.SigningMethodRS512, p.Keypair.PrivateKey, nil), // the provider does not announce it
		"no signature":       func(token string) string { return token[:strings.LastIndexByte(token, '.')+1] },
		"changed": func(token string) string {
			parts := strings.Split(token, ".")
			b, _ := base64.RawURLEncoding.DecodeString(parts[1])
			b = []byte(strings.Replace(string(b), `"email_verified":true`, `"email_verified": true`, 1))
			return parts[0] + "." + base64.RawURLEncoding.EncodeToString(b) + "." + parts[2]
		},
		"nonsense": func(string) string { return "nonsense" },
		"nothing":  func(string) string { return "" },
	} {
		p.forge = forge
		if _, reason := h.sso(t, p, jane(admin)); reason != "failed" {
			t.Errorf("%s: %s", name, reason)
		}
	}
	p.forge = resign(jwt.SigningMethodRS256, p.Keypair.PrivateKey, nil)
	if session, reason := h.sso(t, p, jane(admin)); session == "" {
		t.Errorf("a token that is right: %s", reason)
	}
}

func TestOI09Subjects(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	p := newIDP(t, h)
	h.trust(t, root, p)
	id := h.add(t, root, "a@example.net", "viewer")
	h.add(t, root, "b@example.net", "viewer")
	if session, reason := h.sso(t, p, jane("a@example.net")); session == "" {
		t.Fatal(reason)
	}
	if _, reason := h.sso(t, p, jane("a@example.net").with("sub", "joan")); reason != "subject_mismatch" {
		t.Errorf("another subject with the address of A: %s", reason)
	}
	if _, reason := h.sso(t, p, jane("b@example.net")); reason != "subject_mismatch" {
		t.Errorf("the subject of A with the address of B: %s", reason)
	}
	if _, reason := h.sso(t, p, jane("a@example.net").with("sub", "JANE")); reason != "subject_mismatch" {
		t.Errorf("the subject in another case: %s", reason)
	}
	if session, reason := h.sso(t, p, jane("b@example.net").with("sub", "bob")); session == "" {
		t.Error(reason)
	}
	// An admin lets a user be linked again.
	h.do(t, root, http.MethodDelete, "/users/"+id+"/oidc-subject", nil).Want(t, http.StatusOK)
	if session, reason := h.sso(t, p, jane("a@example.net").with("sub", "joan")); session == "" {
		t.Error(reason)
	}
	if h.Audited(t, "user.oidc-subject.delete") != 1 {
		t.Error("not audited")
	}
	// A link means nothing at another provider.
	second := newIDP(t, h)
	h.trust(t, root, second)
	if session, reason := h.sso(t, second, jane("b@example.net")); session == "" {
		t.Errorf("at another provider: %s", reason)
	}
	for _, e := range h.entries(t, "auth.login.failed") {
		if !strings.Contains(string(e.Details), `"subject_mismatch"`) {
			t.Errorf("audit %s", e.Details)
		}
	}
}

func TestOI10ClientSecretAndSettings(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	const mark = "a client secret that nobody sees"
	put := func(body map[string]any) map[string]any {
		t.Helper()
		var out map[string]any
		h.do(t, root, http.MethodPut, "/oidc/settings", body).Want(t, http.StatusOK).Into(t, &out)
		return out
	}
	refuse := func(field string, body map[string]any) {
		t.Helper()
		h.do(t, root, http.MethodPut, "/oidc/settings", body).WantField(t, field)
	}
	column := func() (b []byte) {
		t.Helper()
		if err := h.DB.QueryRow(t.Context(), "SELECT client_secret FROM account_oidc_settings").Scan(&b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := h.do(t, root, http.MethodGet, "/oidc/settings", nil).Want(t, http.StatusOK)
	if !strings.Contains(string(first.Body), `"scopes":["openid","email","profile"]`) || !strings.Contains(string(first.Body), `"client_secret_configured":false`) {
		t.Errorf("%s", first.Body)
	}
	out := put(map[string]any{"enabled": true, "issuer": "https://login.example.net/realm", "client_id": "gateway", "client_secret": mark})
	if out["client_secret_configured"] != true || out["client_secret"] != nil {
		t.Errorf("%v", out)
	}
	kept := column()
	if len(kept) == 0 || strings.Contains(string(kept), mark) {
		t.Error("the column is not ciphertext")
	}
	get := h.do(t, root, http.MethodGet, "/oidc/settings", nil)
	if strings.Contains(string(get.Body), mark) {
		t.Errorf("%s", get.Body)
	}
	put(map[string]any{"client_id": "gateway2"})
	put(map[string]any{"client_secret": "***SET***"})
	h.do(t, root, http.MethodPut, "/oidc/settings", string(get.Data)).Want(t, http.StatusOK) // what was read is good to write
	if string(column()) != string(kept) {
		t.Error("the secret has changed")
	}
	refuse("client_secret", map[string]any{"issuer": "https://evil.example"})
	put(map[string]any{"issuer": "https://login2.example.net", "client_secret": "another one"})
	if out := put(map[string]any{"client_secret": nil}); out["client_secret_configured"] != false {
		t.Errorf("%v", out)
	}
	for _, issuer := range []string{"http://login.example.net", "ftp://x", "login.example.net", "https://x?y", "https://x#y", "https://user@x", "https://", "javascript:alert(1)", "https://x\ny"} {
		refuse("issuer", map[string]any{"issuer": issuer})
	}
	put(map[string]any{"issuer": "http://login.example.net", "allow_internal": true})
	refuse("issuer", map[string]any{"allow_internal": false})
	refuse("issuer", map[string]any{"issuer": ""})
	refuse("client_id", map[string]any{"client_id": ""})
	refuse("scopes", map[string]any{"scopes": []string{"email"}})
	refuse("scopes", map[string]any{"scopes": []string{"openid", "a b"}})
	h.add(t, root, "b@example.net", "viewer")
	viewer := h.enter(t, "b@example.net", plain)
	h.do(t, viewer, http.MethodGet, "/oidc/settings", nil).Want(t, http.StatusForbidden)
	h.do(t, viewer, http.MethodPut, "/oidc/settings", map[string]any{}).Want(t, http.StatusForbidden)
	h.do(t, viewer, http.MethodPost, "/oidc/test", map[string]any{}).Want(t, http.StatusForbidden)
	h.do(t, viewer, http.MethodPost, "/change-sets", map[string]any{"preview": true, "operations": []any{
		map[string]any{"kind": "oidc.settings", "verb": "update", "id": out["id"], "body": map[string]any{}},
	}}).Want(t, http.StatusForbidden)
	if n := h.Audited(t, "oidc.settings.update"); n < 5 {
		t.Errorf("%d audit entries", n)
	}
}

func TestProviderRefusesOrIsAway(t *testing.T) {
	h := newHouse(t)
	p := newIDP(t, h)
	root := h.enter(t, admin, plain)
	h.trust(t, root, p)
	// The person refuses, or the provider does.
	query, flow := h.signOn(t, p, jane(admin))
	state := "state=" + strings.Split(strings.Split(query, "state=")[1], "&")[0]
	if _, reason := h.callback(t, state+"&error=access_denied", flow); reason != "denied" {
		t.Errorf("denied: %s", reason)
	}
	_, flow = h.signOn(t, p, jane(admin))
	if _, reason := h.callback(t, state+"&error=access_denied", flow); reason != "state_mismatch" {
		t.Errorf("denied with another state: %s", reason)
	}
	query, flow = h.signOn(t, p, jane(admin))
	state = "state=" + strings.Split(strings.Split(query, "state=")[1], "&")[0]
	if _, reason := h.callback(t, state+"&code=wrong", flow); reason != "failed" {
		t.Errorf("wrong code: %s", reason)
	}
	// A client secret that is wrong.
	h.do(t, root, http.MethodPut, "/oidc/settings", map[string]any{"client_secret": "wrong"}).Want(t, http.StatusOK)
	if _, reason := h.sso(t, p, jane(admin)); reason != "failed" {
		t.Errorf("wrong client secret: %s", reason)
	}
	h.trust(t, root, p)
	// It goes away after its metadata and keys are known, and before.
	query, flow = h.signOn(t, p, jane(admin))
	if err := p.Server.Close(); err != nil {
		t.Fatal(err)
	}
	if _, reason := h.callback(t, query, flow); reason != "provider_unavailable" {
		t.Errorf("away at the exchange: %s", reason)
	}
	h.clock.Move(2 * time.Hour)
	if to := h.visit(t, "/auth/oidc/login").Header.Get("Location"); to != "/login?sso_error=provider_unavailable" {
		t.Errorf("away at the login: %s", to)
	}
}

// A provider that accepts the connection and stays silent is asked by one login, and delays none of the others longer than that.
func TestProviderDoesNotAnswer(t *testing.T) {
	t.Parallel() // mostly waiting
	h := newHouse(t)
	h.room.providers.within = time.Second
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var asked atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			asked.Add(1)
		}
	}()
	h.do(t, h.enter(t, admin, plain), http.MethodPut, "/oidc/settings", map[string]any{
		"enabled": true, "issuer": "http://" + l.Addr().String(), "client_id": "x", "allow_internal": true,
	}).Want(t, http.StatusOK)
	done := make(chan string, 10)
	for range cap(done) {
		go func() { done <- h.visit(t, "/auth/oidc/login").Header.Get("Location") }()
	}
	for range cap(done) {
		if to := <-done; to != "/login?sso_error=provider_unavailable" {
			t.Error(to)
		}
	}
	if n := int(asked.Load()); n == 0 || n == cap(done) {
		t.Errorf("%d logins have asked %d times", cap(done), n)
	}
}

func TestOIDCTestSaysWhatIsWrong(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	p := newIDP(t, h)
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.HandleFunc("/other/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"issuer":"https://secret.example","authorization_endpoint":"x","token_endpoint":"x","jwks_uri":"x"}`))
	})
	mux.HandleFunc("/bare/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"issuer":"` + server.URL + `/bare"}`))
	})
	for name, keys := range map[string]string{"gone": "/nowhere", "empty": "/keys", "html": "/html"} {
		mux.HandleFunc("/"+name+"/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"issuer":"` + server.URL + "/" + name + `","authorization_endpoint":"x","token_endpoint":"x","jwks_uri":"` + server.URL + keys + `"}`))
		})
	}
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":[]}`)) })
	mux.HandleFunc("/html", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`<p>secret body</p>`)) })
	mux.HandleFunc("/html2/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`<p>secret body</p>`)) })
	for issuer, want := range map[string]string{
		p.Issuer():               "",
		p.Issuer() + "/":         "issuer",
		server.URL + "/nowhere":  "discovery",
		server.URL + "/html2":    "discovery",
		server.URL + "/other":    "issuer",
		server.URL + "/bare":     "issuer",
		server.URL + "/gone":     "keys",
		server.URL + "/empty":    "keys",
		server.URL + "/html":     "keys",
		"http://127.0.0.1:1":     "discovery",
		"http://nowhere.invalid": "discovery",
	} {
		a := h.do(t, root, http.MethodPost, "/oidc/test", map[string]any{"issuer": issuer, "allow_internal": true}).Want(t, http.StatusOK)
		var out OIDCTest
		a.Into(t, &out)
		last := out.Steps[len(out.Steps)-1]
		if out.OK != (want == "") || want != "" && (last.Name != want || last.OK || last.Error == "") || strings.Contains(string(a.Body), "secret") {
			t.Errorf("%s: %s", issuer, a.Body)
		}
	}
	// As stored, with nothing given: there is no issuer.
	for _, body := range []any{nil, map[string]any{}} {
		if a := h.do(t, root, http.MethodPost, "/oidc/test", body).Want(t, http.StatusOK); !strings.Contains(string(a.Body), "the issuer is not set") {
			t.Errorf("%s", a.Body)
		}
	}
	h.do(t, root, http.MethodPost, "/oidc/test", map[string]any{"issuer": "nonsense"}).WantField(t, "issuer")
	if h.Audited(t, "oidc.test") == 0 {
		t.Error("not audited")
	}
}

// Unless the operator allows it, the provider must not be the machine itself.
func TestProviderInside(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	for _, issuer := range []string{"https://127.0.0.1:3443", "https://localhost:3443", "https://[::1]:3443", "https://169.254.169.254", "https://[fe80::1]", "https://0.0.0.0:3443", "https://[::ffff:127.0.0.1]"} {
		a := h.do(t, root, http.MethodPost, "/oidc/test", map[string]any{"issuer": issuer}).Want(t, http.StatusOK)
		if !strings.Contains(string(a.Body), "not allowed") {
			t.Errorf("%s: %s", issuer, a.Body)
		}
	}
	h.do(t, root, http.MethodPut, "/oidc/settings", map[string]any{"enabled": true, "issuer": "https://127.0.0.1:3443", "client_id": "x"}).Want(t, http.StatusOK)
	if to := h.visit(t, "/auth/oidc/login").Header.Get("Location"); to != "/login?sso_error=provider_unavailable" {
		t.Error(to)
	}
}

// New keys are fetched when a token names an unknown one, without new metadata.
func TestProviderChangesItsKeys(t *testing.T) {
	h := newHouse(t)
	p := newIDP(t, h)
	h.trust(t, h.enter(t, admin, plain), p)
	if session, reason := h.sso(t, p, jane(admin)); session == "" {
		t.Fatal(reason)
	}
	fresh, err := mockoidc.RandomKeypair(2048)
	if err != nil {
		t.Fatal(err)
	}
	p.Keypair = fresh
	if session, reason := h.sso(t, p, jane(admin)); session == "" {
		t.Error(reason)
	}
	if n := p.requests.Load(); n != 3 {
		t.Errorf("%d requests", n)
	}
}

func TestSSOFailsSoOften(t *testing.T) {
	h := newHouse(t)
	p := newIDP(t, h)
	h.trust(t, h.enter(t, admin, plain), p)
	for range 49 {
		_, flow := h.signOn(t, p, jane(admin))
		f, _ := h.room.flows.read(flow.Value)
		if _, reason := h.callback(t, "error=x&state="+f.State, flow); reason != "failed" {
			t.Fatal(reason)
		}
	}
	if session, reason := h.sso(t, p, jane(admin)); session == "" {
		t.Fatal(reason) // and it clears the failures
	}
	for range 50 {
		_, flow := h.signOn(t, p, jane(admin))
		f, _ := h.room.flows.read(flow.Value)
		h.callback(t, "error=x&state="+f.State, flow)
	}
	if _, reason := h.sso(t, p, jane(admin)); reason != "failed" {
		t.Error(reason)
	}
	if n := h.Rows(t, "account_oidc_states"); n != 100 {
		t.Errorf("%d states are remembered", n)
	}
	h.clock.Move(15 * time.Minute)
	if session, reason := h.sso(t, p, jane(admin)); session == "" {
		t.Error(reason)
	}
}

// A callback without its state is audited, and a flood of them does not fill the audit log.
func TestSSOStateMismatchIsAudited(t *testing.T) {
	h := newHouse(t)
	for range 60 {
		h.callback(t, "state=forged&code=x")
	}
	e := h.entries(t, "auth.login.failed")
	if len(e) != 51 || !strings.Contains(string(e[50].Details), `"state_mismatch"`) || !strings.Contains(string(e[0].Details), `"throttled"`) {
		t.Errorf("%d audit entries, %s … %s", len(e), e[len(e)-1].Details, e[0].Details)
	}
}

func TestSSOWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel() // mostly waiting
	h := newHouse(t)
	p := newIDP(t, h)
	h.trust(t, h.enter(t, admin, plain), p)
	query, flow := h.signOn(t, p, jane(admin))
	back := breakDatabase(t, h)
	if got := string(h.do(t, "", http.MethodGet, "/auth/oidc/settings", nil).Want(t, http.StatusOK).Data); got != `{"enabled":false,"issuer":""}` {
		t.Errorf("public settings %s", got)
	}
	if _, reason := h.callback(t, query, flow); reason != "failed" {
		t.Error(reason)
	}
	if to := h.visit(t, "/auth/oidc/login").Header.Get("Location"); to != "/login?sso_error=failed" {
		t.Error(to)
	}
	back()
	if session, reason := h.sso(t, p, jane(admin)); session == "" {
		t.Error(reason)
	}
}

func TestRoundsOfOneCallback(t *testing.T) {
	h := newHouse(t)
	p := newIDP(t, h)
	h.trust(t, h.enter(t, admin, plain), p)
	race(t, rounds(t), func() func(int) bool {
		h.clock.Move(time.Hour)
		query, flow := h.signOn(t, p, jane(admin))
		return func(int) bool { session, _ := h.callback(t, query, flow); return session != "" }
	})
}

// Of two users who come with one subject at the same time, one is linked.
func TestRoundsOfOneSubject(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	for i := range parallel {
		h.exec(t, `INSERT INTO account_users (id, created_at, updated_at, email, name, role, active, password, totp_enabled, oidc_subject)
			VALUES (gen_random_uuid(), now(), now(), $1, '', 'viewer', true, '', false, '')`, email(i))
	}
	p := newIDP(t, h)
	h.trust(t, root, p)
	race(t, (rounds(t)+9)/10, func() func(int) bool { // each round has many to prepare
		h.clock.Move(time.Hour)
		h.exec(t, "UPDATE account_users SET oidc_subject = ''")
		var queries [parallel]string
		var flows [parallel]*http.Cookie
		for i := range parallel {
			queries[i], flows[i] = h.signOn(t, p, jane(email(i)))
		}
		return func(i int) bool { session, _ := h.callback(t, queries[i], flows[i]); return session != "" }
	})
}

func email(i int) string { return string(rune('a'+i)) + "@many.example" }
