package waf

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/waf/domain"
	"edge.internal/gateway/internal/waf/engine"
)

// Every built-in attack is blocked at the first level, and has a unique name.
func TestAttacksAreRefused(t *testing.T) {
	s, err := set()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	families := map[int]bool{}
	for _, x := range attacks {
		if seen[x.name] {
			t.Errorf("two are called %s", x.name)
		}
		seen[x.name] = true
		for _, at := range []domain.Exclusion{{}, {Path: "/a b/c", Parameter: "text"}, {Path: "/api", Parameter: "json.text"}} {
			v, err := s.Inspect(t.Context(), x.request(at), engine.Settings{Blocking: true, Paranoia: 1})
			if err != nil {
				t.Fatal(err)
			}
			if !v.Deny {
				t.Errorf("%s passes at %+v with a score of %d", x.name, at, v.Score)
			}
			for _, m := range v.Matches {
				families[m.Rule/1000] = true
			}
		}
	}
	for _, family := range []int{913, 930, 931, 932, 933, 934, 941, 942, 944} {
		if !families[family] {
			t.Errorf("no attack of the family %d", family)
		}
	}
	if len(attacks) < 55 {
		t.Errorf("%d attacks", len(attacks))
	}
}

// falseAlarm is a false positive of one rule: someone searches for words that look like SQL.
func falseAlarm(t *testing.T, b *kittest.Bench, domain uuid.UUID, request, uri string, data ...Datum) uuid.UUID {
	t.Helper()
	return insert(t, b, Alert{RequestID: request, DomainID: &domain, Domain: "shop.example.net", RuleID: 942100, Action: blocked, URI: uri, ClientIP: "192.0.2.7", Score: 5, Data: data, Deciding: true})
}

func keep(t *testing.T, b *kittest.Bench, domain uuid.UUID, request, uri string, masked bool) {
	t.Helper()
	dbtest.Exec(t, b.DB, `INSERT INTO waf_requests (request_id, domain_id, method, uri, version, headers, masked) VALUES ($4, $1, 'GET', $2, 'HTTP/1.1',
		'[{"name":"host","value":"shop.example.net"},{"name":"user-agent","value":"Mozilla/5.0"},{"name":"accept","value":"*/*"}]', $3)`, domain, uri, masked, request)
}

const (
	search = "/shop/search?q=1%27+or+%271%27%3D%271&page=2"
	words  = "1' or '1'='1"
)

