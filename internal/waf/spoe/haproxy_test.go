package spoe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy/proxytest"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

// proxy asks the agent about every request, and answers with what the agent set. Its time limits suit a slow machine, because these tests
// are about loss.
const proxy = `global
	stats socket %[1]s/run/haproxy/admin.sock level admin expose-fd listeners
	tune.bufsize 131072
	tune.maxrewrite 1024
	tune.http.maxhdr 256
defaults
	mode http
	timeout connect 60s
	timeout client 60s
	timeout server 60s
	timeout http-request 60s
frontend web
	bind %[2]s
	bind %[3]s proto h2
	unique-id-format %%[uuid()]
	filter spoe engine waf config %[1]s/etc/haproxy/gateway/spoe.cfg
	http-request set-var(txn.id) unique-id
	http-request set-var(txn.uri) url
	http-request set-var(txn.uri) pathq if { req.ver -m beg 2 }
	http-request wait-for-body time 60s
	http-request send-spoe-group waf waf-req
	http-request return status 403 if { var(txn.waf.verdict) -m str deny }
	http-request return status 503 hdr x-error "%%[var(txn.waf.error)]" if !{ var(txn.waf.verdict) -m str pass }
	http-request return status 200 hdr x-seen "%%[var(txn.waf.seen)]" hdr x-id "%%[unique-id]"
backend waf-agent
	mode tcp
	timeout check 60s
	option spop-check
	server a %[4]s check inter 100ms
`

const spoeConfig = `[waf]
spoe-agent waf-agent
	groups waf-req
	option var-prefix waf
	option set-on-error error
	no option async
	no option send-frag-payload
	timeout hello 60s
	timeout idle 60s
	timeout processing 60s
	max-frame-size 131064
	use-backend waf-agent
spoe-message waf-req
	args id=var(txn.id) src=src sport=src_port method=method url=var(txn.uri) ver=req.ver hdrs=req.hdrs_bin body=req.body eom=internal.htx.has_eom
spoe-group waf-req
	messages waf-req
`

