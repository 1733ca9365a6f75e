package account

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/jackc/pgx/v5"
	"golang.org/x/oauth2"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/throttle"
)

// OIDCAvailability is what the login page needs to know.
type OIDCAvailability struct {
	Enabled bool   `json:"enabled" doc:"Whether users may log in by single sign-on."`
	Issuer  string `json:"issuer" doc:"Host of the identity provider; empty when single sign-on is off."`
}

// ssoError is the reason of a failed single sign-on for the login page.
type ssoError string

const (
	ssoDisabled        ssoError = "sso_disabled"
	ssoState           ssoError = "state_mismatch"
	ssoNonce           ssoError = "nonce_mismatch"
	ssoDenied          ssoError = "denied"
	ssoUnavailable     ssoError = "provider_unavailable"
	ssoUnverified      ssoError = "email_unverified"
	ssoNoAccount       ssoError = "no_account"
	ssoInactive        ssoError = "account_disabled"
	ssoSubjectMismatch ssoError = "subject_mismatch"
	ssoFailed          ssoError = "failed"
)

func (e ssoError) Error() string { return string(e) }

// failure returns where to send the browser after an error. Details go to the log only, shortened, because they may contain the
// provider's words.
func (r *Room) failure(err error) string {
	reason, known := errors.AsType[ssoError](err)
	if !known {
		reason = ssoFailed
	}
	if text := strings.Map(printable, err.Error()); text != string(reason) {
		r.Log.Warn("single sign-on failed", "reason", string(reason), "err", text[:min(len(text), 300)])
	}
	return "/login?sso_error=" + string(reason)
}

func (r *Room) mountOIDC() {
	httpd.Handle(r.Router, http.MethodGet, "/auth/oidc/settings", httpd.Public.BeforeSetup(),
		httpd.Doc{ID: "auth.oidc.settings", Tag: "auth", Summary: "Whether single sign-on is on"},
		func(c *httpd.Call, _ struct{}) (OIDCAvailability, error) {
			s, err := r.oidc.Load(c, r.DB)
			if fault.Is(err, fault.Unavailable) {
				return OIDCAvailability{}, nil
			}
			if err != nil || !s.Enabled {
				return OIDCAvailability{}, err
			}
			return OIDCAvailability{true, s.host()}, nil
		})
	httpd.Redirect(r.Router, "/auth/oidc/login", httpd.Public.BeforeSetup(),
		httpd.Doc{ID: "auth.oidc.login", Tag: "auth", Summary: "Log in by single sign-on: go to the identity provider"},
		func(c *httpd.Call, _ struct{}) string {
			to, err := r.toProvider(c)
			if err != nil {
				return r.failure(err)
			}
			return to
		})
	httpd.Redirect(r.Router, "/auth/oidc/callback", httpd.Public.BeforeSetup(),
		httpd.Doc{ID: "auth.oidc.callback", Tag: "auth", Summary: "Come back from the identity provider: to the console with a session, or to the login page with an sso_error", Audit: "auth.login.success"},
		func(c *httpd.Call, in Callback) string {
			c.SetCookie(flowCookieOf("", -time.Second))
			if err := r.fromProvider(c, in); err != nil {
				return r.failure(err)
			}
			return "/"
		})
}

// Callback is what the identity provider sends back through the browser.
type Callback struct {
	State string `query:"state" doc:"What the gateway gave the browser to bring back."`
	Code  string `query:"code" doc:"What the gateway exchanges for a token."`
	Error string `query:"error" doc:"Why the identity provider refuses."`
}

