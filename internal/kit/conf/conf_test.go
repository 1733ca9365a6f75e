package conf_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/value"
)

// raw is a value whose grammar accepts everything, to test the printer alone.
type raw struct{ value.Text[anything] }

type anything struct{}

func (anything) Example() string                { return "" }
func (anything) Parse(s string) (string, error) { return s, nil }

func TestChronyRefusesWhatItCannotCarry(t *testing.T) {
	for _, text := range []string{"a b", "a\tb", "a\nb", "a\x00b", "a\x7f", "a\u0085b", "a\u2028b", "#a", "!a", ";a", "%a"} {
		w := conf.New(conf.Chrony)
		v, err := value.Parse[raw](text)
		if err != nil {
			t.Fatal(err)
		}
		w.Line("server", conf.Value(v))
		w.Line("rtcsync")
		file, err := w.Bytes()
		if err == nil || !strings.Contains(err.Error(), "directive server") {
			t.Errorf("%q is written: %s", text, file)
		}
	}
	w := conf.New(conf.Chrony)
	w.Line("server", conf.Value(raw{}))
	if _, err := w.Bytes(); err == nil {
		t.Error("an empty word is written")
	}
}

func TestFirstRefusalSticks(t *testing.T) {
	w := conf.New(conf.Chrony)
	w.Line("first", conf.Value(value.Must[raw]("a b")))
	w.Line("second", conf.Value(value.Must[raw]("c d")))
	_, err := w.Bytes()
	if err == nil || !strings.Contains(err.Error(), "first") || errors.Unwrap(err) == nil {
		t.Fatalf("%v", err)
	}
}

func TestFreeRADIUSQuotes(t *testing.T) {
	for _, c := range []struct{ text, config, users string }{
		{"plain", "'plain'", "'plain'"},
		{"it's", `'it\'s'`, `'it\'s'`},
		{`a\`, "", `'a\\'`},
		{`%{User-Password} ${x} "q" #`, `'%{User-Password} ${x} "q" #'`, `'%{User-Password} ${x} "q" #'`},
		{"a\nb", "", ""},
		{"a\x00", "", ""},
		{"a\u2028", "", ""},
	} {
		for _, g := range []struct {
			grammar conf.Grammar
			want    string
		}{{conf.FreeRADIUS, c.config}, {conf.FreeRADIUSUsers, c.users}} {
			w := conf.New(g.grammar)
			w.Line("  secret =", conf.Value(value.Must[raw](c.text)))
			file, err := w.Bytes()
			if g.want == "" {
				if err == nil {
					t.Errorf("%q is written: %s", c.text, file)
				} else if strings.Contains(err.Error(), `a\`) && strings.Contains(c.text, `\`) {
					t.Errorf("the refusal tells the value: %v", err)
				}
				continue
			}
			if err != nil || !strings.HasSuffix(string(file), "\n  secret = "+g.want+"\n") {
				t.Errorf("%q: %s, %v", c.text, file, err)
			}
		}
	}
}

func TestWireGuardWritesNothingButItsKeys(t *testing.T) {
	for _, text := range []string{"a b", "a,b", "a#b", "a;b", "a\nPostUp = touch /tmp/x", "a\rb", "a\x00b", "a\u2028b", "\t"} {
		w := conf.Bare(conf.WireGuard)
		w.Line("Endpoint", conf.Value(value.Must[raw](text)))
		if file, err := w.Bytes(); err == nil {
			t.Errorf("%q is written: %s", text, file)
		}
	}
	for _, write := range []func(w *conf.Writer){
		func(w *conf.Writer) { w.Line("PostUp", conf.Word("x")) },
		func(w *conf.Writer) { w.Line("SaveConfig", conf.Word("true")) },
		func(w *conf.Writer) { w.Line("[Peer]", conf.Word("x")) },
		func(w *conf.Writer) { w.Line("Address") },
		func(w *conf.Writer) { w.Line("DNS", conf.Value(raw{})) },
	} {
		w := conf.Bare(conf.WireGuard)
		write(w)
		if file, err := w.Bytes(); err == nil {
			t.Errorf("it is written: %s", file)
		}
	}
	w := conf.Bare(conf.WireGuard)
	w.Line("[Peer]")
	w.Note("PublicKey", conf.Value(value.Must[raw]("k=")))
	w.Line("AllowedIPs", conf.Value(value.Must[raw]("10.0.0.0/8")), conf.Network(netip.MustParsePrefix("fd00::1/64")))
	if file, err := w.Bytes(); err != nil || string(file) != "[Peer]\n# PublicKey = k=\nAllowedIPs = 10.0.0.0/8, fd00::1/64\n" {
		t.Errorf("%s, %v", file, err)
	}
}

// Every text is one value, and those that YAML would fold are refused.
func TestYAMLIsQuoted(t *testing.T) {
	type document struct {
		Text string `json:"text"`
	}
	file, err := conf.YAML(document{`a"]}: *x &y #z`}, document{"---"})
	const want = "# Written by the gateway from its database. Changes made here are lost.\n" +
		"{\n  \"text\": \"a\\\"]}: *x &y #z\"\n}\n---\n{\n  \"text\": \"---\"\n}\n"
	if err != nil || string(file) != want {
		t.Errorf("%s, %v", file, err)
	}
	for _, text := range []string{"a\nb", "a\rb", "a\x00b", "a\u0085b", "a\u2028b", "\t"} {
		if file, err := conf.YAML(document{text}); err == nil {
			t.Errorf("%q is written: %s", text, file)
		}
	}
	if _, err := conf.YAML(document{}); err != nil {
		t.Error(err)
	}
}
