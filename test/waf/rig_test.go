// Package waf has tests of the web application firewall as sites get it: HAProxy with the configuration that the gateway renders, the agent with its
// own limits of time, and a server behind them.
package waf

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/nettest"
	"edge.internal/gateway/internal/kit/host/proxytest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/proxy"
	"edge.internal/gateway/internal/waf/agent"
	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/spoe"
)

// long is longer than anything takes, on the slowest of machines. A test that waits so long has failed.
const long = time.Minute

func TestMain(m *testing.M) { nettest.Main(m) }

// site is a domain whose requests are inspected, and how.
type site struct {
	proxy.Inspection
	name string
	with engine.Settings
}

// rig is HAProxy on its own ports, the agent that it asks, and the server of all sites.
type rig struct {
	root  string
	names map[uuid.UUID]string
	mu    sync.Mutex
	by    map[string]*agent.Domain // by id
}

// inspect changes how all requests are inspected.
func (r *rig) inspect(with engine.Settings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.by {
		r.by[id] = &agent.Domain{Name: id, Settings: with}
	}
}

func (r *rig) domain(name []byte) *agent.Domain {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[string(name)]
}

// start runs all of it until the test ends.
func start(t *testing.T, e agent.Engine, sites []site) *rig {
	t.Helper()
	r := &rig{root: proxytest.Root(t), names: map[uuid.UUID]string{}, by: map[string]*agent.Domain{}}
	signed := httpd.SelfSigned{Path: filepath.Join(r.root, "pem"), Names: func() []string { return []string{"gw.example.net"} }}
	pem, err := signed.PEM()
	if err != nil {
		t.Fatal(err)
	}
	backend, at := uuid.New(), origin(t)
	c := &proxy.Config{
		Default: pem, FQDN: value.Must[value.DomainName]("gw.example.net"),
		Backends: []proxy.Backend{{Meta: resource.Meta{ID: backend}, Active: true, Scheme: "http"}},
		Servers:  []proxy.Server{{Meta: resource.Meta{ID: uuid.New()}, BackendID: backend, Active: true, Weight: 100, Address: value.Must[value.Host](at.IP.String()), Port: at.Port}},
	}
	if err := c.Servers[0].Name.UnmarshalText([]byte("origin")); err != nil {
		t.Fatal(err)
	}
	for _, x := range sites {
		x.DomainID = uuid.New()
		c.Domains = append(c.Domains, proxy.Domain{Meta: resource.Meta{ID: x.DomainID}, Name: value.Must[value.SiteName](x.name), BackendID: backend, Active: true, WWWRedirect: "none"})
		c.Inspections = append(c.Inspections, x.Inspection)
		r.names[x.DomainID], r.by[x.DomainID.String()] = x.name, &agent.Domain{Name: x.DomainID.String(), Settings: x.with}
	}
	r.agent(t, e)
	r.install(t, c)
	proxytest.Start(t, proxytest.Own, r.root)
	return r
}

// install writes what the gateway renders below the root. Nothing is changed but where sockets are.
func (r *rig) install(t *testing.T, c *proxy.Config) {
	t.Helper()
	files, err := proxy.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		path := filepath.Join(r.root, f.Place.Path())
		content := f.Content
		if f.Place == host.ProxyConfig {
			content = []byte(strings.NewReplacer(" /run/", " "+r.root+"/run/", "@/run/", "@"+r.root+"/run/").Replace(string(content)))
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// agent answers HAProxy as gateway-waf does, within the same time.
func (r *rig) agent(t *testing.T, e agent.Engine) {
	t.Helper()
	a := agent.New(e, r.domain)
	l, err := net.Listen("tcp", "127.0.0.1:9000")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	server := &spoe.Server{Handler: a.Handle, Quick: a.Quick, Log: slog.New(slog.DiscardHandler)}
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// origin is the server that the core rule set's tests are written for: it takes whatever it is sent, answers 200, and at /reflect what the body
// says. Go's own server would refuse some of it.
func origin(t *testing.T) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	t.Cleanup(func() { l.Close(); open.Wait() })
	open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { defer conn.Close(); serve(conn) })
		}
	})
	return l.Addr().(*net.TCPAddr)
}

// serve answers the requests of one connection, in the form in which HAProxy passes them on.
func serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		method, rest, _ := strings.Cut(line, " ")
		uri, _, _ := strings.Cut(rest, " ")
		length, chunked := 0, false
		for {
			field, err := in.ReadString('\n')
			if err != nil {
				return
			}
			name, value, ok := strings.Cut(strings.TrimRight(field, "\r\n"), ":")
			if !ok {
				break
			}
			switch value = strings.TrimSpace(value); strings.ToLower(name) {
			case "content-length":
				length, _ = strconv.Atoi(value)
			case "transfer-encoding":
				chunked = true
			case "expect":
				fmt.Fprint(conn, "HTTP/1.1 100 Continue\r\n\r\n")
			}
		}
		body := make([]byte, length)
		if chunked {
			body, err = readChunks(in)
		} else {
			_, err = io.ReadFull(in, body)
		}
		if err != nil {
			return
		}
		answer(conn, method, uri, body)
	}
}

func readChunks(in *bufio.Reader) (body []byte, err error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, err := strconv.ParseInt(strings.TrimSpace(line), 16, 32)
		if err != nil {
			return nil, err
		}
		part := make([]byte, size+2)
		if _, err := io.ReadFull(in, part); err != nil {
			return nil, err
		}
		if size == 0 {
			return body, nil
		}
		body = append(body, part[:size]...)
	}
}

func answer(out io.Writer, method, uri string, body []byte) {
	said := struct {
		Status  int
		Headers map[string]string
		Body    string
	}{Body: "the origin"}
	switch {
	case uri == "/reflect":
		said.Body = ""
		if json.Unmarshal(body, &said) != nil {
			said.Status = http.StatusBadRequest
		}
	case uri == "/post":
		said.Body = string(body)
	}
	var b strings.Builder
	status := cmp.Or(said.Status, http.StatusOK)
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, cmp.Or(http.StatusText(status), "-"))
	if said.Headers["Content-Type"] == "" {
		fmt.Fprintf(&b, "Content-Type: %s\r\n", http.DetectContentType([]byte(said.Body)))
	}
	for name, value := range said.Headers {
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", len(said.Body))
	if method != http.MethodHead {
		b.WriteString(said.Body)
	}
	_, _ = io.WriteString(out, b.String())
}
