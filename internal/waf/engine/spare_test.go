package engine

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"

	"edge.internal/gateway/internal/waf/rx"
)

// What is said of transformations holds for all short texts of letters, digits and one of each kind of marks.
func TestTransformations(t *testing.T) {
	alphabet := []string{"a", "F", "0", "-", "_", ".", " ", ",", ":", "/", "@", "+"}
	others := []string{"%41", "&lt;", `\`, `\41`, "\u00e9", "\x00", "*", "\t", "\n", "#", "\"", "'", "^", ";", "(", "<!--", "\u00a0"}
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
			if v.has&is.by == 0 && !strings.EqualFold(seen[0], text) {
				t.Errorf("%s makes %q of %q", name, seen[0], text)
			}
			if v.kind != rx.Other && is.closed && rx.KindOf(seen[0]) > v.kind {
				t.Errorf("%s makes %q of %q", name, seen[0], text)
			}
		}
	}
}

// Words that expressions of the core rule set look for, put where values usually are harmless: whichever rules are spared, the outcome is
// that of stock.
func TestWhatIsSparedDoesNotMatch(t *testing.T) {
	if ErrStock != nil {
		t.Fatal(ErrStock)
	}
	s := set(t)
	words := words(t)
	r := rand.New(rand.NewPCG(3, 4))
	marks := []string{"", " ", " ", "-", "_", ".", "/", ":", ",", "@", "(", "'", "=", ";", "..", "--"}
	text := func() string {
		var b strings.Builder
		for range 1 + r.IntN(4) {
			b.WriteString(words[r.IntN(len(words))] + marks[r.IntN(len(marks))])
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

// outcome is a verdict without what Coraza has in no order.
func outcome(v Verdict) string {
	text := fmt.Sprint(v.Deny, v.Rule, v.Score, v.Partial)
	for _, m := range v.Matches {
		text += fmt.Sprint(" ", m.Rule, m.Deciding, len(m.Data))
	}
	return text
}

// words are some that the rules of the core rule set look for.
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
