package conf_test

import (
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/value"
)

func TestUnboundQuotes(t *testing.T) {
	w := conf.New(conf.Unbound)
	w.Line("server")
	w.Line("local-zone", conf.Value(value.Must[raw]("a b: # include: x\\")), conf.Word("transparent"))
	w.Line("name", conf.Value(value.Must[raw](`a"b`)))
	w.Line("name", conf.Value(value.Must[raw](`a'b`)))
	file, err := w.Bytes()
	want := "server:\n  local-zone: \"a b: # include: x\\\" transparent\n  name: 'a\"b'\n  name: \"a'b\"\n"
	if err != nil || !strings.HasSuffix(string(file), want) {
		t.Fatalf("%s %v", file, err)
	}
	for _, text := range []string{`a"b'c`, "a\nb", "a\rb", "a\x00b", "a\u2028b"} {
		w := conf.New(conf.Unbound)
		w.Line("name", conf.Value(value.Must[raw](text)))
		if file, err := w.Bytes(); err == nil {
			t.Errorf("%q is written: %s", text, file)
		}
	}
}

func TestResourceRecord(t *testing.T) {
	name := value.Must[raw]("a.lan.")
	got := conf.ResourceRecord(name, 60, conf.Word("MX"), conf.Int(10), conf.Value(value.Must[raw]("b.lan."))).String()
	if got != "a.lan. 60 IN MX 10 b.lan." {
		t.Error(got)
	}
	for _, text := range []string{"a b", `a"`, "a'", `a\`, "a\n", "(", ";", "ä"} {
		for _, r := range []conf.Arg{conf.ResourceRecord(name, 60, conf.Word("NS"), conf.Value(value.Must[raw](text))), conf.ResourceRecord(value.Must[raw](text), 60, conf.Word("NS"))} {
			w := conf.New(conf.Unbound)
			w.Line("local-data", r)
			if file, err := w.Bytes(); err == nil {
				t.Errorf("%q is written: %s", text, file)
			}
		}
	}
}

func TestCharacterStrings(t *testing.T) {
	for text, want := range map[string]string{
		"": `""`, "a b;": `"a b;"`, `"'\`: `"\034\039\092"`, "\x00\n\x7fä": `"\000\010\127\195\164"`,
		strings.Repeat("x", 256): `"` + strings.Repeat("x", 255) + `" "x"`,
	} {
		var words []string
		for _, a := range conf.CharacterStrings(text) {
			words = append(words, a.String())
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%q becomes %s", text, got)
		}
	}
}
