package engine

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"

	"edge.internal/gateway/internal/waf/rx"
	"edge.internal/gateway/internal/waf/seclang"
)

// The assumptions about transformations hold for all short texts of letters, digits and one of each kind of mark.
func TestTransformations(t *testing.T) {
	alphabet := []string{"a", "F", "0", "-", "_", ".", " ", ",", ":", "/", "@", "+"}
	others := []string{"%41", "&lt;", `\`, `\41`, "\u00e9", "\x00", "*", "\t", "\n", "#", "\"", "'", "^", ";", "(", "<!--", "\u00a0", "\u0130", "\u0131", "\u017f", "\u212a", "\xff"}
	names := map[string]string{"lowerCase": "lowercase", "upperCase": "uppercase", "utf8ToUnicode": "utf8toUnicode"}
	r := rand.New(rand.NewPCG(1, 2))
	var texts []string
	for _, a := range alphabet {
		for _, b := range alphabet {
			for _, c := range alphabet {
				texts = append(texts, a, a+b, a+b+c)
			}
		}
	}
	for range 4000 {
		var b strings.Builder
		for range 1 + r.IntN(8) {
			if r.IntN(3) == 0 {
				b.WriteString(others[r.IntN(len(others))])
			} else {
				b.WriteString(alphabet[r.IntN(len(alphabet))])
			}
		}
		texts = append(texts, b.String())
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	for name, is := range transformations {
		if written := names[name]; written != "" {
			name = written
		}
		waf, err := coraza.NewWAF(coraza.NewWAFConfig().WithDirectives("SecRuleEngine On").
			WithDirectives(fmt.Sprintf(`SecRule ARGS:x "@rx ^(.*)$" "id:1,phase:1,pass,nolog,capture,t:none,t:%s"`, name)))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			tx := waf.NewTransaction().(transaction)
			tx.AddGetRequestArgument("x", text)
			tx.ProcessRequestHeaders()
			seen := tx.Variables().TX().Get("0")
			if err := tx.Close(); err != nil {
				t.Fatal(err)
			}
			if len(seen) != 1 {
				t.Fatalf("%s of %q: %q", name, text, seen)
			}
			v := valueOf(text)
			//nolint:staticcheck // EqualFold knows more pairs than the transformations
			if v.has&is.by == 0 && strings.ToLower(seen[0]) != strings.ToLower(text) && strings.ToUpper(seen[0]) != strings.ToUpper(text) {
				t.Errorf("%s makes %q of %q", name, seen[0], text)
			}
			if v.kind != rx.Other && is.closed && rx.KindOf(seen[0]) > v.kind {
				t.Errorf("%s makes %q of %q", name, seen[0], text)
			}
		}
	}
}

// Words that expressions of the core rule set look for, in places where values are usually harmless: whichever rules are spared, the
// outcome equals that of stock.
func TestWhatIsSparedDoesNotMatch(t *testing.T) {
	if ErrStock != nil {
		t.Fatal(ErrStock)
	}
	s := set(t)
	words := words(t)
	r := rand.New(rand.NewPCG(3, 4))
	marks := []string{"", " ", " ", "-", "_", ".", "/", ":", ",", "@", "(", "'", "=", ";", "..", "--"}
	letters := strings.NewReplacer("i", "\u0130", "I", "\u0131", "k", "\u212a", "S", "\u017f") // whose other case is ASCII
	text := func() string {
		var b strings.Builder
		for range 1 + r.IntN(4) {
			b.WriteString(words[r.IntN(len(words))] + marks[r.IntN(len(marks))])
		}
		if r.IntN(8) == 0 {
			return letters.Replace(b.String())
		}
		return b.String()
	}
	matched, clean := 0, 0
	for i := range 1000 {
		q := get(fmt.Sprintf("/%s?%s=%s&n=%d", url.PathEscape(words[r.IntN(len(words))]), url.QueryEscape(words[r.IntN(len(words))]), url.QueryEscape(text()), i))
		q.Header = append(q.Header, Field{"cookie", words[r.IntN(len(words))] + "=" + strings.ReplaceAll(text(), ";", "")}, Field{"referer", text()})
		kind, content := "", ""
		switch r.IntN(8) {
		case 0:
			kind, content = form, "a="+url.QueryEscape(text())+"&"+url.QueryEscape(text())+"=b"
		case 1:
			kind, content = jsonType, fmt.Sprintf(`{%q: [%q, {"b": %q}]}`, text(), text(), text())
		case 2:
			kind, content = "text/xml", fmt.Sprintf("<a b=%q>%s</a>", text(), text())
		case 3:
			kind = "multipart/form-data; boundary=xyz"
			content = fmt.Sprintf("--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n%s\r\n--xyz\r\nContent-Disposition: form-data; name=\"b\"; filename=\"%s\"\r\n\r\nx\r\n--xyz--\r\n", text(), words[r.IntN(len(words))])
		}
		if kind != "" {
			q.Method, q.Body = "POST", []byte(content)
			q.Header = append(q.Header, Field{"content-type", kind}, Field{"content-length", strconv.Itoa(len(content))})
		}
		with := Settings{Blocking: r.IntN(2) == 0, Paranoia: 1 + r.IntN(4)}
		got, want := inspect(t, s, q, with), inspect(t, Stock, q, with)
		if outcome(got) != outcome(want) {
			t.Errorf("%s %s %v, level %d:\n%+v, and stock\n%+v", q.Method, q.URI, q.Header, with.Paranoia, got, want)
		}
		if matched += len(got.Matches); len(got.Matches) == 0 {
			clean++
		}
	}
	t.Logf("%d rules matched, %d requests were clean", matched, clean)
	if matched < 400 || clean < 100 {
		t.Errorf("%d rules matched, %d requests were clean", matched, clean)
	}
}

// A character whose lower case is an ASCII letter is that letter for rules that use lower case.
func TestLettersBeyondASCII(t *testing.T) {
	s := set(t)
	rules, err := seclang.Compile(`SecRule ARGS "@rx union-all" "id:1,phase:2,deny,t:none,t:lowercase"
SecRule ARGS "@rx KILLS" "id:2,phase:2,deny,t:none,t:uppercase"`)
	if err != nil {
		t.Fatal(err)
	}
	custom, err := s.Custom(rules)
	if err != nil {
		t.Fatal(err)
	}
	defer custom.Close()
	for text, rule := range map[string]int{"union-all": 1, "un\u0130on-all": 1, "kills": 2, "k\u0131ll\u017f": 2, "union-allowance": 1, "onion-all": 0} {
		if v := inspect(t, s, get("/?q="+url.QueryEscape(text)), Settings{Blocking: true, Paranoia: 1, Custom: custom}); v.Rule != rule {
			t.Errorf("%q: %+v", text, v)
		}
	}
}

// Custom rules, including chains, may do what no rule of the core rule set does: fill the arguments during evaluation. The outcome equals
// that of stock.
func TestCustomRulesGiveTheVerdictsOfStock(t *testing.T) {
	if ErrStock != nil {
		t.Fatal(ErrStock)
	}
	s := set(t)
	requests := []*Request{
		get("/users/7"), get("/users/%24%28id%29"), get("/users/7?q=" + encoded), get("/orders/%24%28id%29"), get("/users/" + encoded),
		request("POST", "/users/%24%28id%29", form, "q="+encoded), post(form, "q=plain"), post(jsonType, `{"q":"$(id)"}`),
	}
	for name, text := range map[string]string{
		"one rule":        `SecRule REQUEST_FILENAME "@restpath /users/{id}" "id:10,phase:2,pass,nolog,t:none"`,
		"the second link": "SecRule REQUEST_METHOD \"@streq GET\" \"id:10,phase:2,pass,nolog,chain\"\nSecRule REQUEST_FILENAME \"@restpath /users/{id}\" \"t:none\"",
		"the third link": "SecRule REQUEST_METHOD \"@streq GET\" \"id:10,phase:1,pass,nolog,chain\"\nSecRule REQUEST_FILENAME \"@beginsWith /users\" \"t:none,chain\"\n" +
			"SecRule REQUEST_FILENAME \"@restpath /users/{id}\" \"t:none\"",
		"a chain that denies":        "SecRule REQUEST_FILENAME \"@beginsWith /orders\" \"id:10,phase:2,deny,chain\"\nSecRule REQUEST_FILENAME \"@contains id\" \"t:none\"",
		"a chain that never matches": "SecRule ARGS:none \"@rx ^x$\" \"id:10,phase:2,deny,chain\"\nSecRule REQUEST_FILENAME \"@contains id\" \"t:none\"",
	} {
		rules, err := seclang.Compile(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		own, err := s.Custom(rules)
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		stock, err := Stock.Custom(rules)
		if err != nil {
			t.Fatal(err)
		}
		defer stock.Close()
		denied := 0
		for _, q := range requests {
			for level := 1; level <= 4; level++ {
				got := inspect(t, s, q, Settings{Blocking: true, Paranoia: level, Custom: own})
				want := inspect(t, Stock, q, Settings{Blocking: true, Paranoia: level, Custom: stock})
				if outcome(got) != outcome(want) {
					t.Errorf("%s: %s %s, level %d:\n%+v, and stock\n%+v", name, q.Method, q.URI, level, got, want)
				}
				if want.Deny {
					denied++
				}
			}
		}
		if denied == 0 || denied == 4*len(requests) {
			t.Errorf("%s: stock denies %d of %d", name, denied, 4*len(requests))
		}
	}
}

// fieldsOf returns the names of a struct's fields.
func fieldsOf(t reflect.Type) (names string) {
	for i := range t.NumField() {
		names += " " + t.Field(i).Name
	}
	return names
}

// Coraza's rules have the structure that this package knows. With another version of Coraza, first read what has changed: whether a rule
// that finds nothing still leaves nothing behind, and whether the values that it looks at are still those of its variables.
func TestRulesAreAsKnown(t *testing.T) {
	s := set(t)
	if err := s.Slow(); err != nil {
		t.Fatal(err)
	}
	rule := reflect.ValueOf(s.plain.Load().waf).FieldByName("waf").Elem().FieldByName("Rules").FieldByName("rules").Type().Elem()
	field := func(name string) reflect.Type {
		f, ok := rule.FieldByName(name)
		if !ok {
			t.Fatalf("a rule has no %s", name)
		}
		return f.Type.Elem()
	}
	for what, is := range map[string]string{
		fieldsOf(rule): " RuleMetadata variables operator transformations transformationsID transformationPrefixIDs actions Capture Chain DisruptiveStatus" +
			" Msg LogData Log Audit MultiMatch HasChain inferredPhases chainMinPhase withPhaseUnknownVariable memoizer",
		fieldsOf(field("variables")):       " Count Variable KeyRx KeyStr Exceptions",
		fieldsOf(field("operator")):        " Operator Function Data Negation",
		fieldsOf(field("transformations")): " Function",
		fieldsOf(field("actions")):         " Name Function",
	} {
		if what != is {
			t.Errorf("%s\nand not%s", what, is)
		}
	}
	spared := map[bool]int{}
	for _, x := range s.plain.Load().spares.rules {
		spared[x.places != 0 && x.find != nil]++
	}
	t.Logf("%d rules can be spared by what they look for, %d not", spared[true], spared[false])
	if spared[true] < 200 {
		t.Errorf("only %d rules can be spared by what they look for", spared[true])
	}
}

// renamed is an engine with another type of rules.
type renamed struct {
	coraza.WAF
	waf *struct {
		Rules struct{ rules []any }
	}
}

// An engine that is not built as expected evaluates all rules.
func TestWithoutSpares(t *testing.T) {
	fresh, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	e := fresh.plain.Load()
	if len(e.spares.rules) == 0 {
		t.Fatal("nothing is spared")
	}
	for name, waf := range map[string]coraza.WAF{"the engine": struct{ coraza.WAF }{e.waf}, "its rules": renamed{WAF: e.waf, waf: &struct{ Rules struct{ rules []any } }{struct{ rules []any }{[]any{1}}}}} {
		if err := e.spares.find(waf); err == nil || len(e.spares.rules) != 0 || len(e.spares.places[1])+len(e.spares.places[2]) != 0 {
			t.Errorf("%s: %v, %d rules", name, err, len(e.spares.rules))
		}
		if v := inspect(t, fresh, get("/?q="+encoded), blocking); !v.Deny {
			t.Errorf("%s: %+v", name, v)
		}
		if err := e.spares.find(e.waf); err != nil {
			t.Fatal(err)
		}
	}
}

// outcome is a verdict without the parts whose order Coraza does not define.
func outcome(v Verdict) string {
	text := fmt.Sprint(v.Deny, v.Rule, v.Score, v.Partial)
	for _, m := range v.Matches {
		text += fmt.Sprint(" ", m.Rule, m.Deciding, len(m.Data))
	}
	return text
}

// words returns words that the rules of the core rule set look for.
func words(t *testing.T) (all []string) {
	t.Helper()
	word := regexp.MustCompile(`[a-zA-Z_]{3,12}`)
	err := fs.WalkDir(coreruleset.FS, "@owasp_crs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(coreruleset.FS, path)
		for line := range strings.Lines(string(text)) {
			if strings.HasSuffix(path, ".data") || strings.Contains(line, "@rx") {
				all = append(all, word.FindAllString(line, -1)...)
			}
		}
		return err
	})
	if err != nil || len(all) < 1000 {
		t.Fatalf("%d words, %v", len(all), err)
	}
	return all
}
