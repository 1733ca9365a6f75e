package engine

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza-coreruleset/v4/tests"
	"github.com/goccy/go-yaml"
)

// suite is one file of the core rule set's regression tests.
type suite struct {
	Rule  int `yaml:"rule_id"`
	Tests []struct {
		ID     int `yaml:"test_id"`
		Stages []struct {
			Input  input
			Output output
		}
	}
}

type input struct {
	Method       string
	URI          string
	Version      *string
	Headers      yaml.MapSlice
	Data         string
	Encoded      string `yaml:"encoded_request"`
	Autocomplete *bool  `yaml:"autocomplete_headers"`
}

type output struct {
	Status int
	Error  bool `yaml:"expect_error"`
	Log    struct {
		Expect   []int  `yaml:"expect_ids"`
		Not      []int  `yaml:"no_expect_ids"`
		Match    string `yaml:"match_regex"`
		NotMatch string `yaml:"no_match_regex"`
	}
}

// stage is one request of a test and what is expected of it.
type stage struct {
	name    string
	request *Request
	output  output
	rule    int
}

// The settings that the tests are written for.
const testSettings = `SecAction "id:900005,phase:1,nolog,pass,setvar:tx.crs_validate_utf8_encoding=1,setvar:tx.arg_name_length=100,setvar:tx.arg_length=400,setvar:tx.total_arg_length=64000,setvar:tx.max_num_args=255,setvar:tx.max_file_size=64100,setvar:tx.combined_file_sizes=65535"`