// toProvider begins a single sign-on, and returns where the browser must go.
func (r *Room) toProvider(c *httpd.Call) (string, error) {
	s, p, err := r.provider(c)
	if err != nil {
		return "", err
	}
	f, cookie, err := r.flows.begin()
	if err != nil {
		return "", err
	}
	c.SetCookie(cookie)
	return p.oauth(s, "", r.callbackURL()).AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

// provider returns the identity provider, if single sign-on is on and the provider is reachable.
func (r *Room) provider(ctx context.Context) (*OIDCSettings, *provider, error) {
	s, err := r.oidc.Load(ctx, r.DB)
	if err != nil {
		return nil, nil, err
	}
	if !s.Enabled || r.deps.FQDN() == "" {
		return nil, nil, ssoDisabled
	}
	p, err := r.providers.get(ctx, s)
	if err != nil {
		return nil, nil, errors.Join(ssoUnavailable, err)
	}
	return s, p, nil
}

func (r *Room) callbackURL() string { return "https://" + r.deps.FQDN() + flowPath + "/callback" }

// fromProvider completes a single sign-on with a session.
func (r *Room) fromProvider(c *httpd.Call, in Callback) error {
	// Anyone can send a callback, which costs an audit entry, a row and a request, so they are limited per address.
	attempt, err := r.signOns.Begin("", throttle.Address(c.Client()))
	if err != nil {
		r.refused(c, anonymous, err)
		return err
	}
	who, err := r.signOn(c, in)
	if reason, ok := errors.AsType[ssoError](err); ok && who != nil {
		r.loginFailed(c, who.auditName(), string(reason))
	} else if ok && (reason == ssoState || reason == ssoNonce) {
		r.loginFailed(c, anonymous, string(reason))
	}
	if err == nil {
		attempt.Succeeded()
	}
	return err
}

// anonymous stands for callers who fail before the provider has identified them.
const anonymous = "single sign-on"

// signOn logs in the user identified by the provider, and returns the identity.
func (r *Room) signOn(c *httpd.Call, in Callback) (*confirmed, error) {
	ctx, cancel := context.WithTimeout(c, providerWithin)
	defer cancel()
	f, ok := r.flows.of(c.Request, in.State)
	if !ok {
		return nil, ssoState
	}
	if err := r.settle(ctx); err != nil {
		return nil, err
	}
	if err := r.spendState(ctx, f); err != nil {
		return nil, err
	}
	switch in.Error {
	case "":
	case "access_denied":
		return nil, ssoDenied
	default:
		return nil, ssoFailed
	}
	s, p, err := r.provider(ctx)
	if err != nil {
		return nil, err
	}
	v, err := r.exchangeCode(ctx, s, p, f, in.Code)
	if err != nil {
		return nil, err
	}
	opened, who, err := r.beginBySubject(c, v)
	if err == nil {
		_, err = r.enter(c, opened, who, false)
	}
	return v, err
}

// spendState makes sure that a state is used once. It is remembered as long as its cookie is valid.
func (r *Room) spendState(ctx context.Context, f flow) error {
	return r.DB.Write(ctx, func(tx *db.Tx) error {
		tag, err := tx.Exec(ctx, "INSERT INTO account_oidc_states (hash, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING", hashTicket(f.State), f.ExpiresAt.Time)
		if err == nil && tag.RowsAffected() == 0 {
			err = ssoState
		}
		return err
	})
}

// exchangeCode gets and verifies the ID token.
func (r *Room) exchangeCode(ctx context.Context, s *OIDCSettings, p *provider, f flow, code string) (*confirmed, error) {
	clientSecret, err := s.ClientSecret.Open(r.Secrets, oidcTable, "client_secret", s.ID.String())
	if err != nil {
		return nil, err
	}
	token, err := p.oauth(s, clientSecret, r.callbackURL()).Exchange(oidc.ClientContext(ctx, p.client), code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		if answered, ok := errors.AsType[*oauth2.RetrieveError](err); ok && answered.Response.StatusCode < 500 {
			return nil, errors.New("the provider refused the code: " + answered.ErrorCode)
		}
		return nil, errors.Join(ssoUnavailable, unreached(err))
	}
	raw, _ := token.Extra("id_token").(string)
	return r.verifyIDToken(ctx, s, p, f, raw)
}

// beginBySubject begins a session of the user identified by the provider. The role comes from the database. The first time, the user is
// linked to the subject in the same write that checks the rest: nobody else has the subject, and the user has no other.
func (r *Room) beginBySubject(c *httpd.Call, v *confirmed) (s session, who Identity, err error) {
	if v.unverified != nil {
		return s, who, v.unverified
	}
	who.AuthMethod = byOIDC
	err = r.DB.Write(c, func(tx *db.Tx) error {
		err := tx.QueryRow(c, `UPDATE account_users SET oidc_subject = $2, last_login_at = $3 WHERE email = $1 AND active AND oidc_subject IN ('', $2)
			RETURNING id, email, role`, v.email, v.subject, r.Clock.Now()).Scan(&who.ID, &who.Email, &who.Role)
		if err != nil {
			return err
		}
		if s, err = newSession(who.ID, r.Clock.Now()); err != nil {
			return err
		}
		return r.open(c, tx, s, who)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = r.whyNot(c, v)
	case fault.Is(err, fault.Conflict):
		err = ssoSubjectMismatch
	}
	return s, who, err
}

// whyNot explains why a user identified by the provider gets no session.
func (r *Room) whyNot(ctx context.Context, v *confirmed) error {
	var active bool
	err := r.DB.QueryRow(ctx, "SELECT active FROM account_users WHERE email = $1", v.email).Scan(&active)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ssoNoAccount
	case err != nil:
		return err
	case !active:
		return ssoInactive
	}
	return ssoSubjectMismatch
}
