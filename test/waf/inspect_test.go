package waf

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/host/daemon/haproxy/proxytest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/proxy"
	"edge.internal/gateway/internal/waf"
)

const sqlAttack = "/search?q=1%27+or+%271%27%3D%271"

const (
	blockingSite  = "blocking.example.net"
	detectingSite = "detecting.example.net"
	openSite      = "open.example.net"
	answersSite   = "answers.example.net"
	plainSite     = "plain.example.net"
)

var guardedSites = []site{
	{name: blockingSite, inspection: &proxy.Inspection{MaxBody: 20000}, trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	{name: detectingSite, inspection: &proxy.Inspection{Detects: true, Open: true, Partial: true}},
	{name: openSite, inspection: &proxy.Inspection{Open: true}},
	{name: answersSite, inspection: &proxy.Inspection{Answers: true}},
	{name: plainSite},
}

// guard runs these sites with an HAProxy, and records the calls of the engine.
func guard(t *testing.T, program string, changes ...string) (*rig, *witness) {
	t.Helper()
	set, err := rules()
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{Engine: set}
	return start(t, program, w, guardedSites, changes...), w
}

// upload sends JSON to a site.
func upload(site string, body []byte, chunked bool) func() *http.Request {
	return post(site, "/upload", "application/json", body, chunked)
}

func onEachHAProxy(t *testing.T, test func(t *testing.T, program string)) {
	t.Run("own", func(t *testing.T) { test(t, proxytest.Own) })
	t.Run("next", func(t *testing.T) { test(t, proxytest.Next(t)) })
}

func TestOnlyInspectedRequestsPass(t *testing.T) {
	onEachHAProxy(t, func(t *testing.T, program string) {
		g, seen := guard(t, program, "timeout processing 1s", "timeout processing 60s")
		for _, secure := range []bool{false, true} {
			if a := ask(t, true, get(blockingSite, "/clean?a=b", secure)); a.status != 200 {
				t.Fatalf("secure %v: a clean request gets %d: %s", secure, a.status, a.body)
			}
			a := ask(t, true, get(blockingSite, sqlAttack, secure))
			reference := a.header.Get("X-Request-ID")
			if a.status != 403 || !regexp.MustCompile(`^[0-9a-f-]{36}$`).MatchString(reference) || !strings.Contains(a.body, "<code>"+reference+"</code>") || a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("secure %v: an attack gets %d %v: %s", secure, a.status, a.header, a.body)
			}
			if r := seen.last.Load(); r.ID != reference || r.URI != sqlAttack {
				t.Errorf("secure %v: the agent saw %s of %s", secure, r.URI, r.ID)
			}
			for _, name := range []string{detectingSite, plainSite} {
				if a := ask(t, true, get(name, sqlAttack, secure)); a.status != 200 {
					t.Errorf("secure %v: %s answers %d", secure, name, a.status)
				}
			}
		}
		for _, asked := range g.origin.reached() {
			if asked == blockingSite+" "+sqlAttack {
				t.Error("an attack reached the server")
			}
		}

		// The agent sees headers as they came, and the server those that the gateway vouches for.
		a := ask(t, true, func() *http.Request {
			req := get(blockingSite, "/headers", false)()
			req.Header.Set("X-Forwarded-For", "198.51.100.9, 127.0.0.9")
			req.Header.Set("TE", "trailers")
			return req
		})
		if a.status != 200 || !strings.Contains(a.body, `te="", for="127.0.0.1"`) {
			t.Errorf("%d: %s", a.status, a.body)
		}
		if client := seen.last.Load().Source.Addr().String(); client != "198.51.100.9" {
			t.Errorf("the client is %s", client)
		}
		if a := ask(t, false, func() *http.Request {
			req := upload(blockingSite, []byte("x"), true)()
			req.Trailer = http.Header{"X-Late": {"1"}}
			return req
		}); a.status != 400 {
			t.Errorf("a request with a trailer gets %d", a.status)
		}

		// Responses are inspected if that is on.
		for _, secure := range []bool{false, true} {
			a := ask(t, true, get(answersSite, "/leak", secure))
			if a.status != 403 || strings.Contains(a.body, "php") || !strings.Contains(a.body, a.header.Get("X-Request-ID")) {
				t.Errorf("secure %v: a leak gets out, %d %v: %s", secure, a.status, a.header, a.body)
			}
			if a := ask(t, true, get(answersSite, "/clean", secure)); a.status != 200 || !strings.Contains(a.body, `accepts=""`) {
				t.Errorf("secure %v: a clean response: %d %s", secure, a.status, a.body)
			}
			if a := ask(t, true, get(answersSite, "/long", secure)); a.status != 200 || len(a.body) != 600_000 {
				t.Errorf("secure %v: a long response: %d, %d bytes", secure, a.status, len(a.body))
			}
			for path, site := range map[string]string{"/leak": blockingSite, "/events": answersSite} {
				if a := ask(t, true, get(site, path, secure)); a.status != 200 || !strings.Contains(a.body, "<?php") {
					t.Errorf("secure %v: %s%s: %d %s", secure, site, path, a.status, a.body)
				}
			}
		}

		text := func(size int) []byte { return fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("lorem ipsum ", size/12)) }
		for _, x := range []struct {
			site   string
			size   int
			status int
		}{
			{blockingSite, 19000, 200}, {blockingSite, 21000, 413}, {blockingSite, 200_000, 413}, {openSite, 200_000, 413}, {detectingSite, 200_000, 200}, {plainSite, 200_000, 200},
		} {
			for _, chunked := range []bool{false, true} {
				if a := ask(t, true, upload(x.site, text(x.size), chunked)); a.status != x.status {
					t.Errorf("%d bytes (chunked %v) to %s get %d instead of %d", x.size, chunked, x.site, a.status, x.status)
				}
			}
		}
	})
}

