package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime/multipart"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/corazawaf/coraza/v3/types/variables"

	"edge.internal/gateway/internal/waf/mask"
	"edge.internal/gateway/internal/waf/seclang"
)

// standard is the set for tests that do not count its builds.
var standard = sync.OnceValues(New)

func set(t *testing.T) *Set {
	t.Helper()
	s, err := standard()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var blocking = Settings{Blocking: true, Paranoia: 1}

const (
	attack  = "1' or '1'='1"
	encoded = "1%27+or+%271%27%3D%271"
)

func request(method, uri, kind, body string) *Request {
	r := &Request{
		ID: "0001", Source: netip.MustParseAddrPort("192.0.2.7:40000"), Destination: netip.MustParseAddrPort("192.0.2.1:443"),
		Method: method, URI: uri, Version: "1.1", Complete: true,
		Header: []Field{{"host", "www.example.com"}, {"user-agent", "Mozilla/5.0"}, {"accept", "*/*"}},
	}
	if kind != "" {
		r.Body = []byte(body)
		r.Header = append(r.Header, Field{"content-type", kind}, Field{"content-length", strconv.Itoa(len(body))})
	}
	return r
}

func get(uri string) *Request { return request("GET", uri, "", "") }

func post(kind, body string) *Request { return request("POST", "/post", kind, body) }

const form, jsonType = "application/x-www-form-urlencoded", "application/json"

func inspect(t *testing.T, s *Set, r *Request, with Settings) Verdict {
	t.Helper()
	v, err := s.Inspect(t.Context(), r, with)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func ids(v Verdict) []int {
	var all []int
	for _, m := range v.Matches {
		all = append(all, m.Rule)
	}
	return all
}

// WF-02: detection finds what blocking blocks, and blocks nothing. Rules that only sum up the findings of others make no record.
func TestVerdict(t *testing.T) {
	s := set(t)
	detection := Settings{Paranoia: 1}
	if v := inspect(t, s, get("/shop?q=green+tea&page=2"), blocking); v.Deny || v.Rule != 0 || v.Score != 0 || len(v.Matches) != 0 {
		t.Errorf("clean: %+v", v)
	}
	for _, r := range []*Request{get("/?id=" + encoded), post(form, "a=1&id="+encoded), post(jsonType, `{"user":{"id":"`+attack+`"}}`)} {
		v := inspect(t, s, r, blocking)
		if !v.Deny || v.Rule != 949110 || v.Score < 5 || !slices.Contains(ids(v), 942100) || slices.Contains(ids(v), 949110) {
			t.Errorf("%s %s: %+v", r.URI, r.Body, v)
		}
		d := inspect(t, s, r, detection)
		if d.Deny || d.Rule != v.Rule || d.Score != v.Score || !slices.Equal(ids(d), ids(v)) {
			t.Errorf("detection, %s %s: %+v", r.URI, r.Body, d)
		}
	}
	m := inspect(t, s, get("/?id="+encoded), blocking).Matches[0]
	m.Tags = nil
	if !reflect.DeepEqual(m, Match{Rule: 942100, Message: "SQL Injection Attack Detected via libinjection", Severity: "critical", Paranoia: 1,
		Data: []Datum{{Variable: "ARGS", Key: "id", Value: attack}}, Deciding: true}) {
		t.Errorf("%+v", m)
	}
	if _, err := s.Inspect(t.Context(), get("/"), Settings{Paranoia: 5}); err == nil {
		t.Error("level 5")
	}
}

// Arguments beyond a thousand, which Coraza ignores, must not pass uninspected: the settings that come with the rule set do not ensure
// that.
func TestManyArguments(t *testing.T) {
	var query, object strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&query, "a%d=1&", i)
		fmt.Fprintf(&object, `"a%d":"1",`, i)
	}
	s := set(t)
	for name, c := range map[string]struct {
		*Request
		rule int
	}{
		"query": {get("/?" + query.String() + "id=" + encoded), 200004},
		"form":  {post(form, query.String()+"id="+encoded), 200005},
		"json":  {post(jsonType, "{"+object.String()+`"id":"`+attack+`"}`), 200005},
	} {
		v := inspect(t, s, c.Request, blocking)
		if !v.Deny || v.Rule != c.rule || len(v.Matches) != 1 || v.Matches[0].Rule != c.rule || v.Matches[0].Message == "" {
			t.Errorf("%s: %+v", name, v)
		}
		if v := inspect(t, s, c.Request, Settings{Paranoia: 1}); v.Deny || v.Rule != c.rule {
			t.Errorf("detection, %s: %+v", name, v)
		}
	}
}

