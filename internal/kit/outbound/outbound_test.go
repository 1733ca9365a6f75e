package outbound

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/hosttest"
)

func door() *Door {
	machine := hosttest.New()
	machine.SetLinks(host.Link{Name: "wan0", Addrs: []host.LinkAddr{{Local: "198.51.100.1"}, {Local: "2001:db8::1"}}})
	return New(machine)
}

func TestWhatIsInside(t *testing.T) {
	d := door().Listening(9443)
	for to, want := range map[string]bool{
		"192.0.2.1:443":            true,
		"10.0.0.1:443":             true, // a provider may be in the operator's own network
		"[fd00::1]:443":            true,
		"198.51.100.1:8080":        true, // a published service
		"198.51.100.1:22":          false,
		"198.51.100.1:443":         false,
		"198.51.100.1:9443":        false, // the port of the API
		"192.0.2.1:3443":           true,  // another gateway
		"198.51.100.1:3443":        false,
		"198.51.100.1:8443":        false,
		"[2001:db8::1]:3443":       false,
		"127.0.0.1:443":            false,
		"127.1.2.3:443":            false,
		"[::1]:443":                false,
		"0.0.0.0:443":              false,
		"0.1.2.3:443":              false,
		"[::]:443":                 false,
		"169.254.169.254:80":       false,
		"[fe80::1%eth0]:443":       false,
		"[::ffff:127.0.0.1]:443":   false,
		"[::ffff:169.254.1.1]:443": false,
		"224.0.0.1:443":            false,
		"[ff02::1]:443":            false,
	} {
		err := d.allow(t.Context(), netip.MustParseAddrPort(to))
		if (err == nil) != want {
			t.Errorf("%s: %v", to, err)
		}
		if _, refused := errors.AsType[*Refused](err); err != nil && !refused {
			t.Errorf("%s: %v", to, err)
		}
	}
}

func refused(t *testing.T, c *http.Client, url string) {
	t.Helper()
	res, err := c.Get(url)
	if err == nil {
		res.Body.Close()
	}
	if _, ok := errors.AsType[*Refused](err); !ok {
		t.Errorf("%s: %v", url, err)
	}
}

// A name or a redirect that leads inside is detected when the connection is made.
func TestClient(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 2<<20)) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	server := httptest.NewServer(mux)
	defer server.Close()
	d := door()
	public, internal := d.Client(false), d.Client(true)
	refused(t, public, server.URL)
	refused(t, public, strings.Replace(server.URL, "http://127.0.0.1", "https://localhost", 1))
	refused(t, public, "http://192.0.2.1")
	refused(t, internal, server.URL+"/loop")
	refused(t, d.PlainClient(false), server.URL)
	if _, err := d.Dial(t.Context(), server.Listener.Addr().String(), Limits{Dial: time.Minute, Stall: time.Minute}); err == nil || !strings.Contains(err.Error(), "this machine itself") {
		t.Errorf("a connection to this machine: %v", err)
	}
	if conn, err := d.Dial(t.Context(), server.Listener.Addr().String(), Limits{Internal: true, Dial: time.Minute, Stall: time.Minute}); err != nil {
		t.Error(err)
	} else {
		conn.Close()
	}
	res, err := internal.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "hello" {
		t.Errorf("%s %v", b, err)
	}
	res.Body.Close()
	if res, err = internal.Get(server.URL + "/long"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(res.Body); !errors.Is(err, errTooLong) || len(b) != maxAnswer {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	res.Body.Close()
	// An outside server redirects to the inside: its first answer is received, but the redirect is not followed.
	outside := &http.Client{CheckRedirect: public.CheckRedirect, Transport: answers(func(req *http.Request) (*http.Response, error) {
		if req.URL.Host == "outside.example" {
			return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {"https://127.0.0.1:3443/"}}, Body: http.NoBody, Request: req}, nil
		}
		return public.Transport.RoundTrip(req)
	})}
	refused(t, outside, "https://outside.example")
}

type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// speaks is a server that calls with for every connection.
func speaks(t *testing.T, with func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				with(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// Connections that may carry much data have the same restrictions, and their own limits.
func TestDial(t *testing.T) {
	d := door()
	limits := Limits{Internal: true, Dial: time.Minute, Stall: time.Minute}
	silent := speaks(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	endless := speaks(t, func(c net.Conn) {
		for err := error(nil); err == nil; {
			_, err = c.Write(make([]byte, 4096))
		}
	})
	read := func(ctx context.Context, address string, l Limits) error {
		t.Helper()
		conn, err := d.Dial(ctx, address, l)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = io.Copy(io.Discard, conn)
		return err
	}
	outside := limits
	outside.Internal = false
	if _, ok := errors.AsType[*Refused](read(t.Context(), silent, outside)); !ok {
		t.Error("the machine itself was reached")
	}
	impatient := limits
	impatient.Stall = 50 * time.Millisecond
	if err := read(t.Context(), silent, impatient); Explain(err) != "it did not answer in time" {
		t.Errorf("a server that says nothing: %v", err)
	}
	bounded := limits
	bounded.Answer = 1 << 20
	if err := read(t.Context(), endless, bounded); Explain(err) != "its answer is too long" {
		t.Errorf("a server that does not stop: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := read(ctx, silent, limits); err == nil {
		t.Error("it does not end with its context")
	}
	// While something is being sent, no answer is expected: the pauses add up to more than the limit.
	conn, err := d.Dial(t.Context(), silent, Limits{Internal: true, Dial: time.Minute, Stall: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer := make(chan error, 1)
	go func() { _, err := conn.Read(make([]byte, 1)); answer <- err }()
	for start := time.Now(); time.Since(start) < 4*time.Second; time.Sleep(10 * time.Millisecond) {
		if _, err := conn.Write(make([]byte, 100<<10)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-answer:
		t.Errorf("the answer was given up while something was sent: %v", err)
	default:
	}
}

func TestTransport(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stall" {
			<-r.Context().Done()
		}
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	get := func(d *Door, l Limits, path string) error {
		transport := d.Transport(l)
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		res, err := client.Get(server.URL + path)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
	limits := Limits{Internal: true, Dial: time.Minute, Stall: time.Minute}
	if err := get(door(), limits, "/"); Explain(err) != "its certificate is from an authority that this gateway does not trust" {
		t.Errorf("%v", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	if err := get(door().Trusting(roots), limits, "/"); err != nil {
		t.Error(err)
	}
	limits.Stall = 50 * time.Millisecond
	if err := get(door().Trusting(roots), limits, "/stall"); Explain(err) != "it did not answer in time" {
		t.Errorf("%v", err)
	}
	limits.Internal = false
	if _, ok := errors.AsType[*Refused](get(door().Trusting(roots), limits, "/")); !ok {
		t.Error("the machine itself was reached")
	}
}
