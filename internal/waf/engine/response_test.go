package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/corazawaf/coraza-coreruleset/v4/tests"
	"github.com/goccy/go-yaml"
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

// responses loads the tests that are about responses, and makes the responses that the tool's origin gives.
func responses(t *testing.T) (all []stage, of []*Response) {
	t.Helper()
	names, err := fs.Glob(tests.FS, "RESPONSE-95*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(tests.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		var s suite
		if err := yaml.Unmarshal(text, &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, test := range s.Tests {
			for _, st := range test.Stages {
				r, err := st.Input.request()
				if err != nil {
					t.Fatal(err)
				}
				said := struct {
					Status  int
					Headers map[string]string
					Body    string
				}{Body: st.Input.Data}
				if st.Input.URI == "/reflect" {
					said.Body = ""
					if err := json.Unmarshal([]byte(st.Input.Data), &said); err != nil {
						said.Status = http.StatusBadRequest
					}
				}
				res := &Response{Status: cmp.Or(said.Status, 200), Version: "HTTP/1.1", Body: []byte(said.Body), Complete: true}
				if said.Headers["Content-Type"] == "" {
					res.Header = append(res.Header, Field{"content-type", http.DetectContentType(res.Body)})
				}
				for name, value := range said.Headers {
					res.Header = append(res.Header, Field{strings.ToLower(name), value})
				}
				all = append(all, stage{fmt.Sprintf("%d-%d", s.Rule, test.ID), r, st.Output, s.Rule})
				of = append(of, res)
			}
		}
	}
	return all, of
}

// The core rule set's own tests of responses, all of them.
func TestCoreRuleSetOnResponses(t *testing.T) {
	s, err := newSet(testSettings)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all, of := responses(t)
	if len(all) != 92 {
		t.Errorf("%d tests", len(all))
	}
	rules := ruleLevels(t)
	for level := 1; level <= 4; level++ {
		for _, blocking := range []bool{false, true} {
			with := Settings{Blocking: blocking, Paranoia: level}
			for i, st := range all {
				v, err := s.InspectResponse(t.Context(), st.request, of[i], with)
				if err != nil {
					t.Fatal(err)
				}
				if d := st.deviates(v, with, rules); d != "" {
					t.Errorf("%s, blocking %v, level %d: %s", st.name, blocking, level, d)
				}
			}
		}
	}
}
