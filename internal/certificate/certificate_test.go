package certificate_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/certificate"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
)

// An upload is checked, and every error names its field and the remedy.
func TestUploadIsChecked(t *testing.T) {
	h := newHouse(t, nil)
	root := newAuthority(t, "root", nil)
	middle := newAuthority(t, "middle", root)
	other := newAuthority(t, "other", nil)
	key := ecKey(t)
	leaf := middle.issue(t, key.Public(), nil, "www.example.net", "*.shop.example.net")
	keyPEM, good := pemKey(t, key), pemOf(leaf, middle.cert)
	public := func(k crypto.Signer, err error) crypto.Signer {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	weak := public(rsa.GenerateKey(rand.Reader, 1024))
	p521 := public(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(k crypto.Signer, change func(*x509.Certificate), names ...string) string {
		return pemOf(middle.issue(t, k.Public(), change, names...), middle.cert)
	}
	for _, c := range []struct{ name, cert, key, field, says string }{
		{"nothing", "", "", "certificate_pem", "is required"},
		{"no key", good, "", "private_key_pem", "is required"},
		{"no PEM", "hello", keyPEM, "certificate_pem", "has no certificate"},
		{"cut off", good[:len(good)-60], keyPEM, "certificate_pem", "damaged"},
		{"no DER", block("CERTIFICATE", []byte("hello")), keyPEM, "certificate_pem", "Certificate 1 cannot be read"},
		{"key among the certificates", good + keyPEM, keyPEM, "certificate_pem", "into private_key_pem"},
		{"request", block("CERTIFICATE REQUEST", []byte("x")), keyPEM, "certificate_pem", "contains a CERTIFICATE REQUEST"},
		{"control characters", good + "\x00", keyPEM, "certificate_pem", "control characters"},
		{"too many", strings.Repeat(pemOf(leaf), 11), keyPEM, "certificate_pem", "at most 10"},
		{"authority first", pemOf(middle.cert, leaf), keyPEM, "certificate_pem", "starts with the certificate of an authority (middle)"},
		{"root before its child", pemOf(leaf, root.cert, middle.cert), keyPEM, "certificate_pem", "number 2 (root) did not sign number 1 (a site)"},
		{"strange chain", pemOf(leaf, other.cert), keyPEM, "certificate_pem", "number 2 (other) did not sign"},
		{"twice the same", pemOf(leaf, leaf), keyPEM, "certificate_pem", "did not sign"},
		{"expired", issue(key, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, "www.example.net"), keyPEM, "certificate_pem", "expired on"},
		{"not yet", issue(key, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }, "www.example.net"), keyPEM, "certificate_pem", "is not valid yet"},
		{"for clients", issue(key, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, "www.example.net"), keyPEM, "certificate_pem", "not a server certificate"},
		{"no names", issue(key, nil), keyPEM, "certificate_pem", "no domain name in its subject alternative names"},
		{"only an address", issue(key, nil, "192.0.2.1"), keyPEM, "certificate_pem", "no domain name"},
		{"hostile name", issue(key, nil, "www.example.net\nbind :1"), keyPEM, "certificate_pem", ""},
		{"weak", issue(weak, nil, "www.example.net"), pemKey(t, weak), "certificate_pem", "1024 bits"},
		{"P-521", issue(p521, nil, "www.example.net"), pemKey(t, p521), "certificate_pem", "P-256 or P-384"},
		{"Ed25519", issue(edKey, nil, "www.example.net"), pemKey(t, edKey), "certificate_pem", "P-256 or P-384"},
		{"no key in it", good, "hello", "private_key_pem", "has no key"},
		{"damaged key", good, block("PRIVATE KEY", []byte("hello")), "private_key_pem", "cannot be read"},
		{"certificate for a key", good, pemOf(leaf), "private_key_pem", "a private key and nothing else"},
		{"two keys", good, keyPEM + keyPEM, "private_key_pem", "more than one"},
		{"passphrase", good, block("ENCRYPTED PRIVATE KEY", []byte("x")), "private_key_pem", "passphrase"},
		{"old passphrase", good, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}, Bytes: der})), "private_key_pem", "passphrase"},
		{"another key", good, pemKey(t, ecKey(t)), "private_key_pem", "does not match the certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := h.Do(t, "admin", "POST", "/certificates", map[string]any{"source": "uploaded", "certificate_pem": c.cert, "private_key_pem": c.key}).WantField(t, c.field)
			if !strings.Contains(a.Error.Fields[c.field], c.says) {
				t.Errorf("%s", a.Body)
			}
			if bytes.Contains(a.Body, []byte(keyPEM[40:60])) {
				t.Error("the answer tells the key")
			}
		})
	}
	if len(h.all(t)) != 0 {
		t.Error("something was stored")
	}

	for name, k := range map[string]string{
		"PKCS#8": keyPEM, "SEC 1 with its parameters": block("EC PARAMETERS", []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}) + block("EC PRIVATE KEY", der), "with words around it": "my key\n" + keyPEM + "\nend",
	} {
		t.Run(name, func(t *testing.T) {
			c := h.create(t, map[string]any{"source": "uploaded", "certificate_pem": "subject: x\n" + good + "bye", "private_key_pem": k, "names": []string{"ignored.example.net"}})
			if c.Status != "valid" || !sameNames(c.Names, "www.example.net", "*.shop.example.net") || c.PEM != good || c.Issuer != "middle" || c.RenewAt != nil {
				t.Errorf("%+v", c)
			}
			p := h.pairs(t)[c.ID]
			if _, err := tls.X509KeyPair(p.PEM, p.PEM); err != nil || !p.Trusted || !sameNames(p.Names, "www.example.net", "*.shop.example.net") || !p.NotAfter.Equal(leaf.NotAfter) {
				t.Errorf("%v %+v", err, p)
			}
			h.Do(t, "admin", "DELETE", "/certificates/"+c.ID, nil).Want(t, 200)
		})
	}
}

