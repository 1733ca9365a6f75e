// Package conftest tests configuration writers: hostile values must not change any directive.
package conftest

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/helper/guard"
)

// Corpus contains texts that have broken out of some daemon's grammar.
var Corpus = []string{
	"\x00", "a\x00b", "\r", "\n", "a\nallow all", "a\r\ninclude /etc/shadow", "\x0b", "\x0c", "\u2028", "\u2029", "\u0085",
	"%", "%[env(X)]", "%{User-Password}", "$", "$HOME", "${IFS}", "#", "# x", ";", "; x", "!", "! x", `"`, `a"b`, "'", `a'b`, `\`, `a\`, `\x0a`,
	"{", "}", "a } b {", "*", "eth*", "-", "-x", "--", "@", "~LST", ",", "a,b", "a b", "a\tb", "a iburst trust", " a", "a ", "",
	"fe80::1%eth0", "fe80::1%a\nallow all", "192.0.2.1%x", "::ffff:192.0.2.1", "192.0.2.1/33", "2001:db8::/129", "0x7f.1", "127.1", "1.2.3.4.",
	"\u202etxt", "пример.рф", "xn--e1afmkfd.xn--p1ai", "\xff\xfe", "<?include x?>", "$INCLUDE x", "DEFAULT", "`id`", "%{exec:/bin/id}", "exec {", "lua.x", "crt /x", "%[path,map(/x)]", `include "/x"`, "a.-b", "-a.b", "a..b", ".",
	strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 127), strings.Repeat("a", 128), strings.Repeat("a", 129),
	strings.Repeat("a", 255), strings.Repeat("a", 256), strings.Repeat("a.", 126) + "a", strings.Repeat("a", 4096),
}

// Oracle tests one field of a room's configuration with hostile texts.
type Oracle[V any] struct {
	// Decode parses the text like the API does; its error is what the API answers with status 400.
	Decode func(text string) (v V, canonical string, err error)
	// Render must accept whatever Decode accepts.
	Render func(v V) ([]byte, error)
	// Parse splits a file into directives and their words, as the daemon does.
	Parse func(file []byte) [][]string
	// Place is where the file belongs: gateway-helper must admit it there.
	Place host.Place
	// Benign is a text that the field accepts.
	Benign string
	// Daemon runs the daemon's own checker; nil if that would be too slow.
	Daemon func(t testing.TB, file []byte)
}

// Check tests the corpus and then texts that rapid generates: each is refused, or appears as one word in the same directives as
// the benign text.
func (o Oracle[V]) Check(t *testing.T) {
	t.Helper()
	benign, canonical, err := o.Decode(o.Benign)
	if err != nil {
		t.Fatalf("the benign text %q is refused: %v", o.Benign, err)
	}
	file, err := o.Render(benign)
	if err != nil {
		t.Fatal(err)
	}
	shape := o.shape(file, canonical)
	if !strings.Contains(shape, hole) {
		t.Fatalf("the benign text %q does not appear in\n%s", o.Benign, file)
	}
	own := map[string]bool{} // the program's words
	for _, directive := range o.Parse(file) {
		for _, word := range directive {
			own[word] = word != canonical
		}
	}
	one := func(fatalf func(string, ...any), text string, daemon bool) {
		v, canonical, err := o.Decode(text)
		if err != nil || own[canonical] {
			return // refused, or indistinguishable from the program's words
		}
		file, err := o.Render(v)
		if err != nil {
			fatalf("%q got in and cannot be written: %v", text, err)
		}
		if got := o.shape(file, canonical); got != shape {
			fatalf("%q changed the directives:\n%s", text, file)
		}
		if err := guard.Admit(host.File{Place: o.Place, Content: file}); err != nil {
			fatalf("%q got in, and the helper does not admit what comes of it: %v", text, err)
		}
		if daemon && o.Daemon != nil {
			o.Daemon(t, file)
		}
	}
	for _, text := range Corpus {
		one(t.Fatalf, text, true)
		one(t.Fatalf, o.Benign+text, true)
		one(t.Fatalf, text+o.Benign, true)
	}
	rapid.Check(t, func(r *rapid.T) {
		parts := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(Corpus), rapid.Just(o.Benign), rapid.String()), 1, 3).Draw(r, "parts")
		one(r.Fatalf, strings.Join(parts, ""), false)
	})
}

const hole = "\x00hole\x00"

// shape replaces the value's words in a file by a placeholder.
func (o Oracle[V]) shape(file []byte, canonical string) string {
	var b strings.Builder
	for _, words := range o.Parse(file) {
		words = slices.Clone(words)
		for i := range words {
			if words[i] == canonical {
				words[i] = hole
			}
		}
		b.WriteString(strings.Join(words, "\x01"))
		b.WriteByte('\x02')
	}
	return b.String()
}
