package certificate_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/google/uuid"
	"github.com/miekg/dns"

	"edge.internal/gateway/internal/certificate"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
)

func leafOf(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		t.Fatalf("no certificate in %q", text)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

func (h *house) pairs(t *testing.T) map[string]certificate.Pair {
	t.Helper()
	list, err := h.room.Pairs(t.Context(), h.DB)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]certificate.Pair{}
	for _, p := range list {
		m[p.ID.String()] = p
	}
	return m
}

// A wanted certificate is self-signed until it is issued, and counts as renewed when the listener serves it.
func TestOrderByHTTP(t *testing.T) {
	w := newWorld(t, nil)
	c := w.create(t, map[string]any{"names": []string{"www.example.net", "shop.example.net"}, "key_type": "rsa-2048"})
	if c.Status != "pending" || c.Automatic || !sameNames(leafOf(t, c.PEM).DNSNames, "www.example.net", "shop.example.net") {
		t.Errorf("an order does not begin with a self-signed certificate: %+v", c)
	}
	if p := w.pairs(t)[c.ID]; p.Trusted || p.Fingerprint != c.Fingerprint || !sameNames(p.Names, "www.example.net", "shop.example.net") {
		t.Errorf("the proxy gets %+v", p)
	}
	w.want(certificate.Wanted{Names: []string{fqdn}})
	if w.room.Own() != nil {
		t.Error("the gateway has a certificate before it was ordered")
	}
	w.run(t)
	issued := w.until(t, c.ID, func(c row) bool { return c.LastRenewedAt != nil })
	leaf := leafOf(t, issued.PEM)
	if issued.Status != "valid" || issued.LastError != "" || issued.ErrorKind != "" || issued.Attempts != 0 || issued.Fingerprint == c.Fingerprint || !strings.Contains(issued.Issuer, "Pebble") {
		t.Errorf("%+v", issued)
	}
	if leaf.PublicKeyAlgorithm != x509.RSA || !sameNames(slices.Sorted(slices.Values(leaf.DNSNames)), "shop.example.net", "www.example.net") {
		t.Errorf("issued: %v %v", leaf.PublicKeyAlgorithm, leaf.DNSNames)
	}
	// A third of the lifetime is left, minus the jitter.
	if left := issued.ExpiresAt.Sub(*issued.RenewAt) * 100 / issued.ExpiresAt.Sub(*issued.NotBefore); left < 29 || left > 34 {
		t.Errorf("it is renewed with %d%% of its lifetime left", left)
	}
	if p := w.pairs(t)[c.ID]; !p.Trusted || p.Fingerprint != issued.Fingerprint || !strings.HasSuffix(string(p.PEM), "-----END PRIVATE KEY-----\n") {
		t.Errorf("the proxy gets %v %s", p.Trusted, p.Fingerprint)
	}
	waittest.Until(t, "the gateway has its own certificate", func() bool { return w.room.Own() != nil })
	if err := w.room.Own().Leaf.VerifyHostname(fqdn); err != nil {
		t.Error(err)
	}
	for _, own := range w.all(t) {
		if own.ID != c.ID && (!own.Automatic || own.DomainID != nil || own.Challenge != "http-01" || !sameNames(own.Names, fqdn)) {
			t.Errorf("the gateway's own: %+v", own)
		}
	}
	if n := w.Audited(t, "certificate.issued"); n != 2 {
		t.Errorf("%d orders are in the audit log", n)
	}
	files, _ := filepath.Glob(w.Paths.State("acme/*.json"))
	if len(files) != 1 {
		t.Fatalf("accounts: %v", files)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the account's file: %v %v", info.Mode(), err)
	}
}

// DNS-01: a wildcard with its parent, and a name whose record is delegated to another zone.
func TestOrderByDNS(t *testing.T) {
	w := newWorld(t, nil)
	w.provider(t, map[string]any{"zones": []string{"example.net", "delegated.example"}, "server": dnsAddr + ":53"})
	w.dns.add("_acme-challenge.cust.example.org. 60 IN CNAME cust.delegated.example.")
	w.run(t)
	for _, names := range [][]string{{"*.example.net", "example.net"}, {"cust.example.org"}} {
		c := w.create(t, map[string]any{"names": names, "challenge": "dns-01"})
		issued := w.until(t, c.ID, func(c row) bool { return c.Status == "valid" || c.LastError != "" })
		if issued.Status != "valid" || issued.LastError != "" {
			t.Fatalf("%v: %+v", names, issued)
		}
		if left, updates := w.dns.texts(); left != 0 || updates < 2 {
			t.Errorf("%v: %d records are left after %d updates", names, left, updates)
		}
	}
	if w.dns.refused != 0 {
		t.Errorf("%d updates were not signed as they must be", w.dns.refused)
	}
}

// A wildcard domain orders through DNS, reports if it cannot, and continues automatically once there is a provider.
func TestWildcardDomainWaitsForAProvider(t *testing.T) {
	w := newWorld(t, nil)
	w.want(certificate.Wanted{DomainID: w.domain(t, "*.example.net"), Names: []string{"*.example.net"}})
	w.run(t)
	waittest.Until(t, "there is a row", func() bool { return len(w.all(t)) == 1 })
	c := w.until(t, w.all(t)[0].ID, func(c row) bool { return c.LastError != "" })
	if c.Challenge != "dns-01" || c.Status != "error" || c.ErrorKind != "dns" || !strings.Contains(c.LastError, "add one under DNS providers") {
		t.Errorf("%+v", c)
	}
	w.provider(t, nil)
	w.until(t, c.ID, func(c row) bool { return c.LastRenewedAt != nil && c.LastError == "" })
}

