package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/waittest"
)

type logEntry struct {
	ID, Source, Level, Text string
	Time                    time.Time
	Fields                  map[string]string
}

type logPage struct {
	Entries []logEntry
	Cursor  string
	Partial bool
	Errors  []struct{ Source, Error string }
}

// searched searches the logs of the lab: there is no journald in one, its supervisor answers.
func (p *proxyRig) searched(t *testing.T, query string) logPage {
	t.Helper()
	var page logPage
	p.Must(t, http.MethodGet, "/logs?"+query, nil, 200, &page)
	if len(page.Errors) > 0 {
		t.Fatalf("%s: %+v", query, page.Errors)
	}
	return page
}

// byPath indexes the entries of an access log by path.
func byPath(entries ...logEntry) map[string]logEntry {
	m := make(map[string]logEntry, len(entries))
	for _, e := range entries {
		m[e.Fields["path"]] = e
	}
	return m
}

// accessLog: a domain's requests are logged if that is on, without query strings, and can be found and followed.
func accessLog(t *testing.T, p *proxyRig) {
	quiet, _ := p.site(t, "a")
	name, path := p.site(t, "a")
	id := path[strings.LastIndexByte(path, '/')+1:]
	p.get(t, "https://"+name+"/before").from(t, "a")
	p.live(t, http.MethodPut, path, fields{"access_log": true})
	mark := uuid.NewString()
	p.get(t, "https://"+quiet+"/"+mark).from(t, "a")
	p.get(t, "https://"+name+"/"+mark+"?token=secret").from(t, "a")
	// HAProxy logs a request after it has sent the answer, and drops the line if another of its threads is writing one.
	var page logPage
	logged := func(n int) {
		t.Helper()
		waittest.UntilNil(t, fmt.Sprintf("%d requests are logged", n), func() error {
			if page = p.searched(t, "domain="+id); len(page.Entries) != n {
				return fmt.Errorf("%+v", page)
			}
			return nil
		})
	}
	logged(1)
	p.send(t, ask{url: "http://" + name + "/redirected"}).leads(t, 301, "https://"+name+"/redirected")
	logged(2)
	requested, redirected := "/"+mark+"?…", "/redirected"
	entries := byPath(page.Entries...)
	e, ok := entries[requested]
	if !ok || entries[redirected].ID == "" {
		t.Fatalf("%+v", page)
	}
	if strings.Contains(fmt.Sprint(page), "secret") {
		t.Errorf("what follows the path is logged: %+v", page)
	}
	for field, want := range map[string]string{"client": wan4, "method": "GET", "path": requested, "status": "200", "domain": name, "domain_id": id} {
		if e.Fields[field] != want {
			t.Errorf("%s is %q instead of %q in %+v", field, e.Fields[field], want, e)
		}
	}
	if page := p.searched(t, "text="+mark); len(page.Entries) != 1 || page.Entries[0].Source != "reverse-proxy-access" {
		t.Errorf("%+v", page)
	}

	// Turning it on for another domain needs no reload, because the rules exist.
	p.converge(t)
	_, other := p.site(t, "a")
	p.reloads(t, "another access log", 0, func() { p.live(t, http.MethodPut, other, fields{"access_log": true}) })

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	conn := p.Stream(t, "/logs/live?sources=reverse-proxy-access&domain="+id)
	next := func() (e logEntry) {
		t.Helper()
		_, b, err := conn.Read(ctx)
		if err == nil {
			err = json.Unmarshal(b, &e)
		}
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	if got := byPath(next(), next()); got[requested].ID != e.ID || got[redirected].ID != entries[redirected].ID {
		t.Errorf("the stream begins with %+v", got)
	}
	p.get(t, "https://"+name+"/live").from(t, "a")
	if e := next(); e.Fields["path"] != "/live" {
		t.Errorf("%+v", e)
	}
	p.live(t, http.MethodPut, path, fields{"access_log": false})
	p.live(t, http.MethodPut, other, fields{"access_log": false})
	p.get(t, "https://"+name+"/after").from(t, "a")
}

// logsOfALab: the output of a lab's units is found by unit, level and text, together with audit entries, page by page.
func logsOfALab(t *testing.T, p *proxyRig) {
	if err := p.Units().Restart(t.Context(), unbound.Unit); err != nil {
		t.Fatal(err)
	}
	var page logPage
	waittest.Until(t, "unbound has spoken", func() bool {
		page = p.searched(t, "sources=dns")
		return len(page.Entries) > 0
	})
	for _, source := range []string{"api", "scheduler", "reverse-proxy"} {
		if page := p.searched(t, "limit=1&sources="+source); len(page.Entries) != 1 || page.Entries[0].Source != source {
			t.Errorf("%s: %+v", source, page)
		}
	}
	if page := p.searched(t, "sources=api&text="+url.QueryEscape("GATEWAY-API IS READY")); len(page.Entries) == 0 {
		t.Error("the text is not found")
	}
	for _, e := range p.searched(t, "level=warn&limit=1000").Entries {
		if e.Level != "warn" && e.Level != "error" {
			t.Errorf("%+v", e)
		}
	}
	until := time.Now().UTC().Format(time.RFC3339Nano)
	var whole, paged []string
	for _, e := range p.searched(t, "limit=1000&sources=dns,scheduler,helper,audit&until="+until).Entries {
		whole = append(whole, e.ID)
	}
	for cursor := ""; ; {
		page := p.searched(t, "limit=37&sources=dns,scheduler,helper,audit&until="+until+"&cursor="+cursor)
		for _, e := range page.Entries {
			paged = append(paged, e.ID)
		}
		if cursor = page.Cursor; cursor == "" || len(paged) >= len(whole) {
			break
		}
	}
	if fmt.Sprint(whole) != fmt.Sprint(paged[:min(len(paged), len(whole))]) {
		t.Errorf("%d entries at once, %d by pages", len(whole), len(paged))
	}
	p.Must(t, http.MethodGet, "/logs?limit=1001", nil, 400, nil)
}
