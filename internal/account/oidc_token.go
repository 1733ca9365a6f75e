package account

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// clockSkew is how far the provider's clock may be ahead.
const clockSkew = time.Minute

// confirmed is the identity confirmed by the provider.
type confirmed struct {
	subject, email string
	// unverified is why the address does not count; nil if it does.
	unverified error
}

// auditName returns the address for the audit log: unverified text from outside.
func (v *confirmed) auditName() string {
	text := strings.Map(printable, v.email)
	return strings.ToValidUTF8(text[:min(len(text), 254)], "")
}

func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return -1
	}
	return r
}

// idClaims are the claims that decide. They are read again by their exact names, because the library ignores the case of names, and some
// providers let their users choose additional claims.
type idClaims struct {
	Subject       string         `json:"sub"`
	Nonce         string         `json:"nonce"`
	Party         string         `json:"azp"`
	IssuedAt      *float64       `json:"iat"`
	Email         string         `json:"email"`
	EmailVerified jsontext.Value `json:"email_verified"`
}

// verifyIDToken verifies the token: signature, issuer, audience, expiry, and then what the library leaves to its caller.
func (r *Room) verifyIDToken(ctx context.Context, s *OIDCSettings, p *provider, f flow, raw string) (*confirmed, error) {
	if raw == "" {
		return nil, errors.New("the provider sent no ID token: check that openid is among the scopes")
	}
	verifier := p.Verifier(&oidc.Config{ClientID: s.ClientID, Now: r.Clock.Now})
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		if _, unreachable := errors.AsType[net.Error](err); unreachable || errors.Is(err, context.DeadlineExceeded) {
			return nil, errors.Join(ssoUnavailable, unreached(err))
		}
		return nil, fmt.Errorf("ID token: %w", err)
	}
	var payload jsontext.Value
	var c idClaims
	if err := token.Claims(&payload); err != nil {
		return nil, fmt.Errorf("ID token: %w", err)
	}
	if err := json.Unmarshal(payload, &c); err != nil {
		return nil, errors.New("ID token: the claims have other types than they should")
	}
	switch now := r.Clock.Now(); {
	case subtle.ConstantTimeCompare([]byte(c.Nonce), []byte(f.Nonce)) != 1:
		return nil, ssoNonce
	case c.Subject == "" || len(c.Subject) > 255 || c.Subject != token.Subject:
		return nil, errors.New("ID token: no subject")
	case c.IssuedAt == nil || token.IssuedAt.After(now.Add(clockSkew)):
		return nil, errors.New("ID token: issued in the future, or without a time")
	case c.Party != "" && c.Party != s.ClientID:
		return nil, errors.New("ID token: made for another party")
	}
	v := &confirmed{subject: c.Subject, email: c.Email}
	if string(c.EmailVerified) != "true" || c.Email == "" {
		v.unverified = ssoUnverified
	}
	return v, nil
}
