package machine

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/lab"
)

const sqlAttack = "1' or '1'='1"

// alert is a record of the web application firewall.
type alert struct {
	ID        string `json:"id"`
	RequestID string `json:"request_id"`
	RuleID    int    `json:"rule_id"`
	Action    string `json:"action"`
	URI       string `json:"uri"`
	ClientIP  string `json:"client_ip"`
	Message   string `json:"message"`
}

// guarded is a site whose requests are inspected.
type guarded struct {
	*proxyRig
	name, path, config string // of the site, and where its settings are
}

func (p *proxyRig) guard(t *testing.T, origin string, settings fields) *guarded {
	t.Helper()
	name, path := p.site(t, origin, fields{"http_to_https": false})
	g := &guarded{p, name, path, "/waf/configs/" + strings.TrimPrefix(path, "/domains/")}
	p.live(t, http.MethodPut, g.config, with(fields{"enabled": true}, settings))
	return g
}

func (g *guarded) remove(t *testing.T) {
	t.Helper()
	g.live(t, http.MethodDelete, g.path, nil)
}

// url asks for something that nobody has asked for before, so that it is inspected.
var asked atomic.Int64

func (g *guarded) url(q string) string {
	return fmt.Sprintf("http://%s/search?n=%d&q=%s", g.name, asked.Add(1), url.QueryEscape(q))
}

// becomes waits until a request gets a status: the agent hears of settings a moment after they are stored, and may have no time for a request.
func (g *guarded) becomes(t *testing.T, q string, status int) (got reply) {
	t.Helper()
	poll(t, fmt.Sprintf("%q gets %d", q, status), patience, func() bool {
		got = g.get(t, g.url(q))
		return got.StatusCode == status
	})
	return got
}

func (g *guarded) alerts(t *testing.T, query string) (list []alert) {
	t.Helper()
	g.Must(t, http.MethodGet, "/waf/alerts?domain_id="+strings.TrimPrefix(g.config, "/waf/configs/")+"&"+query, nil, 200, &list)
	return list
}

// What is refused has a record with the number that the visitor sees, and what a legitimate request needs is one call away.
func wafSites(t *testing.T, p *proxyRig) {
	g := p.guard(t, "a", fields{"mode": "blocking"})
	defer g.remove(t)
	other := p.guard(t, "b", fields{"mode": "blocking"})
	defer other.remove(t)
	g.becomes(t, "green tea", 200).from(t, "a")
	refused := g.becomes(t, sqlAttack, 403)
	reference := refused.Response.Header.Get("X-Request-Id")
	if reference == "" || !strings.Contains(refused.body, reference) {
		t.Fatalf("%v: %s", refused.Response.Header, refused.body)
	}
	var found *alert
	poll(t, "the record of the refused request", patience, func() bool {
		for _, a := range g.alerts(t, "rule_id=942100") {
			if a.RequestID == reference {
				found = &a
			}
		}
		return found != nil
	})
	if found.Action != "blocked" || found.ClientIP != wan4 || !strings.HasPrefix(found.URI, "/search?n=") || found.Message == "" {
		t.Errorf("%+v", found)
	}

	// Broken rules of one site are refused, and another one goes on.
	g.Must(t, http.MethodPut, g.config, fields{"custom_rules": "SecRule ARGS \"@inspectFile /bin/sh\" \"id:1,phase:2,deny\""}, 400, nil)
	other.becomes(t, sqlAttack, 403)

	var before, after struct{ Builds int }
	g.Must(t, http.MethodGet, "/waf/status", nil, 200, &before)
	p.reloads(t, "settings of the WAF", 0, func() {
		var proposed struct{ Exclusions []fields }
		g.Must(t, http.MethodPost, "/waf/alerts/"+found.ID+"/propose", fields{}, 200, &proposed)
		if len(proposed.Exclusions) == 0 {
			t.Fatal("nothing is proposed")
		}
		p.live(t, http.MethodPost, "/waf/alerts/"+found.ID+"/exclude", fields{"exclusions": proposed.Exclusions, "note": "search for SQL"})
		g.becomes(t, sqlAttack, 200).from(t, "a")
		g.becomes(t, "<script>alert(1)</script>", 403) // other rules go on
		p.live(t, http.MethodPut, g.config, fields{"exclusions": []fields{}, "paranoia_level": 2})
		g.becomes(t, sqlAttack, 403)
	})
	g.Must(t, http.MethodGet, "/waf/status", nil, 200, &after)
	if after.Builds != before.Builds || before.Builds == 0 {
		t.Errorf("engines were built: %d before, %d after", before.Builds, after.Builds)
	}

	p.live(t, http.MethodPut, g.config, fields{"mode": "detection"})
	g.becomes(t, sqlAttack, 200).from(t, "a")
	poll(t, "the record of the detected request", patience, func() bool { return len(g.alerts(t, "action=detected")) > 0 })
}

