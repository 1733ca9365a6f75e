package httpd_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"edge.internal/gateway/internal/kit/host/daemon/haproxy/proxytest"
	"edge.internal/gateway/internal/kit/httpd"
)

// carrier forwards an address to the API's socket, as the gateway's reverse proxy does, with short timeouts for everything but
// tunnels.
const carrier = `global
	stats socket %[1]s/run/haproxy/admin.sock
	user haproxy
	group haproxy
defaults
	mode http
	timeout connect 4s
	timeout client 4s
	timeout server 4s
	timeout tunnel 1h
	option forwardfor
frontend gateway_management
	bind %[2]s ssl crt %[1]s/etc/haproxy/gateway/default.pem alpn h2,http/1.1
	default_backend gateway_api
backend gateway_api
	server api unix@%[1]s/run/gateway/api.sock send-proxy-v2
`

// TestThroughHAProxy reaches the service as browsers do: through a real HAProxy, which terminates TLS and HTTP/2 and passes the
// client's address in a PROXY header.
func TestThroughHAProxy(t *testing.T) {
	t.Run("own", func(t *testing.T) { throughHAProxy(t, proxytest.Own) })
	t.Run("next", func(t *testing.T) { throughHAProxy(t, proxytest.Next(t)) })
}

func throughHAProxy(t *testing.T, program string) {
	root, address := proxytest.Root(t), proxytest.Address(t)
	pem := filepath.Join(root, "etc/haproxy/gateway/default.pem")
	cert := &httpd.SelfSigned{Path: pem, Names: func() []string { return []string{"gateway.example.net"} }}
	if _, err := cert.Config().GetCertificate(nil); err != nil { // writes the file
		t.Fatal(err)
	}
	r, _ := router(t)
	proxied, err := httpd.ListenProxied(filepath.Join(root, "run/gateway/api.sock"), 0o660, "haproxy", cert.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- (&httpd.Server{Handler: r.Handler(r.App(app)), Log: slog.New(slog.DiscardHandler)}).Serve(ctx, proxied)
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if err := os.WriteFile(filepath.Join(root, "etc/haproxy/gateway/haproxy.cfg"), fmt.Appendf(nil, carrier, root, address), 0o600); err != nil {
		t.Fatal(err)
	}
	proxytest.Start(t, program, root)

	// The client has its own address, and claims others.
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 5)}}
	client := func(protocols ...string) *http.Client {
		transport := &http.Transport{
			DialContext: dialer.DialContext, Protocols: new(http.Protocols),
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}, // the certificate is self-signed
		}
		transport.Protocols.SetHTTP1(protocols[0] == "http/1.1")
		transport.Protocols.SetHTTP2(protocols[0] == "h2")
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	for version, protocol := range map[int]string{1: "http/1.1", 2: "h2"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/api/v1/hello", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"X-Forwarded-For", "X-Real-IP", "Client-IP", "True-Client-IP"} {
			req.Header.Set(name, "203.0.113.9")
		}
		req.Header.Set("Forwarded", "for=203.0.113.9")
		res, err := client(protocol).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.ProtoMajor != version || !strings.Contains(string(answer), `"127.0.0.5: 127.0.0.5:`) || !strings.Contains(string(answer), "to "+address) {
			t.Errorf("%s: %s %s", protocol, res.Proto, answer)
		}
	}

	// A silent stream stays open, over HTTP/1.1 and, as in browsers, over HTTP/2.
	viewer := http.Header{"Authorization": {"Bearer viewer"}, "Origin": {"https://" + address}}
	conn, _, err := websocket.Dial(t.Context(), "https://"+address+"/api/v1/counted", &websocket.DialOptions{HTTPClient: client("http/1.1"), HTTPHeader: viewer})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if _, answer, err := conn.Read(t.Context()); err != nil || string(answer) != `[0, "invalid Prefix"]` {
		t.Errorf("%s, %v", answer, err)
	}
	h2 := openH2(t, dialer, address, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", address, ":path", "/api/v1/counted",
		"sec-websocket-version", "13", "authorization", "Bearer viewer", "origin", "https://"+address)
	const status200 = 0x88 // in HPACK
	if answer := h2.read(h2Headers); len(answer) == 0 || answer[0] != status200 {
		t.Fatalf("HTTP/2: %x", answer)
	}
	if frame := h2.read(h2Data); string(frame) != "\x81\x15"+`[0, "invalid Prefix"]` {
		t.Fatalf("HTTP/2: %q", frame)
	}
	time.Sleep(4500 * time.Millisecond) // longer than HAProxy's timeout for anything but a tunnel
	conn.CloseRead(t.Context())
	if err := conn.Ping(t.Context()); err != nil {
		t.Errorf("the stream is gone: %v", err)
	}
	h2.write(h2Data, 0, 1, "\x89\x80\x00\x00\x00\x00") // a ping, masked with zeroes
	if pong := h2.read(h2Data); string(pong) != "\x8a\x00" {
		t.Errorf("the stream over HTTP/2 answers a ping with %x", pong)
	}
}

// h2 is one stream of a hand-made HTTP/2 connection: Go's client, unlike browsers, does not open WebSockets over HTTP/2.
type h2 struct {
	t    *testing.T
	conn net.Conn
}

const (
	h2Data     = 0
	h2Headers  = 1
	h2Settings = 4
)

func openH2(t *testing.T, dialer *net.Dialer, address string, headers ...string) h2 {
	t.Helper()
	// the certificate is self-signed
	conn, err := tls.DialWithDialer(dialer, "tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	h := h2{t, conn}
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	h.write(h2Settings, 0, 0, "")
	var block strings.Builder
	for i := 0; i < len(headers); i += 2 { // each literal, and short
		fmt.Fprintf(&block, "\x00%c%s%c%s", len(headers[i]), headers[i], len(headers[i+1]), headers[i+1])
	}
	const endHeaders = 4
	h.write(h2Headers, endHeaders, 1, block.String())
	return h
}

func (h h2) write(kind, flags, stream byte, payload string) {
	h.t.Helper()
	frame := append([]byte{0, 0, byte(len(payload)), kind, flags, 0, 0, 0, stream}, payload...)
	if _, err := h.conn.Write(frame); err != nil {
		h.t.Fatal(err)
	}
}

func (h h2) read(kind byte) []byte {
	h.t.Helper()
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(h.conn, head); err != nil {
			h.t.Fatal(err)
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(h.conn, payload); err != nil {
			h.t.Fatal(err)
		}
		if head[3] == kind {
			return payload
		}
	}
}
