package cluster_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/waittest"
)

func p256(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// csr encodes a certificate request in PEM form.
func csr(t *testing.T, template *x509.CertificateRequest, key crypto.Signer) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func newRequest(t *testing.T, id, fqdn string) string {
	t.Helper()
	return csr(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: id}, DNSNames: []string{fqdn}}, p256(t))
}

// nodeCertificate returns the certificate that identifies a gateway to others.
func (g *gate) nodeCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	file := g.Paths.State(filepath.Join(cluster.Folder, "node.pem"))
	c, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// authority returns the cluster's authority, with its key.
func (g *gate) authority(t *testing.T) (*x509.Certificate, crypto.Signer) {
	t.Helper()
	var id uuid.UUID
	var text string
	var sealed []byte
	if err := g.DB.QueryRow(t.Context(), "SELECT id, certificate, private_key FROM ha_ca").Scan(&id, &text, &sealed); err != nil {
		t.Fatal(err)
	}
	plain, err := g.Secrets.Open(sealed, "ha_ca", "private_key", id.String())
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(text))
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	block, _ = pem.Decode([]byte(plain))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c, key.(crypto.Signer)
}

// forged returns a certificate that the authority never issues.
func forged(t *testing.T, ca *x509.Certificate, caKey crypto.Signer, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key := p256(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	change(template)
	if ca == nil {
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// agentRoutes lists all routes of the agent listener, and some that do not exist.
func (g *gate) agentRoutes(t *testing.T) []string {
	t.Helper()
	routes := g.room.AgentRoutes()
	for _, known := range []string{"GET /api/v1/agent/cluster/master-key", "POST /api/v1/agent/forward", "POST /api/v1/agent/cluster/differences/read"} {
		if !slices.Contains(routes, known) {
			t.Fatalf("no %s in %q", known, routes)
		}
	}
	return append(routes, "GET /api/v1/cluster/status", "POST /api/v1/cluster/join-tokens", "GET /api/v1/openapi.json", "GET /", "DELETE /api/v1/agent/cluster/master-key",
		"HEAD /api/v1/agent/cluster/master-key", "GET /api/v1/agent/cluster/../cluster/master-key", "GET /api/v1/agent/cluster/master-key/", "GET //api/v1/agent/cluster/master-key")
}

// ask makes a request to the agent listener. The status is 0 if there was no connection.
func (g *gate) ask(t *testing.T, own []tls.Certificate, route string, change func(*tls.Config)) (status int, body string) {
	t.Helper()
	return g.send(t, own, route, "", change)
}

func (g *gate) send(t *testing.T, own []tls.Certificate, route, content string, change func(*tls.Config)) (status int, body string) {
	t.Helper()
	ca, _ := g.authority(t)
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	config := &tls.Config{Certificates: own, RootCAs: pool, ServerName: g.me.Name}
	if len(own) > 0 { // else a certificate that the server would refuse is not even sent
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own[0], nil }
	}
	if change != nil {
		change(config)
	}
	method, path, _ := strings.Cut(route, " ")
	client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), method, "https://"+g.listener.Addr().String(), strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Path = path
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// The agent listener refuses strangers on every route, and never gives them the master key.
func TestStrangersAtTheAgentListener(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	ca, key := primary.authority(t)
	member := func(c *x509.Certificate) {
		c.Subject, c.DNSNames = pkix.Name{CommonName: standby.me.ID}, []string{standby.me.Name}
	}
	with := func(changes ...func(*x509.Certificate)) tls.Certificate {
		return forged(t, ca, key, func(c *x509.Certificate) {
			member(c)
			for _, change := range changes {
				change(c)
			}
		})
	}
	good := standby.nodeCertificate(t)
	if status, body := primary.ask(t, []tls.Certificate{good}, "GET /api/v1/agent/cluster/identity", nil); status != 200 || !strings.Contains(body, `"role":"primary"`) {
		t.Fatalf("a node is refused: %d %s", status, body)
	}
	if status, body := primary.ask(t, []tls.Certificate{with()}, "GET /api/v1/agent/cluster/version", nil); status != 200 || body != `{"data":{"version":"1.0.0"},"error":null}` {
		t.Fatalf("a certificate as it should be is refused: %d %s", status, body)
	}
	join, _ := primary.room.JoinCertificate()
	own := func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	}
	ownCA := forged(t, nil, nil, func(c *x509.Certificate) { c.Subject = ca.Subject; own(c) })
	ownParsed, err := x509.ParseCertificate(ownCA.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	below := with(own) // a node's certificate that may sign
	belowParsed, err := x509.ParseCertificate(below.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	deep := forged(t, belowParsed, below.PrivateKey.(crypto.Signer), member)
	deep.Certificate = append(deep.Certificate, below.Certificate[0])
	stolen := with()
	stolen.PrivateKey = p256(t)
	strangers := map[string]struct {
		own    []tls.Certificate
		change func(*tls.Config)
	}{
		"no certificate":    {},
		"TLS 1.2":           {[]tls.Certificate{good}, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }},
		"its own signature": {own: []tls.Certificate{forged(t, nil, nil, member)}},
		"another authority": {own: []tls.Certificate{forged(t, ownParsed, ownCA.PrivateKey.(crypto.Signer), member)}},
		"no node":           {own: []tls.Certificate{with(func(c *x509.Certificate) { c.Subject.CommonName = uuid.NewString() })}},
		"no node, with a node's id as another name": {own: []tls.Certificate{with(func(c *x509.Certificate) {
			c.Subject = pkix.Name{CommonName: "x", Organization: []string{standby.me.ID}}
		})}},
		"no id":                  {own: []tls.Certificate{with(func(c *x509.Certificate) { c.Subject = pkix.Name{} })}},
		"a node of another name": {own: []tls.Certificate{with(func(c *x509.Certificate) { c.DNSNames = []string{"three.example.net"} })}},
		"a node of two names":    {own: []tls.Certificate{with(func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "three.example.net") })}},
		"a node without a name":  {own: []tls.Certificate{with(func(c *x509.Certificate) { c.DNSNames = nil })}},
		"a placeholder": {own: []tls.Certificate{with(func(c *x509.Certificate) {
			c.Subject.CommonName, c.DNSNames = "prenode-three.example.net", []string{"three.example.net"}
		})}},
		"this node itself":          {own: []tls.Certificate{primary.nodeCertificate(t)}},
		"expired":                   {own: []tls.Certificate{with(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })}},
		"not good yet":              {own: []tls.Certificate{with(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(10 * time.Minute) })}},
		"server only":               {own: []tls.Certificate{with(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })}},
		"the reverse proxy's":       {own: []tls.Certificate{*join}},
		"no usage for clients":      {own: []tls.Certificate{with(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection} })}},
		"signed by a node":          {own: []tls.Certificate{deep}},
		"without its key":           {own: []tls.Certificate{stolen}},
		"of before the node's time": {own: []tls.Certificate{with(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(-48 * time.Hour) })}},
	}
	primary.token(t, "three.example.net")
	routes := primary.agentRoutes(t)
	refused := func(name string, own []tls.Certificate, change func(*tls.Config)) {
		t.Helper()
		for _, route := range routes {
			status, body := primary.ask(t, own, route, change)
			if status != 0 && status != 401 && status != 403 || strings.Contains(body, "master_key") {
				t.Errorf("%s: %s answers %d %s", name, route, status, body)
			}
		}
	}
	for name, x := range strangers {
		refused(name, x.own, x.change)
	}
	// A former node, on a connection that stayed open.
	conn := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: func() *tls.Config {
		pool := x509.NewCertPool()
		pool.AddCert(ca)
		return &tls.Config{Certificates: []tls.Certificate{good}, RootCAs: pool, ServerName: primary.me.Name}
	}(), MaxConnsPerHost: 1}}
	get := func() int {
		res, err := conn.Get("https://" + primary.listener.Addr().String() + "/api/v1/agent/cluster/version")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	if s := get(); s != 200 {
		t.Fatalf("status %d", s)
	}
	primary.Do(t, "admin", http.MethodPost, "/cluster/nodes/"+standby.me.ID+"/leave", nil).Want(t, 200)
	if s := get(); s != 403 {
		t.Errorf("a node that has left is answered %d", s)
	}
	refused("removed", []tls.Certificate{good}, nil)
	if n := primary.Audited(t, "cluster.master-key"); n != 1 {
		t.Errorf("the master key was given %d times", n)
	}
}