func TestTuningFromOneRequest(t *testing.T) {
	r, b, shop, _ := bench(t)
	b.Do(t, "admin", http.MethodPut, at(shop), body{"enabled": true, "mode": "blocking"}).Want(t, 200)
	id := falseAlarm(t, b, shop, "false", search, Datum{Variable: "ARGS_GET", Key: "q", Value: words})
	keep(t, b, shop, "false", search, false)

	var p Proposal
	b.Do(t, "viewer", http.MethodPost, "/waf/alerts/"+id.String()+"/propose", nil).Want(t, 403) // it costs a core
	b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+id.String()+"/propose", nil).Want(t, 200).Into(t, &p)
	want := domain.Exclusion{RuleID: 942100, Path: "/shop/search", Exact: true, Variable: "ARGS_GET", Parameter: "q"}
	if len(p.Exclusions) != 1 || p.Exclusions[0] != want {
		t.Errorf("proposed: %+v", p.Exclusions)
	}
	if p.Replay == nil || !p.Replay.Before.Refused || !slices.Contains(p.Replay.Before.Rules, 942100) || p.Replay.After.Refused || slices.Contains(p.Replay.After.Rules, 942100) || p.Replay.After.Score >= p.Replay.Before.Score {
		t.Errorf("replay: %+v", p.Replay)
	}
	if p.Attacks.Total != len(attacks) || p.Attacks.Refused+len(p.Attacks.Passing) != p.Attacks.Total || p.Attacks.Refused < len(attacks)*3/4 {
		t.Errorf("attacks: %+v", p.Attacks)
	}
	// What only this rule stopped in that parameter passes now, and the operator is told so.
	if !slices.Contains(p.Attacks.Passing, "SQL injection: always true") {
		t.Errorf("passing: %v", p.Attacks.Passing)
	}
	if n := b.Rows(t, "waf_configs"); n != 1 || strings.Contains(string(b.Get(t, at(shop)).Data), "942100") {
		t.Error("a proposal was stored")
	}

	before := builtSoFar(t)
	b.Do(t, "viewer", http.MethodPost, "/waf/alerts/"+id.String()+"/exclude", body{"exclusions": p.Exclusions}).Want(t, 403)
	a := b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+id.String()+"/exclude", body{"exclusions": p.Exclusions, "note": "people search for that"}).Want(t, 200)
	if !strings.Contains(string(a.Data), `"note":"people search for that"`) || string(a.Data) != string(b.Get(t, at(shop)).Data) {
		t.Errorf("%s", a.Data)
	}
	b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+id.String()+"/exclude", body{"exclusions": p.Exclusions, "note": "twice"}).Want(t, 200)
	var c Config
	if b.Get(t, at(shop)).Into(t, &c); len(c.Exclusions) != 1 || c.Mode != domain.Blocking || !c.Enabled {
		t.Errorf("%+v", c)
	}
	if n := b.Audited(t, "waf.config.update"); n != 3 {
		t.Errorf("%d audit entries", n)
	}
	if now := builtSoFar(t); now != before {
		t.Errorf("%d engines were built", now-before)
	}

	// Elsewhere the rule applies.
	with, closed, err := r.settings(must(set()), &c)
	if err != nil {
		t.Fatal(err)
	}
	defer closed()
	for uri, refused := range map[string]bool{search: false, strings.Replace(search, "q=", "r=", 1): true, strings.Replace(search, "/shop", "", 1): true} {
		q := attack{"", inQuery, ""}.request(domain.Exclusion{})
		q.URI = uri
		if v, err := must(set()).Inspect(t.Context(), q, with); err != nil || v.Deny != refused {
			t.Errorf("%s: %+v, %v", uri, v, err)
		}
	}
}

// raise has the engine inspect a request, and stores what the agent would: a record for each matched rule, and the request.
func raise(t *testing.T, b *kittest.Bench, domain uuid.UUID, request, uri string) (rules []int, ids []uuid.UUID) {
	t.Helper()
	keep(t, b, domain, request, uri, false)
	r, err := (&Room{}).kept(t.Context(), b.DB, request)
	if err != nil {
		t.Fatal(err)
	}
	v, err := must(set()).Inspect(t.Context(), r.request(Alert{ClientIP: "192.0.2.7"}), engine.Settings{Blocking: true, Paranoia: 1})
	if err != nil || !v.Deny {
		t.Fatalf("%+v, %v", v, err)
	}
	for _, m := range v.Matches {
		a := Alert{RequestID: request, DomainID: &domain, Domain: "shop.example.net", RuleID: m.Rule, Severity: m.Severity, Action: blocked, URI: uri, ClientIP: "192.0.2.7", Score: v.Score, Deciding: m.Deciding}
		for _, d := range m.Data {
			a.Data = append(a.Data, Datum(d))
		}
		rules, ids = append(rules, m.Rule), append(ids, insert(t, b, a))
	}
	return rules, ids
}

