package waf

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/waittest"
)

// line is HAProxy's log line about an uninspected request.
func line(domain, code, client, where, status string) string {
	return fmt.Sprintf(`192.0.2.7:40000 [16/Nov/2026:05:00:00.000] gateway_https~ %s 0/0/0/1/1 %s 100 - - ---- 1/1/0/0/0 0/0  "GET /a?{#22token#22:#22hunter2#22} HTTP/1.1" 6f0d1c2e-aaaa %s %s %s`, where, status, domain, code, client)
}

func TestParseGap(t *testing.T) {
	domain := uuid.NewString()
	g, ok := parseGap(line(domain, "busy", "2001:db8::7", "gateway_backend_x/web", "200"))
	if !ok || g.domain.String() != domain || g.reason != "busy" || g.client.String() != "2001:db8::7" || g.method != "GET" || g.uri != `/a?{"token":"hunter2"}` || g.refused || g.request != "6f0d1c2e-aaaa" {
		t.Errorf("%+v, %v", g, ok)
	}
	g, ok = parseGap(line(domain, "-", "-", "gateway_https/<NOSRV>", "503") + "\n")
	if !ok || g.reason != "" || g.client.String() != "192.0.2.7" || !g.refused {
		t.Errorf("%+v, %v", g, ok)
	}
	for _, bad := range []string{"", "x", line("-", "1", "-", "a/b", "200"), "Proxy gateway_https stopped.", strings.Repeat("x ", 100)} {
		if g, ok := parseGap(bad); ok {
			t.Errorf("%q: %+v", bad, g)
		}
	}
}

func FuzzParseGap(f *testing.F) {
	f.Add(line(uuid.NewString(), "1", "-", "a/b", "200"))
	f.Add(`a b c d e f g h " - - - -`)
	f.Fuzz(func(_ *testing.T, s string) { parseGap(s) })
}

// Uninspected requests become one record per domain and second, with their number.
func TestGapsAreRecorded(t *testing.T) {
	r, b, shop, blog := bench(t)
	path := filepath.Join(t.TempDir(), "waf.sock")
	socket, err := httpd.ListenDatagrams(path, 0o660, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { r.Run(ctx, socket); close(done) }()
	defer func() { cancel(); <-done }()
	conn, err := net.Dial("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	say := func(text string) {
		t.Helper()
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	const many = 20
	for range many {
		say(line(shop.String(), "1", "-", "gateway_https/<NOSRV>", "503"))
		say(line(blog.String(), "busy", "198.51.100.1", "gateway_backend_x/web", "200"))
	}
	say("nonsense")
	var list []Alert
	counted := func(domain uuid.UUID) (n int) {
		for _, a := range list {
			if *a.DomainID == domain {
				var count int
				_, _ = fmt.Sscan(a.Data[0].Value, &count)
				n += count
			}
		}
		return n
	}
	waittest.UntilNil(t, fmt.Sprintf("%d are recorded for each", many), func() error {
		b.Get(t, "/waf/alerts?action=unavailable").Want(t, 200).Into(t, &list)
		if counted(shop) != many || counted(blog) != many {
			return fmt.Errorf("%d and %d: %+v", counted(shop), counted(blog), list)
		}
		return nil
	})
	for _, a := range list {
		want, client, domain, severity := " refused. Why", "192.0.2.7", "shop.example.net", "critical"
		if *a.DomainID == blog {
			want, client, domain, severity = " let through. Why", "198.51.100.1", "blog.example.net", "warning"
		}
		if a.RuleID != 0 || a.Severity != severity || !strings.Contains(a.Message, ": at least ") || !strings.Contains(a.Message, want) || a.ClientIP != client || a.Domain != domain || a.RequestID == "" || a.URI != `/a?{"token":"[masked]"}` {
			t.Errorf("%+v", a)
		}
	}
}

// While the database is away, the counts wait for it.
func TestGapsWait(t *testing.T) {
	var g gaps
	one, two := uuid.New(), uuid.New()
	g.add(time.Now(), gap{domain: one, reason: "1", refused: true})
	taken := g.take()
	g.add(time.Now(), gap{domain: one, reason: "busy"})
	g.add(time.Now(), gap{domain: two})
	g.giveBack(taken)
	all := g.take()
	if len(all) != 2 || all[one].count != 2 || all[one].refusals != 1 || all[one].reason != "1" || all[two].count != 1 || len(g.take()) != 0 {
		t.Errorf("%+v", all)
	}
}