// A standby obeys only its own primary: neither another standby, nor does a primary obey a standby.
func TestOnlyThePrimaryAsksThat(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	ca, key := primary.authority(t)
	third := cluster.Node{ID: uuid.NewString(), Name: "three.example.net"}
	dbtest.Exec(t, primary.DB, "INSERT INTO ha_nodes (id, created_at, updated_at, fqdn, public_ip, status) VALUES ($1, now(), now(), $2, '192.0.2.3', 'online')", third.ID, third.Name)
	waittest.Until(t, "the third node is known", func() bool { return standby.members(t)[third.ID].FQDN == third.Name })
	other := forged(t, ca, key, func(c *x509.Certificate) {
		c.Subject, c.DNSNames = pkix.Name{CommonName: third.ID}, []string{third.Name}
	})
	var done []string
	for _, g := range []**gate{&primary, &standby} {
		(*g).deps.Drain = func(context.Context, bool) error { done = append(done, "drain"); return nil }
		(*g).deps.Update = func(context.Context, string) error { done = append(done, "update"); return nil }
		*g = (*g).again(t, "1.0.0")
	}
	type place struct {
		Role           cluster.Role
		Epoch          int64
		Nodes, Entries int
		Repair         string
	}
	of := func(g *gate) place {
		var r cluster.Repairing
		g.Get(t, "/cluster/repair-replication").Want(t, 200).Into(t, &r)
		s := g.state(t)
		return place{s.Role, s.Epoch, len(g.members(t)), g.Rows(t, "audit_entries") + g.Rows(t, "audit_outbox"), r.State}
	}
	for name, x := range map[string]struct {
		asked *gate
		by    tls.Certificate
	}{
		"another standby asks the standby": {standby, other},
		"a standby asks the primary":       {primary, standby.nodeCertificate(t)},
	} {
		before := of(x.asked)
		for route, body := range map[string]string{"leave": "", "drain": `{"drain":true}`, "trigger-update": `{"version":"1.1.0"}`, "repair-replication": `{"force":true}`} {
			status, output := x.asked.send(t, []tls.Certificate{x.by}, "POST /api/v1/agent/cluster/"+route, body, nil)
			if status != 403 || !strings.Contains(output, "Only the primary that this node follows may ask for this.") {
				t.Errorf("%s: %s answers %d %s", name, route, status, output)
			}
		}
		if now := of(x.asked); now != before || len(done) > 0 {
			t.Errorf("%s: it was %+v and is %+v; done: %q", name, before, now, done)
		}
	}
	// The primary may.
	if status, output := standby.send(t, []tls.Certificate{primary.nodeCertificate(t)}, "POST /api/v1/agent/cluster/drain", `{"drain":true}`, nil); status != 200 || !slices.Equal(done, []string{"drain"}) {
		t.Errorf("%d %s; done: %q", status, output, done)
	}
}