// A new pair replaces the old one. A new certificate for the stored key needs no key; one for another key does.
func TestUploadIsReplaced(t *testing.T) {
	h := newHouse(t, nil)
	ca, key, other := newAuthority(t, "root", nil), ecKey(t), ecKey(t)
	of := func(k crypto.Signer, name string) string { return pemOf(ca.issue(t, k.Public(), nil, name)) }
	c := h.create(t, map[string]any{"source": "uploaded", "certificate_pem": of(key, "a.example.net"), "private_key_pem": pemKey(t, key)})
	path := "/certificates/" + c.ID
	put := func(fields map[string]any) (c row) {
		t.Helper()
		h.Do(t, "admin", "PUT", path, fields).Want(t, 200).Into(t, &c)
		return c
	}
	if next := put(map[string]any{"certificate_pem": of(key, "b.example.net")}); !sameNames(next.Names, "b.example.net") || next.Fingerprint == c.Fingerprint {
		t.Errorf("%+v", next)
	}
	if p := h.pairs(t)[c.ID]; !sameNames(p.Names, "b.example.net") {
		t.Errorf("%+v", p)
	}
	a := h.Do(t, "admin", "PUT", path, map[string]any{"certificate_pem": of(other, "c.example.net")}).WantField(t, "private_key_pem")
	if !strings.Contains(a.Error.Fields["private_key_pem"], "stored key does not match this certificate") {
		t.Errorf("%s", a.Body)
	}
	h.Do(t, "admin", "PUT", path, map[string]any{"private_key_pem": pemKey(t, other)}).WantField(t, "private_key_pem")
	h.Do(t, "admin", "PUT", path, map[string]any{"private_key_pem": ""}).WantField(t, "private_key_pem")
	if next := put(map[string]any{"certificate_pem": of(other, "c.example.net"), "private_key_pem": pemKey(t, other)}); !sameNames(next.Names, "c.example.net") {
		t.Errorf("%+v", next)
	}
	// Sending everything back as read changes nothing.
	var all map[string]any
	h.Get(t, path).Into(t, &all)
	before := h.get(t, c.ID)
	all["private_key_pem"] = secret.Mask
	put(all)
	if after := h.get(t, c.ID); after.Fingerprint != before.Fingerprint || after.Status != "valid" {
		t.Errorf("%+v", after)
	}
	// The missing chain is added later, for the same certificate.
	leaf := ca.issue(t, other.Public(), nil, "c.example.net")
	put(map[string]any{"certificate_pem": pemOf(leaf)})
	h.pairs(t)
	put(map[string]any{"certificate_pem": pemOf(leaf, ca.cert)})
	if p := h.pairs(t)[c.ID]; strings.Count(string(p.PEM), "BEGIN CERTIFICATE") != 2 {
		t.Errorf("the proxy gets %s", p.PEM)
	}
	h.Do(t, "admin", "PUT", path, map[string]any{"source": "acme"}).WantField(t, "source")
	h.Do(t, "admin", "POST", path+"/renew", nil).Want(t, 409)
	if strings.Contains(h.Logs.String()+string(h.Get(t, "/audit-log").Body), "PRIVATE KEY") {
		t.Error("a key is in the log")
	}
}

