package certificate

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/acme/api"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/go-acme/lego/v5/lego"
	"github.com/go-acme/lego/v5/registration"
	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/kit/secret"
)

const (
	// orderWithin limits one order, including the wait for name servers.
	orderWithin = 5 * time.Minute
	// askWithin limits one request to a certificate authority or a DNS service: some do work before they answer.
	askWithin = 30 * time.Second
)

// account is the gateway's account at one certificate authority, as stored in a file.
type account struct {
	Directory    string                `json:"directory"`
	Email        string                `json:"email"`
	Key          string                `json:"key"`
	Registration *acme.ExtendedAccount `json:"registration"`
	key          crypto.Signer
}

// GetEmail returns the contact address for the certificate authority.
func (a *account) GetEmail() string { return a.Email }

// GetRegistration returns the authority's answer to the registration; nil before there is one.
func (a *account) GetRegistration() *acme.ExtendedAccount { return a.Registration }

// GetPrivateKey returns the key that identifies the account.
func (a *account) GetPrivateKey() crypto.Signer { return a.key }

func (r *Room) directory() string {
	if u := r.deps.ACME().DirectoryURL.String(); u != "" {
		return u
	}
	return lego.DirectoryURLLetsEncrypt
}

// accountPath returns the file of the account at a directory. Its name has the host for people, and part of a hash because one host may
// serve several directories.
func (r *Room) accountPath(directory string) string {
	sum := sha256.Sum256([]byte(directory))
	host := "ca"
	if u, err := url.Parse(directory); err == nil {
		host = strings.NewReplacer(":", "_", "[", "", "]", "").Replace(u.Host)
	}
	return r.Paths.State("acme/" + host + "-" + hex.EncodeToString(sum[:4]) + ".json")
}

func (r *Room) loadAccount(directory string) (*account, error) {
	b, err := os.ReadFile(r.accountPath(directory))
	if errors.Is(err, fs.ErrNotExist) {
		key, err := newKey(keyECDSA)
		if err != nil {
			return nil, err
		}
		text, err := keyText(key)
		return &account{Directory: directory, Key: text, key: key}, err
	}
	if err != nil {
		return nil, err
	}
	var a account
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, fmt.Errorf("reading %s: %w", r.accountPath(directory), err)
	}
	a.key, err = parseKey(a.Key)
	return &a, err
}

func (r *Room) saveAccount(a *account) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return secret.Save(r.accountPath(a.Directory), b)
}

// outside returns the client for requests to the certificate authority and to DNS services. It trusts a root in the gateway's folder
// besides the system's.
func (r *Room) outside() (*http.Client, error) {
	door := r.Outbound
	path := r.Paths.Config("acme-ca.pem")
	own, err := os.ReadFile(path)
	switch {
	case err == nil:
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(own) {
			return nil, failed(failedAccount, "%s has no certificate in it", path)
		}
		door = door.Trusting(roots)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	client := door.Client(false)
	client.Timeout = askWithin
	return client, nil
}

// login returns a client of the certificate authority, and registers an account if there is none. The lock keeps the first two orders
// from registering two accounts.
func (r *Room) login(ctx context.Context, directory string) (*lego.Client, error) {
	email := r.deps.ACME().Email.String()
	if a, err := r.loadAccount(directory); err == nil && a.Registration != nil && a.Email == email {
		return r.client(a)
	}
	r.accounts.Lock()
	defer r.accounts.Unlock()
	a, err := r.loadAccount(directory)
	if err != nil {
		return nil, failed(failedAccount, "the account cannot be read: %v", err)
	}
	client, err := r.client(a)
	known := a.Registration != nil
	if err != nil || known && a.Email == email {
		return client, err
	}
	a.Email = email
	if known {
		a.Registration, err = client.Registration.UpdateRegistration(ctx, agreed)
	}
	// A certificate authority that was reinstalled no longer knows the account.
	if !known || unknownAccount(err) {
		a.Registration = nil
		if client, err = r.client(a); err != nil {
			return nil, err
		}
		a.Registration, err = client.Registration.Register(ctx, agreed)
	}
	if err != nil {
		return nil, err
	}
	if err := r.saveAccount(a); err != nil {
		return nil, failed(failedAccount, "the account cannot be stored: %v", err)
	}
	return client, nil
}

// agreed accepts the authority's terms of service; turning ACME on means agreeing to them.
var agreed = registration.RegisterOptions{TermsOfServiceAgreed: true}

func unknownAccount(err error) bool {
	p, ok := errors.AsType[*acme.ProblemDetails](err)
	return ok && p.Type == acme.AccountDoesNotExistErrorType
}

// forget has the account at a directory registered again with the next order; its key stays.
func (r *Room) forget(directory string) error {
	r.accounts.Lock()
	defer r.accounts.Unlock()
	a, err := r.loadAccount(directory)
	if err != nil {
		return err
	}
	a.Registration = nil
	return r.saveAccount(a)
}

func (r *Room) client(a *account) (*lego.Client, error) {
	outside, err := r.outside()
	if err != nil {
		return nil, err
	}
	config := lego.NewConfig(a)
	config.CADirURL, config.HTTPClient, config.UserAgent = a.Directory, outside, "gateway/"+r.Version
	return lego.NewClient(config)
}

// issue is an issued certificate with its key.
type issue struct {
	chain     chain
	key       crypto.Signer
	renewAt   time.Time
	directory string // the authority's
}

// obtain orders a certificate. The library does not always notice that the context has ended; its goroutine is then left behind.
func (r *Room) obtain(ctx context.Context, row *Certificate) (*issue, error) {
	type result struct {
		issue *issue
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var out result
		out.err = r.safely(func() (err error) {
			directory := r.directory()
			out.issue, err = r.order(ctx, directory, row)
			if unknownAccount(err) {
				if err = r.forget(directory); err == nil {
					out.issue, err = r.order(ctx, directory, row)
				}
			}
			return err
		})
		done <- out
	}()
	select {
	case out := <-done:
		return out.issue, out.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// safely recovers from panics of the library, which trusts some of the authority's input too much.
func (r *Room) safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.Log.Error("unexpected answer of the certificate authority", "err", p, "stack", string(debug.Stack()))
			err = failed(failedOther, "the certificate authority sent an invalid answer; see the gateway's log")
		}
	}()
	return f()
}

