package engine

import (
	"slices"
	"strings"
	"testing"
)

func answer(status int, body string, header ...Field) *Response {
	return &Response{Status: status, Version: "HTTP/1.1", Header: append(header, Field{"content-type", "text/html"}), Body: []byte(body), Complete: true}
}

func TestInspectResponse(t *testing.T) {
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	built := uint64(0)
	const leak = "<?php echo 1 ?>"
	blocking := Settings{Blocking: true, Paranoia: 1}
	excluded := func(rule int, path string) Settings {
		x, err := NewExclusion(rule, path, "", "")
		if err != nil {
			t.Fatal(err)
		}
		return Settings{Blocking: true, Paranoia: 1, Exclusions: []Exclusion{x}}
	}
	for name, c := range map[string]struct {
		response *Response
		with     Settings
		deny     bool
		partial  bool
		rules    []int
	}{
		"clean":                 {answer(200, "<html>Hello</html>"), blocking, false, false, nil},
		"source code":           {answer(200, leak), blocking, true, false, []int{953120}},
		"only detected":         {answer(200, leak), Settings{Paranoia: 1}, false, false, []int{953120}},
		"excluded":              {answer(200, leak), excluded(953120, "/"), false, false, nil},
		"excluded elsewhere":    {answer(200, leak), excluded(953120, "/other"), true, false, []int{953120}},
		"a failure, level 1":    {answer(500, ""), blocking, false, false, nil},
		"a failure, level 2":    {answer(500, ""), Settings{Paranoia: 2}, false, false, []int{950100}},
		"compressed":            {answer(200, leak, Field{"content-encoding", "gzip"}), blocking, false, false, nil},
		"a picture":             {&Response{Status: 200, Header: []Field{{"content-type", "image/png"}}, Body: []byte(leak), Complete: true}, blocking, false, false, nil},
		"only the beginning":    {&Response{Status: 200, Header: []Field{{"content-type", "text/html"}}, Body: []byte(leak)}, blocking, true, true, []int{953120}},
		"after a million bytes": {answer(200, strings.Repeat("x", bodyLimit)+leak), blocking, false, true, nil},
	} {
		v, err := s.InspectResponse(t.Context(), get("/page"), c.response, c.with)
		if err != nil {
			t.Fatal(err)
		}
		if built == 0 {
			built = s.Builds()
		}
		if v.Deny != c.deny || v.Partial != c.partial || !slices.Equal(ids(v), c.rules) {
			t.Errorf("%s: %+v", name, v)
		}
		if s.Builds() != built {
			t.Errorf("%s: built once more", name)
		}
		if v.Deny && (v.Rule != 959100 || v.Score == 0) {
			t.Errorf("%s: denied by %d, score %d", name, v.Rule, v.Score)
		}
	}
}