// A node that has its certificate but is not in the list yet may only register, with its own certificate and before another token is
// made.
func TestJoiningNodeMayRegisterAlone(t *testing.T) {
	t.Parallel()
	primary, standby := gates(t)
	token := primary.token(t, standby.me.Name)
	key := p256(t)
	var out cluster.Certified
	primary.certify(t, token.Token, csr(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: standby.me.ID}, DNSNames: []string{standby.me.Name}}, key)).Want(t, 200).Into(t, &out)
	block, _ := pem.Decode([]byte(out.Certificate))
	issued, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if issued.IsCA || !issued.BasicConstraintsValid || issued.KeyUsage != x509.KeyUsageDigitalSignature || len(issued.DNSNames) != 1 || len(issued.IPAddresses) != 1 ||
		issued.IPAddresses[0].String() != "192.0.2.7" || len(issued.ExtKeyUsage) != 2 || out.PrimaryID != primary.me.ID || out.PrimaryFQDN != primary.me.Name {
		t.Errorf("%+v %+v", issued, out)
	}
	own := []tls.Certificate{{Certificate: [][]byte{block.Bytes}, PrivateKey: key}}
	for _, route := range primary.agentRoutes(t) {
		status, body := primary.ask(t, own, route, nil)
		want := 403
		if strings.HasSuffix(route, "/register") {
			want = 400 // it reports nothing about itself
		}
		if status != want || strings.Contains(body, "master_key") {
			t.Errorf("%s answers %d %s", route, status, body)
		}
	}
	// Nor may another node register under that name.
	ca, caKey := primary.authority(t)
	other := forged(t, ca, caKey, func(c *x509.Certificate) {
		c.Subject, c.DNSNames = pkix.Name{CommonName: uuid.NewString()}, []string{standby.me.Name}
	})
	if status, _ := primary.ask(t, []tls.Certificate{other}, "POST /api/v1/agent/cluster/register", nil); status != 403 {
		t.Errorf("another node registers: %d", status)
	}
	primary.token(t, standby.me.Name)
	if status, _ := primary.ask(t, own, "POST /api/v1/agent/cluster/register", nil); status != 403 {
		t.Errorf("a certificate of a token before registers: %d", status)
	}
}

