package engine

import (
	"encoding/binary"
	"io/fs"
	"maps"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3/types/variables"

	"edge.internal/gateway/internal/waf/seclang"
)

func TestWhatMatchedNothingIsKnown(t *testing.T) {
	s := set(t)
	for name, r := range map[string]*Request{
		"a page": get("/known?a=1"), "a form": post(form, "known=1&b=2"), "JSON": post(jsonType, `{"known": 1}`),
	} {
		if s.Known(r, blocking) {
			t.Errorf("%s is known before it came", name)
		}
		if v := inspect(t, s, r, blocking); !spotless(&v) {
			t.Fatalf("%s: %+v", name, v)
		}
		again := *r
		again.ID, again.Domain, again.Source, again.Destination = "0002", "other", netip.MustParseAddrPort("198.51.100.9:1"), netip.MustParseAddrPort("[2001:db8::1]:8443")
		if !s.Known(r, blocking) || !s.Known(&again, blocking) {
			t.Errorf("%s is not known", name)
		}
		if v := inspect(t, s, &again, blocking); !reflect.DeepEqual(v, Verdict{}) {
			t.Errorf("%s, asked again: %+v", name, v)
		}
	}
	cut := get("/known?a=1")
	cut.Complete = false
	long := post(form, "known=1&b=2")
	for name, c := range map[string]struct {
		*Request
		with Settings
	}{
		"an attack":              {get("/?id=" + encoded), blocking},
		"an attack, detected":    {get("/?id=" + encoded), Settings{Paranoia: 1}},
		"not all of a body":      {cut, blocking},
		"more than is looked at": {long, Settings{Blocking: true, Paranoia: 1, MaxBody: 4}},
		"a match that passes":    {&Request{Source: long.Source, Destination: long.Destination, Method: "GET", URI: "/", Version: "1.1", Header: []Field{{"host", "192.0.2.1"}}, Complete: true}, blocking},
	} {
		inspect(t, s, c.Request, c.with)
		if s.Known(c.Request, c.with) {
			t.Errorf("%s is known", name)
		}
	}
}

// Everything that a verdict depends on makes it a different request.
func TestWhatIsKnownIsNothingElse(t *testing.T) {
	e := set(t).plain.Load()
	base := func() (*Request, *Settings) {
		x, err := NewExclusion(942100, "/a", "ARGS", "q")
		if err != nil {
			t.Fatal(err)
		}
		return &Request{
			Source: netip.MustParseAddrPort("192.0.2.7:40000"), Destination: netip.MustParseAddrPort("192.0.2.1:443"), Method: "POST", URI: "/a?b", Version: "1.1", Complete: true,
			Header: []Field{{"host", "ab"}, {"x", ""}}, Body: []byte("body"),
		}, &Settings{Blocking: true, Paranoia: 2, MaxBody: 100, Exclusions: []Exclusion{x}}
	}
	exclusion := func(rule int, path, variable, parameter string) []Exclusion {
		x, err := NewExclusion(rule, path, variable, parameter)
		if err != nil {
			t.Fatal(err)
		}
		return []Exclusion{x}
	}
	seen := map[digest]string{}
	note := func(name string, e *engine, change func(r *Request, with *Settings)) {
		r, with := base()
		change(r, with)
		d, ok := e.digestOf(r, with)
		if !ok {
			t.Errorf("%s: not to be remembered", name)
		}
		if other, taken := seen[d]; taken {
			t.Errorf("%s is taken for %s", name, other)
		}
		seen[d] = name
	}
	for name, change := range map[string]func(r *Request, with *Settings){
		"the request": func(*Request, *Settings) {},
		"method":      func(r *Request, _ *Settings) { r.Method = "PUT" },
		"path alone": func(_ *Request, with *Settings) {
			with.Exclusions = []Exclusion{exclusion(942100, "/a", "ARGS", "q")[0].Exactly()}
		},
		"URI":                   func(r *Request, _ *Settings) { r.URI = "/a?c" },
		"method and URI":        func(r *Request, _ *Settings) { r.Method, r.URI = "POST/", "a?b" },
		"version":               func(r *Request, _ *Settings) { r.Version = "2.0" },
		"a header's name":       func(r *Request, _ *Settings) { r.Header[1].Name = "y" },
		"a header's value":      func(r *Request, _ *Settings) { r.Header[1].Value = "1" },
		"a name's end":          func(r *Request, _ *Settings) { r.Header[0] = Field{"hosta", "b"} },
		"the order of headers":  func(r *Request, _ *Settings) { slices.Reverse(r.Header) },
		"one header less":       func(r *Request, _ *Settings) { r.Header = r.Header[:1] },
		"one header more":       func(r *Request, _ *Settings) { r.Header = append(r.Header, Field{"x", ""}) },
		"body":                  func(r *Request, _ *Settings) { r.Body = []byte("bodY") },
		"no body":               func(r *Request, _ *Settings) { r.Body = nil },
		"the machine itself":    func(r *Request, _ *Settings) { r.Source = netip.MustParseAddrPort("127.0.0.1:40000") },
		"detection":             func(_ *Request, with *Settings) { with.Blocking = false },
		"level":                 func(_ *Request, with *Settings) { with.Paranoia = 3 },
		"how much is inspected": func(_ *Request, with *Settings) { with.MaxBody = 0 },
		"no exclusions":         func(_ *Request, with *Settings) { with.Exclusions = nil },
		"an exclusion's rule":   func(_ *Request, with *Settings) { with.Exclusions = exclusion(942110, "/a", "ARGS", "q") },
		"its path":              func(_ *Request, with *Settings) { with.Exclusions = exclusion(942100, "/b", "ARGS", "q") },
		"its variable":          func(_ *Request, with *Settings) { with.Exclusions = exclusion(942100, "/a", "ARGS_NAMES", "q") },
		"its parameter":         func(_ *Request, with *Settings) { with.Exclusions = exclusion(942100, "/a", "ARGS", "r") },
		"all of its rule":       func(_ *Request, with *Settings) { with.Exclusions = exclusion(942100, "/a", "", "") },
		"two of them":           func(_ *Request, with *Settings) { with.Exclusions = append(with.Exclusions, with.Exclusions[0]) },
	} {
		note(name, e, change)
	}
	other := *e
	other.number++
	note("another engine", &other, func(*Request, *Settings) {})
}

