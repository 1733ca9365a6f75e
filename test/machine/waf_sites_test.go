package machine

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
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
	Data      []struct{ Variable, Value string }
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

// url returns a new URL each time, so that the request is inspected.
var asked atomic.Int64

func (g *guarded) url(q string) string {
	return fmt.Sprintf("http://%s/search?n=%d&q=%s", g.name, asked.Add(1), url.QueryEscape(q))
}

// becomes waits until a request gets a status: the agent gets settings shortly after they are stored, and may be too busy for a request.
func (g *guarded) becomes(t *testing.T, q string, status int) (got reply) {
	t.Helper()
	waittest.Within(t, labtest.Slow*patience, fmt.Sprintf("%q gets %d", q, status), func() error {
		if got = g.get(t, g.url(q)); got.StatusCode != status {
			return fmt.Errorf("it gets %s", got.Status)
		}
		return nil
	})
	return got
}

func (g *guarded) alerts(t *testing.T, query string) (list []alert) {
	t.Helper()
	g.Must(t, http.MethodGet, "/waf/alerts?domain_id="+strings.TrimPrefix(g.config, "/waf/configs/")+"&"+query, nil, 200, &list)
	return list
}

// WF-02: a refused request has a record with the number that the visitor sees, and one call adds the exclusions for a legitimate request.
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
	waittest.Until(t, "the record of the refused request", func() bool {
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

	// Invalid rules of one site are refused, and another one continues to work.
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
	waittest.Until(t, "the record of the detected request", func() bool { return len(g.alerts(t, "action=detected")) > 0 })
}

// siege is requests at a steady rate, one attack in twenty, and what became of them.
type siege struct {
	mu     sync.Mutex
	counts map[string]int
	wrong  []string
}

func (s *siege) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[name]
}

const (
	// siegeEvery is the interval between requests, and siegeMost the maximum number in progress: while the agent is stopped, each
	// takes a second.
	siegeEvery, siegeMost = 5 * time.Millisecond, 400
)

// lay makes requests until the context ends, and returns when all are answered.
func (s *siege) lay(ctx context.Context, g *guarded) {
	transport := g.transport(ask{})
	transport.MaxIdleConnsPerHost = siegeMost
	browser := &http.Client{Transport: transport}
	defer browser.CloseIdleConnections()
	free := make(chan struct{}, siegeMost)
	var all sync.WaitGroup
	defer all.Wait()
	tick := time.NewTicker(siegeEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		kind, q := "clean", "green tea"
		if n%20 == 19 {
			kind, q = "attack", sqlAttack
		}
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			s.ask(browser, kind, g.url(q))
		})
	}
}

