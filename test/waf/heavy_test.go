package waf

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/proxy"
	"edge.internal/gateway/internal/waf"
	"edge.internal/gateway/internal/waf/engine"
)

// slow is the rule set with inspections that take too long, whatever the machine: at /late until the agent's time is over, and at /stuck until
// HAProxy has given up.
type slow struct {
	*engine.Set
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
	return s.Set.Inspect(ctx, r, with)
}

// A clean body that there is no time for gets what its site says about requests that could not be inspected: it passes, or it is refused with a word
// about when to come back. Either way there is a record.
func TestBodiesThatTakeTooLong(t *testing.T) {
	set, err := engine.New()
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	e := &slow{Set: set, release: make(chan struct{})}
	inspection := func(name string, x proxy.Inspection) site {
		x.MaxBody = 128 << 10
		return site{name: name, Inspection: x, with: engine.Settings{Blocking: !x.Detects, Paranoia: 1, MaxBody: x.MaxBody}}
	}
	r := start(t, e, []site{
		inspection("closed.example.net", proxy.Inspection{}),
		inspection("open.example.net", proxy.Inspection{Open: true}),
		inspection("watched.example.net", proxy.Inspection{Detects: true, Open: true, Partial: true}),
		inspection("strict.example.net", proxy.Inspection{Detects: true, Partial: true}),
	})
	b := r.record(t)
	form := "text=" + url.QueryEscape(strings.Repeat("A long letter, of nothing but words. ", 2700))
	if len(form) < 100_000 || len(form) > 115_000 {
		t.Fatal(len(form))
	}
	post := func(name, path string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1"+path, strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = name
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("User-Agent", "Mozilla/5.0")
		req.Header.Set("Accept", "*/*")
		res, err := (&http.Client{Timeout: long}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		said, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		res.Body = io.NopCloser(bytes.NewReader(said))
		return res
	}
	for path, why := range map[string]string{"/late": "its inspection took too long", "/stuck": "the agent did not answer in time"} {
		for name, refused := range map[string]bool{"closed.example.net": true, "open.example.net": false, "watched.example.net": false, "strict.example.net": true} {
			res := post(name, path)
			if path == "/stuck" {
				e.release <- struct{}{}
			}
			said, _ := io.ReadAll(res.Body)
			number, end := res.Header.Get("X-Request-Id"), " let through"
			if refused {
				end = " refused"
				if res.StatusCode != 503 || res.Header.Get("Retry-After") != "5" || res.Header.Get("Cache-Control") != "no-store" || number == "" || string(said) != "the request could not be inspected" {
					t.Errorf("%s%s: %s %v %s", name, path, res.Status, res.Header, said)
				}
			} else if res.StatusCode != 200 || string(said) != "the origin" {
				t.Errorf("%s%s: %s %s", name, path, res.Status, said)
			}
			var list []waf.Alert
			for deadline := time.Now().Add(long); ; time.Sleep(20 * time.Millisecond) {
				b.Get(t, "/waf/alerts?action=unavailable&q="+path).Want(t, 200).Into(t, &list)
				if len(list) > 0 && list[0].Domain == name {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s%s: no record in %+v", name, path, list)
				}
			}
			if a := list[0]; !strings.Contains(a.Message, "at least 1"+end+". Why: "+why) || refused && a.RequestID != number {
				t.Errorf("%s%s, %s: %+v", name, path, number, a)
			}
		}
	}
	// With time, it passes everywhere. A busy machine may need more than one try.
	for _, name := range []string{"closed.example.net", "strict.example.net"} {
		for deadline := time.Now().Add(long); ; time.Sleep(100 * time.Millisecond) {
			if res := post(name, "/letter"); res.StatusCode == 200 {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("%s: %s", name, res.Status)
			}
		}
	}
}

// record has the service write down what HAProxy says about requests that were not inspected.
func (r *rig) record(t *testing.T) *kittest.Bench {
	t.Helper()
	b := kittest.New(t)
	room := waf.New(b.Kit, waf.Deps{DomainTable: "proxy_domains", Domains: func(context.Context, db.Querier) (map[uuid.UUID]string, error) { return r.names, nil }})
	room.Mount()
	b.Start(t)
	said, err := httpd.ListenDatagrams(filepath.Join(r.root, "run/gateway/waf.sock"), 0o660, "haproxy")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { room.Run(ctx, said); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return b
}
