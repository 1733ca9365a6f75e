// Package crstest provides the core rule set's own regression tests: requests, and what the rules must find in them.
package crstest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza-coreruleset/v4/tests"
	"github.com/goccy/go-yaml"

	"edge.internal/gateway/internal/waf/engine"
)

// Settings of the rule set that the tests are written for.
const Settings = `SecAction "id:900005,phase:1,nolog,pass,setvar:tx.crs_validate_utf8_encoding=1,setvar:tx.arg_name_length=100,setvar:tx.arg_length=400,setvar:tx.total_arg_length=64000,setvar:tx.max_num_args=255,setvar:tx.max_file_size=64100,setvar:tx.combined_file_sizes=65535"`

// suite is one file of tests, as far as it is used here.
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

// Case is one request of a test, with the expected result.
type Case struct {
	Name     string // the numbers of the rule and of the test
	Request  *engine.Request
	Response *engine.Response // the origin's answer, in tests about responses
	rule     int
	raw      []byte // the request, if the test gives it byte by byte
	output   output
}

func Requests() ([]Case, error) { return load("REQUEST-*/*.yaml") }

// Responses returns the cases about responses, without those for rules 980, which report in a log that the gateway does not have.
func Responses() ([]Case, error) { return load("RESPONSE-95*/*.yaml") }

func load(pattern string) (all []Case, err error) {
	names, err := fs.Glob(tests.FS, pattern)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(tests.FS, name)
		if err != nil {
			return nil, err
		}
		var s suite
		if err := yaml.Unmarshal(text, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, test := range s.Tests {
			for _, st := range test.Stages {
				c := Case{Name: fmt.Sprintf("%d-%d", s.Rule, test.ID), rule: s.Rule, output: st.Output}
				if err := c.fill(st.Input); err != nil {
					return nil, fmt.Errorf("%s: %w", c.Name, err)
				}
				all = append(all, c)
			}
		}
	}
	return all, nil
}

// repeated is the only template function used by these tests.
var repeated = regexp.MustCompile(`\{\{ "(.)" \| repeat (\d+) \}\}`)

const form = "application/x-www-form-urlencoded"

// fill builds the request as the tests' own tool would send it.
func (c *Case) fill(in input) (err error) {
	r := &engine.Request{
		ID: c.Name, Source: netip.MustParseAddrPort("192.0.2.1:40000"), Destination: netip.MustParseAddrPort("192.0.2.2:80"),
		Method: cmp.Or(in.Method, "GET"), URI: cmp.Or(in.URI, "/"), Version: "HTTP/1.1", Complete: true,
	}
	c.Request = r
	if in.Encoded != "" {
		if c.raw, err = base64.StdEncoding.DecodeString(strings.ReplaceAll(in.Encoded, "\n", "")); err != nil {
			return err
		}
		return parse(r, c.raw)
	}
	if in.Version != nil {
		r.Version = *in.Version
	}
	for _, h := range in.Headers {
		r.Header = append(r.Header, engine.Field{Name: strings.ToLower(fmt.Sprint(h.Key)), Value: fmt.Sprint(h.Value)})
	}
	complete := in.Autocomplete == nil || *in.Autocomplete
	data := repeated.ReplaceAllStringFunc(in.Data, func(text string) string {
		m := repeated.FindStringSubmatch(text)
		n, _ := strconv.Atoi(m[2])
		return strings.Repeat(m[1], n)
	})
	add := func(name, value string) {
		if field(r, name) == "" {
			r.Header = append(r.Header, engine.Field{Name: name, Value: value})
		}
	}
	if data != "" && complete {
		add("content-type", form)
		if field(r, "content-type") == form {
			data = escape(data)
		}
	}
	if strings.HasPrefix(field(r, "content-type"), "multipart/form-data;") {
		data = strings.ReplaceAll(data, "\n", "\r\n")
	}
	if complete {
		add("connection", "close")
		if data != "" || slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE"}, r.Method) {
			add("content-length", strconv.Itoa(len(data)))
		}
	}
	r.Body = []byte(data)
	if in.URI == "/reflect" || in.URI == "/post" {
		c.Response = reflection(in)
	}
	return nil
}

// parse parses a request without validating it.
func parse(r *engine.Request, raw []byte) (err error) {
	head, body, _ := strings.Cut(string(raw), "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	line := strings.SplitN(lines[0], " ", 3)
	r.Method, r.URI, r.Version, r.Body = line[0], line[1], line[2], []byte(body)
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(l, ":")
		r.Header = append(r.Header, engine.Field{Name: strings.ToLower(name), Value: strings.TrimSpace(value)})
	}
	if field(r, "transfer-encoding") == "chunked" {
		r.Body, err = io.ReadAll(httputil.NewChunkedReader(bufio.NewReader(strings.NewReader(body))))
	}
	return err
}