func (r *Room) order(ctx context.Context, directory string, row *Certificate) (*issue, error) {
	solver, err := r.solver(ctx, row)
	if err != nil {
		return nil, err
	}
	client, err := r.login(ctx, directory)
	if err != nil {
		return nil, err
	}
	if !row.issued() {
		if err := r.cheapPreflight(ctx, row, client.GetServerMetadata().CaaIdentities); err != nil {
			return nil, err
		}
	}
	if row.Challenge == challengeDNS {
		err = client.Challenge.SetDNS01Provider(solver, dns01.WrapPreCheck(solver.propagated))
	} else {
		err = client.Challenge.SetHTTP01Provider(&r.responder)
	}
	if err != nil {
		return nil, err
	}
	key, err := newKey(row.KeyType)
	if err != nil {
		return nil, err
	}
	request := certificate.ObtainRequest{Domains: texts(row.Names), PrivateKey: key, Bundle: true, ReplacesCertID: replaces(row, directory)}
	got, err := client.Certificate.Obtain(ctx, request)
	if request.ReplacesCertID != "" && unknownPredecessor(err) {
		request.ReplacesCertID = ""
		got, err = client.Certificate.Obtain(ctx, request)
	}
	if err != nil {
		return nil, err
	}
	certs, err := parseChain(string(got.Certificate))
	if err != nil {
		return nil, failed(failedOther, "the certificate authority sent something that %v", err)
	}
	if !matches(certs.leaf(), key) {
		return nil, failed(failedOther, "the certificate authority sent a certificate for another key")
	}
	return &issue{certs, key, r.due(ctx, client, certs.leaf()), directory}, nil
}

// replaces returns the ARI id of the certificate that an order replaces. An authority does not count a renewal of its own certificate
// against its limits, but refuses the order if it did not issue that certificate.
func replaces(row *Certificate, directory string) string {
	if !row.issued() || row.DirectoryURL != directory {
		return ""
	}
	certs, err := parseChain(row.CertificatePEM)
	if err != nil {
		return ""
	}
	id, err := api.MakeARICertID(certs.leaf())
	if err != nil {
		return ""
	}
	return id
}

// unknownPredecessor reports whether an order may have been refused because of the certificate it replaces: the authority no longer knows
// it, or knows it under another account. Problems of a challenge carry no method and are no such refusal.
func unknownPredecessor(err error) bool {
	p, ok := errors.AsType[*acme.ProblemDetails](err)
	return ok && p.Method != "" && (p.Type == acme.MalformedErrorType || p.Type == acme.UnauthorizedErrorType)
}

// due returns when to renew a certificate: when the authority says so (ARI), or when a third of its lifetime is left. The time is spread,
// so that certificates issued together are not renewed together.
func (r *Room) due(ctx context.Context, client *lego.Client, leaf *x509.Certificate) time.Time {
	from, spread := lastThird(leaf.NotBefore, leaf.NotAfter), leaf.NotAfter.Sub(leaf.NotBefore)/30
	info, err := client.Certificate.GetRenewalInfo(ctx, leaf)
	switch {
	case err == nil && info.SuggestedWindow.End.After(info.SuggestedWindow.Start):
		from, spread = info.SuggestedWindow.Start, info.SuggestedWindow.End.Sub(info.SuggestedWindow.Start)
	case err != nil && !errors.Is(err, api.ErrNoARI):
		r.Log.Warn("the certificate authority did not say when to renew", "err", err)
	}
	return from.Add(rand.N(spread + 1)).UTC().Truncate(time.Second)
}

// warnings passes on the warnings in the library's log.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}