// domain creates a domain for references.
func (h *house) domain(t *testing.T, name string) uuid.UUID {
	t.Helper()
	id, backend := uuid.New(), uuid.New()
	err := h.DB.QueryRow(t.Context(), `WITH b AS (
			INSERT INTO proxy_backends VALUES ($1, now(), now(), $1::uuid::text, 'http', 'roundrobin', false, false, true, false, '/', 'GET', '', '200-399', 5, false) RETURNING id)
		INSERT INTO proxy_domains (id, created_at, updated_at, name, backend_id, active, http_to_https, disable_h3, hsts_enabled, hsts_max_age, hsts_include_subdomains,
			hsts_preload, rate_limit_enabled, rate_limit_requests, rate_limit_period_seconds, maintenance, max_body_size_bytes, www_redirect, notes)
		SELECT $2, now(), now(), $3, id, true, true, false, false, 0, false, false, false, 1, 1, false, 0, 'none', '' FROM b RETURNING id`, backend, id, name).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// What the domains need is created, follows their names, and is deleted with them.
func TestWantedIsFollowed(t *testing.T) {
	w := newWorld(t, nil)
	w.dns.add("example.net. 60 IN A " + gatewayAddr)
	shop, www := w.domain(t, "shop.example.net"), w.domain(t, "www.example.net")
	w.want(certificate.Wanted{DomainID: shop, Names: []string{"shop.example.net"}}, certificate.Wanted{DomainID: www, Names: []string{"www.example.net"}})
	w.run(t)
	of := func(domain uuid.UUID) (c row) {
		for _, c := range w.all(t) {
			if c.DomainID != nil && *c.DomainID == domain.String() {
				return c
			}
		}
		return row{}
	}
	waittest.Until(t, "both are issued", func() bool { return of(shop).LastRenewedAt != nil && of(www).LastRenewedAt != nil })
	before := of(www)

	// Operators cannot change its names, but may change its other settings.
	w.Do(t, "admin", "PUT", "/certificates/"+before.ID, map[string]any{"names": []string{"a.example.net"}}).WantField(t, "names")
	w.Do(t, "admin", "PUT", "/certificates/"+before.ID, map[string]any{"domain_id": shop}).WantField(t, "domain_id")

	// The www redirect is switched on: the same row is ordered again, and the issued certificate is served until then.
	w.want(certificate.Wanted{DomainID: shop, Names: []string{"shop.example.net"}}, certificate.Wanted{DomainID: www, Names: []string{"www.example.net", "example.net"}})
	after := w.until(t, before.ID, func(c row) bool { return c.Fingerprint != before.Fingerprint })
	if !sameNames(after.Names, "www.example.net", "example.net") || len(leafOf(t, after.PEM).DNSNames) != 2 {
		t.Errorf("%+v", after)
	}

	// A deleted one is ordered again.
	w.Do(t, "admin", "DELETE", "/certificates/"+before.ID, nil).Want(t, 200)
	waittest.Until(t, "another one is ordered", func() bool { c := of(www); return c.ID != "" && c.ID != before.ID && c.LastRenewedAt != nil })

	// An operator uploads one for both names: the automatic one is no longer needed.
	ca, key := newAuthority(t, "operator's", nil), ecKey(t)
	uploaded := w.create(t, map[string]any{"source": "uploaded", "certificate_pem": pemOf(ca.issue(t, key.Public(), nil, "*.example.net", "example.net")), "private_key_pem": pemKey(t, key)})
	waittest.Until(t, "the automatic ones go", func() bool { return len(w.all(t)) == 1 })

	// A domain that is configured to use it prevents its deletion.
	w.mu.Lock()
	w.users[uuid.MustParse(uploaded.ID)] = []resource.User{{Kind: "proxy.domain", ID: www, Name: "www.example.net"}}
	w.mu.Unlock()
	a := w.Do(t, "admin", "DELETE", "/certificates/"+uploaded.ID, nil).Want(t, 409)
	if !strings.Contains(string(a.Body), "used_by") || !strings.Contains(string(a.Body), "www.example.net") {
		t.Errorf("%s", a.Body)
	}
	w.mu.Lock()
	clear(w.users)
	w.mu.Unlock()
	w.Do(t, "admin", "DELETE", "/certificates/"+uploaded.ID, nil).Want(t, 200)
	waittest.Until(t, "they are ordered again", func() bool { return of(www).LastRenewedAt != nil && of(shop).LastRenewedAt != nil })

	// Nobody wants them any more, but one is in use.
	kept := of(shop)
	w.mu.Lock()
	w.users[uuid.MustParse(kept.ID)] = []resource.User{{Kind: "proxy.domain", ID: shop, Name: "shop.example.net"}}
	w.mu.Unlock()
	w.want()
	waittest.Until(t, "the other one goes", func() bool { list := w.all(t); return len(list) == 1 && list[0].ID == kept.ID })
}

// Every cause has its name, and every served certificate stays.
func TestFailuresAreNamed(t *testing.T) {
	w := newWorld(t, nil)
	stranger := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	l, err := net.Listen("tcp", strangeAddr+":80")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = stranger.Serve(l) }()
	t.Cleanup(func() { stranger.Close() })
	w.dns.add("closed.example.net. 60 IN A " + caAddr)
	w.dns.add("strange.example.net. 60 IN A " + strangeAddr)
	w.dns.add("forbidden.example.net. 60 IN A " + gatewayAddr)
	w.dns.add("forbidden.example.net. 60 IN CAA 0 issue \";\"")
	w.provider(t, map[string]any{"name": "wrong key", "secret": "d3Jvbmc=", "zones": []string{"delegated.example"}})
	w.run(t)
	for _, c := range []struct {
		name, challenge, kind, says string
	}{
		{"nowhere.example.net", "http-01", "dns", "has no address in DNS"},
		{"closed.example.net", "http-01", "connection", "could not reach the gateway on port 80"},
		{"strange.example.net", "http-01", "connection", "reached a different server"},
		{"forbidden.example.net", "http-01", "caa", "allow no certificate authority"},
		{"*.example.net", "dns-01", "dns", "no DNS provider serves the zone"},
		{"*.delegated.example", "dns-01", "dns", "the DNS provider wrong key did not set the record"},
	} {
		t.Run(c.name, func(t *testing.T) {
			made := w.create(t, map[string]any{"names": []string{c.name}, "challenge": c.challenge})
			failed := w.until(t, made.ID, func(c row) bool { return c.LastError != "" })
			if failed.ErrorKind != c.kind || !strings.Contains(failed.LastError, c.says) {
				t.Errorf("%s: %s", failed.ErrorKind, failed.LastError)
			}
			if failed.Status != "error" || failed.Attempts != 1 || failed.NextAttemptAt == nil || failed.Fingerprint != made.Fingerprint {
				t.Errorf("%+v", failed)
			}
			w.Do(t, "admin", "DELETE", "/certificates/"+made.ID, nil).Want(t, 200)
		})
	}
	if w.dns.refused == 0 {
		t.Error("the update with the wrong key was not refused by the name server")
	}
	if left, _ := w.dns.texts(); left != 0 {
		t.Errorf("%d records are left", left)
	}
	if n := w.Audited(t, "certificate.failed"); n != 6 {
		t.Errorf("%d failures are in the audit log", n)
	}
	var sum certificate.Summary
	w.Get(t, "/certificates/summary").Want(t, 200).Into(t, &sum)
	if sum != (certificate.Summary{}) {
		t.Errorf("%+v", sum)
	}
}

