package app_test

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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"edge.internal/gateway/internal/app"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy/proxytest"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/network"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/waittest"
)

// carrier forwards the management port to the service's socket.
const carrier = `global
	stats socket %[1]s/run/haproxy/admin.sock level admin
	user haproxy
	group haproxy
defaults
	mode http
	timeout connect 1s
	timeout client 5s
	timeout server 5s
frontend gateway_management
	bind %[2]s ssl crt %[1]s/etc/haproxy/gateway/default.pem
	http-response set-header Via proxy
	default_backend gateway_api
backend gateway_api
	server api unix@%[1]s/run/gateway/api.sock send-proxy-v2
`

// TestManagementPort has a client make requests to the management port all the time, each over a new connection. HAProxy takes
// the port over and gives it up; only its death may be noticed by the client.
func TestManagementPort(t *testing.T) {
	root, address := proxytest.Root(t), proxytest.Address(t)
	cert := &httpd.SelfSigned{Path: filepath.Join(root, "etc/haproxy/gateway/default.pem"), Names: func() []string { return []string{"gateway.example.net"} }}
	if _, err := cert.Config().GetCertificate(nil); err != nil { // writes the file
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/haproxy/gateway/haproxy.cfg"), fmt.Appendf(nil, carrier, root, address), 0o600); err != nil {
		t.Fatal(err)
	}
	machine, err := machine.New(machine.Options{Root: root, Units: units.None{Reason: "a test"}})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	management := app.NewManagement(machine, log, func() bool { return true }, func() {})
	port := httpd.NewPort(network.New(home.Home{}), address)
	if err := management.Open(t.Context(), port); err != nil {
		t.Fatal(err)
	}
	if who := management.Holder(); who != "service" {
		t.Fatalf("without a proxy the port belongs to the %s", who)
	}
	proxied, err := httpd.ListenProxied(filepath.Join(root, "run/gateway/api.sock"), 0o660, "haproxy", cert.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served, watched := make(chan error), make(chan struct{})
	go func() {
		hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
		served <- (&httpd.Server{Handler: hello, Log: log}).Serve(ctx, proxied, tls.NewListener(port, cert.Config()))
	}()
	go func() { management.Run(ctx); close(watched) }()
	t.Cleanup(func() {
		cancel()
		<-watched
		if err := <-served; err != nil {
			t.Error(err)
		}
	})

	insecure := &tls.Config{InsecureSkipVerify: true} // the certificate is self-signed
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: insecure}}
	// ask returns who has answered: the proxy, or the service itself.
	ask := func(c *http.Client) (string, error) {
		res, err := c.Get("https://" + address)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err == nil && string(body) != "hello" {
			err = fmt.Errorf("%s: %s", res.Status, body)
		}
		if res.Header.Get("Via") == "proxy" {
			return "proxy", err
		}
		return "service", err
	}
	// until makes requests until who holds the port and alone has answered for a while. It does not pause: no request may fail.
	until := func(who string, mayFail bool) {
		t.Helper()
		alone := 0
		for deadline := time.Now().Add(time.Minute); management.Holder() != who || alone < 20; {
			answered, err := ask(client)
			switch {
			case err != nil && !mayFail:
				t.Fatal(err)
			case time.Now().After(deadline):
				t.Fatalf("the port is held by the %s, and %s has answered last, not %s (%v)", management.Holder(), answered, who, err)
			case answered == who && err == nil:
				alone++
			default:
				alone = 0
			}
		}
	}
	until("service", false)
	// A connection from before the handover continues.
	kept, err := tls.Dial("tcp", address, insecure)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	old := &http.Client{Transport: &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return kept, nil }}}
	defer old.CloseIdleConnections()
	if who, err := ask(old); who != "service" || err != nil {
		t.Fatal(who, err)
	}
	for range 2 {
		proxy := proxytest.Start(t, proxytest.Own, root)
		until("proxy", false)
		if who, err := ask(old); who != "service" || err != nil {
			t.Errorf("a connection was cut when the proxy took over: %s, %v", who, err)
		}
		// As an operator may do: the frontend is disabled, while HAProxy continues to run.
		if _, err := machine.ProxyAsk(t.Context(), haproxy.Question{Words: strings.Fields("disable frontend gateway_management")}); err != nil {
			t.Fatal(err)
		}
		until("service", true)
		if _, err := machine.ProxyAsk(t.Context(), haproxy.Question{Words: strings.Fields("enable frontend gateway_management")}); err != nil {
			t.Fatal(err)
		}
		until("proxy", false)
		proxy.Stop(syscall.SIGKILL)
		until("service", true)
	}
}

// TestForeignManagementPort has another program on the port that does not share it: the service starts without it, and takes it
// when it is free.
func TestForeignManagementPort(t *testing.T) {
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	machine, err := machine.New(machine.Options{Root: t.TempDir(), Units: units.None{Reason: "a test"}})
	if err != nil {
		t.Fatal(err)
	}
	management := app.NewManagement(machine, slog.New(slog.DiscardHandler), func() bool { return true }, func() {})
	port := httpd.NewPort(network.New(home.Home{}), stranger.Addr().String())
	defer port.Close()
	if err := management.Open(t.Context(), port); err != nil || management.Holder() != "nobody" {
		t.Fatalf("%s, %v", management.Holder(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() { management.Run(ctx); close(watched) }()
	defer func() { cancel(); <-watched }()
	stranger.Close()
	waittest.Until(t, "the service holds the port", func() bool { return management.Holder() == "service" })
	if err := app.NewManagement(machine, slog.New(slog.DiscardHandler), func() bool { return true }, func() {}).Open(t.Context(), httpd.NewPort(network.New(home.Home{}), "nonsense")); err == nil {
		t.Error("a port that cannot be is no error")
	}
}

// TestManagementPortFollowsIPv6: with IPv6 off the service does not listen on it, and it follows the setting.
func TestManagementPortFollowsIPv6(t *testing.T) {
	_, number, err := net.SplitHostPort(proxytest.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	machine, err := machine.New(machine.Options{Root: t.TempDir(), Units: units.None{Reason: "a test"}})
	if err != nil {
		t.Fatal(err)
	}
	var ipv6 atomic.Bool
	management := app.NewManagement(machine, slog.New(slog.DiscardHandler), ipv6.Load, func() {})
	port := httpd.NewPort(network.New(home.Home{}), ":"+number)
	defer port.Close()
	if err := management.Open(t.Context(), port); err != nil || management.Holder() != "service" {
		t.Fatalf("%s, %v", management.Holder(), err)
	}
	listens := func() bool {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort("::1", number), 10*time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	if listens() {
		t.Fatal("listens on IPv6")
	}
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() { management.Run(ctx); close(watched) }()
	defer func() { cancel(); <-watched }()
	for _, on := range []bool{true, false} {
		ipv6.Store(on)
		waittest.Until(t, fmt.Sprintf("listening on IPv6 is %t", on), func() bool { return listens() == on })
	}
}
