package machine

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// edge is a lab whose reverse proxy is looked at from the wan side.
type edge struct{ *labtest.Lab }

// newEdge starts a lab with origins on the lan side, and waits until its proxy serves.
func newEdge(t *testing.T, opts lab.Options) *edge {
	t.Helper()
	e := &edge{labtest.UpAsAdmin(t, opts)}
	e.WaitState(t, "reverse-proxy", "live", 20*time.Second)
	return e
}

// origin serves on a port of the lan side and names itself in every answer.
func (e *edge) origin(t *testing.T, port int, more func(*http.ServeMux)) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Origin-Path", r.URL.Path)
		fmt.Fprintf(w, "origin %d", port)
	})
	if more != nil {
		more(mux)
	}
	var l net.Listener
	if err := e.Within(lab.Lan, func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(lan4, strconv.Itoa(port)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }() // until it is closed
	t.Cleanup(func() { server.Close() })
}

// dial connects from the wan side.
func (e *edge) dial(network, address string) (conn net.Conn, err error) {
	if within := e.Within(lab.Wan, func() error {
		conn, err = net.DialTimeout(network, address, patience)
		return nil
	}); within != nil {
		return nil, within
	}
	return conn, err
}

// dialTLS connects from the wan side and shakes hands for a name.
func (e *edge) dialTLS(address, name string, protocols ...string) (*tls.Conn, error) {
	conn, err := e.dial("tcp", address)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	secured := tls.Client(conn, &tls.Config{ServerName: name, NextProtos: protocols, InsecureSkipVerify: true}) // tests compare fingerprints
	if err := secured.Handshake(); err != nil {
		conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return secured, nil
}

// shown is the fingerprint of the certificate that a port of the gateway shows for a name.
func (e *edge) shown(port, name string) (string, error) {
	conn, err := e.dialTLS(net.JoinHostPort(gwWan4, port), name)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return fingerprintOf(conn.ConnectionState().PeerCertificates[0].Raw), nil
}

// fingerprintOf is the SHA-256 of a certificate.
func fingerprintOf(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// client speaks to the gateway from the wan side, whatever the name in the URL. Without h2 it speaks HTTP/1.1.
func (e *edge) client(h2 bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetHTTP2(h2)
	alpn := []string{"http/1.1"}
	if h2 {
		alpn = []string{"h2"}
	}
	at := func(address string) string {
		_, port, _ := net.SplitHostPort(address)
		return net.JoinHostPort(gwWan4, port)
	}
	return &http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			ExpectContinueTimeout: time.Minute,
			Protocols:             protocols, IdleConnTimeout: 3 * time.Second, // connections that the server has closed are not kept

			DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
				return e.dial(network, at(address))
			},
			DialTLSContext: func(_ context.Context, _, address string) (net.Conn, error) {
				name, _, _ := net.SplitHostPort(address)
				return e.dialTLS(at(address), name, alpn...)
			},
		},
	}
}

// edgePage is what came back for a request.
type edgePage struct {
	*http.Response
	body string
}

// get makes a request on a new connection.
func (e *edge) get(url string) (edgePage, error) {
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return edgePage{}, err
	}
	return e.ask(req)
}

func (e *edge) ask(req *http.Request) (edgePage, error) {
	client := e.client(false)
	defer client.CloseIdleConnections()
	return edgeFetch(client, req)
}