// WF-02: where the web application firewall detects and does not block, it refuses nothing: neither trailers nor a body that is late.
func TestDetectionRefusesNothing(t *testing.T) {
	onEachHAProxy(t, func(t *testing.T, program string) {
		guard(t, program, "wait-for-body time 5s", "wait-for-body time 100ms")
		a := ask(t, false, func() *http.Request {
			req := upload(detectingSite, []byte("x"), true)()
			req.Trailer = http.Header{"X-Late": {"1"}}
			return req
		})
		if a.status != 200 || !strings.Contains(a.body, "1 bytes") {
			t.Errorf("a request with a trailer gets %d: %s", a.status, a.body)
		}
		begin := func(name string) (net.Conn, *bufio.Reader) {
			conn, err := net.Dial("tcp", "127.0.0.1:80")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			fmt.Fprintf(conn, "POST /upload HTTP/1.1\r\nHost: %s\r\nUser-Agent: Mozilla/5.0\r\nAccept: */*\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nab", name)
			return conn, bufio.NewReader(conn)
		}
		status := func(from *bufio.Reader) int {
			res, err := http.ReadResponse(from, nil)
			if err != nil {
				t.Fatal(err)
			}
			return res.StatusCode
		}
		late, lateAnswer := begin(detectingSite)
		_, refusal := begin(blockingSite)
		// When the later one is refused, the other one is late, too.
		if got := status(refusal); got != 408 {
			t.Errorf("a late body of a site that blocks gets %d", got)
		}
		fmt.Fprint(late, "cd")
		if got := status(lateAnswer); got != 200 {
			t.Errorf("a late body of a site that detects gets %d", got)
		}
	})
}

// WF-05: without an agent fail_open of each domain decides, and there is a record of it.
func TestNothingPassesSilently(t *testing.T) {
	onEachHAProxy(t, func(t *testing.T, program string) {
		g, _ := guard(t, program)
		if a := ask(t, true, get(blockingSite, "/", false)); a.status != 200 {
			t.Fatalf("%d: %s", a.status, a.body)
		}

		b := g.record(t)
		g.stop()
		before := len(g.origin.reached())
		for name, status := range map[string]int{blockingSite: 503, detectingSite: 200, openSite: 200, plainSite: 200, answersSite: 503} {
			if a := ask(t, false, get(name, sqlAttack, false)); a.status != status {
				t.Errorf("%s answers %d instead of %d", name, a.status, status)
			}
		}
		if n := len(g.origin.reached()) - before; n != 3 {
			t.Errorf("%d requests reached the server", n)
		}
		recorded := map[string]string{}
		waittest.UntilNil(t, "a record of each site that is inspected", func() error {
			var list []waf.Alert
			b.Get(t, "/waf/alerts?action=unavailable").Want(t, 200).Into(t, &list)
			for _, a := range list {
				recorded[a.Domain] = a.Message
				severity := "warning" // it passed
				if a.Domain == blockingSite || a.Domain == answersSite {
					severity = "critical"
				}
				if a.URI != sqlAttack || a.Method != "GET" || a.ClientIP != "127.0.0.1" || a.RequestID == "" || a.Severity != severity {
					t.Fatalf("%+v", a)
				}
			}
			if len(recorded) < 4 {
				return fmt.Errorf("recorded: %v", recorded)
			}
			return nil
		})
		for name, want := range map[string]string{blockingSite: ": at least 1 refused.", answersSite: ": at least 1 refused.", detectingSite: ": at least 1 let through.", openSite: ": at least 1 let through."} {
			if !strings.Contains(recorded[name], want) {
				t.Errorf("%s: %q", name, recorded[name])
			}
		}
	})
}