// The rule set makes an exception for the machine's own requests, and for no one else's.
func TestTheMachinesOwnRequestsAreNotOthers(t *testing.T) {
	s := set(t)
	r := get("/")
	r.Header = append(r.Header, Field{"x-known", "() { :;}; echo hello"}, Field{"referer", "http://www.example.com/?id=" + encoded})
	r.Source = netip.MustParseAddrPort("127.0.0.1:1")
	// Whatever the verdict, what is remembered of it is not used for others.
	inspect(t, s, r, blocking)
	r.Source = netip.MustParseAddrPort("192.0.2.7:1")
	if v := inspect(t, s, r, blocking); !v.Deny {
		t.Errorf("%+v", v)
	}
}

func TestCustomRulesThatLookElsewhereAreAskedEachTime(t *testing.T) {
	s := set(t)
	custom := func(text string) Settings {
		rules, err := seclang.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Custom(rules)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return Settings{Blocking: true, Paranoia: 1, Custom: c}
	}
	steady := custom(`SecRule ARGS:custom "@streq x" "id:1,phase:2,deny"`)
	byClient := custom(`SecRule REMOTE_ADDR "@ipMatch 198.51.100.0/24" "id:1,phase:1,deny"`)
	r := get("/custom?custom=y")
	for _, with := range []Settings{steady, byClient} {
		if s.Known(r, with) {
			t.Error("known from the engine without custom rules")
		}
		if v := inspect(t, s, r, with); v.Deny {
			t.Errorf("%+v", v)
		}
	}
	if !s.Known(r, steady) || s.Known(r, byClient) {
		t.Error("the rules that look at the request alone should be the only ones not to be asked again")
	}
	r.Source = netip.MustParseAddrPort("198.51.100.7:1")
	if v := inspect(t, s, r, byClient); !v.Deny {
		t.Error("the client that is not wanted passes")
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	var c clean
	number := func(n int) (d digest) {
		binary.BigEndian.PutUint64(d[:], uint64(n))
		return d
	}
	for n := range 3 * maxClean {
		c.add(number(n))
		c.add(number(n))
		if !c.has(number(0)) { // requested all the time, and so not evicted
			t.Fatalf("forgotten at %d", n)
		}
	}
	if len(c.at) != maxClean || len(c.ring) != maxClean {
		t.Errorf("%d, %d", len(c.at), len(c.ring))
	}
	for d, i := range c.at {
		if c.ring[i].digest != d {
			t.Fatal("what is remembered is not where it should be")
		}
	}
	if !c.has(number(3*maxClean-1)) || c.has(number(1)) {
		t.Error("the newest is forgotten, or the oldest is not")
	}
}

// fromRequest lists the variables whose values come only from what digestOf writes.
var fromRequest = strings.Fields(`
	ARGS ARGS_COMBINED_SIZE ARGS_GET ARGS_GET_NAMES ARGS_NAMES ARGS_POST ARGS_POST_NAMES ARGUMENTS_LIMIT_REACHED FILES FILES_COMBINED_SIZE FILES_NAMES
	MATCHED_VAR MATCHED_VARS MATCHED_VARS_NAMES MATCHED_VAR_NAME MULTIPART_PART_HEADERS MULTIPART_STRICT_ERROR MULTIPART_UNMATCHED_BOUNDARY MULTIPART_NAME MULTIPART_FILENAME
	QUERY_STRING REQBODY_ERROR REQBODY_ERROR_MSG REQBODY_PROCESSOR REQBODY_PROCESSOR_ERROR
	REQUEST_BASENAME REQUEST_BODY REQUEST_BODY_LENGTH REQUEST_COOKIES REQUEST_COOKIES_NAMES REQUEST_FILENAME REQUEST_HEADERS REQUEST_HEADERS_NAMES
	REQUEST_LINE REQUEST_METHOD REQUEST_PROTOCOL REQUEST_URI REQUEST_URI_RAW TX UNKNOWN URI_PARSE_ERROR URLENCODED_ERROR XML`)

// A remembered verdict depends only on its digest. A rule set that uses anything else must not be added without checking digestOf.
func TestTheRuleSetLooksAtTheRequestAlone(t *testing.T) {
	// Exceptions for the machine's own requests, which the digest distinguishes; and sampling of requests by their ids, which needs a
	// setting that is not used.
	want := map[string][]int64{"REMOTE_ADDR": {905100, 905110}, "UNIQUE_ID": {901410}}
	if strings.Contains(settings+recommended, "sampling_percentage") {
		t.Error("the settings ask for samples")
	}
	got := map[string][]int64{}
	rules := reflect.ValueOf(set(t).plain.Load().waf).FieldByName("waf").Elem().FieldByName("Rules").FieldByName("rules")
	looked := 0
	for i := range rules.Len() {
		head := rules.Index(i)
		id, phase := head.FieldByName("ID_").Int(), head.FieldByName("Phase_").Int()
		if phase > 2 {
			continue // of the response, which is not inspected
		}
		for rule := head; ; rule = rule.FieldByName("Chain").Elem() {
			targets := rule.FieldByName("variables")
			for j := range targets.Len() {
				looked++
				name := variables.RuleVariable(targets.Index(j).FieldByName("Variable").Uint()).Name()
				if !slices.Contains(fromRequest, name) && !slices.Contains(got[name], id) {
					got[name] = append(got[name], id)
				}
			}
			if rule.FieldByName("Chain").IsNil() {
				break
			}
		}
	}
	if looked < 1000 || !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("of %d targets, the rules look at %v", looked, got)
	}
	// And what is expanded in texts.
	macro := regexp.MustCompile(`%\{([^}.]+)`)
	err := fs.WalkDir(coreruleset.FS, "@owasp_crs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".conf") {
			return err
		}
		content, err := fs.ReadFile(coreruleset.FS, path)
		for line := range strings.Lines(string(content)) {
			if strings.HasPrefix(strings.TrimSpace(line), "#") || strings.Contains(line, "initcol:ip=%{remote_addr}_%{MATCHED_VAR}") { // a collection that the engine does not have
				continue
			}
			for _, m := range macro.FindAllStringSubmatch(line, -1) {
				if name := strings.ToUpper(m[1]); !slices.Contains(fromRequest, name) && !strings.HasPrefix(name, "RESPONSE_") {
					t.Errorf("%s: %s", path, m[0])
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDigestAllocatesNothing(t *testing.T) {
	s, r := set(t), get("/known?a=1")
	if n := testing.AllocsPerRun(100, func() { s.Known(r, blocking) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
