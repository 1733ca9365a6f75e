package rx

import (
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/experimental/plugins"
	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"
)

// patterns returns all expressions of the core rule set.
var patterns = sync.OnceValues(func() ([]string, error) {
	var all []string
	plugins.RegisterOperator("rx", func(options plugintypes.OperatorOptions) (plugintypes.Operator, error) {
		all = append(all, options.Arguments)
		return New(options)
	})
	_, err := coraza.NewWAF(coraza.NewWAFConfig().WithRootFS(coreruleset.FS).WithDirectives("Include @coraza.conf-recommended").
		WithDirectives("Include @crs-setup.conf.example").WithDirectives("Include @owasp_crs/*.conf"))
	slices.Sort(all)
	return slices.Compact(all), err
})

// transaction captures what the operator finds.
type transaction struct {
	plugintypes.TransactionState
	fields map[int]string
}

func (t *transaction) Capturing() bool                 { return t.fields != nil }
func (t *transaction) CaptureField(i int, text string) { t.fields[i] = text }

// example generates a text that an expression probably matches.
func example(r *rand.Rand, re *syntax.Regexp) string {
	some := func(sub *syntax.Regexp, n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(example(r, sub))
		}
		return b.String()
	}
	switch re.Op {
	case syntax.OpLiteral:
		var b strings.Builder
		for _, c := range re.Rune {
			if re.Flags&syntax.FoldCase != 0 {
				for range r.IntN(4) {
					c = unicode.SimpleFold(c)
				}
			}
			b.WriteRune(c)
		}
		return b.String()
	case syntax.OpCharClass:
		if len(re.Rune) == 0 {
			return ""
		}
		i := 2 * r.IntN(len(re.Rune)/2)
		return string(re.Rune[i] + rand.N(re.Rune[i+1]-re.Rune[i]+1))
	case syntax.OpAnyChar:
		return string(rune(r.IntN(300)))
	case syntax.OpAnyCharNotNL:
		return string(rune('a' + r.IntN(26)))
	case syntax.OpCapture:
		return example(r, re.Sub[0])
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range re.Sub {
			b.WriteString(example(r, sub))
		}
		return b.String()
	case syntax.OpAlternate:
		return example(r, re.Sub[r.IntN(len(re.Sub))])
	case syntax.OpQuest:
		return some(re.Sub[0], r.IntN(2))
	case syntax.OpStar:
		return some(re.Sub[0], r.IntN(3))
	case syntax.OpPlus:
		return some(re.Sub[0], 1+r.IntN(2))
	case syntax.OpRepeat:
		return some(re.Sub[0], re.Min+r.IntN(2))
	}
	return ""
}