// attack counts what became of requests.
type attack struct {
	mu     sync.Mutex
	counts map[string]int
	wrong  []string
}

func (a *attack) count(name string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[name]
}

// visitor asks again and again, one attack in twenty.
func (a *attack) visitor(ctx context.Context, g *guarded) {
	browser := &http.Client{Transport: g.transport(ask{})}
	defer browser.CloseIdleConnections()
	for n := 0; ctx.Err() == nil; n++ {
		kind, q := "clean", "green tea"
		if n%20 == 19 {
			kind, q = "attack", sqlAttack
		}
		res, err := browser.Get(g.url(q))
		outcome := "lost"
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		if err == nil {
			outcome = strconv.Itoa(res.StatusCode)
		}
		a.mu.Lock()
		a.counts[kind+" "+outcome]++
		switch kind + " " + outcome {
		case "clean 200", "clean 503", "attack 403", "attack 503":
		default:
			a.wrong = append(a.wrong, fmt.Sprintf("%s %s: %v", kind, outcome, err))
		}
		a.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
	}
}

// Whatever happens to the agent, HAProxy and the database, no attack gets through, and what cannot be inspected is refused and recorded.
func wafUnderAttack(t *testing.T, p *proxyRig) {
	g := p.guard(t, "a", fields{"mode": "blocking"})
	defer g.remove(t)
	g.becomes(t, sqlAttack, 403)
	a := &attack{counts: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var visitors sync.WaitGroup
	for range 5 {
		visitors.Go(func() { a.visitor(ctx, g) })
	}
	reloads := 8
	if n, err := strconv.Atoi(os.Getenv("GATEWAY_WAF_RELOADS")); err == nil {
		reloads = n
	}
	agent := func(signal string) {
		state, err := p.Units().State(t.Context(), host.WAF)
		if err != nil || state.PID == 0 {
			t.Fatalf("the agent: %+v, %v", state, err)
		}
		p.Run(t, lab.Gateway, "kill", "-"+signal, strconv.Itoa(state.PID))
	}
	for _, x := range []struct {
		name string
		do   func()
	}{
		{"reloads", func() {
			for range reloads {
				was := a.count("clean 200")
				p.live(t, http.MethodPost, "/system/proxy-reload", nil)
				poll(t, "answers after a reload", patience, func() bool { return a.count("clean 200") > was+10 })
			}
		}},
		{"killed", func() {
			was := a.count("clean 503")
			agent("KILL")
			poll(t, "requests are refused", patience, func() bool { return a.count("clean 503") > was })
		}},
		{"stalled", func() {
			was := a.count("clean 503")
			agent("STOP")
			poll(t, "requests are refused", patience, func() bool { return a.count("clean 503") > was })
			agent("CONT")
		}},
		{"overloaded", func() {
			was := a.count("clean 200")
			// Characters that attacks are made of: most rules have to be asked.
			body := `{"items":["` + strings.Repeat(`lorem (ipsum) = 'dolor'; <sit> select $amet from","`, 900) + `"]}`
			var posters sync.WaitGroup
			for range 8 {
				posters.Go(func() {
					for range 5 {
						_, _ = p.try(ctx, ask{url: g.url("x"), method: http.MethodPost, header: http.Header{"Content-Type": {"application/json"}}, body: strings.NewReader(body)})
					}
				})
			}
			posters.Wait()
			poll(t, "others were answered", patience, func() bool { return a.count("clean 200") > was })
		}},
		{"without a database", func() {
			p.Run(t, lab.Gateway, "pkill", "-STOP", "postgres")
			defer p.Run(t, lab.Gateway, "pkill", "-CONT", "postgres")
			was := a.count("clean 200")
			poll(t, "answers without a database", patience, func() bool { return a.count("clean 200") > was+20 })
		}},
	} {
		before := a.count("clean 503")
		x.do()
		g.becomes(t, "green tea", 200)
		g.becomes(t, sqlAttack, 403)
		t.Logf("%s: %d clean requests were refused", x.name, a.count("clean 503")-before)
	}
	stop()
	visitors.Wait()
	t.Logf("%v", a.counts)
	if len(a.wrong) > 0 {
		t.Errorf("%d requests went wrong: %s", len(a.wrong), a.wrong[0])
	}
	poll(t, "what was not inspected is recorded", patience, func() bool { return len(g.alerts(t, "action=unavailable")) > 0 })
}
