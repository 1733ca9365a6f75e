package certificate_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/miekg/dns"

	"edge.internal/gateway/internal/certificate"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
)

// house is the room with test doubles for what it needs from others.
type house struct {
	*kittest.Bench
	room  *certificate.Room
	clock *clock.Fake // nil for the real one

	mu     sync.Mutex
	acme   certificate.ACME
	wanted []certificate.Wanted
	users  map[uuid.UUID][]resource.User
	hide   bool // the proxy serves an old certificate
	silent bool // the name servers do not answer
	passes int  // how often the worker asked for what is wanted
}

const fqdn = "gateway.example.net"

// newHouse creates a room. The before functions run before it starts.
func newHouse(t *testing.T, fake *clock.Fake, before ...func(*house)) *house {
	t.Helper()
	h := &house{Bench: kittest.New(t), clock: fake, users: map[uuid.UUID][]resource.User{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("it said:\n%s", h.Logs)
		}
	})
	if fake != nil {
		h.Clock = fake
	}
	h.build()
	for _, f := range before {
		f(h)
	}
	h.Start(t)
	return h
}

func (h *house) build() {
	h.room = certificate.New(h.Kit, certificate.Deps{
		FQDN: func() string { return fqdn },
		Wanted: func(context.Context, db.Querier) ([]certificate.Wanted, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.passes++
			return slices.Clone(h.wanted), nil
		},
		Users: func(_ context.Context, _ db.Querier, id uuid.UUID) ([]resource.User, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.users[id], nil
		},
		ACME:    func() certificate.ACME { h.mu.Lock(); defer h.mu.Unlock(); return h.acme },
		SetACME: func(a certificate.ACME) error { h.mu.Lock(); defer h.mu.Unlock(); h.acme = a; return nil },
		Resolvers: func() []string {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.silent {
				return []string{strangeAddr + ":53"}
			}
			return []string{dnsAddr + ":53"}
		},
	})
	h.room.Mount()
}

