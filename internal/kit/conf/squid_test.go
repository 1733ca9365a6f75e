package conf_test

import (
	"testing"

	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/value"
)

func TestSquidTakesPlainWordsOnly(t *testing.T) {
	for _, text := range []string{"a b", "a\nb", `"a"`, `a"`, "'", `a\`, "${x}", "$x", "-i", "#x", "a#", "!a", "%{x}", "a,b", "(", "*", "é", "\x00"} {
		w := conf.New(conf.Squid)
		w.Line("acl", conf.Word("x"), conf.Value(value.Must[raw](text)))
		if file, err := w.Bytes(); err == nil {
			t.Errorf("%q is written: %s", text, file)
		}
		w = conf.New(conf.Squid)
		w.Line("acl", conf.Joined(conf.Word("x"), conf.Value(value.Must[raw](text))))
		if file, err := w.Bytes(); err == nil && text != "-i" {
			t.Errorf("%q is written in a part: %s", text, file)
		}
	}
	w := conf.New(conf.Squid)
	w.Line("acl", conf.Value(raw{}))
	if _, err := w.Bytes(); err == nil {
		t.Error("an empty word is written")
	}
}

func TestAccessListKeepsItsLines(t *testing.T) {
	for _, text := range []string{"a\nb", "a\x00", "a\u0085b", "a\u2028b"} {
		w := conf.New(conf.AccessList)
		w.Line("deny", conf.Int(0), conf.Word("src"), conf.Value(value.Must[raw](text)))
		if file, err := w.Bytes(); err == nil {
			t.Errorf("%q is written: %s", text, file)
		}
	}
	w := conf.New(conf.AccessList)
	w.Line("deny", conf.Int(0), conf.Word("url_regex"), conf.Value(value.Must[raw](`a "b" \ # ${c}`)))
	if file, err := w.Bytes(); err != nil || string(file) != "# Written by the gateway from its database. Changes made here are lost.\ndeny 0 url_regex a \"b\" \\ # ${c}\n" {
		t.Errorf("%s, %v", file, err)
	}
	w.Line("deny", conf.Value(value.Must[raw]("a b")), conf.Word("x"))
	if _, err := w.Bytes(); err == nil {
		t.Error("a word with a blank is written")
	}
}