func TestOrderIsChecked(t *testing.T) {
	h := newHouse(t, nil)
	for _, c := range []struct {
		field string
		body  map[string]any
	}{
		{"names", map[string]any{}},
		{"names", map[string]any{"names": []string{}}},
		{"names", map[string]any{"source": "self-signed"}},
		{"names", map[string]any{"names": []string{"a.example.net", "A.example.net."}}},
		{"names", map[string]any{"names": []string{"localhost"}}},
		{"names", map[string]any{"names": []string{"a.*.example.net"}}},
		{"names", map[string]any{"names": []string{"a.example.net\n"}}},
		{"names", map[string]any{"names": many(101)}},
		{"challenge", map[string]any{"names": []string{"*.example.net"}}},
		{"challenge", map[string]any{"names": []string{"example.net"}, "challenge": "tls-alpn-01"}},
		{"dns_provider_id", map[string]any{"names": []string{"example.net"}, "dns_provider_id": "0198a2c4-0000-7000-8000-000000000000"}},
		{"dns_provider_id", map[string]any{"names": []string{"example.net"}, "challenge": "dns-01", "dns_provider_id": "0198a2c4-0000-7000-8000-000000000000"}},
		{"domain_id", map[string]any{"names": []string{"example.net"}, "domain_id": "0198a2c4-0000-7000-8000-000000000000"}},
		{"key_type", map[string]any{"names": []string{"example.net"}, "key_type": "dsa"}},
		{"certificate_pem", map[string]any{"names": []string{"example.net"}, "certificate_pem": "x"}},
		{"certificate_pem", map[string]any{"names": []string{"example.net"}, "certificate_pem": "x", "source": "self-signed"}},
		{"private_key_pem", map[string]any{"names": []string{"example.net"}, "private_key_pem": "x"}},
	} {
		h.Do(t, "admin", "POST", "/certificates", c.body).WantField(t, c.field)
	}
	c := h.create(t, map[string]any{"names": []string{"example.net"}})
	h.Do(t, "admin", "PUT", "/certificates/"+c.ID, map[string]any{"certificate_pem": "x"}).WantField(t, "certificate_pem")
	h.Do(t, "admin", "POST", "/certificates/"+c.ID+"/renew", nil).Want(t, 409) // ACME is off
	// Changing the names before anything is issued changes the self-signed certificate, too.
	var next row
	h.Do(t, "admin", "PUT", "/certificates/"+c.ID, map[string]any{"names": []string{"www.example.net"}}).Want(t, 200).Into(t, &next)
	if !sameNames(leafOf(t, next.PEM).DNSNames, "www.example.net") || next.Status != "pending" {
		t.Errorf("%+v", next)
	}
}

func many(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("n%d.example.net", i))
	}
	return names
}

func TestProviderIsChecked(t *testing.T) {
	h := newHouse(t, nil)
	base := func(change map[string]any) map[string]any {
		m := map[string]any{"name": "p", "kind": "rfc2136", "server": "ns.example.net", "username": "key", "secret": tsigSecret}
		for k, v := range change {
			m[k] = v
		}
		return m
	}
	for _, c := range []struct {
		field  string
		change map[string]any
	}{
		{"server", map[string]any{"server": ""}},
		{"server", map[string]any{"server": "ns.example.net:0"}},
		{"server", map[string]any{"server": "ns.example.net:dns"}},
		{"server", map[string]any{"server": "a b"}},
		{"server", map[string]any{"kind": "cloudflare", "username": ""}},
		{"username", map[string]any{"username": "a b"}},
		{"username", map[string]any{"kind": "cloudflare", "server": ""}},
		{"secret", map[string]any{"secret": "not base64!"}},
		{"secret", map[string]any{"secret": ""}},
		{"secret", map[string]any{"kind": "desec", "server": "", "username": "", "secret": ""}},
		{"endpoint", map[string]any{"kind": "httpreq", "server": ""}},
		{"endpoint", map[string]any{"kind": "httpreq", "server": "", "endpoint": "http://plain.example.net"}},
		{"endpoint", map[string]any{"endpoint": "https://x.example.net"}},
		{"zones", map[string]any{"zones": []string{"example.net", "example.net."}}},
		{"zones", map[string]any{"zones": []string{"net"}}},
		{"kind", map[string]any{"kind": "route53"}},
		{"algorithm", map[string]any{"algorithm": "hmac-md5"}},
		{"name", map[string]any{"name": ""}},
	} {
		a := h.Do(t, "admin", "POST", "/dns-providers", base(c.change)).WantField(t, c.field)
		if strings.Contains(string(a.Body), tsigSecret) {
			t.Error("the answer tells the secret")
		}
	}
	for _, kind := range []string{"cloudflare", "desec", "digitalocean", "hetzner"} {
		h.Do(t, "admin", "POST", "/dns-providers", map[string]any{"name": kind, "kind": kind, "secret": "token"}).Want(t, 201)
	}
	var p struct {
		ID               string
		SecretConfigured bool `json:"secret_configured"`
	}
	h.Do(t, "admin", "POST", "/dns-providers", base(nil)).Want(t, 201).Into(t, &p)
	if !p.SecretConfigured {
		t.Error("it has no secret")
	}
	// The secret is never sent to another server than the one it was entered for.
	h.Do(t, "admin", "PUT", "/dns-providers/"+p.ID, map[string]any{"server": "evil.example.net"}).WantField(t, "secret")
	h.Do(t, "admin", "PUT", "/dns-providers/"+p.ID, map[string]any{"zones": []string{"example.net"}}).Want(t, 200)
	h.create(t, map[string]any{"names": []string{"*.example.net"}, "challenge": "dns-01", "dns_provider_id": p.ID})
	if a := h.Do(t, "admin", "DELETE", "/dns-providers/"+p.ID, nil).Want(t, 409); !strings.Contains(string(a.Body), "*.example.net") {
		t.Errorf("%s", a.Body)
	}
}