func (h *house) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { h.room.Run(ctx); close(done) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// want sets what the domains and the gateway need.
func (h *house) want(list ...certificate.Wanted) {
	h.mu.Lock()
	h.wanted = list
	h.mu.Unlock()
	h.room.Wake()
}

func (h *house) all(t *testing.T) (list []row) {
	t.Helper()
	h.Get(t, "/certificates").Want(t, 200).Into(t, &list)
	return list
}

// row is a certificate as the API returns it.
type row struct {
	ID            string     `json:"id"`
	DomainID      *string    `json:"domain_id"`
	Names         []string   `json:"names"`
	Source        string     `json:"source"`
	Challenge     string     `json:"challenge"`
	Automatic     bool       `json:"automatic"`
	PEM           string     `json:"certificate_pem"`
	NotBefore     *time.Time `json:"not_before"`
	ExpiresAt     *time.Time `json:"expires_at"`
	Issuer        string     `json:"issuer"`
	Fingerprint   string     `json:"fingerprint_sha256"`
	Status        string     `json:"status"`
	LastRenewedAt *time.Time `json:"last_renewed_at"`
	LastError     string     `json:"last_error"`
	ErrorKind     string     `json:"error_kind"`
	Attempts      int        `json:"attempts"`
	NextAttemptAt *time.Time `json:"next_attempt_at"`
	RenewAt       *time.Time `json:"renew_at"`
}

func (h *house) get(t *testing.T, id string) (c row) {
	t.Helper()
	h.Get(t, "/certificates/"+id).Want(t, 200).Into(t, &c)
	return c
}

// until waits until a certificate satisfies ok.
func (h *house) until(t *testing.T, id string, ok func(row) bool) row {
	t.Helper()
	var c row
	waittest.UntilNil(t, "the certificate is as it must", func() error {
		if c = h.get(t, id); !ok(c) {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	return c
}

func (h *house) create(t *testing.T, fields map[string]any) (c row) {
	t.Helper()
	h.Do(t, "admin", "POST", "/certificates", fields).Want(t, 201).Into(t, &c)
	return c
}

// authority is a certificate authority in memory.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(t testing.TB, name string, parent *authority) *authority {
	t.Helper()
	a := &authority{key: ecKey(t)}
	a.cert = a.sign(t, parent, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().AddDate(10, 0, 0),
	}, a.key.Public())
	return a
}

// sign signs with the parent's key, or with the authority's own.
func (a *authority) sign(t testing.TB, parent *authority, template *x509.Certificate, public crypto.PublicKey) *x509.Certificate {
	t.Helper()
	var err error
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<60)); err != nil {
		t.Fatal(err)
	}
	by, key := template, a.key
	if parent != nil {
		by, key = parent.cert, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by, public, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// issue issues a server certificate.
func (a *authority) issue(t testing.TB, public crypto.PublicKey, change func(*x509.Certificate), names ...string) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "a site"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 3, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	if change != nil {
		change(template)
	}
	return a.sign(t, a, template, public)
}

func ecKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pemOf(certs ...*x509.Certificate) string {
	var b strings.Builder
	for _, c := range certs {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return b.String()
}

func pemKey(t testing.TB, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// nameServer is the primary of every zone, and the resolver of all tests.
type nameServer struct {
	mu      sync.Mutex
	records map[string][]dns.RR // by name and type
	updates int
	refused int
}

const (
	tsigKey    = "gateway."
	tsigSecret = "c2VjcmV0IG9mIHRoZSB0ZXN0cyBvZiB0aGUgZ2F0ZXdheQ=="
)

func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	n := &nameServer{records: map[string][]dns.RR{}}
	for _, zone := range []string{"example.net.", "delegated.example."} {
		n.add(zone + " 60 IN SOA ns." + zone + " admin." + zone + " 1 3600 600 86400 60")
		n.add(zone + " 60 IN NS ns." + zone)
		n.add("ns." + zone + " 60 IN A " + dnsAddr)
	}
	for _, network := range []string{"udp", "tcp"} {
		started := make(chan struct{})
		s := &dns.Server{
			Addr: dnsAddr + ":53", Net: network, Handler: n, TsigSecret: map[string]string{tsigKey: tsigSecret}, NotifyStartedFunc: func() { close(started) },
			MsgAcceptFunc: func(dns.Header) dns.MsgAcceptAction { return dns.MsgAccept }, // updates, too
		}
		failed := make(chan error, 1)
		go func() { failed <- s.ListenAndServe() }()
		select {
		case <-started:
		case err := <-failed:
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return n
}

func slot(name string, kind uint16) string {
	return strings.ToLower(dns.Fqdn(name)) + dns.TypeToString[kind]
}

// add adds a record in zone file syntax.
func (n *nameServer) add(text string) {
	rr, err := dns.NewRR(text)
	if err != nil {
		panic(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	k := slot(rr.Header().Name, rr.Header().Rrtype)
	n.records[k] = append(n.records[k], rr)
}

func (n *nameServer) remove(name string, kind uint16) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.records, slot(name, kind))
}

// texts counts the remaining TXT records, and the updates.
func (n *nameServer) texts() (count, updates int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k, list := range n.records {
		if strings.HasSuffix(k, ".TXT") {
			count += len(list)
		}
	}
	return count, n.updates
}

func (n *nameServer) ServeDNS(w dns.ResponseWriter, req *dns.Msg) {
	n.mu.Lock()
	defer n.mu.Unlock()
	res := new(dns.Msg).SetReply(req)
	res.Authoritative, res.RecursionAvailable = true, true
	if req.Opcode == dns.OpcodeUpdate {
		n.update(w, req, res)
	} else {
		n.query(req.Question[0], res)
	}
	_ = w.WriteMsg(res)
}

// query answers and follows aliases as a resolver does. Names below the zone without a record do not exist.
func (n *nameServer) query(q dns.Question, res *dns.Msg) {
	name := q.Name
	for range 5 {
		if list := n.records[slot(name, q.Qtype)]; len(list) > 0 {
			res.Answer = append(res.Answer, list...)
			return
		}
		alias := n.records[slot(name, dns.TypeCNAME)]
		if len(alias) == 0 {
			break
		}
		res.Answer = append(res.Answer, alias...)
		name = alias[0].(*dns.CNAME).Target
	}
	for k := range n.records {
		if strings.HasPrefix(k, strings.ToLower(name)) && len(n.records[k]) > 0 || strings.Contains(k, "."+strings.ToLower(name)) {
			return // the name exists, but not this type
		}
	}
	if len(res.Answer) == 0 {
		res.Rcode = dns.RcodeNameError
	}
}

// update changes TXT records for clients that have the key.
func (n *nameServer) update(w dns.ResponseWriter, req, res *dns.Msg) {
	if req.IsTsig() == nil || w.TsigStatus() != nil {
		n.refused++
		res.Rcode = dns.RcodeNotAuth
		return
	}
	for _, rr := range req.Ns {
		k := slot(rr.Header().Name, rr.Header().Rrtype)
		switch rr.Header().Class {
		case dns.ClassINET:
			n.records[k] = append(n.records[k], rr)
		case dns.ClassNONE:
			n.records[k] = slices.DeleteFunc(n.records[k], func(have dns.RR) bool {
				return strings.Join(have.(*dns.TXT).Txt, "") == strings.Join(rr.(*dns.TXT).Txt, "")
			})
		}
		n.updates++
	}
	res.SetTsig(tsigKey, req.IsTsig().Algorithm, 300, time.Now().Unix())
}

// pebble is a real certificate authority behind a proxy, where a test may add to its answers or replace them.
type pebble struct {
	directory string
	dir       string
	server    *authority     // signed the certificate of the authority's own server
	before    *http.ServeMux // handlers that answer instead of pebble
	change    func(directory map[string]any)
	cmd       *exec.Cmd
}

const (
	caListen     = caAddr + ":14000"
	pebbleListen = caAddr + ":14001"
)

func newPebble(t *testing.T) *pebble {
	t.Helper()
	p := &pebble{
		directory: "https://" + caListen + "/dir", dir: t.TempDir(), server: newAuthority(t, "the lab's root", nil),
		before: http.NewServeMux(), change: func(map[string]any) {},
	}
	key := ecKey(t)
	cert := p.server.issue(t, key.Public(), nil, caAddr)
	write(t, filepath.Join(p.dir, "cert.pem"), pemOf(cert))
	write(t, filepath.Join(p.dir, "key.pem"), pemKey(t, key))
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": pebbleListen, "managementListenAddress": caAddr + ":15000",
		"certificate": filepath.Join(p.dir, "cert.pem"), "privateKey": filepath.Join(p.dir, "key.pem"), "httpPort": 80, "tlsPort": 443,
	}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(p.dir, "pebble.json"), string(config))
	p.start(t)
	t.Cleanup(func() { p.stop() })

	roots := x509.NewCertPool()
	roots.AddCert(p.server.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	p.before.Handle("/", &httputil.ReverseProxy{
		Transport:      transport,
		Rewrite:        func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "https", pebbleListen }, // the name stays: pebble derives its URLs from it
		ModifyResponse: p.answer,
	})
	server := &http.Server{Addr: caListen, Handler: p.before, ReadHeaderTimeout: time.Second}
	l, err := net.Listen("tcp", caListen)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.ServeTLS(l, filepath.Join(p.dir, "cert.pem"), filepath.Join(p.dir, "key.pem")) }()
	t.Cleanup(func() { server.Close(); transport.CloseIdleConnections() })
	return p
}

// answer edits the directory and adds a Retry-After, which pebble does not send.
func (p *pebble) answer(res *http.Response) error {
	res.Header.Set("Retry-After", "1")
	if res.Request.URL.Path != "/dir" {
		return nil
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	directory := map[string]any{}
	if err := json.Unmarshal(b, &directory); err != nil {
		return err
	}
	p.change(directory)
	if b, err = json.Marshal(directory); err != nil {
		return err
	}
	res.Body = io.NopCloser(bytes.NewReader(b))
	res.ContentLength = int64(len(b))
	res.Header.Set("Content-Length", strconv.Itoa(len(b)))
	return nil
}

func (p *pebble) start(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath("pebble")
	if err != nil {
		t.Fatal("these tests need pebble, a certificate authority (Debian's package pebble): ", err)
	}
	p.cmd = exec.Command(path, "-config", filepath.Join(p.dir, "pebble.json"), "-dnsserver", dnsAddr+":53")
	p.cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0", "PEBBLE_AUTHZREUSE=0")
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "pebble listens", func() bool {
		conn, err := net.Dial("tcp", pebbleListen)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

func (p *pebble) stop() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// world is a house with a name server, a certificate authority, and a proxy that serves what the room lists.
type world struct {
	*house
	dns *nameServer
	ca  *pebble
}

func newWorld(t *testing.T, fake *clock.Fake, before ...func(*house)) *world {
	t.Helper()
	w := &world{house: newHouse(t, fake, before...), dns: newNameServer(t), ca: newPebble(t)}
	write(t, w.Paths.Config("acme-ca.pem"), pemOf(w.ca.server.cert))
	w.acme = certificate.ACME{Enabled: true, Email: value.Must[value.Email]("admin@example.net"), DirectoryURL: value.Must[value.URL](w.ca.directory)}
	for _, name := range []string{"www", "shop", "gateway"} {
		w.dns.add(name + ".example.net. 60 IN A " + gatewayAddr)
	}
	w.proxy(t)
	return w
}

// proxy stands in for HAProxy: port 80 leads to the responder, port 443 serves the certificate that matches the name.
func (w *world) proxy(t *testing.T) {
	t.Helper()
	plain, err := net.Listen("tcp", gatewayAddr+":80")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: w.room.Challenges(), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(plain) }()
	secure, err := tls.Listen("tcp", "127.0.0.1:443", &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		w.mu.Lock()
		hide := w.hide
		w.mu.Unlock()
		pairs, err := w.room.Pairs(context.Background(), w.DB)
		if err != nil {
			return nil, err
		}
		for _, p := range pairs {
			if hide {
				break
			}
			cert, err := tls.X509KeyPair(p.PEM, p.PEM)
			if err != nil {
				return nil, err
			}
			if cert.Leaf.VerifyHostname(hello.ServerName) == nil {
				return &cert, nil
			}
		}
		return nil, errors.New("no certificate for " + hello.ServerName)
	}})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := secure.Accept()
			if err != nil {
				return
			}
			go func() { _ = conn.(*tls.Conn).Handshake(); conn.Close() }()
		}
	}()
	t.Cleanup(func() { server.Close(); secure.Close() })
}

// provider creates a DNS provider that uses the test's name server.
func (w *world) provider(t *testing.T, change map[string]any) (id string) {
	t.Helper()
	fields := map[string]any{
		"name": "our name server", "kind": "rfc2136", "server": dnsAddr, "username": "gateway", "algorithm": "hmac-sha256", "secret": tsigSecret,
		"zones": []string{"example.net"},
	}
	for k, v := range change {
		fields[k] = v
	}
	var out struct{ ID string }
	w.Do(t, "admin", "POST", "/dns-providers", fields).Want(t, 201).Into(t, &out)
	return out.ID
}

func sameNames(a []string, b ...string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
