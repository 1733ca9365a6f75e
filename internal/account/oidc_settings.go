package account

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

const oidcTable = "account_oidc_settings"

// OIDCSettings configure the identity provider.
type OIDCSettings struct {
	resource.Meta
	resource.Secrets
	Enabled                bool        `json:"enabled" doc:"Whether users may log in by single sign-on."`
	Issuer                 Issuer      `json:"issuer" doc:"URL of the identity provider, exactly as it names itself."`
	ClientID               string      `json:"client_id" maxLength:"255" doc:"The gateway's id at the identity provider."`
	ClientSecret           secret.Text `json:"client_secret,omitzero" doc:"The gateway's secret at the identity provider. It must be entered again when the issuer changes."`
	ClientSecretConfigured bool        `json:"client_secret_configured" readOnly:"true" db:"-" doc:"Whether there is a client secret."`
	Scopes                 []Scope     `json:"scopes" doc:"Scopes to request from the identity provider; openid is required."`
	AllowInternal          bool        `json:"allow_internal" doc:"Allow an identity provider on this machine or in its networks, and without TLS."`
}

func (s *OIDCSettings) Label() string { return "single sign-on" }

// Validate reports settings that cannot work.
func (s *OIDCSettings) Validate() error {
	var c check.List
	c.That(s.AllowInternal || s.Issuer.IsZero() || strings.HasPrefix(s.Issuer.String(), "https://"), "issuer", "must be an https URL, unless internal addresses are allowed")
	c.That(!s.Enabled || !s.Issuer.IsZero(), "issuer", "is required when single sign-on is on")
	c.That(!s.Enabled || s.ClientID != "", "client_id", "is required when single sign-on is on")
	c.That(slices.ContainsFunc(s.Scopes, func(x Scope) bool { return x.String() == "openid" }), "scopes", "must include openid")
	return c.Err()
}

// host returns the part of the issuer that people recognize.
func (s *OIDCSettings) host() string {
	u, err := url.Parse(s.Issuer.String())
	if err != nil {
		return ""
	}
	return u.Host
}

func (r *Room) newOIDCSettings() resource.Singleton[OIDCSettings] {
	return resource.Singleton[OIDCSettings]{
		Name: "oidc.settings", Title: "single sign-on settings", Path: "/oidc/settings", Table: oidcTable, AdminOnly: true, Apart: true,
		Check: checkOIDCSettings,
	}
}

// checkOIDCSettings protects what belongs to the previous issuer: its secret is not sent to another one, where subjects also have no
// meaning.
func checkOIDCSettings(ctx context.Context, tx *db.Tx, was, now *OIDCSettings) error {
	if was.Issuer == now.Issuer {
		return nil
	}
	if _, fresh := now.ClientSecret.Fresh(); !resource.Restored(ctx) && was.ClientSecret.Set() && now.ClientSecret.Set() && !fresh {
		return fault.Field("client_secret", "must be entered again when the issuer changes")
	}
	tx.Queue("UPDATE account_users SET oidc_subject = '' WHERE oidc_subject <> ''")
	return nil
}

// Issuer is the URL of an identity provider. It is stored as typed, because tokens must contain it exactly.
type Issuer struct{ value.Text[issuer] }

type issuer struct{}

var issuerForm = regexp.MustCompile(`^https?://[A-Za-z0-9.\[\]:-]+(/[A-Za-z0-9._~!$&()*+,;=:@%/-]*)?$`)

func (issuer) Example() string { return "https://login.example.net/realms/staff" }

func (issuer) Parse(s string) (string, error) {
	if len(s) > 1024 || !issuerForm.MatchString(s) {
		return "", errors.New("must be a URL without query or fragment")
	}
	if u, err := url.Parse(s); err != nil || u.Hostname() == "" {
		return "", errors.New("must be a URL without query or fragment")
	}
	return s, nil
}

type Scope struct{ value.Text[scope] }

type scope struct{}

var scopeForm = regexp.MustCompile(`^[!#-\[\]-~]{1,100}$`)

func (scope) Example() string { return "email" }

func (scope) Parse(s string) (string, error) {
	if !scopeForm.MatchString(s) {
		return "", errors.New("must be one word")
	}
	return s, nil
}
