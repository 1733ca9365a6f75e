package account

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/kittest"
)

// exposed is all output of the gateway, except for the one answer that may show a secret.
type exposed struct {
	strings.Builder
	secrets map[string]string
}

func (s *exposed) add(a *kittest.Answer) *kittest.Answer {
	s.Write(a.Body)
	for _, values := range a.Header {
		s.WriteString(strings.Join(values, " "))
	}
	return a
}

// What is shown once is in no other answer, nor in the audit log, the log or the database.
func TestShownOnceAndNeverAgain(t *testing.T) {
	h := newHouse(t)
	s := &exposed{secrets: map[string]string{"password": plain, "wrong password": "a wrong password", "signing secret": string(h.room.signer.key), "key of the flows": string(h.room.flows.key)}}
	session := h.enter(t, admin, plain)
	s.secrets["session"] = strings.TrimPrefix(session, "gateway_session=")

	// A second factor, used rightly and wrongly.
	a := h.enrol(t, session)
	s.secrets["TOTP secret"] = a.secret
	for i, code := range a.codes {
		s.secrets[fmt.Sprintf("recovery code %d", i)] = code
		s.secrets[fmt.Sprintf("recovery code %d as it is hashed", i)] = strings.ReplaceAll(code, "-", "")
	}
	s.add(h.login(t, admin, "a wrong password", here))
	challenge := h.firstStep(t, admin)
	s.secrets["challenge"] = challenge
	for _, code := range []string{"000000", a.codes[0] + "x", a.codes[0]} {
		s.add(h.secondStep(t, challenge, code, here))
	}
	s.add(h.secondStep(t, challenge, a.codes[1], here))
	s.add(h.do(t, session, http.MethodPost, "/auth/totp/setup", nil))
	s.add(h.do(t, session, http.MethodPost, "/auth/totp/enable", map[string]any{"code": a.codes[1]}))
	s.add(h.do(t, session, http.MethodPost, "/auth/totp/disable", map[string]any{"password": "a wrong password"}))

	// A token.
	token, _ := h.token(t, session, "ci", "admin")
	s.secrets["API token"] = token
	s.add(h.do(t, session, http.MethodPost, "/api-tokens", map[string]any{"name": "ci", "role": "admin"}).Want(t, http.StatusConflict))
	s.add(h.by(t, token, http.MethodPost, "/users", map[string]any{"email": "b@example.net", "password": plain}))
	s.add(h.by(t, token+"x", http.MethodGet, "/auth/me", nil))

	// Single sign-on, used rightly and wrongly.
	p := newIDP(t, h)
	h.trust(t, session, p)
	s.secrets["client secret"] = p.ClientSecret
	for _, who := range []person{jane(admin), jane("nobody@example.net"), jane(admin).with("email_verified", false), jane(admin).with("nonce", "x")} {
		query, flow := h.signOn(t, p, who)
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		s.secrets["code of "+fmt.Sprint(who)] = values.Get("code")
		s.secrets["flow of "+fmt.Sprint(who)] = flow.Value
		f, err := h.room.flows.read(flow.Value)
		if err != nil {
			t.Fatal(err)
		}
		s.secrets["verifier of "+fmt.Sprint(who)] = f.Verifier
		h.callback(t, query, flow)
	}
	s.add(h.do(t, session, http.MethodPut, "/oidc/settings", map[string]any{"client_secret": p.ClientSecret, "issuer": "nonsense"}))
	s.add(h.do(t, session, http.MethodPut, "/oidc/settings", map[string]any{"client_secret": p.ClientSecret}))
	s.add(h.do(t, session, http.MethodPost, "/oidc/test", map[string]any{"client_secret": p.ClientSecret}))

	// A passkey.
	d := newDevice(fqdn)
	s.add(h.register(t, session, d))

	for _, path := range []string{"/users", "/auth/me", "/auth/sessions", "/auth/passkeys", "/api-tokens", "/api-tokens?all=true", "/oidc/settings", "/auth/oidc/settings"} {
		s.add(h.do(t, session, http.MethodGet, path, nil).Want(t, http.StatusOK))
	}
	for _, e := range h.entries(t, "") {
		fmt.Fprintf(s, "%s %s %s %s\n", e.Actor, e.Action, e.Subject, e.Details)
	}
	s.WriteString(h.Logs.String())
	var dump string
	if err := h.DB.QueryRow(t.Context(), `SELECT string_agg(query_to_xml(format('SELECT * FROM %I', table_name), true, true, '')::text, '')
		FROM information_schema.tables WHERE table_schema = 'public'`).Scan(&dump); err != nil {
		t.Fatal(err)
	}
	s.WriteString(dump)
	for name, secret := range s.secrets {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret))} {
			if secret == "" || strings.Contains(s.String(), form) {
				t.Errorf("the %s was exposed", name)
			}
		}
	}
}