// The status follows the clock, and self-signed certificates are renewed in time.
func TestStatusByTheClock(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	h := newHouse(t, clock.NewFake(now))
	ca, key := newAuthority(t, "root", nil), ecKey(t)
	expires := now.Add(20 * 24 * time.Hour)
	up := h.create(t, map[string]any{"source": "uploaded", "private_key_pem": pemKey(t, key),
		"certificate_pem": pemOf(ca.issue(t, key.Public(), func(c *x509.Certificate) { c.NotAfter = expires }, "www.example.net"))})
	self := h.create(t, map[string]any{"source": "self-signed", "names": []string{"self.example.net"}, "key_type": "rsa-2048"})
	if self.Status != "valid" || leafOf(t, self.PEM).PublicKeyAlgorithm != x509.RSA {
		t.Errorf("%+v", self)
	}
	pending := h.create(t, map[string]any{"names": []string{"pending.example.net"}})
	h.run(t)
	status := func(id, want string) func() bool { return func() bool { return h.get(t, id).Status == want } }
	for _, step := range []struct {
		at   time.Duration
		want string
	}{{5 * 24 * time.Hour, "valid"}, {expires.Sub(now) - 14*24*time.Hour + time.Second, "expiring"}, {expires.Sub(now) - time.Second, "expiring"}, {expires.Sub(now), "expired"}} {
		h.clock.Move(now.Add(step.at).Sub(h.clock.Now()))
		h.room.Wake()
		waittest.Until(t, step.want, status(up.ID, step.want))
	}
	var sum certificate.Summary
	h.Get(t, "/certificates/summary").Want(t, 200).Into(t, &sum)
	if sum != (certificate.Summary{Total: 3, Expired: 1}) {
		t.Errorf("%+v", sum)
	}
	if h.Audited(t, "certificate.certificate.update") != 0 {
		t.Error("the passing of time is in the audit log")
	}
	h.clock.Move(600 * 24 * time.Hour)
	waittest.Until(t, "they are signed anew", func() bool {
		return h.get(t, self.ID).Fingerprint != self.Fingerprint && h.get(t, pending.ID).Fingerprint != pending.Fingerprint
	})
	if c := h.get(t, pending.ID); c.Status != "pending" || !c.ExpiresAt.After(h.clock.Now().Add(800*24*time.Hour)) {
		t.Errorf("%+v", c)
	}
	var renewed row
	before := h.get(t, self.ID)
	h.Do(t, "admin", "POST", "/certificates/"+self.ID+"/renew", nil).Want(t, 200).Into(t, &renewed)
	if renewed.Fingerprint == before.Fingerprint || renewed.Status != "valid" {
		t.Errorf("%+v", renewed)
	}
}