// stages loads the tests that are about requests: 95x and 980 are about responses.
func stages(t *testing.T) (all []stage, cases int) {
	t.Helper()
	err := fs.WalkDir(tests.FS, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path, "RESPONSE-") {
			return err
		}
		text, err := fs.ReadFile(tests.FS, path)
		if err != nil {
			return err
		}
		var s suite
		if err := yaml.Unmarshal(text, &s); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, test := range s.Tests {
			cases++
			for _, st := range test.Stages {
				r, err := st.Input.request()
				if err != nil {
					return fmt.Errorf("%d-%d: %w", s.Rule, test.ID, err)
				}
				all = append(all, stage{fmt.Sprintf("%d-%d", s.Rule, test.ID), r, st.Output, s.Rule})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, cases
}

// request is what a server gets from the tool that these tests are written for.
func (in input) request() (*Request, error) {
	r := get("/")
	r.Header = nil
	if in.Encoded != "" {
		raw, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(in.Encoded, "\n", ""))
		if err != nil {
			return nil, err
		}
		head, body, _ := strings.Cut(string(raw), "\r\n\r\n")
		lines := strings.Split(head, "\r\n")
		line := strings.SplitN(lines[0], " ", 3)
		r.Method, r.URI, r.Version, r.Body = line[0], line[1], line[2], []byte(body)
		for _, l := range lines[1:] {
			name, value, _ := strings.Cut(l, ":")
			r.Header = append(r.Header, Field{strings.ToLower(name), strings.TrimSpace(value)})
		}
		if r.value("transfer-encoding") == "chunked" {
			r.Body, err = io.ReadAll(httputil.NewChunkedReader(bufio.NewReader(strings.NewReader(body))))
		}
		return r, err
	}
	r.Method, r.URI, r.Version = or(in.Method, "GET"), or(in.URI, "/"), "HTTP/1.1"
	if in.Version != nil {
		r.Version = *in.Version
	}
	for _, h := range in.Headers {
		r.Header = append(r.Header, Field{strings.ToLower(fmt.Sprint(h.Key)), fmt.Sprint(h.Value)})
	}
	complete := in.Autocomplete == nil || *in.Autocomplete
	data := in.Data
	add := func(name, value string) {
		if r.value(name) == "" {
			r.Header = append(r.Header, Field{name, value})
		}
	}
	if data != "" && complete {
		add("content-type", form)
		if r.value("content-type") == form {
			data = escape(data)
		}
	}
	if strings.HasPrefix(r.value("content-type"), "multipart/form-data;") {
		data = strings.ReplaceAll(data, "\n", "\r\n")
	}
	if complete {
		add("connection", "close")
		if data != "" || slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE"}, r.Method) {
			add("content-length", strconv.Itoa(len(data)))
		}
	}
	r.Body = []byte(data)
	return r, nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (r *Request) value(name string) string {
	for _, f := range r.Header {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// escape encodes a form that is not yet encoded.
func escape(data string) string {
	if plain, err := url.QueryUnescape(data); err != nil || plain != data {
		return data
	}
	pairs := strings.Split(data, "&")
	for i, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if pairs[i] = url.QueryEscape(key); ok {
			pairs[i] += "=" + url.QueryEscape(value)
		}
	}
	return strings.Join(pairs, "&")
}

var idOrLevel = regexp.MustCompile(`\bid:(\d{6})|paranoia-level/(\d)`)

// ruleLevels says at which paranoia level each rule starts.
func ruleLevels(t *testing.T) map[int]int {
	t.Helper()
	levels := map[int]int{}
	names, err := fs.Glob(coreruleset.FS, "@owasp_crs/*.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(coreruleset.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		id := 0
		for _, m := range idOrLevel.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "" {
				id, _ = strconv.Atoi(m[1])
			} else {
				levels[id], _ = strconv.Atoi(m[2])
			}
		}
	}
	return levels
}

// deviates says what is not as the test wants it, or "".
func (s stage) deviates(v Verdict, with Settings, levels map[int]int) string {
	found := append(ids(v), v.Rule)
	want, not := s.output.Log.Expect, s.output.Log.Not
	if s.output.Log.Match != "" {
		want = append(want, s.rule)
	}
	if s.output.Log.NotMatch != "" {
		not = append(not, s.rule)
	}
	for _, id := range want {
		if expected := levels[id] <= with.Paranoia; slices.Contains(found, id) != expected {
			return fmt.Sprintf("rule %d: expected %v, found %v", id, expected, found)
		}
	}
	for _, id := range not {
		if slices.Contains(found, id) {
			return fmt.Sprintf("rule %d: not expected, found %v", id, found)
		}
	}
	if len(want)+len(not) == 0 && (s.output.Status == 400 || s.output.Error) != (v.Rule != 0) {
		return fmt.Sprintf("status %d: decided by %d", s.output.Status, v.Rule)
	}
	if v.Deny != (with.Blocking && v.Rule != 0) {
		return fmt.Sprintf("denied: %v, decided by %d", v.Deny, v.Rule)
	}
	return ""
}

// expectations are the deviations that are known, with their causes.
func expectations(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/deviations.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, cause, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			known[name] = strings.TrimSpace(cause)
		}
	}
	return known
}

// The core rule set's own regression tests. A part of them, unless GATEWAY_WAF_REGRESSION=all.
func TestCoreRuleSet(t *testing.T) {
	s, err := newSet(testSettings)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all, cases := stages(t)
	if cases != 4579 {
		t.Errorf("%d tests", cases)
	}
	levels, known := ruleLevels(t), expectations(t)
	runs, every := []Settings{{Paranoia: 4}, {Blocking: true, Paranoia: 1}}, 16
	if os.Getenv("GATEWAY_WAF_REGRESSION") == "all" {
		runs, every = nil, 1
		for level := 1; level <= 4; level++ {
			runs = append(runs, Settings{Paranoia: level}, Settings{Blocking: true, Paranoia: level})
		}
	}
	seen := map[string]bool{}
	for _, with := range runs {
		for i, st := range all {
			if _, is := known[st.name]; i%every != 0 && !is {
				continue
			}
			if d := st.deviates(inspect(t, s, st.request, with), with, levels); d != "" {
				seen[st.name] = true
				if known[st.name] == "" {
					t.Errorf("%s, blocking %v, level %d: %s", st.name, with.Blocking, with.Paranoia, d)
				}
			}
		}
	}
	for name := range known {
		if !seen[name] {
			t.Errorf("%s is as expected: take it out of the list of deviations", name)
		}
	}
}