func field(r *engine.Request, name string) string {
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

// reflection returns the answer of the tool's origin, which the request defines.
func reflection(in input) *engine.Response {
	answer := struct {
		Status  int
		Headers map[string]string
		Body    string
	}{Body: in.Data}
	if in.URI == "/reflect" {
		answer.Body = ""
		if err := json.Unmarshal([]byte(in.Data), &answer); err != nil {
			answer.Status = http.StatusBadRequest
		}
	}
	res := &engine.Response{Status: cmp.Or(answer.Status, http.StatusOK), Version: "HTTP/1.1", Body: []byte(answer.Body), Complete: true}
	if answer.Headers["Content-Type"] == "" {
		res.Header = append(res.Header, engine.Field{Name: "content-type", Value: http.DetectContentType(res.Body)})
	}
	for name, value := range answer.Headers {
		res.Header = append(res.Header, engine.Field{Name: strings.ToLower(name), Value: value})
	}
	return res
}

// Raw returns the request in HTTP/1.
func (c *Case) Raw() []byte {
	if c.raw != nil {
		return c.raw
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s %s\r\n", c.Request.Method, c.Request.URI, c.Request.Version)
	for _, f := range c.Request.Header {
		fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
	}
	b.WriteString("\r\n")
	b.Write(c.Request.Body)
	return b.Bytes()
}

// Rules returns the rules that matched or decided.
func Rules(v engine.Verdict) []int {
	found := []int{}
	for _, m := range v.Matches {
		found = append(found, m.Rule)
	}
	if v.Rule != 0 {
		found = append(found, v.Rule)
	}
	return found
}

// Deviates describes how a verdict differs from the test, or returns "". levels has the paranoia level from which each rule is active.
func (c *Case) Deviates(v engine.Verdict, with engine.Settings, levels map[int]int) string {
	found := Rules(v)
	want, not := c.output.Log.Expect, c.output.Log.Not
	if c.output.Log.Match != "" {
		want = append(slices.Clone(want), c.rule)
	}
	if c.output.Log.NotMatch != "" {
		not = append(slices.Clone(not), c.rule)
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
	if len(want)+len(not) == 0 && c.Refused() != (v.Rule != 0) {
		return fmt.Sprintf("status %d: decided by %d", c.output.Status, v.Rule)
	}
	if v.Deny != (with.Blocking && v.Rule != 0) {
		return fmt.Sprintf("denied: %v, decided by %d", v.Deny, v.Rule)
	}
	return ""
}

// Refused reports whether the test expects the server itself to refuse the request.
func (c *Case) Refused() bool { return c.output.Status == http.StatusBadRequest || c.output.Error }

var idOrLevel = regexp.MustCompile(`\bid:(\d{6})|paranoia-level/(\d)`)

// Levels returns the paranoia level from which each rule is active.
func Levels() (map[int]int, error) {
	names, err := fs.Glob(coreruleset.FS, "@owasp_crs/*.conf")
	if err != nil {
		return nil, err
	}
	levels := map[int]int{}
	for _, name := range names {
		text, err := fs.ReadFile(coreruleset.FS, name)
		if err != nil {
			return nil, err
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
	return levels, nil
}

// Deviation is a known difference from a test: "refused" if the request does not pass the proxy, the number of the rule that matches
// instead, or "none".
type Deviation struct{ Instead, Cause string }

// Deviations reads a list of known deviations: the name of a case, its actual result, and the cause.
func Deviations(path string) (map[string]Deviation, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	known := map[string]Deviation{}
	for line := range strings.Lines(string(text)) {
		parts := strings.Fields(line)
		if len(parts) == 0 || parts[0] == "#" {
			continue
		}
		if len(parts) < 3 {
			return nil, fmt.Errorf("%s: %q", path, line)
		}
		known[parts[0]] = Deviation{parts[1], strings.Join(parts[2:], " ")}
	}
	return known, nil
}

// Found reports whether a case had this result; v is nil if it did not pass the proxy.
func (d Deviation) Found(v *engine.Verdict) bool {
	switch {
	case v == nil:
		return d.Instead == "refused"
	case d.Instead == "none":
		return v.Rule == 0
	}
	rule, err := strconv.Atoi(d.Instead)
	return err == nil && slices.Contains(Rules(*v), rule)
}

// Everything reports whether to run all tests in every setting, instead of a part: GATEWAY_WAF_REGRESSION=all.
func Everything() bool { return os.Getenv("GATEWAY_WAF_REGRESSION") == "all" }