func (s *siege) ask(browser *http.Client, kind, url string) {
	res, err := browser.Get(url)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(res.Body)
		res.Body.Close()
	}
	outcome := kind + " lost"
	if err == nil {
		outcome = fmt.Sprintf("%s %d", kind, res.StatusCode)
		if res.StatusCode == 503 && !strings.Contains(string(body), "could not be inspected") {
			outcome += " for another reason"
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[outcome]++
	switch outcome {
	case "clean 200", "clean 503", "attack 403", "attack 503":
	default:
		s.wrong = append(s.wrong, fmt.Sprintf("%s: %.200s, %v", outcome, body, err))
	}
}

// busy is how many requests the agent had no time for.
func (g *guarded) busy(t *testing.T) int {
	t.Helper()
	var status struct{ Failed map[string]int }
	g.Must(t, http.MethodGet, "/waf/status", nil, 200, &status)
	return status.Failed["busy"]
}

// refused is how many requests are recorded as refused because they were not inspected, and how many by the reason of the first of each record.
func (g *guarded) refused(t *testing.T) (sum int, why map[string]int) {
	t.Helper()
	why = map[string]int{}
	for _, a := range g.alerts(t, "action=unavailable&limit=1000") {
		said := map[string]string{}
		for _, d := range a.Data {
			said[d.Variable] = d.Value
		}
		n, err := strconv.Atoi(said["refused"])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
		why[said["reason"]] += n
	}
	return sum, why
}

// WF-05: whatever happens to the agent, HAProxy and the database, no attack gets through, and what cannot be inspected is refused and recorded.
func wafUnderAttack(t *testing.T, p *proxyRig) {
	g := p.guard(t, "a", fields{"mode": "blocking"})
	defer g.remove(t)
	g.becomes(t, sqlAttack, 403)
	p.origins["a"].attacks.Store(0)
	s := &siege{counts: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var laid sync.WaitGroup
	laid.Go(func() { s.lay(ctx, g) })
	agent := func(signal string) {
		state, err := p.Units().State(t.Context(), host.WAF)
		if err != nil || state.PID == 0 {
			t.Fatalf("the agent: %+v, %v", state, err)
		}
		p.Run(t, lab.Gateway, "kill", "-"+signal, strconv.Itoa(state.PID))
	}
	began := time.Now()
	for _, x := range []struct {
		name string
		do   func()
	}{
		{"reloads", func() {
			for range longtest.Number(t, "GATEWAY_SIEGE_RELOADS", 10, 50) {
				was := s.count("clean 200")
				p.live(t, http.MethodPost, "/system/proxy-reload", nil)
				waittest.Until(t, "answers after a reload", func() bool { return s.count("clean 200") > was+10 })
			}
		}},
		{"killed", func() {
			was := s.count("clean 503")
			agent("KILL")
			waittest.Until(t, "requests are refused", func() bool { return s.count("clean 503") > was })
		}},
		{"stalled", func() {
			was := s.count("clean 503")
			agent("STOP")
			waittest.Until(t, "requests are refused", func() bool { return s.count("clean 503") > was })
			agent("CONT")
		}},
		{"overloaded", func() {
			g.becomes(t, "green tea", 200) // the agent is running
			was, busy := s.count("clean 200"), g.busy(t)
			// Characters that are typical of attacks: most rules have to be evaluated.
			body := `{"items":["` + strings.Repeat(`lorem (ipsum) = 'dolor'; <sit> select $amet from","`, 900) + `"]}`
			posting, end := context.WithCancel(ctx)
			var posters sync.WaitGroup
			defer posters.Wait()
			defer end()
			for range 16 {
				posters.Go(func() {
					for posting.Err() == nil {
						_, _ = p.try(posting, ask{url: g.url("x"), method: http.MethodPost, header: http.Header{"Content-Type": {"application/json"}}, body: strings.NewReader(body)})
					}
				})
			}
			waittest.Until(t, "there is time for some and not for others", func() bool { return g.busy(t) > busy && s.count("clean 200") > was })
		}},
		{"without a database", func() {
			p.Run(t, lab.Gateway, "pkill", "-STOP", "postgres")
			defer p.Run(t, lab.Gateway, "pkill", "-CONT", "postgres")
			was := s.count("clean 200")
			waittest.Until(t, "answers without a database", func() bool { return s.count("clean 200") > was+20 })
		}},
	} {
		before := s.count("clean 503")
		recorded, _ := g.refused(t)
		x.do()
		g.becomes(t, "green tea", 200)
		g.becomes(t, sqlAttack, 403)
		refused := s.count("clean 503") - before
		var why map[string]int
		waittest.Until(t, "what was refused is recorded", func() bool {
			var now int
			now, why = g.refused(t)
			return refused == 0 || now > recorded
		})
		t.Logf("%s: %d clean requests were refused; recorded by now: %v", x.name, refused, why)
	}
	stop()
	laid.Wait()
	t.Logf("%v in %s", s.counts, time.Since(began))
	if len(s.wrong) > 0 {
		t.Errorf("%d requests went wrong: %s", len(s.wrong), s.wrong[0])
	}
	if n := p.origins["a"].attacks.Load(); n > 0 {
		t.Errorf("%d attacks reached the origin", n)
	}
	if s.count("attack 403") == 0 {
		t.Error("no attack was inspected")
	}
}