func edgeFetch(client *http.Client, req *http.Request) (edgePage, error) {
	res, err := client.Do(req)
	if err != nil {
		return edgePage{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return edgePage{res, string(body)}, err
}

// answers complains unless a URL answers with a status and a body that begins so.
func (e *edge) answers(url string, status int, begins string) error {
	p, err := e.get(url)
	if err != nil {
		return err
	}
	if p.StatusCode != status || !strings.HasPrefix(p.body, begins) {
		return fmt.Errorf("%s answers %d %q instead of %d %q", url, p.StatusCode, p.body, status, begins)
	}
	return nil
}

// header complains unless an answer has a header with a value; an empty value means no header.
func (e *edge) header(url, name, want string) error {
	p, err := e.get(url)
	if err != nil {
		return err
	}
	if got := p.Header.Get(name); got != want {
		return fmt.Errorf("%s answers %d with %s: %q instead of %q", url, p.StatusCode, name, got, want)
	}
	return nil
}

// live makes a change that must be live when it is answered, and returns the id of the row.
func (e *edge) live(t testing.TB, method, path string, body any, status int) string {
	t.Helper()
	var row struct{ ID string }
	a := e.Must(t, method, path, body, status, &row)
	if got := a.Header.Get("Gateway-Apply"); got != "reverse-proxy=live" {
		t.Fatalf("%s %s: %s", method, path, got)
	}
	return row.ID
}

// backend creates a backend with servers on ports of the lan side, and returns its id and theirs.
func (e *edge) backend(t testing.TB, name string, ports ...int) (id string, servers []string) {
	t.Helper()
	id = e.live(t, http.MethodPost, "/backends", fields{"name": name, "health_check_enabled": false, "websocket": true}, 201)
	for _, port := range ports {
		servers = append(servers, e.live(t, http.MethodPost, "/backends/"+id+"/servers", e.server(port), 201))
	}
	return id, servers
}

func (e *edge) server(port int) fields {
	return fields{"name": fmt.Sprintf("s%d", port), "address": lan4, "port": port}
}

// domain creates a domain.
func (e *edge) domain(t testing.TB, name, backend string, more fields) string {
	t.Helper()
	body := fields{"name": name, "backend_id": backend}
	for k, v := range more {
		body[k] = v
	}
	return e.live(t, http.MethodPost, "/domains", body, 201)
}

// edgeStatus is the proxy's status.
type edgeStatus struct {
	Version        string
	HTTP3          bool
	HTTP3Why       string `json:"http3_why"`
	Management     string
	Reloads        int
	RuntimeChanges int `json:"runtime_changes"`
	OldWorkers     int `json:"old_workers"`
	Error          string
}

func (e *edge) status(t testing.TB) (s edgeStatus) {
	t.Helper()
	e.Must(t, http.MethodGet, "/proxy/status", nil, 200, &s)
	return s
}

// servers are the servers of a backend as the proxy has them.
func (e *edge) servers(t testing.TB, backend string) map[string]edgeServer {
	t.Helper()
	var stats struct {
		Backends []edgeServer
		Error    string
	}
	if e.Must(t, http.MethodGet, "/proxy/stats", nil, 200, &stats); stats.Error != "" {
		t.Fatal(stats.Error)
	}
	list := map[string]edgeServer{}
	for _, s := range stats.Backends {
		if s.BackendID == backend {
			list[s.Server] = s
		}
	}
	return list
}

type edgeServer struct {
	BackendID string `json:"backend_id"`
	Server    string
	Status    string
	Weight    int
}

// process is HAProxy's worker, and how often it was reloaded.
func (e *edge) process(t testing.TB) haproxy.Process {
	t.Helper()
	machine, err := machine.New(machine.Options{Root: strings.TrimSuffix(e.Path("/"), "/"), Units: e.Units()})
	if err != nil {
		t.Fatal(err)
	}
	p, err := machine.ProxyProcess(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// edgeAuthority signs certificates as a company's own does.
type edgeAuthority struct {
	key   *ecdsa.PrivateKey
	cert  *x509.Certificate
	lasts time.Duration // validity of what it issues
}

func newEdgeAuthority(t testing.TB) *edgeAuthority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Company CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(10000 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &edgeAuthority{key, cert, 1000 * time.Hour}
}

// issue creates a certificate to upload, and returns its fingerprint.
func (a *edgeAuthority) issue(t testing.TB, names ...string) (upload fields, fingerprint string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(a.lasts),
	}
	if ip := net.ParseIP(names[0]); ip != nil {
		template.DNSNames, template.IPAddresses = names[1:], []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return fields{
		"source": "uploaded", "certificate_pem": text("CERTIFICATE", der) + text("CERTIFICATE", a.cert.Raw), "private_key_pem": text("PRIVATE KEY", secret),
	}, fingerprintOf(der)
}

// edgeConn is an HTTP/1.1 connection that never retries: what a retrying client would not notice is a failure here.
type edgeConn struct {
	net.Conn
	reader *bufio.Reader
}

// ask sends a request and reads the answer, over the existing connection, or over a new one if the last answer
// has announced that it would be closed.
func (c *edgeConn) ask(e *edge, req *http.Request, plain bool) (edgePage, error) {
	if c.Conn == nil {
		var err error
		if plain {
			c.Conn, err = e.dial("tcp", gwWan4+":80")
		} else {
			var secured *tls.Conn
			if secured, err = e.dialTLS(gwWan4+":443", req.URL.Hostname(), "http/1.1"); err == nil {
				c.Conn = secured
			}
		}
		if err != nil {
			return edgePage{}, fmt.Errorf("connecting: %w", err)
		}
		c.reader = bufio.NewReader(c.Conn)
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	res, err := c.exchange(req)
	if err != nil || res.Close {
		c.Close()
		c.Conn = nil
	}
	return res, err
}

func (c *edgeConn) exchange(req *http.Request) (edgePage, error) {
	if err := req.Write(c); err != nil {
		return edgePage{}, fmt.Errorf("asking: %w", err)
	}
	res, err := http.ReadResponse(c.reader, req)
	if err != nil {
		return edgePage{}, fmt.Errorf("waiting for the answer: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return edgePage{}, fmt.Errorf("reading the answer: %w", err)
	}
	return edgePage{res, string(body)}, nil
}

func (c *edgeConn) end() {
	if c.Conn != nil {
		c.Close()
	}
}

// logs is the output of all units.
func (e *edge) logs(t testing.TB) string {
	t.Helper()
	var all strings.Builder
	files, err := filepath.Glob(filepath.Join(filepath.Dir(e.Log(host.API)), "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(errors.Join(err, errors.New("no logs")))
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}