// Certificate requests that ask for more than to be the expected node are refused, and do not use up the token.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	primary, standby := gates(t)
	token := primary.token(t, standby.me.Name)
	id, fqdn := standby.me.ID, standby.me.Name
	with := func(change func(*x509.CertificateRequest)) string {
		x := &x509.CertificateRequest{Subject: pkix.Name{CommonName: id}, DNSNames: []string{fqdn}}
		change(x)
		return csr(t, x, p256(t))
	}
	keyed := func(key crypto.Signer, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return csr(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: id}, DNSNames: []string{fqdn}}, key)
	}
	ca, err := asn1.Marshal(struct{ IsCA bool }{true})
	if err != nil {
		t.Fatal(err)
	}
	twice, err := asn1.Marshal(pkix.RDNSequence{{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: id}}, {{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: primary.me.ID}}})
	if err != nil {
		t.Fatal(err)
	}
	weak, weakErr := rsa.GenerateKey(rand.Reader, 1024)
	p384, p384Err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	p224, p224Err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	good := newRequest(t, id, fqdn)
	block, _ := pem.Decode([]byte(good))
	broken := append([]byte{}, block.Bytes...)
	broken[len(broken)-1] ^= 1
	encoded := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	for name, text := range map[string]string{
		"nothing":            "",
		"no PEM":             "nonsense",
		"no request":         encoded("CERTIFICATE", block.Bytes),
		"two":                good + good,
		"something behind":   good + "x",
		"another signature":  encoded("CERTIFICATE REQUEST", broken),
		"garbage":            encoded("CERTIFICATE REQUEST", []byte{0x30, 0x00}),
		"longer than any":    good + strings.Repeat("\n", 17<<10),
		"RSA of 1024 bits":   keyed(weak, weakErr),
		"P-384":              keyed(p384, p384Err),
		"P-224":              keyed(p224, p224Err),
		"another name":       with(func(x *x509.CertificateRequest) { x.DNSNames = []string{"three.example.net"} }),
		"the primary's name": with(func(x *x509.CertificateRequest) { x.DNSNames = []string{primary.me.Name} }),
		"the joiner's name":  with(func(x *x509.CertificateRequest) { x.DNSNames = []string{cluster.JoinName} }),
		"one name more":      with(func(x *x509.CertificateRequest) { x.DNSNames = append(x.DNSNames, "three.example.net") }),
		"the name twice":     with(func(x *x509.CertificateRequest) { x.DNSNames = append(x.DNSNames, fqdn) }),
		"a wildcard":         with(func(x *x509.CertificateRequest) { x.DNSNames = []string{"*.example.net"} }),
		"an address":         with(func(x *x509.CertificateRequest) { x.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} }),
		"a mail address":     with(func(x *x509.CertificateRequest) { x.EmailAddresses = []string{"root@example.net"} }),
		"a URI":              with(func(x *x509.CertificateRequest) { x.URIs = []*url.URL{{Scheme: "spiffe", Host: fqdn}} }),
		"no id":              with(func(x *x509.CertificateRequest) { x.Subject = pkix.Name{} }),
		"a name for an id":   with(func(x *x509.CertificateRequest) { x.Subject.CommonName = fqdn }),
		"a placeholder's id": with(func(x *x509.CertificateRequest) { x.Subject.CommonName = "prenode-" + fqdn }),
		"a long id":          with(func(x *x509.CertificateRequest) { x.Subject.CommonName = id + id }),
		"an id with a line":  with(func(x *x509.CertificateRequest) { x.Subject.CommonName = id[:35] + "\n" }),
		"a database's role":  with(func(x *x509.CertificateRequest) { x.Subject.CommonName = "gateway_repl" }),
		"an organisation":    with(func(x *x509.CertificateRequest) { x.Subject.Organization = []string{"x"} }),
		"two ids":            with(func(x *x509.CertificateRequest) { x.RawSubject = twice }),
		"CA:TRUE": with(func(x *x509.CertificateRequest) {
			x.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: ca}}
		}),
		"name constraints": with(func(x *x509.CertificateRequest) {
			x.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 30}, Value: ca}}
		}),
	} {
		primary.certify(t, token.Token, text).WantField(t, "csr")
		if t.Failed() {
			t.Fatal(name)
		}
	}
	// No one else can have the id of a node of the cluster.
	if a := primary.certify(t, token.Token, newRequest(t, primary.me.ID, fqdn)).Want(t, 409); a.Error.Fields["csr"] == "" {
		t.Errorf("%s", a.Body)
	}
	if m := primary.members(t)["prenode-"+fqdn]; m.Status != cluster.Pending {
		t.Errorf("%+v", m)
	}
	for name, key := range map[string]func() (crypto.Signer, error){
		"Ed25519": func() (crypto.Signer, error) { _, key, err := ed25519.GenerateKey(rand.Reader); return key, err },
		"RSA":     func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) },
		"P-256":   func() (crypto.Signer, error) { return p256(t), nil },
	} {
		k, err := key()
		if a := primary.certify(t, primary.token(t, fqdn).Token, keyed(k, err)); a.Status != 200 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
}