func TestSettingsAreCorazas(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/corazawaf/coraza/v3").Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "coraza.conf-recommended"))
	if err != nil {
		t.Fatal(err)
	}
	if string(theirs) != recommended {
		t.Error("coraza.conf is not the coraza.conf-recommended of the Coraza in go.mod")
	}
}

func TestParanoia(t *testing.T) {
	s := set(t)
	// 942130 (a tautology) is active from level 2.
	r := get("/?q=foo%27%3D%27foo")
	for level := 1; level <= 4; level++ {
		for _, block := range []bool{true, false} {
			v := inspect(t, s, r, Settings{Blocking: block, Paranoia: level})
			if slices.Contains(ids(v), 942130) != (level >= 2) {
				t.Errorf("level %d: %v", level, ids(v))
			}
			if v.Deny != (block && v.Score >= 5) || level >= 2 && v.Score < 5 {
				t.Errorf("level %d: %+v", level, v)
			}
			for _, m := range v.Matches {
				if m.Paranoia > level {
					t.Errorf("level %d: %+v", level, m)
				}
			}
		}
	}
}

func exclusion(t *testing.T, rule int, path, variable, parameter string) Exclusion {
	t.Helper()
	x, err := NewExclusion(rule, path, variable, parameter)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestExclusions(t *testing.T) {
	s := set(t)
	for _, c := range []struct {
		Request *Request
		x       Exclusion
		deny    bool
	}{
		{get("/search?q=" + encoded), exclusion(t, 942100, "", "ARGS", "q"), false},
		{get("/search?Q=" + encoded), exclusion(t, 942100, "", "ARGS", "q"), false},
		{get("/search?q=" + encoded), exclusion(t, 942100, "/", "ARGS_GET", "q"), false},
		{post(form, "q="+encoded), exclusion(t, 942100, "/post", "ARGS", "q"), false},
		{post(jsonType, `{"q":"`+attack+`"}`), exclusion(t, 942100, "/post", "ARGS", "json.q"), false},
		{get("/search?q=" + encoded), exclusion(t, 942100, "/search", "", ""), false},
		{get("/search/all?q=" + encoded), exclusion(t, 942100, "/search", "", ""), false},
		{get("/search/?q=" + encoded), exclusion(t, 942100, "/search/", "", ""), false},
		{get("http://www.example.com/search?q=" + encoded), exclusion(t, 942100, "/search", "", ""), false},
		{get("/se%61rch?q=" + encoded), exclusion(t, 942100, "/search", "", ""), false},
		{get("/search?q=" + encoded), exclusion(t, 942100, "/search", "", "").Exactly(), false},
		{get("/?q=" + encoded), exclusion(t, 942100, "/", "ARGS", "q").Exactly(), false},
		{get("/search/all?q=" + encoded), exclusion(t, 942100, "/search", "", "").Exactly(), true},
		{get("/search?q=" + encoded), exclusion(t, 942100, "/", "ARGS", "q").Exactly(), true},
		// another parameter, path or rule
		{get("/search?q=1&id=" + encoded), exclusion(t, 942100, "", "ARGS", "q"), true},
		{get("/search?q=" + encoded + "&id=" + encoded), exclusion(t, 942100, "", "ARGS", "q"), true},
		{get("/search?q=" + encoded), exclusion(t, 942100, "", "REQUEST_HEADERS", "q"), true},
		{get("/searching?q=" + encoded), exclusion(t, 942100, "/search", "", ""), true},
		{get("/?q=" + encoded), exclusion(t, 942100, "/search", "", ""), true},
		{get("/search?q=" + encoded), exclusion(t, 942190, "/search", "", ""), true},
		// paths that a server may read differently
		{get("/search/../admin?q=" + encoded), exclusion(t, 942100, "/search", "", ""), true},
		{get("/search/%2e%2e/admin?q=" + encoded), exclusion(t, 942100, "/search", "", ""), true},
		{get("/search/%252e%252e/admin?q=" + encoded), exclusion(t, 942100, "/search", "", ""), true},
		{get("/search/..%2fadmin?q=" + encoded), exclusion(t, 942100, "/search", "", ""), true},
		{get("/search/..;/admin?q=" + encoded), exclusion(t, 942100, "/search", "", ""), true},
		{get("/search%5c..%5cadmin?q=" + encoded), exclusion(t, 942100, "/search", "", ""), true},
		{get("/search//?q=" + encoded), exclusion(t, 942100, "/search", "", ""), true},
	} {
		with := blocking
		with.Exclusions = []Exclusion{c.x}
		if v := inspect(t, s, c.Request, with); v.Deny != c.deny {
			t.Errorf("%s %s with %+v: %+v", c.Request.URI, c.Request.Body, c.x, v)
		}
	}
	for _, rule := range []int{200002, 200004, 190001, 901120, 949110, 959100, 980170, 0, -1} {
		if _, err := NewExclusion(rule, "", "", ""); err == nil {
			t.Errorf("rule %d can be left out", rule)
		}
	}
	for _, c := range [][3]string{{"x", "", ""}, {"/a/../b", "", ""}, {"/a%2f", "", ""}, {"", "ENV", "x"}, {"", "ARGS", ""}, {"", "", "x"}, {"", "NONE", "x"}} {
		if x, err := NewExclusion(942100, c[0], c[1], c[2]); err == nil {
			t.Errorf("%q: %+v", c, x)
		}
	}
}

// No rule's list of exceptions has spare capacity, or the exclusions of one request would apply to another. Without the second build, the
// list of 920274 has some.
func TestExclusionsAreKeptApart(t *testing.T) {
	s := set(t)
	if fill, err := slack(s.plain.Load().waf); fill != "" || err != nil {
		t.Error(fill, err)
	}
	c := custom(t, s, "SecRuleUpdateTargetById 942100 \"!ARGS:a|!ARGS:b|!ARGS:c\"\n"+
		`SecRule ARGS "@rx x" "id:1,phase:2,deny,chain"`+"\n"+`SecRule ARGS|!ARGS:a|!ARGS:b|!ARGS:c "@rx y" "t:none"`)
	defer c.Close()
	if fill, err := slack(c.engine.waf); fill != "" || err != nil {
		t.Error(fill, err)
	}
	with := Settings{Blocking: true, Paranoia: 1, Custom: c}
	for _, name := range []string{"a", "b", "c"} {
		if v := inspect(t, s, get("/?"+name+"="+encoded), with); v.Deny {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := inspect(t, s, get("/?d="+encoded), with); !v.Deny {
		t.Errorf("d: %+v", v)
	}
	var all sync.WaitGroup
	for i := range 8 {
		name := "p" + strconv.Itoa(i)
		with := with
		with.Exclusions = []Exclusion{exclusion(t, 942100, "", "ARGS", name)}
		all.Go(func() {
			for range 20 {
				mine, err := s.Inspect(context.Background(), get("/?"+name+"="+encoded), with)
				other, err2 := s.Inspect(context.Background(), get("/?other="+encoded), with)
				if err != nil || err2 != nil || mine.Deny || !other.Deny {
					t.Errorf("%s: %+v %v, %+v %v", name, mine, err, other, err2)
				}
			}
		})
	}
	all.Wait()
}

func custom(t *testing.T, s *Set, text string) *Custom {
	t.Helper()
	rules, err := seclang.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Custom(rules)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCustom(t *testing.T) {
	s := set(t)
	builds, engines := s.Builds(), s.Engines()
	const text = "SecRule REQUEST_URI \"@beginsWith /forbidden\" \"id:7,phase:1,block,msg:'not here'\"\nSecRule REQUEST_URI \"@beginsWith /open\" \"id:8,phase:1,pass,nolog,ctl:ruleRemoveById=942100\"\n" +
		"SecRule REQUEST_URI \"@beginsWith /seen\" \"id:9,phase:1,pass,msg:'seen'\"\nSecRuleRemoveById 941100-941199"
	a := custom(t, s, text)
	built := s.Builds()
	b := custom(t, s, "# the same\n"+strings.ReplaceAll(text, "block,", "deny, "))
	if built == builds || s.Builds() != built || s.Engines() != engines+1 || a.engine != b.engine {
		t.Errorf("%d, %d, then %d builds; %d, then %d engines", builds, built, s.Builds(), engines, s.Engines())
	}
	with := Settings{Blocking: true, Paranoia: 1, Custom: a}
	v := inspect(t, s, get("/forbidden/x"), with)
	if !v.Deny || v.Rule != 7 || len(v.Matches) != 1 || v.Matches[0].Rule != 7 || v.Matches[0].Message != "not here" {
		t.Errorf("%+v", v)
	}
	if v := inspect(t, s, get("/forbidden/x"), Settings{Paranoia: 1, Custom: a}); v.Deny || v.Rule != 7 {
		t.Errorf("detection: %+v", v)
	}
	if v := inspect(t, s, get("/forbidden/x"), blocking); v.Deny {
		t.Errorf("without the rules: %+v", v)
	}
	// WF-02: a rule below 910000 that decides nothing makes no record.
	if v := inspect(t, s, get("/seen"), with); v.Deny || len(v.Matches) > 0 {
		t.Errorf("seen: %+v", v)
	}
	if v := inspect(t, s, get("/open?id="+encoded), with); v.Deny {
		t.Errorf("tuned: %+v", v)
	}
	if v := inspect(t, s, get("/closed?id="+encoded), with); !v.Deny {
		t.Errorf("not tuned: %+v", v)
	}
	if err := errors.Join(a.Close(), a.Close()); err != nil || s.Engines() != engines+1 {
		t.Errorf("%v, %d engines after one of two users left", err, s.Engines())
	}
	if err := b.Close(); err != nil || s.Engines() != engines {
		t.Errorf("%v, %d engines after both left", err, s.Engines())
	}

	rules, err := seclang.Compile("\nSecRuleRemoveById 942109")
	if err != nil {
		t.Fatal(err)
	}
	var complaint *seclang.Error
	if _, err := s.Custom(rules); !errors.As(err, &complaint) || err.Error() != "line 2: the core rule set has no rule 942109" || s.Engines() != engines {
		t.Errorf("%v, %d engines", err, s.Engines())
	}
}

// One engine per text, however many domains request it at once.
func TestCustomAtOnce(t *testing.T) {
	s := set(t)
	rules, err := seclang.Compile(`SecRule REQUEST_URI "@beginsWith /at-once" "id:9,phase:1,deny"`)
	if err != nil {
		t.Fatal(err)
	}
	builds, engines := s.Builds(), s.Engines()
	all := make([]*Custom, 16)
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() {
			c, err := s.Custom(rules)
			if err != nil {
				t.Error(err)
			}
			all[i] = c
		})
	}
	wait.Wait()
	// Like any engine of this rule set, it takes two builds.
	if s.Builds() != builds+2 || s.Engines() != engines+1 {
		t.Errorf("%d builds, %d engines", s.Builds()-builds, s.Engines()-engines)
	}
	for _, c := range all {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if s.Engines() != engines {
		t.Error(s.Engines())
	}
}

func TestPartialBody(t *testing.T) {
	s := set(t)
	padding := strings.Repeat("x", 4000)
	var file bytes.Buffer
	w := multipart.NewWriter(&file)
	for _, part := range []string{"a", "b"} {
		if err := w.WriteField(part, padding); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		kind, body string
		deny       bool
	}{
		{form, "a=1&b=" + padding, false},
		{form, "a=" + encoded + "&b=" + padding, true},
		{form, "b=" + padding + "&a=" + encoded, false}, // beyond what is inspected
		{jsonType, `{"a":"1","b":"` + padding + `"}`, false},
		{jsonType, `{"a":["` + attack + `"],"b":"` + padding + `"}`, true},
		{jsonType, `{"b":{"c":["` + attack + padding + `"]}}`, true},
		{"text/xml", `<a><b>` + padding + `</b></a>`, false},
		{"text/xml", `<a><b>` + attack + `</b><c>` + padding + `</c></a>`, true},
		{w.FormDataContentType(), file.String(), false},
		{w.FormDataContentType(), strings.Replace(file.String(), padding, attack, 1), true},
	} {
		r := post(c.kind, c.body)
		with := blocking
		with.MaxBody = 1000
		if v := inspect(t, s, r, with); !v.Partial || v.Deny != c.deny {
			t.Errorf("%s %.60s: %+v", c.kind, c.body, v)
		}
		// The same beginning, cut before it got here.
		r.Body, r.Complete = r.Body[:1000], false
		if v := inspect(t, s, r, blocking); !v.Partial || v.Deny != c.deny {
			t.Errorf("incomplete, %s %.60s: %+v", c.kind, c.body, v)
		}
		// A complete body that ends there is broken, unless it is a form.
		if r.Complete = true; c.kind == jsonType || c.kind == w.FormDataContentType() {
			if v := inspect(t, s, r, blocking); v.Partial || !v.Deny {
				t.Errorf("broken, %s %.60s: %+v", c.kind, c.body, v)
			}
		}
	}
	with := blocking
	with.MaxBody = 100_000
	if v := inspect(t, s, post(form, "b="+padding+"&a="+encoded), with); v.Partial || !v.Deny {
		t.Errorf("%+v", v)
	}
}

func TestDeadline(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if v, err := set(t).Inspect(ctx, get("/?id="+encoded), blocking); !errors.Is(err, context.Canceled) || v.Deny {
		t.Error(v, err)
	}
	// It ends while the body is inspected.
	late := &after{Context: t.Context(), asks: 2}
	if v, err := set(t).Inspect(late, get("/?id="+encoded), blocking); !errors.Is(err, context.DeadlineExceeded) || v.Deny || v.Matches != nil {
		t.Error(v, err)
	}
}

// after is a context that ends after a number of checks.
type after struct {
	context.Context
	asks int
}

func (a *after) Err() error {
	if a.asks--; a.asks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

func TestMask(t *testing.T) {
	long := strings.Repeat("é", 300)
	for _, c := range []struct {
		variable   variables.RuleVariable
		key, value string
		want       string
	}{
		{variables.Args, "q", attack, attack},
		{variables.Args, "password", "hunter2", "***"},
		{variables.Args, "json.user.newPassword", "hunter2", "***"},
		{variables.ArgsPost, "csrf_token", "hunter2", "***"},
		{variables.RequestHeaders, "authorization", "Basic aHVudGVyMg==", "***"},
		{variables.RequestHeaders, "proxy-authorization", "hunter2", "***"},
		{variables.RequestHeaders, "cookie", "id=hunter2", "***"},
		{variables.RequestHeaders, "x-api-key", "hunter2", "***"},
		{variables.RequestCookies, "id", "hunter2", "***"},
		{variables.RequestCookiesNames, "sessionid", "sessionid", "sessionid"},
		{variables.ArgsNames, "password", "password", "password"},
		{variables.XML, "/*", "hunter2", "***"},
		{variables.RequestURI, "", "/a?b=1&password=hunter2&c=2", "/a?b=1&password=***"},
		{variables.RequestBody, "", `{"user":"a","password":"hunter2","b":1}`, `{"user":"a","password":***`},
		{variables.RequestBody, "", `{'api_key' : 'hunter2'}`, `{'api_key' : ***`},
		{variables.RequestBody, "", `<user>a</user><password>hunter2</password>`, `<user>a</user><password>***`},
		{variables.RequestHeaders, "referer", "https://a:hunter2@example.com/?token=hunter2", "https://a:***"},
		{variables.RequestHeaders, "referer", "https://example.com:8443/?a=b@c", "https://example.com:8443/?a=b@c"},
		{variables.Args, "q", "Authorization: Bearer hunter2", "Authorization: ***"},
		{variables.Args, "q", "curl -H 'x: bearer hunter2'", "curl -H 'x: bearer ***"},
		{variables.Args, "q", "4111111111111111", "****************"},
		{variables.Args, "q", "pay 4111 1111-1111 1111 now", "pay **** ****-**** **** now"},
		{variables.Args, "q", "4111 1111 1111 1111 2028", "**** **** **** **** 2028"},
		{variables.Args, "q", "4111111111111112", "4111111111111112"},
		{variables.Args, "q", "1234567890", "1234567890"},
		{variables.Args, "q", "0000000000000000", "0000000000000000"},
		{variables.Args, "otp", "482913", "***"},
		{variables.Args, "q", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.dozjgNry", "********************.********.********"},
		{variables.RequestFilename, "", "/reset/Zk3vQ9xT7/../etc", "/reset/***"},
		{variables.RequestURI, "", "/a?b=1", "/a?b=1"},
		{variables.RequestLine, "", "GET /invite/Zk3vQ9xT7?a=b HTTP/1.1", "GET /invite/***"},
		{variables.Args, "q", long, long[:200]},
		{variables.Args, "q", strings.Repeat("x", 195) + "4111111111111111", strings.Repeat("x", 195) + "*****"},
		{variables.Args, "q", strings.Repeat("x", 190) + "&password=hunter2", strings.Repeat("x", 190) + "&password="},
		{variables.Args, "q", "a\x00b\xffc\n", "a\ufffdb\ufffdc\n"},
		{variables.Args, "q", strings.Repeat("\xff", 300), strings.Repeat("\ufffd", 66)},
	} {
		got, masked := hide(c.variable, c.key, c.value)
		if got != c.want || !masked && strings.Contains(got, "*") {
			t.Errorf("%s:%s %q: %q, %v; want %q", c.variable.Name(), c.key, c.value, got, masked, c.want)
		}
		if len(got) > maxText || !utf8.ValidString(got) {
			t.Errorf("%q: %d bytes", c.value, len(got))
		}
	}
}

// However a secret is sent with an attack, it is in no record.
func TestNoSecretIsKept(t *testing.T) {
	s := set(t)
	const secret = "hunter2"
	payload := "1%27+or+%271%27%3D%271+--" + secret
	plain := "1' or '1'='1 --" + secret
	withHeader := func(name string) *Request {
		r := get("/")
		r.Header = append(r.Header, Field{name, plain})
		return r
	}
	cookie := get("/")
	cookie.Header = append(cookie.Header, Field{"cookie", "id=" + strings.ReplaceAll(plain, " ", "+") + "; b=1"})
	for name, r := range map[string]*Request{
		"query": get("/?password=" + payload), "name": get("/login;password=" + secret + "/..%2f..%2fetc/passwd?password=" + payload),
		"form": post(form, "user=a&password="+payload), "json": post(jsonType, `{"auth":{"password":"`+plain+`"}}`),
		"xml":  post("text/xml", "<login><password>"+plain+"</password></login>"),
		"text": post("text/plain", "password="+plain), "cookie": cookie,
		"json as a form":                    post(form, `{"user":"a","password":"`+secret+`","q":"x' union select a from b--"}`),
		"json as a form with an equal sign": post(form, `{"user":"a","password":"`+secret+`","q":"1' or '1'='1"}`),
		"json as a query":                   get("/x?" + url.PathEscape(`{"token":"`+secret+`","q":"x' union select a from b--"}`)),
		"authorization":                     withHeader("authorization"), "key": withHeader("x-api-key"),
	} {
		found := 0
		for level := 1; level <= 4; level += 3 {
			v := inspect(t, s, r, Settings{Paranoia: level})
			found += len(v.Matches)
			if kept := fmt.Sprintf("%+v", v); strings.Contains(kept, secret) {
				t.Errorf("%s, level %d: %s", name, level, kept)
			}
		}
		if found == 0 {
			t.Errorf("%s: no rule matches", name)
		}
	}
}

func TestRecordsAreBounded(t *testing.T) {
	var query strings.Builder
	for i := range 60 {
		fmt.Fprintf(&query, "%s%d=%s&", strings.Repeat("n", 300), i, encoded+strings.Repeat("x", 300))
	}
	r := post(form, query.String())
	v := inspect(t, set(t), r, Settings{Paranoia: 4})
	if len(v.Matches) == 0 || len(v.Matches) > maxMatches {
		t.Error(len(v.Matches))
	}
	for _, m := range v.Matches {
		if len(m.Data) > maxData || len(m.Message) > maxText {
			t.Errorf("%+v", m)
		}
		for _, d := range m.Data {
			if len(d.Key) > maxText || len(d.Value) > maxText {
				t.Errorf("%+v", d)
			}
		}
	}
}

// An inspection leaves no file behind.
func TestLeavesNoFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	f, err := w.CreateFormFile("file", "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, strings.Repeat("contents ", 30_000))
	w.Close()
	// The body is read, but no rule of the core rule set looks at it.
	c := custom(t, s, `SecAction "id:1,phase:2,deny"`)
	defer c.Close()
	for _, r := range []*Request{post(w.FormDataContentType(), body.String()), post(form, "a="+strings.Repeat("x", 300_000))} {
		if v := inspect(t, s, r, Settings{Blocking: true, Paranoia: 1, Custom: c}); v.Rule != 1 || v.Partial {
			t.Errorf("%+v", v)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 0 {
			t.Error(left, err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add("q", attack)
	f.Add("password", "hunter2")
	f.Add("q", "a=b; token: x 4111 1111-1111 1111 \xff\x00 https://u:p@h/")
	f.Fuzz(func(t *testing.T, key, value string) {
		got, masked := hide(variables.Args, key, value)
		if len(got) > maxText || !utf8.ValidString(got) || strings.Contains(got, "\x00") || !masked && mask.Secret(key) {
			t.Errorf("%q, %q: %q, %v", key, value, got, masked)
		}
		if got, _ := hideText(key); len(got) > maxText || !utf8.ValidString(got) {
			t.Errorf("%q: %q", key, got)
		}
	})
}

// FuzzFinish checks that completing the beginning of a JSON text keeps all of it, except half an escape.
func FuzzFinish(f *testing.F) {
	f.Add([]byte(`{"a":["b\\`))
	f.Add([]byte(`]}"`))
	f.Fuzz(func(t *testing.T, body []byte) {
		whole := finish(body, []Field{{"Content-Type", "application/json"}})
		if !bytes.HasPrefix(whole, bytes.TrimSuffix(body, []byte(`\`))) || len(whole) > 2*len(body)+1 {
			t.Errorf("%q: %q", body, whole)
		}
	})
}

func BenchmarkInspect(b *testing.B) {
	s, err := standard()
	if err != nil {
		b.Fatal(err)
	}
	for name, r := range map[string]*Request{
		"get":  get("/shop/items?q=green+tea&page=2"),
		"json": post(jsonType, `{"user":{"name":"Ada","roles":["admin","editor"]},"items":[{"id":1,"count":2},{"id":2,"count":3}]}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if v, err := s.Inspect(b.Context(), r, blocking); err != nil || v.Deny {
					b.Fatal(v, err)
				}
			}
		})
	}
}