// The authority's problems with requests are passed on, and its Retry-After is respected.
func TestRefusalsOfTheAuthority(t *testing.T) {
	for _, c := range []struct {
		name, endpoint, problem string
		status                  int
		kind                    string
		wait                    time.Duration
	}{
		{"rate limit", "newOrder", "rateLimited", 429, "rate_limit", 3 * time.Hour},
		{"name", "newOrder", "rejectedIdentifier", 400, "refused", 0},
		{"account is locked", "newOrder", "unauthorized", 403, "account", 0},
		{"account needs a contract", "newAccount", "externalAccountRequired", 403, "account", 0},
		{"trouble", "newOrder", "serverInternal", 500, "other", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.ca.change = func(directory map[string]any) { directory[c.endpoint] = "https://" + caListen + "/refuse" }
			w.ca.before.HandleFunc("POST /refuse", func(res http.ResponseWriter, _ *http.Request) {
				res.Header().Set("Content-Type", "application/problem+json")
				res.Header().Set("Retry-After", fmt.Sprint(int(c.wait.Seconds())))
				res.WriteHeader(c.status)
				_ = json.NewEncoder(res).Encode(map[string]any{"type": "urn:ietf:params:acme:error:" + c.problem, "detail": "said the authority"})
			})
			made := w.create(t, map[string]any{"names": []string{"www.example.net"}})
			w.run(t)
			failed := w.until(t, made.ID, func(c row) bool { return c.LastError != "" })
			if failed.ErrorKind != c.kind || !strings.Contains(failed.LastError, "said the authority") {
				t.Errorf("%s: %s", failed.ErrorKind, failed.LastError)
			}
			if left := time.Until(*failed.NextAttemptAt); c.wait > 0 && left < c.wait-time.Minute {
				t.Errorf("it is ordered again in %s", left)
			}
		})
	}
}