// Tokens that were changed, made elsewhere or have expired are refused, and guessing is limited.
func TestHostileTokens(t *testing.T) {
	t.Parallel()
	primary, standby := gates(t)
	stranger, _ := gates(t)
	good := primary.token(t, standby.me.Name).Token
	payload, signature, _ := strings.Cut(strings.TrimPrefix(good, "gwj_"), ".")
	plain, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(from, to string) string {
		text := strings.Replace(string(plain), from, to, 1)
		if text == string(plain) {
			t.Fatalf("the token has no %s: %s", from, plain)
		}
		return "gwj_" + base64.RawURLEncoding.EncodeToString([]byte(text)) + "." + signature
	}
	flipped := []byte(good)
	flipped[len(flipped)-3] ^= 1
	from := 10
	for name, token := range map[string]string{
		"nonsense":            "x",
		"no signature":        "gwj_" + payload,
		"an empty signature":  "gwj_" + payload + ".",
		"another signature":   string(flipped),
		"a longer signature":  good + "A",
		"padding":             good + "=",
		"another name":        changed(standby.me.Name, "three.example.net"),
		"a longer life":       changed(`"exp":1`, `"exp":9`),
		"another fingerprint": changed(`"ca":"`, `"ca":"0`),
		"without its mark":    strings.TrimPrefix(good, "gwj_"),
		"another cluster's":   stranger.token(t, standby.me.Name).Token,
		"endless":             good + strings.Repeat("A", 4096),
	} {
		from++
		if a := primary.certifyFrom(t, fmt.Sprintf("192.0.2.%d:4711", from), token, newRequest(t, standby.me.ID, standby.me.Name)); a.Status != 401 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	primary.certify(t, "", newRequest(t, standby.me.ID, standby.me.Name)).WantField(t, "join_token")
	// The database decides when a token has expired.
	dbtest.Exec(t, primary.DB, "UPDATE ha_join_tokens SET expires_at = now() - interval '1 second'")
	primary.certify(t, good, newRequest(t, standby.me.ID, standby.me.Name)).Want(t, 409)
	for n := range 60 {
		if a := primary.certify(t, fmt.Sprintf("gwj_%d.x", n), newRequest(t, standby.me.ID, standby.me.Name)); a.Status == 429 {
			return
		}
	}
	t.Error("guessing is not bounded")
}

// The secret for tokens is the node's own, and only the node can read it.
func TestTokenSecret(t *testing.T) {
	t.Parallel()
	one, other := gates(t)
	read := func(g *gate) string {
		file := g.Paths.State(filepath.Join(cluster.Folder, "join-secret"))
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := os.Stat(file); err != nil || s.Mode().Perm() != 0o600 || len(b) != 32 {
			t.Errorf("%v, %d bytes, %v", s.Mode(), len(b), err)
		}
		return string(b)
	}
	if read(one) == read(other) {
		t.Error("two nodes have the same secret")
	}
	for _, g := range []*gate{one, other} {
		primary := g.token(t, "three.example.net")
		var rows int
		if err := g.DB.QueryRow(t.Context(), "SELECT count(*) FROM ha_join_tokens t WHERE position($1 IN t::text) > 0", primary.Token).Scan(&rows); err != nil || rows != 0 {
			t.Errorf("the token is in the database: %d, %v", rows, err)
		}
	}
	for _, name := range []string{"node.pem", "join.pem", "ca.pem"} {
		if s, err := os.Stat(one.Paths.State(filepath.Join(cluster.Folder, name))); err != nil || s.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, s, err)
		}
	}
}
