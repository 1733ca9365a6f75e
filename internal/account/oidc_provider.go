package account

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/outbound"
)

const (
	// providerTTL is how long the description of an identity provider is cached.
	providerTTL = time.Hour
	// providerWithin is how long a login waits for it.
	providerWithin = 4500 * time.Millisecond
)

// signatures lists the accepted algorithms: only those with a key that the provider alone has.
var signatures = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}

// description is an identity provider's metadata.
type description struct {
	Issuer      string   `json:"issuer"`
	AuthURL     string   `json:"authorization_endpoint"`
	TokenURL    string   `json:"token_endpoint"`
	KeysURL     string   `json:"jwks_uri"`
	Algorithms  []string `json:"id_token_signing_alg_values_supported"`
	AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
}

// provider is an identity provider with its metadata.
type provider struct {
	description
	*oidc.Provider
	client *http.Client
	at     time.Time
}

// providerKey is what the metadata depends on.
type providerKey struct {
	issuer   string
	internal bool
}

// providers caches the identity provider's metadata and keys.
type providers struct {
	clock           clock.Clock
	public, private *http.Client
	within          time.Duration // see providerWithin
	asking          singleflight.Group
	mu              sync.Mutex
	key             providerKey
	known           *provider
}

func newProviders(k *kit.Kit) *providers {
	return &providers{clock: k.Clock, public: k.Outbound.Client(false), private: k.Outbound.Client(true), within: providerWithin}
}

func (p *providers) client(internal bool) *http.Client {
	if internal {
		return p.private
	}
	return p.public
}

// get returns the configured provider. Its metadata is fetched once an hour, by one of those who wait for it.
func (p *providers) get(ctx context.Context, s *OIDCSettings) (*provider, error) {
	key := providerKey{s.Issuer.String(), s.AllowInternal}
	p.mu.Lock()
	known := p.known
	if p.key != key || known == nil || p.clock.Now().Sub(known.at) >= providerTTL {
		known = nil
	}
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	asked := p.asking.DoChan(fmt.Sprint(key), func() (any, error) {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.within)
		defer cancel()
		fresh, err := p.ask(asking, key)
		if err == nil {
			p.mu.Lock()
			p.key, p.known = key, fresh
			p.mu.Unlock()
		}
		return fresh, err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case res := <-asked:
		if res.Err != nil {
			return nil, res.Err
		}
		return res.Val.(*provider), nil
	}
}

func (p *providers) ask(ctx context.Context, key providerKey) (*provider, error) {
	client := p.client(key.internal)
	d, err := discover(ctx, client, key.issuer)
	if err == nil {
		err = d.complain(key.issuer)
	}
	if err != nil {
		return nil, err
	}
	algorithms := slices.DeleteFunc(slices.Clone(signatures), func(a string) bool { return !slices.Contains(d.Algorithms, a) })
	if len(algorithms) == 0 {
		algorithms = []string{oidc.RS256}
	}
	config := oidc.ProviderConfig{IssuerURL: d.Issuer, AuthURL: d.AuthURL, TokenURL: d.TokenURL, JWKSURL: d.KeysURL, Algorithms: algorithms}
	return &provider{description: *d, Provider: config.NewProvider(oidc.ClientContext(ctx, client)), client: client, at: p.clock.Now()}, nil
}

// discover fetches a provider's metadata.
func discover(ctx context.Context, client *http.Client, issuer string) (*description, error) {
	d := new(description)
	return d, fetch(ctx, client, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration", d)
}

// fetch reads a JSON document. Its errors never contain what the other side says.
func fetch(ctx context.Context, client *http.Client, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return errors.New("its address is not a URL")
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%s cannot be reached: %w", req.URL.Host, unreached(err))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d for %s", req.URL.Host, res.StatusCode, req.URL.Path)
	}
	if err := json.UnmarshalRead(res.Body, into); err != nil {
		return fmt.Errorf("the answer of %s for %s is not the expected document", req.URL.Host, req.URL.Path)
	}
	return nil
}

// unreached explains why a request failed, without its content.
func unreached(err error) error {
	if refused, ok := errors.AsType[*outbound.Refused](err); ok {
		return refused
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("it did not answer in time")
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}

// complain reports what is missing or wrong in the metadata.
func (d *description) complain(issuer string) error {
	switch {
	case d.Issuer != issuer:
		return errors.New("the provider states another issuer: enter it exactly as the provider writes it")
	case d.AuthURL == "" || d.TokenURL == "" || d.KeysURL == "":
		return errors.New("the provider does not say where to log in, to exchange codes, or to find its keys")
	}
	return nil
}

// oauth returns the gateway's OAuth client for the provider.
func (p *provider) oauth(s *OIDCSettings, clientSecret, redirect string) *oauth2.Config {
	style := oauth2.AuthStyleAutoDetect
	if slices.Equal(p.AuthMethods, []string{"client_secret_post"}) {
		style = oauth2.AuthStyleInParams
	}
	scopes := make([]string, len(s.Scopes))
	for i, x := range s.Scopes {
		scopes[i] = x.String()
	}
	return &oauth2.Config{
		ClientID: s.ClientID, ClientSecret: clientSecret, RedirectURL: redirect, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: p.AuthURL, TokenURL: p.TokenURL, AuthStyle: style},
	}
}