// An authority that talks nonsense does no harm, and its words are not passed on.
func TestNonsenseOfTheAuthority(t *testing.T) {
	w := newWorld(t, nil)
	w.run(t)
	for _, c := range []struct {
		path   string
		status int
		body   string
		kind   string
	}{
		{"/null", 500, "null", "other"},
		{"/page", 500, "<html>inner secrets", "other"},
		{"/empty", 201, "{}", "other"},
		{"/long", 201, `{"status":"` + strings.Repeat("x", 2<<20) + `"}`, "other"},
	} {
		w.ca.before.HandleFunc("POST "+c.path, func(res http.ResponseWriter, _ *http.Request) {
			res.WriteHeader(c.status)
			_, _ = io.WriteString(res, c.body)
		})
		w.ca.change = func(directory map[string]any) { directory["newOrder"] = "https://" + caListen + c.path }
		made := w.create(t, map[string]any{"names": []string{"www.example.net"}})
		failed := w.until(t, made.ID, func(c row) bool { return c.LastError != "" })
		if failed.ErrorKind != c.kind || strings.Contains(failed.LastError, "inner secrets") || len(failed.LastError) > 600 {
			t.Errorf("%s: %s: %s", c.path, failed.ErrorKind, failed.LastError)
		}
		w.Do(t, "admin", "DELETE", "/certificates/"+made.ID, nil).Want(t, 200)
	}
}