// A request that several rules block needs one proposal, from any of its records, and everything in it is about all of it.
func TestTuningARequestThatManyRulesRefuse(t *testing.T) {
	r, b, shop, _ := bench(t)
	b.Do(t, "admin", http.MethodPut, at(shop), body{"enabled": true, "mode": "blocking"}).Want(t, 200)
	const uri = "/help/search?q=%3Cscript%3Ealert(1)%3C/script%3E&also=1%27+or+%271%27%3D%271&page=2"
	rules, ids := raise(t, b, shop, "many", uri)
	if len(rules) < 4 {
		t.Fatalf("only %v refuse it", rules)
	}
	var proposals []Proposal
	for _, id := range []uuid.UUID{ids[0], ids[len(ids)-1]} {
		var p Proposal
		b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+id.String()+"/propose", nil).Want(t, 200).Into(t, &p)
		proposals = append(proposals, p)
	}
	p := proposals[0]
	if !reflect.DeepEqual(p, proposals[1]) {
		t.Errorf("%+v, and by another record %+v", p, proposals[1])
	}
	for _, rule := range rules {
		for _, x := range p.Exclusions {
			if x.Path != "/help/search" || !x.Exact || x.Parameter != "q" && x.Parameter != "also" {
				t.Errorf("proposed: %+v", x)
			}
		}
		if !slices.ContainsFunc(p.Exclusions, func(x domain.Exclusion) bool { return x.RuleID == rule }) {
			t.Errorf("rule %d is not in %+v", rule, p.Exclusions)
		}
	}
	if p.Replay == nil || !p.Replay.Before.Refused || p.Replay.After.Refused || len(p.Replay.After.Rules) > 0 || len(p.Notes) > 0 {
		t.Errorf("%+v, %q", p.Replay, p.Notes)
	}
	// The attacks show the effect of the whole proposal, in either parameter.
	for _, name := range []string{"script: element", "SQL injection: always true"} {
		if !slices.Contains(p.Attacks.Passing, name) {
			t.Errorf("%s is not said to pass: %+v", name, p.Attacks)
		}
	}
	if p.Attacks.Total != len(attacks) || p.Attacks.Refused+len(p.Attacks.Passing) != p.Attacks.Total || p.Attacks.Refused < len(attacks)/2 {
		t.Errorf("attacks: %+v", p.Attacks)
	}

	audited := b.Audited(t, "waf.config.update")
	b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+ids[0].String()+"/exclude", body{"exclusions": p.Exclusions, "note": "people write about HTML"}).Want(t, 200)
	if n := b.Audited(t, "waf.config.update"); n != audited+1 {
		t.Errorf("%d audit entries for one change", n-audited)
	}
	var c Config
	b.Get(t, at(shop)).Into(t, &c)
	with, closed, err := r.settings(must(set()), &c)
	if err != nil {
		t.Fatal(err)
	}
	defer closed()
	for uri, refused := range map[string]bool{uri: false, strings.Replace(uri, "q=", "r=", 1): true, strings.Replace(uri, "/help", "", 1): true} {
		q := attack{"", inQuery, ""}.request(domain.Exclusion{})
		q.URI = uri
		if v, err := must(set()).Inspect(t.Context(), q, with); err != nil || v.Deny != refused {
			t.Errorf("%s: %+v, %v", uri, v, err)
		}
	}
}

// An alert on the start page is not a reason to exclude the rule on the whole site.
func TestTuningTheStartPage(t *testing.T) {
	r, b, shop, _ := bench(t)
	b.Do(t, "admin", http.MethodPut, at(shop), body{"enabled": true, "mode": "blocking"}).Want(t, 200)
	const query = "?q=1%27+or+%271%27%3D%271"
	_, ids := raise(t, b, shop, "start", "/"+query)
	var p Proposal
	b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+ids[0].String()+"/propose", nil).Want(t, 200).Into(t, &p)
	b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+ids[0].String()+"/exclude", body{"exclusions": p.Exclusions}).Want(t, 200)
	var c Config
	b.Get(t, at(shop)).Into(t, &c)
	with, closed, err := r.settings(must(set()), &c)
	if err != nil {
		t.Fatal(err)
	}
	defer closed()
	for uri, refused := range map[string]bool{"/" + query: false, "/login" + query: true, "/a/" + query: true, "//" + query: true} {
		q := attack{"", inQuery, ""}.request(domain.Exclusion{})
		q.URI = uri
		if v, err := must(set()).Inspect(t.Context(), q, with); err != nil || v.Deny != refused {
			t.Errorf("%s: %+v, %v", uri, v, err)
		}
	}
}