// behind runs an HAProxy in front of an agent. The addresses are for HTTP/1.1 and for HTTP/2 without TLS.
func behind(t *testing.T, program, agent string) (root, h1, h2 string) {
	t.Helper()
	root, h1, h2 = proxytest.Root(t), proxytest.Address(t), proxytest.Address(t)
	for name, text := range map[string]string{"haproxy.cfg": fmt.Sprintf(proxy, root, h1, h2, agent), "spoe.cfg": spoeConfig} {
		if err := os.WriteFile(filepath.Join(root, "etc/haproxy/gateway", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	proxytest.Start(t, program, root)
	return root, h1, h2
}

func onEachHAProxy(t *testing.T, test func(t *testing.T, program string)) {
	t.Run("own", func(t *testing.T) { test(t, proxytest.Own) })
	t.Run("next", func(t *testing.T) { test(t, proxytest.Next(t)) })
}

// seen formats a notification in one line.
func seen(n *Notify) string {
	var b strings.Builder
	for m := range n.Messages() {
		for name, v := range m.Args() {
			switch string(name) {
			case "src":
				fmt.Fprintf(&b, "src=%s ", v.Addr())
			case "method", "url", "ver":
				fmt.Fprintf(&b, "%s=%s ", name, v.Bytes())
			case "hdrs":
				for rest := v.Bytes(); ; {
					key, after, _ := Text(rest)
					value, after, ok := Text(after)
					if !ok || len(key) == 0 {
						break
					}
					if bytes.HasPrefix(key, []byte("x-")) {
						fmt.Fprintf(&b, "%s=%q ", key, value)
					}
					rest = after
				}
			case "body":
				fmt.Fprintf(&b, "body=%d:%d ", len(v.Bytes()), bytes.Count(v.Bytes(), []byte{0}))
			case "eom":
				fmt.Fprintf(&b, "eom=%t", v.Bool())
			}
		}
	}
	return b.String()
}

func judge(_ context.Context, n *Notify, a *Answer) {
	output := seen(n)
	if strings.Contains(output, "attack") {
		a.SetText(Transaction, "verdict", "deny")
		return
	}
	a.SetText(Transaction, "verdict", "pass")
	a.SetText(Transaction, "seen", output)
}

func TestRequestsArriveWhole(t *testing.T) {
	onEachHAProxy(t, func(t *testing.T, program string) {
		agent, _ := start(t, &Server{Handler: judge})
		_, h1, h2 := behind(t, program, agent)
		for version, address := range map[string]string{"1.1": h1, "2.0": h2} {
			transport := &http.Transport{Protocols: new(http.Protocols)}
			transport.Protocols.SetHTTP1(version == "1.1")
			transport.Protocols.SetUnencryptedHTTP2(version == "2.0")
			ask := func(method, path string, body io.Reader, header http.Header) *http.Response {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, body)
				if err != nil {
					t.Fatal(err)
				}
				for name, values := range header {
					req.Header[name] = values
				}
				res, err := transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadAll(res.Body); err != nil {
					t.Error(err)
				}
				res.Body.Close()
				return res
			}
			expect := func(res *http.Response, want string) {
				t.Helper()
				if got := res.Header.Get("X-Seen"); res.StatusCode != 200 || got != want || res.Header.Get("X-Id") == "" {
					t.Errorf("HTTP/%s: %s %v\n%s, not\n%s", version, res.Status, res.Header, got, want)
				}
			}
			expect(ask("GET", "/a?b=%27c", nil, http.Header{"X-One": {"first", "second", ""}}),
				"src=127.0.0.1 method=GET url=/a?b=%27c ver="+version+` x-one="first" x-one="second" x-one="" body=0:0 eom=true`)
			expect(ask("PUT", "/", bytes.NewReader(make([]byte, 100000)), nil), "src=127.0.0.1 method=PUT url=/ ver="+version+" body=100000:100000 eom=true")
			// A body of unknown length.
			expect(ask("POST", "/", io.MultiReader(strings.NewReader("abc"), strings.NewReader("def")), nil), "src=127.0.0.1 method=POST url=/ ver="+version+" body=6:0 eom=true")
			if res := ask("GET", "/attack", nil, nil); res.StatusCode != 403 {
				t.Errorf("HTTP/%s: an attack: %s", version, res.Status)
			}
			// The next request of a connection has its own verdict.
			if res := ask("GET", "/", nil, nil); res.StatusCode != 200 {
				t.Errorf("HTTP/%s: after an attack: %s", version, res.Status)
			}
			transport.CloseIdleConnections()
		}
		// Of a body that does not fit, only the beginning arrives, marked as incomplete.
		res, output := cut(t, h1)
		if !strings.Contains(output, "eom=false") || !strings.Contains(output, "body=129") {
			t.Errorf("a body that does not fit: %s: %s", res.Status, output)
		}
	})
}

// cut posts more than HAProxy holds, and returns what the agent saw.
func cut(t *testing.T, address string) (*http.Response, string) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+address+"/", bytes.NewReader(make([]byte, 300000)))
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res, res.Header.Get("X-Seen")
}

func TestAPanicLeavesHAProxyWithoutAVerdict(t *testing.T) {
	agent, _ := start(t, &Server{Handler: func(ctx context.Context, n *Notify, a *Answer) {
		judge(ctx, n, a)
		if strings.Contains(seen(n), "url=/panic") {
			panic("index out of range")
		}
	}})
	_, h1, _ := behind(t, proxytest.Own, agent)
	for path, want := range map[string]int{"/panic": 503, "/": 200, "/attack": 403} {
		if got, err := once(h1, path); err != nil || got != want {
			t.Errorf("%s: %d, %v", path, got, err)
		}
	}
}