// An account is created once, its e-mail address follows the settings, and an account that the authority lost is created again.
func TestAccount(t *testing.T) {
	w := newWorld(t, nil)
	w.run(t)
	kept := func() (a struct {
		Email, Key   string
		Registration struct {
			Location string   `json:"location"`
			Contact  []string `json:"contact"`
		}
	}) {
		files, _ := filepath.Glob(w.Paths.State("acme/*.json"))
		if len(files) != 1 {
			t.Fatalf("accounts: %v", files)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	c := w.create(t, map[string]any{"names": []string{"www.example.net"}})
	w.until(t, c.ID, func(c row) bool { return c.LastRenewedAt != nil })
	first := kept()
	again := func() row {
		before := w.get(t, c.ID)
		w.Do(t, "admin", "POST", "/certificates/"+c.ID+"/renew", nil).Want(t, 200)
		return w.until(t, c.ID, func(c row) bool {
			return c.Fingerprint != before.Fingerprint && c.LastRenewedAt.After(*before.LastRenewedAt)
		})
	}
	again()
	if fmt.Sprint(kept()) != fmt.Sprint(first) {
		t.Errorf("the second order changed the account: %+v, %+v", first, kept())
	}
	w.Do(t, "admin", "PUT", "/certificates/acme", map[string]any{"email": "ops@example.net"}).Want(t, 200)
	again()
	if second := kept(); second.Registration.Location != first.Registration.Location || second.Email != "ops@example.net" || fmt.Sprint(second.Registration.Contact) != "[mailto:ops@example.net]" {
		t.Errorf("%+v", second)
	}
	w.ca.stop()
	w.ca.start(t) // it remembers nothing
	again()
	if third := kept(); third.Key != first.Key {
		t.Error("the account has another key")
	}
	if w.Audited(t, "certificate.renew") != 3 || w.Audited(t, "certificate.acme") != 1 {
		t.Error("it is not in the audit log")
	}
}

// A failed renewal keeps the served certificate and its status, and reports why.
func TestFailedRenewalKeepsWhatIsShown(t *testing.T) {
	w := newWorld(t, nil)
	w.run(t)
	c := w.create(t, map[string]any{"names": []string{"www.example.net"}})
	issued := w.until(t, c.ID, func(c row) bool { return c.LastRenewedAt != nil })
	// Even with PEBBLE_AUTHZREUSE=0, pebble reuses one authorization in a hundred. It has none after a restart.
	w.ca.stop()
	w.ca.start(t)
	w.dns.remove("www.example.net", dns.TypeA)
	w.dns.add("www.example.net. 60 IN A " + caAddr)
	var now row
	w.Do(t, "admin", "POST", "/certificates/"+c.ID+"/renew", nil).Want(t, 200).Into(t, &now)
	if now.ID != c.ID || now.Status != "valid" {
		t.Errorf("the answer is %+v", now)
	}
	failed := w.until(t, c.ID, func(c row) bool { return c.LastError != "" })
	if failed.Status != "valid" || failed.Fingerprint != issued.Fingerprint || failed.ErrorKind != "connection" || failed.Attempts != 1 || !failed.LastRenewedAt.Equal(*issued.LastRenewedAt) {
		t.Errorf("%+v", failed)
	}
	var sum certificate.Summary
	w.Get(t, "/certificates/summary").Want(t, 200).Into(t, &sum)
	if sum != (certificate.Summary{Total: 1, Errors: 1}) {
		t.Errorf("%+v", sum)
	}
	w.dns.remove("www.example.net", dns.TypeA)
	w.dns.add("www.example.net. 60 IN A " + gatewayAddr)
	w.Do(t, "admin", "POST", "/certificates/"+c.ID+"/renew", nil).Want(t, 200)
	fixed := w.until(t, c.ID, func(c row) bool {
		return c.Fingerprint != issued.Fingerprint && c.LastRenewedAt.After(*issued.LastRenewedAt)
	})
	if fixed.LastError != "" || fixed.ErrorKind != "" || fixed.Attempts != 0 || fixed.NextAttemptAt != nil {
		t.Errorf("%+v", fixed)
	}
}

// An issued certificate that is not served does not count as renewed until the proxy serves it.
func TestNotLive(t *testing.T) {
	w := newWorld(t, clock.NewFake(time.Now()))
	w.hide = true
	w.run(t)
	c := w.create(t, map[string]any{"names": []string{"www.example.net"}})
	hidden := w.until(t, c.ID, func(c row) bool {
		if c.Status == "valid" {
			w.clock.Move(time.Second) // the proxy has some time
		}
		return c.ErrorKind == "not_live"
	})
	if hidden.Status != "valid" || hidden.LastRenewedAt != nil || !strings.Contains(hidden.LastError, "www.example.net") {
		t.Errorf("%+v", hidden)
	}
	w.mu.Lock()
	w.hide = false
	w.mu.Unlock()
	w.room.Wake()
	live := w.until(t, c.ID, func(c row) bool { return c.LastRenewedAt != nil })
	if live.ErrorKind != "" || live.LastError != "" || live.Fingerprint != hidden.Fingerprint {
		t.Errorf("%+v", live)
	}
}

// The authority says when to renew (ARI), and may change its mind. Debian's pebble 2.4.0 lacks ARI, so the proxy in front of it adds it.
func TestRenewalInformation(t *testing.T) {
	w := newWorld(t, nil)
	start := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	asked := make(chan string, 100)
	w.ca.change = func(directory map[string]any) { directory["renewalInfo"] = "https://" + caListen + "/renewal" }
	w.renewal(&start, asked)
	w.run(t)
	c := w.create(t, map[string]any{"names": []string{"www.example.net"}})
	issued := w.until(t, c.ID, func(c row) bool { return c.LastRenewedAt != nil })
	if issued.RenewAt.Before(start) || issued.RenewAt.After(start.Add(time.Hour)) {
		t.Errorf("it is renewed at %s instead of at %s", issued.RenewAt, start)
	}
	if id := <-asked; !strings.Contains(id, ".") {
		t.Errorf("asked for %q", id)
	}
	w.mu.Lock()
	start = time.Now().Add(-2 * time.Hour).UTC().Truncate(time.Second) // it is to be revoked: renew now
	w.mu.Unlock()
	w.Do(t, "admin", "POST", "/certificates/renew-due", nil).Want(t, 200)
	w.until(t, c.ID, func(c row) bool { return c.Fingerprint != issued.Fingerprint })
}

// renewal makes the front proxy answer with a renewal time.
func (w *world) renewal(start *time.Time, asked chan<- string) {
	w.ca.before.HandleFunc("GET /renewal/{id}", func(res http.ResponseWriter, req *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		asked <- req.PathValue("id")
		res.Header().Set("Retry-After", "1")
		_ = json.NewEncoder(res).Encode(map[string]any{"suggestedWindow": map[string]any{"start": start, "end": start.Add(time.Hour)}})
	})
}

// orders handles new orders in front of the authority; next is the authority.
func (w *world) orders(handle func(res http.ResponseWriter, req *http.Request, next http.Handler)) {
	next, _ := w.ca.before.Handler(&http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/"}})
	w.ca.before.HandleFunc("POST /order-plz", func(res http.ResponseWriter, req *http.Request) { handle(res, req, next) })
}

// A renewal requested while the authority is asked for its time is not lost when its answer is stored.
func TestRenewalIsNotLostToTheAuthoritysTime(t *testing.T) {
	w := newWorld(t, nil)
	w.ca.change = func(directory map[string]any) { directory["renewalInfo"] = "https://" + caListen + "/renewal" }
	var once sync.Once
	start := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	moved, id := false, ""
	w.ca.before.HandleFunc("GET /renewal/{id}", func(res http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if moved {
			// A renewal request is stored after the row was read.
			once.Do(func() {
				if err := w.DB.Write(context.Background(), func(tx *db.Tx) error {
					tx.Queue("UPDATE certificate_certificates SET renew_at = now(), updated_at = now() WHERE id = $1", id)
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		_ = json.NewEncoder(res).Encode(map[string]any{"suggestedWindow": map[string]any{"start": start, "end": start.Add(time.Hour)}})
	})
	w.run(t)
	c := w.create(t, map[string]any{"names": []string{"www.example.net"}})
	issued := w.until(t, c.ID, func(c row) bool { return c.LastRenewedAt != nil })
	w.mu.Lock()
	start, moved, id = start.Add(100*time.Hour), true, c.ID
	w.mu.Unlock()
	w.Do(t, "admin", "POST", "/certificates/renew-due", nil).Want(t, 200)
	w.until(t, c.ID, func(c row) bool { return c.Fingerprint != issued.Fingerprint })
}

// A renewal requested while an order is about to fail starts another order at once.
func TestRenewalIsNotLostToAFailure(t *testing.T) {
	w := newWorld(t, nil)
	begun, answer := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	first.Store(true)
	w.orders(func(res http.ResponseWriter, req *http.Request, next http.Handler) {
		if !first.Swap(false) {
			next.ServeHTTP(res, req)
			return
		}
		close(begun)
		<-answer
		res.Header().Set("Content-Type", "application/problem+json")
		res.WriteHeader(http.StatusForbidden)
		fmt.Fprint(res, `{"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"not now"}`)
	})
	w.run(t)
	c := w.create(t, map[string]any{"names": []string{"www.example.net"}})
	<-begun
	w.Do(t, "admin", "POST", "/certificates/"+c.ID+"/renew", nil).Want(t, 200)
	close(answer)
	if got := w.until(t, c.ID, func(c row) bool { return c.Status == "valid" || c.NextAttemptAt != nil }); got.Status != "valid" {
		t.Errorf("%+v", got)
	}
}

// A new order only names the certificate it replaces if the same authority issued it.
func TestReplacesIsForWhoIssued(t *testing.T) {
	w := newWorld(t, nil)
	start := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	w.ca.change = func(directory map[string]any) { directory["renewalInfo"] = "https://" + caListen + "/renewal" }
	w.renewal(&start, make(chan string, 100))
	replaced := make(chan bool, 10)
	w.orders(func(res http.ResponseWriter, req *http.Request, next http.Handler) {
		replaced <- ordersReplacement(t, req)
		next.ServeHTTP(res, req)
	})
	// Another directory of the same authority.
	next, _ := w.ca.before.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}})
	w.ca.before.HandleFunc("GET /production", func(res http.ResponseWriter, req *http.Request) {
		req.URL.Path = "/dir"
		next.ServeHTTP(res, req)
	})
	w.run(t)
	c := w.create(t, map[string]any{"names": []string{"www.example.net"}})
	was := w.until(t, c.ID, func(c row) bool { return c.LastRenewedAt != nil })
	if <-replaced {
		t.Error("the first order replaces something")
	}
	for _, x := range []struct {
		directory string
		replaces  bool
	}{{w.ca.directory, true}, {"https://" + caListen + "/production", false}, {"https://" + caListen + "/production", true}} {
		w.mu.Lock()
		w.acme.DirectoryURL = value.Must[value.URL](x.directory)
		w.mu.Unlock()
		w.Do(t, "admin", "POST", "/certificates/"+c.ID+"/renew", nil).Want(t, 200)
		was = w.until(t, c.ID, func(c row) bool { return c.Fingerprint != was.Fingerprint && c.LastRenewedAt.After(*was.LastRenewedAt) })
		if got := <-replaced; got != x.replaces {
			t.Errorf("%s: replaces is sent: %v", x.directory, got)
		}
	}
}

// ordersReplacement reports whether an order names a certificate that it replaces.
func ordersReplacement(t *testing.T, req *http.Request) bool {
	b, err := io.ReadAll(req.Body)
	var signed struct{ Payload string }
	if err == nil {
		err = json.Unmarshal(b, &signed)
	}
	payload, err2 := base64.RawURLEncoding.DecodeString(signed.Payload)
	if err := errors.Join(err, err2); err != nil {
		t.Error(err)
	}
	req.Body = io.NopCloser(bytes.NewReader(b))
	return strings.Contains(string(payload), `"replaces"`)
}

// An authority that no longer knows its own certificate still renews it. The refusal is simulated, because Debian 12's pebble does not
// check; that of Debian 13 does in TestAccount.
func TestReplacesThatIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	start := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	w.ca.change = func(directory map[string]any) { directory["renewalInfo"] = "https://" + caListen + "/renewal" }
	w.renewal(&start, make(chan string, 100))
	var kind atomic.Value
	replaced := make(chan bool, 10)
	w.orders(func(res http.ResponseWriter, req *http.Request, next http.Handler) {
		is := ordersReplacement(t, req)
		replaced <- is
		if !is {
			next.ServeHTTP(res, req)
			return
		}
		res.Header().Set("Content-Type", "application/problem+json")
		res.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(res, `{"type": %q, "detail": "the certificate to replace is not known", "status": 403}`, kind.Load())
	})
	w.run(t)
	c := w.create(t, map[string]any{"names": []string{"www.example.net"}})
	was := w.until(t, c.ID, func(c row) bool { return c.LastRenewedAt != nil })
	<-replaced
	for _, refusal := range []string{acme.MalformedErrorType, acme.UnauthorizedErrorType} {
		kind.Store(refusal)
		w.Do(t, "admin", "POST", "/certificates/"+c.ID+"/renew", nil).Want(t, 200)
		was = w.until(t, c.ID, func(c row) bool { return c.Fingerprint != was.Fingerprint && c.LastRenewedAt.After(*was.LastRenewedAt) })
		if first, second := <-replaced, <-replaced; !first || second || len(replaced) > 0 {
			t.Errorf("%s: replaces is sent %v, then %v, and %d times more", refusal, first, second, len(replaced))
		}
	}
	// An order refused for another reason is sent only once.
	kind.Store(acme.RejectedIdentifierErrorType)
	w.Do(t, "admin", "POST", "/certificates/"+c.ID+"/renew", nil).Want(t, 200)
	if failed := w.until(t, c.ID, func(c row) bool { return c.LastError != "" }); failed.ErrorKind != "refused" || !<-replaced || len(replaced) > 0 {
		t.Errorf("%+v, %d more orders", failed, len(replaced))
	}
}

// A web service of the operator sets the records.
func TestOrderByWebService(t *testing.T) {
	w := newWorld(t, nil)
	key := ecKey(t)
	cert := w.ca.server.issue(t, key.Public(), nil, strangeAddr)
	l, err := tls.Listen("tcp", strangeAddr+":8000", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	service := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(res http.ResponseWriter, req *http.Request) {
		var in struct{ FQDN, Value string }
		if user, word, _ := req.BasicAuth(); user != "gateway" || word != "right" {
			http.Error(res, "inner secrets of the service", http.StatusForbidden)
		} else if err := json.NewDecoder(req.Body).Decode(&in); err != nil {
			http.Error(res, err.Error(), http.StatusBadRequest)
		} else if req.URL.Path == "/dns/present" {
			w.dns.add(in.FQDN + " 60 IN TXT " + in.Value)
		} else if req.URL.Path == "/dns/cleanup" {
			w.dns.remove(in.FQDN, dns.TypeTXT)
		}
	})}
	go func() { _ = service.Serve(l) }()
	t.Cleanup(func() { service.Close() })
	id := w.provider(t, map[string]any{"kind": "httpreq", "server": "", "endpoint": "https://" + strangeAddr + ":8000/dns", "secret": "wrong"})
	w.run(t)
	c := w.create(t, map[string]any{"names": []string{"*.example.net"}, "challenge": "dns-01", "dns_provider_id": id})
	failed := w.until(t, c.ID, func(c row) bool { return c.LastError != "" })
	if failed.ErrorKind != "dns" || !strings.Contains(failed.LastError, "403") || strings.Contains(failed.LastError, "inner secrets") {
		t.Errorf("%s: %s", failed.ErrorKind, failed.LastError)
	}
	w.Do(t, "admin", "PUT", "/dns-providers/"+id, map[string]any{"secret": "right"}).Want(t, 200)
	w.until(t, c.ID, func(c row) bool { return c.LastRenewedAt != nil && c.LastError == "" })
	if left, _ := w.dns.texts(); left != 0 {
		t.Errorf("%d records are left", left)
	}
}

// An unreachable hosted service is named, its token is not. The deSEC client would retry for half a minute.
func TestHostedProvidersOutOfReach(t *testing.T) {
	w := newWorld(t, nil)
	for _, kind := range []string{"cloudflare", "digitalocean", "hetzner"} {
		var p struct{ ID string }
		w.Do(t, "admin", "POST", "/dns-providers", map[string]any{"name": "at " + kind, "kind": kind, "secret": "token-of-the-test"}).Want(t, 201).Into(t, &p)
		var found certificate.Findings
		w.Do(t, "admin", "POST", "/certificates/preflight", map[string]any{"names": []string{"*.example.net"}, "challenge": "dns-01", "dns_provider_id": p.ID}).Want(t, 200).Into(t, &found)
		last := found.Findings[len(found.Findings)-1]
		if found.OK || last.Check != "provider" || !strings.Contains(last.Detail, "The DNS provider at "+kind+" did not set the record for example.net") || strings.Contains(last.Detail, "token-of") {
			t.Errorf("%+v", found)
		}
	}
}

// An order waits until the proxy has applied the change, and starts as soon as it has.
func TestOrdersWaitForTheProxy(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, nil, func(h *house) {
		apply.Register(h.Engine, apply.Component[int]{
			ID:     apply.ReverseProxy,
			Load:   func(context.Context, db.Querier) (int, error) { return 0, nil },
			Render: func(int) ([]host.File, error) { return nil, nil },
			Check:  func(context.Context, []host.File) error { return nil },
			Apply:  func(context.Context, int, []host.File) error { return nil },
			Verify: func(ctx context.Context, _ int, _ []host.File) error {
				select {
				case <-gate:
				case <-ctx.Done():
				}
				return ctx.Err()
			},
		})
	})
	newNameServer(t)
	h.acme = certificate.ACME{Enabled: true, Email: value.Must[value.Email]("admin@example.net"), DirectoryURL: value.Must[value.URL]("https://" + caAddr + ":9/dir")}
	h.run(t)
	of := func(name string) (c row) {
		for _, c := range h.all(t) {
			if sameNames(c.Names, name) {
				return c
			}
		}
		return row{}
	}
	var answers sync.WaitGroup
	create := func(body string) { // the proxy is live when it is answered
		answers.Go(func() { h.Do(t, "admin", "POST", "/certificates", body) })
	}
	create(`{"names":["www.example.net"]}`)
	waittest.Until(t, "the first is stored", func() bool { return of("www.example.net").ID != "" })
	create(`{"names":["*.example.net"],"challenge":"dns-01"}`)
	waittest.Until(t, "what needs no proxy is ordered", func() bool { return of("*.example.net").Attempts == 1 })
	if c := of("www.example.net"); c.Attempts != 0 || c.Status != "pending" {
		t.Errorf("it was ordered before the proxy knew it: %+v", c)
	}
	close(gate)
	waittest.Until(t, "the other one is ordered", func() bool { return of("www.example.net").Attempts == 1 })
	answers.Wait()
}

// Only tokens of an order are answered.
func TestChallenges(t *testing.T) {
	h := newHouse(t, nil)
	for _, c := range []struct{ method, path string }{
		{"GET", "/"}, {"GET", "/.well-known/acme-challenge/"}, {"GET", "/.well-known/acme-challenge/x"}, {"GET", "/.well-known/acme-challenge/../x"}, {"POST", "/.well-known/acme-challenge/x"},
	} {
		res := httptest.NewRecorder()
		h.room.Challenges().ServeHTTP(res, httptest.NewRequestWithContext(context.Background(), c.method, c.path, nil))
		if res.Code != 404 {
			t.Errorf("%s %s: %d", c.method, c.path, res.Code)
		}
	}
}

func TestPreflight(t *testing.T) {
	w := newWorld(t, nil)
	w.Machine.SetLinks(host.Link{Name: "wan0", Addrs: []host.LinkAddr{{Family: "inet", Local: gatewayAddr, PrefixLen: 24}}})
	w.dns.add("elsewhere.example.net. 60 IN A " + caAddr)
	w.dns.add("both.example.net. 60 IN A " + gatewayAddr)
	w.dns.add("both.example.net. 60 IN A " + strangeAddr)
	w.dns.add("forbidden.example.net. 60 IN A " + gatewayAddr)
	w.dns.add("forbidden.example.net. 60 IN CAA 0 issue \"ca.example.org\"")
	w.dns.add("allowed.example.net. 60 IN A " + gatewayAddr)
	w.dns.add("allowed.example.net. 60 IN CAA 0 issue \"pebble.example; accounturi=x\"")
	w.dns.add("allowed.example.net. 60 IN CAA 0 issuewild \";\"")
	w.ca.change = func(directory map[string]any) {
		directory["meta"].(map[string]any)["caaIdentities"] = []string{"pebble.example"}
	}
	w.provider(t, nil)
	check := func(names []string, challenge string) (out certificate.Findings) {
		t.Helper()
		w.Do(t, "admin", "POST", "/certificates/preflight", map[string]any{"names": names, "challenge": challenge}).Want(t, 200).Into(t, &out)
		return out
	}
	find := func(f certificate.Findings, name, what string) certificate.Finding {
		t.Helper()
		for _, x := range f.Findings {
			if x.Name == name && x.Check == what {
				return x
			}
		}
		t.Fatalf("nothing was found about %s of %s: %+v", what, name, f)
		return certificate.Finding{}
	}
	good := check([]string{"www.example.net", "allowed.example.net"}, "http-01")
	if !good.OK || len(good.Findings) != 9 || find(good, "", "acme").Detail != "ACME is on." || !strings.Contains(find(good, "www.example.net", "connection").Detail, "This gateway answers on port 80.") || !strings.Contains(find(good, "", "account").Detail, "terms") {
		t.Errorf("%+v", good)
	}
	for _, c := range []struct {
		name, challenge, check string
		ok                     bool
		says                   string
	}{
		{"nowhere.example.net", "http-01", "dns", false, "no A or AAAA record"},
		{"elsewhere.example.net", "http-01", "dns", true, "which is not an address of this gateway"},
		{"elsewhere.example.net", "http-01", "connection", true, "Could not be checked from inside"},
		{"both.example.net", "http-01", "dns", false, "and elsewhere"},
		{"forbidden.example.net", "http-01", "caa", false, "Add one for pebble.example"},
		{"allowed.example.net", "dns-01", "provider", true, "sets and removes records"},
		{"*.allowed.example.net", "dns-01", "caa", false, "allow no certificate authority"},
		{"www.example.org", "dns-01", "", false, "No DNS provider serves"},
	} {
		f := check([]string{c.name}, c.challenge)
		name, what := c.name, c.check
		if what == "" {
			name, what = "", "provider"
		}
		if x := find(f, name, what); x.OK != c.ok || !strings.Contains(x.Detail, c.says) || !c.ok && f.OK {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
	if left, updates := w.dns.texts(); left != 0 || updates != 4 {
		t.Errorf("%d records are left after %d updates", left, updates)
	}
	w.mu.Lock()
	w.acme.DirectoryURL = value.Must[value.URL]("https://127.0.0.1:14000/dir")
	w.mu.Unlock()
	if x := find(check([]string{"www.example.net"}, "http-01"), "", "directory"); x.OK || !strings.Contains(x.Detail, "is this machine itself") {
		t.Errorf("%+v", x)
	}
	w.mu.Lock()
	w.acme.Enabled = false
	w.mu.Unlock()
	if f := check([]string{"www.example.net"}, "http-01"); f.OK || find(f, "", "acme").OK || !strings.HasPrefix(find(f, "", "acme").Detail, "ACME is off") || !find(f, "www.example.net", "connection").OK {
		t.Errorf("%+v", f)
	}
	// Silent name servers are one finding, however many names there are.
	w.mu.Lock()
	w.acme.Enabled, w.silent = true, true
	w.acme.DirectoryURL = value.Must[value.URL](w.ca.directory)
	w.mu.Unlock()
	for _, challenge := range []string{"http-01", "dns-01"} {
		f := check([]string{"www.example.net", "shop.example.net", "allowed.example.net"}, challenge)
		bad := slices.DeleteFunc(slices.Clone(f.Findings), func(x certificate.Finding) bool { return x.OK })
		if f.OK || len(bad) != 1 || bad[0].Detail != "No name server answers ("+strangeAddr+":53): connection refused. The other DNS checks were skipped." {
			t.Errorf("%s: %+v", challenge, f)
		}
	}
	w.Do(t, "admin", "POST", "/certificates/preflight", map[string]any{"names": []string{"*.example.net"}, "challenge": "http-01"}).WantField(t, "challenge")
	if len(w.all(t)) != 0 || w.Audited(t, "certificate.preflight") == 0 {
		t.Error("a preflight orders, or is not in the audit log")
	}
}