// A rule that blocks a request at once hides the findings of others, and a record names only a few parameters. What the request needs is
// found by inspecting it again.
func TestTuningFindsWhatTheRecordsDoNotSay(t *testing.T) {
	_, b, shop, _ := bench(t)
	b.Do(t, "admin", http.MethodPut, at(shop), body{"enabled": true, "mode": "blocking", "custom_rules": `SecRule ARGS_GET:debug "@streq on" "id:100,phase:1,deny,msg:'Debug'"`}).Want(t, 200)
	uri := "/search?debug=on&q=1%27+or+%271%27%3D%271"
	keep(t, b, shop, "hidden", uri, false)
	id := insert(t, b, Alert{RequestID: "hidden", DomainID: &shop, RuleID: 100, Action: blocked, URI: uri, ClientIP: "192.0.2.7", Data: []Datum{{Variable: "ARGS_GET", Key: "debug"}}, Deciding: true})
	var p Proposal
	b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+id.String()+"/propose", nil).Want(t, 200).Into(t, &p)
	if p.Replay == nil || p.Replay.After.Refused || !slices.ContainsFunc(p.Exclusions, func(x domain.Exclusion) bool { return x.RuleID == 942100 && x.Parameter == "q" }) {
		t.Errorf("%+v, %+v", p.Exclusions, p.Replay)
	}

	// A rule that matches everywhere is excluded as a whole, and the proposal says so.
	uri = "/list?x=1"
	for n := range mostParameters + 1 {
		uri += fmt.Sprintf("&p%d=1%%27+or+%%271%%27%%3D%%271", n)
	}
	_, ids := raise(t, b, shop, "wide", uri)
	b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+ids[0].String()+"/propose", nil).Want(t, 200).Into(t, &p)
	if p.Replay.After.Refused || !slices.Contains(p.Exclusions, domain.Exclusion{RuleID: 942100, Path: "/list", Exact: true}) || !strings.Contains(strings.Join(p.Notes, " "), "Rule 942100 matched more than 10 parameters") {
		t.Errorf("%+v, %q", p, p.Notes)
	}
}

// An exclusion for a header or a cookie is attacked there.
func TestAttacksGoWhereTheExclusionIs(t *testing.T) {
	for variable, header := range map[string]string{"REQUEST_HEADERS": "referer", "REQUEST_COOKIES": "cookie"} {
		at := domain.Exclusion{Path: "/", Variable: variable, Parameter: "referer"}
		for _, x := range attacks {
			if x.in == inPath {
				continue
			}
			if !slices.ContainsFunc(x.requests(at), func(q *engine.Request) bool {
				return slices.ContainsFunc(q.Header, func(f engine.Field) bool { return f.Name == header && strings.Contains(f.Value, x.value) })
			}) {
				t.Errorf("%s is not tried in %s", x.name, variable)
			}
		}
	}
}

// When several people tune at the same time, nobody's change is lost.
func TestTuningAtOnce(t *testing.T) {
	_, b, shop, _ := bench(t)
	id := falseAlarm(t, b, shop, "false", search, Datum{Variable: "ARGS", Key: "q"})
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+id.String()+"/exclude", body{"exclusions": []body{{"rule_id": 942100, "path": fmt.Sprintf("/%d", n)}}}).Want(t, 200)
		})
	}
	all.Wait()
	var c Config
	if b.Get(t, at(shop)).Into(t, &c); len(c.Exclusions) != 8 {
		t.Errorf("%+v", c.Exclusions)
	}
}

func must(s *engine.Set, err error) *engine.Set {
	if err != nil {
		panic(err)
	}
	return s
}

func builtSoFar(t *testing.T) uint64 {
	t.Helper()
	return must(set()).Builds()
}

