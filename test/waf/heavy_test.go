package waf

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/host/daemon/haproxy/proxytest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/proxy"
	"edge.internal/gateway/internal/waf"
	"edge.internal/gateway/internal/waf/agent"
	"edge.internal/gateway/internal/waf/engine"
)

// slow is the rule set with inspections that take too long on any machine: at /late until the agent's time limit, and at /stuck until
// HAProxy has given up.
type slow struct {
	agent.Engine
	release chan struct{}
}

func (s *slow) Inspect(ctx context.Context, r *engine.Request, with engine.Settings) (engine.Verdict, error) {
	switch r.URI {
	case "/late":
		<-ctx.Done()
		return engine.Verdict{}, ctx.Err()
	case "/stuck":
		<-s.release
	}
	return s.Engine.Inspect(ctx, r, with)
}

// A clean body without enough time for its inspection is handled by its site's setting for requests that could not be inspected: it passes, or is refused with
// Retry-After. Either way there is a record.
func TestBodiesThatTakeTooLong(t *testing.T) {
	set, err := rules()
	if err != nil {
		t.Fatal(err)
	}
	e := &slow{Engine: set, release: make(chan struct{})}
	r := start(t, proxytest.Own, e, []site{
		{name: "closed.example.net", inspection: &proxy.Inspection{}},
		{name: "open.example.net", inspection: &proxy.Inspection{Open: true}},
		{name: "watched.example.net", inspection: &proxy.Inspection{Detects: true, Open: true, Partial: true}},
		{name: "strict.example.net", inspection: &proxy.Inspection{Detects: true, Partial: true}},
	})
	b := r.record(t)
	form := "text=" + url.QueryEscape(strings.Repeat("A long letter, of nothing but words. ", 2700))
	if len(form) < 100_000 || len(form) > 115_000 {
		t.Fatal(len(form))
	}
	send := func(name, path string, verdict bool) answer {
		t.Helper()
		return ask(t, verdict, post(name, path, "application/x-www-form-urlencoded", []byte(form), false))
	}
	for path, why := range map[string]string{"/late": "its inspection took too long", "/stuck": "the agent did not answer in time"} {
		for name, refused := range map[string]bool{"closed.example.net": true, "open.example.net": false, "watched.example.net": false, "strict.example.net": true} {
			a := send(name, path, false)
			if path == "/stuck" {
				e.release <- struct{}{}
			}
			number, end := a.header.Get("X-Request-Id"), " let through"
			if refused {
				end = " refused"
				if a.status != 503 || a.header.Get("Retry-After") != "5" || a.header.Get("Cache-Control") != "no-store" || number == "" || a.body != "the request could not be inspected" {
					t.Errorf("%s%s: %+v", name, path, a)
				}
			} else if a.status != 200 || !strings.HasPrefix(a.body, "the origin") {
				t.Errorf("%s%s: %+v", name, path, a)
			}
			var list []waf.Alert
			waittest.UntilNil(t, "a record of "+name+path, func() error {
				b.Get(t, "/waf/alerts?action=unavailable&q="+path).Want(t, 200).Into(t, &list)
				if len(list) == 0 || list[0].Domain != name {
					return fmt.Errorf("%+v", list)
				}
				return nil
			})
			if a := list[0]; !strings.Contains(a.Message, "at least 1"+end+". Why: "+why) || refused && a.RequestID != number {
				t.Errorf("%s%s, %s: %+v", name, path, number, a)
			}
		}
	}
	// With time, it passes everywhere.
	for _, name := range []string{"closed.example.net", "strict.example.net"} {
		if a := send(name, "/letter", true); a.status != 200 {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