// reloads returns the number in GATEWAY_RELOADS, or a small one.
func reloads(t *testing.T) int {
	text := os.Getenv("GATEWAY_RELOADS")
	if text == "" {
		return 4
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("GATEWAY_RELOADS: %q is no number of reloads", text)
	}
	return n
}

// TestReloadsLoseNoAnswer reloads HAProxy while requests wait for their verdicts: an attack is always blocked and a clean request always
// passes.
func TestReloadsLoseNoAnswer(t *testing.T) {
	onEachHAProxy(t, func(t *testing.T, program string) {
		agent, _ := start(t, &Server{Handler: func(ctx context.Context, n *Notify, a *Answer) {
			time.Sleep(20 * time.Millisecond) // so that a reload always meets requests in progress
			judge(ctx, n, a)
		}})
		root, h1, _ := behind(t, program, agent)
		machine := haproxy.New(home.Home{Root: root, Foreign: true})

		var asked atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for client := range 6 {
			clients.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					path, want := "/", 200
					if (n+client)%3 == 0 {
						path, want = "/attack", 403
					}
					if got, err := once(h1, path); err != nil || got != want {
						t.Errorf("%s: %d, %v", path, got, err)
					}
					asked.Add(1)
				}
			})
		}
		for range reloads(t) {
			// Between two reloads every client gets an answer.
			for before := asked.Load(); asked.Load() < before+12 && !t.Failed(); time.Sleep(time.Millisecond) {
			}
			if _, err := machine.ProxyReload(t.Context()); err != nil {
				t.Error(err)
			}
		}
		cancel()
		clients.Wait()
		t.Logf("%d requests", asked.Load())
	})
}

// TestTheEndOfTheAgentLosesNoAnswer checks that everything HAProxy has asked before the agent ends is answered.
func TestTheEndOfTheAgentLosesNoAnswer(t *testing.T) {
	onEachHAProxy(t, func(t *testing.T, program string) {
		const clients = 10
		running, release := make(chan struct{}, clients), make(chan struct{})
		agent, stop := start(t, &Server{Grace: long, Handler: func(ctx context.Context, n *Notify, a *Answer) {
			running <- struct{}{}
			<-release
			judge(ctx, n, a)
		}})
		_, h1, _ := behind(t, program, agent)
		var asking, stopping sync.WaitGroup
		for range clients {
			asking.Go(func() {
				if got, err := once(h1, "/"); err != nil || got != 200 {
					t.Errorf("%d, %v", got, err)
				}
			})
		}
		for range clients {
			<-running
		}
		stopping.Go(stop)
		for { // until it has begun to end
			c, err := net.Dial("tcp", agent)
			if err != nil {
				break
			}
			c.Close()
		}
		close(release)
		asking.Wait()
		stopping.Wait()
	})
}

// once makes one request on its own connection.
func once(address, path string) (int, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(long))
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", path); err != nil {
		return 0, err
	}
	output, err := io.ReadAll(c)
	if err != nil {
		return 0, err
	}
	var code int
	if _, err := fmt.Sscanf(string(output), "HTTP/1.1 %d", &code); err != nil {
		return 0, fmt.Errorf("%w: %q", err, output)
	}
	return code, nil
}

// TestHostileNeighboursDoNotDisturbHAProxy: every local user can reach the port.
func TestHostileNeighboursDoNotDisturbHAProxy(t *testing.T) {
	agent, _ := start(t, &Server{Handler: judge})
	_, h1, _ := behind(t, proxytest.Own, agent)
	for name, b := range hostile() {
		p := greet(t, agent)
		p.send(append(make([]byte, lengthSize), b...))
		_, _ = p.Write(bytes.Repeat([]byte{255}, 1000)) // the connection may have ended
		if got, err := once(h1, "/"); err != nil || got != 200 {
			t.Errorf("%s: %d, %v", name, got, err)
		}
		p.Close()
	}
}
