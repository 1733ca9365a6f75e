package account

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json/jsontext"

	"edge.internal/gateway/internal/kit/httpd"
)

// OIDCTest is the result of a test of the settings.
type OIDCTest struct {
	OK    bool       `json:"ok" doc:"Whether every step was right."`
	Steps []OIDCStep `json:"steps" doc:"The steps in order, up to the first that failed."`
}

// OIDCStep is one step of such a test.
type OIDCStep struct {
	Name  string `json:"name" enum:"discovery,issuer,keys" doc:"Finding the provider's description, that it is the right provider's, and its keys."`
	OK    bool   `json:"ok" doc:"Whether the step was right."`
	Error string `json:"error" doc:"What is wrong; empty when nothing is."`
}

func (r *Room) mountOIDCTest() {
	httpd.Handle(r.Router, http.MethodPost, "/oidc/test", httpd.Write.Here(),
		httpd.Doc{ID: "oidc.test", Tag: "oidc", Summary: "Test the connection to the identity provider with the saved settings, overridden by the given fields", Audit: "oidc.test"},
		func(c *httpd.Call, in struct{ Body httpd.Onto[OIDCSettings] }) (OIDCTest, error) {
			s, err := r.oidc.Load(c, r.DB)
			if err != nil {
				return OIDCTest{}, err
			}
			if in.Body.Given() {
				if *s, err = in.Body.Decode(*s); err != nil {
					return OIDCTest{}, err
				}
			}
			result := r.providers.test(c, s)
			return result, r.Audit.Record(c, "oidc.test", s.Issuer.String(), map[string]any{"ok": result.OK})
		})
}

// usable reports whether a key verifies signatures. A provider may have others.
func usable(encoded jsontext.Value) bool {
	var key jose.JSONWebKey
	return key.UnmarshalJSON(encoded) == nil && key.IsPublic() && key.Use != "enc"
}

// test tries the provider step by step.
func (p *providers) test(ctx context.Context, s *OIDCSettings) OIDCTest {
	ctx, cancel := context.WithTimeout(ctx, 2*providerWithin)
	defer cancel()
	client := p.client(s.AllowInternal)
	var d *description
	var out OIDCTest
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"discovery", func() (err error) {
			if s.Issuer.IsZero() {
				return errors.New("the issuer is not set")
			}
			d, err = discover(ctx, client, s.Issuer.String())
			return err
		}},
		{"issuer", func() error { return d.complain(s.Issuer.String()) }},
		{"keys", func() error {
			var set struct {
				Keys []jsontext.Value `json:"keys"`
			}
			if err := fetch(ctx, client, d.KeysURL, &set); err != nil {
				return err
			}
			if !slices.ContainsFunc(set.Keys, usable) {
				return errors.New("the provider has no key that signs ID tokens")
			}
			return nil
		}},
	} {
		result := OIDCStep{Name: step.name, OK: true}
		if err := step.do(); err != nil {
			result.OK, result.Error = false, err.Error()
		}
		out.Steps = append(out.Steps, result)
		if !result.OK {
			return out
		}
	}
	out.OK = true
	return out
}