// Failing orders wait longer each time, but never forever.
func TestPatience(t *testing.T) {
	h := newHouse(t, clock.NewFake(time.Now().UTC().Truncate(time.Second)))
	newNameServer(t)
	h.acme = certificate.ACME{Enabled: true, Email: value.Must[value.Email]("admin@example.net"), DirectoryURL: value.Must[value.URL]("https://" + caAddr + ":9/dir")}
	c := h.create(t, map[string]any{"names": []string{"www.example.net"}})
	h.run(t)
	for i, want := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 12 * time.Hour} {
		failed := h.until(t, c.ID, func(c row) bool { return c.Attempts == i+1 })
		if got := failed.NextAttemptAt.Sub(h.clock.Now()); got != want || failed.ErrorKind != "account" || !strings.Contains(failed.LastError, "cannot be reached") {
			t.Errorf("attempt %d: %s, %s", i+1, got, failed.LastError)
		}
		h.clock.Move(want)
		h.room.Wake()
	}
	// An operator can request an order at once.
	at := h.until(t, c.ID, func(c row) bool { return c.Attempts == 9 })
	h.Do(t, "admin", "POST", "/certificates/"+c.ID+"/renew", nil).Want(t, 200)
	h.until(t, c.ID, func(c row) bool { return c.Attempts == at.Attempts+1 })
	// When ACME is off, nothing is ordered.
	h.Do(t, "admin", "PUT", "/certificates/acme", `{"enabled":false}`).Want(t, 200)
	h.clock.Move(24 * time.Hour)
	var due certificate.Due
	h.Do(t, "admin", "POST", "/certificates/renew-due", nil).Want(t, 200).Into(t, &due)
	if due.Ordered != 0 {
		t.Errorf("%+v", due)
	}
	h.Do(t, "admin", "PUT", "/certificates/acme", `{"enabled":true}`).Want(t, 200)
	h.until(t, c.ID, func(c row) bool { return c.Attempts == at.Attempts+2 })
	h.Do(t, "admin", "PUT", "/certificates/acme", `{"email":""}`).WantField(t, "email")
}

// Under another master key everything that can be made again is kept, and the rest reports what it needs.
func TestOtherMasterKey(t *testing.T) {
	h := newHouse(t, nil)
	ca, key := newAuthority(t, "root", nil), ecKey(t)
	up := h.create(t, map[string]any{"source": "uploaded", "private_key_pem": pemKey(t, key), "certificate_pem": pemOf(ca.issue(t, key.Public(), nil, "www.example.net"))})
	self := h.create(t, map[string]any{"source": "self-signed", "names": []string{"self.example.net"}})
	order := h.create(t, map[string]any{"names": []string{"order.example.net"}})
	if n := len(h.pairs(t)); n != 3 {
		t.Fatalf("%d pairs", n)
	}
	other, err := secret.NewBox(bytes.Repeat([]byte{8}, 32))
	if err != nil {
		t.Fatal(err)
	}
	restarted := &house{Bench: kittest.NewOn(t, h.DB), users: h.users}
	restarted.Secrets, restarted.Resources.Secrets = other, other
	restarted.build()
	restarted.Start(t)
	h = restarted
	if n := len(h.pairs(t)); n != 0 {
		t.Errorf("%d pairs", n)
	}
	h.run(t)
	lost := h.until(t, up.ID, func(c row) bool { return c.Status == "error" })
	if !strings.Contains(lost.LastError, "Upload the certificate and its key again") {
		t.Errorf("%+v", lost)
	}
	h.until(t, self.ID, func(c row) bool { return c.Fingerprint != self.Fingerprint && c.Status == "valid" })
	h.until(t, order.ID, func(c row) bool { return c.Fingerprint != order.Fingerprint && c.Status == "pending" })
	h.Do(t, "admin", "PUT", "/certificates/"+up.ID, map[string]any{"certificate_pem": pemOf(ca.issue(t, key.Public(), nil, "www.example.net"))}).WantField(t, "private_key_pem")
	var again row
	h.Do(t, "admin", "PUT", "/certificates/"+up.ID, map[string]any{"private_key_pem": pemKey(t, key)}).Want(t, 200).Into(t, &again)
	if again.Status != "valid" || again.LastError != "" || len(h.pairs(t)) != 3 {
		t.Errorf("%+v", again)
	}
}

// The worker rests before each pass that a change triggers, so changes that keep coming share their passes.
func TestChangesShareAPass(t *testing.T) {
	h := newHouse(t, nil)
	h.run(t)
	passes := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.passes
	}
	waittest.Until(t, "the first pass", func() bool { return passes() > 0 })
	before, begun := passes(), time.Now()
	for range 40 {
		h.room.Wake()
		time.Sleep(5 * time.Millisecond)
	}
	atMost := int(time.Since(begun)/certificate.GatherFor) + 2
	if n := passes() - before; n > atMost {
		t.Errorf("%d passes instead of at most %d", n, atMost)
	}
	before = passes()
	h.room.Wake()
	waittest.Until(t, "a pass after the last change", func() bool { return passes() > before })
}