func TestProposalsSayWhatTheyCannotShow(t *testing.T) {
	_, b, shop, _ := bench(t)
	propose := func(id uuid.UUID) (p Proposal) {
		t.Helper()
		b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+id.String()+"/propose", nil).Want(t, 200).Into(t, &p)
		return p
	}
	noted := func(p Proposal, part string) {
		t.Helper()
		if !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, part) }) {
			t.Errorf("no %q in %q", part, p.Notes)
		}
	}
	p := propose(falseAlarm(t, b, shop, "unclear", "/a/../b?q=x", Datum{Variable: "REQUEST_URI", Value: "x"}))
	noted(p, "different ways")
	noted(p, "hold for the whole site")
	noted(p, "not a parameter")
	noted(p, "was not stored")
	if len(p.Exclusions) != 1 || p.Exclusions[0] != (domain.Exclusion{RuleID: 942100}) || p.Replay != nil {
		t.Errorf("%+v", p)
	}
	keep(t, b, shop, "secret", "/login?password=%5Bmasked%5D", true)
	p = propose(falseAlarm(t, b, shop, "secret", "/login?password=%5Bmasked%5D", Datum{Variable: "ARGS", Key: "password", Value: "***", Masked: true}))
	noted(p, "masked")
	if p.Exclusions[0] != (domain.Exclusion{RuleID: 942100, Path: "/login", Exact: true, Variable: "ARGS", Parameter: "password"}) || p.Replay == nil || p.Replay.Before.Refused {
		t.Errorf("%+v", p)
	}

	for _, rule := range []int{0, 200002, 949110} {
		id := insert(t, b, Alert{RequestID: strconv.Itoa(rule), DomainID: &shop, RuleID: rule, Action: blocked, URI: "/", ClientIP: "192.0.2.7"})
		b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+id.String()+"/propose", nil).Want(t, 409)
	}
	gone := uuid.New()
	id := insert(t, b, Alert{RequestID: "x", DomainID: &gone, RuleID: 942100, Action: blocked, URI: "/", ClientIP: "192.0.2.7"})
	b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+id.String()+"/propose", nil).Want(t, 409)
	b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+uuid.NewString()+"/propose", nil).Want(t, 404)

	id = falseAlarm(t, b, shop, "false", search, Datum{Variable: "ARGS", Key: "q"})
	for _, bad := range []any{[]body{}, []body{{"rule_id": 942999}}, []body{{"rule_id": 942100, "path": "x"}}, []body{{"rule_id": 942100, "exact": true}}, "x"} {
		b.Do(t, "admin", http.MethodPost, "/waf/alerts/"+id.String()+"/exclude", body{"exclusions": bad}).WantField(t, "exclusions")
	}
	if n := b.Rows(t, "waf_configs"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestForecast(t *testing.T) {
	_, b, shop, blog := bench(t)
	b.Do(t, "admin", http.MethodPut, at(shop), body{"enabled": true}).Want(t, 200)
	forecast := func(domain uuid.UUID, query string) (f Forecast) {
		t.Helper()
		b.Do(t, "viewer", http.MethodGet, at(domain)+"/forecast"+query, nil).Want(t, 200).Into(t, &f)
		return f
	}
	if f := forecast(shop, ""); !f.Quiet || f.Requests != 0 || f.Since == nil || f.Days != 7 {
		t.Errorf("%+v", f)
	}
	if f := forecast(blog, ""); !f.Quiet || f.Since != nil {
		t.Errorf("%+v", f)
	}
	// Nothing is found while it is off.
	since := forecast(shop, "").Since
	b.Do(t, "admin", http.MethodPut, at(shop), body{"paranoia_level": 2}).Want(t, 200)
	if f := forecast(shop, ""); f.Since == nil || !f.Since.Equal(*since) {
		t.Errorf("%+v", f)
	}
	b.Do(t, "admin", http.MethodPut, at(shop), body{"enabled": false}).Want(t, 200)
	if f := forecast(shop, ""); f.Since != nil {
		t.Errorf("%+v", f)
	}
	b.Do(t, "admin", http.MethodPut, at(shop), body{"enabled": true}).Want(t, 200)
	if f := forecast(shop, ""); f.Since == nil || !f.Since.After(*since) {
		t.Errorf("%+v", f)
	}
	add := func(days int, request, client string, rule, score int) {
		t.Helper()
		insert(t, b, Alert{CreatedAt: time.Now().AddDate(0, 0, -days), RequestID: request, DomainID: &shop, RuleID: rule, Action: detected, ClientIP: client, Score: score, Message: "m"})
	}
	add(10, "r1", "192.0.2.1", 942100, 5)
	add(1, "r2", "192.0.2.1", 920350, 3) // too little to be blocked
	if f := forecast(shop, "?days=30"); !f.Quiet || f.Requests != 1 {
		t.Errorf("%+v", f)
	}
	add(1, "r3", "192.0.2.1", 942100, 10)
	add(1, "r3", "192.0.2.1", 941100, 10)
	add(2, "r4", "192.0.2.2", 942100, 5)
	if f := forecast(shop, ""); f.Quiet || f.Requests != 2 || f.Clients != 2 || len(f.Rules) != 2 || f.Rules[0].RuleID != 942100 || f.Rules[0].Requests != 2 || f.Rules[0].Clients != 2 {
		t.Errorf("%+v", f)
	}
	b.Get(t, at(shop)+"/forecast?days=31").WantField(t, "days")
	b.Get(t, at(uuid.New())+"/forecast").Want(t, 404)
}