// What an expression matches passes its gate. The texts are generated from the expression.
func TestGateIsSound(t *testing.T) {
	all, err := patterns()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	gated, matches := 0, 0
	for _, pattern := range all {
		if namesBytes(pattern) {
			continue
		}
		flagged := "(?sm)" + pattern
		parsed, err := syntax.Parse(flagged, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		re, g := regexp.MustCompile(flagged), newGate(flagged)
		if g.plain.never || len(g.plain.finders) > 0 {
			gated++
		}
		for range 100 {
			text := example(r, parsed)
			if cut := r.IntN(4); cut == 0 && text != "" {
				text = text[:r.IntN(len(text))]
			} else if cut == 1 {
				text = "x" + text + "\xff"
			}
			if re.MatchString(text) {
				matches++
				if !g.open(text) {
					t.Errorf("%s matches %q, and its gate does not let it through", pattern, text)
				}
			}
		}
	}
	t.Logf("%d expressions, %d have a gate, %d matches", len(all), gated, matches)
	if gated < len(all)*3/4 || matches < 50*len(all) {
		t.Errorf("of %d expressions %d have a gate, and there were %d matches", len(all), gated, matches)
	}
}

// Harmless values are rejected.
func TestGateIsUseful(t *testing.T) {
	all, err := patterns()
	if err != nil {
		t.Fatal(err)
	}
	harmless := []string{"4711", "blue", "Anna-Maria", "2026-11-16T08:15:00Z", "order.items", "A quick brown fox jumps over the lazy dog", "text/html", "gzip, deflate, br", "/products/list", "Mozilla/5.0 (X11; Linux x86_64)"}
	looks, open := 0, 0
	for _, pattern := range all {
		g := newGate("(?sm)" + pattern)
		for _, text := range harmless {
			looks++
			if g.open(text) {
				open++
			}
		}
	}
	t.Logf("%d of %d looks go on to the expression", open, looks)
	if open*5 > looks {
		t.Errorf("%d of %d looks go on to the expression", open, looks)
	}
}

func TestGates(t *testing.T) {
	for _, c := range []struct {
		pattern   string
		shut, not []string
	}{
		{`(?i)union\s+select`, []string{"", "union", "select union", "unionselect"}, []string{"UNION \t select", "xuNion\nSELECT", "\u017felect union union select"}},
		{`(?i)kill`, []string{"ki", "kil", "k-ill"}, []string{"\u212aill", "KILL"}},
		{`(?i)sz`, []string{"abc", "s-z"}, []string{"\u017fz", "SZ"}},
		{"é1", []string{"e1"}, []string{"é1"}},
		{"a\x7fb", []string{"ab"}, []string{"a\x7fb"}},
		{`[^a-z]x`, nil, []string{"éx", "\xffx", "-x"}},
		{`(?:sleep|benchmark)\(`, []string{"sleep", "benchmark", "sleep ("}, []string{"benchmark(", "SLEEP("}},
		{`a*`, nil, []string{"", "b"}},
		{`xyz?`, []string{"x", "zy"}, []string{"xy", "xyz"}},
		{`(?:ab)+cd`, []string{"abc", "a cd"}, []string{"ababcd"}},
	} {
		g := newGate("(?sm)" + c.pattern)
		for _, text := range c.shut {
			if g.open(text) {
				t.Errorf("%s: open for %q", c.pattern, text)
			}
		}
		for _, text := range c.not {
			if !g.open(text) {
				t.Errorf("%s: shut for %q", c.pattern, text)
			}
		}
	}
}

// A gate is also asked about values whose case is changed later: characters beyond ASCII that become letters count as these letters.
// There are four.
func TestLettersInEveryCase(t *testing.T) {
	const high = unicode.MaxASCII
	found := ""
	for r := rune(high + 1); r <= unicode.MaxRune; r++ {
		for _, letter := range []rune{unicode.ToLower(r), unicode.ToUpper(r), unicode.SimpleFold(r)} {
			if letter > high {
				continue
			}
			if !strings.ContainsRune(found, r) {
				found += string(r)
			}
			for _, around := range []string{"%s", "x%s", "%sx", "x%sx"} {
				word, text := strings.ReplaceAll(around, "%s", string(letter)), strings.ReplaceAll(around, "%s", string(r))
				if g := newGate("(?sm)" + word); !g.open(text) {
					t.Errorf("%s: shut for %q", word, text)
				}
			}
		}
	}
	if found != "\u0130\u0131\u017f\u212a" {
		t.Errorf("%q", found)
	}
	if g := newGate("(?sm)xyz"); g.open("l\u00e4nger \u2013 \u20ac 5 \u0142 \u0107") {
		t.Error("open for other characters")
	}
}

func TestCapture(t *testing.T) {
	op, err := New(plugintypes.OperatorOptions{Arguments: `(a)(b)?(c)`})
	if err != nil {
		t.Fatal(err)
	}
	tx := &transaction{fields: map[int]string{}}
	if !op.Evaluate(tx, "xacx") || len(tx.fields) != 4 || tx.fields[0] != "ac" || tx.fields[1] != "a" || tx.fields[2] != "" || tx.fields[3] != "c" {
		t.Errorf("%v", tx.fields)
	}
	if op, err = New(plugintypes.OperatorOptions{Arguments: strings.Repeat("(a)", 12)}); err != nil {
		t.Fatal(err)
	}
	tx.fields = map[int]string{}
	if !op.Evaluate(tx, strings.Repeat("a", 12)) || len(tx.fields) != maxFields {
		t.Errorf("%v", tx.fields)
	}
	if op.Evaluate(&transaction{}, "aaa") || !op.Evaluate(&transaction{}, strings.Repeat("a", 12)) {
		t.Error("without capturing it is another")
	}
	if _, err := New(plugintypes.OperatorOptions{Arguments: "("}); err == nil {
		t.Error("taken")
	}
}

// Expressions that name bytes are matched byte by byte.
func TestBytes(t *testing.T) {
	for pattern, named := range map[string]bool{`\xbc`: true, `\x{bc}`: true, `\x41`: false, `\xc3\xa9`: false, `a\\xbc`: true, `\x`: false, `\x{`: false, `\x{b`: false, `é`: false} {
		if namesBytes(pattern) != named {
			t.Errorf("%s: %v", pattern, !named)
		}
	}
	op, err := New(plugintypes.OperatorOptions{Arguments: `\xbc\x{be}`})
	if err != nil {
		t.Fatal(err)
	}
	if !op.Evaluate(&transaction{}, "a\xbc\xbeb") || op.Evaluate(&transaction{}, "\u00bc\u00be") {
		t.Error("not byte by byte")
	}
}

func FuzzGate(f *testing.F) {
	for _, text := range []string{"union select", "\u212aill", "<script>", "../../etc/passwd", "\xff\xc5"} {
		f.Add(text)
	}
	all, err := patterns()
	if err != nil {
		f.Fatal(err)
	}
	type pair struct {
		re *regexp.Regexp
		g  *gate
	}
	var pairs []pair
	for _, pattern := range all {
		if !namesBytes(pattern) {
			pairs = append(pairs, pair{regexp.MustCompile("(?sm)" + pattern), newGate("(?sm)" + pattern)})
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range pairs {
			if !p.g.open(text) && p.re.MatchString(text) {
				t.Errorf("%s matches %q, and its gate does not let it through", p.re, text)
			}
		}
	})
}
